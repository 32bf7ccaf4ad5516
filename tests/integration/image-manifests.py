#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Manifests, indexes, platforms and configs, good and bad: image-manifests.py [NAME...]"""
import json, os, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
from ocitar import *
from pulling import *
from registry import Registry, basic, bearer

# --- manifests
def which(r):
    good(r)
    out = subprocess.run(['unsquashfs', '-cat', r.folder + '/image', 'which'], stdout=subprocess.PIPE, check=True)
    return out.stdout.decode()


def platform_index(l, *images):
    """images: (content, architecture, variant)"""
    entries = []
    for content, arch, variant in images:
        d = l.image([file('which', content)], arch=arch, variant=variant)
        platform = dict(os='linux', architecture=arch)
        if variant:
            platform['variant'] = variant
        entries.append(dict(d, platform=platform))
    return entries


def put_index(l, entries, **more):
    return l.put_json(dict(dict(schemaVersion=2, mediaType=INDEX, manifests=entries), **more), mediaType=INDEX)


def test_platforms():
    l = Layout(tempfile.mkdtemp(dir=WORK))
    arm = platform_index(l, ('v5', 'arm', 'v5'), ('v6', 'arm', 'v6'), ('64', 'arm64', 'v8'), ('amd', 'amd64', None), ('amd-v3', 'amd64', 'v3'))
    attestation = dict(l.image([file('which', 'no')], arch='unknown', os='unknown'), platform=dict(os='unknown', architecture='unknown'),
                       annotations={'vnd.docker.reference.type': 'attestation-manifest'})
    l.tag(put_index(l, [attestation] + arm))
    with Registry(l) as reg:
        for asked, found in (('linux/amd64', 'amd'), ('linux/x86_64', 'amd'), ('linux/amd64/v2', 'amd'), ('linux/amd64/v3', 'amd-v3'), ('linux/amd64/v4', 'amd-v3'),
                             ('linux/arm64', '64'), ('linux/aarch64', '64'), ('linux/arm64/v8', '64'), ('linux/arm/v7', 'v6'), ('linux/arm', 'v6'), ('linux/arm/v6', 'v6'),
                             ('linux/arm/v5', 'v5')):
            r = pull(reg, '--platform', asked)
            assert which(r) == found, (asked, which(r))
        bad(pull(reg, '--platform', 'linux/riscv64'), 'riscv64', 'linux/arm64')
        r = pull(reg, '--progress', 'json')
        last = json.loads(r.out.splitlines()[-1])
        assert last['source_digest'] == l.entries[0]['digest'] and last['digest'] == arm[3]['digest']


def test_wrong_platform():
    with Registry(layout([X_FILE], arch='s390x')) as reg:
        bad(pull(reg), 's390x', 'linux/amd64')
    l = Layout(tempfile.mkdtemp(dir=WORK))
    d = l.image([file('which', 'x')], arch='arm64')
    l.tag(put_index(l, [dict(d, platform=dict(os='linux', architecture='amd64'))]))
    with Registry(l) as reg:
        bad(pull(reg), 'arm64')  # the config knows better than the index



def test_index_without_platform():
    l = Layout(tempfile.mkdtemp(dir=WORK))
    l.tag(put_index(l, [l.image([X_FILE])]))
    with Registry(l) as reg:
        assert which(pull(reg)) == 'x'


def test_index_without_platforms():
    """Only the configs can tell: each entry is looked at, artifacts are passed over, and what names the platform goes first."""
    l = Layout(tempfile.mkdtemp(dir=WORK))
    one = {a: l.image([file('which', a)], arch=a) for a in ('arm64', 's390x', 'amd64')}
    helm = l.put_json(dict(schemaVersion=2, mediaType=MANIFEST, config=dict(one['amd64'], mediaType='application/vnd.oci.empty.v1+json'), layers=[]), mediaType=MANIFEST)
    arms = put_index(l, [one['arm64'], one['s390x']])
    l.tag(put_index(l, [helm, one['arm64'], one['s390x'], one['amd64']]))
    l.tag(put_index(l, [arms, put_index(l, [one['amd64']])]), 'nested')
    l.tag(put_index(l, [one['arm64'], dict(one['amd64'], platform=dict(os='linux', architecture='amd64')), dict(one['s390x'], mediaType='application/x-sbom')]), 'mixed')
    l.tag(arms, 'none')
    l.tag(put_index(l, [one['arm64']] * 60), 'many')
    l.tag(put_index(l, []), 'empty')
    with Registry(l) as reg:
        assert which(pull(reg)) == 'amd64'
        assert which(pull(reg, tag='t/image:nested')) == 'amd64'
        assert which(pull(reg, tag='t/image:mixed')) == 'amd64'
        bad(pull(reg, tag='t/image:none'), 's390x', 'linux/amd64')
        bad(pull(reg, tag='t/image:empty'), 'empty')
        before = len(reg.asked())
        bad(pull(reg, tag='t/image:many'))
        assert len(reg.asked()) - before < 100


