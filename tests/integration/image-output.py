#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where the image goes, as whom, with how little, and what is left when it ends early: image-output.py [NAME...]"""
import hashlib, json, os, signal, subprocess, sys, tempfile, time

sys.path.insert(0, os.environ.get('SRC_DIR', os.path.dirname(os.path.abspath(__file__)) + '/../..') + '/tests/rigs/oci-cases')
from ocitar import *
from pulling import *
from registry import Registry


def test_output_places():
    with Registry(PLAIN_LAYOUT) as reg:
        ref = f'{reg.host}/t/image'
        folder = tempfile.mkdtemp(dir=WORK)
        os.mkdir(folder + '/dir')
        os.mkfifo(folder + '/fifo')
        os.symlink('/dev/null', folder + '/null')
        for path in (folder + '/dir', folder + '/fifo', folder + '/null', '/dev/null', folder + '/new/', '', folder + '/none/x', folder + '/' + 'x' * 300, '/proc/x'):
            before = sorted(os.listdir(folder))
            r = provider('--output', path, ref, output=False)
            assert r.status == 1 and len(r.err.splitlines()) == 1, (path, r.err)
            assert sorted(os.listdir(folder)) == before and os.path.islink(folder + '/null')
        assert reg.asked() == [], 'the image was fetched before it was known where to'
        assert os.stat('/dev/null').st_rdev
        # A file, or a link to one, is replaced when all is there, and not before.
        with open(folder + '/old', 'w') as f:
            f.write('old')
        os.symlink('old', folder + '/link')
        reg.fault = lambda r: r.reply(404) if is_big(r) else None
        assert provider('--output', folder + '/old', ref, output=False).status == 1
        assert open(folder + '/old').read() == 'old'
        reg.fault = None
        assert provider('--output', folder + '/old', ref, output=False).status == 0
        assert os.path.getsize(folder + '/old') > 10000 and sorted(os.listdir(folder)) == ['dir', 'fifo', 'link', 'null', 'old']
        # From a folder where nothing may be written, by a relative name.
        p = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--output', os.path.relpath(folder, '/proc') + '/here', ref], cwd='/proc', stderr=subprocess.PIPE)
        assert p.returncode == 0, p.stderr


def test_output_modes():
    """As any program's file: by the umask."""
    with Registry(PLAIN_LAYOUT) as reg:
        for mask in (0o022, 0o077):
            folder = tempfile.mkdtemp(dir=WORK)
            p = subprocess.run(['sh', '-c', f'umask {mask:o}; exec "$@"', 'sh', PROVIDER, '--platform', 'linux/amd64', '--output', folder + '/image', f'{reg.host}/t/image'])
            assert p.returncode == 0 and os.stat(folder + '/image').st_mode & 0o777 == 0o666 & ~mask


def test_modes_kept():
    """What is replaced lends its mode; the link is replaced, not what it names."""
    with Registry(PLAIN_LAYOUT) as reg:
        for mode in (0o600, 0o640, 0o664, 0o000):
            folder = tempfile.mkdtemp(dir=WORK)
            open(folder + '/image', 'w').close()
            os.chmod(folder + '/image', mode)
            assert provider('--output', folder + '/image', f'{reg.host}/t/image', output=False).status == 0
            assert os.stat(folder + '/image').st_mode & 0o777 == mode and os.path.getsize(folder + '/image') > 10000
        folder = tempfile.mkdtemp(dir=WORK)
        with open(folder + '/private', 'w') as f:
            f.write('old')
        os.chmod(folder + '/private', 0o600)
        os.symlink('private', folder + '/image')
        assert provider('--output', folder + '/image', f'{reg.host}/t/image', output=False).status == 0
        assert not os.path.islink(folder + '/image') and os.stat(folder + '/image').st_mode & 0o777 == 0o600 and open(folder + '/private').read() == 'old'


def test_have():
    """The image is there already: what is at the output stays, and a line says so."""
    with Registry(PLAIN_LAYOUT) as reg:
        ref = f'{reg.host}/t/image'
        for format, have in (('squashfs', True), ('tar', True), ('squashfs', False), ('directory', True), ('directory', False)):
            folder = tempfile.mkdtemp(dir=WORK)
            if have and format == 'directory':
                os.mkdir(folder + '/image', 0o700)
            elif have:
                with open(folder + '/image', 'w') as f:
                    f.write('mine')
            before = os.stat(folder + '/image') if have else None
            r = provider('--have', MANIFEST_DIGEST, '--format', format, '--output', folder + '/image', ref, output=False)
            assert r.status == 0 and r.out == '' and len(r.err.splitlines()) == 1 and folder + '/image' in r.err, r.err
            assert os.listdir(folder) == (['image'] if have else [])
            after = os.stat(folder + '/image') if have else None
            assert not have or (before.st_ino, before.st_mode, before.st_mtime_ns) == (after.st_ino, after.st_mode, after.st_mtime_ns)
        r = provider('--have', MANIFEST_DIGEST, '--progress', 'json', ref)
        assert r.status == 0 and r.left == [] and json.loads(r.out.splitlines()[-1])['cached'] is True and r.err == ''
        for wrong in ('foo', '', 'sha256:', MANIFEST_DIGEST[:-1], MANIFEST_DIGEST + '0', 'md5:' + '0' * 32):
            r = provider('--have', wrong, ref)
            assert r.status == 2 and r.left == [] and '--have' in r.err, (wrong, r.status, r.err)


