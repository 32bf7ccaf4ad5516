# SPDX-License-Identifier: Apache-2.0
"""What pulls an image in this benchmark: ours, its peers, and the floor.

Each has a name, a title, need(), which builds or fetches what it runs and raises Missing if that is not to be had; begin() and end() around the
whole; prepare(), untimed, before each pull; command() and daemons, which are timed. Each but the floor leaves what it made in its own folder.
"""
import json, os, shutil, signal, subprocess, time

import measure

HERE = os.path.dirname(os.path.abspath(__file__))
RIGS = os.path.realpath(HERE + '/../../rigs')
ACCEPT = 'Accept: application/vnd.oci.image.manifest.v1+json'


class Missing(Exception):
    pass


def program(name):
    path = shutil.which(name, path=os.environ['PATH'] + ':/usr/sbin:/sbin')
    if not path:
        raise Missing(f'{name} is not installed')
    return path


def build(what, command, folder, **environment):
    """Builds take long and are nobody's hurry."""
    os.makedirs(folder, exist_ok=True)
    print(f'building {what}', flush=True)
    with open(f'{folder}/build.log', 'w') as log:
        p = subprocess.run(['nice', '-n', '15', *command], cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ, **environment))
    if p.returncode:
        raise Missing(f'{what} did not build, see {folder}/build.log')


class Image:
    """One tag of one image: where it is in the registry, and its layout on disk."""
    def __init__(self, name, kind, folder, registry):
        self.name, self.kind, self.folder, self.registry, self.registry_pid = name, kind, folder, registry.address, registry.pid
        self.repository, self.layout = f'bench/{name}', f'{folder}/oci'
        with open(self.layout + '/index.json') as f:
            self.entry = next(m for m in json.load(f)['manifests'] if m['annotations']['org.opencontainers.image.ref.name'] == kind)
        with open(self.blob(self.entry['digest'])) as f:
            self.manifest = json.load(f)

    @property
    def reference(self):
        return f'{self.registry}/{self.repository}:{self.kind}'

    @property
    def layers(self):
        return [self.blob(l['digest']) for l in self.manifest['layers']]

    def blob(self, digest):
        return f'{self.layout}/blobs/{digest.replace(":", "/")}'


class Peer:
    kinds = ('gzip', 'zstd')
    daemons = ()
    folder = None  # of what a pull makes

    def __init__(self, cache, options):
        self.cache, self.options = cache, options

    def need(self):
        pass

    def begin(self, folder):
        self.folder = folder
        os.makedirs(folder)

    def prepare(self, image):
        shutil.rmtree(self.folder)
        os.makedirs(self.folder)

    def end(self):
        pass

    def run(self, image, sample):
        self.prepare(image)
        return measure.run(self.command(image), self.daemons, sample, image.registry_pid)


class Ours(Peer):
    name, title, aim = 'ours', 'protect-oci-provider', None

    def need(self):
        self.program = self.options.provider
        if not os.access(self.program, os.X_OK):
            raise Missing(f'{self.program} is not there; name it with --provider')

    def command(self, image):
        return (f'exec {self.program} --progress none --platform linux/amd64 --insecure-registry {image.registry} '
                f'--output {self.folder}/image.squashfs {image.reference}')