def test_variants_of_configs():
    """A config that names no variant does not contradict an index that does."""
    l = Layout(tempfile.mkdtemp(dir=WORK))
    l.tag(put_index(l, [dict(l.image([file('which', v)], arch='arm'), platform=dict(os='linux', architecture='arm', variant=v)) for v in ('v5', 'v6', 'v7')]))
    l.tag(l.image([file('which', 'v8')], arch='arm64', variant='8'), 'single')
    l.tag(l.image([file('which', 'v3')], arch='amd64', variant='v3'), 'v3')
    with Registry(l) as reg:
        for v in ('v5', 'v6', 'v7'):
            assert which(pull(reg, '--platform', 'linux/arm/' + v)) == v
        assert which(pull(reg, '--platform', 'linux/arm64', tag='t/image:single')) == 'v8'
        bad(pull(reg, tag='t/image:v3'), 'amd64/v3')
        bad(pull(reg, '--platform', 'windows/amd64'), 'windows/amd64')


def test_nested_index():
    l = Layout(tempfile.mkdtemp(dir=WORK))
    d = put_index(l, platform_index(l, ('deep', 'amd64', None)))
    for depth in range(2):
        d = put_index(l, [dict(d, platform=dict(os='linux', architecture='amd64'))])
    l.tag(d)
    with Registry(l) as reg:
        assert which(pull(reg)) == 'deep'
    for depth in range(4):
        d = put_index(l, [d])
    l.tag(d, 'deeper')
    with Registry(l) as reg:
        bad(pull(reg, tag='t/image:deeper'), 'deeper')


def test_docker_schema2():
    l = Layout(tempfile.mkdtemp(dir=WORK))
    docker = 'application/vnd.docker.distribution.manifest.'
    d = l.image([Blob(gzip.compress(X_FILE + END), X_FILE + END, 'application/vnd.docker.image.rootfs.diff.tar.gzip')],
                manifest=dict(mediaType=docker + 'v2+json'))
    l.tag(l.put_json(dict(schemaVersion=2, mediaType=docker + 'list.v2+json', manifests=[dict(d, platform=dict(os='linux', architecture='amd64'))]), mediaType=docker + 'list.v2+json'))
    with Registry(l) as reg:
        assert which(pull(reg)) == 'x'


def test_no_media_type():
    with Registry(layout([X_FILE], manifest=dict(mediaType=None))) as reg:
        reg.fault = lambda r: r.reply(200, r.server.data(reg.layout.entries[0]['digest'])) if r.kind == 'manifests' else None
        assert which(pull(reg)) == 'x'


