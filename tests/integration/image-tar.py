#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images packed as tar, which is what internal images are kept as, unpacked by GNU tar: image-tar.py [NAME...]"""
import os, subprocess, sys, tempfile

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
import squash
from cases import CASES, REFUSE
from ocitar import Layout

PROVIDER = os.environ.get('PROVIDER') or os.environ['BUILD_DIR'] + '/protect-oci-provider'
# What takes long for what it shows, and what GNU tar cannot unpack to a disk.
# 'xattr-many': few file systems of a host have room for them.
LEFT_OUT = {'sparse-huge', 'many-entries', 'many-ids', 'many-dirs', 'mtime', 'zst-window-128', 'xattr-many'}


def run(name, case, folder):
    layout = Layout(f'{folder}/oci')
    layout.tag(layout.image(case.layers))
    r = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--progress', 'none', '--format', 'tar', '--output', f'{folder}/image.tar', f'oci:{folder}/oci'],
                       stderr=subprocess.PIPE, timeout=120)
    if r.returncode:
        return [f'exit status {r.returncode}: {r.stderr.decode("utf-8", "replace").strip()}']
    os.mkdir(f'{folder}/root')
    t = subprocess.run(['tar', '-C', f'{folder}/root', '--numeric-owner', '--xattrs', '--xattrs-include=*', '-xpf', f'{folder}/image.tar'], stderr=subprocess.PIPE)
    if t.returncode or t.stderr:
        return [f'tar: {t.stderr.decode("utf-8", "replace").strip()}']
    return squash.compare(case.expect, case.absent, squash.tree(f'{folder}/root'))


def main():
    if os.geteuid() != 0:
        print('only root can unpack owners and devices')
        return 77
    names = sys.argv[1:] or [n for n, c in CASES.items() if c.expect != REFUSE and n not in LEFT_OUT]
    wrong = 0
    for name in names:
        folder = tempfile.mkdtemp(prefix='image-tar.')
        try:
            bad = run(name, CASES[name], folder)
        finally:
            subprocess.run(['rm', '-rf', folder])  # Python gives up a thousand directories down
        if bad:
            wrong += 1
            print(f'{name} ({CASES[name].why}): ' + '; '.join(bad))
    print(f'{len(names) - wrong} of {len(names)} right')
    return wrong > 0


sys.exit(main())
