#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a person sees of a pull: `protect-oci-provider` and `protect` on terminals of all sizes, slow, resized, interrupted and failing."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time

try:
    import grpc  # noqa: F401
    import grpc_tools  # noqa: F401
    import pyte  # noqa: F401
except ImportError as e:
    print('missing: %s (Debian: python3-pyte, python3-grpcio, python3-grpc-tools)' % e)
    sys.exit(77)

rigs = os.path.dirname(os.path.abspath(__file__)) + '/../rigs'
sys.path[:0] = [rigs, rigs + '/oci-cases']
sys.dont_write_bytecode = True
import foreign_daemon  # noqa: E402
from pulling import PROVIDER, WORK, file, layout  # noqa: E402
from registry import Registry  # noqa: E402
from screen import PROMPT, Screen  # noqa: E402

PROTECT = os.environ['BUILD_DIR'] + '/cli/protect'
SOCKET = WORK + '/socket'
server, daemon = foreign_daemon.serve(SOCKET)
ENV = {'PATH': os.environ['PATH'], 'HOME': WORK, 'TERM': 'xterm', 'LANG': 'C.UTF-8', 'PROTECT_CONNECTION': 'unix://' + SOCKET}
DIGEST = 'sha256:' + 'ab' * 32
SPINNER = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏'
failures = 0


def check(what, good, detail=''):
    global failures
    print('%s: %s%s' % ('ok' if good else 'NOT OK', what, '' if good else ': %s' % (detail,)), flush=True)
    failures += not good


def same(what, expected, got):
    check(what, expected == got, 'expected %r, got %r' % (expected, got))


def slow(seconds, fail=None):
    """Every layer takes that long; after half of it, `fail` may end one."""
    def fault(r):
        data = r.server.data(r.what) if r.kind == 'blobs' and r.method == 'GET' else None
        if data is None or len(data) < 20000:
            return None
        r.handler.send_response(200)
        r.handler.send_header('Content-Length', str(len(data)))
        r.handler.end_headers()
        step = len(data) // 10 + 1
        for i in range(0, len(data), step):
            if fail and i > len(data) // 2:
                data = b'x' * len(data)
            r.handler.wfile.write(data[i:i + step])
            r.handler.wfile.flush()
            time.sleep(seconds / 10)
        return True
    return fault


IMAGES = {n: layout([file('f%d' % i, random.Random(i).randbytes(50000)) for i in range(n)]) for n in (1, 7, 60)}


class Pull:
    """The provider, pulling an image of n layers from a registry that takes `seconds` for each, onto a screen."""

    def __init__(self, n, seconds, fail=None, arguments=(), env=ENV, **screen):
        self.registry = Registry(IMAGES[n], fault=slow(seconds, fail))
        self.n, self.folder, self.arguments, self.env, self.screen = n, WORK + '/out%d' % random.getrandbits(32), arguments, env, screen

    def __enter__(self):
        self.registry.__enter__()
        os.mkdir(self.folder)
        self.name = self.registry.host + '/t/image'
        s = Screen([PROVIDER, '--platform', 'linux/amd64', '--output', self.folder + '/image', *self.arguments, self.name], env=self.env, **self.screen)
        s.pull = self
        return s

    def __exit__(self, *what):
        self.registry.__exit__(*what)


def is_head(line):
    return line[:1] != '' and line[0] in SPINNER + '-\\|/' and line[1:2] in (' ', '')


def frames_fit(what, s, rows, columns, layers):
    """Every frame that was seen whole stands right below the prompt, a line for each layer or for all that have no room, nothing twice."""
    drawn = [f for f in s.frames if len(f) > 1 and is_head(f[1])]
    check(what + ': bars are drawn', len(drawn) >= 3, s.frames[-3:])
    room = min(16, rows - 3)
    for f in drawn:
        good = f[0] == PROMPT[:columns - 1].rstrip() and all(line.startswith('  ') and not is_head(line) for line in f[2:]) and len(f) <= rows - 1
        good = good and len(f) - 2 <= (layers if layers <= room else room) and all(len(line) < columns for line in f)
        if not good:
            check(what + ': a frame', False, f)
            return
    same(what + ': nothing scrolls away', [], s.scrolled())
    check(what + ': the cursor is to be seen', not s.screen.cursor.hidden)


