#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants each bug of tests/mutants and sees it caught.

A mutant is a patch with a head: What (the bug), Why (what it would cost a
user), Caught by (the tests to be tried, in this order: `unit/test_x`, a program
of tests/unit, or `sim SEEDS`, so many seeds of the simulator from 1 on). It is
caught when one of them fails; it may take 60 seconds of CPU time.

    tools/mutants.py             all of them; `make mutants`
    tools/mutants.py NAME...     those whose names contain NAME
    tools/mutants.py --applies   does each patch still apply, and is the table
                                 of docs/correctness.md theirs? (make lint)
    tools/mutants.py --table     what caught each, for that page
    tools/mutants.py --draw 200 [--seed 7]
                                 bugs that nobody has thought of: a condition
                                 negated, a statement dropped, a bound moved by
                                 one, anywhere in the pure rooms

The tree is copied to build/mutants and built there once; the checkout itself is
never changed.
"""

import argparse
import difflib
import glob
import os
import random
import re
import resource
import shutil
import subprocess
import sys

CPU_SECONDS = 60
# Where bugs are drawn, and the tests that are to see them.
CORE = ['unit/test_core_cluster', 'unit/test_core', 'unit/test_core_clocks',
        'unit/test_core_limits', 'unit/test_core_loss',
        'unit/test_core_members', 'unit/test_core_peers',
        'unit/test_core_redis', 'unit/test_core_refusals',
        'unit/test_core_watches', 'unit/test_core_guests',
        'unit/test_core_bytes', 'unit/test_core_digests',
        'unit/test_core_feature', 'unit/test_core_trail',
        'unit/test_core_sweep']
DRAWN_ROOMS = {
    'lockfsm': ['unit/test_fsm', 'unit/test_lockfsm', 'unit/test_lockfsm_once',
                'unit/test_lockfsm_size', 'unit/test_digest', *CORE[:4]],
    'lease': ['unit/test_timers', 'unit/test_spans', 'unit/test_lease',
              *CORE[:3]],
    'raft': ['unit/test_replica_traps', 'unit/test_replica_calls',
             'unit/test_replica', 'unit/test_replica_hostile',
             'unit/test_raft_log', 'unit/test_raft_message',
             'unit/test_replica_chaos', *CORE[:2]],
    'core': CORE,
}
WALL_SECONDS = 300
TREE = 'build/mutants'
PAGE = 'docs/correctness.md'
BUILD = 'build/check'


class Mutant:
    """A patch and its head."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        head = self.text.split('\n--- ')[0]
        self.what = self._of(head, 'What')
        self.why = self._of(head, 'Why')
        self.tests = [t.strip() for t in
                      self._of(head, 'Caught by').split(',')]
        self.room = re.search(r'^--- a/(\S+)/', self.text, re.M).group(1)

    def _of(self, head, word):
        found = re.search(rf'^{word}: (.*(?:\n .*)*)', head, re.M)
        if found is None:
            sys.exit(f'{self.name}: its head has no line "{word}: ..."')
        return ' '.join(found.group(1).split())


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def changes_of(line):
    """Each way in which the line may be wrong: what, and the wrong line."""
    condition = re.match(r'(\s+(?:\} else )?if \()(.*)(\) \{)$', line)
    if condition and condition[2].count('(') == condition[2].count(')'):
        yield 'negated', f'{condition[1]}!({condition[2]}){condition[3]}'
    if re.match(r'\s+(?!return|break|continue|goto|LOG_|CHECK|free\(|\(void)'
                r'[a-z_]+[\w>.\-\[\]]*(\(.*\)|(\+\+|--)| [-+|&]?= .*);$', line):
        yield 'dropped', re.sub(r'\S.*', ';', line)
    for old, new in (' < ', ' <= '), (' <= ', ' < '), (' > ', ' >= '), \
                    (' >= ', ' > '), (' + 1', ''), (' - 1', ''), \
                    (' && ', ' || '), (' || ', ' && '):
        if line.count(old) == 1 and '"' not in line:
            yield f'"{old.strip()}" moved', line.replace(old, new)


def draw(count, seed):
    """Mutants of lines drawn by chance."""
    places = []
    for path in subprocess.run(
            ['git', 'ls-files', *[f'{room}/*.c' for room in DRAWN_ROOMS]],
            stdout=subprocess.PIPE, text=True, check=True).stdout.split():
        lines = read(path).split('\n')
        in_check = False
        for at, line in enumerate(lines):
            in_check = 'CHECK' in line or in_check
            for what, wrong in () if in_check else changes_of(line):
                places.append((path, at, what, wrong))
            in_check = in_check and not line.endswith(';')
    for path, at, what, wrong in random.Random(seed).sample(places, count):
        lines = read(path).split('\n')
        name = f'{path}:{at + 1} {what}: {lines[at].strip()}'
        changed = lines[:at] + [wrong] + lines[at + 1:]
        diff = '\n'.join(difflib.unified_diff(
            lines, changed, f'a/{path}', f'b/{path}', lineterm='')) + '\n'
        tests = ', '.join([*DRAWN_ROOMS[path.split('/')[0]], 'sim 20'])
        yield Mutant(name, f'What: {what}\nWhy: -\nCaught by: {tests}\n{diff}')


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def quiet(*command, given=None):
    return subprocess.run(command, cwd=TREE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False,
                          input=given)


