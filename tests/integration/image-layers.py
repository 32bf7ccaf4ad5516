#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blobs that are on this machine are not fetched again: image-layers.py [NAME...]

By hand (--blobs), and by a daemon with a cache of its own that pulls from a registry which counts."""
import glob, hashlib, json, os, shutil, signal, subprocess, sys, tempfile, time

SRC_DIR = os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..')
sys.path.insert(0, SRC_DIR + '/tests/rigs/oci-cases')
from daemon import Daemon, daemon_possible
from ocitar import *
from pulling import *
from registry import Registry

BUILD_DIR = os.environ['BUILD_DIR']
MORE = b''.join(hashlib.sha256(b'm%d' % i).digest() for i in range(60000))  # 1.9 MB
BASE = [dir('usr') + file('usr/big', NOISE), file('usr/more', MORE)]


def image(*own):
    """A layout with the base's layers and some of its own above, and the digests of all, oldest first."""
    l = layout(BASE + [file(name, name * 1000) for name in own])
    digest = l.entries[0]['digest']
    manifest = json.load(open(blob(l, digest)))
    return l, digest, [d['digest'] for d in manifest['layers']], manifest['config']['digest']


def blob(l, digest):
    return f'{l.path}/blobs/{digest.replace(":", "/")}'


def some_blobs(l, digests):
    d = tempfile.mkdtemp(dir=WORK)
    for digest in digests:
        os.makedirs(os.path.dirname(f'{d}/{digest.replace(":", "/")}'), exist_ok=True)
        shutil.copy(blob(l, digest), f'{d}/{digest.replace(":", "/")}')
    return d


ONE, TWO = image('one'), image('two')
assert ONE[2][:2] == TWO[2][:2] and ONE[2][2] != TWO[2][2]
WANTED = good(provider('oci:' + ONE[0].path))


def asked(reg, kind='blobs'):
    return sorted(e[1] for e in reg.asked(kind))


# --- by hand
def test_hand_layers():
    for n in range(4):
        with Registry(ONE[0]) as reg:
            assert good(pull(reg, '--blobs', tempfile.mkdtemp(dir=WORK), '--blobs', some_blobs(ONE[0], ONE[2][:n]))) == WANTED
            assert asked(reg) == sorted(ONE[2][n:] + [ONE[3]])


def test_hand_all():
    """By digest nothing is asked for at all; by tag, what the tag names now."""
    with Registry(ONE[0]) as reg:
        assert good(pull(reg, '--blobs', ONE[0].path + '/blobs', tag='t/image@' + ONE[1])) == WANTED
        assert reg.asked() == []
        assert good(pull(reg, '--blobs', ONE[0].path + '/blobs')) == WANTED
        assert [e[0] for e in reg.asked()] == ['manifests']
    r = provider('--blobs', ONE[0].path + '/blobs', '127.0.0.1:1/none@' + ONE[1])
    assert good(r) == WANTED
    r = provider('--progress', 'json', 'inspect', '--blobs', ONE[0].path + '/blobs', '127.0.0.1:1/none@' + ONE[1], output=False)
    assert r.status == 0 and json.loads(r.out.splitlines()[-1])['digest'] == ONE[1], r.err


