#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""control.py TARGET IMAGE: a stock gRPC client of the control protocol, for grpc-client.sh."""
import queue
import sys
import threading
import time

import grpc
from protect.control.v1 import common_pb2 as common
from protect.control.v1 import control_pb2 as control
from protect.control.v1 import control_pb2_grpc as control_grpc

failures = 0


def same(what, expected, got):
    global failures
    if expected == got:
        print("ok  ", what)
    else:
        failures += 1
        print(f"FAIL {what}: expected {expected!r}, got {got!r}")


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code(), error.details()
    return grpc.StatusCode.OK, ""


def execute(stub, zone_id, command, stdin=b"", workload_id=""):
    """Runs a command; gives its exit code and what it wrote."""
    def requests():
        process = common.ProcessSpec(command=command, stdin=True, stdout=True, stderr=True)
        yield control.ExecuteZoneCommandRequest(
            start=control.ExecuteZoneCommandStart(zone_id=zone_id, workload_id=workload_id, process=process))
        if stdin:
            yield control.ExecuteZoneCommandRequest(stdin=control.ExecuteZoneCommandStdin(stdin=stdin))
        yield control.ExecuteZoneCommandRequest(stdin=control.ExecuteZoneCommandStdin(closed=True))

    stdout, code = b"", None
    for reply in stub.ExecuteZoneCommand(requests(), timeout=60):
        if reply.WhichOneof("reply") == "output":
            stdout += reply.output.stdout
        else:
            code = reply.exited.exit_code
    return code, stdout


