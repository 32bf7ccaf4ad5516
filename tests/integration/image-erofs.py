#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Images in format erofs: every corner case gives what the squashfs of the same image gives, as the kernel mounts both; the same bytes each
time; and a mkfs.erofs that is missing, old or broken ends in one sentence with nothing left behind: image-erofs.py [NAME...]"""
import os, shutil, signal, subprocess, sys, tempfile, time

SRC = os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..')
sys.path.insert(0, SRC + '/tests/rigs/oci-cases')
import squash
from cases import CASES, REFUSE
from ocitar import *

BUILD = os.environ.get('BUILD_DIR', '.')
PROVIDER = os.environ.get('PROVIDER') or BUILD + '/protect-oci-provider'
SAY = 'protect-oci-provider: '
# What is squashfs' own limit, and what is refused, as holes are written out.
LEFT_OUT = {'many-ids', 'sparse-huge'}
TWICE = {'hl-cross-many', 'many-layers', 'same-layer-linked', 'xattr-cap'}  # packed a second time, to compare bytes


def command(folder, out, *more, kind='erofs'):
    return [PROVIDER, '--platform', 'linux/amd64', '--progress', 'none', '--format', kind, '--output', out, *more, f'oci:{folder}/oci']


def pull(folder, out, *more, kind='erofs', timeout=120):
    r = subprocess.run(command(folder, out, *more, kind=kind), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=timeout)
    return r.returncode, r.stderr.decode('utf-8', 'replace').strip()


def make(folder, layers):
    layout = Layout(f'{folder}/oci')
    layout.tag(layout.image(layers))


def comparable(tree):
    """What both file systems have to agree on: numbers and sizes of directories are their own, groups of hard links are not."""
    first, out = {}, {}
    for path in sorted(tree):
        e = dict(tree[path])
        e['ino'] = first.setdefault(e['ino'], path)
        if e['type'] == 'd':
            del e['size'], e['nlink']
        out[path] = e
    return out


def case(name, mkfs, folder):
    c = CASES[name]
    make(folder, c.layers)
    code, said = pull(folder, f'{folder}/image', *mkfs)
    if c.expect == REFUSE:
        bad = [] if code == 1 and said.startswith(SAY) and '\n' not in said else [f'exit status {code}, it said {said!r}']
    elif code:
        return [f'exit status {code}: {said}']
    else:
        got = squash.read(f'{folder}/image', 'erofs')
        bad = [f'it said: {said}'] if said else []
        bad += squash.compare(c.expect, c.absent, got)
        code, said = pull(folder, f'{folder}/squashfs', kind='squashfs')
        a, b = comparable(got), comparable(squash.read(f'{folder}/squashfs'))
        bad += [f'{p!r:.60} differs from the squashfs: {a.get(p)!r:.300} {b.get(p)!r:.300}' for p in sorted({*a, *b}) if a.get(p) != b.get(p)]
        os.unlink(f'{folder}/squashfs')
        if name in TWICE:
            pull(folder, f'{folder}/again', *mkfs)
            with open(f'{folder}/image', 'rb') as x, open(f'{folder}/again', 'rb') as y:
                if x.read() != y.read():
                    bad.append('a second time gives other bytes')
            os.unlink(f'{folder}/again')
    if sorted(os.listdir(folder)) != (['image', 'oci'] if not code else ['oci']):
        bad.append(f'it left {os.listdir(folder)}')
    return bad


def cases(mkfs, names):
    wrong = 0
    for name in names:
        with tempfile.TemporaryDirectory(prefix='image-erofs.') as folder:
            try:
                bad = case(name, mkfs, folder)
            except subprocess.TimeoutExpired:
                bad = ['it hangs']
        if bad:
            wrong += 1
            print(f'{name} ({CASES[name].why}): ' + '; '.join(bad))
    print(f'{len(names) - wrong} of {len(names)} right')
    return wrong


def programs(folder):
    """Processes whose command line names something in the folder."""
    out = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{pid}/cmdline', 'rb') as f:
                if folder.encode() in f.read():
                    out.append(pid)
        except OSError:
            pass
    return out


def gone(folder):
    end = time.monotonic() + 10
    while programs(folder) and time.monotonic() < end:
        time.sleep(0.05)
    return [f'processes are left: {programs(folder)}'] if programs(folder) else []


def sentence(what, folder, code, said, words):
    bad = [] if code == 1 else [f'exit status {code}']
    if '\n' in said or not said.startswith(SAY) or words not in said:
        bad.append(f'it said {said!r}, not {words!r}')
    bad += gone(folder)
    if os.listdir(folder + '/out'):
        bad.append(f'it left {os.listdir(folder + "/out")}')
    for b in bad:
        print(f'{what}: {b}')
    return bool(bad)


def hostile(folder):
    """A mkfs.erofs of ours in the place of the real one."""
    wrong = 0
    make(folder, CASES['content'].layers)
    os.mkdir(folder + '/out')
    for what, words, *more in (
            ('fail', 'could not write the image: the moon is full'), ('late', 'could not write the image: the sun is up'),
            ('silent', 'it does not say why'), ('signal', 'ended by signal 11'), ('garbage', 'is no erofs image'), ('full', 'No space left on device'),
            ('hang', 'not complete after the 2 seconds', '--timeout', '2'), ('flood', 'could not write the image'), ('nosy', 'image: looked around'),
            ('old', 'is version 1.7.1'), ('mute', 'does not tell its version')):
        program = f'{folder}/mkfs.erofs-{what}'
        shutil.copy(BUILD + '/tests/integration/fake-mkfs', program)
        try:
            code, said = pull(folder, folder + '/out/image', '--mkfs-erofs', program, *more, timeout=60)
        except subprocess.TimeoutExpired:
            code, said = -1, 'it hangs'
        wrong += sentence(what, folder, code, said, words)
    code, said = pull(folder, folder + '/out/image', '--mkfs-erofs', '/nonexistent/mkfs.erofs')
    wrong += sentence('missing', folder, code, said, "cannot use '/nonexistent/mkfs.erofs'")
    shutil.rmtree(folder + '/oci')
    make(folder, CASES['sparse-huge'].layers)
    code, said = pull(folder, folder + '/out/image', '--mkfs-erofs', f'{folder}/mkfs.erofs-hang')
    wrong += sentence('a hole of 423 GB', folder, code, said, '(--max-size)')
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        p = subprocess.Popen(command(folder, folder + '/out/image', '--mkfs-erofs', f'{folder}/mkfs.erofs-hang'), stderr=subprocess.PIPE)
        time.sleep(1)
        p.send_signal(sign)
        p.communicate(timeout=20)
        bad = gone(folder) + ([f'it left {os.listdir(folder + "/out")}'] if os.listdir(folder + '/out') else [])
        bad += [] if p.returncode else ['it succeeded']
        for b in bad:
            print(f'{sign.name}: {b}')
        wrong += bool(bad)
    return wrong


def full_disk(mkfs, folder, what, layer, sizes):
    """A real disk that is full, at sizes that stop the real program at different places. It must never go unnoticed."""
    wrong = 0
    make(folder, [layer])
    os.mkdir(folder + '/out')
    for mib in sizes:
        subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={mib}m', 'none', folder + '/out'], check=True)
        try:
            code, said = pull(folder, folder + '/out/image', *mkfs, timeout=60)
            wrong += sentence(f'{what}, a disk of {mib} MiB', folder, code, said, 'No space left on device')
        finally:
            subprocess.run(['umount', folder + '/out'], check=True)
    return wrong


def main():
    if os.geteuid() != 0:
        print('only root can see owners and devices')
        return 77
    with tempfile.TemporaryDirectory(prefix='image-erofs.') as folder:
        wrong = hostile(folder)
    rig = subprocess.run([SRC + '/tests/rigs/erofs-utils'], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if rig.returncode:
        print('no mkfs.erofs that reads a tar:', rig.stderr.decode('utf-8', 'replace').strip())
        return 1 if wrong else 77
    if b'erofs' not in open('/proc/filesystems', 'rb').read() and subprocess.run(['modprobe', '-q', 'erofs']).returncode:
        print("this machine's kernel has no erofs")
        return 1 if wrong else 77
    mkfs = ['--mkfs-erofs', rig.stdout.decode().strip()]
    with tempfile.TemporaryDirectory(prefix='image-erofs.') as folder:
        wrong += full_disk(mkfs, folder, 'large files', file('a', os.urandom(3 << 20)) + file('b', os.urandom(3 << 20)), (3, 8, 10))
    with tempfile.TemporaryDirectory(prefix='image-erofs.') as folder:
        wrong += full_disk(mkfs, folder, 'small files', b''.join(file(f'f{i}', os.urandom(4096)) for i in range(1500)), (4, 8, 11, 15))
    return wrong + cases(mkfs, sys.argv[1:] or [n for n in CASES if n not in LEFT_OUT]) > 0


if __name__ == '__main__':
    sys.exit(main())
