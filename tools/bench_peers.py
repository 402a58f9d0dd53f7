#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the same work on hasp and on other systems, on this machine.

Starts three nodes of hasp, three with TLS, a Redis that flushes each write,
five of them for Redlock, three nodes of etcd and of ZooKeeper, and a server
that only parses and answers, all on loopback with their data in one folder.
Then each of them in turn does each piece of work for some seconds, all that
several times, so that other load on the machine affects all alike.

    tools/bench_peers.py BUILD [--rounds 3] [--seconds 2] [--write]
    tools/bench_peers.py BUILD --install     installs what is missing, by apt,
                                             and compiles the rest

With --write it rewrites the tables and the picture of docs/benchmarks.md.
`make bench-peers` does both in eight minutes.
"""

import argparse
import json
import math
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PACKAGES = ['etcd-server', 'redis-server', 'zookeeper', 'libzookeeper-st-dev',
            'golang-go', 'golang-etcd-server-dev']
UNITS = {'etcd-server': 'etcd', 'redis-server': 'redis-server'}
PEERS = 'tests/bench/peers'
PAGE = 'docs/benchmarks.md'
PICTURE = 'docs/benchmarks.svg'
WORK = [('cycle', 1), ('cycle', 64), ('cycle', 1000), ('handover', 16),
        ('handover', 100)]
SYSTEMS = ['hasp', 'hasp, TLS', 'Redis', 'Redlock', 'etcd', 'ZooKeeper',
           'null server']
FIGURES = re.compile(r'(\d+) cycles/s\s+(?:acquire )?p50\s+(\d+) us '
                     r'p99\s+(\d+) us')
COLOURS = ['#1b6ca8', '#7fb2d9', '#c0392b', '#e59866', '#6c3483', '#1e8449',
           '#999999']


def die(text):
    sys.exit(f'bench_peers: {text}')


# --- Dependencies -------------------------------------------------------------

def missing(packages):
    listed = subprocess.run(
        ['dpkg-query', '-W', '-f', '${Package} ${db:Status-Status}\n',
         *packages], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, check=False).stdout
    there = {line.split()[0] for line in listed.splitlines()
             if line.endswith(' installed')}
    return [package for package in packages if package not in there]


def install_packages(packages):
    """Stops the services that these packages start: ours run elsewhere."""
    todo = missing(packages)
    if todo:
        install_only(todo)


def install_only(todo):
    sudo = [] if os.geteuid() == 0 else ['sudo']
    subprocess.run([*sudo, 'env', 'DEBIAN_FRONTEND=noninteractive', 'apt-get',
                    'install', '-y', '--no-install-recommends', *todo],
                   check=True)
    for package in set(todo) & set(UNITS):
        subprocess.run([*sudo, 'systemctl', 'disable', '--now',
                        UNITS[package]], stderr=subprocess.DEVNULL,
                       check=False)


def is_older(made, *sources):
    return not os.path.exists(made) or any(
        os.path.getmtime(s) > os.path.getmtime(made) for s in sources)


def compile_one(folder, name, *libraries):
    source = f'{PEERS}/{name}.c'
    if is_older(f'{folder}/{name}', source, f'{PEERS}/measure.h'):
        subprocess.run(['cc', '-std=c11', '-D_GNU_SOURCE', '-O2', '-Wall',
                        '-iquote', '.', '-o', f'{folder}/{name}', source,
                        *libraries], check=True)


def compile_all(folder):
    """Builds the generators that need libraries only for this measurement."""
    compile_one(folder, 'redis_bench')
    compile_one(folder, 'zookeeper_bench', '-lzookeeper_st')
    source = f'{PEERS}/etcd_bench.go'
    if is_older(f'{folder}/etcd_bench', source):
        environment = dict(os.environ, GO111MODULE='off', GOFLAGS='',
                           GOPATH='/usr/share/gocode')
        subprocess.run(['go', 'build', '-o', f'{folder}/etcd_bench', source],
                       env=environment, check=True)


# --- The servers --------------------------------------------------------------

class Servers:
    """All processes, in one folder; they are stopped by pid."""

    def __init__(self, build, folder):
        self.build = build
        self.folder = folder
        self.port = 20000 + os.getpid() % 5000
        self.started = []
        self.of = {}
        self.certificates = f'{folder}/certs'

    def ports(self, count):
        self.port += count
        return list(range(self.port - count, self.port))

    def start(self, name, *command, environment=None):
        with open(f'{self.folder}/{name}.log', 'w') as log:
            self.started.append(subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=environment))

    def make(self, name):
        path = f'{self.folder}/{name}'
        os.makedirs(path)
        return path

    def end(self):
        for process in self.started:
            process.terminate()
        for process in self.started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def hasp(self, name, has_tls):
        ports = self.ports(6)
        members = ''.join(
            f'member = {i + 1} 127.0.0.1:{ports[2 * i]} '
            f'127.0.0.1:{ports[2 * i + 1]}\n' for i in range(3))
        more = ['--tls'] if has_tls else []
        if has_tls:
            tool = [f'{self.build}/hasp', 'cert']
            there = ['--dir', self.certificates]
            quiet = {'check': True, 'stdout': subprocess.DEVNULL}
            subprocess.run([*tool, 'ca', '-q', '--cluster', name, *there],
                           **quiet)
            for i in range(3):
                subprocess.run([*tool, 'node', '-q', f'{i + 1}=127.0.0.1',
                                *there], **quiet)
        for i in range(3):
            folder = f'{self.folder}/{name}{i}'
            with open(f'{folder}.conf', 'w') as out:
                out.write(f'[cluster]\nname = {name}\n{members}')
            tls = [*more, f'{self.certificates}/node-{i + 1}'] if more else []
            self.start(f'{name}{i}', f'{self.build}/haspd', '--config',
                       f'{folder}.conf', '--id', str(i + 1), '--dir', folder,
                       '--listen-http', 'off', *tls)
        return [f'127.0.0.1:{ports[2 * i + 1]}' for i in range(3)]

    def redis(self, count):
        ports = self.ports(count)
        for port in ports:
            self.start(f'redis{port}', 'redis-server', '--port', str(port),
                       '--bind', '127.0.0.1', '--dir',
                       self.make(f'redis{port}'), '--appendonly', 'yes',
                       '--appendfsync', 'always', '--save', '')
        return [f'127.0.0.1:{port}' for port in ports]

    def etcd(self):
        ports = self.ports(6)
        url = 'http://127.0.0.1:%d'
        cluster = ','.join(f'n{i}={url % ports[2 * i]}' for i in range(3))
        for i in range(3):
            peer, client = url % ports[2 * i], url % ports[2 * i + 1]
            self.start(f'etcd{i}', 'etcd', '--name', f'n{i}', '--data-dir',
                       f'{self.folder}/etcd{i}', '--listen-peer-urls', peer,
                       '--initial-advertise-peer-urls', peer,
                       '--listen-client-urls', client,
                       '--advertise-client-urls', client,
                       '--initial-cluster', cluster)
        return [f'127.0.0.1:{ports[2 * i + 1]}' for i in range(3)]

    def zookeeper(self, more=''):
        ports = self.ports(9)
        servers = ''.join(
            f'server.{i + 1}=127.0.0.1:{ports[3 * i]}:{ports[3 * i + 1]}\n'
            for i in range(3))
        for i in range(3):
            data = self.make(f'zookeeper{i}')
            with open(f'{data}/myid', 'w') as out:
                out.write(f'{i + 1}\n')
            with open(f'{data}/zoo.cfg', 'w') as out:
                # Its own defaults; but 60 connections from one address.
                out.write(f'tickTime=2000\ninitLimit=10\nsyncLimit=5\n'
                          f'dataDir={data}\nclientPort={ports[3 * i + 2]}\n'
                          'clientPortAddress=127.0.0.1\nmaxClientCnxns=0\n'
                          f'admin.enableServer=false\n{more}{servers}')
            self.start(f'zookeeper{i}', 'java', '-cp',
                       '/usr/share/java/zookeeper.jar',
                       'org.apache.zookeeper.server.quorum.QuorumPeerMain',
                       f'{data}/zoo.cfg')
        return [f'127.0.0.1:{ports[3 * i + 2]}' for i in range(3)]

    def null_server(self):
        ports = self.ports(1)
        self.start('null', f'{self.build}/null_server', str(ports[0]))
        return [f'127.0.0.1:{ports[0]}']

    def start_all(self):
        self.of = {'hasp': self.hasp('plain', False),
                   'hasp, TLS': self.hasp('secure', True),
                   'Redis': self.redis(1), 'Redlock': self.redis(5),
                   'etcd': self.etcd(), 'ZooKeeper': self.zookeeper(),
                   'null server': self.null_server()}
        for name, endpoints in self.of.items():
            for endpoint in endpoints:
                wait_for(name, endpoint)


def wait_for(name, endpoint, seconds=60):
    host, _, port = endpoint.rpartition(':')
    end = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                die(f'{name} did not start at {endpoint}')
            time.sleep(0.1)


# --- The work -----------------------------------------------------------------

def command_of(build, servers, system, work, clients, seconds):
    endpoints = servers.of[system]
    if system in ('hasp', 'hasp, TLS', 'null server'):
        tls = ['--tls', servers.certificates] if system == 'hasp, TLS' else []
        return [f'{build}/bench', work, '--endpoints', ','.join(endpoints),
                '--clients', str(clients), '--seconds', str(seconds), *tls]
    program = {'Redis': 'redis_bench', 'Redlock': 'redis_bench',
               'etcd': 'etcd_bench', 'ZooKeeper': 'zookeeper_bench'}[system]
    return [f'{build}/peers/{program}', work, str(clients), str(seconds),
            *endpoints]


def run(command, tries=1):
    """Cycles a second, median and 99th percentile in microseconds."""
    for left in reversed(range(tries)):
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=120,
                              stderr=subprocess.PIPE, text=True, check=False)
        found = FIGURES.search(done.stdout)
        if found:
            return tuple(int(figure) for figure in found.groups())
        if left:
            time.sleep(1)
    return die(f'{" ".join(command)}: {done.stderr.strip()[-300:]}')


def measure(build, servers, rounds, seconds):
    results = {}
    for system in SYSTEMS:  # A cluster may still be electing its leader,
        run(command_of(build, servers, system, 'cycle', 1, 0.2), 30)
    for system in SYSTEMS:  # and Java compiles what runs often.
        run(command_of(build, servers, system, 'cycle', 64, 2))
    for turn in range(rounds):
        for work, clients in WORK:
            for system in SYSTEMS:
                if system == 'null server' and work == 'handover':
                    continue
                found = run(command_of(build, servers, system, work, clients,
                                       seconds))
                results.setdefault((system, work, clients), []).append(found)
        print(f'round {turn + 1} of {rounds}', file=sys.stderr)
    return results


def open_loop(build, servers, seconds):
    told = subprocess.run(
        [f'{build}/hasp', '-e', ','.join(servers.of['hasp']), '-o', 'json',
         'bench', '--open-loop', '--clients', '64', '--seconds', str(seconds)],
        stdout=subprocess.PIPE, text=True, check=True).stdout
    return json.loads(told)


# --- Output -------------------------------------------------------------------

def milliseconds(us):
    return f'{us / 1000:.3g}' if us < 100000 else f'{us / 1000:.0f}'


def rate_of(results, system, work):
    runs = results.get((system, *work))
    return statistics.median(r[0] for r in runs) if runs else None


def cell(results, system, work):
    runs = results.get((system, *work))
    if not runs:
        return '-'
    ours = results[('hasp', *work)]
    ratio = statistics.median(r[0] / max(1, o[0]) for r, o in zip(runs, ours))
    rate, p50, p99 = (statistics.median(r[i] for r in runs) for i in range(3))
    return (f'{rate:,.0f} ({ratio:.2f}) {milliseconds(p50)} / '
            f'{milliseconds(p99)}')


def name_of(work):
    kind, clients = work
    if kind == 'handover':
        return f'one lock, {clients} wait'
    return '1 client' if clients == 1 else f'{clients:,} clients'


def table(results):
    lines = ['| | ' + ' | '.join(name_of(w) for w in WORK) + ' |',
             '|---' * (len(WORK) + 1) + '|']
    for system in SYSTEMS:
        lines.append(f'| {system} | ' + ' | '.join(
            cell(results, system, work) for work in WORK) + ' |')
    return '\n'.join(lines) + '\n'


def open_table(records):
    lines = ['| asked for | cycles/s | p50 | p99 | p99.9 |', '|---' * 5 + '|']
    for record in records:
        if record['load'] == 'closed':
            continue
        lines.append(
            f'| {record["load"]} | {record["cycles_per_second"]:,} | '
            + ' | '.join(f'{milliseconds(record[key])} ms'
                         for key in ('p50_us', 'p99_us', 'p999_us')) + ' |')
    return '\n'.join(lines) + '\n'


def first_line(*command):
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, check=False).stdout
    return told.splitlines()[0] if told else ''


def machine(build, folder, rounds, seconds):
    version = {}
    for package in ('etcd-server', 'redis-server', 'zookeeper'):
        version[package] = first_line(
            'dpkg-query', '-W', '-f', '${Version}', package)
    hasp = first_line(f'{build}/hasp', '--version')
    kind = first_line('findmnt', '-n', '-o', 'FSTYPE', '-T', folder)
    load = os.getloadavg()[0]
    told = f', beside other work (load {load:.0f})' if load > 1 else ''
    return (f'{os.uname().sysname} {os.uname().release.split("-")[0]}, '
            f'{os.cpu_count()} cores, {kind}{told}; {hasp}, Redis '
            f'{version["redis-server"]}, etcd {version["etcd-server"]}, '
            f'ZooKeeper {version["zookeeper"]}, as Debian has them. '
            f'Rounds: {rounds}, of {seconds:g} s each.\n')


def picture(results):
    """Bars, as long as the logarithm of the rate."""
    rows, y = [], 10
    for work in WORK:
        rows.append(f'<text x="10" y="{y + 12}" font-weight="bold">'
                    f'{name_of(work)}</text>')
        y += 18
        for system, colour in zip(SYSTEMS, COLOURS):
            rate = rate_of(results, system, work)
            if rate is None:
                continue
            width = 90 * math.log10(max(1, rate))
            rows.append(
                f'<text x="10" y="{y + 11}">{system}</text><rect x="110" '
                f'y="{y}" width="{width:.0f}" height="13" fill="{colour}"/>'
                f'<text x="{116 + width:.0f}" y="{y + 11}">{rate:,.0f}</text>')
            y += 16
        y += 10
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="680" '
            f'height="{y}" font-family="sans-serif" font-size="11">'
            '<title>Cycles a second, on a logarithmic scale</title>'
            f'<rect width="680" height="{y}" fill="white"/>'
            + ''.join(rows) + '</svg>\n')


def put_between(text, mark, what):
    begin, end = f'<!-- {mark} -->\n', f'<!-- end of {mark} -->\n'
    if begin not in text or end not in text:
        die(f'{PAGE} has no marks for {mark}')
    return (text[:text.index(begin) + len(begin)] + what
            + text[text.index(end):])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--seconds', type=float, default=2)
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--install', action='store_true')
    options = parser.parse_args()
    if options.install:
        install_packages(PACKAGES)
        os.makedirs(f'{options.build}/peers', exist_ok=True)
        compile_all(f'{options.build}/peers')
        return
    if missing(PACKAGES):
        die(f'missing: {" ".join(missing(PACKAGES))}; --install gets them')
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    folder = tempfile.mkdtemp(prefix='bench-peers-')
    servers = Servers(options.build, folder)
    try:
        where = machine(options.build, folder, options.rounds,
                        options.seconds)
        servers.start_all()
        results = measure(options.build, servers, options.rounds,
                          options.seconds)
        opened = open_loop(options.build, servers, int(options.seconds) or 1)
    finally:
        servers.end()
        shutil.rmtree(folder, ignore_errors=True)
    print(where, table(results), open_table(opened), sep='\n')
    if options.write:
        with open(PAGE) as page:
            text = page.read()
        text = put_between(text, 'peers', f'{where}\n{table(results)}')
        text = put_between(text, 'open loop', open_table(opened))
        with open(PAGE, 'w') as page:
            page.write(text)
        with open(PICTURE, 'w') as out:
            out.write(picture(results))


if __name__ == '__main__':
    main()
