#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""A holder that is paused past its lease, many times, on hasp, Redis and etcd.

One round: a process acquires the lock, checks that it has it, and is stopped
(SIGSTOP), as a long garbage collection or the migration of a virtual machine
would stop it. Its lease runs out; a second client gets the lock and writes. Then
the first process continues, and writes. A *late write* is one that replaced the
second client's. The resource is a row of SQLite; with the gate, the row refuses a
token below its own (docs/recipes/gate_sqlite.sql has it as a trigger).

    tools/paused_holders.py BUILD [--rounds 1000] [--lanes 20] [--only hasp]
    tools/paused_holders.py BUILD --install    redis-server and etcd, by apt

`make paused-holders` does both. The table is in
docs/when-a-lock-is-not-enough.md.
"""

import argparse
import base64
import concurrent.futures
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid

import redis

from bench_peers import Servers, install_only, wait_for

# The Redis of Debian has no token for a lock: the best that its users do.
COUNTED = """
if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
    return redis.call('incr', KEYS[2])
end
return 0
"""
LIMIT_S = 60
PACKAGES = ['redis-server', 'etcd-server']


class Hasp:
    """A session of 0.5 s, as its clients make them, and its lock."""
    lease = '0.5 s'
    token = 'one a grant'

    def __init__(self, endpoint):
        host, port = endpoint.split(':')
        self.server = redis.Redis(host, int(port))
        self.session = None

    def open(self):
        opened = self.server.execute_command('SESSION.OPEN', 'TTL', 500)
        self.session = dict(zip(opened[::2], opened[1::2]))[b'id']

    def acquire(self, name):
        """The token; 0: another holds it."""
        if self.session is None:
            self.open()
        else:
            self.server.execute_command('SESSION.KEEP')
        return self.server.execute_command('LOCK.ACQUIRE', name) or 0

    def release(self, _name):
        self.server.execute_command('SESSION.CLOSE')
        self.session = None

    def forget(self):
        self.session = None
        self.server.close()


class Redis:
    """SET NX PX of 0.5 s."""
    lease = '0.5 s'
    token = 'none'

    def __init__(self, endpoint):
        host, port = endpoint.split(':')
        self.server = redis.Redis(host, int(port))
        self.value = uuid.uuid4().hex

    def acquire(self, name):
        self.value = uuid.uuid4().hex
        return 1 if self.server.set(name, self.value, nx=True, px=500) else 0

    def release(self, name):
        self.server.eval("if redis.call('get', KEYS[1]) == ARGV[1] then "
                         "return redis.call('del', KEYS[1]) end return 0",
                         1, name, self.value)

    def forget(self):
        self.server.close()


class CountedRedis(Redis):
    """The same, with a counter as the token."""
    token = 'a counter beside it'

    def acquire(self, name):
        self.value = uuid.uuid4().hex
        return self.server.eval(COUNTED, 2, name, name + ':token', self.value, 500)


class Etcd:
    """A lease of 1 s, which etcd makes 2 s, and a key that is made with it."""
    lease = '2 s, the least'
    token = 'revision of the key'

    def __init__(self, endpoint):
        self.url = 'http://%s/v3/' % endpoint
        self.lease_id = None

    def call(self, path, **body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=LIMIT_S) as answer:
            return json.load(answer)

    def acquire(self, name):
        if self.lease_id is None:
            self.lease_id = self.call('lease/grant', TTL=1)['ID']
        key = base64.b64encode(name.encode()).decode()
        answer = self.call(
            'kv/txn',
            compare=[{'key': key, 'target': 'CREATE', 'create_revision': '0'}],
            success=[{'request_put': {'key': key, 'value': key,
                                      'lease': self.lease_id}}])
        if not answer.get('succeeded'):
            self.call('lease/keepalive', ID=self.lease_id)
            return 0
        return int(answer['header']['revision'])

    def release(self, _name):
        self.call('lease/revoke', ID=self.lease_id)
        self.lease_id = None

    def forget(self):
        self.lease_id = None


SYSTEMS = {'hasp': Hasp, 'Redis': Redis, 'Redis and a counter': CountedRedis,
           'etcd': Etcd}


# --- The resource -------------------------------------------------------------

def make(path):
    database = sqlite3.connect(path)
    database.execute('CREATE TABLE data (value TEXT, token INTEGER)')
    database.execute("INSERT INTO data VALUES ('', 0)")
    database.commit()
    database.close()


def write(path, value, token, has_gate):
    """True if it was written."""
    database = sqlite3.connect(path, timeout=LIMIT_S)
    query = 'UPDATE data SET value = ?, token = ?'
    words = [value, token]
    if has_gate:
        query += ' WHERE token <= ?'
        words.append(token)
    count = database.execute(query, words).rowcount
    database.commit()
    database.close()
    return count == 1


def read(path):
    database = sqlite3.connect(path, timeout=LIMIT_S)
    (value,), = database.execute('SELECT value FROM data')
    database.close()
    return value


# --- A round ------------------------------------------------------------------

def hold(client, name, path, has_gate, value):
    """The first client: a process of its own, which stops itself."""
    token = until(client, name)
    os.kill(os.getpid(), signal.SIGSTOP)
    write(path, value, token, has_gate)
    os._exit(0)


def until(client, name):
    by = time.monotonic() + LIMIT_S
    while True:
        token = client.acquire(name)
        if token:
            return token
        if time.monotonic() > by:
            raise TimeoutError('%s was not granted in %d s' % (name, LIMIT_S))
        time.sleep(0.02)


def play(system, endpoint, name, path, has_gate):
    """True if the write of the paused holder replaced its successor's."""
    first, second = uuid.uuid4().hex, uuid.uuid4().hex
    pid = os.fork()
    if pid == 0:
        try:
            hold(SYSTEMS[system](endpoint), name, path, has_gate, first)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        raise RuntimeError('the holder ended before its pause')
    try:
        successor = SYSTEMS[system](endpoint)
        token = until(successor, name)
        if not write(path, second, token, has_gate):
            raise RuntimeError('the successor was refused')
    finally:
        os.kill(pid, signal.SIGCONT)
        _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError('the holder failed after its pause')
    found = read(path)
    if found not in (first, second):
        raise RuntimeError('a value that nobody wrote')
    # On a busy machine its lease may be over, too; nobody else wants the lock.
    with contextlib.suppress(redis.ResponseError, urllib.error.HTTPError):
        successor.release(name)
    successor.forget()
    return found == first


