#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images out of containerd's content store, with Debian's containerd, docker-registry and ctr: image-containerd.py [NAME...]

The daemon runs with zones that are never launched. What it has to show: what containerd has is not downloaded, what containerd lacks or has
wrong is, and the squashfs is the same either way."""
import base64, hashlib, json, os, re, shutil, signal, subprocess, sys, tempfile, time, traceback

SRC, BUILD = os.environ['SRC_DIR'], os.environ['BUILD_DIR']
RIGS = SRC + '/tests/rigs/'
sys.path.insert(0, RIGS + 'oci-cases')
from ocitar import *

ARCH = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine, os.uname().machine)
OTHER = 'arm64' if ARCH == 'amd64' else 'amd64'
WORK = tempfile.mkdtemp(prefix='image-containerd.', dir='/var/tmp')
REGISTRY, CONTAINERD, SOCKET = WORK + '/registry', WORK + '/containerd', WORK + '/socket'
BLOBS = CONTAINERD + '/root/io.containerd.content.v1.content/blobs/'


def skip(reason):
    print(reason)
    shutil.rmtree(WORK)
    sys.exit(77)


def run(*args, fails=False, **more):
    p = subprocess.run(args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, text=True, **more)
    assert (p.returncode != 0) == fails, f'{args} ended with {p.returncode}: {p.stdout}{p.stderr}'
    return (p.stderr if fails else p.stdout).strip()


def ctr(*args):
    return run(RIGS + 'containerd', 'ctr', CONTAINERD, *args)


class Registry:
    """docker-registry, which writes down what it was asked."""
    def __init__(self):
        self.port, self.seen = 0, 0
        self.start()
        self.port = int(self.host.rpartition(':')[2])

    def start(self):
        self.host = run(RIGS + 'registry', 'start', REGISTRY, '--port', str(self.port))
        self.seen = 0

    def stop(self):
        run(RIGS + 'registry', 'stop', REGISTRY)

    def asked(self):
        """What of v2/ was asked since the last time: "manifests/1", "blobs/sha256:..."."""
        with open(REGISTRY + '/log') as f:
            found = re.findall(r'msg="response completed".*http\.request\.uri="?/v2/[^ "]*/((?:manifests|blobs)/[^ "]+)', f.read())
        found, self.seen = found[self.seen:], len(found)
        return found


class Daemon:
    def __init__(self, oci):
        os.makedirs(WORK + '/plugins')
        os.makedirs(WORK + '/data/zone')
        for name in ('config', 'registry', 'squashfs'):
            shutil.copy(f'{BUILD}/plugins/{name}/.libs/{name}.so', WORK + '/plugins')
        shutil.copy(f'{BUILD}/tests/plugins/sim/.libs/sim.so', WORK + '/plugins')
        shutil.copy(f'{BUILD}/tests/plugins/sim/sim-vmm', WORK + '/plugins')
        self.config(oci)
        env = dict(os.environ, PROTECT_OCI_PROVIDER=BUILD + '/protect-oci-provider')
        self.log = open(WORK + '/log', 'w')
        self.process = subprocess.Popen([BUILD + '/protect-daemon', '--config', WORK + '/daemon.toml', '--data-dir', WORK + '/data', '--run-dir', WORK + '/run',
                                         '--listen', 'unix://' + SOCKET], env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        for _ in range(200):
            if subprocess.run([BUILD + '/cli/protect', '--connection', 'unix://' + SOCKET, 'host', 'status'], capture_output=True).returncode == 0:
                return
            time.sleep(0.1)
        raise Exception('the daemon does not answer: ' + self.logged())

    def config(self, oci):
        with open(WORK + '/daemon.toml', 'w') as f:
            f.write(f'[daemon]\nlog-level = "debug"\n[plugins]\ndirectory = "{WORK}/plugins"\nhypervisor = "sim"\n[plugin.sim]\n'
                    f'agent = "{BUILD}/zone/protect-zone-agent"\nvmm = "{WORK}/plugins/sim-vmm"\n[oci]\n{oci}')

    def reload(self, oci):
        self.config(oci)
        before = len(self.logged())
        self.process.send_signal(signal.SIGHUP)
        for _ in range(200):
            if 'configuration read again' in self.logged(before):
                return
            time.sleep(0.05)
        raise Exception('no reload is in the log')

    def stop(self):
        self.process.terminate()
        self.process.wait(30)

    def logged(self, since=0):
        with open(WORK + '/log') as f:
            return f.read()[since:]


def protect(*args, fails=False):
    return run(BUILD + '/cli/protect', '--connection', 'unix://' + SOCKET, *args, fails=fails)


def packed(digest):
    with open(f'{WORK}/data/cache/images/{digest.replace(":", "-")}.squashfs/image', 'rb') as f:
        return hashlib.sha256(f.read()).hexdigest()


def names():
    return sorted(n for i in json.loads(protect('image', 'list', '--output', 'json')) for n in i['names'])


def forget():
    """Empties the daemon's cache."""
    protect('image', 'prune', '--all')
    assert names() == []
    registry.asked()


