# SPDX-License-Identifier: MIT
"""A cluster of `hasp dev` for measurements, and functions to query it."""

import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time


class Client:
    def __init__(self, port, timeout, tls=None):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket)
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


def status(port, tls=None):
    client = Client(port, 1, tls)
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
                sys.exit(f'gave up: {error}')
            time.sleep(0.002)


def leader_of(ports, tls=None):
    for port in ports:
        try:
            found = int(status(port, tls)[b'leader'])
            if found:
                return found
        except (OSError, KeyError):
            continue
    raise OSError('no leader')


def has_ended(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            state = file.read().rpartition(')')[2].split()[0]
    except FileNotFoundError:
        return
    if state not in 'ZX':
        raise OSError(f'process {pid} has not ended')


class SlowDisk:
    """The environment of nodes with such a disk. They are founded
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
            out.write(f'{line}\n')
        os.rename(f'{self.control}.new', self.control)

    def begin(self):
        if self.flush_ms > 0:
            self.tell(f'flush {self.flush_ms}')


def tls_as(folder, user):
    """Connects to the nodes of a secure cluster, as this user."""
    context = ssl.create_default_context(cafile=f'{folder}/certs/ca.crt')
    context.check_hostname = False
    context.load_cert_chain(f'{folder}/certs/user-{user}/client.crt',
                            f'{folder}/certs/user-{user}/client.key')
    return context


class DevCluster:
    """Nodes with the default settings on their own ports."""

    def __init__(self, build, count=3, flush_ms=0, is_secure=False):
        self.build = build
        self.temporary = tempfile.TemporaryDirectory()
        self.folder = self.temporary.name
        base = 21000 + os.getpid() % 9000
        self.ports = [base + 10 * i for i in range(count)]
        self.disk = SlowDisk(build, flush_ms, self.folder)
        self.again = {}
        self.is_secure = is_secure
        self.command = [f'{build}/hasp', 'dev', '--dir', self.folder, '--port',
                        str(base), '--nodes', str(count)]
        if is_secure:
            self.open_metrics()
        self.start()

    def start(self):
        self.dev = subprocess.Popen(
            self.command, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL, env=self.disk.environment)

    def open_metrics(self):
        """A secure cluster, created and stopped; its metrics are public."""
        self.command.append('--secure')
        self.start()
        self.dev.stdout.readline()
        self.dev.terminate()
        self.dev.wait()
        for i in range(len(self.ports)):
            with open(f'{self.folder}/n{i + 1}/haspd.conf', 'a') as out:
                out.write('\n[tls]\nmetrics = open\n')

    def __enter__(self):
        ready = self.dev.stdout.readline()
        if not ready.startswith('ready'):
            self.__exit__()
            sys.exit('the cluster did not start')
        self.tls = tls_as(self.folder, 'admin') if self.is_secure else None
        self.pids = [int(p) for p in ready.split('pids=')[1].split(',')]
        self.disk.begin()
        return self

    def __exit__(self, *_):
        for process in self.again.values():
            process.terminate()
        self.dev.terminate()
        for process in [*self.again.values(), self.dev]:
            process.wait()
        self.temporary.cleanup()

    def leader(self):
        """Its number, from 1."""
        return until(lambda: leader_of(self.ports, self.tls))

    def send(self, number, sent):
        os.kill(self.pids[number - 1], sent)

    def restart(self, number):
        """It was asked to stop."""
        if number in self.again:
            self.again[number].wait()
        until(lambda: has_ended(self.pids[number - 1]))
        self.again[number] = subprocess.Popen(
            [f'{self.build}/haspd', '--config',
             f'{self.folder}/n{number}/haspd.conf'],
            stderr=subprocess.DEVNULL, env=self.disk.environment)
        self.pids[number - 1] = self.again[number].pid
        until(lambda: status(self.ports[number - 1]))