def make(*targets):
    # A plant may leave a variable unused.
    return quiet('make', '-s', f'-j{os.cpu_count()}', 'FLAVOUR=check',
                 'CFLAGS=-O2 -g -Wno-error', *targets)


def patch(mutant, *more):
    return quiet('patch', '-s', '-p1', '-F2', *more, given=mutant.text)


def test(what, seconds):
    """True if the test saw something: it failed, or did not end in time."""
    words = what.split()
    if words[0] == 'sim':
        target, words = 'sim', ['--seed', '1', '--seeds', words[1],
                                '--jobs', '1']
    else:
        target, words = words[0], []
    built = make(f'{BUILD}/{target}')
    if built.returncode != 0:
        sys.exit(f'{what} does not build:\n{built.stdout}')
    used = cpu()
    try:
        failed = subprocess.run(
            [f'{BUILD}/{target}', *words], cwd=TREE, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_CPU, (seconds + 1, seconds + 1)),
            timeout=WALL_SECONDS).returncode != 0
    except subprocess.TimeoutExpired:
        failed = True
    return failed, cpu() - used


def prepare(mutants):
    """A copy of what git knows, built, in which every test passes."""
    files = subprocess.run(['git', 'ls-files', '-z'], stdout=subprocess.PIPE,
                           check=True).stdout.decode().split('\0')
    for path in filter(os.path.isfile, files):
        copy = os.path.join(TREE, path)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if not os.path.exists(copy) or \
                open(path, 'rb').read() != open(copy, 'rb').read():
            shutil.copy(path, copy)
    for path in glob.glob(f'{TREE}/**/*', recursive=True):
        inner = os.path.relpath(path, TREE)
        if os.path.isfile(path) and inner not in files and \
                not inner.startswith('build/'):
            os.unlink(path)
    for what in sorted({t for mutant in mutants for t in mutant.tests}):
        failed, _ = test(what, 10 * CPU_SECONDS)
        if failed:
            sys.exit(f'{what} fails without any bug planted')


def hunt(mutant):
    """What caught it, or None; and the CPU seconds that the tests took."""
    planted = patch(mutant)
    if planted.returncode != 0:
        sys.exit(f'{mutant.name} does not apply:\n{planted.stdout}')
    used = 0.0
    try:
        if make(f'{BUILD}/libhasp-all.a').returncode != 0:
            return 'the compiler', used
        for what in mutant.tests:
            failed, more = test(what, int(CPU_SECONDS - used))
            used += more
            if failed and used <= CPU_SECONDS:
                return what, used
            if used > CPU_SECONDS:
                break
    finally:
        undone = patch(mutant, '-R')
        if undone.returncode != 0:
            sys.exit(f'{mutant.name} cannot be taken out:\n{undone.stdout}')
    return None, used


def applies(mutants):
    bad = 0
    for mutant in mutants:
        tried = subprocess.run(
            ['patch', '-s', '-p1', '-F2', '--dry-run'], input=mutant.text,
            stdout=subprocess.PIPE, text=True, check=False)
        if tried.returncode != 0:
            bad += 1
            print(f'tests/mutants/{mutant.name}.patch: does not apply any '
                  'more: plant the same bug in the code as it stands')
    if table(mutants) not in read(PAGE):
        bad += 1
        print(f'{PAGE}: its table is not what tools/mutants.py --table prints')
    print(f'mutants: {len(mutants)} patches, {bad} problems')
    return bad


def table(mutants):
    lines = ['| room | bug | what it would cost | caught by |',
             '|---|---|---|---|']
    for mutant in sorted(mutants, key=lambda m: (m.room, m.name)):
        lines.append(f'| {mutant.room} | {mutant.what} | {mutant.why} '
                     f'| `{"`, `".join(mutant.tests)}` |')
    return '\n'.join(lines) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--applies', action='store_true')
    parser.add_argument('--table', action='store_true')
    parser.add_argument('--draw', type=int, metavar='COUNT')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    mutants = list(draw(options.draw, options.seed)) if options.draw else [
        Mutant(os.path.basename(path)[:-len('.patch')], read(path))
        for path in sorted(glob.glob('tests/mutants/*.patch'))]
    if options.names:
        mutants = [m for m in mutants if any(n in m.name
                                             for n in options.names)]
    if not mutants:
        sys.exit('mutants: no patch of tests/mutants has such a name')
    if options.applies:
        sys.exit(applies(mutants) != 0)
    if options.table:
        print(table(mutants), end='')
        return
    prepare(mutants)
    survived = 0
    for mutant in mutants:
        caught, used = hunt(mutant)
        survived += caught is None
        print(f'{mutant.name}: {f"caught by {caught}" if caught else "SURVIVED"}'
              f' ({used:.1f} s of CPU)', flush=True)
    print(f'mutants: {len(mutants) - survived} passed, {survived} failed')
    sys.exit(survived != 0)


if __name__ == '__main__':
    main()
