#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures failover: kills the leader with -9 and times until another serves.

A three-node cluster of `hasp dev` with its default settings; a client at a
follower asks for a new lock again and again. What is told is the time from the
kill to the first acquisition that the cluster answers, for each kill, and the
median and the maximum. The killed node is started again before the next. With
--flush each flush of the nodes' disks takes so many milliseconds (by a library
that is preloaded, tests/cluster/slow_disk.c).

    tools/failover.py BUILD [KILLS] [--flush MS]
"""

import argparse

import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time


class Client:
    def __init__(self, port, timeout):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout)
        self.file = self.socket.makefile('rb')

    def ask(self, *words):
        self.socket.sendall(b'*%d\r\n' % len(words) + b''.join(
            b'$%d\r\n%s\r\n' % (len(w), w.encode()) for w in words))
        return self.value()

    def value(self):
        line = self.file.readline()
        if not line.endswith(b'\r\n'):
            raise OSError('closed')
        kind, rest = line[:1], line[1:-2]
        if kind == b'$':
            size = int(rest)
            return None if size < 0 else self.file.read(size + 2)[:-2]
        if kind == b'*':
            return [self.value() for _ in range(int(rest))]
        if kind == b'-':
            raise OSError(rest.decode())
        return rest

    def close(self):
        self.socket.close()


def status(port):
    client = Client(port, 1)
    try:
        flat = client.ask('RAFT.STATUS')
        return dict(zip(flat[::2], flat[1::2]))
    finally:
        client.close()


def acquire(port, name):
    client = Client(port, 3)
    try:
        client.ask('SESSION.OPEN', 'TTL', '1000')
        return int(client.ask('LOCK.ACQUIRE', name))
    finally:
        client.close()


def until(action, seconds=20):
    end = time.monotonic() + seconds
    while True:
        try:
            return action()
        except (OSError, KeyError, ValueError) as error:
            if time.monotonic() > end:
                sys.exit(f'failover: gave up: {error}')
            time.sleep(0.002)


def leader_of(ports):
    for port in ports:
        try:
            found = int(status(port)[b'leader'])
            if found:
                return found
        except (OSError, KeyError):
            continue
    raise OSError('no leader')


class SlowDisk:
    """What nodes with such a disk have in their environment. They are founded
    while it is fast."""

    def __init__(self, build, flush_ms, folder):
        self.environment = dict(os.environ)
        self.flush_ms = flush_ms
        self.control = f'{folder}/slow_disk'
        if flush_ms > 0:
            self.tell('')
            self.environment['LD_PRELOAD'] = f'{build}/slow_disk.so'
            self.environment['SLOW_DISK'] = self.control

    def tell(self, line):
        with open(f'{self.control}.new', 'w') as out:
            out.write(f'io_setup 0\n{line}\n')
        os.rename(f'{self.control}.new', self.control)

    def begin(self):
        if self.flush_ms > 0:
            self.tell(f'flush {self.flush_ms}')


def run(build, kills, flush_ms, folder):
    base = 21000 + os.getpid() % 9000
    disk = SlowDisk(build, flush_ms, folder)
    dev = subprocess.Popen([f'{build}/hasp', 'dev', '--dir', folder, '--port',
                            str(base)], stdout=subprocess.PIPE, text=True,
                           stderr=subprocess.DEVNULL, env=disk.environment)
    again = {}
    try:
        ready = dev.stdout.readline()
        if not ready.startswith('ready'):
            sys.exit('failover: the cluster did not start')
        pids = [int(p) for p in ready.split('pids=')[1].split(',')]
        ports = [base + 10 * i for i in range(3)]
        times = []
        disk.begin()
        for kill in range(kills):
            leader = until(lambda: leader_of(ports))
            other = [p for i, p in enumerate(ports) if i + 1 != leader][0]
            until(lambda: acquire(other, f'before/{kill}'))
            term = int(status(other)[b'term'])
            began = time.monotonic()
            os.kill(pids[leader - 1], signal.SIGKILL)
            until(lambda: acquire(other, f'after/{kill}'))
            times.append(time.monotonic() - began)
            terms = int(status(other)[b'term']) - term
            print(f'kill {kill + 1}: {1000 * times[-1]:.0f} ms, terms: '
                  f'{terms}', flush=True)
            if leader in again:
                again[leader].wait()
            again[leader] = subprocess.Popen(
                [f'{build}/haspd', '--config',
                 f'{folder}/n{leader}/haspd.conf'],
                stderr=subprocess.DEVNULL, env=disk.environment)
            pids[leader - 1] = again[leader].pid
            until(lambda: status(ports[leader - 1]))
            time.sleep(0.5)
        print(f'{kills} kills: median {1000 * statistics.median(times):.0f} '
              f'ms, max {1000 * max(times):.0f} ms')
    finally:
        for process in again.values():
            process.terminate()
        dev.terminate()
        for process in [*again.values(), dev]:
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=os.path.abspath)
    parser.add_argument('kills', type=int, nargs='?', default=20)
    parser.add_argument('--flush', type=int, default=0, metavar='MS')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(options.build, options.kills, options.flush, folder)


main()