def spoil(path, how):
    data = bytearray(open(path, 'rb').read())
    if how == 'longer':
        data += b'x'
    elif how == 'shorter':
        data = data[:-1]
    elif how == 'empty':
        data = b''
    elif how == 'other':
        data[len(data) // 2] ^= 1
    if how in ('directory', 'link', 'fifo'):
        os.unlink(path)
    if how == 'directory':
        os.mkdir(path)
    elif how == 'fifo':
        os.mkfifo(path)
    elif how == 'link':
        os.symlink('/etc/passwd', path)
    else:
        open(path, 'wb').write(data)


def test_hand_wrong():
    """Whatever is wrong with a blob here, the registry has the right one."""
    for how in ('longer', 'shorter', 'empty', 'other', 'directory', 'link', 'fifo'):
        for wrong in ONE[2] + [ONE[3], ONE[1]]:
            blobs = some_blobs(ONE[0], ONE[2] + [ONE[3], ONE[1]])
            spoil(f'{blobs}/{wrong.replace(":", "/")}', how)
            with Registry(ONE[0]) as reg:
                assert good(pull(reg, '--blobs', blobs, tag='t/image@' + ONE[1])) == WANTED
                assert [e[1] for e in reg.asked()] == [wrong], (how, wrong, reg.asked())


def test_hand_not_elsewhere():
    """A local image is what it says it is: blobs from elsewhere do not complete it."""
    l, digest, layers, config = image('three')
    blobs = some_blobs(l, layers)
    os.unlink(blob(l, layers[0]))
    bad(provider('--blobs', blobs, 'oci:' + l.path), layers[0][7:])


def test_hand_slow_network():
    """Layers that are here do not wait for those that are not, nor keep them waiting."""
    l = layout([file(f'f{i}', NOISE[i:] + MORE * 4) for i in range(6)])
    layers = [d['digest'] for d in json.load(open(blob(l, l.entries[0]['digest'])))['layers']]
    want = good(provider('oci:' + l.path))

    def fault(r):
        if r.kind == 'blobs' and r.what in layers:
            time.sleep(1)
    for here in ([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [0, 2, 4], [1, 3, 5], [5], []):
        with Registry(l, fault=fault) as reg:
            r = pull(reg, '--blobs', some_blobs(l, [layers[i] for i in here]))
            assert good(r) == want
            assert len([e for e in reg.asked('blobs') if e[1] in layers]) == 6 - len(here)


def test_hand_many():
    """More layers than may be open at a time, each larger than what waits in memory for its turn."""
    l = layout([file(f'f{i}', MORE[i:] + NOISE) for i in range(80)])
    layers = [d['digest'] for d in json.load(open(blob(l, l.entries[0]['digest'])))['layers']]
    want = good(provider('oci:' + l.path))
    for here in (layers, layers[::2], layers[:40], layers[40:]):
        with Registry(l) as reg:
            r = pull(reg, '--blobs', some_blobs(l, here))
            assert good(r) == want
            assert sorted(e[1] for e in reg.asked('blobs') if e[1] in layers) == sorted(set(layers) - set(here))


# --- the daemon's cache
def own_tags(*images):
    """One registry of several images, each under a tag."""
    l = Layout(tempfile.mkdtemp(dir=WORK))
    for tag, (one, digest, layers, config) in images:
        for d in layers + [config, digest]:
            os.makedirs(os.path.dirname(blob(l, d)), exist_ok=True)
            shutil.copy(blob(one, d), blob(l, d))
        l.tag(dict(one.entries[0]), tag)
    return l


def on_disk(d):
    """What files take, and what the images say."""
    files = [os.stat(p) for p in glob.glob(d.cache + '/layers/*') + glob.glob(d.cache + '/images/*/image')]
    return sum(s.st_size for s in files), [int(i['bytes']) + int(i['layersBytes']) for i in json.loads(d.protect('image', 'list', '-o', 'json').stdout)]


def freed(r):
    """MiB"""
    assert r.returncode == 0 and ' MiB freed' in r.stderr, r
    return float(r.stderr.split(' MiB freed')[0].split()[-1]) * (1 << 20)


def test_cache_size():
    """Kept layers count: in what an image takes, in what there is room for, and in what is freed."""
    with Registry(own_tags(('one', ONE), ('two', TWO))) as reg, Daemon() as d:
        d.pull(reg, 'image:one')
        alone, listed = on_disk(d)
        assert listed == [alone] and alone > 5 << 20
        d.pull(reg, 'image:two')
        both, listed = on_disk(d)
        assert len(listed) == 2 and both - 4 <= sum(listed) <= both
        assert d.protect('image', 'prune', '--all', '--dry-run', '--keep', '8MiB').stdout.count('sha256') == 1
        assert abs(freed(d.protect('image', 'prune', '--all', '--dry-run')) - both) < 60000
        # The layers that the other one has stay, and are not counted.
        r = d.protect('image', 'prune', '--all', '--keep', '*:two')
        rest, listed = on_disk(d)
        assert listed == [rest] and abs(freed(r) - (both - rest)) < 60000
        assert abs(freed(d.protect('image', 'prune', '--all')) - rest) < 60000


def test_cache_shared():
    l = own_tags(('one', ONE), ('two', TWO))
    with Registry(l) as reg, Daemon() as d:
        d.pull(reg, 'image:one')
        assert asked(reg) == sorted(ONE[2] + [ONE[3]])
        assert d.layers() == {x: 2 for x in ONE[2]}
        reg.log.clear()
        d.pull(reg, 'image:two')
        assert asked(reg) == sorted([TWO[2][2], TWO[3]]), reg.log
        assert d.image(ONE[1]) == WANTED and d.image(TWO[1]) == good(provider('oci:' + TWO[0].path))
        assert d.layers() == {TWO[2][0]: 3, TWO[2][1]: 3, ONE[2][2]: 2, TWO[2][2]: 2}
        for root, dirs, files in os.walk(d.cache + '/layers'):
            assert all((os.stat(root + '/' + f).st_uid, os.stat(root + '/' + f).st_mode & 0o777) == (0, 0o600) for f in files)
        # Packed again, from what is here.
        reg.log.clear()
        d.pull(reg, 'image:two', '--overwrite-cache')
        assert asked(reg) == [TWO[3]] and d.layers()[TWO[2][0]] == 3
        # And gone with the last image that has them.
        assert d.protect('image', 'remove', ONE[1]).returncode == 0
        assert d.layers() == {x: 2 for x in TWO[2]}
        r = d.protect('image', 'prune', '--all')
        assert r.returncode == 0 and d.layers() == {} and d.work() == [], r


def test_cache_corrupt():
    """A kept layer that is damaged costs its fetching, no more, and is gone afterwards."""
    l = own_tags(('one', ONE), ('two', TWO))
    with Registry(l) as reg, Daemon() as d:
        d.pull(reg, 'image:one')
        path = f'{d.cache}/layers/sha256-{ONE[2][0][7:]}'
        with open(path, 'r+b') as f:
            f.seek(100)
            f.write(b'damaged')
            f.flush()
            inode = os.fstat(f.fileno()).st_ino
            reg.log.clear()
            d.pull(reg, 'image:two')
            assert os.fstat(f.fileno()).st_nlink == 0
        assert asked(reg) == sorted([TWO[2][0], TWO[2][2], TWO[3]]), reg.log
        assert d.image(TWO[1]) == good(provider('oci:' + TWO[0].path))
        assert os.stat(path).st_ino != inode and 'sha256:' + hashlib.sha256(open(path, 'rb').read()).hexdigest() == ONE[2][0]


def test_cache_containerd():
    """What this node's containerd has is not fetched, nor kept a second time; what is wrong there is, and stays there."""
    l = own_tags(('one', ONE))
    root = tempfile.mkdtemp(dir=WORK)
    os.chmod(WORK, 0o755)
    os.mkdir(root + '/io.containerd.content.v1.content')
    os.rename(some_blobs(ONE[0], ONE[2] + [ONE[3], ONE[1]]), root + '/io.containerd.content.v1.content/blobs')
    with Registry(l) as reg, Daemon(f'[oci]\ncontainerd-root = "{root}"\n') as d:
        d.pull(reg, 'image:one')
        assert [e[0] for e in reg.asked()] == ['manifests'] and d.layers() == {} and d.image(ONE[1]) == WANTED
        d.pull(reg, 'image@' + ONE[1], '--overwrite-cache')
        assert len(reg.asked()) == 1
        path = root + '/io.containerd.content.v1.content/blobs/' + ONE[2][1].replace(':', '/')
        spoil(path, 'other')
        reg.log.clear()
        d.pull(reg, 'image:one', '--overwrite-cache')
        assert asked(reg) == [ONE[2][1]] and os.path.exists(path) and d.image(ONE[1]) == WANTED
        assert d.layers() == {ONE[2][1]: 2}


def test_cache_off():
    l = own_tags(('one', ONE), ('two', TWO))
    with Registry(l) as reg, Daemon('[plugin.squashfs]\nkeep-layers = false\n') as d:
        d.pull(reg, 'image:one')
        d.pull(reg, 'image:two')
        assert asked(reg) == sorted(ONE[2] + [ONE[3]] + TWO[2] + [TWO[3]]) and d.layers() == {}
        assert not os.path.exists(f'{d.cache}/images/sha256-{ONE[1][7:]}.squashfs/layers')


def test_cache_crash():
    """kill -9 in the middle of a pull: the next start finds nothing but what was there before."""
    def fault(r):
        if r.kind == 'blobs' and r.what == TWO[2][2]:
            return r.hang()
    l = own_tags(('one', ONE), ('two', TWO))
    with Registry(l, fault=fault) as reg, Daemon() as d:
        d.pull(reg, 'image:one')
        before = d.layers()
        p = subprocess.Popen([BUILD_DIR + '/cli/protect', 'image', 'pull', f'{reg.host}/t/image:two'], env=d.env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(400):
            if TWO[2][2] in asked(reg) and any(n > 2 for n in d.layers().values()):
                break
            time.sleep(0.05)
        assert any(n > 2 for n in d.layers().values()) and d.work() != []
        d.kill()
        p.wait()
        d.start()
        assert d.layers() == before and d.work() == []
        reg.fault = None
        d.pull(reg, 'image:two')
        assert d.image(TWO[1]) == good(provider('oci:' + TWO[0].path))


def test_phases():
    """Of each layer one phase after the other; what is here is never downloaded."""
    order = ['waiting', 'downloading', 'downloaded', 'extracting', 'extracted']
    l, digest = ONE[0], ONE[1]
    layers = [d['digest'] for d in json.load(open(f'{l.path}/blobs/sha256/{digest[7:]}'))['layers']]

    def slow(r):
        data = r.server.data(r.what) if r.kind == 'blobs' else None
        if data and len(data) > 1000:
            r.reply(200, b'', length=len(data))
            for i in range(0, len(data), len(data) // 5):
                r.handler.wfile.write(data[i:i + len(data) // 5])
                time.sleep(0.1)
            return True
    with Registry(l, fault=slow) as reg:
        for here in ([], layers[:1], layers[1:2], layers):
            r = pull(reg, '--progress', 'json', *(('--blobs', some_blobs(l, here)) if here else ()))
            assert good(r) == WANTED
            seen, current, flagged = {}, {}, set()
            for line in map(json.loads, r.out.splitlines()):
                for y in line.get('layers', []) if line.get('phase') == 'layer-download' else []:
                    p = order.index(y['phase'])
                    seen.setdefault(y['id'], [p])
                    assert p >= seen[y['id']][-1] and y['current'] >= current.get(y['id'], 0), (y, seen)
                    assert p < 2 or y['current'] == y['total'], y
                    seen[y['id']].append(p)
                    current[y['id']] = y['current']
                    flagged |= {y['id']} if y.get('here') else set()
            assert flagged == set(here), (flagged, here)
            for d in seen:
                assert seen[d][-1] == 4 and (1 not in seen[d] if d in here else 1 in seen[d] or os.path.getsize(f'{l.path}/blobs/sha256/{d[7:]}') <= 1000), (d, here, seen[d])
    for line in map(json.loads, provider('--progress', 'json', 'oci:' + l.path).out.splitlines()):
        assert all(y['here'] and y['phase'] != 'downloading' for y in line.get('layers', []))


def test_cache_full_disk():
    """Room for the images, not for their layers too: they come first."""
    big = [(t, image(t)) for t in ('x', 'y')]
    folder = tempfile.mkdtemp(prefix='il.', dir='/var/tmp')
    os.makedirs(folder + '/data')
    # An image is 3.1 MB, its layers as much. The first fits with its layers; the second only without any.
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=9m', 'tmpfs', folder + '/data']).returncode:
        return 'no tmpfs can be mounted here'
    try:
        with Registry(own_tags(*big)) as reg, Daemon(folder=folder) as d:
            d.pull(reg, 'image:x')
            assert len(d.layers()) == 3
            filler = open(folder + '/data/filler', 'wb')
            filler.write(bytes((1 << 20) * 2 - (300 << 10)))
            filler.flush()
            d.pull(reg, 'image:y')
            assert d.image(big[1][1][1]) == good(provider('oci:' + big[1][1][0].path))
            assert d.layers() == {} and d.work() == [] and 'given up' in open(d.folder + '/log').read()
            # No room for the image itself: the sentence says where.
            assert d.protect('image', 'remove', f'{reg.host}/t/image:y').returncode == 0
            filler.write(bytes(3 << 20))
            filler.flush()
            r = d.protect('image', 'pull', f'{reg.host}/t/image:y')
            assert r.returncode and f"No space left on device ('{d.cache}/images')" in r.stderr, r.stderr
    finally:
        subprocess.run(['umount', '-l', folder + '/data'])
        shutil.rmtree(folder, ignore_errors=True)


if not daemon_possible():
    names = {k: v for k, v in globals().items() if not k.startswith('test_cache')}
    print('the daemon\'s cache is not tested: it needs root, the system user edera-oci, and an eighth of /var/tmp free')
    main(names)
main(globals())
