#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The contract of variant sources on the plugins config and registry; on registry also with one that never answers.

Another source is tried with variant-sources.py PLUGIN.so [OPTION...]: the options go to the suite, as in --set KEY=VALUE and --expect NAME=IMAGE."""
import os, shutil, subprocess, sys, tempfile

BUILD, SRC = os.environ['BUILD_DIR'], os.environ['SRC_DIR']
if os.getuid() == 0 and subprocess.run(['id', 'edera-oci'], capture_output=True).returncode:
    print('the system user edera-oci is missing: make install makes it')
    sys.exit(77)
sys.path.insert(0, SRC + '/tests/rigs/oci-cases')
from ocitar import *
from registry import Registry

contract = BUILD + '/tests/contract/contract'
os.environ['PROTECT_OCI_PROVIDER'] = BUILD + '/protect-oci-provider'
top = tempfile.mkdtemp(prefix='contract.')
os.chmod(top, 0o755)
failed = 0


def run(plugin, *options, conf=''):
    global failed
    work = tempfile.mkdtemp(dir=top)
    os.chmod(work, 0o755)
    with open(work + '/daemon.toml', 'w') as f:
        f.write(conf)
    print('---', os.path.basename(plugin), flush=True)
    failed |= subprocess.run([contract, plugin, *options, '--work', work, '--conf', work + '/daemon.toml']).returncode


def kernel(flavor, version):
    return {'annotations': {'dev.edera.kernel.flavor': flavor, 'dev.edera.kernel.version': version, 'dev.edera.kernel.format': '1'}}


try:
    if sys.argv[1:]:
        run(*sys.argv[1:])
        sys.exit(failed)
    plugins = BUILD + '/plugins/%s/.libs/%s.so'
    run(plugins % (('config',) * 2), '--expect', 'one=example.com/kernel:1', '--expect', 'two.x-y=example.com/kernel@sha256:' + 64 * 'a',
        conf='[zone.kernel-variants]\none = "example.com/kernel:1"\n"two.x-y" = "example.com/kernel@sha256:%s"\n' % (64 * 'a'))
    run(plugins % (('config',) * 2))
    arch = {'x86_64': 'amd64', 'aarch64': 'arm64'}.get(os.uname().machine, os.uname().machine)
    layout = Layout(top + '/layout')
    for name, version in (('zone', '6.1.1'), ('gpu', '6.12')):
        layout.tag(layout.image([file('kernel/image', name)], arch=arch, manifest=kernel(name, version)), name)
    tags = lambda r: r.reply_json({'name': r.repository, 'tags': ['zone', 'gpu']}) if r.kind == 'tags' else None
    silent = lambda r: r.hang() if r.kind else None
    with Registry(layout, fault=tags) as reg, Registry(layout, fault=silent) as hung:
        conf = '[oci]\ninsecure-registries = ["%s", "%s"]\n' % (reg.host, hung.host)
        run(plugins % (('registry',) * 2), '--set', 'repositories=%s/t/kernel' % reg.host, '--set', 'tags=*', '--expect',
            'zone=%s/t/kernel:zone' % reg.host, '--expect', 'gpu=%s/t/kernel:gpu' % reg.host, conf=conf)
        run(plugins % (('registry',) * 2), '--set', 'repositories=%s/t/kernel' % hung.host, '--set', 'tags=*', '--unreachable', conf=conf)
finally:
    shutil.rmtree(top, ignore_errors=True)
sys.exit(failed)
