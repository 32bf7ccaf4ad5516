# SPDX-License-Identifier: Apache-2.0
"""A daemon made of Google's gRPC and protobuf alone, for what is said to clients: zones and workloads are processes of this host.

As a program: foreign_daemon.py SOCKET runs it until it is killed.
"""
import base64
import concurrent.futures
import fcntl
import hashlib
import os
import pty
import queue
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import uuid

import grpc
from grpc_tools import protoc

SRC = os.environ.get("SRC_DIR") or os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
generated = tempfile.mkdtemp(prefix="protect-protos.")
protos = ["protect/control/v1/common.proto", "protect/control/v1/control.proto", "edera/node/v1/node.proto"]
if protoc.main(["protoc", "-I" + SRC + "/proto", "-I/usr/include", "--python_out=" + generated, "--grpc_python_out=" + generated] +
               [SRC + "/proto/" + p for p in protos]):
    sys.exit("protoc failed")
sys.path.insert(0, generated)
from protect.control.v1 import common_pb2 as common, control_pb2 as control, control_pb2_grpc as control_grpc  # noqa: E402
from edera.node.v1 import node_pb2 as node, node_pb2_grpc as node_grpc  # noqa: E402


class Process:
    """A command with pipes or a terminal; chunks come as ("out"|"err", bytes), at the end None."""

    def __init__(self, argv, tty, size=None, env=None, cwd=None):
        self.chunks, self.tty = queue.Queue(maxsize=16), tty
        environment = dict(os.environ, **(env or {}))
        if tty:
            self.master, slave = pty.openpty()
            if size:
                self.resize(size.rows, size.columns)
            self.popen = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, env=environment, cwd=cwd or None,
                                          preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
            os.close(slave)
            self.stdin, sources = self.master, [("out", self.master)]
        else:
            self.popen = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, cwd=cwd or None)
            self.stdin, sources = self.popen.stdin.fileno(), [("out", self.popen.stdout.fileno()), ("err", self.popen.stderr.fileno())]
        self.readers = [threading.Thread(target=self.read, args=s, daemon=True) for s in sources]
        for reader in self.readers:
            reader.start()
        threading.Thread(target=self.reap, daemon=True).start()

    def read(self, name, fd):
        while True:
            try:
                data = os.read(fd, 65536)
            except OSError:
                return
            if not data:
                return
            self.chunks.put((name, data))

    def reap(self):
        self.code = self.popen.wait()
        for reader in self.readers:
            reader.join()
        self.chunks.put(None)

    def write(self, data):
        while data:
            try:
                data = data[os.write(self.stdin, data):]
            except OSError:
                return

    def close_stdin(self):
        if self.tty:
            self.write(b"\x04")
        elif not self.popen.stdin.closed:
            self.popen.stdin.close()

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def status(self):
        return self.code if self.code >= 0 else 128 - self.code


def environment(process):
    return {e.key: e.value for e in process.environment}