def pull(reference, want=None):
    """Digest of what it became; the squashfs must be `want`."""
    digest = protect('image', 'pull', '--progress', 'none', reference).split('\n')[-1]
    if want:
        assert packed(digest) == want
    return digest


def pull_updated(reference):
    return protect('image', 'pull', '--progress', 'none', '--update', reference).split('\n')[-1]


def content(digest):
    return BLOBS + digest.replace(':', '/')


class Taken:
    """A blob is not in containerd's store for a while, and something else may be."""
    def __init__(self, digest):
        self.path, self.aside = content(digest), WORK + '/aside'

    def __enter__(self):
        os.rename(self.path, self.aside)
        return self

    def __exit__(self, *what):
        if os.path.lexists(self.path):
            os.unlink(self.path)
        os.rename(self.aside, self.path)

    def put(self, data):
        with open(self.path, 'wb') as f:
            f.write(data)


# --- the images: one of three layers, one with two platforms, each named by a tag
NOISE = b''.join(hashlib.sha256(str(i).encode()).digest() for i in range(20000))


def push(tag, name):
    run('skopeo', 'copy', '--quiet', '--all', '--dest-tls-verify=false', f'oci:{WORK}/layout:{tag}', f'docker://{registry.host}/t/{name}:1')


def layers_of(image):
    with open(f'{WORK}/layout/blobs/sha256/{image["digest"][7:]}') as f:
        return [l['digest'] for l in json.load(f)['layers']]


def make():
    layout = Layout(WORK + '/layout')
    layers = [dir('a') + file('a/base', NOISE), file('a/second', 'two') + file('a/gone', 'x'), file('a/third', '3') + whiteout('a/gone')]
    one = layout.image(layers, arch=ARCH)
    layout.tag(one, 'one')
    platforms = [dict(layout.image([file('here', arch)], arch=arch), platform=dict(os='linux', architecture=arch)) for arch in (OTHER, ARCH)]
    index = layout.put_json(dict(schemaVersion=2, mediaType=INDEX, manifests=platforms), mediaType=INDEX)
    layout.tag(index, 'two')
    for tag in ('one', 'two'):
        push(tag, tag)
    return one['digest'], layers_of(one), platforms, layers_of(platforms[0])[0]


def ctr_pull(tag, *options, namespace='k8s.io'):
    ctr('--namespace', namespace, 'image', 'pull', '--plain-http', '--snapshotter', 'native', *options, f'{registry.host}/t/{tag}:1')


# --- the cases, in this order
def case_registry_gone():
    """All of it comes from containerd, the same bytes; the image is known by its plain name."""
    registry.stop()
    assert pull('containerd:' + ONE, WANT_ONE) == one
    assert names() == [ONE]
    assert pull(ONE) == one
    forget()
    assert pull(f'containerd:{ONE}@{one}', WANT_ONE) == one
    forget()
    assert pull(f'{registry.host}/t/one@{one}', WANT_ONE) == one  # content is content, whatever its name
    registry.start()


def case_plain():
    """A plain name is the registry's to explain; what it stands for is not downloaded."""
    forget()
    assert pull(ONE, WANT_ONE) == one
    assert [a for a in registry.asked() if a.startswith('blobs/')] == []


def case_second_namespace():
    """A name is looked for in one namespace after the other."""
    forget()
    ctr('--namespace', 'k8s.io', 'image', 'rm', ONE)
    ctr_pull('one', namespace='default')
    registry.stop()
    assert pull('containerd:' + ONE, WANT_ONE) == one
    registry.start()
    ctr_pull('one')


def case_moved_tag():
    """The registry's tag names something else by now; containerd's still says what it said, to whoever asks containerd."""
    forget()
    push('two', 'one')
    assert pull('containerd:' + ONE, WANT_ONE) == one
    assert pull(ONE) == one and names() == [ONE]  # that is what this name means here
    assert pull_updated(ONE) == platforms[1]['digest']
    assert pull('containerd:' + ONE, WANT_ONE) == one
    assert pull(ONE) == one
    push('one', 'one')


def case_one_layer_missing():
    forget()
    ctr('--namespace', 'k8s.io', 'content', 'rm', layers[1])
    ctr('--namespace', 'default', 'content', 'rm', layers[1])
    if os.path.exists(content(layers[1])):
        os.unlink(content(layers[1]))  # the other namespaces' garbage collection takes its time
    assert pull('containerd:' + ONE, WANT_ONE) == one
    assert registry.asked() == ['blobs/' + layers[1]]


def case_layer_missing_and_registry_gone():
    forget()
    registry.stop()
    said = protect('image', 'pull', '--progress', 'none', 'containerd:' + ONE, fails=True)
    assert layers[1] in said and said.count('\n') == 0, said
    registry.start()
    ctr('--namespace', 'k8s.io', 'content', 'fetch', '--plain-http', ONE)