def lane(arguments):
    """Some rounds, one after the other, on a lock and a row of their own."""
    system, endpoint, folder, number, rounds, has_gate = arguments
    path = '%s/%d-%d' % (folder, number, has_gate)
    name = 'lane-%d-%d' % (number, has_gate)
    make(path)
    return sum(play(system, endpoint, name, path, has_gate)
               for _ in range(rounds))


def measure(system, endpoint, options, has_gate):
    """The number of late writes."""
    each = options.rounds // options.lanes
    with tempfile.TemporaryDirectory() as folder, \
            concurrent.futures.ProcessPoolExecutor(options.lanes) as pool:
        return sum(pool.map(lane, [
            (system, endpoint, folder, i, each, has_gate)
            for i in range(options.lanes)]))


def row(system, endpoint, options):
    kind = SYSTEMS[system]
    rounds = options.rounds // options.lanes * options.lanes
    without = measure(system, endpoint, options, False)
    # Without a token there is nothing to compare.
    gated = ('no token' if kind is Redis else
             '**%d**' % measure(system, endpoint, options, True))
    print('| %s | %s | %s | %d of %d | %s |' % (
        system, kind.lease, kind.token, without, rounds, gated), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=1000)
    parser.add_argument('--lanes', type=int, default=20)
    parser.add_argument('--only', choices=SYSTEMS)
    parser.add_argument('--install', action='store_true')
    options = parser.parse_args()
    if options.install:
        listed = subprocess.run(['dpkg-query', '-W', '-f', '${Package} ', *PACKAGES],
                                capture_output=True, text=True, check=False)
        if listed.returncode != 0:
            install_only(PACKAGES)
        return
    with tempfile.TemporaryDirectory() as folder:
        peers = Servers(options.build, folder)
        try:
            one = peers.redis(1)[0]
            endpoints = {'hasp': peers.hasp('plain', False)[0], 'Redis': one,
                         'Redis and a counter': one, 'etcd': peers.etcd()[0]}
            print('| system | lease | token | late writes | with the gate |\n'
                  '|---|---|---|---|---|')
            for system, endpoint in endpoints.items():
                if options.only in (None, system):
                    wait_for(system.split()[0], endpoint)
                    row(system, endpoint, options)
        finally:
            peers.end()


if __name__ == '__main__':
    sys.exit(main())
