#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Layouts that are not what they seem, and the ways to name one: image-layout.py [NAME...]"""
import os, sys

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
import pulling
from pulling import *


def parts(l):
    """Paths of the manifest, the config and the first layer."""
    blobs = l.path + '/blobs/sha256/'
    manifest = blobs + l.entries[0]['digest'][7:]
    with open(manifest) as f:
        m = json.load(f)
    return manifest, blobs + m['config']['digest'][7:], blobs + m['layers'][0]['digest'][7:]


def pull_layout(l, **more):
    return provider('oci:' + l.path, timeout=60, **more)


def instead(path, make):
    os.unlink(path)
    make(path)


def test_symlinks():
    for i in range(3):
        l = layout([X_FILE])
        path = parts(l)[i]
        os.rename(path, l.path + '/real')
        os.symlink('../../real', path)
        bad(pull_layout(l), 'symlink', os.path.basename(path))
        instead(path, lambda p: os.symlink('/etc/shadow', p))
        bad(pull_layout(l), 'symlink')
    l = layout([X_FILE])
    os.rename(l.path + '/index.json', l.path + '/real.json')
    os.symlink('real.json', l.path + '/index.json')
    bad(pull_layout(l), 'symlink')


def test_symlinked_folder():
    """What lies outside of the layout is not read, by whatever way."""
    l, other = layout([X_FILE]), tempfile.mkdtemp(dir=WORK)
    os.rename(l.path + '/blobs', other + '/blobs')
    os.symlink(other + '/blobs', l.path + '/blobs')
    r = pull_layout(l)
    if 'landlock' in open('/sys/kernel/security/lsm').read() if os.path.exists('/sys/kernel/security/lsm') else r.status:
        bad(r, 'ermission denied')


def test_kinds():
    for make in os.mkfifo, os.mkdir, lambda p: os.mknod(p, 0o20666, os.makedev(1, 5)):
        for i in range(4):
            l = layout([X_FILE])
            path = (parts(l) + (l.path + '/index.json',))[i]
            instead(path, make)
            bad(pull_layout(l), 'not a regular file')


def test_sizes():
    for change, word in (lambda p: os.truncate(p, 20), 'ends after 20'), (lambda p: open(p, 'ab').write(b'more'), 'longer'), (lambda p: os.truncate(p, 1 << 42), 'longer'), \
            (lambda p: open(p, 'r+b').write(b'other'), 'digest'), (os.unlink, 'No such file'):
        l = layout([X_FILE])
        change(parts(l)[2])
        bad(pull_layout(l), word, os.path.basename(parts(l)[2]))
    for i in range(2):
        for change, word in (lambda p: open(p, 'r+b').write(b'other'), 'digest'), (lambda p: os.truncate(p, 1 << 42), 'larger'), (os.unlink, ''):
            l = layout([X_FILE])
            path = parts(l)[i]
            change(path)
            bad(pull_layout(l), os.path.basename(path), word)


def test_index():
    for change, word in (lambda p: os.truncate(p, 1 << 40), 'larger'), (lambda p: open(p, 'w').write('[' * 1000000), 'deeper'), (lambda p: open(p, 'w').close(), 'JSON'), \
            (os.unlink, 'not an OCI image layout'), (lambda p: open(p, 'w').write('{}'), ''), (lambda p: open(p, 'w').write('{"manifests":[]}'), '0 images'), \
            (lambda p: open(p, 'w').write('{"manifests":[1]}'), ''), (lambda p: open(p, 'w').write('{"manifests":[{"digest":"sha256:../../../etc/shadow"}]}'), 'digest'):
        l = layout([X_FILE])
        change(l.path + '/index.json')
        bad(pull_layout(l), word)


def test_names():
    l, folder = layout([X_FILE]), tempfile.mkdtemp(dir=WORK)
    spaced = folder + '/with space'
    shutil.copytree(l.path, spaced)
    want = good(pull_layout(l))
    for ref in spaced, spaced + '/', spaced + '/.', spaced + ':latest', spaced + '/:latest', spaced + '@' + l.entries[0]['digest'], os.path.relpath(spaced):
        assert good(provider('oci:' + ref)) == want, ref
    for ref, word in (spaced + ':none', "'none'"), ('', 'no directory'), (':latest', 'no directory'), (folder + '/none', 'No such file'), ('/dev/null', 'Not a directory'), \
            (spaced + '@sha256:' + '0' * 64, 'holds no image'), (spaced + '@md5:00', ''):
        bad(provider('oci:' + ref), word)


