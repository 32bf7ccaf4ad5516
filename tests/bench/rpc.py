#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""rpc.py [ROUNDS]: our gRPC against gRPC's own C++ library and Python's, each client with each server, on a unix socket.

Unary: one empty call after the other, microseconds a call; stream: 512 MB in messages of 64 KiB, MB a second; both as the clock says, and as processor time of
client and server together, which a busy machine spoils less. Once: a process that starts, makes one call and ends, milliseconds. In turn, one round after the other; medians. Needs libgrpc++-dev, protobuf-compiler-grpc, python3-grpcio and python3-grpc-tools;
SRC_DIR and BUILD_DIR set."""

import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

SRC, BUILD = os.environ["SRC_DIR"], os.environ["BUILD_DIR"]
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 7
OURS = os.path.join(BUILD, "tests/integration/grpc_echo")
CALLS, MESSAGES, SIZE = 20000, 8192, 65536
MEGABYTES = MESSAGES * SIZE / 1e6

PYTHON_CLIENT = """
import sys, time
sys.path.insert(0, sys.argv[1])
import grpc, echo_pb2, echo_pb2_grpc
stub = echo_pb2_grpc.EchoStub(grpc.insecure_channel('unix:' + sys.argv[2]))
start = time.monotonic()
if sys.argv[3] == 'Unary':
    for _ in range(int(sys.argv[4])): stub.Unary(echo_pb2.EchoRequest())
    print('us_per_call=%f' % ((time.monotonic() - start) * 1e6 / int(sys.argv[4])))
else:
    for _ in stub.ServerStream(echo_pb2.EchoRequest(count=int(sys.argv[4]), size=int(sys.argv[5]))): pass
    print('seconds=%f' % (time.monotonic() - start))
"""


def build_peer(tmp):
    protos = ["protoc", f"-I{SRC}/tests/integration", f"--cpp_out={tmp}", f"--grpc_out={tmp}", "--plugin=protoc-gen-grpc=/usr/bin/grpc_cpp_plugin", "echo.proto"]
    subprocess.run(protos, check=True)
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{SRC}/tests/integration", f"--python_out={tmp}", f"--grpc_python_out={tmp}", "echo.proto"],
                   check=True)
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "grpc++", "protobuf"], check=True, stdout=subprocess.PIPE).stdout.decode().split()
    peer = os.path.join(tmp, "rpc-peer")
    subprocess.run(["c++", "-O2", "-std=c++17", f"-I{tmp}", "-o", peer, f"{SRC}/tests/bench/rpc-peer.cc", f"{tmp}/echo.pb.cc", f"{tmp}/echo.grpc.pb.cc",
                    *flags], check=True)
    return peer


def cpu_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(command, server):
    """What the command printed, its wall time and the processor time of both ends, in seconds."""
    start, cpu = time.monotonic(), cpu_of(server)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.decode()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    values = {k: float(v) for k, v in (line.split("=", 1) for line in out.split() if line.startswith(("us_per_call=", "seconds=")))}
    values["wall"] = time.monotonic() - start
    values["cpu"] = cpu_of(server) - cpu + after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return values


def main():
    with tempfile.TemporaryDirectory(prefix="bench-rpc-") as tmp:
        peer = build_peer(tmp)
        servers = {"protect": OURS, "gRPC C++": peer}
        clients = {
            "protect": lambda s: ([OURS, "call", s, "Unary", f"repeat={CALLS}"], [OURS, "call", s, "ServerStream", f"count={MESSAGES}", f"size={SIZE}"],
                                  [OURS, "call", s, "Unary", "repeat=1"]),
            "gRPC C++": lambda s: ([peer, "call", s, "Unary", str(CALLS)], [peer, "call", s, "ServerStream", str(MESSAGES), str(SIZE)],
                                   [peer, "call", s, "Unary", "1"]),
            "gRPC Python": lambda s: tuple([sys.executable, "-c", PYTHON_CLIENT, tmp, s, *rest] for rest in
                                           (["Unary", str(CALLS)], ["ServerStream", str(MESSAGES), str(SIZE)], ["Unary", "1"])),
        }
        processes, sockets, results = [], {}, {}
        try:
            for name, program in servers.items():
                sockets[name] = os.path.join(tmp, name.replace(" ", "-"))
                processes.append(subprocess.Popen([program, "serve", sockets[name]], stdout=subprocess.PIPE))
                processes[-1].stdout.readline()
            for n in range(ROUNDS + 1):
                for (server, socket), process in zip(sockets.items(), processes):
                    for client, commands in clients.items():
                        unary, stream, once = (run(c, process.pid) for c in commands(socket))
                        if not n:
                            continue  # the first round warms up
                        r = results.setdefault((server, client), ([], [], [], [], []))
                        r[0].append(unary["us_per_call"])
                        r[1].append((unary["cpu"] - once["cpu"]) * 1e6 / CALLS)
                        r[2].append(MEGABYTES / stream["seconds"])
                        r[3].append(MEGABYTES / (stream["cpu"] - once["cpu"]))
                        r[4].append(once["wall"] * 1000)
            memory = {name: next(line.split()[1] for line in open(f"/proc/{p.pid}/smaps_rollup") if line.startswith("Pss_Anon"))
                      for name, p in zip(servers, processes)}
        finally:
            for p in processes:
                p.kill()
                p.wait()
        print("| server | client | unary, µs | processor, µs | stream, MB/s | a processor second, MB | once, ms |\n|---|---|---|---|---|---|---|")
        for (server, client), r in results.items():
            print(f"| {server} | {client} | " + " | ".join(f"{statistics.median(values):.0f}" for values in r) + " |")
        for name, kib in memory.items():
            print(f"Anonymous memory of the {name} server after all that: {int(kib) / 1024:.1f} MB")


main()
