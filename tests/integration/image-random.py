#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random stacks of layers, merged by us, by umoci, and by a model of a few lines: image-random.py [SEED [ROUNDS]]

The model is an unpacker: it applies layers oldest first to a tree in memory. umoci is asked too where what a layer says means the same to it.
"""
import hashlib, os, random, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
import squash
from ocitar import *

PROVIDER = os.environ.get('PROVIDER') or os.environ['BUILD_DIR'] + '/protect-oci-provider'
NAMES = ['a', 'b', 'c', 'd']


class Inode:
    def __init__(self, kind, **meta):
        self.kind, self.meta, self.kids = kind, meta, {} if kind == 'd' else None


def lookup(root, path):
    at = root
    for name in path:
        at = at.kids.get(name) if at.kids is not None else None
        if at is None:
            return None
    return at


def parent(root, path):
    """The directory for a path, made where it is not."""
    at = root
    for name in path[:-1]:
        kid = at.kids.get(name)
        if kid is None or kid.kids is None:
            kid = at.kids[name] = Inode('d', mode=0o755, uid=0, mtime=0)
        at = kid
    return at


class Layer:
    """Operations, chosen so that they make sense on the tree below them; whiteouts first, as builders write them or not."""
    def __init__(self, rng, root, number):
        self.rng, self.root, self.number, self.marks, self.entries = rng, root, number, [], []
        self.touched = set()
        for _ in range(rng.randint(0, 3)):
            self.delete()
        self.files = []
        for _ in range(rng.randint(1, 9)):
            self.change()
        both = [(m, True) for m in self.marks] + [(e, False) for e in self.entries]
        if rng.random() < 0.3:  # markers anywhere among the entries mean the same
            for m in list(both[:len(self.marks)]):
                both.remove(m)
                both.insert(rng.randint(0, len(both)), m)
        self.tar = b''.join(e for e, _ in both)

    def path(self):
        return [self.rng.choice(NAMES) for _ in range(self.rng.randint(1, 4))]

    def delete(self):
        path = self.path()
        if self.rng.random() < 0.3:
            at = lookup(self.root, path)
            if at is not None and at.kids is not None:
                at.kids.clear()
                self.marks.append(opaque('/'.join(path)))
        else:
            up = lookup(self.root, path[:-1])
            # Not below what is no directory: unpackers disagree about that.
            if up is not None and up.kids is not None:
                up.kids.pop(path[-1], None)
                self.marks.append(whiteout('/'.join(path)))

    def clashes(self, path):
        """Would it replace, or stand below, what this layer has put there?"""
        return any(tuple(path[:n]) in self.touched for n in range(1, len(path) + 1)) or any(t[:len(path)] == tuple(path) for t in self.touched)

    def through_link(self, path):
        return any((at := lookup(self.root, path[:n])) is not None and at.kind == 'l' for n in range(1, len(path)))

    def change(self):
        path, rng = self.path(), self.rng
        if self.clashes(path) or self.through_link(path):
            return
        what = rng.random()
        target = None
        if what >= 0.8:
            # To what no part of the new path leads to, and what will still be there when the path's parents are made.
            files = [p for p in self.walk() if lookup(self.root, p).kids is None and not any(path[:n] == p for n in range(1, len(path) + 1))]
            if not files:
                return
            target = rng.choice(files)
        name, up = '/'.join(path), parent(self.root, path)
        meta = dict(mode=rng.choice([0o644, 0o600, 0o4755]), uid=rng.randint(0, 3), mtime=rng.randint(1, 10 ** 9))
        if what < 0.5:
            data = b'%d ' % rng.randint(0, 5) * rng.choice([0, 1, 100, 60000])
            up.kids[path[-1]] = Inode('f', sha=hashlib.sha256(data).hexdigest(), **meta)
            self.entries.append(file(name, data, **meta))
            self.files.append(path)
        elif what < 0.7:
            meta['mode'] = rng.choice([0o755, 0o700])
            old = up.kids.get(path[-1])
            if old is not None and old.kids is not None:
                old.meta = meta
            else:
                up.kids[path[-1]] = Inode('d', **meta)
            self.entries.append(dir(name, **meta))
            return  # its children may still come
        elif what < 0.8:
            up.kids[path[-1]] = Inode('l', target='t%d' % rng.randint(0, 3))
            self.entries.append(symlink(name, up.kids[path[-1]].meta['target'], uid=0))
        else:
            inode = lookup(self.root, target)
            up.kids[path[-1]] = inode
            self.entries.append(hardlink(name, '/'.join(target)))
        self.touched.add(tuple(path))

    def walk(self, at=None, path=()):
        at = at or self.root
        for name, kid in sorted((at.kids or {}).items()):
            yield list(path) + [name]
            if kid.kids is not None:
                yield from self.walk(kid, list(path) + [name])


def expected(root):
    out, stack = {}, [((), root)]
    while stack:
        path, at = stack.pop()
        m = at.meta
        if at.kind == 'd':
            out['/'.join(path)] = ('d', m.get('mode', 0o755), m.get('uid', 0), m.get('mtime', 0))
            stack += [(path + (n,), k) for n, k in at.kids.items()]
        elif at.kind == 'l':
            out['/'.join(path)] = ('l:' + m['target'], id(at))
        else:
            out['/'.join(path)] = ('f', m['sha'], m['mode'], m['uid'], m['mtime'], id(at))
    return normal(out)


def found(tree, times=True):
    out = {}
    for path, e in tree.items():
        if e['type'] == 'd':
            out[path] = ('d', int(e['mode'], 8), int(e['uid']), int(e['mtime']))
        elif e['type'].startswith('l:'):
            out[path] = (e['type'], e['ino'])
        else:
            out[path] = ('f', e['sha256'], int(e['mode'], 8), int(e['uid']), int(e['mtime']), e['ino'])
    return normal(out)


def normal(tree):
    """Inodes by the first of their names."""
    first = {}
    for path in sorted(tree):
        if tree[path][0] != 'd':
            first.setdefault(tree[path][-1], path)
    return {p: v if v[0] == 'd' else v[:-1] + (first[v[-1]],) for p, v in tree.items()}


def difference(want, got, ignore_time_of_dirs):
    lines = []
    for path in sorted(want.keys() | got.keys()):
        a, b = want.get(path), got.get(path)
        if ignore_time_of_dirs and a and b and a[0] == b[0] == 'd':
            # umoci leaves the time of unpacking on directories without an entry, and has its own of the root
            a, b = (a[:2], b[:2]) if path else (None, None)
        if a != b:
            lines.append(f'{path!r}: {b}, not {a}')
    return lines


def one(seed):
    rng = random.Random(seed)
    root, layers = Inode('d', mode=0o755, uid=0, mtime=0), []
    for n in range(rng.randint(1, 6)):
        layers.append(Layer(rng, root, n).tar)
    folder = tempfile.mkdtemp(prefix='image-random.')
    try:
        layout = Layout(folder + '/oci')
        layout.tag(layout.image(layers))
        r = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--progress', 'none', '--output', folder + '/image', f'oci:{folder}/oci'], stderr=subprocess.PIPE)
        if r.returncode:
            return [r.stderr.decode()]
        bad = ['ours: ' + l for l in difference(expected(root), found(squash.read(folder + '/image')), False)]
        if UMOCI and seed % 4 == 0:
            u = subprocess.run(['umoci', 'raw', 'unpack', '--image', f'{folder}/oci:latest', folder + '/umoci'], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if u.returncode == 0:
                bad += ['umoci: ' + l for l in difference(expected(root), found(squash.tree(folder + '/umoci')), True)]
        return bad
    finally:
        shutil.rmtree(folder, ignore_errors=True)


UMOCI = shutil.which('umoci')
if os.geteuid() != 0:
    print('only root can see owners')
    sys.exit(77)
begin = int(sys.argv[1]) if len(sys.argv) > 1 else 1
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 200
wrong = 0
for seed in range(begin, begin + rounds):
    bad = one(seed)
    if bad:
        wrong += 1
        print(f'seed {seed}: ' + '; '.join(bad[:4]), flush=True)
print(f'{rounds - wrong} of {rounds} right')
sys.exit(wrong > 0)