def test_refused_manifests():
    l = Layout(tempfile.mkdtemp(dir=WORK))
    base = json.loads(open(f'{PLAIN_LAYOUT.path}/blobs/sha256/{PLAIN_LAYOUT.entries[0]["digest"][7:]}').read())
    tries = {
        'schema1': (dict(schemaVersion=1, fsLayers=[], signatures=[]), 'schema 1'),
        'both': (dict(base, manifests=[]), 'both'),
        'neither': (dict(schemaVersion=2), 'neither'),
        'version': (dict(base, schemaVersion=3), 'schemaVersion'),
        'lie': (dict(base, mediaType=INDEX), 'calls itself'),
        'helm': (dict(base, config=dict(base['config'], mediaType='application/vnd.cncf.helm.config.v1+json')), 'artifact'),
        'digest': (dict(base, layers=[dict(base['layers'][0], digest='md5:abc')]), 'md5:abc'),
        'upper': (dict(base, layers=[dict(base['layers'][0], digest=base['layers'][0]['digest'].upper())]), 'digest'),
        'path': (dict(base, layers=[dict(base['layers'][0], digest='sha256:../../../../etc/passwd')]), 'digest'),
        'size': (dict(base, layers=[dict(base['layers'][0], size=-1)]), 'size'),
        'config': (dict(base, config=dict(base['config'], size=1 << 40)), 'config'),
        'float': (dict(base, layers=[dict(base['layers'][0], size=1.5)]), 'size'),
        'text': (dict(base, layers=[dict(base['layers'][0], size='12')]), 'size'),
        'huge': (dict(base, layers=[dict(base['layers'][0], size=2 ** 63 - 1), base['layers'][1]]), 'max-size'),
        'huger': (dict(base, layers=[dict(base['layers'][0], size=2 ** 70)] * 2), 'max-size'),
        'sum': (dict(base, layers=[dict(base['layers'][0], size=2 ** 36)] * 2), 'max-size'),
        'nolayer': (dict(base, layers=[None]), 'descriptor'),
        'short': (dict(base, layers=[dict(base['layers'][0], digest='sha256:abc')]), 'sha256:abc'),
        'sha384': (dict(base, layers=[dict(base['layers'][0], digest='sha384:' + 'a' * 96)]), 'sha384'),
        'number': (dict(base, layers=[dict(base['layers'][0], digest=5)]), 'digest'),
        'noconfig': (dict(base, config=None), 'neither'),
        'emptyconfig': (dict(base, config={}), 'config'),
        'zeroconfig': (dict(base, config=dict(base['config'], digest=digest_of(b''), size=0)), digest_of(b'')),
        'shortconfig': (dict(base, config=dict(base['config'], size=base['config']['size'] - 1)), base['config']['digest']),
        'longconfig': (dict(base, config=dict(base['config'], size=base['config']['size'] + 1)), base['config']['digest']),
        'encrypted': (dict(base, layers=[dict(base['layers'][0], mediaType=TYPE + 'layer.v1.tar+gzip+encrypted')]), 'encrypted'),
        'nydus': (dict(base, layers=[dict(base['layers'][0], mediaType='application/vnd.oci.image.layer.nydus.blob.v1')]), 'nydus'),
        'layers': (dict(base, layers=[base['layers'][0]] * 5000), '5000'),
        'count': (dict(base, layers=base['layers'][:1]), 'layers'),
        'array': ([], 'manifest'),
        'null': (None, 'manifest'),
    }
    for name, (value, _) in tries.items():
        l.tag(l.put_json(value, mediaType=MANIFEST), name)
    shutil.copy(f'{PLAIN_LAYOUT.path}/blobs/sha256/{base["config"]["digest"][7:]}', f'{l.path}/blobs/sha256/')
    shutil.copy(f'{PLAIN_LAYOUT.path}/blobs/sha256/{base["layers"][0]["digest"][7:]}', f'{l.path}/blobs/sha256/')
    l.put(b'')
    l.tag(l.put(json.dumps(base).encode() + b' ' * (4 << 20), mediaType=MANIFEST), 'large')
    l.tag(l.put(b'[' * 100000, mediaType=MANIFEST), 'bomb')
    l.tag(l.put(b'{"a":[' + b'[],' * 1000000 + b'0]}', mediaType=MANIFEST), 'bomb2')
    with Registry(l) as reg:
        for name, (_, word) in tries.items():
            bad(pull(reg, tag='t/image:' + name), word)
        assert not reg.asked('blobs') or {e[1] for e in reg.asked('blobs')} <= {base['config']['digest'], digest_of(b'')}, 'a layer was asked for'
        bad(pull(reg, tag='t/image:large'), 'larger')
        bad(pull(reg, tag='t/image:bomb'), 'deeper')
        bad(pull(reg, tag='t/image:bomb2'), 'values')


def test_refused_configs():
    def without(key):
        return lambda c: c.pop(key)

    def ids(value):
        return lambda c: c['rootfs'].update(diff_ids=value)
    for change in (without('rootfs'), lambda c: c.update(rootfs=5), ids(None), ids(['sha256:' + '0' * 64] * 3), ids(['sha512:' + '0' * 64]), ids([]), ids(['sha256:' + '0' * 64]), ids(['x']), ids([1]), ids('x')):
        with Registry(layout([X_FILE], change_config=change)) as reg:
            bad(pull(reg), 'sha256:')
    with Registry(layout([X_FILE], change_config=lambda c: c.pop('architecture'))) as reg:
        assert which(pull(reg)) == 'x'


