# SPDX-License-Identifier: Apache-2.0
"""The images of the benchmark in the cache, and the registry that has them."""
import json, os, re, shutil, subprocess, tarfile, zlib

from peers import HERE, RIGS, Image

NAMES = ['small', 'debian', 'python', 'big']
KINDS = ['gzip', 'zstd']


def make(folder, names):
    """Makes what is missing; hours old or years old, what is there stays, since results are compared over time."""
    missing = [n for n in names if not os.path.exists(f'{folder}/{n}/oci/index.json')]
    if not missing:
        return
    print('making images:', ' '.join(missing), flush=True)
    subprocess.run(['nice', '-n', '15', f'{HERE}/images.sh', folder, *missing], check=True)
    for name in missing:
        image, new = f'{folder}/{name}', f'{folder}/{name}/oci.new'
        layers = sorted(f'{image}/layers/{f}' for f in os.listdir(f'{image}/layers') if f.endswith('.tar'))
        shutil.rmtree(new, ignore_errors=True)
        subprocess.run(['nice', '-n', '15', f'{HERE}/layout.py', new, *layers], check=True)
        os.rename(new, f'{image}/oci')
        shutil.rmtree(f'{image}/layers')


class Registry:
    """docker-registry on a free port of loopback; its storage stays in the cache."""
    def __init__(self, folder):
        self.folder = folder
        self.address = subprocess.run([f'{RIGS}/registry', 'start', folder], stdout=subprocess.PIPE, check=True).stdout.decode().split()[-1]
        with open(folder + '/pid') as f:
            self.pid = int(f.read())

    def stop(self):
        subprocess.run([f'{RIGS}/registry', 'stop', self.folder])

    def push(self, image):
        """Once; a tag that names another image is replaced."""
        ask = ['curl', '-fsI', '-H', 'Accept: application/vnd.oci.image.manifest.v1+json', f'http://{image.registry}/v2/{image.repository}/manifests/{image.kind}']
        answer = subprocess.run(ask, stdout=subprocess.PIPE).stdout.decode()
        if not re.search(r'(?i)^docker-content-digest: ' + image.entry['digest'], answer, re.M):
            print('pushing', image.reference, flush=True)
            subprocess.run(['skopeo', '--insecure-policy', 'copy', '-q', '--dest-tls-verify=false', f'oci:{image.layout}:{image.kind}',
                            'docker://' + image.reference], check=True)


def describe(image):
    layers = image.manifest['layers']
    with open(image.blob(image.manifest['config']['digest'])) as f:
        config = json.load(f)
    assert len(config['rootfs']['diff_ids']) == len(layers)
    return f'{len(layers)} layers, {sum(l["size"] for l in layers) / 1e6:.1f} MB, {os.path.getsize(image.folder + "/merged.tar") / 1e6:.0f} MB unpacked'


def checksum(data):
    value = 0
    while block := data.read(1 << 20):
        value = zlib.crc32(block, value)
    return value


def tree(file):
    """What a tar holds: name to metadata and content; hard links as what they link."""
    entries = {}
    with tarfile.open(fileobj=file, mode='r|') as tar:
        for ti in tar:
            name = ti.name.strip('/')
            if ti.islnk():
                entries[name] = entries[ti.linkname.strip('/')]
            else:
                entries[name] = (ti.type, '%o' % ti.mode, ti.uid, ti.gid, int(ti.mtime), ti.size, ti.linkname, (ti.devmajor, ti.devminor),
                                 sorted((k, v) for k, v in ti.pax_headers.items() if k.startswith('SCHILY.xattr.')),
                                 checksum(tar.extractfile(ti)) if ti.isreg() else None)
    return entries


def compare(image, squashfs):
    """Sentences on what of a packed image differs from its merged tree."""
    with open(f'{image.folder}/merged.tar', 'rb') as f:
        expected = tree(f)
    with subprocess.Popen(['sqfs2tar', squashfs], stdout=subprocess.PIPE) as p:
        found = tree(p.stdout)
    return [f'{n}: {found.get(n)}, not {expected.get(n)}' for n in sorted(expected.keys() | found.keys()) if expected.get(n) != found.get(n)]
