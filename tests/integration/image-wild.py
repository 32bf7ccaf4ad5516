#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random stacks of wild layers against a model: image-wild.py [SEED [ROUNDS]]

Anything goes here that image-random.py leaves out because unpackers disagree: paths through symlinks, what replaces its own parents, the same path
several times in a layer, links to links, to devices and to what the layer deletes, markers anywhere, every way to write a header, attributes, holes.
The model is an unpacker of the plainest kind that follows the decisions in docs/images.md; where it refuses an image, so must we.
"""
import hashlib, os, random, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
import squash
from ocitar import *

PROVIDER = os.environ.get('PROVIDER') or os.environ['BUILD_DIR'] + '/protect-oci-provider'
NAMES = ['a', 'b', 'c', 'lib', 'n\udcff', 'x y', 'm' * 60]
TYPES = {'f': b'0', 'd': b'5', 'l': b'2', 'h': b'1', 'c': b'3', 'b': b'4', 'p': b'6'}
KEPT = ('user.', 'trusted.', 'security.')
DROPPED = ('trusted.overlay.', 'user.overlay.', 'security.selinux')


class Refused(Exception):
    pass


class Inode:
    def __init__(self, kind, layer, **meta):
        self.kind, self.layer, self.meta = kind, layer, meta
        self.kids = {} if kind == 'd' else None


class Entry:
    """What a tar entry says, before it is written in one way or another."""
    def __init__(self, kind, path, link='', data=b'', mode=0o644, uid=0, gid=0, mtime=0, xattrs=(), device=(0, 0)):
        self.kind, self.path, self.link, self.data = kind, path, link, data
        self.mode, self.uid, self.gid, self.mtime, self.xattrs, self.device = mode, uid, gid, mtime, dict(xattrs), device


# --- the model

def clean(path):
    """Components as written, '.' and '..' taken out; '..' stops at the root."""
    out = []
    for name in path.split('/'):
        if name == '..':
            del out[-1:]
        elif name not in ('', '.'):
            out.append(name)
    return out


class Model:
    def __init__(self):
        self.root = Inode('d', 0, mode=0o755, uid=0, gid=0, mtime=0, xattrs={})

    def walk(self, path, layer, make, dirs):
        """The directory a list of components leads to, as a list of (inode, name) from the root, or None."""
        at, todo, links = [self.root], [(n, True) for n in path], 0
        literal = []  # where we are, as long as no symlink was followed
        while todo:
            name, written = todo.pop(0)
            if name == '..':
                if len(at) > 1:
                    at.pop()
                continue
            if name in ('', '.'):
                continue
            here = at[-1]
            kid = here.kids.get(name)
            place = self.place(at, name)
            if kid is not None and kid.kind == 'l' and not (dirs.get(place) and kid.layer_of_name(here, name) != layer):
                links += 1
                if links > 40:
                    raise Refused('loop')
                target = kid.meta['target']
                if target.startswith('/'):
                    at = [self.root]
                todo = [(n, False) for n in target.split('/')] + todo
                continue
            if kid is not None and kid.kids is None:
                if not make:
                    return None
                self.remove(here, name, place)
                kid = None
            if kid is None:
                if not make:
                    return None
                kid = Inode('d', layer, mode=0o755, uid=0, gid=0, mtime=0, xattrs={})
                self.put(here, name, kid, layer)
            at.append(kid)
            kid.up = (here, name)
        return at[-1]

    def place(self, at, name):
        out = [name]
        for inode in reversed(at[1:]):
            out.append(inode.up[1])
        return tuple(reversed(out))

    def put(self, dir, name, inode, layer):
        dir.kids[name] = inode
        inode.names = getattr(inode, 'names', {})
        inode.names[id(dir), name] = layer
        if inode.kids is not None:
            inode.up = (dir, name)

    def remove(self, dir, name, place):
        kid = dir.kids.pop(name)
        self.ghost(kid, place)

    def ghost(self, inode, place):
        self.ghosts[place] = inode
        for name, kid in (inode.kids or {}).items():
            self.ghost(kid, place + (name,))

    def path_of(self, dir):
        out = []
        while dir is not self.root:
            dir, name = dir.up
            out.append(name)
        return tuple(reversed(out))

    def clear(self, dir):
        for name in list(dir.kids):
            self.remove(dir, name, self.path_of(dir) + (name,))

    def apply(self, layer, entries):
        self.ghosts = {}
        marks, things = [], []
        dirs = {}
        for e in entries:
            path = clean(e.path)
            base = path[-1] if path else ''
            if any(n.startswith('.wh.') for n in path[:-1]):
                continue
            if base == '.wh..wh..opq':
                marks.append((path[:-1], None))
            elif base.startswith('.wh..wh.'):
                continue
            elif base.startswith('.wh.'):
                if base[4:] in ('', '.', '..'):
                    raise Refused('bare whiteout')
                marks.append((path[:-1], base[4:]))
            else:
                things.append((path, e))
                dirs[tuple(path)] = e.kind == 'd'
        for path, name in marks:
            dir = self.walk(path, layer, False, dirs)
            if dir is None:
                continue
            if name is None:
                self.clear(dir)
            elif name in dir.kids:
                self.remove(dir, name, self.path_of(dir) + (name,))
        for path, e in things:
            self.entry(layer, path, e, dirs)

    def entry(self, layer, path, e, dirs):
        inode = None
        if e.kind == 'h':
            inode = self.target(layer, clean(e.link), dirs)
        if not path:
            if e.kind != 'd':
                raise Refused('the root')
            self.root.meta = self.meta(e)
            return
        if e.kind == 'l' and not e.link:
            raise Refused('empty symlink')
        dir = self.walk(path[:-1], layer, True, dirs)
        name, old = path[-1], dir.kids.get(path[-1])
        if old is not None and old.kids is not None and e.kind == 'd':
            old.meta = self.meta(e)
            old.names[id(dir), name] = layer
            return
        if old is not None and old.kids is not None:
            self.clear(old)
        if inode is None:
            inode = Inode(e.kind, layer, **self.meta(e))
            if e.kind == 'l':
                inode.meta['target'] = e.link
            if e.kind == 'f':
                inode.meta['data'] = e.data
            if e.kind in 'cb':
                inode.meta['device'] = e.device
        dir.kids.pop(name, None)
        self.put(dir, name, inode, layer)

    def target(self, layer, path, dirs):
        if not path or any(n.startswith('.wh.') for n in path[:-1]):
            raise Refused('link to the root')
        dir = self.walk(path[:-1], layer, False, dirs)
        inode = None
        place = tuple(path)
        if dir is not None:
            inode = dir.kids.get(path[-1])
            place = self.path_of(dir) + (path[-1],)
        if inode is None:
            inode = self.ghosts.get(place)
        if inode is None:
            raise Refused('link to nothing')
        if inode.kids is not None:
            raise Refused('link to a directory')
        return inode

    def meta(self, e):
        xattrs = {k: v for k, v in e.xattrs.items() if k.startswith(KEPT) and not k.startswith(DROPPED)}
        return dict(mode=e.mode, uid=e.uid, gid=e.gid, mtime=min(max(e.mtime // 1, 0), 2 ** 32 - 1), xattrs=xattrs)


def layer_of_name(inode, dir, name):
    return inode.names[id(dir), name]


Inode.layer_of_name = layer_of_name


def expected(model):
    out, first, count, stack = {}, {}, {}, [((), model.root)]
    found = {}
    while stack:
        path, at = stack.pop()
        found[path] = at
        count[id(at)] = count.get(id(at), 0) + 1
        for name, kid in (at.kids or {}).items():
            stack.append((path + (name,), kid))
    for path in sorted(found):
        at = found[path]
        m, key = at.meta, '/'.join(path)
        if at.kids is None:
            first.setdefault(id(at), key)
        mode = 0o777 if at.kind == 'l' else m['mode']
        e = dict(kind=at.kind, mode=mode if at.kind != 'l' else None, uid=m['uid'], gid=m['gid'], mtime=m['mtime'],
                 nlink=2 + sum(k.kids is not None for k in at.kids.values()) if at.kids is not None else count[id(at)], same=first.get(id(at)),
                 # the kernel keeps user.* from all but files and directories, and shows none of it
                 xattrs={k: v.hex() for k, v in m['xattrs'].items() if at.kind in 'fd' or not k.startswith('user.')})
        if at.kind == 'l':
            e['what'] = m['target']
        elif at.kind == 'f':
            e['what'] = (len(m['data']), hashlib.sha256(m['data']).hexdigest())
        elif at.kind in 'cb':
            e['what'] = m['device']
        out[key] = e
    return out


def found(tree):
    out, first = {}, {}
    for path in sorted(tree, key=lambda p: tuple(p.split('/')) if p else ()):
        t = tree[path]
        kind = t['type'][0]
        if kind != 'd':
            first.setdefault(t['ino'], path)
        e = dict(kind=kind, mode=int(t['mode'], 8) if kind != 'l' else None, uid=int(t['uid']), gid=int(t['gid']), mtime=int(t['mtime']), nlink=int(t['nlink']),
                 same=first.get(t['ino']) if kind != 'd' else None, xattrs={k[2:]: v for k, v in t.items() if k.startswith('x:') and (kind in 'fd' or not k.startswith('x:user.'))})
        if kind == 'l':
            e['what'] = t['type'][2:]
        elif kind == 'f':
            e['what'] = (int(t['size']), t['sha256'])
        elif kind in 'cb':
            e['what'] = tuple(int(v) for v in t['type'][2:].split(':'))
        out[path] = e
    return out


# --- writing

def text(s):
    return s.encode('utf-8', 'surrogateescape')


def write(rng, e):
    """One of the many ways to say it."""
    name, link = text(e.path), text(e.link)
    records, before, fields = [], b'', dict(mode=e.mode, uid=e.uid, gid=e.gid, mtime=int(e.mtime // 1))
    magic = rng.choice([b'ustar\x0000', b'ustar  \0', bytes(8)])
    if e.kind in 'cb' and magic == bytes(8):
        magic = b'ustar\x0000'
    if rng.random() < 0.15:
        records.append(('mtime', f'{e.mtime:.9f}' if e.mtime % 1 else str(int(e.mtime))))
        fields['mtime'] = 5
    elif e.mtime % 1:
        records.append(('mtime', f'{e.mtime:.9f}'))
    if rng.random() < 0.1:
        records += [('uid', str(e.uid)), ('gid', str(e.gid))]
        fields['uid'] = fields['gid'] = 1
    records += [('SCHILY.xattr.' + k, v) for k, v in e.xattrs.items()]
    short = name
    if len(name) > 100 or rng.random() < 0.1:
        if rng.random() < 0.5:
            records.append(('path', name))
        else:
            before += gnu_bytes(b'L', name)
        short = rng.choice([name[:100], b'other'])
    elif len(name) > 2 and magic == b'ustar\x0000' and b'/' in name[1:-1] and rng.random() < 0.2:
        cut = name.index(b'/', 1)
        if name[cut + 1:]:
            fields['patch'] = {345: name[:cut]}
            short = name[cut + 1:]
    if len(link) > 100 or (link and rng.random() < 0.1):
        if rng.random() < 0.5:
            records.append(('linkpath', link))
        else:
            before += gnu_bytes(b'K', link)
        link = rng.choice([link[:100], b'other'])
    body, size = e.data, len(e.data)
    type = TYPES[e.kind]
    if e.kind == 'f' and rng.random() < 0.1:
        type = rng.choice([b'7', b'\0'])
    if e.kind == 'f' and rng.random() < 0.15 and len(body) > 1000:
        return sparse(rng, e, before, records, short, magic, fields)
    if e.kind in 'fd' and rng.random() < 0.05:
        records.append(('comment', b'c' * rng.randint(1, 3000)))
    if e.kind == 'f' and rng.random() < 0.1:
        records.append(('size', str(len(body))))
        size = rng.choice([0, len(body)])
    elif e.kind != 'f' and rng.random() < 0.05:
        size = rng.choice([0, 7, 512])  # no body comes
    elif e.kind == 'f' and rng.random() < 0.1:
        fields.setdefault('patch', {})[124] = b'\x80' + size.to_bytes(11, 'big')
    rng.shuffle(records)
    if records:
        before = rng.choice([before + pax(records), pax(records) + before])
    if rng.random() < 0.03:
        before = pax({'path': 'nothing', 'uid': '9'}, b'g') + before
    if rng.random() < 0.03:
        before = header(b'strange', b'Z', 3) + padded(b'zzz') + before
    return before + header(short, type, size, link=link, major=e.device[0], minor=e.device[1], magic=magic, **fields) + padded(body)


def gnu_bytes(type, data):
    data += b'\0'
    return header(b'././@LongLink', type, len(data), magic=b'ustar  \0') + padded(data)


def sparse(rng, e, before, records, short, magic, fields):
    """The zeros of the content left out, as far as they are whole stretches."""
    pieces, at, data = [], 0, e.data
    while at < len(data):
        step = rng.choice([1, 100, 512, 4096, 131072, 200000])
        part = data[at:at + step]
        if part.count(0) != len(part):
            pieces.append((at, part))
        at += step
    how = rng.choice(['0.0', '0.1', '1.0', 'S'])
    stored = b''.join(p for _, p in pieces)
    if how == 'S':
        maps = [sparse_field(o, len(p)) for o, p in pieces] + [sparse_field(len(data), 0)]
        more, rest = b'', maps[4:]
        while rest:
            more += b''.join(rest[:21]).ljust(504, b'\0') + (b'\1' if len(rest) > 21 else b'\0') + bytes(7)
            rest = rest[21:]
        patch = {386: b''.join(maps[:4]), 482: b'\1' if len(maps) > 4 else b'\0', 483: number(len(data), 12)}
        if fields.pop('patch', None):
            records.append(('path', text(e.path)))  # no prefix field in GNU's headers
        if records:
            before = before + pax(records)
        return before + header(short, b'S', len(stored), magic=b'ustar  \0', patch=patch, **fields) + more + padded(stored)
    if how == '0.0':
        records += [('GNU.sparse.size', str(len(data))), ('GNU.sparse.numblocks', str(len(pieces)))]
        for o, p in pieces:
            records += [('GNU.sparse.offset', str(o)), ('GNU.sparse.numbytes', str(len(p)))]
    elif how == '0.1':
        records += [('GNU.sparse.size', str(len(data))), ('GNU.sparse.map', ','.join(f'{o},{len(p)}' for o, p in pieces)), ('GNU.sparse.name', text(e.path))]
    else:
        records += [('GNU.sparse.major', '1'), ('GNU.sparse.minor', '0'), ('GNU.sparse.name', text(e.path)), ('GNU.sparse.realsize', str(len(data)))]
        stored = padded((f'{len(pieces)}\n' + ''.join(f'{o}\n{len(p)}\n' for o, p in pieces)).encode()) + stored
    return before + pax(records) + header(short, b'0', len(stored), magic=magic, **fields) + padded(stored)


# --- the images

class Maker:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.names = self.rng.sample(NAMES, self.rng.randint(2, 4))
        self.shared = [self.rng.randbytes(n) for n in (0, 1, 300, 150000)]
        self.seen = [['a']]

    def path(self):
        rng = self.rng
        if rng.random() < 0.45:
            path = list(rng.choice(self.seen))
            if rng.random() < 0.4:
                path.append(rng.choice(self.names))
        else:
            path = [rng.choice(self.names) for _ in range(rng.randint(1, 4))]
        self.seen.append(path)
        return path

    def spelled(self, path):
        """The same path, written in some way."""
        rng, out = self.rng, '/'.join(path)
        r = rng.random()
        if r < 0.1:
            return './' + out
        if r < 0.15:
            return '/' + out
        if r < 0.2:
            return out.replace('/', '//').replace('/', '/./', 1)
        if r < 0.23:
            return f'{path[0]}/../{out}'
        if r < 0.25:
            return '../' + out
        return out

    def meta(self):
        rng = self.rng
        xattrs = {}
        if rng.random() < 0.15:
            for _ in range(rng.randint(1, 4)):
                xattrs[rng.choice(['user.a', 'user.b', 'security.capability', 'trusted.x', 'trusted.overlay.opaque', 'user.overlay.whiteout', 'security.selinux',
                                   'system.posix_acl_access'])] = rng.choice([bytes.fromhex('0100000200200000000000000000000000000000'), b'', b'a\nb=c\0d', rng.randbytes(200)])
            if len(xattrs.get('security.capability', b'x' * 20)) != 20:
                xattrs['security.capability'] = bytes.fromhex('0100000200200000000000000000000000000000')
        return dict(mode=rng.choice([0o644, 0o755, 0o600, 0o4755, 0o2711, 0o1777, 0]), uid=rng.choice([0, 0, 1000, 3000000000]), gid=rng.choice([0, 5, 2 ** 32 - 2]),
                    mtime=rng.choice([0, 1, 1000000000, 1234567890.25, -3.5, -5, 2 ** 32 + 5, 2 ** 31]), xattrs=xattrs)

    def data(self):
        rng = self.rng
        if rng.random() < 0.6:
            return rng.choice(self.shared)
        out = b''
        for _ in range(rng.randint(1, 4)):
            out += rng.choice([bytes(rng.choice([1, 4096, 131072, 262144, 300000])), rng.randbytes(rng.choice([1, 100, 5000, 131072])), b'z' * rng.randint(0, 2000)])
        return out

    def entry(self):
        rng, path = self.rng, self.path()
        r, name = rng.random(), self.spelled(path)
        if r < 0.12:
            up = '/'.join(path[:-1])
            e = Entry(rng.choice('ffffhl'), (up + '/' if up else '') + '.wh.' + path[-1], link='a')
            if rng.random() < 0.3:
                e = Entry('f', '/'.join(path) + '/' + OPAQUE)
            elif rng.random() < 0.05:
                e = Entry('f', '/'.join(path) + '/.wh..wh.plnk/1')
            return e
        if r < 0.4:
            return Entry('f', name, data=self.data(), **self.meta())
        if r < 0.6:
            return Entry('d', (name if rng.random() < 0.5 else name + '/') if rng.random() < 0.98 else './', **self.meta())
        if r < 0.72:
            target = rng.choice(self.seen)
            where = '/'.join(target)
            where = rng.choice([where, '/' + where, './' + where, '../' + where, '../' * 5 + where, 'nowhere', '/'.join(target[:1]) + '/' * 200, '.', '/'])
            return Entry('l', name, link=where, **dict(self.meta(), xattrs={}))
        if r < 0.92:
            return Entry('h', name, link=self.spelled(rng.choice(self.seen)), **self.meta())
        kind = rng.choice('cbp')
        return Entry(kind, name, device=(rng.choice([0, 1, 4095]), rng.choice([0, 3, 256, 1048575])) if kind != 'p' else (0, 0), **dict(self.meta(), xattrs={}))

    def layers(self):
        """Entries that the model refuses are mostly left out: what is refused says little."""
        model, layers = Model(), []
        wild = self.rng.random() < 0.1
        for n in range(1, self.rng.randint(2, 7)):
            entries = []
            for _ in range(self.rng.randint(0, 14)):
                e = self.entry()
                if not wild and self.refused(layers, entries + [e]):
                    continue
                entries.append(e)
            layers.append(entries)
        return layers

    def refused(self, layers, entries):
        return run_model(layers + [entries])[0] is None


def run_model(layers):
    model = Model()
    try:
        for n, entries in enumerate(layers):
            model.apply(n + 1, entries)
    except Refused as e:
        return None, str(e)
    return model, None


def squeezed(rng, tar):
    how = rng.randint(0, 9)
    if how < 5:
        return Blob(gzip.compress(tar, 1, mtime=0), tar)
    if how < 7:
        return Blob(squeeze(tar, 'zstd', '-1'), tar, ZSTD)
    if how == 7:
        return Blob(tar, tar, PLAIN)
    cut = rng.randint(0, len(tar))
    return Blob(gzip.compress(tar[:cut], 1, mtime=0) + gzip.compress(tar[cut:], 1, mtime=0), tar)


def one(seed):
    maker = Maker(seed)
    layers = maker.layers()
    model, why = run_model(layers)
    folder = tempfile.mkdtemp(prefix='image-wild.')
    try:
        layout = Layout(folder + '/oci')
        tars = [b''.join(write(maker.rng, e) for e in entries) + END for entries in layers]
        layout.tag(layout.image([squeezed(maker.rng, t) for t in tars]))
        r = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--progress', 'none', '--output', folder + '/image', f'oci:{folder}/oci'], stderr=subprocess.PIPE)
        said = r.stderr.decode('utf-8', 'replace')
        if model is None:
            return [] if r.returncode == 1 else [f'exit status {r.returncode}, but the model refuses: {why}']
        if r.returncode:
            return [said]
        want, got = expected(model), found(squash.read(folder + '/image'))
        return [f'{p!r}: {got.get(p)}, not {want.get(p)}' for p in sorted(want.keys() | got.keys()) if want.get(p) != got.get(p)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    if os.geteuid() != 0:
        print('only root can see owners')
        return 77
    begin = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    wrong = 0
    for seed in range(begin, begin + rounds):
        bad = one(seed)
        if bad:
            wrong += 1
            print(f'seed {seed}: ' + '; '.join(bad[:3]), flush=True)
    print(f'{rounds - wrong} of {rounds} right')
    return wrong > 0


sys.exit(main())
