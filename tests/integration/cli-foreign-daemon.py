#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""`protect` against a daemon made of Google's gRPC: what it sends, what it prints, how it ends."""
import contextlib
import fcntl
import hashlib
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

try:
    import grpc  # noqa: F401
    import grpc_tools  # noqa: F401
    from google.protobuf import json_format
except ImportError as e:
    print("Google's gRPC for Python is missing: %s (Debian: python3-grpcio, python3-grpc-tools)" % e)
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../rigs")
sys.dont_write_bytecode = True
import foreign_daemon  # noqa: E402
from foreign_daemon import common, control  # noqa: E402

PROTECT = os.environ["BUILD_DIR"] + "/cli/protect"
work = tempfile.mkdtemp(prefix="protect-cli.")
socket = work + "/socket"
server, daemon = foreign_daemon.serve(socket)
env = dict(os.environ, PROTECT_CONNECTION="unix://" + socket, HOME=work, TERM="xterm")
env.pop("DOCKER_CONFIG", None)
failures = 0


def check(what, good, detail=""):
    global failures
    print("%s: %s%s" % ("ok" if good else "NOT OK", what, "" if good else ": %s" % (detail,)), flush=True)
    failures += not good


def same(what, expected, got):
    check(what, expected == got, "expected %r, got %r" % (expected, got))


def run(*args, stdin=b"", timeout=60, **extra):
    return subprocess.run([PROTECT, *args], input=stdin, capture_output=True, timeout=timeout, env=dict(env, **extra))


def zone(name):
    r = run("zone", "launch", "-n", name, "--wait")
    same("zone %s is launched" % name, (0, b""), (r.returncode, r.stderr))
    return r.stdout.decode().strip()


def calls(name):
    return [request for n, request in daemon.calls if n == name]


def until(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *args, rows=24, columns=80, **redirect):
        self.master, self.slave = pty.openpty()
        self.size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        streams = {k: redirect.get(k, self.slave) for k in ("stdin", "stdout", "stderr")}
        self.popen = subprocess.Popen([PROTECT, *args], env=env, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0), **streams)
        self.text = b""

    def size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds=0.05):
        while select.select([self.master], [], [], seconds)[0]:
            self.text += os.read(self.master, 65536)

    def expect(self, text, seconds=10):
        found = until(lambda: (self.read(), text in self.text)[1], seconds)
        check("the terminal shows %r" % text, found, self.text[-300:])

    def type(self, data):
        os.write(self.master, data)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def end(self, what, code, seconds=10):
        def ended():
            self.read()
            return self.popen.poll() is not None
        until(ended, seconds)
        same(what, code, self.popen.poll())
        self.read()
        same(what + ", the terminal is as it was", self.before, termios.tcgetattr(self.slave))
        if self.popen.poll() is None:
            self.popen.kill()
        os.close(self.master)
        os.close(self.slave)


# --- JSON, compared with Google's own of the same message -----------------------------------------------------------

def json_test():
    a = common.Zone(id="id-1", spec=common.ZoneSpec(name="json", kernel=common.OciImageSpec(digest="sha256:0", format=common.OCI_IMAGE_FORMAT_DIRECTORY)))
    a.spec.initial_resources.max_memory = 2**64 - 1
    a.spec.initial_resources.cpus_affinities_set.entries.add(hard_affinity=[0, 1, 2**32 - 1]).vcpu.all_vcpus.SetInParent()
    a.spec.initial_resources.cpus_affinities_set.entries.add().vcpu.value = 0
    a.spec.annotations.add(key='dev.edera/k"v', value="line\nbreak \u00e9 \u732b \x1b \u009b \u202e / \\")
    a.spec.scratch_disk.image.size = 0
    a.status.created_at.FromJsonString("2024-02-29T23:59:59.000000001Z")
    a.status.ready_at.FromJsonString("1969-12-31T23:59:59.500Z")
    a.status.state = common.ZONE_STATE_READY
    a.status.exit_status.code = -1
    a.status.domid = 2**32 - 1
    b = common.Zone(id="id-2", spec=common.ZoneSpec(name="kson"))
    daemon.zones = {z.id: z for z in (b, a)}
    expected = [json_format.MessageToDict(z) for z in (a, b)]
    for format in ("json", "json-pretty"):
        r = run("zone", "list", "-o", format)
        same("zone list as %s is what Google's makes of it" % format, expected, json.loads(r.stdout))
    same("as jsonl too", expected, [json.loads(line) for line in run("zone", "list", "--format", "jsonl").stdout.splitlines()])
    try:
        import yaml
        same("as yaml too", expected, yaml.safe_load(run("zone", "list", "-o", "yaml").stdout))
    except ImportError:
        pass
    out = run("zone", "list", "-o", "json").stdout
    check("JSON holds nothing that commands a terminal", not any(c in out.decode() for c in "\x1b\u009b\u202e"), out)
    same("a list can be asked for one", [expected[1]], json.loads(run("zone", "list", "kson", "-o", "json").stdout))
    same("and for what a selector says", [expected[0]], json.loads(run("zone", "list", "-l", "status.state=ready", "-o", "json").stdout))
    same("host status", json_format.MessageToDict(daemon.GetHostStatus(None, None)), json.loads(run("host", "status", "-o", "json").stdout))
    daemon.zones = {}


