#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our gRPC server against grpcio's client, and our client against grpcio's server."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent import futures

try:
    import grpc
    from grpc_tools import protoc
except ImportError as e:
    print(f"needs python3-grpcio and python3-grpc-tools: {e}")
    sys.exit(77)

SRC = os.environ.get("SRC_DIR", os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
BUILD = os.environ.get("BUILD_DIR", SRC)
PROGRAM = os.path.join(BUILD, "tests/integration/grpc_echo")
SANITIZED = "#define PROTECT_SANITIZED 1" in open(os.path.join(BUILD, "config.h"), encoding="utf-8").read()

tmp = tempfile.TemporaryDirectory(prefix="grpc-foreign-")
if protoc.main(["", f"-I{SRC}/tests/integration", f"--python_out={tmp.name}", f"--grpc_python_out={tmp.name}", "echo.proto"]):
    sys.exit("cannot generate code from echo.proto")
sys.path.insert(0, tmp.name)
import echo_pb2  # noqa: E402
import echo_pb2_grpc  # noqa: E402

Request = echo_pb2.EchoRequest
Reply = echo_pb2.EchoReply
MIB = 1 << 20
NON_ASCII = "Zone „grün“ fehlt: 100% ✓\t𝄞"
UNLIMITED = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


def await_true(what, seconds=10):
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            raise AssertionError("did not become true in time")
        time.sleep(0.02)


class OurServer(unittest.TestCase):
    """grpcio calls us."""

    @classmethod
    def setUpClass(cls):
        cls.socket = os.path.join(tmp.name, "server.socket")
        cls.process = subprocess.Popen([PROGRAM, "serve", cls.socket], stdout=subprocess.PIPE)
        cls.process.stdout.readline()

    @classmethod
    def tearDownClass(cls):
        cls.process.terminate()
        assert cls.process.wait(10) == 0, "the server did not end well"
        cls.process.stdout.close()
        assert not os.path.exists(cls.socket)

    def setUp(self):
        self.channel = grpc.insecure_channel(f"unix:{self.socket}", options=UNLIMITED + [("grpc.use_local_subchannel_pool", 1)])
        self.stub = echo_pb2_grpc.EchoStub(self.channel)

    def tearDown(self):
        self.channel.close()

    def stats(self):
        with grpc.insecure_channel(f"unix:{self.socket}", options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            return echo_pb2_grpc.EchoStub(channel).Stats(Request(), timeout=10)

    def assert_status(self, code, call, details=None):
        with self.assertRaises(grpc.RpcError) as e:
            call()
        self.assertEqual(e.exception.code(), code, e.exception.details())
        if details is not None:
            self.assertEqual(e.exception.details(), details)
        return e.exception

    def test_unary(self):
        reply, call = self.stub.Unary.with_call(Request(text="grüße ✓"), timeout=10, metadata=[("x-plain", "a b"), ("x-many", "1"), ("x-many", "2"),
                                                ("x-raw-bin", b"\x00\xff")])
        self.assertEqual(reply.text, "grüße ✓")
        self.assertEqual(call.code(), grpc.StatusCode.OK)

    def test_streams(self):
        numbers = [r.number for r in self.stub.ServerStream(Request(count=1000, size=1000), timeout=20)]
        self.assertEqual(numbers, list(range(1, 1001)))
        self.assertEqual(self.stub.ClientStream((Request(text=str(i)) for i in range(500)), timeout=20).number, 500)
        self.assertEqual(self.stub.ClientStream(iter(()), timeout=20).number, 0)
        self.assertEqual([r.text for r in self.stub.Bidi((Request(text=str(i)) for i in range(500)), timeout=20)], [str(i) for i in range(500)])

    def test_bidi_is_interleaved(self):
        asked = threading.Semaphore(1)

        def ask():
            for i in range(50):
                asked.acquire()
                yield Request(text=str(i))
        for i, reply in enumerate(self.stub.Bidi(ask(), timeout=20)):
            self.assertEqual(reply.text, str(i))
            asked.release()

    def test_headers_come_before_messages(self):
        hold = threading.Event()

        def ask():
            hold.wait(10)
            yield Request()
        call = self.stub.Bidi(ask(), timeout=20)
        self.assertIsNotNone(call.initial_metadata())
        hold.set()
        self.assertEqual(len(list(call)), 1)

    def test_status_with_message(self):
        self.assert_status(grpc.StatusCode.NOT_FOUND, lambda: self.stub.Unary(Request(code=5, message=NON_ASCII), timeout=10), NON_ASCII)
        self.assert_status(grpc.StatusCode.ABORTED, lambda: self.stub.Unary(Request(code=10), timeout=10), "")
        call = self.stub.ServerStream(Request(count=3, code=9, message=NON_ASCII), timeout=10)
        self.assertEqual([next(call).number for _ in range(3)], [1, 2, 3])
        self.assert_status(grpc.StatusCode.FAILED_PRECONDITION, lambda: next(call), NON_ASCII)

    def test_long_message_is_cut(self):
        e = self.assert_status(grpc.StatusCode.NOT_FOUND, lambda: self.stub.Unary(Request(code=5, message="é" * 100000), timeout=10))
        self.assertEqual(e.details(), "é" * 1024)

    def test_unimplemented(self):
        self.assert_status(grpc.StatusCode.UNIMPLEMENTED, lambda: self.stub.Unserved(Request(), timeout=10))
        other = self.channel.unary_unary("/no.such.Service/Method", request_serializer=bytes, response_deserializer=bytes)
        self.assert_status(grpc.StatusCode.UNIMPLEMENTED, lambda: other(b"", timeout=10))

    def test_compression_is_refused(self):
        self.assert_status(grpc.StatusCode.UNIMPLEMENTED,
                           lambda: self.stub.Unary(Request(text="a" * 10000), timeout=10, compression=grpc.Compression.Gzip))

    def test_malformed_requests(self):
        for bad in (b"\xff", b"\x0a\x01\xff", b"\x0a\x03a\0b", b"\x0b\x0c"):
            raw = self.channel.unary_unary("/test.echo.v1.Echo/Unary", request_serializer=bytes, response_deserializer=bytes)
            self.assert_status(grpc.StatusCode.INVALID_ARGUMENT, lambda: raw(bad, timeout=10))

    def test_deadline(self):
        start = time.monotonic()
        self.assert_status(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: self.stub.Unary(Request(delay_ms=8000), timeout=0.2))
        self.assertLess(time.monotonic() - start, 3)
        await_true(lambda: self.stats().live == 0)

    def test_cancel(self):
        before = self.stats().cancelled
        call = self.stub.ServerStream(Request(size=1000))
        next(call)
        call.cancel()
        await_true(lambda: self.stats().cancelled == before + 1)
        await_true(lambda: self.stats().live == 0)

    def test_sizes(self):
        size = int(3.9 * MIB)
        self.assertEqual(len(self.stub.Unary(Request(data=bytes(size)), timeout=20).data), size)
        self.assert_status(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: self.stub.Unary(Request(data=bytes(5 * MIB)), timeout=20))
        self.assert_status(grpc.StatusCode.RESOURCE_EXHAUSTED,
                           lambda: list(self.stub.Bidi(iter([Request(data=bytes(5 * MIB))]), timeout=20)))
        self.assertEqual(len(self.stub.Unary(Request(size=5 * MIB), timeout=20).data), 5 * MIB)
        self.assertEqual(self.stub.Unary(Request(text="still there"), timeout=20).text, "still there")

    def test_many_large_at_once(self):
        size = 3 * MIB
        calls = [self.stub.Unary.future(Request(data=bytes(size)), timeout=60) for _ in range(16)]
        self.assertEqual([len(c.result().data) for c in calls], [size] * 16)

    def test_many_concurrent(self):
        streams = [self.stub.ServerStream(Request(size=10)) for _ in range(1000)]
        for s in streams:
            next(s)
        self.assertEqual(self.stats().live, 1000)
        for s in streams:
            s.cancel()
        calls = [self.stub.Unary.future(Request(delay_ms=200), timeout=60) for _ in range(1000)]
        for c in calls:
            c.result()
        await_true(lambda: self.stats().live == 0)

    def test_slow_reader(self):
        before = self.stats().rss_kib
        streams = [self.stub.ServerStream(Request(size=100000)) for _ in range(50)]
        for s in streams:
            next(s)
        time.sleep(1)
        first = self.stats().rss_kib
        time.sleep(1)
        second = self.stats().rss_kib
        self.assertLess(first - before, (200 if SANITIZED else 40) * 1024)
        self.assertLess(second - first, (50 if SANITIZED else 2) * 1024)
        for s in streams:
            for _ in range(20):
                next(s)
            s.cancel()

    def test_client_killed(self):
        code = ("import sys, threading, time; sys.path.insert(0, sys.argv[1]); import grpc, echo_pb2, echo_pb2_grpc\n"
                "s = echo_pb2_grpc.EchoStub(grpc.insecure_channel('unix:' + sys.argv[2]))\n"
                "a = s.ServerStream(echo_pb2.EchoRequest(size=1000)); next(a)\n"
                "e = threading.Event()\n"
                "def ask(): yield echo_pb2.EchoRequest(); e.wait()\n"
                "b = s.Bidi(ask()); next(b)\n"
                "print('streaming', flush=True); time.sleep(60)\n")
        with subprocess.Popen([sys.executable, "-c", code, tmp.name, self.socket], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            live = self.stats().live
            child.kill()
            self.assertEqual(live, 2)
        await_true(lambda: self.stats().live == 0)

    def test_keepalive(self):
        options = [("grpc.keepalive_time_ms", 100), ("grpc.keepalive_timeout_ms", 1000), ("grpc.keepalive_permit_without_calls", 1),
                   ("grpc.http2.max_pings_without_data", 0), ("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self.socket}", options=options) as channel:
            stub = echo_pb2_grpc.EchoStub(channel)
            stub.Unary(Request(), timeout=10)
            call = stub.Unary.future(Request(delay_ms=1500, text="after pings"), timeout=10)
            self.assertEqual(call.result().text, "after pings")

    def test_graceful_end(self):
        path = os.path.join(tmp.name, "ending.socket")
        with subprocess.Popen([PROGRAM, "serve", path], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            with grpc.insecure_channel(f"unix:{path}") as channel:
                stub = echo_pb2_grpc.EchoStub(channel)
                stub.Unary(Request(), timeout=10)
                running = stub.Unary.future(Request(delay_ms=500, text="in time"), timeout=10)
                endless = stub.ServerStream(Request(size=10), timeout=30)
                next(endless)
                child.terminate()
                self.assertEqual(running.result().text, "in time")
                # All of it is UNAVAILABLE: calls still running after the grace, and new ones.
                self.assert_status(grpc.StatusCode.UNAVAILABLE, lambda: [r for r in endless])
                self.assertEqual(child.wait(10), 0)
                self.assert_status(grpc.StatusCode.UNAVAILABLE, lambda: stub.Unary(Request(), timeout=10))


class Servicer(echo_pb2_grpc.EchoServicer):
    def __init__(self):
        self.cancelled = threading.Event()
        self.sent = 0

    def Unary(self, request, context):
        time.sleep(request.delay_ms / 1000)
        if request.code:
            context.abort(list(grpc.StatusCode)[request.code], request.message)
        return Reply(text=request.text, data=bytes(request.size) or request.data, number=1)

    def ServerStream(self, request, context):
        context.add_callback(self.cancelled.set)
        n = 0
        while context.is_active() and (n < request.count or not request.count):
            n += 1
            self.sent += 1
            yield Reply(number=n, data=bytes(request.size))
        if request.code:
            context.abort(list(grpc.StatusCode)[request.code], request.message)

    def ClientStream(self, requests, context):
        return Reply(number=sum(1 for _ in requests))

    def Bidi(self, requests, context):
        for n, request in enumerate(requests):
            yield Reply(text=request.text, data=request.data, number=n + 1)


class OurClient(unittest.TestCase):
    """We call grpcio."""

    def setUp(self):
        self.server = None
        self.serve()

    def serve(self, options=()):
        if self.server:
            self.server.stop(None).wait()
        self.socket = os.path.join(tmp.name, f"foreign-{time.monotonic_ns()}.socket")
        self.servicer = Servicer()
        self.server = grpc.server(futures.ThreadPoolExecutor(max_workers=40), options=[("grpc.so_reuseport", 0), *options])
        echo_pb2_grpc.add_EchoServicer_to_server(self.servicer, self.server)
        self.server.add_insecure_port(f"unix:{self.socket}")
        self.server.start()

    def tearDown(self):
        self.server.stop(None).wait()

    def call(self, method, **keys):
        r = subprocess.run([PROGRAM, "call", self.socket, method, *(f"{k}={v}" for k, v in keys.items())], stdout=subprocess.PIPE, timeout=60)
        self.assertEqual(r.returncode, 0)
        return dict(line.split("=", 1) for line in r.stdout.decode().split("\n") if "=" in line)

    def test_unary(self):
        got = self.call("Unary", text="grüße ✓")
        self.assertEqual((got["status"], got["text"]), ("OK", "grüße ✓"))

    def test_streams(self):
        got = self.call("ServerStream", count=1000, size=1000)
        self.assertEqual((got["status"], got["messages"], got["last"], got["bytes"]), ("OK", "1000", "1000", "1000000"))
        got = self.call("ClientStream", send=500)
        self.assertEqual((got["status"], got["last"]), ("OK", "500"))
        got = self.call("Bidi", send=500, data=5000)
        self.assertEqual((got["status"], got["messages"], got["bytes"]), ("OK", "500", "2500000"))

    def test_status_with_message(self):
        got = self.call("Unary", code=5, message=NON_ASCII)
        self.assertEqual((got["status"], got["message"]), ("NOT_FOUND", NON_ASCII))
        got = self.call("ServerStream", count=3, code=9, message=NON_ASCII)
        self.assertEqual((got["status"], got["message"], got["messages"]), ("FAILED_PRECONDITION", NON_ASCII, "3"))
        self.assertEqual(self.call("Unserved")["status"], "UNIMPLEMENTED")

    def test_deadline(self):
        start = time.monotonic()
        self.assertEqual(self.call("Unary", delay=2000, timeout=200)["status"], "DEADLINE_EXCEEDED")
        self.assertLess(time.monotonic() - start, 1.5)

    def test_cancel(self):
        got = self.call("ServerStream", size=10, cancel=5)
        self.assertEqual((got["status"], got["messages"]), ("CANCELLED", "5"))
        self.assertTrue(self.servicer.cancelled.wait(10))

    def test_sizes(self):
        size = int(3.9 * MIB)
        got = self.call("Unary", data=size)
        self.assertEqual((got["status"], got["bytes"]), ("OK", str(size)))
        self.assertEqual(self.call("Unary", data=5 * MIB)["status"], "RESOURCE_EXHAUSTED")
        self.assertEqual(self.call("Unary", size=5 * MIB)["status"], "RESOURCE_EXHAUSTED")

    def test_many_concurrent(self):
        self.assertEqual(self.call("Unary", calls=1000, delay=5).get("OK"), "1000")
        self.serve([("grpc.max_concurrent_streams", 10)])
        self.assertEqual(self.call("Unary", calls=200, delay=5).get("OK"), "200")

    def test_slow_reader(self):
        got = self.call("ServerStream", count=300, size=MIB, pause=1000)
        self.assertEqual((got["status"], got["messages"]), ("OK", "300"))
        self.assertLess(int(got["rss_kib"]), (300 if SANITIZED else 30) * 1024)

    def test_compression_is_refused(self):
        self.server.stop(None).wait()
        self.server = grpc.server(futures.ThreadPoolExecutor(), compression=grpc.Compression.Gzip)
        echo_pb2_grpc.add_EchoServicer_to_server(self.servicer, self.server)
        self.socket += "z"
        self.server.add_insecure_port(f"unix:{self.socket}")
        self.server.start()
        got = self.call("Unary", data=10000)  # grpcio compresses although we say that we take identity only
        self.assertEqual((got["status"], got["message"]), ("UNIMPLEMENTED", "compressed messages are not supported"))

    def test_server_ends(self):
        with subprocess.Popen([PROGRAM, "call", self.socket, "ServerStream", "size=10"], stdout=subprocess.PIPE) as child:
            await_true(lambda: self.servicer.sent > 100)
            self.server.stop(None).wait()
            out = child.stdout.read().decode()
            self.assertEqual(child.wait(10), 0)
        self.assertRegex(out, "status=(UNAVAILABLE|CANCELLED)")
        self.assertEqual(self.call("Unary")["status"], "UNAVAILABLE")


if __name__ == "__main__":
    signal.alarm(500)
    unittest.main(verbosity=2)
