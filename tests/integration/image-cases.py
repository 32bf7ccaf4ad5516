#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every corner case of layers, tar and compression, from an OCI layout to squashfs: image-cases.py [NAME...]"""
import os, shutil, subprocess, sys, tempfile

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
import squash
from cases import CASES, REFUSE
from ocitar import Layout

PROVIDER = os.environ.get('PROVIDER') or os.environ['BUILD_DIR'] + '/protect-oci-provider'


def run(name, case, folder):
    layout = Layout(f'{folder}/oci')
    layout.tag(layout.image(case.layers))
    out = f'{folder}/image.squashfs'
    r = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--progress', 'none', '--output', out, f'oci:{folder}/oci'], stderr=subprocess.PIPE, timeout=120)
    said = r.stderr.decode('utf-8', 'replace').strip()
    if case.expect == REFUSE:
        bad = [] if r.returncode == 1 else [f'exit status {r.returncode}, not a refusal']
        if said.count('\n') or not said.startswith('protect-oci-provider: '):
            bad.append(f'not one sentence: {said!r}')
    elif r.returncode:
        return [f'exit status {r.returncode}: {said}']
    else:
        bad = [f'it said: {said}'] if said else []
        bad += squash.compare(case.expect, case.absent, squash.read(out))
    if sorted(os.listdir(folder)) != (['oci'] if r.returncode else ['image.squashfs', 'oci']):
        bad.append(f'it left {os.listdir(folder)}')
    return bad


def main():
    if os.geteuid() != 0:
        print('only root can see owners and devices')
        return 77
    names = sys.argv[1:] or list(CASES)
    wrong = 0
    for name in names:
        folder = tempfile.mkdtemp(prefix='image-cases.')
        try:
            bad = run(name, CASES[name], folder)
        except subprocess.TimeoutExpired:
            bad = ['it hangs']
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if bad:
            wrong += 1
            print(f'{name} ({CASES[name].why}): ' + '; '.join(bad))
    print(f'{len(names) - wrong} of {len(names)} right')
    return wrong > 0


sys.exit(main())
