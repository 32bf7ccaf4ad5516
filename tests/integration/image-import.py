#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""ImportImage and `protect image import` with a real daemon: Google's gRPC and the command line as clients, good ones and bad ones."""
import concurrent.futures
import glob
import hashlib
import io
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

BUILD, SRC = os.environ["BUILD_DIR"], os.environ["SRC_DIR"]
if os.getuid():
    print("namespaces and the provider's user need root")
    sys.exit(77)
if subprocess.run(["id", "edera-oci"], capture_output=True).returncode:
    print("the system user edera-oci is missing: make install makes it")
    sys.exit(77)
try:
    import grpc
    import grpc_tools  # noqa: F401
except ImportError as e:
    print("Google's gRPC for Python is missing: %s (Debian: python3-grpcio, python3-grpc-tools)" % e)
    sys.exit(77)
sys.dont_write_bytecode = True
sys.path[:0] = [SRC + "/tests/rigs", SRC + "/tests/rigs/oci-cases"]
from foreign_daemon import common, control, control_grpc  # noqa: E402
from ocitar import Layout, dir, file, END, digest_of  # noqa: E402

MB = 1 << 20
failures = 0
work = tempfile.mkdtemp(prefix="protect-import.", dir="/var/tmp")
os.chmod(work, 0o755)
os.environ["PROTECT_OCI_PROVIDER"] = BUILD + "/protect-oci-provider"


def check(what, good, detail=""):
    global failures
    print("%s: %s%s" % ("ok" if good else "NOT OK", what, "" if good else ": %s" % (detail,)), flush=True)
    failures += not good