def case_wrong_content():
    """A blob of the right size with other bytes, of another size, a link to the right bytes, a FIFO: downloaded, and the same comes of it."""
    for digest in (layers[0], one):
        data = open(content(digest), 'rb').read()
        for kind in ('bytes', 'size', 'link', 'fifo'):
            forget()
            with Taken(digest) as t:
                if kind == 'bytes':
                    t.put(data[:-1] + bytes([data[-1] ^ 1]))
                elif kind == 'size':
                    t.put(data + b'x')
                elif kind == 'link':
                    os.symlink(t.aside, t.path)
                else:
                    os.mkfifo(t.path)
                assert pull('containerd:' + ONE, WANT_ONE) == one
                asked = registry.asked()
                assert asked == [('manifests/' if digest == one else 'blobs/') + digest], (kind, asked)


def case_containerd_gone():
    forget()
    run(RIGS + 'containerd', 'stop', CONTAINERD)
    at = len(daemon.logged())
    assert pull('containerd:' + ONE, WANT_ONE) == one
    assert names() == [ONE] and 'manifests/1' in registry.asked()
    assert 'containerd does not say' in daemon.logged(at) and CONTAINERD + '/socket' in daemon.logged(at)
    run(RIGS + 'containerd', 'start', CONTAINERD)


def case_unknown_name():
    at = len(daemon.logged())
    said = protect('image', 'pull', f'containerd:{registry.host}/t/none:1', fails=True)
    assert 'none' in said and 'not found' in daemon.logged(at), said


def case_two_platforms():
    """Of an index containerd keeps what is for this machine."""
    forget()
    ctr_pull('two')
    assert not os.path.exists(content(other_layer))
    registry.stop()
    assert pull('containerd:' + TWO, WANT_TWO) == platforms[1]['digest']
    registry.start()


def case_turned_off():
    forget()
    daemon.reload(OCI + 'containerd-root = ""\n')
    assert pull('containerd:' + ONE, WANT_ONE) == one
    assert len(registry.asked()) == 5  # manifest, config, layers
    daemon.reload(OCI + IN_USE)


def case_private():
    """What containerd pulled with credentials needs none here; what it lacks is fetched with those of whoever asks."""
    forget()
    registry.stop()
    hashed = run(sys.executable, '-W', 'ignore', '-c', 'import crypt; print(crypt.crypt("secret", crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=16)))')
    with open(WORK + '/htpasswd', 'w') as f:
        f.write(f'me:{hashed}\n')
    os.mkdir(WORK + '/docker')
    with open(WORK + '/docker/config.json', 'w') as f:
        json.dump({'auths': {registry.host: {'auth': base64.b64encode(b'me:secret').decode()}}}, f)
    try:
        run(RIGS + 'registry', 'start', REGISTRY, '--port', str(registry.port), '--auth', WORK + '/htpasswd')
        assert pull('containerd:' + ONE, WANT_ONE) == one
        forget()
        assert 'password' in protect('image', 'pull', ONE, fails=True)
        with Taken(layers[1]):
            assert layers[1] in protect('image', 'pull', '--progress', 'none', 'containerd:' + ONE, fails=True)
            os.environ['DOCKER_CONFIG'] = WORK + '/docker'
            assert pull('containerd:' + ONE, WANT_ONE) == one
    finally:
        os.environ.pop('DOCKER_CONFIG', None)
        registry.stop()


# --- main
if not shutil.which('skopeo'):
    skip('skopeo is missing')
if os.geteuid() != 0:
    skip('containerd and the user of the provider need root')
os.chmod(WORK, 0o755)
run('make', '-s', '-C', BUILD, 'install-users', 'DESTDIR=')
registry = daemon = None
failed = 0
try:
    registry = Registry()
    run(RIGS + 'containerd', 'start', CONTAINERD)
    one, layers, platforms, other_layer = make()
    ONE, TWO = f'{registry.host}/t/one:1', f'{registry.host}/t/two:1'
    OCI = f'insecure-registries = ["{registry.host}"]\ncontainerd-address = "{CONTAINERD}/socket"\n'
    IN_USE = f'containerd-root = "{CONTAINERD}/root"\n'
    daemon = Daemon(OCI + IN_USE)
    WANT_ONE, WANT_TWO = packed(pull(ONE)), packed(pull(TWO))
    forget()
    ctr_pull('one')
    cases = {k[5:]: v for k, v in list(globals().items()) if k.startswith('case_')}
    for name in sys.argv[1:] or cases:
        begin = time.monotonic()
        try:
            registry.start()
            run(RIGS + 'containerd', 'start', CONTAINERD)
            cases[name]()
            print(f'ok {name} ({time.monotonic() - begin:.1f} s)', flush=True)
        except Exception:
            failed += 1
            print(f'FAIL {name}\n{traceback.format_exc()}', flush=True)
    if failed:
        print(daemon.logged()[-6000:])
finally:
    if daemon:
        daemon.stop()
    run(RIGS + 'containerd', 'stop', CONTAINERD)
    if registry:
        registry.stop()
    shutil.rmtree(WORK, ignore_errors=True)
sys.exit(failed > 0)
