# SPDX-License-Identifier: Apache-2.0
"""What the tests of pulling from registries share: the provider as a command, what a good and a bad end of it look like, a plain image."""
import base64, concurrent.futures, hashlib, json, os, shutil, subprocess, sys, tempfile, time, traceback

from ocitar import *

PROVIDER = os.environ.get('PROVIDER') or os.environ['BUILD_DIR'] + '/protect-oci-provider'
WORK = tempfile.mkdtemp(prefix='image-registry.')
SECRET = 's3cr3t-of-mine'
NOISE = b''.join(hashlib.sha256(str(i).encode()).digest() for i in range(40000))  # 1.2 MB that do not compress


def layout(layers=None, **more):
    l = Layout(tempfile.mkdtemp(dir=WORK))
    l.tag(l.image(layers or [dir('a') + file('a/x', '1') + file('a/big', NOISE), file('a/y', '2')], **more))
    return l


PLAIN_LAYOUT = layout()
MANIFEST_DIGEST = PLAIN_LAYOUT.entries[0]['digest']
PLAIN_MANIFEST = json.load(open(f'{PLAIN_LAYOUT.path}/blobs/sha256/{MANIFEST_DIGEST[7:]}'))
CONFIG = PLAIN_MANIFEST['config']['digest']
BIG_LAYER = max(PLAIN_MANIFEST['layers'], key=lambda d: d['size'])


def is_big(r):
    return r.kind == 'blobs' and r.what == BIG_LAYER['digest']


class Result:
    def __init__(self, status, out, err, folder, seconds):
        self.status, self.out, self.err, self.folder, self.seconds = status, out, err, folder, seconds
        self.left = sorted(os.listdir(folder))


def provider(*args, env=None, auth=None, timeout=120, output=True, folder=None):
    folder = folder or tempfile.mkdtemp(dir=WORK)
    home = tempfile.mkdtemp(dir=WORK)
    args = list(args)
    if auth is not None:
        with open(home + '/auth.json', 'w') as f:
            json.dump(auth, f)
        args = ['--auth-file', home + '/auth.json'] + args
    if output:
        args = ['--output', folder + '/image'] + args
    begin = time.monotonic()
    e = {'PATH': os.environ['PATH'], 'HOME': home}
    e.update(env or {})
    p = subprocess.run([PROVIDER, '--platform', 'linux/amd64'] + args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=e, timeout=timeout)
    r = Result(p.returncode, p.stdout.decode(), p.stderr.decode(), folder, time.monotonic() - begin)
    assert SECRET not in r.out + r.err, 'a secret was printed'
    return r


def good(r):
    assert r.status == 0, r.err
    assert r.left == ['image'], r.left
    with open(r.folder + '/image', 'rb') as f:
        return hashlib.sha256(f.read()).hexdigest()


def bad(r, *words, status=1):
    assert r.status == status, f'exit status {r.status}: {r.err}'
    assert r.left == [], r.left
    last = r.err.rstrip('\n')
    assert len(r.err.splitlines()) == 1 and r.err.endswith('\n'), r.err
    assert last.startswith('protect-oci-provider: '), last
    for w in words:
        assert w in last, f'{w!r} is not in: {last}'


WANT = good(provider('oci:' + PLAIN_LAYOUT.path))


def pull(reg, *args, tag='t/image', **more):
    return provider(*args, f'{reg.host}/{tag}', **more)


def until(f, seconds=20):
    end = time.monotonic() + seconds
    while not f() and time.monotonic() < end:
        time.sleep(0.02)
    assert f()


def auths(host, **entry):
    return {'auths': {host: entry}}


X_FILE = file('which', 'x')
USER = dict(auth=base64.b64encode(f'me:{SECRET}'.encode()).decode())


def main(names):
    """Runs the functions test_*; those that wait long come first."""
    tests = {k[5:]: v for k, v in names.items() if k.startswith('test_')}
    names = sys.argv[1:] or list(tests)
    failed = 0

    def attempt(name):
        begin = time.monotonic()
        try:
            return name, tests[name](), None, time.monotonic() - begin
        except Exception:
            return name, None, traceback.format_exc(), time.monotonic() - begin
    slow = [n for n in names if n.startswith('silent')]
    with concurrent.futures.ThreadPoolExecutor(max_workers=4 + len(slow)) as pool:
        for name, note, trouble, seconds in pool.map(attempt, slow + [n for n in names if n not in slow]):
            print(('FAIL ' if trouble else 'skip ' if note else 'ok ') + name + (f' ({seconds:.0f} s)' if seconds > 5 else '') + (': ' + note if note else ''), flush=True)
            if trouble:
                failed += 1
                print(trouble)
    print(f'{len(names) - failed} of {len(names)} right')
    shutil.rmtree(WORK, ignore_errors=True)
    sys.stdout.flush()
    os._exit(failed > 0)

