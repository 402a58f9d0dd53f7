#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the goals of docs/performance.md.

Three nodes of hasp, three of the version that the goals were set against, a Redis
that flushes each write, and a server that only parses and answers take turns with
the same work, so that other load on the machine affects all alike; then
leaders end in three ways, and delays of the loop are measured. Prints the
table; with --write, updates docs/performance.md. It takes six minutes, on a machine
that is otherwise idle.

    tools/goals.py BUILD [--rounds 4] [--ends 25] [--locks 300000] [--write]
    tools/goals.py BUILD --install    Redis by apt, if it is missing, and the
                                      build of the earlier version

`make goals` does both.
"""

import argparse
import os
import math
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import bench_peers
import failover
import stalls
from dev_cluster import DevCluster

# Before the log had a writer thread, and before failovers were made faster.
BEFORE = 'b24090e'
# The program by which a package is recognized; the packages of the earlier build.
NEEDS = {'redis-server': 'redis-server', 'protoc-c': 'protobuf-c-compiler'}
PAGE = 'docs/performance.md'
SECONDS = 1
ELECTION_MS = 600
# Kind, clients, connections (0: each its own), and the systems that take turns.
WORK = [('cycle', 1, 0, ('hasp', 'Redis')),
        ('cycle', 64, 0, ('hasp', 'Redis', 'null server')),
        ('cycle', 256, 0, ('hasp',)),
        ('cycle', 1000, 0, ('hasp', 'Redis', 'null server')),
        ('cycle', 64, 4, ('hasp', 'before')),
        ('cycle', 1000, 4, ('hasp', 'before')),
        ('handover', 16, 0, ('hasp', 'before')),
        ('handover', 100, 0, ('hasp', 'before'))]
CPU = re.compile(r'cpu ([\d.]+) s per 1000')


def die(text):
    sys.exit(f'goals: {text}')


# --- Dependencies -------------------------------------------------------------

def before(build):
    return f'{build}/before/build/release'


def install(build):
    absent = [package for program, package in NEEDS.items()
              if shutil.which(program) is None]
    if absent:
        bench_peers.install_only([*absent, 'libprotobuf-c-dev'])
    os.makedirs(f'{build}/peers', exist_ok=True)
    bench_peers.compile_one(f'{build}/peers', 'redis_bench')
    if os.path.exists(f'{before(build)}/haspd'):
        return
    shutil.rmtree(f'{build}/before', ignore_errors=True)
    os.makedirs(f'{build}/before')
    packed = subprocess.run(['git', 'archive', BEFORE], check=False,
                            stdout=subprocess.PIPE)
    if packed.returncode != 0:
        die(f'this copy lacks the commit {BEFORE}: git fetch --unshallow')
    subprocess.run(['tar', '-x', '-C', f'{build}/before'], input=packed.stdout,
                   check=True)
    subprocess.run(['make', '-s', f'-j{os.cpu_count()}', 'all'], check=True,
                   cwd=f'{build}/before', stdout=subprocess.DEVNULL)


# --- Rates --------------------------------------------------------------------

class Rates:
    """The results of each system in each round: (cycles a second, CPU)."""

    def __init__(self, build, folder):
        self.build = build
        self.servers = bench_peers.Servers(build, folder)
        self.pids = {}
        self.found = {}

    def start(self):
        servers = self.servers
        for name, where in (('hasp', self.build),
                            ('before', before(self.build))):
            servers.build = where
            first = len(servers.started)
            servers.of[name] = servers.hasp(name, False)
            self.pids[name] = [p.pid for p in servers.started[first:]]
        servers.build = self.build
        servers.of['Redis'] = servers.redis(1)
        servers.of['null server'] = servers.null_server()
        for name, endpoints in servers.of.items():
            for endpoint in endpoints:
                bench_peers.wait_for(name, endpoint)

    def command(self, system, kind, clients, connections, seconds):
        if system == 'Redis':
            return bench_peers.command_of(self.build, self.servers, system,
                                          kind, clients, seconds)
        more = ['--connections', str(connections)] if connections else []
        if system in self.pids:
            more += ['--pids', ','.join(str(p) for p in self.pids[system])]
        return [f'{self.build}/bench', kind, '--endpoints',
                ','.join(self.servers.of[system]), '--clients', str(clients),
                '--seconds', str(seconds), *more]

    def measure(self, rounds):
        for system in self.servers.of:  # One may still be electing its leader.
            bench_peers.run(self.command(system, 'cycle', 1, 0, 0.2), 30)
        for turn in range(rounds):
            for kind, clients, connections, systems in WORK:
                for system in systems:
                    self.one(system, (kind, clients, connections))
            print(f'round {turn + 1} of {rounds}', file=sys.stderr)

    def one(self, system, work):
        done = subprocess.run(self.command(system, *work, SECONDS),
                              stdout=subprocess.PIPE, timeout=120, text=True,
                              check=False)
        figures = bench_peers.FIGURES.search(done.stdout)
        if figures is None:
            die(f'{system} did not do {work}: {done.stdout[-200:]}')
        cpu = CPU.search(done.stdout)
        self.found.setdefault((system, *work), []).append(
            (int(figures[1]), float(cpu[1]) if cpu else None))

    def ratio(self, other, *work):
        """The ratio of hasp to another: the median over the rounds."""
        pairs = zip(self.found[('hasp', *work)], self.found[(other, *work)])
        return statistics.median(ours[0] / max(1, its[0])
                                 for ours, its in pairs)

    def rate(self, *work):
        return statistics.median(
            figure[0] for figure in self.found[('hasp', *work)])

    def cpu_ms(self, *work):
        # A short round on a busy machine can end without a cycle.
        found = [1000 * cpu for _, cpu in self.found[('hasp', *work)]
                 if cpu is not None]
        return statistics.median(found) if found else math.inf


# --- The table ----------------------------------------------------------------

class Row:
    """One goal. 'excess': the result as a multiple of the goal;
    'why': the known reason, if it is missed."""

    def __init__(self, goal, measured, excess, command, why):
        self.what, self.goal = goal
        self.measured = measured
        self.excess = excess
        self.command = command
        self.why = why

    def is_met(self):
        return self.excess <= 1

    def line(self):
        met = 'yes' if self.is_met() else f'**no**, {self.excess:.2f} times'
        return (f'| {self.what} | {self.goal} | {self.measured} | {met} '
                f'| `{self.command}` |')


def text_of(rows):
    missed = [row for row in rows if not row.is_met()]
    lines = ['| what | goal | measured | met | by |', '|---|---|---|---|---|',
             *(row.line() for row in rows), '']
    if missed:
        lines += ['What is missed, and what is known of the reason:', '']
        lines += [f'* {row.what}, {row.goal}: {row.why}.' for row in missed]
    else:
        lines += ['All goals are met.']
    return '\n'.join(lines) + '\n'


ENDS = [
    ('KILL', 1, 'kill -9 of the leader to the next grant',
     'median < 10 ms, max < 50', (10, 50),
     '[five flushes](#a-leaders-end), one after the other'),
    ('STOP', 3, 'the leader falls silent (SIGSTOP)',
     f'max < 1.1 x election_ms ({1.1 * ELECTION_MS:g} ms)',
     (1.1 * ELECTION_MS, 1.1 * ELECTION_MS),
     'election_ms, [five flushes](#a-leaders-end), and a second attempt where '
     'the first was refused'),
    ('TERM', 2, 'clean stop', 'max < 8 ms', (8, 8),
     '[five flushes](#a-leaders-end) of the slower of two disks; they have to '
     'take 1.5 ms each at most')]


def rows_of_ends(build, count):
    rows = []
    for by, part, what, goal, (middle_most, most), why in ENDS:
        times = max(1, count // part)
        with DevCluster(build) as cluster:
            found = [1000 * seconds for seconds in failover.run(
                cluster, times, signal.Signals[f'SIG{by}'], False)]
        middle, longest = statistics.median(found), max(found)
        rows.append(Row((what, goal),
                        f'median {middle:.1f} ms, max {longest:.1f} ({times} '
                        'times)', max(middle / middle_most, longest / most),
                        f'tools/failover.py {build} {times} --by {by}', why))
        print(rows[-1].line(), file=sys.stderr)
    return rows


PROFILE = '[the profile](#where-the-time-goes)'
OWN = (f'one read and one write of a socket for each request, and three '
       f'flushes: {PROFILE}')
SHARED = f'our own code: {PROFILE}'
HANDED = f'the log\'s thread, one flush for each hand-over: {PROFILE}'
RATES = [
    ('64 clients, own connections', 0.6, 'null server', 'cycle', 64, 0, OWN),
    ('64 clients, beside Redis', 1.2, 'Redis', 'cycle', 64, 0, OWN),
    ('1000 clients, own connections', 0.75, 'null server', 'cycle', 1000, 0,
     OWN),
    ('1000 clients, beside Redis', 2, 'Redis', 'cycle', 1000, 0, OWN),
    ('64 clients over 4 connections', 1.3, 'before', 'cycle', 64, 4, SHARED),
    ('1000 clients over 4', 1.3, 'before', 'cycle', 1000, 4, SHARED),
    ('one client', 1, 'Redis', 'cycle', 1, 0,
     'two flushes of two of three nodes, and a message there and back, where '
     'Redis has two flushes'),
    ('one lock, 16 wait', 1.3, 'before', 'handover', 16, 0, HANDED),
    ('one lock, 100 wait', 1.3, 'before', 'handover', 100, 0, HANDED)]


def row_of_ratio(rates, what, least, other, *work, why):
    kind, clients, connections = work
    ratio = rates.ratio(other, *work)
    sharing = f' --connections {connections}' if connections else ''
    name = 'the version of then' if other == 'before' else other
    return Row((what, f'>= {least} x {name}'),
               f'{ratio:.2f} ({rates.rate(*work):,.0f}/s)',
               least / max(ratio, 0.01),
               f'bench {kind} --clients {clients}{sharing}', why)


def rows_of_rates(rates):
    rows = [row_of_ratio(rates, *rate, why=why) for *rate, why in RATES]
    for clients, most in ((64, 25), (256, 12)):
        spent = rates.cpu_ms('cycle', clients, 0)
        rows.append(Row(
            (f'processor time of three nodes, {clients} clients',
             f'<= {most} ms for 1000 cycles'), f'{spent:.1f} ms', spent / most,
            f'bench cycle --clients {clients} --pids ...',
            f'the kernel\'s sockets and waking the log\'s thread; '
            f'[shared connections](#connections-that-are-shared) would halve '
            f'it for 64: {PROFILE}'))
    return rows


def row_of_stalls(build, locks):
    longest, over, stage = stalls.look(build, locks)
    return Row((f'longest pass of a loop: {locks:,} locks taken, listed, put '
                'into snapshots; 1000 connections at once, plain and by TLS',
                '<= 20 ms'),
               f'within {longest:g} ms ({stage}), {over} over 20 ms',
               longest / 20, f'tools/stalls.py {build} --locks {locks}',
               'the figure includes turns of other programs on a shared '
               'processor; [what holds up the loop]'
               '(#what-holds-up-the-loop) has the rest')


def measure(options):
    folder = tempfile.mkdtemp(prefix='goals-')
    rates = Rates(options.build, folder)
    try:
        rates.start()
        rates.measure(options.rounds)
    finally:
        rates.servers.end()
        shutil.rmtree(folder, ignore_errors=True)
    return [*rows_of_ends(options.build, options.ends), *rows_of_rates(rates),
            row_of_stalls(options.build, options.locks)]


def flush_ms(count=200):
    """Time of the disk for 4 KiB, written as the log is: (median, max)."""
    took = []
    with tempfile.NamedTemporaryFile(prefix='goals-') as file:
        os.posix_fallocate(file.fileno(), 0, 4096)
        for _ in range(count):
            began = time.monotonic()
            os.pwritev(file.fileno(), [bytes(4096)], 0, os.RWF_DSYNC)
            took.append(1000 * (time.monotonic() - began))
    return statistics.median(took), max(took)


def where(build):
    load = os.getloadavg()[0]
    told = f', beside other work (load {load:.0f})' if load > 1 else ''
    version = bench_peers.first_line(f'{build}/hasp', '--version')
    return (f'{os.uname().sysname} {os.uname().release.split("-")[0]}, '
            f'{os.cpu_count()} cores{told}; {version}; "the version of then" '
            f'is {BEFORE}. A flush takes '
            '{:.2f} ms, at most {:.1f}.\n'.format(*flush_ms()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('build')
    parser.add_argument('--rounds', type=int, default=4)
    parser.add_argument('--ends', type=int, default=25)
    parser.add_argument('--locks', type=int, default=300000)
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--install', action='store_true')
    options = parser.parse_args()
    if options.install:
        install(options.build)
        return
    if not os.path.exists(f'{before(options.build)}/haspd'):
        die('the earlier version is not built: --install does it')
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    machine = where(options.build)
    text = f'{machine}\n{text_of(measure(options))}'
    print(text)
    if options.write:
        with open(PAGE) as page:
            text = bench_peers.put_between(page.read(), 'goals', text)
        with open(PAGE, 'w') as page:
            page.write(text)


if __name__ == '__main__':
    main()
