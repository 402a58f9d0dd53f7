#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs the simulator on fresh seeds for hours, and reports the coverage.

    tools/sim_long.py --hours 2 [--sim build/release/sim] [--out DIR]

The coverage (faults, pairs of faults, states) is written to DIR/coverage.md. A
seed that fails is shrunk: fewer seconds, clients, nodes and faults, as long as
the same sentence is violated; its trace goes to DIR/SEED.txt, and as a page to
DIR/SEED.html. Exit code 1 if a seed has failed.
"""

import argparse
import collections
import os
import random
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BATCH = 20


class Case:
    """A failing run, reduced to the smallest one found."""

    def __init__(self, options, seed, rule):
        self.options, self.seed, self.rule = options, seed, rule
        self.change = {'--seconds': '30'}
        self.skipped = set()
        self.runs = 0
        self.first = self.size = measure(run([*self.command(), '--verbose']))

    def command(self, change=None, skipped=None):
        change = self.change if change is None else change
        skipped = self.skipped if skipped is None else skipped
        words = [self.options.sim, '--seed', str(self.seed),
                 *self.options.sim_args.split()]
        for name, value in sorted(change.items()):
            words += [name, value]
        if skipped:
            words += ['--skip-faults', ranges(skipped)]
        return words

    def fails(self, change, skipped):
        """Fails in the same way, and no later or after more faults: with something
        left out a run is another one."""
        self.runs += 1
        words = self.command(change, skipped)
        if f'seed {self.seed}: {self.rule}' not in run(words):
            return False
        size = measure(run([*words, '--verbose']))
        if any(new > old for new, old in zip(size, self.size)):
            return False
        self.size = size
        return True

    def trace(self):
        return run([*self.command(), '--verbose'])

    def try_change(self, name, value):
        change = {**self.change, name: value}
        if value == self.change.get(name) or not self.fails(change,
                                                            self.skipped):
            return False
        self.change = change
        return True

    def try_skip(self, numbers):
        if not self.fails(self.change, self.skipped | numbers):
            return False
        self.skipped |= numbers
        return True

    def shrink(self, until):
        if self.size[-1] < 29:
            self.try_change('--seconds', str(int(self.size[-1]) + 1))
        for clients in 1, 2, 3, 4, 6:
            if time.time() < until and self.try_change('--clients',
                                                       str(clients)):
                break
        if time.time() < until:
            self.try_change('--nodes', '3')
        before = None
        while self.size != before and time.time() < until:
            before = self.size
            faults = [int(n) for n in
                      re.findall(r'fault (\d+): ', self.trace())]
            self.shrink_faults(faults, until)

    def shrink_faults(self, faults, until):
        """Leaves out halves, quarters ... of them, while the run still
        fails."""
        size = len(faults)
        while size > 0 and time.time() < until:
            at = 0
            while at < len(faults) and time.time() < until:
                part = faults[at:at + size]
                if self.try_skip(set(part)):
                    del faults[at:at + size]
                else:
                    at += size
            size //= 2


def measure(trace):
    """Hosts, faults, seconds until the end."""
    hosts = set(re.findall(r'^ *[\d.]+ ([nc]\d+) +starts', trace, re.M))
    faults = re.findall(r'^ *[\d.]+ +fault \d+: ', trace, re.M)
    ends = re.findall(r'^ *([\d.]+) +VIOLATION', trace, re.M)
    return len(hosts), len(faults), float(ends[0]) if ends else 0.0


def shown(size):
    return f'{size[0]} nodes and clients, {size[1]} faults, {size[2]:.3f} s'


def ranges(numbers):
    """{3, 7, 8, 9} as '3,7-9'."""
    found = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ','.join(f'{a}' if a == b else f'{a}-{b}' for a, b in found)


def run(words):
    return subprocess.run(words, stdout=subprocess.PIPE, text=True,
                          errors='replace', check=False).stdout


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def tell(options, seed, why):
    """Shrinks the seed and writes the result."""
    case = Case(options, seed, why.split(':')[0])
    case.shrink(time.time() + options.shrink_seconds)
    trace = case.trace()
    command = ' '.join([*case.command(), '--verbose'])
    note = (f'The run that failed at first had {shown(case.first)}; '
            f'{case.runs} others were tried, and this is the least: '
            f'{shown(case.size)}.')
    path = os.path.join(options.out, str(seed))
    write(f'{path}.txt', f'{command}\n{trace}')
    page = subprocess.run(
        [sys.executable, os.path.join(HERE, 'sim_page.py'), '--command',
         command, '--note', note],
        input=trace, stdout=subprocess.PIPE, text=True, check=True).stdout
    write(f'{path}.html', page)
    print(f'seed {seed}: {why}\n  shrunk: {shown(case.first)} to '
          f'{shown(case.size)}\n  repeat: {command}\n  page: {path}.html',
          flush=True)


def coverage(reached, seeds, hours, failed):
    """The table, as a page."""
    kinds = collections.defaultdict(list)
    for (kind, name), count in reached.items():
        kinds[kind].append((name, count))
    pairs = kinds['pair']
    met = sum(1 for _, count in pairs if count)
    out = [f'# What {seeds} seeds have reached\n',
           f'{hours:.2f} hours, {failed} failed. Pairs of faults that struck '
           f'within a second of each other: {met} of {len(pairs)}.\n',
           '| state | in runs |', '|---|---|']
    out += [f'| {name} | {count} |' for name, count in kinds['state']]
    out += ['', '| fault | in runs |', '|---|---|']
    out += [f'| {name} | {count} |' for name, count in kinds['fault']]
    out += ['', 'Pairs that were not met: ' +
            (', '.join(name for name, count in pairs if not count) or 'none') +
            '.\n']
    return '\n'.join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--sim', default='build/release/sim')
    parser.add_argument('--sim-args', default='', help='more for each run')
    parser.add_argument('--hours', type=float, default=1)
    parser.add_argument('--out', default='build/sim-long')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--first', type=int, help='the first seed')
    parser.add_argument('--seeds', type=int, default=BATCH,
                        help='number of runs at a time')
    parser.add_argument('--failures', type=int, default=10,
                        help='stop after this many failures')
    parser.add_argument('--shrink-seconds', type=float, default=300)
    options = parser.parse_args()
    os.makedirs(options.out, exist_ok=True)
    begin = time.time()
    seed = options.first or random.SystemRandom().randrange(10 ** 9, 10 ** 12)
    reached, seeds, failed = collections.Counter(), 0, 0
    while seeds == 0 or time.time() - begin < options.hours * 3600:
        told = run([options.sim, '--seed', str(seed), '--seeds',
                    str(options.seeds),
                    '--jobs', str(options.jobs), '--coverage',
                    *options.sim_args.split()])
        seed += options.seeds
        seeds += options.seeds
        for kind, name, count in re.findall(r'^covers\t(.*)\t(.*)\t(\d+)$',
                                            told, re.M):
            reached[kind, name] += int(count)
        for number, why in re.findall(r'^seed (\d+): (.*)$', told, re.M):
            if failed < options.failures:
                tell(options, int(number), why)
            failed += 1
        write(os.path.join(options.out, 'coverage.md'),
              coverage(reached, seeds, (time.time() - begin) / 3600, failed))
        if failed >= options.failures:
            break
    print(f'sim-long: {seeds - failed} passed, {failed} failed; '
          f'{options.out}/coverage.md')
    sys.exit(failed != 0)


if __name__ == '__main__':
    main()
