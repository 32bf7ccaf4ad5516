# SPDX-License-Identifier: Apache-2.0
"""What a person sees: a program on a terminal of its own, its output drawn on a screen by pyte."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

import pyte

PROMPT = '$ command'


class Screen:
    """A program whose stdin, stdout and stderr are a terminal, unless one is given something else. frames: what stood there after each piece
    of output, as a list of lines without blanks at their ends."""

    def __init__(self, argv, rows=24, columns=80, env=None, **streams):
        self.master, self.slave = pty.openpty()
        self.screen = pyte.HistoryScreen(columns, rows, history=10000)
        self.stream = pyte.ByteStream(self.screen)
        self.raw, self.frames = b'', []
        self.tell_size(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.feed((PROMPT[:columns - 1] + '\r\n').encode())
        given = {name: streams.get(name, self.slave) for name in ('stdin', 'stdout', 'stderr')}
        self.popen = subprocess.Popen(argv, env=env, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0), **given)

    def tell_size(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.tell_size(rows, columns)

    def feed(self, data):
        self.stream.feed(data)
        self.frames.append(self.lines())

    def lines(self):
        """The screen down to its last line that holds something."""
        lines = [line.rstrip() for line in self.screen.display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def scrolled(self):
        """What went out of the screen at its top."""
        return [''.join(line[x].data for x in range(self.screen.columns)).rstrip() for line in self.screen.history.top]

    def read(self, seconds=0.05):
        if not select.select([self.master], [], [], seconds)[0]:
            return False
        data = os.read(self.master, 65536)
        self.raw += data
        self.feed(data)
        return True

    def until(self, condition, seconds=30):
        end = time.monotonic() + seconds
        while not condition(self.lines()):
            if time.monotonic() > end or (not self.read() and self.popen.poll() is not None):
                return condition(self.lines())
        return True

    def type(self, data):
        os.write(self.master, data)

    def wait(self, seconds=30):
        """Its exit status; None if it does not end."""
        end = time.monotonic() + seconds
        while self.popen.poll() is None and time.monotonic() < end:
            self.read()
        while self.read(0.1):
            pass
        return self.popen.poll()

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
            self.popen.wait()
        self.same_modes = self.before == termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