def sizes_test():
    for n, rows, columns, seconds in ((1, 24, 20, 1), (7, 24, 40, 0.5), (7, 24, 80, 0.6), (60, 24, 80, 0.1), (60, 10, 200, 0.1), (60, 4, 40, 0.1), (7, 24, 200, 0.5)):
        what = '%d layers, %dx%d' % (n, rows, columns)
        with Pull(n, seconds, rows=rows, columns=columns) as s:
            same(what + ': exit status', 0, s.wait(60))
            s.close()
            frames_fit(what, s, rows, columns, n)
            last = PROMPT[:columns - 1].rstrip() + s.pull.name + ': complete'
            same(what + ': what is left', last, ''.join(s.lines()))
            bars = [line for f in s.frames for line in f if re.match(r'  [0-9a-f]{12} \[=*>? *\] ', line)]
            check(what + ': bars where there is room', (len(bars) > 3) == (columns >= 30 and rows > 4), bars[:3])
            if columns >= 60:
                check(what + ': with rates', any(re.search(r'KiB +[\d.]+ KiB/s$', line) for line in bars), bars[-3:])
            if n == 60 and rows > 4:
                check(what + ': the others are counted', any(re.match(r'  \+ \d+ layers: \d+ done, \d+ waiting$', line) for f in s.frames for line in f))


def resize_test():
    with Pull(7, 1.5, rows=24, columns=80) as s:
        s.until(lambda lines: any('[=' in line for line in lines))
        for rows, columns in ((24, 40), (24, 100), (5, 100), (24, 60)):
            s.resize(rows, columns)
            before = len(s.raw)
            s.until(lambda lines: len(s.raw) > before + 200)
            lines = s.lines()
            heads = [line for line in lines if is_head(line)]
            check('resized to %dx%d: one frame' % (rows, columns), len(heads) == 1 and lines[-1].startswith('  ') and len(lines) < rows, lines)
        same('resized: exit status', 0, s.wait(60))
        s.close()
        same('resized: what is left', s.pull.name + ': complete', s.lines()[-1])
        check('resized: no bar is left', not [line for line in s.lines() if '[=' in line or is_head(line)], s.lines())


def interrupt_test():
    for arguments, kind in (((), 'a file'), (('--format', 'tar'), 'a tar'), (('--format', 'directory'), 'a directory')):
        with Pull(7, 5, arguments=arguments, rows=24, columns=80) as s:
            s.until(lambda lines: any('[=' in line for line in lines))
            s.type(b'\x03')
            same('Ctrl+C while pulling to %s' % kind, 130, s.wait(10))
            s.close()
            same('what is left of the screen', [PROMPT], s.lines())
            check('the terminal is as it was', s.same_modes and not s.screen.cursor.hidden)
            same('and of the files', [], os.listdir(s.pull.folder))
    with Pull(7, 5, rows=24, columns=80) as s:
        s.until(lambda lines: any('[=' in line for line in lines))
        s.popen.send_signal(signal.SIGTERM)
        same('SIGTERM', 143, s.wait(10))
        same('leaves nothing on the screen', [PROMPT], s.lines())
        s.close()
    with Pull(1, 1.5, rows=24, columns=80) as s:
        subprocess.run(['stty', 'tostop'], stdin=s.slave)
        same('with tostop it is not stopped', 0, s.wait(20))
        s.close()