def test_accepted_manifests():
    """Unusual, but images all the same."""
    l = Layout(tempfile.mkdtemp(dir=WORK))
    d = l.image([X_FILE])
    base = json.loads(open(f'{l.path}/blobs/sha256/{d["digest"][7:]}').read())
    embedded = dict(base['layers'][0], data='eA==', annotations={'a': 'b'}, artifactType='x', urls=[], platform=None)
    text = json.dumps(base)
    for name, body in (('data', json.dumps(dict(base, layers=[embedded], subject=d, annotations=None, artifactType='x')).encode()),
                       ('twice', (text[:-1] + ',"layers":' + json.dumps(base['layers']) + '}').encode()), ('spaces', b' \r\n\t' + text.encode() + b'\n\n'),
                       ('untyped', json.dumps(dict(base, layers=[{k: v for k, v in base['layers'][0].items() if k != 'mediaType'}])).encode()),
                       ('octets', json.dumps(dict(base, config=dict(base['config'], mediaType='application/octet-stream'))).encode())):
        l.tag(l.put(body, mediaType=MANIFEST), name)
    with Registry(l) as reg:
        for name in ('data', 'twice', 'spaces', 'untyped', 'octets'):
            assert which(pull(reg, tag='t/image:' + name)) == 'x', name
    # No layers at all; layers of nothing; a layer twice.
    with Registry(Layout(tempfile.mkdtemp(dir=WORK))) as reg:
        reg.layout.tag(reg.layout.image([]))
        reg.layout.tag(reg.layout.image([Blob(b'', b'', TYPE + 'layer.v1.tar'), Blob(gzip.compress(b''), b'', TYPE + 'layer.v1.tar+gzip'), X_FILE, bytes(1024), Blob(b'', b'', TYPE + 'layer.v1.tar')]), 'nothing')
        reg.layout.tag(reg.layout.image([X_FILE, file('y', 'y'), X_FILE]), 'twice')
        reg.layout.tag(reg.layout.image([file('which', str(i)) for i in range(130)]), 'many')
        good(pull(reg))
        assert which(pull(reg, tag='t/image:nothing')) == 'x'
        assert which(pull(reg, tag='t/image:twice')) == 'x'
        assert which(pull(reg, tag='t/image:many')) == '129'


def test_sha512():
    l = layout([X_FILE], algorithm='sha512')
    with Registry(l) as reg:
        assert which(pull(reg)) == 'x'
        d = l.entries[0]['digest']
        assert d.startswith('sha512:') and which(pull(reg, tag='t/image@' + d)) == 'x'
        reg.fault = lambda r: r.reply(200, r.server.data(d) + b' ') if r.kind == 'manifests' else None
        bad(pull(reg, tag='t/image@' + d), d)


def test_urls():
    """A foreign layer that the registry does not have is fetched from its address, without credentials; over http where the registry speaks http too."""
    data = gzip.compress(X_FILE + END)
    with Registry(PLAIN_LAYOUT) as other:
        l = layout([Blob(data, X_FILE + END, TYPE + 'layer.nondistributable.v1.tar+gzip', urls=[other.url + '/x'])])
        digest = digest_of(data)
        with Registry(l) as reg:
            assert which(pull(reg)) == 'x'
            reg.fault = lambda r: r.reply(404) if r.what == digest else None
            other.fault = lambda r: r.reply(404)
            bad(pull(reg), digest, '404')
            other.fault = lambda r: r.reply(200, data + b'x')
            bad(pull(reg), digest)
            other.fault = lambda r: r.reply(200, data)
            reg.auth = bearer(lambda r: r.authorization == basic('me', SECRET))
            assert which(pull(reg, auth=auths(reg.host, **USER))) == 'x'
            assert len(other.asked()) == 3 and all(e[2] == '' for e in other.asked())
        for url in ('ftp://127.0.0.1/x', 'file:///etc/passwd', 'http://u:p@127.0.0.1:1/x', 'http://registry.invalid/x', '', 5, None, 'x' * 10000):
            with Registry(layout([Blob(data, X_FILE + END, TYPE + 'layer.nondistributable.v1.tar+gzip', urls=[url])]), fault=lambda r: r.reply(404) if r.what == digest else None) as reg:
                bad(pull(reg), digest)