def test_unheard():
    """Lines that cannot be written are no success, and leave no file."""
    with Registry(PLAIN_LAYOUT) as reg:
        for args, output in (([], True), (['inspect'], False)):
            folder = tempfile.mkdtemp(dir=WORK)
            with open('/dev/full', 'w') as full:
                p = subprocess.run([PROVIDER, '--platform', 'linux/amd64', '--progress', 'json', *(['--output', folder + '/image'] if output else []), *args,
                                    f'{reg.host}/t/image'], stdout=full, stderr=subprocess.PIPE, text=True)
            assert p.returncode == 1 and os.listdir(folder) == [], (args, p.returncode, os.listdir(folder))
            assert p.stderr == 'protect-oci-provider: cannot write to the standard output: No space left on device\n', p.stderr
        # A reader that goes away in the middle.
        reg.fault = lambda r: r.hang() if is_big(r) else None
        folder = tempfile.mkdtemp(dir=WORK)
        p = subprocess.Popen([PROVIDER, '--platform', 'linux/amd64', '--progress', 'json', '--output', folder + '/image', f'{reg.host}/t/image'],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        p.stdout.readline()
        p.stdout.close()
        assert p.wait(20) == 1 and 'standard output: Broken pipe' in p.stderr.read() and os.listdir(folder) == []


def test_standard_output():
    with Registry(PLAIN_LAYOUT) as reg:
        ref = f'{reg.host}/t/image'
        command = [PROVIDER, '--platform', 'linux/amd64', '--output', '-']
        folder, tmp = tempfile.mkdtemp(dir=WORK), tempfile.mkdtemp(dir=WORK)
        env = dict(os.environ, TMPDIR=tmp)
        for format in ([], ['--format', 'tar']):
            p = subprocess.run(command + format + [ref], stdout=subprocess.PIPE, cwd=folder, env=env)
            r = provider(*format, ref)
            assert p.returncode == 0 and hashlib.sha256(p.stdout).hexdigest() == good(r)
        with open(folder + '/x', 'wb') as f:
            assert subprocess.run(command + [ref], stdout=f, cwd=folder, env=env).returncode == 0
        os.rename(folder + '/x', folder + '/image')
        assert good(Result(0, '', '', folder, 0)) == WANT
        os.unlink(folder + '/image')
        with open('/dev/full', 'w') as full:
            p = subprocess.run(command + [ref], stdout=full, stderr=subprocess.PIPE, cwd=folder, env=env)
            assert p.returncode == 1 and b'No space left' in p.stderr, p.stderr
        p = subprocess.Popen(command + [ref], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=env)
        p.stdout.read(1000)
        p.stdout.close()
        assert p.wait(20) == 1 and b'Broken pipe' in p.stderr.read()
        # Nobody reads on: an interrupt ends it.
        p = subprocess.Popen(command + [ref], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=env)
        p.stdout.read(1)
        time.sleep(0.2)
        p.send_signal(signal.SIGINT)
        assert p.wait(20) == 130
        p.stdout.close()
        # Nothing comes where it fails.
        p = subprocess.run(command + [f'{reg.host}/t/image:none'], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=env)
        assert p.returncode == 1 and p.stdout == b''
        for more in (['--progress', 'json'], ['--format', 'directory']):
            p = subprocess.run(command + more + [ref], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, env=env)
            assert p.returncode == 2 and p.stdout == b'' and b'standard output' in p.stderr, p.stderr
        asked = len(reg.asked())
        main_end, terminal = os.openpty()
        p = subprocess.run(command + [ref], stdout=terminal, stderr=subprocess.PIPE, cwd=folder, env=env)
        assert p.returncode == 1 and b'terminal' in p.stderr and len(reg.asked()) == asked, p.stderr
        assert os.listdir(folder) == [] and os.listdir(tmp) == []


def test_ordinary_user():
    if os.geteuid() != 0:
        return 'only root can become another user'
    with Registry(PLAIN_LAYOUT) as reg:
        folder = tempfile.mkdtemp()
        program = folder + '/provider'
        try:
            os.chmod(folder, 0o777)
            shutil.copy(PROVIDER if not open(PROVIDER, 'rb').read(2) == b'#!' else os.path.dirname(PROVIDER) + '/.libs/' + os.path.basename(PROVIDER), program)
            for groups in ([], ):
                p = subprocess.run([program, '--platform', 'linux/amd64', '--output', folder + '/image', f'{reg.host}/t/image'], user=65534, group=65534, extra_groups=groups,
                                   cwd='/', env={'PATH': '/usr/bin:/bin'}, stderr=subprocess.PIPE)
                assert p.returncode == 0, p.stderr
                os.unlink(folder + '/image')
            os.chmod(folder, 0o755)
            p = subprocess.run([program, '--platform', 'linux/amd64', '--output', folder + '/image', f'{reg.host}/t/image'], user=65534, group=65534, extra_groups=[], cwd='/', stderr=subprocess.PIPE)
            assert p.returncode == 1 and b'ermission denied' in p.stderr, p.stderr
        finally:
            shutil.rmtree(folder)


def test_few_descriptors():
    with Registry(PLAIN_LAYOUT) as reg:
        for n in (6, 10, 14, 20, 40):
            folder = tempfile.mkdtemp(dir=WORK)
            p = subprocess.run(['sh', '-c', f'ulimit -n {n}; exec "$@"', 'sh', PROVIDER, '--platform', 'linux/amd64', '--output', folder + '/image', f'{reg.host}/t/image'], stderr=subprocess.PIPE)
            left = os.listdir(folder)
            if p.returncode == 0:
                assert good(Result(0, '', '', folder, 0)) == WANT
            else:
                assert left == [] and p.stderr, (n, left, p.stderr)
        assert p.returncode == 0, p.stderr


def test_one_core():
    core = str(sorted(os.sched_getaffinity(0))[0])
    with Registry(PLAIN_LAYOUT) as reg:
        folder = tempfile.mkdtemp(dir=WORK)
        p = subprocess.run(['taskset', '-c', core, PROVIDER, '--platform', 'linux/amd64', '--output', folder + '/image', f'{reg.host}/t/image'])
        assert p.returncode == 0 and good(Result(0, '', '', folder, 0)) == WANT


def test_killed_anytime():
    """At whatever moment it is ended, by whatever signal, front or worker: the file is whole or absent, and nothing else is there."""
    def slow(r):
        if is_big(r):
            data = r.server.data(r.what)
            r.reply(200, b'', length=len(data))
            for i in range(0, len(data), 200000):
                r.handler.wfile.write(data[i:i + 200000])
                time.sleep(0.03)
            return True
    with Registry(PLAIN_LAYOUT, fault=slow) as reg:
        for n in range(36):
            folder = tempfile.mkdtemp(dir=WORK)
            tmp = tempfile.mkdtemp(dir=WORK)
            with open(folder + '/image', 'w') as f:
                f.write('old')
            p = subprocess.Popen([PROVIDER, '--platform', 'linux/amd64', '--output', folder + '/image', f'{reg.host}/t/image'], stderr=subprocess.DEVNULL, env=dict(os.environ, TMPDIR=tmp))
            time.sleep(0.012 * n)
            victim = p.pid
            if n % 4 == 3:
                children = open(f'/proc/{p.pid}/task/{p.pid}/children').read().split()
                victim = int(children[0]) if children else p.pid
            try:
                os.kill(victim, (signal.SIGINT, signal.SIGTERM, signal.SIGKILL, signal.SIGKILL)[n % 4])
            except ProcessLookupError:
                pass
            status = p.wait(20)
            whole = os.path.getsize(folder + '/image') > 3
            assert os.listdir(folder) == ['image'] and os.listdir(tmp) == [], (n, os.listdir(folder))
            assert whole or status != 0
            if whole:
                assert good(Result(0, '', '', folder, 0)) == WANT


def test_killed_directory():
    """... also where the result is a directory, which cannot be without a name."""
    l = layout([dir('kernel') + file('kernel/image', NOISE)])
    with Registry(l, fault=lambda r: r.hang() if r.kind == 'blobs' and r.server.count('b') > 0 else None) as reg:
        for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            reg.counts.clear()
            folder = tempfile.mkdtemp(dir=WORK)
            seen = len(reg.asked('blobs'))
            p = subprocess.Popen([PROVIDER, '--platform', 'linux/amd64', '--format', 'directory', '--output', folder + '/image', f'{reg.host}/t/image'], stderr=subprocess.DEVNULL)
            until(lambda: len(reg.asked('blobs')) > seen + 1)
            p.send_signal(sig)
            assert p.wait(10) in (-sig, 128 + sig)
            assert os.listdir(folder) == []


main(globals())
