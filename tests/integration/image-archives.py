#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Archives as sources of images: what peers write, what is picked and called how, and what an archive may not do: image-archives.py [NAME...]"""
import bz2, gzip, hashlib, json, lzma, os, shutil, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
from ocitar import *
import pulling
from pulling import *
from registry import Registry


def path_of(data):
    fd, path = tempfile.mkstemp(dir=WORK)
    with os.fdopen(fd, 'wb') as f:
        f.write(data)
    return path


def tarred(folder):
    path = tempfile.mkdtemp(dir=WORK) + '/layout.tar'
    subprocess.run(['tar', '-C', folder, '-cf', path, '.'], check=True)
    return path


def which(r):
    good(r)
    return subprocess.run(['unsquashfs', '-cat', r.folder + '/image', 'which'], stdout=subprocess.PIPE, check=True).stdout.decode()


def result(ref, *args, **more):
    """What the last JSON line says; the image's bytes as a hash."""
    r = provider('--progress', 'json', *args, ref, **more)
    hash = good(r)
    return json.loads(r.out.splitlines()[-1]), hash


def piped(data, ref, *args):
    folder = tempfile.mkdtemp(dir=WORK)
    p = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--output', folder + '/image', *args, ref], input=data, capture_output=True, timeout=120)
    return Result(p.returncode, p.stdout.decode(), p.stderr.decode(), folder, 0)


def saved(images, more=b'', **files):
    """What docker save writes; images: (tags, layers)."""
    entries, content = [], {}
    for tags, layers in images:
        config = json.dumps(dict(os='linux', architecture='amd64', rootfs=dict(type='layers', diff_ids=[digest_of(l + END) for l in layers]))).encode()
        name = hashlib.sha256(config).hexdigest() + '.json'
        content[name] = config
        for l in layers:
            content[hashlib.sha256(l).hexdigest() + '/layer.tar'] = l + END
        entries.append(dict(Config=name, RepoTags=tags, Layers=[hashlib.sha256(l).hexdigest() + '/layer.tar' for l in layers]))
    content['manifest.json'] = json.dumps(entries).encode()
    return b''.join(file(n, d) for n, d in content.items()) + more + END


def manifest_json(value):
    return file('manifest.json', value if isinstance(value, bytes) else json.dumps(value)) + END


# --- peers
def test_skopeo():
    if not shutil.which('skopeo'):
        return 'skopeo is missing'
    l = PLAIN_LAYOUT
    folder = tempfile.mkdtemp(dir=WORK)
    for kind, name in (('oci-archive', ':docker.io/library/app:1.2'), ('docker-archive', ':app:1.2')):
        path = f'{folder}/{kind}.tar'
        subprocess.run(['skopeo', 'copy', '-q', '--insecure-policy', f'oci:{l.path}:latest', f'{kind}:{path}{name}'], check=True)
        for ref in (f'{kind}:{path}', f'archive:{path}', f'archive:{path}:other:3'):
            last, hash = result(ref)
            assert hash == WANT, ref
            assert last['names'] == ['docker.io/library/app:1.2'], last
            if kind == 'oci-archive':
                assert last['digest'] == l.entries[0]['digest'], last
        digest = last['digest']
        assert result(f'archive:{path}@{digest}')[1] == WANT
        bad(provider(f'archive:{path}@sha256:{"1" * 64}'), '1' * 64)
        with open(path, 'rb') as f:
            data = f.read()
        good(piped(data, f'{kind}:-'))
        assert result(f'archive:{path_of(gzip.compress(data, 1))}')[0]['digest'] == digest
    with Registry(l) as reg:
        assert good(pull(reg)) == WANT


