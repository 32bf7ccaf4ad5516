#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""layout.py DIR LAYER.tar...: an OCI layout with the image twice: tag gzip (level 6, as builders do it) and tag zstd (level 3)"""
import hashlib, json, os, subprocess, sys

TYPE = 'application/vnd.oci.image.'
TOOLS = {'gzip': ['gzip', '-6nc'], 'zstd': ['zstd', '-3qc']}


def sha256(path):
    h = hashlib.sha256()
    with open(path, 'rb') as f:
        while b := f.read(1 << 20):
            h.update(b)
    return h.hexdigest()


class Layout:
    def __init__(self, path):
        self.path, self.blobs = path, path + '/blobs/sha256'
        os.makedirs(self.blobs, exist_ok=True)

    def keep(self, temporary, **more):
        """A finished file becomes a blob."""
        digest, size = sha256(temporary), os.path.getsize(temporary)
        os.rename(temporary, f'{self.blobs}/{digest}')
        return dict(more, digest='sha256:' + digest, size=size)

    def put(self, value, kind):
        with open(self.path + '/new', 'w') as f:
            json.dump(value, f)
        return self.keep(self.path + '/new', mediaType=TYPE + kind + '.v1+json')

    def layer(self, tar, kind):
        with open(self.path + '/new', 'wb') as f:
            subprocess.run(TOOLS[kind] + [tar], stdout=f, check=True)
        return self.keep(self.path + '/new', mediaType=TYPE + 'layer.v1.tar+' + kind)

    def image(self, tars, kind):
        config = self.put(dict(
            created='2025-01-01T00:00:00Z', architecture='amd64', os='linux', config=dict(Env=['PATH=/usr/sbin:/usr/bin:/sbin:/bin'], Cmd=['/bin/sh']),
            rootfs=dict(type='layers', diff_ids=['sha256:' + sha256(t) for t in tars])), 'config')
        layers = [self.layer(t, kind) for t in tars]
        manifest = self.put(dict(schemaVersion=2, mediaType=TYPE + 'manifest.v1+json', config=config, layers=layers), 'manifest')
        return dict(manifest, platform=dict(architecture='amd64', os='linux'), annotations={'org.opencontainers.image.ref.name': kind})


def main(path, tars):
    layout = Layout(path)
    manifests = [layout.image(tars, kind) for kind in TOOLS]
    with open(path + '/oci-layout', 'w') as f:
        json.dump(dict(imageLayoutVersion='1.0.0'), f)
    with open(path + '/index.json', 'w') as f:
        json.dump(dict(schemaVersion=2, manifests=manifests), f)


main(sys.argv[1], sys.argv[2:])
