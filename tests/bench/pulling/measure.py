# SPDX-License-Identifier: Apache-2.0
"""Running a command and measuring it with everything it starts."""
import os, signal, subprocess, threading, time

TICKS = os.sysconf('SC_CLK_TCK')


def children(pid):
    """A process and all below it."""
    found, i = [pid], 0
    while i < len(found):
        try:
            for task in os.listdir(f'/proc/{found[i]}/task'):
                with open(f'/proc/{found[i]}/task/{task}/children') as f:
                    found += map(int, f.read().split())
        except OSError:
            pass
        i += 1
    return found


def memory(pids):
    """Bytes that processes hold; what several of them share is counted once (PSS)."""
    kilobytes = 0
    for pid in pids:
        try:
            with open(f'/proc/{pid}/smaps_rollup') as f:
                kilobytes += next(int(line.split()[1]) for line in f if line.startswith('Pss:'))
        except (OSError, StopIteration):
            pass
    return kilobytes * 1024


def cpu_of(pid):
    """Seconds a running process has used, with children that it has waited for."""
    with open(f'/proc/{pid}/stat') as f:
        return sum(map(int, f.read().rpartition(')')[2].split()[11:15])) / TICKS


def busy():
    """Seconds all cores together were not idle."""
    with open('/proc/stat') as f:
        user, nice, system, _, _, irq, softirq, steal = map(int, f.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


class Watch(threading.Thread):
    """Samples the memory of processes a hundred times a second. This takes time from what it looks at: time and memory are measured apart."""
    def __init__(self, pids):
        super().__init__(daemon=True)
        self.pids, self.peak, self.over = pids, 0, threading.Event()

    def run(self):
        while not self.over.wait(0.01):
            self.peak = max(self.peak, memory(p for root in self.pids for p in children(root)))


class Failed(Exception):
    pass


def run(command, daemons=(), sample=False, registry=None):
    """Runs a shell command: a dictionary with wall and cpu seconds, the cores that others on the machine had, and the peak memory if that is sampled."""
    aside = [registry] if registry else []
    cpu, beside, all_busy, start = sum(map(cpu_of, daemons)), sum(map(cpu_of, aside)), busy(), time.monotonic()
    p = subprocess.Popen(['sh', '-c', command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0)
    watch = Watch([p.pid, *daemons]) if sample else None
    try:
        if watch:
            watch.start()
        said = p.stdout.read().decode('utf-8', 'replace')
        _, status, usage = os.wait4(p.pid, 0)
        wall = time.monotonic() - start
        p.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if p.returncode is None:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()
        if watch:
            watch.over.set()
            watch.join()
    if p.returncode:
        raise Failed(f'exit status {p.returncode}: {said[-400:].strip()}')
    cpu = usage.ru_utime + usage.ru_stime + sum(map(cpu_of, daemons)) - cpu
    others = max(0, busy() - all_busy - cpu - (sum(map(cpu_of, aside)) - beside)) / wall
    return dict(wall=wall, cpu=cpu, others=others, said=said, memory=watch.peak if watch else 0)