def failure_test():
    with Pull(7, 1, fail=True, rows=24, columns=80) as s:
        same('an error in mid-pull', 1, s.wait(60))
        s.close()
        check('one sentence, and no bars', s.lines()[0] == PROMPT and s.lines()[1].startswith('protect-oci-provider: ') and not [x for x in s.lines() if '[=' in x], s.lines())
        same('no file', [], os.listdir(s.pull.folder))


def plain_test():
    with Pull(7, 0.5, env=dict(ENV, TERM='dumb'), rows=24, columns=80) as s:
        same('a terminal that cannot move its cursor', 0, s.wait(60))
        same('gets a line a phase', [PROMPT, 'resolving the reference', 'fetching the config', 'downloading layers (7, 343 KiB)', 'merging layers', 'writing metadata', 'complete'], s.lines())
        s.close()
    blobs = WORK + '/blobs'
    shutil.copytree(IMAGES[7].path + '/blobs', blobs)
    layers = sorted(os.listdir(blobs + '/sha256'), key=lambda f: -os.path.getsize(blobs + '/sha256/' + f))[:7]
    for f in layers[2:]:
        os.unlink(blobs + '/sha256/' + f)
    for env in (dict(ENV, TERM='dumb'), ENV):
        with Pull(7, 1, env=env, arguments=('--blobs', blobs, '--parallel', '7'), rows=24, columns=100) as s:
            s.until(lambda lines: any(re.search(r'downloading layers \(5, 245 KiB; 2 are here, 98 KiB\)', line) for line in lines))
            same('layers that are here are counted, TERM=%s' % env['TERM'], 0, s.wait(60))
            s.close()
    s = Screen([PROVIDER, '--platform', 'linux/amd64', '--output', WORK + '/local', 'oci:' + IMAGES[7].path], env=dict(ENV, TERM='dumb'), rows=24, columns=80)
    s.wait(60)
    check('a local image is not downloaded', 'unpacking layers (7 are here, 343 KiB)' in s.lines(), s.lines())
    s.close()
    with Pull(7, 0.7, env=dict(ENV, LANG='C', NO_COLOR='1'), rows=24, columns=80) as s:
        s.wait(60)
        check('ASCII in the C locale, no colour', all(c < 128 for c in s.raw) and b'\x1b[3' not in s.raw and b'[==' in s.raw)
        s.close()
    with Pull(7, 0.7, arguments=('--progress', 'json'), stdout=subprocess.PIPE, rows=24, columns=80) as s:
        lines = [json.loads(line) for line in s.popen.stdout.read().splitlines()]
        check('JSON lines go to stdout', [x['type'] for x in lines[-2:]] == ['progress', 'result'] and lines[-2]['phase'] == 'complete', lines[-1:])
        s.wait()
        same('and nothing to the terminal', [PROMPT], s.lines())
        s.close()
    with Pull(7, 0.7, arguments=('--progress', 'none'), rows=24, columns=80) as s:
        s.wait(60)
        same('none', [PROMPT], s.lines())
        s.close()


# --- the command, against a daemon that reports as fast as it is told --------------------------------------------------

def protect(*arguments, rows=24, columns=80, env=ENV, **streams):
    return Screen([PROTECT, *arguments], rows=rows, columns=columns, env=env, **streams)