def test_messages():
    """One line, whatever an image calls its files."""
    for name in 'a\nb', 'a\x1b[2Jb', 'a\x7fb':
        r = pull_layout(layout([hardlink(name, 'none')]))
        bad(r, 'links to')
        assert r.err.count('\n') == 1 and not any(c < ' ' or c == '\x7f' for c in r.err[:-1]), r.err


def test_bomb():
    """What a header announces need not be unpacked to be refused."""
    huge = header(b'x', b'0', 1 << 40) + bytes(1 << 20)
    bad(pull_layout(layout([Blob(gzip.compress(huge), huge)])), '--max-size')
    bad(provider('--max-size', '1M', 'oci:' + layout([file('x', bytes(2 << 20))]).path), '--max-size')


def colliding(n):
    """Different files of eight bytes whose xxh32, by which libsquashfs looks for equal ones, is the same."""
    m, p3, p4, p5 = 0xffffffff, 3266489917, 668265263, 374761393
    inverse3, inverse4 = pow(p3, -1, 1 << 32), pow(p4, -1, 1 << 32)
    turn = lambda x, by: (x << by | x >> 32 - by) & m
    for first in range(n):
        h = turn((p5 + 8 + first * p3) & m, 17) * p4 & m
        second = (turn(12345 * inverse4 & m, 15) - h) * inverse3 & m
        yield first.to_bytes(4, 'little') + second.to_bytes(4, 'little')


def test_collisions():
    l = layout([b''.join(file('d/f%d' % i, data) for i, data in enumerate(colliding(100000)))])
    r = pull_layout(l)
    good(r)
    assert r.seconds < 30, r.seconds


def test_same_bytes():
    """The bytes of an image depend on what is in it, and on nothing of how it came."""
    stuff = [dir('a') + b''.join(file('a/f%d' % i, NOISE[i * 7:i * 7 + i * 97 % 5000]) for i in range(400)) + file('a/big', NOISE) + file('a/old', NOISE[5:]),
             hardlink('a/kept', 'a/old') + file('a/.wh.f7') + file('a/f8', 'new') + file('b/y', NOISE[:200000]),
             file('a/.wh.old') + entry('a/s', b'0', b'A' * 1024, records={'GNU.sparse.size': str(1 << 30), 'GNU.sparse.map': '5000,1024'})]
    tars = [s + END for s in stuff]
    ways = [lambda t: Blob(gzip.compress(t, 1), t), lambda t: Blob(gzip.compress(t, 9), t), lambda t: Blob(gzip.compress(t[:70000], 1) + gzip.compress(t[70000:], 6), t),
            lambda t: Blob(squeeze(t, 'zstd', '-3'), t, ZSTD), lambda t: Blob(t, t, PLAIN), lambda t: Blob(squeeze(t, 'xz', '-0'), t, PLAIN)]
    layouts = [layout([way(t) for t in tars]) for way in ways]
    want = good(pull_layout(layouts[0]))
    for l in layouts[1:]:
        assert good(pull_layout(l)) == want
    for more in ['--parallel', '1'], ['--parallel', '16'], ['--progress', 'json']:
        assert good(provider(*more, 'oci:' + layouts[0].path)) == want, more
    for cpus in '0', '0-%d' % (os.cpu_count() - 1):
        out = tempfile.mkdtemp(dir=WORK) + '/image'
        subprocess.run(['taskset', '-c', cpus, PROVIDER, '--platform', 'linux/amd64', '--output', out, 'oci:' + layouts[0].path], check=True)
        with open(out, 'rb') as f:
            assert hashlib.sha256(f.read()).hexdigest() == want, cpus
    archive = WORK + '/same.tar'
    subprocess.run(['tar', '-C', layouts[0].path, '-cf', archive, '.'], check=True)
    assert good(provider('oci-archive:' + archive)) == want


pulling.main(globals())