def lists_test():
    same("no zones", b"no zones have been launched\n", run("zone", "list").stdout)
    same("none that a selector finds is a table", 4, run("zone", "list", "-l", "status.state=ready").stdout.count(b"\n"))
    with open(foreign_daemon.SRC + "/tests/unit/cli/kernel-variants.table", "rb") as f:
        same("the documented table", f.read(), run("image", "list-kernel-variants").stdout)
    r = run("image", "list-kernel-variants", "--verbose")
    check("--verbose says where from, and the digest", b"\xe2\x94\x86 config" in r.stdout and b"sha256:cccc" in r.stdout, r.stdout)
    r = run("image", "list")
    check("images: short digest, size, use", b"sha256:aaaaaaaaaaaa \xe2" in r.stdout and b"3.0 MiB" in r.stdout and b"2 hours" in r.stdout, r.stdout)
    check("images: whole digest elsewhere", b"sha256:" + b"a" * 64 + b"\tsquashfs\t3145728\t" in run("image", "list", "-o", "simple").stdout)
    same("no colours where there is no terminal", False, b"\x1b" in run("plugin", "list").stdout)
    r = run("device", "list")
    same("what the daemon cannot do is one sentence", (1, b"", b"protect: this daemon does not support ListDevices\n"), (r.returncode, r.stdout, r.stderr))
    r = run("zone", "list", PROTECT_CONNECTION="unix://" + work + "/nobody")
    check("no daemon: a sentence and 1", r.returncode == 1 and b"the daemon is not running" in r.stderr and r.stderr.count(b"\n") == 1, r.stderr)
    r = run("zone", "lst")
    check("a mistyped verb: a sentence and 2", r.returncode == 2 and b"did you mean 'protect zone list'?" in r.stderr, r.stderr)
    same("version", b"protect ", run("--version").stdout[:8])
    r = run("host", "status", PROTECT_CONNECTION="unix://" + work + "/nobody")
    check("how to start the daemon, as it is done here", (b"start it: systemctl start protect-daemon\n" if os.path.isdir("/run/systemd/system") else b"start it: protect-daemon &\n") in r.stderr, r.stderr)
    same("completion of verbs", b"list\t", run("__complete", "zone", "li").stdout[:5])


# --- zones ----------------------------------------------------------------------------------------------------------

def zones_test():
    identity = zone("web")
    same("resolve", identity, run("zone", "resolve", "web").stdout.decode().strip())
    same("by the beginning of its id", (identity, identity), (run("zone", "resolve", identity[:9]).stdout.decode().strip(), run("zone", "list", identity[:6], "-o", "simple").stdout.decode().split("\t")[0]))
    same("by id too", identity, run("zone", "resolve", identity).stdout.decode().strip())
    r = run("zone", "resolve", "nonesuch")
    same("an unknown one", (1, b"protect: unable to resolve zone 'nonesuch'\n"), (r.returncode, r.stderr))
    r = run("zone", "launch", "-n", "bad", "--wait")
    check("one that fails: 1, and why", r.returncode == 1 and b"the kernel does not like it here" in r.stderr and not r.stdout, r)
    same("destroyed, waiting", 0, run("zone", "destroy", "--wait", "bad").returncode)
    same("is gone then", 1, run("zone", "resolve", "bad").returncode)

    r = run("zone", "launch", "--name", "k", "--kernel-variant", "nvidia", "--kernel", "ghcr.io/x/y:1", "-C", "4", "-m300", "-A", "a=b", "--kernel-verbose")
    pull, create = calls("PullImage")[-1], calls("CreateZone")[-1]
    same("a variant wins over an image", ("nvidia", ""), (pull.kernel_variant, pull.image))
    same("kernels are plain files", common.OCI_IMAGE_FORMAT_DIRECTORY, pull.format)
    check("and --kernel is deprecated", b"--kernel is deprecated" in r.stderr, r.stderr)
    same("the digest goes into the spec", "sha256:" + "ab" * 32, create.spec.kernel.digest)
    same("resources as asked, the rest unset", (4, 0, 300, 0), (create.spec.initial_resources.max_cpus, create.spec.initial_resources.target_cpus,
                                                                 create.spec.initial_resources.target_memory, create.spec.initial_resources.max_memory))
    same("annotation", ("a", "b"), (create.spec.annotations[0].key, create.spec.annotations[0].value))
    check("kernel messages", create.spec.kernel_options.verbose)
    r = run("zone", "launch", "-n", "x", "--kernel-variant", "missing")
    same("a pull that fails", (1, b"protect: there is no image 'missing'\n"), (r.returncode, r.stderr))
    r = run("zone", "launch", "-n", "plain", "-A", "dev.edera/kernel=ghcr.io/x/y:1")
    check("nothing asked for, nothing set", not calls("CreateZone")[-1].spec.HasField("initial_resources") and not calls("CreateZone")[-1].spec.HasField("kernel"))
    check("the annotation is deprecated too", b"dev.edera/kernel is deprecated" in r.stderr, r.stderr)
    same("all are destroyed", 0, run("zone", "destroy", "--all", "--wait").returncode)
    same("none left", "[]", run("zone", "list", "-o", "json").stdout.decode().strip())