def same(what, expected, got):
    check(what, expected == got, "expected %r, got %r" % (expected, got))


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Daemon:
    """The daemon with the sim as its hypervisor, in a directory of its own; `small`: its cache is a file system of so many MiB."""

    def __init__(self, name, small=0):
        self.dir = work + "/" + name
        for sub in ("plugins", "data/zone", "data/cache"):
            os.makedirs(self.dir + "/" + sub)
        os.chmod(self.dir + "/data/cache", 0o711)
        self.small = small
        if small:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%dm,mode=711" % small, "tmpfs", self.dir + "/data/cache"], check=True)
        for so in glob.glob(BUILD + "/plugins/*/.libs/*.so") + [BUILD + "/tests/plugins/sim/.libs/sim.so", BUILD + "/tests/plugins/sim/sim-vmm"]:
            if not so.endswith("kvm.so"):
                shutil.copy(so, self.dir + "/plugins")
        for empty in ("kernel", "initrd"):
            open(self.dir + "/data/zone/" + empty, "w").close()
        with open(self.dir + "/daemon.toml", "w") as f:
            f.write('[plugins]\ndirectory = "%s/plugins"\nhypervisor = "sim"\n[plugin.sim]\nagent = "/bin/true"\nvmm = "%s/plugins/sim-vmm"\n[plugin.squashfs]\ncompression-level = 19\n'
                    '[oci]\nmax-image-mb = 256\nimport-idle-seconds = 2\n' % (self.dir, self.dir))
        self.socket = self.dir + "/socket"
        self.env = dict(os.environ, PROTECT_CONNECTION="unix://" + self.socket, HOME=work)
        self.start()

    def start(self):
        with open(self.dir + "/log", "ab") as log:
            self.process = subprocess.Popen([BUILD + "/protect-daemon", "--config", self.dir + "/daemon.toml", "--data-dir", self.dir + "/data", "--run-dir",
                                             self.dir + "/run", "--listen", "unix://" + self.socket], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        check("the daemon answers", until(lambda: self.cli("host", "status").returncode == 0))
        self.channel = grpc.insecure_channel("unix://" + self.socket)
        self.stub = control_grpc.ControlServiceStub(self.channel)

    def stop(self, how=signal.SIGTERM):
        self.channel.close()
        self.process.send_signal(how)
        self.process.wait(30)

    def close(self):
        self.stop()
        if self.small:
            subprocess.run(["umount", "-l", self.dir + "/data/cache"])

    def cli(self, *args, **more):
        return subprocess.run([BUILD + "/cli/protect", *args], env=self.env, capture_output=True, timeout=60, **more)

    def images(self):
        return {i["digest"]: sorted(i.get("names") or []) for i in json.loads(self.cli("image", "list", "--output", "json").stdout)}

    def clear(self):
        self.cli("image", "prune", "--all")
        same("the cache is empty", {}, self.images())

    def image_file(self, digest):
        with open("%s/data/cache/images/%s.squashfs/image" % (self.dir, digest.replace(":", "-")), "rb") as f:
            return hashlib.sha256(f.read()).hexdigest()

    def spools(self):
        """Files without a name that the daemon holds open in its cache."""
        found = []
        for fd in os.listdir("/proc/%d/fd" % self.process.pid):
            try:
                target = os.readlink("/proc/%d/fd/%s" % (self.process.pid, fd))
            except OSError:
                continue
            if target.startswith(self.dir + "/data/cache") and "(deleted)" in target:
                found.append(target)
        return found

    def providers(self):
        """Processes of protect-oci-provider that the daemon runs."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid) as f:
                    name, rest = f.read().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                continue
            if rest.split()[1] == str(self.process.pid) and name.startswith("protect-oci"):
                found.append(int(pid))
        return found

    def nothing_left(self, what):
        cache = self.dir + "/data/cache"
        left = lambda: self.spools() + os.listdir(cache + "/images/.work") + [f for f in os.listdir(cache) if f not in ("images", "layers")]
        check(what + ": nothing is left", until(lambda: not left()), left())


def archives():
    """An image, as an OCI archive, as docker save writes it, and another one."""
    noise = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(60000))
    layers = [dir("bin") + file("bin/x", noise, mode=0o755), file("which", "first")]
    layout = Layout(work + "/layout")
    descriptor = layout.tag(layout.image(layers))
    oci = work + "/oci.tar"
    subprocess.run(["tar", "-C", layout.path, "-cf", oci, "."], check=True)
    config = json.dumps(dict(os="linux", architecture="amd64", rootfs=dict(type="layers", diff_ids=[digest_of(l + END) for l in layers]))).encode()
    docker = work + "/docker.tar"
    with open(docker, "wb") as f:
        f.write(file("c.json", config) + b"".join(file("%d/layer.tar" % n, l + END) for n, l in enumerate(layers)) +
                file("manifest.json", json.dumps([dict(Config="c.json", RepoTags=["saved:latest"], Layers=["0/layer.tar", "1/layer.tar"])])) + END)
    return layout, descriptor["digest"], oci, docker


layout, digest, oci, docker = archives()
with open(oci, "rb") as f:
    OCI = f.read()
Request = control.ImportImageRequest


def pieces(data, size=100000, **first):
    """The stream of a well-behaved client."""
    yield Request(**first)
    for at in range(0, len(data), size):
        yield Request(chunk=data[at:at + size], last_chunk=at + size >= len(data))


def take(replies):
    """All replies, or the error as (code, sentence)."""
    got = []
    try:
        for r in replies:
            got.append(r)
    except grpc.RpcError as e:
        return got, (e.code().name, e.details())
    return got, ("OK", "")


class Slow:
    """A client whose messages come one by one, when the test says so."""

    def __init__(self, daemon, **first):
        self.messages = queue.Queue()
        self.call = daemon.stub.ImportImage(iter(self.messages.get, None))
        self.replies, self.status = [], None
        self.put(**first)
        self.thread = threading.Thread(target=self.collect, daemon=True)
        self.thread.start()

    def put(self, **m):
        self.messages.put(Request(**m))

    def collect(self):
        try:
            for r in self.call:
                self.replies.append(r)
            self.status = ("OK", "")
        except grpc.RpcError as e:
            self.status = (e.code().name, e.details())

    def answered(self):
        return until(lambda: self.replies or self.status)

    def end(self, seconds=30):
        self.thread.join(seconds)
        self.messages.put(None)
        return self.status

    def digest(self):
        return self.replies[-1].spec.digest if self.replies else None


def good_clients(d):
    pulled = d.cli("image", "pull", "oci:%s:latest" % layout.path)
    same("a pull of the same image", digest, pulled.stdout.decode().strip())
    want = d.image_file(digest)
    d.clear()
    r = d.cli("image", "import", "--name", "first:1", oci)
    same("an OCI archive by the command line", (0, digest), (r.returncode, r.stdout.decode().strip()))
    check("with a line a phase", b"oci.tar: resolving\n" in r.stderr and b"complete" in r.stderr, r.stderr)
    same("byte for byte what a pull makes", want, d.image_file(digest))
    same("its name", {digest: ["docker.io/library/first:1"]}, d.images())
    with open(docker, "rb") as f:
        r = d.cli("image", "import", "--progress", "json", "-", input=f.read())
    lines = [json.loads(line) for line in r.stdout.splitlines()]
    saved = lines[-1]["digest"]
    same("docker save's from a pipe", 0, r.returncode)
    same("what JSON lines there are", ["upload", "progress", "result"], list(dict.fromkeys(line["type"] for line in lines)))
    same("the same squashfs, as the layers are the same", want, d.image_file(saved))
    same("the name in the archive", ["docker.io/library/saved:latest"], d.images()[saved])
    r = d.cli("image", "pull", "saved")
    same("a name that was imported needs no registry, latest neither", (0, saved), (r.returncode, r.stdout.decode().strip()))
    r = d.cli("image", "import", "--name", "again", "--digest", digest, "/dev/null")
    same("what is cached is not sent", (0, digest), (r.returncode, r.stdout.decode().strip()))
    same("but gets the name", ["docker.io/library/again:latest", "docker.io/library/first:1"], d.images()[digest])
    d.clear()

    kernel = Layout(work + "/kernel")
    kernel.tag(kernel.image([dir("kernel") + file("kernel/image", "a kernel") + file("kernel/metadata", "KERNEL_ARCH=x86_64\n")]))
    subprocess.run(["tar", "-C", kernel.path, "-czf", work + "/kernel.tar.gz", "."], check=True)
    r = d.cli("image", "import", "--format", "directory", "--name", "kernel:1", work + "/kernel.tar.gz")
    same("a kernel image, compressed", (0, kernel.entries[0]["digest"]), (r.returncode, r.stdout.decode().strip()))
    with open("%s/data/cache/images/%s.directory/kernel/image" % (d.dir, r.stdout.decode().strip().replace(":", "-"))) as f:
        same("its kernel", "a kernel", f.read())
    d.clear()
    for size in (len(OCI), 4 * MB - 100, 65536, 4097):
        replies, status = take(d.stub.ImportImage(pieces(OCI, size, image="r.io/x:1", overwrite_cache=True, want_metadata=True)))
        same("gRPC in pieces of %d" % size, ("OK", digest), (status[0], replies[-1].spec.digest if replies else status[1]))
    check("it is accepted at once", replies[0].accepted and replies[0].progress.phase == 1, replies[0])
    phases = [r.progress.phase for r in replies if r.HasField("progress")]
    same("phases in order", sorted(phases), phases)
    same("to the last", common.OCI_IMAGE_PROGRESS_PHASE_COMPLETE, phases[-1])
    same("format", common.OCI_IMAGE_FORMAT_SQUASHFS, replies[-1].spec.format)
    same("metadata", digest, "sha256:" + hashlib.sha256(replies[-1].metadata.manifest).hexdigest())
    check("and config", json.loads(replies[-1].metadata.config)["os"] == "linux")
    replies, status = take(d.stub.ImportImage(iter([Request(digest=digest, chunk=OCI, last_chunk=True, want_metadata=True)])))
    same("one message is enough; the image is there already", ("OK", [False], digest), (status[0], [r.accepted for r in replies], replies[-1].spec.digest))
    same("with metadata", digest, "sha256:" + hashlib.sha256(replies[-1].metadata.manifest).hexdigest())
    d.clear()
    replies, status = take(d.stub.ImportImage(iter([Request(digest=digest, chunk=OCI, last_chunk=True)])))
    same("one message is enough", ("OK", True, digest), (status[0], replies[0].accepted, replies[-1].spec.digest))
    d.clear()


def by_digest(d):
    with tarfile.open(docker) as old, tarfile.open(work + "/nameless.tar", "w") as new:
        for member in old:
            data = old.extractfile(member).read()
            if member.name == "manifest.json":
                data = json.dumps([dict(json.loads(data)[0], RepoTags=None)]).encode()
                member.size = len(data)
            new.addfile(member, io.BytesIO(data))
    r = d.cli("image", "import", work + "/nameless.tar")
    nameless = r.stdout.decode().strip()
    same("an archive without a name", (0, {nameless: []}), (r.returncode, d.images()))
    check("says so", b"it has no name; use --name" in r.stderr, r.stderr)
    for ref in (nameless, nameless[:19]):
        r = d.cli("image", "pull", ref)
        same("an image in the cache by %s" % ref, (0, nameless), (r.returncode, r.stdout.decode().strip()))
    same("gets no name by that", {nameless: []}, d.images())
    for args in (["sha256:" + "0" * 64], ["sha512:" + "0" * 128], [nameless, "--format", "tar"], [nameless, "--overwrite-cache"]):
        r = d.cli("image", "pull", *args)
        check("a registry is not asked for %s" % args, r.returncode == 1 and b"a digest alone names no registry" in r.stderr, r)
    same("no name was lost, but it has none", nameless, d.cli("image", "prune").stdout.decode().strip())
    r = d.cli("image", "import", "--name", "named:1", work + "/nameless.tar")
    check("with a name nothing is said", r.returncode == 0 and b"no name" not in r.stderr, r.stderr)
    d.clear()


def bad_clients(d):
    def refused(what, requests, code, *words):
        replies, status = take(d.stub.ImportImage(iter(requests)))
        check(what, status[0] == code and all(w in status[1] for w in words), status)

    first = Request(image="bad:1")
    refused("no message", [], "INVALID_ARGUMENT")
    refused("no last chunk", [first, Request(chunk=OCI)], "INVALID_ARGUMENT", "last_chunk")
    refused("nothing but the first message", [first], "INVALID_ARGUMENT", "last_chunk")
    refused("a chunk after the last", [first, Request(chunk=OCI, last_chunk=True), Request(chunk=b"x")], "INVALID_ARGUMENT", "last chunk")
    refused("a last chunk twice", [first, Request(chunk=OCI, last_chunk=True), Request(last_chunk=True)], "INVALID_ARGUMENT", "last chunk")
    refused("no archive", [first, Request(chunk=b"no tar" * 1000, last_chunk=True)], "DATA_LOSS", "archive")
    refused("an empty one", [first, Request(last_chunk=True)], "DATA_LOSS", "archive")
    refused("half of one", [first, Request(chunk=OCI[:len(OCI) // 2], last_chunk=True)], "DATA_LOSS")
    refused("a name that is none", [Request(image="A B")], "INVALID_ARGUMENT", "A B")
    refused("a place as a name", [Request(image="oci:/etc")], "INVALID_ARGUMENT")
    refused("a name with a digest", [Request(image="x@" + digest)], "INVALID_ARGUMENT", "digest")
    refused("a digest that is none", [Request(digest="sha256:12")], "INVALID_ARGUMENT", "sha256:12")
    refused("a format that is none", [Request(image="bad:1", format=9)], "INVALID_ARGUMENT", "format")
    other = "sha256:" + "1" * 64
    refused("another digest", pieces(OCI, digest=other), "NOT_FOUND", other)
    with open(docker, "rb") as f:
        refused("another digest than docker save's", pieces(f.read(), digest=other), "NOT_FOUND", other)
    refused("a message that is too large", [first, Request(chunk=bytes(5 * MB))], "RESOURCE_EXHAUSTED", "4 MiB")
    refused("more than an image may be", ([first] + [Request(chunk=bytes(4 * MB - 100))] * 70), "RESOURCE_EXHAUSTED", "256 MiB", "max-image-mb")
    start = time.monotonic()
    silent = Slow(d, image="silent:1", chunk=OCI[:1000])
    same("silence", "DEADLINE_EXCEEDED", (silent.end(15) or ("still there",))[0])
    check("is left after two seconds", 1.5 < time.monotonic() - start < 12, time.monotonic() - start)
    chatty = Slow(d, image="chatty:1")
    for _ in range(10):
        chatty.put()
        time.sleep(0.4)
    same("messages without bytes are silence too", "DEADLINE_EXCEEDED", (chatty.end(1) or ("still there",))[0])
    for when in (0, 1, 3):
        gone = Slow(d, image="gone:1")
        for _ in range(when):
            gone.put(chunk=OCI[:100000])
        gone.answered()
        gone.call.cancel()
        same("cancelled after %d chunks" % when, "CANCELLED", gone.end()[0])
    late, status = take(d.stub.ImportImage(slowly(OCI), timeout=1))
    same("the client's own deadline", "DEADLINE_EXCEEDED", status[0])
    same("no image came of it", {}, d.images())
    d.nothing_left("after bad clients")


def slowly(data):
    yield Request(image="late:1")
    for at in range(0, len(data), 100000):
        time.sleep(0.3)
        yield Request(chunk=data[at:at + 100000])


def several(d):
    """Imports of one image at a time, and other calls beside them."""
    leader = Slow(d, image="one:1", digest=digest)
    leader.answered()
    follower = Slow(d, image="one:1", digest=digest, want_metadata=True, chunk=OCI[:1000])
    follower.answered()
    same("the first is accepted, the second is not", (True, False), (leader.replies[0].accepted, follower.replies[0].accepted))
    other = Slow(d, image="two:1", digest=digest)
    other.answered()
    same("under another name it is", True, other.replies[0].accepted)
    for at in range(0, len(OCI), 50000):
        follower.put(chunk=b"anything")  # nobody looks at it
    start = time.monotonic()
    for _ in range(20):
        d.stub.GetHostStatus(control.GetHostStatusRequest(), timeout=10)
    check("three slow senders hold nobody up", time.monotonic() - start < 2, time.monotonic() - start)
    for c in (leader, other):
        c.put(chunk=OCI, last_chunk=True)
    same("the first ends well", "OK", leader.end()[0])
    same("so does the second", "OK", follower.end()[0])
    same("and the third", "OK", other.end()[0])
    same("all have the image", [digest] * 3, [c.digest() for c in (leader, follower, other)])
    same("with the metadata asked for", digest, "sha256:" + hashlib.sha256(follower.replies[-1].metadata.manifest).hexdigest())
    same("and both names", ["docker.io/library/one:1", "docker.io/library/two:1"], d.images()[digest])
    d.clear()

    leader = Slow(d, image="one:1")
    leader.answered()
    followers = [Slow(d, image="one:1") for _ in range(3)]
    for f in followers:
        f.answered()
    leader.put(chunk=b"no tar" * 1000, last_chunk=True)
    same("what fails for one fails for all", ["DATA_LOSS"] * 4, [c.end()[0] for c in [leader] + followers])
    leader = Slow(d, image="one:1")
    leader.answered()
    follower = Slow(d, image="one:1")
    follower.answered()
    leader.call.cancel()
    status = follower.end()
    check("one that is given up says so to the other", status and status[0] == "ABORTED" and "again" in status[1], status)
    same("and then it can be sent", "OK", take(d.stub.ImportImage(pieces(OCI, image="one:1")))[1][0])
    d.clear()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(lambda n: take(d.stub.ImportImage(pieces(OCI, 30000, image="many:1" if n % 2 else "many:%d" % n))), range(8)))
    same("eight at once", [("OK", digest)] * 8, [(status[0], replies[-1].spec.digest if replies else status[1]) for replies, status in ends])
    same("one image", [digest], list(d.images()))
    d.nothing_left("after several")
    d.clear()


def peak(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024


def memory(d):
    before = peak(d.process.pid)
    chunk = os.urandom(MB)
    replies, status = take(d.stub.ImportImage(iter([Request(image="large:1")] + [Request(chunk=chunk)] * 200 + [Request(last_chunk=True)])))
    same("200 MiB of noise", "DATA_LOSS", status[0])
    check("take little memory", peak(d.process.pid) - before < 40 or "SANITIZED" in os.environ, "%.0f -> %.0f MiB" % (before, peak(d.process.pid)))
    d.nothing_left("after noise")


def interrupts(d):
    read, write = os.pipe()
    p = subprocess.Popen([BUILD + "/cli/protect", "image", "import", "-"], stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=d.env)
    os.write(write, OCI[:600000])
    check("the daemon holds a file", until(d.spools))
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=10)
    same("Ctrl+C", (130, b""), (p.returncode, out))
    d.nothing_left("after Ctrl+C")
    p = subprocess.Popen([BUILD + "/cli/protect", "image", "import", "-"], stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=d.env)
    os.write(write, OCI[:600000])
    check("the daemon holds a file", until(d.spools))
    p.kill()
    p.communicate()
    d.nothing_left("after a client was killed")
    for fd in (read, write):
        os.close(fd)
    r = d.cli("image", "import", work)
    check("a directory is no archive", r.returncode == 1 and b"directory" in r.stderr, r)
    r = d.cli("image", "import", work + "/none")
    check("no such file", r.returncode == 1 and b"No such file" in r.stderr, r)

    slow = Slow(d, image="killed:1", chunk=bytes(MB))
    slow.put(chunk=bytes(MB))
    check("the file is there before the daemon is killed", until(d.spools))
    d.stop(signal.SIGKILL)
    slow.end()
    d.start()
    d.nothing_left("after kill -9")
    same("and no image", {}, d.images())


def busy(d):
    """What is ended while the image is being packed: 80 MB of noise, compressed as slowly as it gets."""
    layer = file("noise", os.urandom(80 * MB)) + END
    config = json.dumps(dict(os="linux", architecture="amd64", rootfs=dict(type="layers", diff_ids=[digest_of(layer)]))).encode()
    large = work + "/large.tar"
    with open(large, "wb") as f:
        f.write(file("c", config) + file("l", layer) + file("manifest.json", json.dumps([dict(Config="c", RepoTags=["large:1"], Layers=["l"])])) + END)

    def packing():
        p = subprocess.Popen([BUILD + "/cli/protect", "image", "import", "--progress", "json", large], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=d.env)
        for line in p.stdout:
            if json.loads(line).get("phase") == "layer-download":
                break
        check("the provider runs", until(d.providers), p.poll())
        return p, d.providers()

    p, _ = packing()
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=20)
    same("Ctrl+C while it is packed", 130, p.returncode)
    check("ends the provider", until(lambda: not d.providers()), d.providers())
    d.nothing_left("after Ctrl+C while it is packed")
    p, pids = packing()
    d.stop(signal.SIGKILL)
    p.communicate(timeout=20)
    same("the daemon is killed while it is packed", 1, p.returncode)
    check("the provider ends with it", until(lambda: not [i for i in pids if os.path.exists("/proc/%d" % i)]), pids)
    d.start()
    d.nothing_left("after kill -9 while it is packed")
    p, pids = packing()
    slow = Slow(d, image="stopped:1", chunk=bytes(MB))
    slow.answered()
    start = time.monotonic()
    d.stop()
    p.communicate(timeout=20)
    check("the daemon stops while it is packed", time.monotonic() - start < 20, time.monotonic() - start)
    check("and others are told", (slow.end() or [""])[0] in ("UNAVAILABLE", "CANCELLED"), slow.status)
    check("the provider ends with it", until(lambda: not [i for i in pids if os.path.exists("/proc/%d" % i)]), pids)
    d.start()
    d.nothing_left("after a stop while it is packed")
    same("there is an image only if the client was told so", p.returncode == 0, bool(d.images()))
    d.clear()


def full_disk(d):
    replies, status = take(d.stub.ImportImage(iter([Request(image="full:1")] + [Request(chunk=os.urandom(MB))] * 20 + [Request(last_chunk=True)])))
    check("a full disk while it is sent", status[0] == "RESOURCE_EXHAUSTED" and "space" in status[1], status)
    d.nothing_left("after a full disk")
    # The archive fits, its image beside it does not.
    replies, status = take(d.stub.ImportImage(pieces(OCI, image="full:1")))
    check("a full disk while it is packed", status[0] == "RESOURCE_EXHAUSTED" and "space" in status[1], status)
    d.nothing_left("after that")
    same("no image", {}, d.images())


daemons = []
try:
    daemons.append(Daemon("one"))
    good_clients(daemons[0])
    by_digest(daemons[0])
    bad_clients(daemons[0])
    several(daemons[0])
    memory(daemons[0])
    interrupts(daemons[0])
    busy(daemons[0])
    daemons.append(Daemon("small", small=3))
    full_disk(daemons[1])
finally:
    for d in daemons:
        d.close()
        with open(d.dir + "/log", errors="replace") as f:
            log = f.read()
        check("no sanitizer spoke", "runtime error" not in log and "Sanitizer" not in log)
        if failures:
            print(log[-6000:])
    shutil.rmtree(work, ignore_errors=True)
print("%d failures" % failures)
sys.stdout.flush()
os._exit(failures > 0)
