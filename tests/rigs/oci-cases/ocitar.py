# SPDX-License-Identifier: Apache-2.0
"""Layer tars written byte by byte, well formed or not, and OCI layouts made of them."""
import gzip, hashlib, json, os, struct, subprocess

BLOCK = 512
OPAQUE = '.wh..wh..opq'
END = bytes(2 * BLOCK)
TYPE = 'application/vnd.oci.image.'
GZIP, ZSTD, PLAIN = (TYPE + 'layer.v1.tar' + s for s in ('+gzip', '+zstd', ''))
MANIFEST, INDEX, CONFIG = TYPE + 'manifest.v1+json', TYPE + 'index.v1+json', TYPE + 'config.v1+json'


def raw(s):
    return s if isinstance(s, bytes) else s.encode()


def number(v, width):
    """A header field: octal, or base-256 where that does not fit."""
    if 0 <= v < 8 ** (width - 1):
        return b'%0*o\0' % (width - 1, v)
    return bytes([0x80 if v >= 0 else 0xff]) + (v & ((1 << 8 * (width - 1)) - 1)).to_bytes(width - 1, 'big')


def header(name, type=b'0', size=0, mode=0o644, uid=0, gid=0, mtime=1000000000, link=b'', major=0, minor=0, magic=b'ustar\x0000',
           patch=None, checksum=None):
    h = bytearray(BLOCK)
    h[0:len(name[:100])] = name[:100]
    h[100:108], h[108:116], h[116:124] = number(mode, 8), number(uid, 8), number(gid, 8)
    h[124:136], h[136:148] = number(size, 12), number(mtime, 12)
    h[156:157] = type
    h[157:157 + len(link[:100])] = link[:100]
    h[257:265] = magic
    h[329:337], h[337:345] = number(major, 8), number(minor, 8)
    for offset, data in (patch or {}).items():
        h[offset:offset + len(data)] = data
    h[148:156] = b' ' * 8
    h[148:156] = checksum if checksum is not None else b'%06o\0 ' % sum(h)
    return bytes(h)


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def pax_record(key, value):
    body = b' ' + raw(key) + b'=' + raw(value) + b'\n'
    n = len(body) + 1
    while n != len(body) + len(str(n)):
        n = len(body) + len(str(n))
    return str(n).encode() + body


def pax(records, type=b'x'):
    items = records.items() if isinstance(records, dict) else records
    body = b''.join(pax_record(k, v) for k, v in items)
    return header(b'PaxHeaders/x', type, len(body)) + padded(body)


def gnu_long(type, text):
    data = raw(text) + b'\0'
    return header(b'././@LongLink', type, len(data), magic=b'ustar  \0') + padded(data)


def entry(name, type, data=b'', records=None, size=None, **fields):
    before = pax(records) if records else b''
    return before + header(raw(name), type, len(data) if size is None else size, **fields) + padded(data)


def file(name, data='', **fields):
    return entry(name, fields.pop('type', b'0'), raw(data), **fields)


def dir(name, mode=0o755, **fields):
    return entry(raw(name).rstrip(b'/') + b'/', b'5', mode=mode, **fields)


def symlink(name, target, **fields):
    return entry(name, b'2', link=raw(target), mode=0o777, **fields)


def hardlink(name, target, **fields):
    return entry(name, b'1', link=raw(target), **fields)


def fifo(name, **fields):
    return entry(name, b'6', **fields)


def device(name, type, major, minor, **fields):
    return entry(name, type, major=major, minor=minor, **fields)


def whiteout(path):
    """Of a path: a/x is deleted by a/.wh.x"""
    head, _, tail = path.rpartition('/')
    return file((head + '/' if head else '') + '.wh.' + tail)


def opaque(path):
    return file(path + '/' + OPAQUE if path else OPAQUE)


def squeeze(data, kind, *options):
    tool = {'zstd': ['zstd', '-qc'], 'bzip2': ['bzip2', '-c'], 'xz': ['xz', '-c']}[kind]
    return subprocess.run(tool + list(options), input=data, stdout=subprocess.PIPE, check=True).stdout


def digest_of(data, algorithm='sha256'):
    return algorithm + ':' + hashlib.new(algorithm, data).hexdigest()


class Blob:
    """A layer given as its compressed bytes, its media type, and the tar that comes of it."""
    def __init__(self, data, tar, type=GZIP, urls=None):
        self.data, self.tar, self.type, self.urls = data, tar, type, urls


def as_blob(layer):
    if isinstance(layer, Blob):
        return layer
    return Blob(gzip.compress(layer + END, 1, mtime=0), layer + END)


class Layout:
    """An OCI image layout directory."""
    def __init__(self, path):
        self.path = path
        os.makedirs(path, exist_ok=True)
        with open(path + '/oci-layout', 'w') as f:
            json.dump({'imageLayoutVersion': '1.0.0'}, f)
        self.entries = []

    def put(self, data, algorithm='sha256', **more):
        digest = digest_of(data, algorithm)
        folder = f'{self.path}/blobs/{algorithm}'
        os.makedirs(folder, exist_ok=True)
        with open(f'{folder}/{digest.split(":")[1]}', 'wb') as f:
            f.write(data)
        return dict(more, digest=digest, size=len(data))

    def put_json(self, value, **more):
        return self.put(json.dumps(value).encode(), **more)

    def image(self, layers, arch='amd64', os='linux', variant=None, algorithm='sha256', config=None, manifest=None, change_config=None):
        """Puts an image, returns its descriptor."""
        blobs = [as_blob(l) for l in layers]
        conf = dict(architecture=arch, os=os, config=config or {},
                    rootfs=dict(type='layers', diff_ids=[digest_of(b.tar, algorithm) for b in blobs]))
        if variant:
            conf['variant'] = variant
        if change_config:
            change_config(conf)
        descriptors = []
        for b in blobs:
            d = self.put(b.data, algorithm, mediaType=b.type)
            if b.urls:
                d['urls'] = b.urls
            descriptors.append(d)
        body = dict(schemaVersion=2, mediaType=MANIFEST, config=self.put_json(conf, algorithm=algorithm, mediaType=CONFIG), layers=descriptors)
        body.update(manifest or {})
        return self.put_json(body, algorithm=algorithm, mediaType=body.get('mediaType') or MANIFEST)

    def tag(self, descriptor, name='latest', **more):
        self.entries.append(dict(descriptor, annotations={'org.opencontainers.image.ref.name': name}, **more))
        with open(self.path + '/index.json', 'w') as f:
            json.dump(dict(schemaVersion=2, manifests=self.entries), f)
        return descriptor


def sparse_field(offset, length):
    return number(offset, 12) + number(length, 12)


def le32(*values):
    return struct.pack('<%dI' % len(values), *values)