def main(target, image):
    channel = grpc.insecure_channel(target)
    stub = control_grpc.ControlServiceStub(channel)

    status = stub.GetHostStatus(control.GetHostStatusRequest(), timeout=10)
    same("host status has a uuid", 36, len(status.host_uuid))

    events = queue.Queue()
    watch = stub.WatchEvents(control.WatchEventsRequest())

    def collect():
        try:
            for event in watch:
                events.put(event)
        except grpc.RpcError as error:
            events.put(error.code())
    threading.Thread(target=collect, daemon=True).start()

    kernel = None
    phases = []
    for reply in stub.PullImage(control.PullImageRequest(kernel_variant="debian", format=common.OCI_IMAGE_FORMAT_DIRECTORY), timeout=120):
        if reply.HasField("progress"):
            phases.append(reply.progress.phase)
        if reply.HasField("spec"):
            kernel = reply.spec
    same("the kernel is pulled by variant", True, kernel is not None and kernel.digest.startswith("sha256:"))
    same("with progress in order", sorted(phases), phases)

    spec = common.ZoneSpec(
        name="foreign", kernel=kernel,
        initial_resources=common.ZoneResourcesSpec(max_memory=512, target_memory=512, max_cpus=1, target_cpus=1),
        annotations=[common.AnnotationSpec(key="example.org/who", value="a foreign client")])
    zone_id = stub.CreateZone(control.CreateZoneRequest(spec=spec), timeout=60).zone_id
    same("the zone has a uuid", 36, len(zone_id))

    states = []
    while not states or states[-1] not in (common.ZONE_STATE_READY, common.ZONE_STATE_FAILED):
        event = events.get(timeout=120)
        if isinstance(event, grpc.StatusCode):
            same("the watch goes on", None, event)
            break
        if event.WhichOneof("event") == "zone_changed" and event.zone_changed.zone.id == zone_id:
            states.append(event.zone_changed.zone.status.state)
    same("the watch ends with a ready zone", common.ZONE_STATE_READY, states[-1] if states else None)
    same("and its states only advance", sorted(states), states)

    zone = stub.GetZone(control.GetZoneRequest(zone_id=zone_id), timeout=10).zone
    same("what was asked for is kept", [("example.org/who", "a foreign client")], [(a.key, a.value) for a in zone.spec.annotations])
    same("domid is a number that clients accept", True, 0 < zone.status.domid < 2**32 - 1)
    same("created before ready", True, zone.status.created_at.ToNanoseconds() <= zone.status.ready_at.ToNanoseconds())
    same("resolved by name", zone_id, stub.ResolveZoneId(control.ResolveZoneIdRequest(name="foreign"), timeout=10).zone_id)
    listed = [z.id for reply in stub.ListZones(control.ListZonesRequest(), timeout=10) for z in reply.zones]
    same("listed", [zone_id], listed)
    variants = {v.name: v.image for v in stub.ListKernelVariants(control.ListKernelVariantsRequest(), timeout=10).variants}
    same("variants are listed", True, variants.get("debian", "").endswith("/zone-kernel:debian"))

    same("exec", (0, b"hello\n"), execute(stub, zone_id, ["echo", "hello"]))
    same("exec's exit code", 5, execute(stub, zone_id, ["sh", "-c", "exit 5"])[0])
    same("exec with stdin", (0, b"ABC"), execute(stub, zone_id, ["tr", "a-z", "A-Z"], b"abc"))
    big = bytes(range(256)) * 8192
    same("2 MiB through cat", (0, big), execute(stub, zone_id, ["cat"], big))

    for reply in stub.PullImage(control.PullImageRequest(image=image, format=common.OCI_IMAGE_FORMAT_SQUASHFS), timeout=120):
        if reply.HasField("spec"):
            workload_image = reply.spec
    workload = common.WorkloadSpec(name="w", zone_id=zone_id, image=workload_image,
                                   process=common.ProcessSpec(command=["sleep", "1000"], stdout=True, stderr=True))
    workload_id = stub.CreateWorkload(control.CreateWorkloadRequest(spec=workload), timeout=60).workload_id
    stub.StartWorkload(control.StartWorkloadRequest(workload_id=workload_id), timeout=60)
    got = stub.GetWorkload(control.GetWorkloadRequest(workload_id=workload_id), timeout=10).workload
    same("a workload runs", common.WORKLOAD_STATE_RUNNING, got.status.state)
    same("exec in it", (0, b"1000\n"), execute(stub, zone_id, ["sh", "-c", "tr '\\0' '\\n' </proc/1/cmdline | tail -n 1"], workload_id=workload_id))
    stub.StopWorkload(control.StopWorkloadRequest(workload_id=workload_id, timeout=1), timeout=60)
    stub.DestroyWorkload(control.DestroyWorkloadRequest(workload_id=workload_id), timeout=60)

    unknown = "00000000-0000-4000-8000-000000000000"
    same("an unknown zone", grpc.StatusCode.NOT_FOUND, code_of(lambda: stub.GetZone(control.GetZoneRequest(zone_id=unknown), timeout=10))[0])
    same("a name that is taken", grpc.StatusCode.ALREADY_EXISTS,
         code_of(lambda: stub.CreateZone(control.CreateZoneRequest(spec=spec), timeout=30))[0])
    code, details = code_of(lambda: stub.SnoopIdm(control.SnoopIdmRequest(), timeout=10).next())
    same("a method not supported", grpc.StatusCode.UNIMPLEMENTED, code)
    same("is told in words", True, len(details) > 5)

    stub.DestroyZone(control.DestroyZoneRequest(zone_id=zone_id), timeout=30)
    gone = time.monotonic() + 20
    code = grpc.StatusCode.OK
    while code != grpc.StatusCode.NOT_FOUND and time.monotonic() < gone:
        time.sleep(0.1)
        code = code_of(lambda: stub.GetZone(control.GetZoneRequest(zone_id=zone_id), timeout=10))[0]
    same("a destroyed zone is gone", grpc.StatusCode.NOT_FOUND, code)
    last = None
    while last not in (common.ZONE_STATE_DESTROYED, grpc.StatusCode.UNAVAILABLE):
        event = events.get(timeout=20)
        if isinstance(event, grpc.StatusCode):
            last = event
        elif event.WhichOneof("event") == "zone_changed":
            last = event.zone_changed.zone.status.state
    same("and the watch has seen it", common.ZONE_STATE_DESTROYED, last)
    watch.cancel()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
