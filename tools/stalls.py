#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Finds work that delays a node's loop, on which everything else waits.

Runs one heavy piece of work after the other on three nodes of `hasp dev`: a million
locks are taken, listed, read at rest, put into snapshots, copied and sent; a
thousand connections open at once, plain and by TLS; a user who has thousands is
disabled; sessions with many holds end.
After each it prints the nodes' hasp_stage_seconds: the stages in
which a pass of the loop spent more than 20 ms, and in which most.

    tools/stalls.py BUILD [--locks 1000000] [--only NAME,...]
"""

import argparse
import os
import re
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request

from dev_cluster import Client, DevCluster, has_ended, status, until

LIMIT = 0.02
CONNECTIONS = 1000
CONNECTIONS_OF_USER = 8000
ADDRESSES = 4  # Source addresses: there is a limit for each.
SESSIONS = 16
PIPELINE = 500
TTL = '60000'
KEEP = 5
BUCKET = re.compile(r'^hasp_stage_seconds_bucket\{stage="(\w+)",le="([^"]+)"\} '
                    r'(\d+)$', re.M)


def die(text):
    sys.exit(f'stalls: {text}')


# --- Metrics of the nodes -----------------------------------------------------

def buckets_of(port, tls):
    """{stage: [(bound, how many passes took at most that)]}"""
    scheme = 'http' if tls is None else 'https'
    with urllib.request.urlopen(f'{scheme}://127.0.0.1:{port + 2}/metrics',
                                timeout=30, context=tls) as reply:
        text = reply.read().decode()
    found = {}
    for stage, bound, count in BUCKET.findall(text):
        found.setdefault(stage, []).append((float(bound), int(count)))
    if not found:
        die('the node does not report its stages')
    return found


def since(before, after):
    """Passes between two readings: {stage: (over 20 ms, longest)},
    the longest as the bound that it did not pass."""
    found = {}
    for stage, rows in after.items():
        old = dict(before.get(stage, []))
        counts = [(bound, count - old.get(bound, 0)) for bound, count in rows]
        more = [count for _, count in counts]
        if more[0] < 0 or more != sorted(more):  # The node was restarted.
            counts = rows
        total = counts[-1][1]
        within = dict(counts)[LIMIT]
        longest = next(bound for bound, count in counts if count == total)
        if total > 0:
            found[stage] = (total - within, longest)
    return found or {'none': (0, 0)}


class Watch:
    def __init__(self, cluster):
        self.cluster = cluster
        self.stalls = 0
        self.longest = (0, 'none')
        self.before = {}

    def begin(self):
        self.before = {port: buckets_of(port, self.cluster.tls)
                       for port in self.cluster.ports}

    def end(self, name, seconds):
        leader = self.cluster.leader()
        for i, port in enumerate(self.cluster.ports):
            found = since(self.before[port],
                          buckets_of(port, self.cluster.tls))
            longest = max(found, key=lambda stage: found[stage][1])
            over = ', '.join(f'{stage} {count}' for stage, (count, _) in
                             found.items() if count > 0)
            self.stalls += sum(count for count, _ in found.values())
            self.longest = max(self.longest, (found[longest][1], longest))
            role = 'leader' if i + 1 == leader else 'node  '
            print(f'{name:12} {seconds:5.1f} s  {role} {i + 1}  longest: '
                  f'{longest}, within {1000 * found[longest][1]:g} ms; over '
                  f'{1000 * LIMIT:g} ms: {over or "none"}', flush=True)


# --- Clients ------------------------------------------------------------------

def request(*words):
    return b'*%d\r\n' % len(words) + b''.join(
        b'$%d\r\n%s\r\n' % (len(w), w) for w in words)


class Pipe:
    """A connection with many pipelined requests."""

    def __init__(self, port):
        self.client = Client(port, 60)
        self.kept = time.monotonic()
        self.session = int(dict(zip(*[iter(self.client.ask(
            'SESSION.OPEN', 'TTL', TTL))] * 2))[b'id'])

    def send(self, command, names):
        session = b'%d' % self.session
        self.client.socket.sendall(b''.join(
            request(command, name, b'SESSION', session) for name in names))

    def receive(self, count):
        for _ in range(count):
            self.client.value()

    def ask(self, *words):
        return self.client.ask(*words)

    def keep(self):
        if time.monotonic() > self.kept + KEEP:
            self.kept = time.monotonic()
            self.ask('SESSION.KEEP')


def keep(pipes):
    for pipe in pipes:
        pipe.keep()


def rest(pipes, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        keep(pipes)
        time.sleep(0.1)


def fill(pipes, first, count):
    share = count // len(pipes)
    for start in range(0, share, PIPELINE):
        size = min(PIPELINE, share - start)
        for i, pipe in enumerate(pipes):
            at = first + i * share + start
            pipe.send(b'LOCK.ACQUIRE', [b'stall/%08d' % n
                                        for n in range(at, at + size)])
        for pipe in pipes:
            pipe.receive(size)
        keep(pipes)


def pages(pipes, *words):
    cursor, count = '0', 0
    while True:
        keep(pipes)
        cursor, page = pipes[0].ask(*words, 'CURSOR', cursor, 'COUNT', '1000')
        cursor = cursor.decode()
        count += len(page)
        if cursor == '0':
            return count


# --- Connections that open at once --------------------------------------------

def open_all(port):
    """Connects all, then sends on all, then waits for all answers."""
    sockets = []
    for _ in range(CONNECTIONS):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(('127.0.0.1', port))
        sockets.append(one)
    return sockets


def wait_for_all(sockets, on_bytes):
    """Until on_bytes(socket) has been true of each."""
    poll = select.poll()
    waiting = {one.fileno(): one for one in sockets}
    for number in waiting:
        poll.register(number, select.POLLIN)
    end = time.monotonic() + 60
    while waiting:
        if time.monotonic() > end:
            die(f'{len(waiting)} connections are not answered')
        for number, _ in poll.poll(1000):
            if on_bytes(waiting[number]):
                poll.unregister(number)
                del waiting[number]


def storm(port):
    sockets = open_all(port)
    ping = request(b'SESSION.OPEN', b'TTL', b'5000')
    for one in sockets:
        one.setblocking(True)
        one.sendall(ping)
    wait_for_all(sockets, lambda one: len(one.recv(65536)) > 0)
    for one in sockets:
        one.close()


def log_in_all(port, user, secret):
    sockets = []
    for i in range(CONNECTIONS_OF_USER):
        one = socket.create_connection(
            ('127.0.0.1', port), 60,
            source_address=(f'127.0.0.{1 + i % ADDRESSES}', 0))
        one.sendall(request(b'AUTH', user, secret))
        sockets.append(one)
    for one in sockets:
        if one.recv(100) != b'+OK\r\n':
            die('a secret is not taken')
    return sockets


class Handshake:
    def __init__(self, context):
        self.incoming = ssl.MemoryBIO()
        self.outgoing = ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing)
        self.is_up = False
        self.is_given_up = False
        self.go_on()

    def go_on(self):
        try:
            self.tls.do_handshake()
            self.is_up = True
        except ssl.SSLWantReadError:
            pass

    def take(self, one):
        try:
            found = one.recv(65536)
        except ConnectionResetError:
            found = b''
        if not found:
            self.is_given_up = True
            return True
        self.incoming.write(found)
        if not self.is_up:
            self.go_on()
            if self.is_up:
                self.tls.write(request(b'PING'))
            if self.outgoing.pending:
                one.sendall(self.outgoing.read())
        if not self.is_up:
            return False
        try:
            return self.tls.read(100) == b'+PONG\r\n'
        except ssl.SSLWantReadError:
            return False


def storm_of_tls(port, tls):
    shakes = [Handshake(tls) for _ in range(CONNECTIONS)]
    shake_of = dict(zip(open_all(port), shakes))
    for one, shake in shake_of.items():
        one.setblocking(True)
        one.sendall(shake.outgoing.read())
    wait_for_all(list(shake_of), lambda one: shake_of[one].take(one))
    for one in shake_of:
        one.close()
    late = sum(shake.is_given_up for shake in shakes)
    if late > CONNECTIONS // 2:
        die(f'the node gave up {late} handshakes: this machine is too slow')
    if late > 0:
        print(f'stalls: the node gave up {late} handshakes of {CONNECTIONS}',
              file=sys.stderr)


# --- The work -----------------------------------------------------------------

class Work:
    def __init__(self, build, cluster, locks):
        self.build = build
        self.cluster = cluster
        self.locks = locks
        self.pipes = []

    def port(self):
        return self.cluster.ports[self.cluster.leader() - 1]

    def hasp(self, *words):
        """Runs the tool as admin; returns its output."""
        door = f'{self.cluster.folder}/n{self.cluster.leader()}/data'
        return subprocess.run([f'{self.build}/hasp', '--socket', door, '-t',
                               '60s', *words],
                              check=True, stdout=subprocess.PIPE).stdout

    def connections(self):
        storm(self.port())

    def users(self):
        """Closes all connections of a user."""
        self.hasp('user', 'add', 'many')
        self.hasp('user', 'set', 'many', '--connections',
                  str(CONNECTIONS_OF_USER))
        secret = self.hasp('secret', 'add', 'many').strip()
        sockets = log_in_all(self.port(), b'many', secret)
        self.hasp('user', 'disable', 'many')
        wait_for_all(sockets, lambda one: one.recv(65536) == b'')
        for one in sockets:
            one.close()

    def fill(self):
        self.pipes = [Pipe(self.port()) for _ in range(SESSIONS)]
        fill(self.pipes, 0, self.locks)

    def list(self):
        count = pages(self.pipes, 'LOCK.LIST')
        if count < self.locks * 9 // 10:
            die(f'only {count} locks are listed')
        pages(self.pipes, 'SESSION.LIST')

    def rest(self):
        """The scrub reads what is at rest."""
        rest(self.pipes, 8)

    def snapshot(self):
        self.pipes[0].ask('RAFT.SNAPSHOT')
        rest(self.pipes, 4)

    def backup(self):
        with tempfile.TemporaryDirectory() as folder:
            self.hasp('snapshot', 'save', f'{folder}/backup')

    def install(self):
        """A follower that returns after the log was truncated."""
        number = self.cluster.leader() % len(self.cluster.ports) + 1
        self.cluster.send(number, 15)
        until(lambda: has_ended(self.cluster.pids[number - 1]))
        for _ in range(3):
            self.churn()
            self.pipes[0].ask('RAFT.SNAPSHOT')
            rest(self.pipes, 3)
        self.cluster.restart(number)
        keep(self.pipes)
        index = int(status(self.port())[b'applied'])
        until(lambda: self.has_applied(number, index), 60)

    def churn(self):
        """Releases and reacquires one lock in a hundred."""
        count = self.locks // len(self.pipes) // 100
        for i, pipe in enumerate(self.pipes):
            at = i * (self.locks // len(self.pipes))
            names = [b'stall/%08d' % n for n in range(at, at + count)]
            for command in (b'LOCK.RELEASE', b'LOCK.ACQUIRE'):
                pipe.send(command, names)
                pipe.receive(count)

    def has_applied(self, number, index):
        if int(status(self.cluster.ports[number - 1])[b'applied']) < index:
            raise OSError('not yet')

    def end(self):
        """TTL of the sessions that hold the locks."""
        for pipe in self.pipes:
            pipe.ask('SESSION.CLOSE', 'SESSION', str(pipe.session))
        self.pipes = []


ALL = ['connections', 'users', 'fill', 'list', 'rest', 'snapshot', 'backup',
       'install', 'end', 'tls']


def plain(build, locks, names):
    with DevCluster(build) as cluster:
        work = Work(build, cluster, locks)
        watch = Watch(cluster)
        for name in names:
            watch.begin()
            began = time.monotonic()
            getattr(work, name)()
            keep(work.pipes)
            watch.end(name, time.monotonic() - began)
        return watch


def by_tls(build):
    with DevCluster(build, is_secure=True) as cluster:
        watch = Watch(cluster)
        watch.begin()
        began = time.monotonic()
        storm_of_tls(cluster.ports[cluster.leader() - 1], cluster.tls)
        watch.end('tls', time.monotonic() - began)
        return watch


def look(build, locks, names=tuple(ALL)):
    """The longest stay in a stage, in ms; how many passes were too long in one;
    in which the longest was."""
    works = [name for name in ALL if name in names and name != 'tls']
    watches = [by_tls(build)] if 'tls' in names else []
    watches += [plain(build, locks, works)] if works else []
    seconds, stage = max(watch.longest for watch in watches)
    return 1000 * seconds, sum(watch.stalls for watch in watches), stage


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=os.path.abspath)
    parser.add_argument('--locks', type=int, default=1000000)
    parser.add_argument('--only')
    options = parser.parse_args()
    names = options.only.split(',') if options.only else ALL
    longest, stalls, stage = look(options.build, options.locks, names)
    print(f'longest: {stage}, within {longest:g} ms; stages over '
          f'{1000 * LIMIT:g} ms: {stalls}')


if __name__ == '__main__':
    main()