def interrupted(what, *args, after, sig=signal.SIGINT, code=130):
    p = subprocess.Popen([PROTECT, *args], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    check(what + ": under way", until(after))
    p.send_signal(sig)
    p.send_signal(sig)  # to the process and to its group, as timeout(1) does it
    out, err = p.communicate(timeout=10)
    same(what + ": exit status", code, p.returncode)
    same(what + ": nothing on stdout", b"", out)
    check(what + ": no zone is left", not daemon.zones, list(daemon.zones.values()))
    check(what + ": no workload is left", not [w for w in daemon.workloads.values() if w.spec.name == "gone"])


def interrupts_test():
    daemon.pull_delay = 0.3
    n = len(calls("PullImage"))
    interrupted("Ctrl-C while pulling", "zone", "launch", "-n", "p", "--kernel-variant", "nvidia", "--wait", after=lambda: len(calls("PullImage")) > n)
    daemon.pull_delay = 0.02
    n = len(calls("CreateZone"))
    interrupted("Ctrl-C while the daemon creates", "zone", "launch", "-n", "late", "--wait", after=lambda: len(calls("CreateZone")) > n)
    interrupted("Ctrl-C while waiting", "zone", "launch", "-n", "never", "--wait", after=lambda: daemon.zones)
    daemon.create_delay = 10
    n = len(calls("CreateZone"))
    p = subprocess.Popen([PROTECT, "zone", "launch", "-n", "late", "--wait"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: len(calls("CreateZone")) > n)
    p.send_signal(signal.SIGINT)
    time.sleep(0.3)
    same("one Ctrl-C waits for the daemon's answer", None, p.poll())
    check("another one, later, waits for nothing", until(lambda: (p.send_signal(signal.SIGINT), time.sleep(0.4), p.poll() is not None)[2], 8))
    same("exit status", 130, p.poll())
    daemon.create_delay = 0.5
    until(lambda: daemon.zones, 15)
    daemon.zones.clear()
    interrupted("SIGTERM while waiting", "zone", "launch", "-n", "never", "--wait", after=lambda: daemon.zones, sig=signal.SIGTERM)
    zone("z")
    keep = dict(daemon.zones)
    p = subprocess.Popen([PROTECT, "workload", "launch", "--zone", "z", "--name", "gone", "-a", "img", "sleep", "100"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    check("an attached workload runs", until(lambda: [w for w in daemon.workloads.values() if w.status.state == common.WORKLOAD_STATE_RUNNING]))
    time.sleep(0.2)
    p.send_signal(signal.SIGINT)
    p.communicate(timeout=10)
    same("Ctrl-C of it: exit status", 130, p.returncode)
    check("and it is destroyed", not daemon.workloads, daemon.workloads)
    n = len(calls("CreateWorkload"))
    p = subprocess.Popen([PROTECT, "workload", "launch", "--zone", "z", "--name", "refused", "img"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: len(calls("CreateWorkload")) > n)
    p.send_signal(signal.SIGINT)
    same("Ctrl-C while the daemon is about to refuse", (b"protect: interrupted: there is no room\n", 130), (p.communicate(timeout=10)[1], p.returncode))
    p = subprocess.Popen([PROTECT, "workload", "launch", "--zone", "z", "--name", "kept", "-a", "img", "sleep", "100"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    until(lambda: [w for w in daemon.workloads.values() if w.status.state == common.WORKLOAD_STATE_RUNNING])
    time.sleep(0.2)
    p.send_signal(signal.SIGHUP)
    p.communicate(timeout=10)
    same("a terminal that goes away: exit status", 129, p.returncode)
    same("and the workload goes on", ["kept"], [w.spec.name for w in daemon.workloads.values()])
    run("workload", "destroy", "kept")
    daemon.zones = keep


# --- streams --------------------------------------------------------------------------------------------------------

def exec_test():
    r = run("zone", "exec", "-e", "X=a b", "-w", "/", "z", "sh", "-c", 'echo "$X"; pwd; echo bad >&2; exit 42')
    same("exec: output, errors, exit status", (42, b"a b\n/\n", b"bad\n"), (r.returncode, r.stdout, r.stderr))
    same("exec: stdin", b"abc", run("zone", "exec", "z", "cat", stdin=b"abc").stdout)
    same("exec: what looks like an option is the command's", b"-t --help\n", run("zone", "exec", "z", "echo", "-t", "--help").stdout)
    p = subprocess.run(["bash", "-c", 'exec "$0" zone exec z cat <&-', PROTECT], env=env, capture_output=True, timeout=10)
    same("exec: stdin closed", (0, b"", b""), (p.returncode, p.stdout, p.stderr))
    p = subprocess.run(["bash", "-c", 'exec "$0" zone exec z echo x >&- 2>&-', PROTECT], env=env, stdin=subprocess.DEVNULL, timeout=10)
    same("exec: stdout and stderr closed", 0, p.returncode)
    r = run("zone", "exec", "z", "/nonexistent")
    check("exec: what cannot run", r.returncode == 1 and b"cannot run '/nonexistent'" in r.stderr, r)
    same("exec: killed", 137, run("zone", "exec", "z", "sh", "-c", "kill -9 $$").returncode)
    same("exec: in an unknown zone", 1, run("zone", "exec", "nonesuch", "true").returncode)
    same("exec: a terminal without one here", b"yes\r\n", run("zone", "exec", "-t", "z", "sh", "-c", "test -t 0 && test -t 1 && echo yes").stdout)
    data = os.urandom(1 << 20) * 64
    r = run("zone", "exec", "z", "cat", stdin=data)
    same("exec: 64 MiB there and back", hashlib.sha256(data).hexdigest(), hashlib.sha256(r.stdout).hexdigest())


def slow_reader_test():
    p = subprocess.Popen([PROTECT, "zone", "exec", "z", "head", "-c", "300000000", "/dev/zero"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    time.sleep(1)
    with open("/proc/%d/status" % p.pid) as f:
        peak = [int(line.split()[1]) for line in f if line.startswith("VmHWM")][0]
    sanitized = b"__asan_init" in open(PROTECT, "rb").read()
    check("a slow reader does not make it grow", peak < 16384 or sanitized, "%d kB" % peak)
    same("and gets all", 300000000, sum(len(c) for c in iter(lambda: p.stdout.read(1 << 20), b"")))
    same("with the exit status", 0, p.wait())
    # A file cannot be waited for by epoll; it is input and output all the same.
    with open(work + "/in", "wb") as f:
        f.write(b"x" * 3000000)
    with open(work + "/in", "rb") as i, open(work + "/out", "wb") as o:
        same("files as stdin and stdout", 0, subprocess.run([PROTECT, "zone", "exec", "z", "cat"], env=env, stdin=i, stdout=o, timeout=20).returncode)
    same("whole", 3000000, os.path.getsize(work + "/out"))
    p = subprocess.run(["bash", "-o", "pipefail", "-c", '"$0" zone exec z yes | head -n 1; exit ${PIPESTATUS[0]}', PROTECT], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    same("a reader that leaves ends it as SIGPIPE does", (141, b"y\n", b""), (p.returncode, p.stdout, p.stderr))
    p = subprocess.run(["bash", "-o", "pipefail", "-c", '"$0" zone watch | true; exit ${PIPESTATUS[0]}', PROTECT], env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    same("even while nothing is written", 141, p.returncode)
    with open("/dev/full", "wb") as full:
        p = subprocess.run([PROTECT, "zone", "exec", "z", "echo", "x"], env=env, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=10)
        check("a full disk is an error", p.returncode == 1 and b"No space left" in p.stderr, p.stderr)
        p = subprocess.run([PROTECT, "zone", "list"], env=env, stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE, timeout=10)
        check("of a list too", p.returncode == 1 and b"No space left" in p.stderr, p.stderr)


def logs_test():
    same("logs: as they are, in a pipe", b"\x1b[2Jbooting\r\nready\r\n", run("zone", "logs", "z").stdout)
    p = subprocess.Popen([PROTECT, "zone", "logs", "--follow", "z"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    lines = [p.stdout.readline() for _ in range(4)]
    check("logs --follow goes on", lines[2:] == [b"tick 1\r\n", b"tick 2\r\n"], lines)
    p.send_signal(signal.SIGINT)
    same("until an interrupt", 130, p.wait(10))
    r = run("workload", "launch", "--zone", "z", "--name", "l", "img", "true")
    r = run("workload", "logs", "l")
    same("workload logs", (0, b"out\n", b"err\n"), (r.returncode, r.stdout, r.stderr))
    run("workload", "destroy", "l")


def workloads_test():
    r = run("workload", "launch", "--zone", "z", "--name", "a", "-t", "-a", "img", "sh", "-c", "echo one; echo last; exit 3")
    same("attached, with a terminal there and none here", (3, b"one\r\nlast\r\n", b""), (r.returncode, r.stdout, r.stderr))
    check("its output is not lost if it is quick", all(run("workload", "launch", "--zone", "z", "--name", "q%d" % i, "-a", "img", "echo", str(i)).stdout == b"%d\n" % i for i in range(20)))
    same("stdin", b"abc", run("workload", "launch", "--zone", "z", "--name", "b", "-a", "img", "cat", stdin=b"abc").stdout)
    r = run("workload", "launch", "--zone", "z", "--name", "c", "-e", "A=1", "-e", "HOME", "-w", "/tmp", "-m", work + ":/data:ro", "--privileged", "--hostname", "h", "img", "true", "--name", "x")
    spec = calls("CreateWorkload")[-1].spec
    check("not attached: its id", r.returncode == 0 and r.stdout.decode().strip() in daemon.workloads, r)
    same("environment", [("A", "1"), ("HOME", work)], [(e.key, e.value) for e in spec.process.environment])
    same("command", ["true", "--name", "x"], list(spec.process.command))
    same("mount", (work, "/data", True), (spec.mounts[0].host_path, spec.mounts[0].target_path, spec.mounts[0].read_only))
    same("the rest", ("/tmp", "h", True, daemon.find(daemon.zones, "z", "", None).id), (spec.process.working_directory, spec.hostname, spec.security.privileged, spec.zone_id))
    same("images for workloads are squashfs", common.OCI_IMAGE_FORMAT_SQUASHFS, calls("PullImage")[-1].format)
    r = run("workload", "launch", "--zone", "z", "--name", "d", "-a", "img", "/nonexistent")
    check("what cannot run", r.returncode == 1 and b"cannot run" in r.stderr, r)
    r = run("workload", "launch", "--zone", "z", "--name", "d", "--mount-scratch-disk", "/x", "img")
    same("what the daemon cannot do, in its words", (1, b"protect: there are no scratch disks here\n"), (r.returncode, r.stderr))
    r = run("workload", "launch", "--zone", "z", "--name", "d", "-m", "/nonexistent:/x", "img")
    check("a mount of nothing", r.returncode == 2 and b"cannot mount '/nonexistent'" in r.stderr, r)
    same("exec in a workload", (0, b"in\n"), (lambda r: (r.returncode, r.stdout))(run("workload", "exec", "c", "--", "echo", "in")))
    same("names it", True, bool(calls("ExecuteZoneCommand")[-1].workload_id))
    same("start, stop", (0, 0), (run("workload", "start", "c").returncode, run("workload", "stop", "c", "--timeout", "3").returncode))
    same("the timeout", 3, calls("StopWorkload")[-1].timeout)
    check("destroy", run("workload", "destroy", "c").returncode == 0 and run("workload", "destroy", "c").returncode == 1)
    same("and the rest by selector", 0, run("workload", "destroy", "-l", "status.state=completed").returncode)


def watch_test():
    p = subprocess.Popen([PROTECT, "zone", "watch", "-o", "jsonl"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    time.sleep(0.3)
    run("zone", "launch", "-n", "watched", "--wait")
    events = [json.loads(p.stdout.readline()) for _ in range(2)]
    same("watch", [("zone.changed", "watched", s) for s in ("ZONE_STATE_CREATING", "ZONE_STATE_READY")],
         [(e["event"]["type"], e["zone"]["spec"]["name"], e["zone"]["status"]["state"]) for e in events])
    p.terminate()
    same("until it is ended", 128 + 15, p.wait(10))
    run("zone", "destroy", "watched", "--wait")


# --- images ---------------------------------------------------------------------------------------------------------

def write(path, text, mode=0o600):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    os.chmod(path, mode)


def images_test():
    r = run("image", "pull", "docker.io/library/x:1")
    digest = "sha256:" + "ab" * 32
    same("pull prints the digest", digest, r.stdout.decode().strip())
    check("a line a phase where there is no terminal", b"x:1: downloading layers (3, 15.0 MiB)\n" in r.stderr and b"x:1: complete\n" in r.stderr and r.stderr.count(b"\n") == 8, r.stderr)
    same("none with --progress none", b"", run("image", "pull", "--progress", "none", "x").stderr)
    lines = [json.loads(line) for line in run("image", "pull", "--progress", "json", "x").stdout.splitlines()]
    check("JSON lines", lines[0]["type"] == "progress" and lines[8]["phase"] == "layer-download" and lines[8]["layers"][2]["phase"] == "downloading" and
          lines[8]["total"] == 15 << 20, lines[8])
    same("and the result at the end", ("result", digest), (lines[-1]["type"], lines[-1]["digest"]))
    run("image", "pull", "--format", "directory", "--overwrite-cache", "--update", "x")
    pull = calls("PullImage")[-1]
    same("options", (common.OCI_IMAGE_FORMAT_DIRECTORY, True, True), (pull.format, pull.overwrite_cache, pull.update))
    same("remove by a digest's beginning", ("sha256:" + "a" * 64, common.OCI_IMAGE_FORMAT_SQUASHFS), (lambda r, c: (c.digest, c.format))(run("image", "remove", "aaaaaaa"), calls("RemoveImage")[-1]) if run("image", "remove", "sha256:aaaaaaa").returncode == 0 else None)
    r = run("image", "remove", "docker.io/library/nonesuch")
    check("remove of what is not there", r.returncode == 1 and b"there is no image" in r.stderr, r.stderr)
    r = run("image", "prune", "--all", "--keep", "7d")
    same("prune", (b"sha256:" + b"b" * 64 + b"\n", b"1 image removed, 12.1 KiB freed\n", True, 604800),
         (r.stdout, r.stderr, calls("PruneImages")[-1].all, calls("PruneImages")[-1].keep_newer_than))


def import_test():
    digest = b"sha256:" + b"cd" * 32 + b"\n"
    data = os.urandom(3 << 20) + b"end"
    path = work + "/archive.tar"
    with open(path, "wb") as f:
        f.write(data)
    for what, args, more in (("from a file", (path,), {}), ("from a pipe", ("-",), dict(stdin=data)), ("of nothing", ("/dev/null",), {})):
        r = run("image", "import", "--name", "x:1", "--digest", "sha256:" + "0" * 64, "--format", "tar", "--overwrite-cache", *args, **more)
        sent = b"" if "null" in args[0] else data
        same("import %s" % what, (0, digest), (r.returncode, r.stdout))
        same("what came of it", (len(sent), hashlib.sha256(sent).hexdigest(), True), daemon.imported[-1])
    first = calls("ImportImage")[-1]
    same("options", ("x:1", "sha256:" + "0" * 64, common.OCI_IMAGE_FORMAT_TAR, True), (first.image, first.digest, first.format, first.overwrite_cache))
    lines = [json.loads(line) for line in run("image", "import", "--progress", "json", path).stdout.splitlines()]
    uploads = [line["current"] for line in lines if line["type"] == "upload"]
    check("JSON lines begin with the upload", lines[0]["type"] == "upload" and lines[0]["total"] == len(data) and uploads == sorted(uploads) and uploads[-1] == len(data), lines)
    same("and end with the result", ("result", "sha256:" + "cd" * 32), (lines[-1]["type"], lines[-1]["digest"]))
    for name in ("cached", "following", "refused"):
        read, write_end = os.pipe()
        p = subprocess.Popen([PROTECT, "image", "import", "--progress", "none", "--name", name + ":1", "-"], stdin=read, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
        endless = subprocess.Popen(["cat", "/dev/zero"], stdout=write_end, stderr=subprocess.DEVNULL)
        os.close(write_end)
        out, err = p.communicate(timeout=30)
        endless.kill()
        endless.wait()
        os.close(read)
        if name == "refused":
            same("an error in mid-upload", (1, b"", b"protect: what is sent is larger than the 1 MiB allowed\n"), (p.returncode, out, err))
        else:
            same("what is %s needs no end of the input" % name, (0, digest), (p.returncode, out))
    daemon.pull_delay = 0.1
    with open(work + "/large.tar", "wb") as f:
        f.truncate(64 << 20)
    t = Terminal("image", "import", work + "/large.tar")
    t.expect(b" of 64.0 MiB")
    t.type(b"\x03")
    t.end("Ctrl+C while it is sent", 130)
    t = Terminal("image", "import", path)
    t.expect(b"of 3.0 MiB")
    t.end("import on a terminal", 0, 30)
    check("leaves the digest", t.text.endswith(digest.replace(b"\n", b"\r\n")), t.text[-200:])
    daemon.pull_delay = 0
    r = run("image", "import", work)
    check("a directory", r.returncode == 1 and b"directory" in r.stderr, r.stderr)
    t = Terminal("image", "import", "-")
    t.expect(b"is a terminal")
    t.end("a terminal", 1)


def auth_of(reference, **extra):
    r = run("image", "pull", "--progress", "none", reference, **extra)
    auth = calls("PullImage")[-1].auth
    kind = auth.WhichOneof("authentication_method")
    value = getattr(auth, kind) if kind else None
    return (kind, (value.username, value.password) if kind == "username_password" else value), r.stderr


def credentials_test():
    write(work + "/.docker/config.json", json.dumps({
        "auths": {"https://index.docker.io/v1/": {"auth": "dTpw"}, "ghcr.io": {"username": "me", "password": "secret"}, "http://reg.local:5000/v2/": {"identitytoken": "idt"},
                  "helped.example": {}, "tok.example": {"registrytoken": "rt"}},
        "credHelpers": {"helped.example": "good", "token.example": "good", "none.example": "good", "broken.example": "broken", "absent.example": "absent"}}))
    helper = '#!/bin/sh\nread -r server\n[ "$1" = get ] || exit 1\ncase $server in\nhelped.example) echo \'{"ServerURL":"x","Username":"u","Secret":"s"}\' ;;\n' \
             'token.example) echo \'{"Username":"<token>","Secret":"t"}\' ;;\n*) echo credentials not found in native keychain; exit 1 ;;\nesac\n'
    write(work + "/bin/docker-credential-good", helper, 0o755)
    write(work + "/bin/docker-credential-broken", "#!/bin/sh\necho the vault is sealed\nexit 3\n", 0o755)
    path = work + "/bin:" + os.environ["PATH"]
    same("Docker Hub", ("raw_basic_auth", "dTpw"), auth_of("alpine:3")[0])
    same("by its full name", ("raw_basic_auth", "dTpw"), auth_of("docker.io/library/alpine")[0])
    same("another host", ("username_password", ("me", "secret")), auth_of("ghcr.io/a/b@sha256:" + "0" * 64)[0])
    same("with a port", ("identity_token", "idt"), auth_of("reg.local:5000/a")[0])
    same("a registry token", ("registry_token", "rt"), auth_of("tok.example/a")[0])
    same("of a host that is not named: none", (None, None), auth_of("quay.io/a/b")[0])
    same("of a name that only begins so: none", (None, None), auth_of("ghcr.io.evil.example/a/b")[0])
    same("a helper", ("raw_basic_auth", "dTpz"), auth_of("helped.example/a", PATH=path)[0])
    same("a helper's token", ("identity_token", "t"), auth_of("token.example/a", PATH=path)[0])
    same("a helper that has none", ((None, None), b""), auth_of("none.example/a", PATH=path))
    got, err = auth_of("broken.example/a", PATH=path)
    check("a broken helper is told of", got == (None, None) and b"the vault is sealed" in err, err)
    got, err = auth_of("absent.example/a", PATH=path)
    check("an absent one too", got == (None, None) and b"docker-credential-absent" in err, err)
    write(work + "/other/config.json", '{"auths":{"ghcr.io":{"auth":"b3RoZXI6"}}}')
    same("DOCKER_CONFIG", ("raw_basic_auth", "b3RoZXI6"), auth_of("ghcr.io/a/b", DOCKER_CONFIG=work + "/other")[0])
    write(work + "/other/config.json", "no json")
    check("a broken file is told of", b"is not in the form of Docker's config.json" in auth_of("ghcr.io/a/b", DOCKER_CONFIG=work + "/other")[1])
    shutil.rmtree(work + "/.docker")


# --- terminals ------------------------------------------------------------------------------------------------------

def terminal_test():
    t = Terminal("zone", "exec", "-t", "z", "sh", "-c", "stty size; read x; echo got $x; stty size; exit 5", rows=33, columns=99)
    t.expect(b"33 99")
    check("raw while it runs", t.is_raw())
    t.size(40, 120)
    os.kill(t.popen.pid, signal.SIGWINCH)
    time.sleep(0.3)
    t.type(b"word\r")
    t.expect(b"got word\r\n")
    t.expect(b"40 120")
    t.end("the command's exit status", 5)

    t = Terminal("zone", "exec", "-t", "z", "cat")
    t.type(b"hello\r")
    t.expect(b"hello\r\nhello\r\n")
    t.type(b"\x03")
    t.end("Ctrl-C is the command's", 130)

    t = Terminal("zone", "exec", "-t", "z", "cat")
    until(t.is_raw)
    t.type(b"\x1d")
    t.end("Ctrl+] detaches", 0)
    for sig in (signal.SIGTERM, signal.SIGHUP):
        t = Terminal("zone", "exec", "-t", "z", "cat")
        until(t.is_raw)
        t.popen.send_signal(sig)
        t.end("signal %d" % sig, 128 + sig)
    t = Terminal("zone", "exec", "-t", "z", "cat")
    until(t.is_raw)
    t.popen.send_signal(signal.SIGSEGV)
    t.end("a crash", -signal.SIGSEGV)

    t = Terminal("zone", "attach", "z")
    t.expect(b"tick 2")
    t.type(b"x")
    check("what is typed arrives", until(lambda: [c for c in calls("AttachZoneConsole") if c.data == b"x"]))
    t.type(b"\x1dy")
    t.end("console left by Ctrl+]", 0)
    same("what comes behind that does not", [b"x"], [c.data for c in calls("AttachZoneConsole")])

    t = Terminal("workload", "launch", "--zone", "z", "--name", "t1", "-ta", "img", "sh", "-c", "read x; echo got $x")
    until(t.is_raw)
    t.type(b"in\r")
    t.expect(b"got in")
    t.end("a workload on a terminal", 0)
    t = Terminal("workload", "launch", "--zone", "z", "--name", "t2", "-ta", "img", "cat")
    until(t.is_raw)
    t.type(b"\x1d")
    t.expect(b"detached")
    t.end("left by Ctrl+]", 0)
    same("goes on", common.WORKLOAD_STATE_RUNNING, daemon.find(daemon.workloads, "t2", "", None).status.state)
    run("workload", "destroy", "t2")

    t = Terminal("zone", "logs", "z")
    t.expect(b"\\x1b[2Jbooting")
    t.end("logs cannot command a terminal", 0)
    t = Terminal("zone", "list")
    t.expect(b"\x1b[32mready\x1b[0m")
    t.end("colours on a terminal", 0)


def bars_test():
    daemon.pull_delay = 0.12
    t = Terminal("image", "pull", "docker.io/library/x:1", columns=100)
    t.end("pull on a terminal", 0)
    check("draws a bar a layer, with rates", t.text.count(b"[=") > 3 and b"MiB/s" in t.text and b" / 15.0 MiB" in t.text, t.text)
    check("and takes it away", t.text.endswith(b"\x1b[J" + b"sha256:" + b"ab" * 32 + b"\r\n"), t.text[-200:])
    widest = max(len(line.replace(b"\x1b[K", b"").decode("utf8", "replace")) for line in t.text.split(b"\r\n"))
    t = Terminal("zone", "launch", "-n", "never2", "--kernel-variant", "nvidia", "--wait", rows=5, columns=40)
    t.expect(b"nvidia  downloading layers")
    t.expect(b"creating")
    t.type(b"\x03")
    t.end("Ctrl-C of a launch on a terminal", 130)
    check("takes all that was drawn away", b"\r\x1b[1A\x1b[Jprotect: interrupted" in t.text, t.text[-200:])
    check("leaves no zone", until(lambda: not [z for z in daemon.zones.values() if z.spec.name == "never2"]))
    t = Terminal("workload", "launch", "--zone", "z", "--name", "cap", "-ta", "img", "echo", "last", stdout=subprocess.PIPE)
    out = t.popen.stdout.read()
    t.end("captured stdout", 0)
    same("holds the workload's output and nothing else", b"last\r\n", out)
    daemon.pull_delay = 0.02


@contextlib.contextmanager
def watchdog(seconds):
    timer = threading.Timer(seconds, lambda: (print("NOT OK: stuck", flush=True), os._exit(1)))
    timer.daemon = True
    timer.start()
    yield
    timer.cancel()


def lost_test():
    p = subprocess.Popen([sys.executable, foreign_daemon.__file__, socket + "2"], env=dict(env, SRC_DIR=foreign_daemon.SRC), stderr=subprocess.DEVNULL)
    other = {"PROTECT_CONNECTION": "unix://" + socket + "2"}
    check("another daemon answers", until(lambda: run("host", "status", **other).returncode == 0, 20))
    run("zone", "launch", "-n", "z", "--wait", **other)
    c = subprocess.Popen([PROTECT, "zone", "exec", "z", "cat"], env=dict(env, **other), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    c.stdin.write(b"x")
    c.stdin.flush()
    same("it is at work", b"x", c.stdout.read(1))
    p.kill()
    out, err = c.communicate(timeout=10)
    same("a daemon that dies", (1, b"protect: the connection to the daemon was lost; is it still running?\n"), (c.returncode, err))
    p.wait()


with watchdog(240):
    try:
        for test in (lists_test, json_test, zones_test, interrupts_test, exec_test, slow_reader_test, logs_test, workloads_test, watch_test, images_test, import_test, credentials_test, terminal_test,
                     bars_test, lost_test):
            print("# " + test.__name__, flush=True)
            test()
    finally:
        shutil.rmtree(work, ignore_errors=True)
        shutil.rmtree(foreign_daemon.generated, ignore_errors=True)
        server.stop(0)
print("%d not ok" % failures)
os._exit(1 if failures else 0)
