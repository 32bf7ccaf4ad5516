#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The image store contract on the plugin squashfs, with images in a registry of our own; first after a process that was killed in mid-pull.

Another store is tried with image-store.py PLUGIN.so [OPTION...]: the options go to the suite, as in --set KEY=VALUE."""
import os, shutil, signal, subprocess, sys, tempfile

BUILD, SRC = os.environ['BUILD_DIR'], os.environ['SRC_DIR']
if os.getuid() == 0 and subprocess.run(['id', 'edera-oci'], capture_output=True).returncode:
    print('the system user edera-oci is missing: make install makes it')
    sys.exit(77)
sys.path.insert(0, SRC + '/tests/rigs/oci-cases')
from ocitar import *
from registry import Registry

plugin = sys.argv[1:] or [BUILD + '/plugins/squashfs/.libs/squashfs.so']
contract = BUILD + '/tests/contract/contract'
os.environ['PROTECT_OCI_PROVIDER'] = BUILD + '/protect-oci-provider'
work = tempfile.mkdtemp(prefix='contract.')
os.chmod(work, 0o755)
layout = Layout(work + '/layout')
noise = b''.join(hashlib.sha256(str(i).encode()).digest() for i in range(30000))
layout.tag(layout.image([dir('a') + file('a/big', noise), file('a/y', '2')]), '1')
subprocess.run(['tar', '-C', layout.path, '-cf', work + '/archive.tar', '.'], check=True)


def fault(r):
    if r.repository == 'silent/image' and r.kind:
        return r.hang()
    if r.repository == 'missing/image' and r.kind:
        return r.reply(404)
    return None


try:
    with Registry(layout, fault=fault) as reg:
        with open(work + '/daemon.toml', 'w') as f:
            f.write('[oci]\ninsecure-registries = ["%s"]\n' % reg.host)
        command = [contract, *plugin, '--work', work, '--conf', work + '/daemon.toml', '--image', reg.host + '/t/image:1', '--missing',
                   reg.host + '/missing/image:1', '--silent', reg.host + '/silent/image:1', '--archive', work + '/archive.tar']
        left = subprocess.Popen(command + ['--leave', 'x'], stdout=subprocess.PIPE)
        left.stdout.readline()
        left.send_signal(signal.SIGKILL)
        left.wait()
        sys.exit(subprocess.run(command).returncode)
finally:
    shutil.rmtree(work, ignore_errors=True)
