#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the instructions of acquire and release on three nodes.

    tools/cycle_cost.py DIRECTORY [--clients N] [--connections N]
                        [--seconds S] [--slow-ms N] [--keep FOLDER]

DIRECTORY has haspd and bench, as build/release does. Each node runs under
valgrind's callgrind while 'bench cycle' makes load. The loop's instructions for
requests and entries are counted for each cycle and node: unlike rates and
times, they are the same on a busy machine. Work that goes by the clock
(scrub, flushes, heartbeats) is left out, since under valgrind
there are thirty times fewer cycles in a second. --keep FOLDER keeps the output
of callgrind, for callgrind_annotate.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
import tempfile
import time

from dev_cluster import leader_of, status, until
from ports import free_base

# The work of requests and entries; no function calls another of these.
PARTS = {
    'core_client_request': 'requests: read, understood, encoded',
    'apply_committed': 'entries: applied, reported, answered',
    'propose_submit': 'a batch: proposed, sent',
    'core_peer_frame': 'frames of other nodes',
}
NAMES = {}


def name_of(text):
    """A name in callgrind's output: '(id) name' once, then '(id)'."""
    number, _, name = text.partition(' ')
    if name:
        NAMES[number] = name
    return NAMES.get(number, text)


def inclusive(path):
    """The instructions in each of PARTS and in what they call."""
    NAMES.clear()
    found = dict.fromkeys(PARTS, 0)
    called = None
    with open(path, encoding='utf-8') as lines:
        for line in lines:
            key, _, value = line.rstrip().partition('=')
            if key == 'fn':
                name_of(value)
            elif key == 'cfn':
                called = name_of(value)
            elif called is not None and line[0] in '0123456789+-*':
                if called in found:
                    found[called] += int(line.split()[1])
                called = None
    return found


def start(directory, folder, number, ports, slow_ms):
    members = ''.join(
        f'member = {i + 1} 127.0.0.1:{ports[2 * i]} 127.0.0.1:{ports[2 * i + 1]}\n'
        for i in range(3))
    config = f'{folder}/{number}.conf'
    with open(config, 'w', encoding='utf-8') as out:
        out.write(f'[cluster]\nname = cost\n{members}'
                  f'[node]\nslow_ms = {slow_ms}\n')
    with open(f'{folder}/{number}.log', 'w', encoding='utf-8') as log:
        # An election time that valgrind's pace does not exceed.
        return subprocess.Popen(
            ['valgrind', '--tool=callgrind', '--separate-threads=yes',
             f'--callgrind-out-file={folder}/out.{number}',
             f'{directory}/haspd', '--config', config, '--id', str(number),
             '--dir', f'{folder}/{number}', '--listen-http', 'off',
             '--election-ms', '10000'],
            stdout=log, stderr=subprocess.STDOUT)


def control(nodes, what):
    for node in nodes:
        subprocess.run(['callgrind_control', *what, str(node.pid)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def measure(options, folder, nodes, ports):
    clients = [ports[2 * i + 1] for i in range(3)]
    leader = until(lambda: leader_of(clients), 120)
    bench = [f'{options.directory}/bench', 'cycle', '--endpoints',
             ','.join(f'127.0.0.1:{port}' for port in clients),
             '--clients', str(options.clients)]
    if options.connections:
        bench += ['--connections', str(options.connections)]
    subprocess.run([*bench, '--seconds', '1'], check=True,
                   stdout=subprocess.DEVNULL)
    control(nodes, ['-z'])
    before = int(status(clients[leader - 1])[b'applied'])
    subprocess.run([*bench, '--seconds', str(options.seconds)], check=True,
                   stdout=subprocess.DEVNULL)
    # A cycle is two entries.
    cycles = (int(status(clients[leader - 1])[b'applied']) - before) / 2
    for path in glob.glob(f'{folder}/out.*'):
        os.unlink(path)
    control(nodes, ['-d', 'measured'])
    found = []
    for number in range(1, 4):
        # Thread 1 is the loop.
        path = until(lambda n=number: complete(f'{folder}/out.{n}'), 60)
        found.append({part: round(instructions / cycles)
                      for part, instructions in inclusive(path).items()})
    return leader, cycles, found


def complete(start_of_name):
    for path in glob.glob(start_of_name + '*-01'):
        with open(path, encoding='utf-8') as text:
            if re.search(r'^(summary|totals): ', text.read(), re.M):
                return path
    raise OSError(f'callgrind has not written {start_of_name}')


def report(options, leader, cycles, found):
    print(f'{options.clients} clients over {options.connections or "own"} '
          f'connections, {cycles:.0f} cycles; instructions of the loop for one:')
    followers = [node for i, node in enumerate(found) if i + 1 != leader]
    total = 0
    for part, what in PARTS.items():
        of_leader = found[leader - 1][part]
        of_follower = sum(node[part] for node in followers) / 2
        total += of_leader + 2 * of_follower
        print(f'{what:38} leader {of_leader:7}  a follower {of_follower:7.0f}')
    print(f'{"three nodes":38} {total:14.0f}')


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('directory')
    parser.add_argument('--clients', type=int, default=64)
    parser.add_argument('--connections', type=int, default=4,
                        help='0: one for each client')
    parser.add_argument('--seconds', type=float, default=8)
    parser.add_argument('--slow-ms', type=int, default=100,
                        help='node.slow_ms; 0: no slow log')
    parser.add_argument('--keep')
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix='hasp-cost-') as temporary:
        folder = options.keep or temporary
        os.makedirs(folder, exist_ok=True)
        base = free_base(range(6))
        ports = list(range(base, base + 6))
        nodes = []
        try:
            for number in range(1, 4):
                nodes.append(start(options.directory, folder, number, ports,
                                   options.slow_ms))
            report(options, *measure(options, folder, nodes, ports))
        finally:
            for node in nodes:
                node.kill()
            for node in nodes:
                node.wait()
    return 0


if __name__ == '__main__':
    sys.exit(main())