# --- archives
def saved(folder, images):
    """What docker save writes: images is a list of (tags, layers)."""
    entries, files = [], {}
    for tags, layers in images:
        config = json.dumps(dict(os='linux', architecture='amd64', rootfs=dict(type='layers', diff_ids=[digest_of(l + END) for l in layers]))).encode()
        name = hashlib.sha256(config).hexdigest() + '.json'
        files[name] = config
        paths = []
        for l in layers:
            path = hashlib.sha256(l).hexdigest() + '/layer.tar'
            # docker writes a link where an earlier image has the layer
            files.setdefault(path, l + END)
            paths.append(path)
        entries.append(dict(Config=name, RepoTags=tags, Layers=paths))
    link = 'linked/layer.tar'
    entries[-1]['Layers'][-1], target = link, entries[-1]['Layers'][-1]
    files['manifest.json'] = json.dumps(entries).encode()
    path = folder + '/saved.tar'
    with open(path, 'wb') as f:
        f.write(b''.join(file('./' + n, d) for n, d in files.items()) + symlink(link, '../' + target) + END)
    return path


def test_docker_archive():
    folder = tempfile.mkdtemp(dir=WORK)
    base = [dir('a') + file('a/x', '1')]
    path = saved(folder, [(['one:1', 'r.io/other/one:2'], base + [file('which', 'one')]), (['two:latest'], base + [file('which', 'two')])])
    assert which(provider(f'docker-archive:{path}:one:1')) == 'one'
    assert which(provider(f'docker-archive:{path}:r.io/other/one:2')) == 'one'
    assert which(provider(f'docker-archive:{path}:two')) == 'two'
    bad(provider(f'docker-archive:{path}:three'), 'three')
    bad(provider(f'docker-archive:{path}'), '2 images')
    bad(provider('docker-archive:/nonexistent'), '/nonexistent')
    data = open(path, 'rb').read()
    at = data.index(b'two') + 1
    for name, changed in (('cut', data[:len(data) // 2]), ('changed', data[:at] + b'X' + data[at + 1:]), ('empty', b'')):
        with open(f'{folder}/{name}', 'wb') as f:
            f.write(changed)
        bad(provider(f'docker-archive:{folder}/{name}:two'))
    with open(f'{folder}/compressed', 'wb') as f:
        f.write(gzip.compress(data))
    assert which(provider(f'docker-archive:{folder}/compressed:two')) == 'two'


def test_docker_archive_loop():
    folder = tempfile.mkdtemp(dir=WORK)
    with open(folder + '/x', 'wb') as f:
        f.write(symlink('manifest.json', 'a') + symlink('a', 'manifest.json') + END)
    bad(provider(f'docker-archive:{folder}/x'), 'manifest.json')


def test_oci_archive():
    folder = tempfile.mkdtemp(dir=WORK)
    l = layout([X_FILE])
    for n, args in enumerate((['.'], ['--sort=name', 'blobs', 'index.json', 'oci-layout'])):
        path = f'{folder}/{n}.tar'
        subprocess.run(['tar', '-C', l.path, '-cf', path] + args, check=True)
        assert which(provider(f'oci-archive:{path}')) == 'x'
        assert which(provider(f'oci-archive:{path}:latest')) == 'x'
        assert which(provider(f'oci-archive:{path}@{l.entries[0]["digest"]}')) == 'x'
        bad(provider(f'oci-archive:{path}:none'), 'none')


def test_layout():
    l = layout([X_FILE])
    assert which(provider(f'oci:{l.path}')) == 'x'
    bad(provider(f'oci:{l.path}:none'), 'none')
    l.tag(l.image([file('which', 'other')]), 'other')
    bad(provider(f'oci:{l.path}'), '2 images')
    assert which(provider(f'oci:{l.path}:other')) == 'other'
    bad(provider('oci:/nonexistent'), '/nonexistent')
    bad(provider('oci:' + tempfile.mkdtemp(dir=WORK)), 'index.json')
    # A blob that is a link to elsewhere is not followed.
    blob = f'{l.path}/blobs/sha256/{l.entries[0]["digest"][7:]}'
    os.rename(blob, blob + '.away')
    os.symlink(blob + '.away', blob)
    bad(provider(f'oci:{l.path}:latest'))


main(globals())