def command_sizes_test():
    daemon.pull_delay = 0.1
    for layers, rows, columns in ((1, 24, 20), (7, 24, 40), (7, 24, 80), (60, 24, 80), (60, 5, 200)):
        daemon.pull_layers = layers
        what = 'protect, %d layers, %dx%d' % (layers, rows, columns)
        s = protect('image', 'pull', 'registry.example/a/long/way/down/to/an/image:1.2.3', rows=rows, columns=columns)
        same(what + ': exit status', 0, s.wait())
        s.close()
        frames_fit(what, s, rows, columns, layers)
        same(what + ': what is left', PROMPT[:columns - 1].rstrip() + DIGEST, ''.join(s.lines()))
        if columns == 40:
            check(what + ': the end of a long name is kept', any(re.search(r'\.\.\.\S*image:1.2.3  ', f[1]) for f in s.frames if len(f) > 1), s.frames[len(s.frames) // 2])
    daemon.pull_layers = 3


def command_ends_test():
    s = protect('image', 'pull', 'broken')
    same('protect, an error in mid-pull', 1, s.wait())
    check('one sentence, and no bars', s.lines()[0] == PROMPT and s.lines()[1].startswith("protect: cannot pull 'broken': ") and len(s.lines()) <= 3, s.lines())
    check('after there were bars', any('[=' in line for f in s.frames for line in f))
    s.close()
    s = protect('image', 'pull', 'cached')
    same('what is there already', 0, s.wait())
    same('does not flicker', (DIGEST + '\r\n').encode(), s.raw)
    s.close()
    for command, left in ((('image', 'pull', 'x:1'), [PROMPT]), (('zone', 'launch', '-n', 'z9', '--kernel-variant', 'nvidia'), [PROMPT]),
                          (('workload', 'launch', '--zone', 'z', '-n', 'w9', '-t', '-a', 'x:1', 'sh'), [PROMPT])):
        s = protect(*command)
        check('%s: bars' % command[0], s.until(lambda lines: any('[=' in line for line in lines)), s.lines())
        s.type(b'\x03')
        same('%s, Ctrl+C' % command[0], 130, s.wait())
        same('leaves nothing on the screen', left, s.lines())
        s.close()
        check('the terminal is as it was', s.same_modes and not s.screen.cursor.hidden)
    s = protect('workload', 'launch', '--zone', 'z', '-n', 'w1', '-t', '-a', 'x:1', 'echo', 'hello')
    same('a workload that runs', 0, s.wait())
    same('has the terminal for itself when it does', [PROMPT, 'hello'], s.lines())
    s.close()


def command_plain_test():
    s = protect('image', 'pull', 'x:1', stdout=subprocess.PIPE)
    same('stdout redirected: it holds the digest', DIGEST + '\n', s.popen.stdout.read().decode())
    s.wait()
    check('bars on the terminal, gone at the end', b'[=' in s.raw and s.lines() == [PROMPT], s.lines())
    s.close()
    s = protect('image', 'pull', 'x:1', stderr=subprocess.PIPE)
    err = s.popen.stderr.read().decode()
    s.wait()
    check('stderr redirected: a line a phase there', 'x:1: downloading layers (3, 15.0 MiB)\n' in err and '\x1b' not in err, err)
    same('the digest on the terminal', [PROMPT, DIGEST], s.lines())
    s.close()
    for env, what in ((dict(ENV, TERM='dumb'), 'TERM=dumb'), ({k: v for k, v in ENV.items() if k != 'TERM'}, 'no TERM')):
        s = protect('image', 'pull', 'x:1', env=env)
        s.wait()
        check(what + ': lines', b'\x1b' not in s.raw and 'x:1: complete' in s.lines(), s.lines())
        s.close()
    s = protect('image', 'pull', 'x:1', env=dict(ENV, LC_ALL='C', NO_COLOR='1'))
    s.wait()
    check('ASCII in the C locale, no colour', all(c < 128 for c in s.raw) and b'\x1b[3' not in s.raw and b'[==' in s.raw, s.raw[:300])
    s.close()


def main():
    zone = subprocess.run([PROTECT, 'zone', 'launch', '-n', 'z', '--wait'], env=ENV, capture_output=True)
    same('a zone', 0, zone.returncode)
    tests = {name[:-5]: test for name, test in globals().items() if name.endswith('_test')}
    for name in sys.argv[1:] or tests:
        print('# ' + name, flush=True)
        tests[name]()
    print('%d failures' % failures, flush=True)
    import shutil
    shutil.rmtree(WORK, ignore_errors=True)
    os._exit(failures > 0)


main()