class Containerd(Peer):
    """Fetches and unpacks into a snapshot; there is no squashfs at the end. Its daemon is a part of the pull."""
    aim = 4
    config = 'version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.nri.v1.nri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"]\n'

    def begin(self, folder):
        super().begin(folder)
        self.socket = f'{folder}/sock'
        with open(f'{folder}/config.toml', 'w') as f:
            f.write(self.config)
        self.log = open(f'{folder}/log', 'w')
        # A mount namespace of its own takes along whatever it leaves mounted.
        self.process = subprocess.Popen(['unshare', '-m', '--propagation', 'private', f'{self.bin}/containerd', '--config', f'{folder}/config.toml',
                                         '--root', f'{folder}/root', '--state', f'{folder}/state', '--address', self.socket],
                                        stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        self.daemons = [self.process.pid]
        for _ in range(150):
            if subprocess.run([f'{self.bin}/ctr', '-a', self.socket, 'version'], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.2)
        with open(f'{folder}/log') as f:
            raise Missing('it did not start: ' + f.read()[-400:])

    def prepare(self, image):
        listed = subprocess.run([f'{self.bin}/ctr', '-a', self.socket, 'image', 'ls', '-q'], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout.decode().split()
        if listed:
            subprocess.run([f'{self.bin}/ctr', '-a', self.socket, 'image', 'rm', '--sync', *listed], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    def command(self, image):
        return f'exec {self.bin}/ctr -a {self.socket} image pull --plain-http --platform linux/amd64 {image.reference}'

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class Containerd2(Containerd):
    name, title, version = 'ctr', 'ctr image pull, containerd 2.4.2', 'v2.4.2'

    def need(self):
        self.bin = f'{self.cache}/peers/containerd-{self.version}'
        if not os.path.exists(f'{self.bin}/ctr'):
            modules = [f'github.com/containerd/containerd/v2/cmd/{c}@{self.version}' for c in ('containerd', 'ctr')]
            build(self.title, [program('go'), 'install', *modules], self.bin, GOBIN=self.bin, GOFLAGS='-mod=mod')


class Containerd1(Containerd):
    name, title = 'ctr-debian', "ctr image pull, Debian's containerd"

    def need(self):
        folder = f'{self.cache}/peers/containerd-debian'
        if subprocess.run([f'{RIGS}/fetch-deb', 'containerd', folder], stdout=subprocess.DEVNULL).returncode:
            raise Missing('apt-get does not give it')
        self.bin = f'{folder}/usr/bin'


class Skopeo(Peer):
    name, title, aim = 'skopeo', 'skopeo + umoci unpack + mksquashfs', 12
    kinds = ('gzip',)  # umoci reads no zstd

    def need(self):
        self.skopeo, self.umoci, self.mksquashfs = program('skopeo'), program('umoci'), program('mksquashfs')

    def command(self, image):
        f = self.folder
        return (f'{self.skopeo} --insecure-policy copy -q --src-tls-verify=false docker://{image.reference} oci:{f}/oci:latest && '
                f'{self.umoci} unpack --image {f}/oci:latest {f}/bundle && '
                f'{self.mksquashfs} {f}/bundle/rootfs {f}/image.squashfs -noappend -quiet -no-progress -comp zstd -Xcompression-level 3')


class Ocirender(Peer):
    """Fetched by curl, all blobs at a time, and checked by openssl; mksquashfs does the packing."""
    name, title, aim = 'ocirender', 'curl -Z + sha256 + ocirender', 2

    def need(self):
        program('curl'), program('openssl')
        self.mksquashfs = self.new_mksquashfs()
        target = f'{self.cache}/peers/ocirender'
        self.render = f'{target}/release/render'
        if not os.path.exists(self.render):
            source = f'{target}/source'
            os.makedirs(source, exist_ok=True)
            for name in ('Cargo.toml', 'main.rs'):
                shutil.copy(f'{HERE}/ocirender/{name}', source)
            build(self.title, [program('cargo'), 'build', '--release', '--target-dir', target], source)

    def new_mksquashfs(self):
        """It needs options that mksquashfs has since 4.6; where there is an older one, the newest is built of Debian's sources."""
        installed = program('mksquashfs')
        if b'-default-mode' in subprocess.run([installed, '-help'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout:
            return installed
        folder = f'{self.cache}/peers/squashfs-tools'
        built = f'{folder}/mksquashfs'
        if not os.path.exists(built):
            build('mksquashfs', [f'{HERE}/mksquashfs.sh', folder], folder)
        return built

    def prepare(self, image):
        super().prepare(image)
        os.makedirs(f'{self.folder}/oci/blobs/sha256')
        with open(f'{self.folder}/oci/index.json', 'w') as f:
            json.dump(dict(schemaVersion=2, manifests=[image.entry]), f)
        shutil.copy(image.layout + '/oci-layout', f'{self.folder}/oci/')

    def command(self, image):
        base, blobs = f'http://{image.registry}/v2/{image.repository}', f'{self.folder}/oci/blobs/sha256'
        wanted = [(d['digest'], 'blobs') for d in image.manifest['layers'] + [image.manifest['config']]] + [(image.entry['digest'], 'manifests')]
        get = ' '.join(f'-o {blobs}/{digest[7:]} {base}/{what}/{digest}' for digest, what in wanted)
        return (f"curl -fsS -Z -H '{ACCEPT}' {get} && (cd {blobs} && openssl dgst -r -sha256 * | awk '\"*\" $1 != $2 {{ exit 1 }}') && "
                f'{self.render} {self.folder}/oci {self.folder}/image.squashfs {self.mksquashfs}')


class Floor(Peer):
    """The CPU time of what cannot be left out, each done alone and by the fastest there is, on all cores: no pull can take less."""
    name, title, aim = 'floor', 'floor: inflate, hash, compress', 1 / 1.3

    def need(self):
        self.tar2sqfs = program('tar2sqfs')
        self.program = f'{self.cache}/peers/floor/floor'
        if not os.path.exists(self.program) or os.path.getmtime(self.program) < os.path.getmtime(f'{HERE}/floor.c'):
            folder = os.path.dirname(self.program)
            build('the floor', [program('cc'), '-O2', '-o', self.program, f'{HERE}/floor.c', '-lisal', '-lzstd', '-lcrypto'], folder)

    def run(self, image, sample):
        self.prepare(image)
        cores = len(os.sched_getaffinity(0))
        unpack = measure.run(f'exec {self.program} ' + ' '.join(image.layers))
        pack = measure.run(f'exec {self.tar2sqfs} -q -f -s -j {cores} -c zstd -X level=1 {self.folder}/image.squashfs <{image.folder}/merged.tar')
        cpu = float(unpack['said']) + pack['cpu']
        return dict(pack, wall=cpu / cores, cpu=cpu)


ALL = [Ours, Containerd2, Containerd1, Skopeo, Ocirender, Floor]