def test_umoci():
    if not shutil.which('umoci'):
        return 'umoci is missing'
    folder = tempfile.mkdtemp(dir=WORK)
    run = lambda *a: subprocess.run(['umoci', *a], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(folder + '/which', 'w') as f:
        f.write('umoci')
    run('init', '--layout', folder + '/l')
    for tag in ('one', 'two'):
        run('new', '--image', f'{folder}/l:{tag}')
        run('insert', '--image', f'{folder}/l:{tag}', folder + '/which', '/which')
        with open(folder + '/which', 'w') as f:
            f.write('second')
    path = tarred(folder + '/l')
    assert which(provider(f'oci-archive:{path}:one')) == 'umoci'
    assert which(provider(f'archive:{path}:some.where/x:two')) == 'second'  # the tag is all that the archive has
    bad(provider(f'archive:{path}'), '2 images')
    assert good(provider(f'oci:{folder}/l:one')) == good(provider(f'archive:{path}:x:one'))


# --- which image, and what it is called
def test_layout_names():
    l = Layout(tempfile.mkdtemp(dir=WORK))
    a, b = l.image([file('which', 'a')]), l.image([file('which', 'b')])
    index = l.put_json(dict(schemaVersion=2, mediaType=INDEX, manifests=[dict(b, platform=dict(os='linux', architecture='amd64'))]), mediaType=INDEX)
    l.tag(dict(a, annotations={'io.containerd.image.name': 'docker.io/library/a:1'}), '1')
    l.tag(a, 'quay.io/me/a:2')
    l.tag(index, 'quay.io/me/b:1')
    with open(l.path + '/index.json') as f:
        entries = json.load(f)['manifests']
    entries[0]['annotations']['io.containerd.image.name'] = 'docker.io/library/a:1'
    with open(l.path + '/index.json', 'w') as f:
        json.dump(dict(schemaVersion=2, manifests=entries), f)
    path = tarred(l.path)
    last, _ = result(f'archive:{path}:a:1')
    assert last['digest'] == a['digest'] and last['names'] == ['docker.io/library/a:1', 'quay.io/me/a:2'], last
    last, _ = result(f'archive:{path}@{index["digest"]}')
    assert last['digest'] == b['digest'] and last['source_digest'] == index['digest'] and last['names'] == ['quay.io/me/b:1'], last
    assert result(f'archive:{path}@{b["digest"]}')[0]['names'] == []
    assert which(provider(f'archive:{path}:quay.io/me/b:1')) == 'b'
    bad(provider(f'archive:{path}'), '3 images')
    bad(provider(f'archive:{path}:c:7'), 'c:7')


def test_saved_names():
    layers = [file('which', 'one')]
    path = path_of(saved([(['one:1', 'r.io/x/one:2', 'one:1'], layers), (None, [file('which', 'none')]), (['two:latest'], [file('which', 'two')])]))
    last, _ = result(f'archive:{path}:one:1')
    assert last['names'] == ['docker.io/library/one:1', 'r.io/x/one:2'], last
    assert which(provider(f'archive:{path}:two')) == 'two'
    bad(provider(f'archive:{path}'), '3 images')
    bad(provider(f'archive:{path}:three'), 'three')
    two = result(f'archive:{path}:two')[0]['digest']
    last, _ = result(f'archive:{path}@{two}')
    assert last['digest'] == two and last['names'] == ['docker.io/library/two:latest'], last
    bad(provider(f'archive:{path}:one:1@{two}'), two)
    bad(provider(f'archive:{path}@sha256:{"1" * 64}'), '1' * 64)
    path = path_of(saved([(None, layers)]))
    assert result(f'archive:{path}')[0]['names'] == []
    assert which(provider(f'archive:{path}:anything')) == 'one'
    bad(provider(f'docker-archive:{path}:anything'), 'anything')


def test_pipes():
    data = saved([(['x:1'], [X_FILE])])
    want = good(piped(data, 'docker-archive:-'))
    for n, packed in enumerate((gzip.compress(data), bz2.compress(data), lzma.compress(data), squeeze(data, 'zstd'))):
        assert good(piped(packed, 'archive:-')) == want, n
    bad(piped(data[:2000], 'docker-archive:-'))
    bad(piped(gzip.compress(data)[:-9], 'archive:-'))
    bad(piped(b'', 'archive:-'), 'manifest.json')
    bad(piped(data, 'archive:-', '--max-size', '1000'), '--max-size')
    bad(piped(gzip.compress(bytes(5 << 20)), 'archive:-', '--max-size', '1M'), '--max-size')
    with open(path_of(data), 'rb') as f:
        folder = tempfile.mkdtemp(dir=WORK)
        subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--output', folder + '/image', 'archive:-'], stdin=f, check=True, stderr=subprocess.DEVNULL)
    # Given up in mid-pipe.
    folder = tempfile.mkdtemp(dir=WORK)
    p = subprocess.Popen([PROVIDER, '--output', folder + '/image', 'docker-archive:-'], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    p.stdin.write(data[:2000])
    p.stdin.flush()
    time.sleep(0.5)
    p.send_signal(signal.SIGINT)
    assert p.wait(10) == 130, p.returncode
    p.stdin.close()
    assert os.listdir(folder) == []


# --- what an archive may not do
def test_places():
    """Nothing outside of the archive is ever opened."""
    config = file('config', '{}')
    for evil in ('/etc/passwd', '../../../../etc/passwd', './config/../../../etc/passwd'):
        bad(provider('archive:' + path_of(manifest_json([dict(Config=evil, Layers=[])]))), 'etc/passwd')
        bad(provider('archive:' + path_of(config + manifest_json([dict(Config='config', Layers=[evil])]))), 'etc/passwd')
    for target in ('/etc/passwd', '../../../../../../etc/passwd'):
        bad(provider('archive:' + path_of(symlink('c', target) + manifest_json([dict(Config='c', Layers=[])]))), "'c'")
        bad(provider('archive:' + path_of(hardlink('c', target) + manifest_json([dict(Config='c', Layers=[])]))), "'c'")
    bad(provider('archive:' + path_of(symlink('index.json', '/etc/passwd') + symlink('manifest.json', '/etc/passwd') + END)), 'manifest.json')
    l = layout([X_FILE])
    hex = l.entries[0]['digest'][7:]
    os.rename(f'{l.path}/blobs/sha256/{hex}', f'{l.path}/elsewhere')
    os.symlink('../../elsewhere', f'{l.path}/blobs/sha256/{hex}')
    which(provider(f'archive:{tarred(l.path)}'))  # but links within it are fine
    os.unlink(f'{l.path}/blobs/sha256/{hex}')
    os.symlink(hex, f'{l.path}/blobs/sha256/{hex}')
    bad(provider(f'archive:{tarred(l.path)}'), hex)


def test_many_entries():
    piece = gzip.compress(dir('d') * 20000, 9)
    bad(piped(piece * 51, 'archive:-'), '1000000 entries')
    bad(piped(gzip.compress(file('f') * 100001), 'archive:-'), '100000 files')
    long = b''.join(pax(dict(path='%04d' % i + 'n' * 4000)) + header(b'x') for i in range(8400))
    bad(piped(gzip.compress(long), 'archive:-'), '32 MiB')


def test_sizes():
    for size in (1 << 40, (1 << 63) - 1, 1 << 62, -5):
        bad(provider('archive:' + path_of(header(b'manifest.json', size=size) + b'[]')))
    for field in (b'\xff' * 12, b'\x80' + b'\xff' * 11, b'77777777777\0', b'99999999999\0'):
        bad(provider('archive:' + path_of(header(b'manifest.json', patch={124: field}) + b'[]')))
    bad(provider('archive:' + path_of(pax(dict(size=str((1 << 64) - 1))) + file('manifest.json', '[]') + END)))
    bad(provider('archive:' + path_of(manifest_json(b'[' + b' ' * (5 << 20) + b']'))), 'larger')
    bad(provider('archive:' + path_of(manifest_json(b'[' * 50 + b']' * 50))), 'manifest.json')


def test_sparse():
    records = {'GNU.sparse.major': '1', 'GNU.sparse.minor': '0', 'GNU.sparse.name': 'manifest.json', 'GNU.sparse.realsize': str(1 << 40)}
    data = padded(b'1\n0\n2\n') + padded(b'[]')
    bad(provider('archive:' + path_of(pax(records) + entry('GNUSparseFile.0/manifest.json', b'0', data) + END)), 'sparse')
    old = header(b'manifest.json', b'S', 0, magic=b'ustar  \0', patch={483: b'00000010000\0'})
    bad(provider('archive:' + path_of(old + END)))


def test_layers():
    """The layers that manifest.json lists: too many, one thousands of times, none."""
    l = file('which', 'x') + END
    config = lambda n: file('config', json.dumps(dict(os='linux', architecture='amd64', rootfs=dict(type='layers', diff_ids=[digest_of(l)] * n))))
    many = lambda n: config(n) + file('l', l) + hardlink('l2', 'l') + manifest_json([dict(Config='config', Layers=['l', 'l2'][:n % 2 + 1] * (n // (n % 2 + 1)))])
    bad(provider('archive:' + path_of(many(4098))), '4096')
    assert which(provider('archive:' + path_of(many(4096)))) == 'x'
    for wrong in ({}, [], [[]], [dict(Config=1, Layers=[])], [dict(Config='config')], [dict(Config='config', Layers=[1])], [dict(Config='config', Layers='l')]):
        bad(provider('archive:' + path_of(config(0) + manifest_json(wrong))))


def test_twice():
    """Of two members with one name the later one counts, as it does for tar."""
    data = saved([(['x'], [X_FILE])])
    assert which(provider('archive:' + path_of(file('manifest.json', 'no json') + data))) == 'x'
    bad(provider('archive:' + path_of(data[:-1024] + file('manifest.json', 'no json') + END)), 'manifest.json')


def test_damage():
    data = saved([(['x'], [X_FILE])])
    for at in range(0, len(data), 700):
        r = provider('archive:' + path_of(data[:at]))
        if at < len(data) - 1024:
            bad(r)
    l = layout([X_FILE])
    whole = open(tarred(l.path), 'rb').read()
    name = f'blobs/sha256/{l.entries[0]["digest"][7:]}'.encode()
    at = whole.index(name) + 512 + 20
    bad(provider('archive:' + path_of(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])), l.entries[0]['digest'])


pulling.main(globals())
