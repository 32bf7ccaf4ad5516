#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The registry as a source of kernel variants, against Debian's docker-registry.

Images are written as OCI layouts here, pushed with skopeo, and must be offered by the rules: annotations of the platform's manifest
(an index in front of it has none), labels as the second choice, the newest version of a name, the digest pinned. Tags come in pages.
With the registry gone, the cache answers."""

import base64
import gzip
import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SRC = os.environ["SRC_DIR"]
BUILD = os.environ["BUILD_DIR"]
ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
OTHER = "arm64" if ARCH == "amd64" else "amd64"


def skip(reason):
    print(reason)
    sys.exit(77)


class Layout:
    """An OCI layout directory."""

    def __init__(self, path):
        self.path = path
        os.makedirs(f"{path}/blobs/sha256")
        with open(f"{path}/oci-layout", "w") as f:
            json.dump({"imageLayoutVersion": "1.0.0"}, f)

    def blob(self, data):
        if isinstance(data, dict):
            data = json.dumps(data).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{self.path}/blobs/sha256/{digest}", "wb") as f:
            f.write(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    def image(self, annotations=None, labels=None, arch=ARCH):
        layer = self.blob(gzip.compress(b"\0" * 1024, mtime=0))
        config = self.blob({"architecture": arch, "os": "linux", "config": {"Labels": labels or {}},
                            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(b"\0" * 1024).hexdigest()]}})
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
                    "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **layer}]}
        if annotations:
            manifest["annotations"] = annotations
        return {"mediaType": "application/vnd.oci.image.manifest.v1+json", **self.blob(manifest),
                "platform": {"os": "linux", "architecture": arch}}

    def index(self, images):
        index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": images}
        return {"mediaType": "application/vnd.oci.image.index.v1+json", **self.blob(index)}

    def name(self, descriptor, tag):
        entry = {k: v for k, v in descriptor.items() if k != "platform"}
        entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
        with open(f"{self.path}/index.json", "w") as f:
            json.dump({"schemaVersion": 2, "manifests": [entry]}, f)


def kernel(flavor, version, variant=None, format="1"):
    a = {"dev.edera.kernel.flavor": flavor, "dev.edera.kernel.version": version, "dev.edera.kernel.format": format}
    if variant:
        a["dev.edera.kernel.variant"] = variant
    return a


def push(work, registry, ref, build, count=[0]):
    count[0] += 1
    layout = Layout(f"{work}/layout{count[0]}")
    tag = ref.split(":")[1]
    top, pinned = build(layout)
    layout.name(top, tag)
    subprocess.run(["skopeo", "copy", "-q", "--all", "--preserve-digests", "--dest-tls-verify=false", f"oci:{layout.path}:{tag}",
                    f"docker://{registry}/{ref}"], check=True)
    return pinned["digest"] if pinned else None


def single(annotations=None, labels=None):
    def build(layout):
        m = layout.image(annotations, labels)
        return m, m
    return build


def multi(annotations, arches):
    def build(layout):
        images = [layout.image(annotations, arch=a) for a in arches]
        ours = [m for m in images if m["platform"]["architecture"] == ARCH]
        return layout.index(images), ours[0] if ours else None
    return build


class Bench:
    def __init__(self, work, registry):
        self.work, self.registry = work, registry
        self.data = f"{work}/data"
        os.makedirs(self.data)
        # Its user may not be able to reach the build tree.
        shutil.copy(f"{BUILD}/protect-oci-provider", work)

    def configure(self, **keys):
        section = {"repositories": [f"{self.registry}/zone-kernel"], **keys}
        with open(f"{self.work}/daemon.toml", "w") as f:
            f.write(f'[oci]\ninsecure-registries = ["{self.registry}"]\n[plugin.registry]\n')
            for key, value in section.items():
                f.write(f"{key.replace('_', '-')} = {json.dumps(value)}\n")

    def run(self, *flags, fails=False):
        done = subprocess.run([f"{BUILD}/tests/integration/variants-run", f"{self.work}/daemon.toml", f"{BUILD}/plugins/registry/.libs/registry.so",
                               self.data, *flags], capture_output=True, text=True, timeout=120,
                              env={**os.environ, "PROTECT_OCI_PROVIDER": f"{self.work}/protect-oci-provider"})
        self.log = done.stderr
        if (done.returncode != 0) != fails:
            raise SystemExit(f"exit status {done.returncode}:\n{done.stdout}{done.stderr}")
        return [line.split("\t") for line in done.stdout.splitlines()]


def expect(got, want, what):
    if got != want:
        raise SystemExit(f"{what}:\n  got  {got}\n  want {want}")
    print(f"ok: {what}")


def bcrypt(password):
    """docker-registry takes no other hash."""
    return subprocess.run([sys.executable, "-W", "ignore", "-c", "import crypt; print(crypt.crypt(input(), crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))"],
                          input=password, check=True, capture_output=True, text=True).stdout.strip()


def rig(*words):
    return subprocess.run([f"{SRC}/tests/rigs/registry", *words], check=True, capture_output=True, text=True).stdout.strip()


def test(work):
    rig_dir = f"{work}/registry"
    registry = rig("start", rig_dir)
    try:
        cases(work, rig_dir, registry)
    finally:
        rig("stop", rig_dir)


def cases(work, rig_dir, registry):
    b = Bench(work, registry)
    pushed = {}

    def put(tag, build, repository="zone-kernel"):
        pushed[tag] = push(work, registry, f"{repository}:{tag}", build)

    put("6.9", single(kernel("zone", "6.9")))
    put("6.18", single(kernel("zone", "6.18")))
    put("6.18-rc1", single(kernel("zone", "6.18-rc1")))
    put("latest", single(kernel("zone", "6.18")))
    put("6.18-nvidia", multi(kernel("zone-nvidiagpu", "6.18.38", "nvidia"), [OTHER, ARCH]))
    put("labelled", single(labels=kernel("labelled", "1.0")))
    put("foreign", multi(kernel("foreign", "1.0"), [OTHER]))
    put("no-format", single({"dev.edera.kernel.flavor": "x", "dev.edera.kernel.version": "1"}))
    put("format-2", single(kernel("future", "1", format="2")))
    put("ordinary", single())
    put("bad-name", single(kernel("bad name!", "1")))
    put("sha256-" + "0" * 64, single(kernel("signature", "9")))

    image = f"{registry}/zone-kernel"
    want = [["nvidia", f"{image}:6.18-nvidia", pushed["6.18-nvidia"], "6.18.38"],
            ["zone", f"{image}:6.18", pushed["6.18"], "6.18"],
            ["labelled", f"{image}:labelled", pushed["labelled"], "1.0"]]
    b.configure()
    expect(sorted(b.run()), sorted(want), "images are offered by their annotations, pinned to the platform's manifest")

    put("6.20", single(kernel("zone", "6.20")))
    expect(sorted(b.run()), sorted(want), "a fresh cache answers without asking")
    newer = [w if w[0] != "zone" else ["zone", f"{image}:6.20", pushed["6.20"], "6.20"] for w in want]
    expect(sorted(b.run("--refresh")), sorted(newer), "asked to refresh, it sees the newer image")

    b.configure(tags=["6.9", "6.18-nv*"])
    expect(sorted(b.run("--refresh")), sorted([["zone", f"{image}:6.9", pushed["6.9"], "6.9"], want[0]]), "tags are chosen by patterns")
    b.configure(tags=["6.*"], max_tags=1)
    expect(b.run("--refresh"), [["zone", f"{image}:6.20", pushed["6.20"], "6.20"]], "the newest tags are looked at first")
    expect("only the newest 1 are looked at" in b.log, True, "and the log says what was left out")

    # More tags than a page of docker-registry (100).
    digest = push(work, registry, "paged:t000", single(kernel("paged", "3.0")))
    source = f"docker://{registry}/paged:t000"
    for n in range(1, 130):
        link = f"{rig_dir}/storage/docker/registry/v2/repositories/paged/_manifests/tags"
        shutil.copytree(f"{link}/t000", f"{link}/t{n:03}")
    tags = json.loads(subprocess.run(["skopeo", "list-tags", "--tls-verify=false", source.rsplit(":", 1)[0]], check=True, capture_output=True,
                                     text=True).stdout)["Tags"]
    expect(len(tags), 130, "a peer sees 130 tags")
    b.configure(repositories=[f"{registry}/paged"], tags=["t129"])
    expect(b.run(), [["paged", f"{registry}/paged:t129", digest, "3.0"]], "tags of a later page are found")

    # An earlier repository hides a later one's variant of the same name.
    push(work, registry, "mirror:1", single(kernel("zone", "9.9")))
    b.configure(repositories=[image, f"{registry}/mirror"], tags=["6.20", "1"])
    expect(b.run("--refresh"), [["zone", f"{image}:6.20", pushed["6.20"], "6.20"]], "the earlier repository's variant wins")

    # A registry that is gone.
    b.configure(refresh="0s")
    b.run("--refresh")
    rig("stop", rig_dir)
    start = time.monotonic()
    expect(sorted(b.run()), sorted(newer), "offline, the cache answers")
    expect("log 4 cannot look for kernel variants in" in b.log, True, "and the log says why")
    expect(time.monotonic() - start < 20, True, "without a long wait")
    b.run("--refresh")
    expect(sorted(b.run("--refresh")), sorted(newer), "a refresh that fails loses nothing")

    # One that takes connections and says nothing.
    host, port = registry.rsplit(":", 1)
    with socket.create_server((host, int(port))):
        start = time.monotonic()
        expect(sorted(b.run()), sorted(newer), "with a silent registry, the cache answers")
        waited = time.monotonic() - start
        expect(4 < waited < 12, True, f"after a few seconds ({waited:.1f})")

    cache = f"{b.data}/cache/variants"
    for name in os.listdir(cache):
        with open(f"{cache}/{name}", "w") as f:
            f.write('{"format": 1, "variants": [')
    b.run(fails=True)
    expect("cannot look for kernel variants in" in b.log.splitlines()[-1], True, "with a broken cache, the error names the repository")

    # Credentials from the data directory.
    shutil.rmtree(cache)
    with open(f"{work}/htpasswd", "w") as f:
        f.write("zone:" + bcrypt("secret") + "\n")
    registry = rig("start", rig_dir, "--auth", f"{work}/htpasswd")
    b.registry = registry
    b.configure()
    b.run(fails=True)
    auth = {"auths": {registry: {"auth": base64.b64encode(b"zone:secret").decode()}, "other.example": {"auth": "bm8="}}}
    with open(f"{b.data}/auth.json", "w") as f:
        json.dump(auth, f)
    os.chmod(f"{b.data}/auth.json", 0o600)
    expect(len(b.run()), 3, "credentials come from auth.json")


def main():
    if not shutil.which("skopeo"):
        skip("skopeo is not installed")
    if os.geteuid() != 0:
        skip("protect-oci-provider is started as its own user, which only root can do")
    subprocess.run(["make", "-s", "-C", BUILD, "install-users", "DESTDIR="], check=True, stdout=subprocess.DEVNULL)
    work = tempfile.mkdtemp(prefix="variants-registry.")
    os.chmod(work, 0o755)
    try:
        test(work)
    finally:
        shutil.rmtree(work)


main()