class Control(control_grpc.ControlServiceServicer):
    def __init__(self):
        self.lock, self.zones, self.workloads, self.processes, self.watchers, self.calls, self.images = threading.Lock(), {}, {}, {}, [], [], []
        self.imported = []
        self.pull_delay, self.pull_layers, self.create_delay, self.started = 0.02, 3, 0.5, {}

    def said(self, name, request):
        with self.lock:
            self.calls.append((name, request))

    def changed(self, **event):
        key, value = event.popitem()
        copy = type(value)()
        copy.CopyFrom(value)
        reply = control.WatchEventsReply(zone_changed=control.ZoneChangedEvent(zone=copy)) if key == "zone" else \
            control.WatchEventsReply(workload_changed=control.WorkloadChangedEvent(workload=copy))
        for watcher in list(self.watchers):
            watcher.put(reply)

    def WatchEvents(self, request, context):
        events = queue.Queue()
        self.watchers.append(events)
        context.add_callback(lambda: (self.watchers.remove(events), events.put(None)))
        while (event := events.get()) is not None:
            yield event

    # --- zones ---

    def find(self, table, name, what, context):
        for thing in table.values():
            if name in (thing.id, thing.spec.name):
                return thing
        context.abort(grpc.StatusCode.NOT_FOUND, "there is no %s '%s'" % (what, name))

    def CreateZone(self, request, context):
        self.said("CreateZone", request)
        zone = common.Zone(id=str(uuid.uuid4()), spec=request.spec)
        zone.status.state = common.ZONE_STATE_CREATING
        zone.status.domid = len(self.zones) + 1
        zone.status.created_at.GetCurrentTime()
        if zone.spec.name.startswith("late"):
            time.sleep(self.create_delay)
        self.zones[zone.id] = zone
        self.changed(zone=zone)
        threading.Thread(target=self.boot, args=(zone,), daemon=True).start()
        return control.CreateZoneReply(zone_id=zone.id)

    def boot(self, zone):
        time.sleep(0.2)
        if zone.spec.name.startswith("never"):
            return
        if zone.spec.name.startswith("bad"):
            zone.status.error_status.message = "the kernel does not like it here"
            zone.status.state = common.ZONE_STATE_FAILED
        else:
            zone.status.state = common.ZONE_STATE_READY
            zone.status.ready_at.GetCurrentTime()
        self.changed(zone=zone)

    def DestroyZone(self, request, context):
        self.said("DestroyZone", request)
        zone = self.find(self.zones, request.zone_id, "zone", context)
        zone.status.state = common.ZONE_STATE_DESTROYING
        self.changed(zone=zone)

        def gone():
            time.sleep(0.1)
            zone.status.state = common.ZONE_STATE_DESTROYED
            self.zones.pop(zone.id, None)
            self.changed(zone=zone)
        threading.Thread(target=gone, daemon=True).start()
        return control.DestroyZoneReply()

    def ResolveZoneId(self, request, context):
        return control.ResolveZoneIdReply(zone_id=self.find(self.zones, request.name, "zone", context).id)

    def GetZone(self, request, context):
        return control.GetZoneReply(zone=self.find(self.zones, request.zone_id, "zone", context))

    def ListZones(self, request, context):
        for zone in list(self.zones.values()):
            yield control.ListZonesReply(zones=[zone])

    def AttachZoneConsole(self, requests, context):
        first = next(requests)
        self.find(self.zones, first.zone_id, "zone", context)
        if first.replay_history:
            yield control.ZoneConsoleReply(data=b"\x1b[2Jbooting\r\n")
            yield control.ZoneConsoleReply(data=b"ready\r\n")
        done = threading.Event()

        def read():
            try:
                for request in requests:
                    self.said("AttachZoneConsole", request)
            except Exception:
                pass
            done.set()
        threading.Thread(target=read, daemon=True).start()
        n = 0
        while not done.wait(0.05):
            n += 1
            yield control.ZoneConsoleReply(data=b"tick %d\r\n" % n)

    def ExecuteZoneCommand(self, requests, context):
        start = next(requests).start
        self.said("ExecuteZoneCommand", start)
        process = start.process
        try:
            running = Process(list(process.command), process.tty, process.terminal_size if process.HasField("terminal_size") else None, environment(process), process.working_directory)
        except OSError as e:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "cannot run '%s': %s" % (process.command[0], e.strerror))

        def feed():
            try:
                for request in requests:
                    if request.HasField("stdin"):
                        running.write(request.stdin.stdin)
                        if request.stdin.closed:
                            running.close_stdin()
                    elif request.HasField("terminal_resize"):
                        running.resize(request.terminal_resize.size.rows, request.terminal_resize.size.columns)
            except Exception:
                pass
        threading.Thread(target=feed, daemon=True).start()
        context.add_callback(running.popen.kill)
        while (chunk := running.chunks.get()) is not None:
            yield control.ExecuteZoneCommandReply(output=control.ExecuteZoneCommandOutput(**{"stdout" if chunk[0] == "out" else "stderr": chunk[1]}))
        yield control.ExecuteZoneCommandReply(exited=control.ExecuteZoneCommandExited(exit_code=running.status()))

    # --- images ---

    def ImportImage(self, requests, context):
        first = next(requests)
        self.said("ImportImage", first)
        digest, spec = hashlib.sha256(first.chunk), common.OciImageSpec(digest="sha256:" + "cd" * 32, format=first.format)
        if "cached" in first.image:
            yield control.ImportImageReply(spec=spec)
            return
        if "following" in first.image:
            yield control.ImportImageReply()
            time.sleep(0.3)
            yield control.ImportImageReply(spec=spec)
            return
        yield control.ImportImageReply(accepted=True)
        size = len(first.chunk)
        for r in requests:
            digest.update(r.chunk)
            size += len(r.chunk)
            if "refused" in first.image and size > 1 << 20:
                context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "what is sent is larger than the 1 MiB allowed")
            time.sleep(self.pull_delay)
            if r.last_chunk:
                break
        self.imported.append((size, digest.hexdigest(), r.last_chunk))
        for phase in (2, 3, 4, 5, 6, 7):
            yield control.ImportImageReply(progress=common.OciImageProgress(phase=phase))
        yield control.ImportImageReply(spec=spec)

    def PullImage(self, request, context):
        self.said("PullImage", request)
        name = request.image or request.kernel_variant
        if "missing" in name:
            context.abort(grpc.StatusCode.NOT_FOUND, "there is no image '%s'" % name)

        def report(phase, done, layers=self.pull_layers, total=5 << 20):
            progress = common.OciImageProgress(phase=phase)
            for i in range(layers):
                current = min(total, done)
                layer = progress.layers.add(id="sha256:%064x" % (i * 0x1234567 + 1))
                layer.phase = common.OCI_IMAGE_PROGRESS_LAYER_PHASE_DOWNLOADING if current < total else common.OCI_IMAGE_PROGRESS_LAYER_PHASE_DOWNLOADED
                layer.indication.bar.current, layer.indication.bar.total, layer.indication.bar.is_bytes = current, total, True
            return control.PullImageReply(progress=progress)
        if "cached" in name:
            yield control.PullImageReply(spec=common.OciImageSpec(digest="sha256:" + "ab" * 32, format=request.format))
            return
        for phase in (1, 2, 3, 4):
            yield control.PullImageReply(progress=common.OciImageProgress(phase=phase))
            time.sleep(self.pull_delay)
        for i in range(11):
            yield report(common.OCI_IMAGE_PROGRESS_PHASE_LAYER_DOWNLOAD, i * (5 << 20) // 10)
            time.sleep(self.pull_delay)
            if "broken" in name and i == 6:
                context.abort(grpc.StatusCode.DATA_LOSS, "cannot pull '%s': the layer sha256:0123 is not what it should be" % name)
        for phase in (6, 7, 8):
            yield report(phase, 5 << 20)
        spec = common.OciImageSpec(digest="sha256:" + "ab" * 32, format=request.format)
        self.images.append(name)
        yield control.PullImageReply(spec=spec, metadata=common.OciImageMetadata(manifest=b"{}", config=b"\x00\xff"))

    def RemoveImage(self, request, context):
        self.said("RemoveImage", request)
        return control.RemoveImageReply(removed=True)

    def ListKernelVariants(self, request, context):
        return control.ListKernelVariantsReply(variants=[
            control.KernelVariant(name="nvidia", image="ghcr.io/edera-dev/zone-nvidiagpu-kernel:6.18-nvidia-610.43.02")])

    # --- workloads ---

    def CreateWorkload(self, request, context):
        self.said("CreateWorkload", request)
        if request.spec.name == "refused":
            time.sleep(self.create_delay)
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "there is no room")
        if request.spec.pci_devices or request.spec.scratch_mount:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "there are no scratch disks here")
        workload = common.Workload(id=str(uuid.uuid4()), spec=request.spec)
        workload.status.state = common.WORKLOAD_STATE_CREATED
        self.workloads[workload.id] = workload
        self.started[workload.id] = threading.Event()
        self.changed(workload=workload)
        return control.CreateWorkloadReply(workload_id=workload.id)

    def StartWorkload(self, request, context):
        workload = self.find(self.workloads, request.workload_id, "workload", context)
        process = workload.spec.process
        try:
            self.processes[workload.id] = Process(list(process.command) or ["true"], process.tty, process.terminal_size if process.HasField("terminal_size") else None, environment(process))
        except OSError as e:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "cannot run '%s': %s" % (process.command[0], e.strerror))
        workload.status.state = common.WORKLOAD_STATE_RUNNING
        self.changed(workload=workload)
        self.started[workload.id].set()
        # Calls come in threads of their own: one that attaches may still be on its way.
        threading.Timer(0.5, self.drain, (workload,)).start()
        return control.StartWorkloadReply()

    attached = {}

    def drain(self, workload):
        if self.attached.get(workload.id):
            return
        running = self.processes[workload.id]
        while running.chunks.get() is not None:
            pass
        self.ended(workload)

    def ended(self, workload):
        workload.status.exit_status.code = self.processes[workload.id].status()
        workload.status.state = common.WORKLOAD_STATE_COMPLETED
        self.changed(workload=workload)

    def AttachWorkloadConsole(self, requests, context):
        first = next(requests)
        workload = self.find(self.workloads, first.workload_id, "workload", context)
        self.attached[workload.id] = True

        def feed():
            self.started[workload.id].wait()
            running = self.processes.get(workload.id)
            try:
                for request in requests:
                    running.write(request.stdin)
                    if request.stdin_closed:
                        running.close_stdin()
                    if request.HasField("terminal_resize"):
                        running.resize(request.terminal_resize.rows, request.terminal_resize.columns)
            except Exception:
                pass
        threading.Thread(target=feed, daemon=True).start()
        context.add_callback(self.started[workload.id].set)
        self.started[workload.id].wait()
        running = self.processes.get(workload.id)
        while running and (chunk := running.chunks.get()) is not None:
            yield control.WorkloadConsoleReply(**{"stdout" if chunk[0] == "out" else "stderr": chunk[1]})
        # The console ends a little before the state says so.
        if running:
            threading.Timer(0.1, self.ended, (workload,)).start()

    def StopWorkload(self, request, context):
        self.said("StopWorkload", request)
        return control.StopWorkloadReply()

    def DestroyWorkload(self, request, context):
        self.said("DestroyWorkload", request)
        workload = self.find(self.workloads, request.workload_id, "workload", context)
        if workload.id in self.processes:
            self.processes[workload.id].popen.kill()
        del self.workloads[workload.id]
        return control.DestroyWorkloadReply()

    def ResolveWorkloadId(self, request, context):
        return control.ResolveWorkloadIdReply(workload_id=self.find(self.workloads, request.name, "workload", context).id)

    def GetWorkload(self, request, context):
        return control.GetWorkloadReply(workload=self.find(self.workloads, request.workload_id, "workload", context))

    def ListWorkloads(self, request, context):
        yield control.ListWorkloadsReply(workloads=list(self.workloads.values()))

    # --- host ---

    def GetHostStatus(self, request, context):
        return control.GetHostStatusReply(host_uuid="f00", host_domid=0, protect_version="0.1.0", host_ipv4="10.0.0.1/8", hyp_free_mem=1 << 34)

    def GetHostCpuTopology(self, request, context):
        return control.GetHostCpuTopologyReply(cpus=[common.HostCpuTopologyInfo(core=i // 2, thread=i % 2) for i in range(4)])


class Node(node_grpc.NodeServiceServicer):
    def __init__(self, control_service):
        self.control = control_service

    def ListPlugins(self, request, context):
        return node.ListPluginsReply(plugins=[
            node.Plugin(name="kvm", kinds=["hypervisor"], version="0.1.0", abi="1.0", state=node.PLUGIN_STATE_LOADED, path="/usr/lib/edera/plugins/kvm.so"),
            node.Plugin(name="bad", state=node.PLUGIN_STATE_ERROR, reason="it is no ELF file", path="/usr/lib/edera/plugins/bad.so")])

    def ListImages(self, request, context):
        return node.ListImagesReply(images=[
            node.Image(digest="sha256:" + c * 64, format=f, names=n, bytes=b, created=int(time.time()) - 7200, in_use=f == "squashfs")
            for c, f, n, b in (("a", "squashfs", ["docker.io/library/alpine:3.20"], 3 << 20), ("b", "directory", [], 12345))])

    def PruneImages(self, request, context):
        self.control.said("PruneImages", request)
        return node.PruneImagesReply(removed=[node.Image(digest="sha256:" + "b" * 64, bytes=12345)], freed=12345)

    def ListKernelVariants(self, request, context):
        return node.ListKernelVariantsReply(variants=[node.KernelVariant(name="nvidia", image="ghcr.io/x:1", source="config", digest="sha256:" + "c" * 64)])

    def ReadWorkloadLogs(self, request, context):
        yield node.ReadWorkloadLogsReply(stdout=b"out\n")
        yield node.ReadWorkloadLogsReply(stderr=b"err\n")


def serve(socket):
    service = Control()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(max_workers=64), options=[("grpc.max_receive_message_length", 4 << 20)])
    control_grpc.add_ControlServiceServicer_to_server(service, server)
    node_grpc.add_NodeServiceServicer_to_server(Node(service), server)
    server.add_insecure_port("unix:" + socket)
    server.start()
    return server, service


if __name__ == "__main__":
    serve(sys.argv[1])[0].wait_for_termination()
