#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Blobs that are on this machine are not fetched again: image-layers.py [NAME...]

By hand (--blobs), and by a daemon with a cache of its own that pulls from a registry which counts."""
import hashlib, json, os, shutil, signal, subprocess, sys, tempfile, time

SRC_DIR = os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..')
sys.path.insert(0, SRC_DIR + '/tests/rigs/oci-cases')
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
            assert good(pull(reg, '--blobs', '/nonexistent', '--blobs', some_blobs(ONE[0], ONE[2][:n]))) == WANTED
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


main(globals())
