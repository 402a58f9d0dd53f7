#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants each bug of tests/mutants and checks that it is caught.

A mutant has a body, the lines that it changes (tools/mutants_plant.py), and a
head: What (the bug), Why (what it would cost a
user), Caught by (the tests to be tried, in this order: `unit/test_x`, a program
of tests/unit, `property SEEDS`, so many sequences of tests/property, `sim
SEEDS`, so many seeds of the simulator from 1 on, or `interrupts/LANGUAGE`, the
test of a client that interrupts its calls: tests/cluster/interrupts.py). It is
caught when one of them fails, or takes five times as long as it does without the
bug; all of them together may take 60 seconds of CPU time.

    tools/mutants.py             all of them; `make mutants`
    tools/mutants.py NAME...     those whose names contain NAME
    tools/mutants.py --applies   does each mutant still apply, and does
                                 docs/planted-bugs.md list them? (make lint)
    tools/mutants.py --table     prints that page: what catches each
    tools/mutants.py --oracles   the simulator's oracles, and the bugs that
                                 only they see, for tests/sim/README.md
    tools/mutants.py --draw 200 [--seed 7]
                                 bugs that nobody has thought of: a condition
                                 negated, a statement dropped, a bound moved by
                                 one, anywhere in the pure rooms
    tools/mutants.py --results FILE ...
                                 writes what became of each to FILE as well, and
                                 passes over those that FILE says are caught: to
                                 go on after a stop

A drawn bug is tried on those that run its line (gcov tells), the quickest
first, of the unit tests, 100 sequences of tests/property and 20 seeds of the
simulator, and at last on the same unit tests under the sanitizers, as CI does.
It does not count if the compiler makes the same of it as of the code without it.
Those that change nothing that anybody could see are listed with the reason in
tests/mutants/equivalent.txt.

A head may say `Under: tsan`, or asan: the tests are run under that sanitizer. And
it may say `Oracle: 5 alone, in 20 seeds`: of the seeds from 1 on some fail, and
none does in a simulator without that oracle. Each oracle has such a bug, or is
not known to be needed.

The tree is copied to build/mutants and built there once; the checkout itself is
never changed.
"""

import argparse
import difflib
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import mutants_draw
import mutants_plant

CPU_SECONDS = 60
WALL_SECONDS = 900  # If others use the machine as well.
ASAN_SECONDS = 2  # Slower tests do not run under the sanitizers.
MEMORY_SIZE_MAX = 4 << 30
TREE = 'build/mutants'
PAGE = 'docs/planted-bugs.md'
PAGE_HEAD = """# Planted bugs

<!-- Made by: tools/mutants.py --table > docs/planted-bugs.md -->

A test that has never failed says little. Each of these bugs was planted into
the code, and the named test failed within 60 seconds of CPU time. `make
mutants` repeats all of it; `tests/mutants/` has the bugs, and [its
page](../tests/mutants/README.md) their form. Tests `under tsan` and `under
asan` run in those builds: no other build sees such a bug. Some bugs are seen
by [one oracle](../tests/sim/README.md#what-only-one-oracle-sees) of the
simulator alone. [correctness](correctness.md) has the other searches for bugs.

"""
FLAGS = {'check': '-O2', 'coverage': '-O0 -g', 'asan': '-O1 -g',
         'tsan': '-O1 -g'}
EQUIVALENT = 'tests/mutants/equivalent.txt'
ORACLES = 'tests/sim/sim_oracles.h'
ORACLES_PAGE = 'tests/sim/README.md'
INTERRUPTS = 'interrupts/'  # On real processes, by their clients' own tests.
SIM = 'sim 20'
SIM_REACH = 'sim 5'  # They run nearly all lines that 20 do.
NEMESIS = 'nemesis'  # Left to tools/nemesis_plants.py, on real processes.
PROPERTY = 'property 100'  # CI runs 400.
# These depend on the load of the machine, or test impure work:
# storage, sockets, TLS.
NO_JUDGES = {f'unit/test_{name}' for name in (
    'audit_file', 'client', 'datadir', 'datadir_power', 'feature_frames',
    'fence_file', 'founding', 'http', 'lag', 'node', 'node_crash', 'peers',
    'peers_guests', 'sim_files', 'stall', 'stream', 'stream_threads', 'stream_tls',
    'table', 'tls', 'wal', 'wal_crash', 'wal_format', 'wal_power')}
DOES_NOT_COUNT = ('it does not compile', 'the compiler sees no difference')


class Mutant:
    """A body and its head, or a place that was drawn."""

    def __init__(self, name, text):
        self.name = name
        self.text = text
        self.paths = mutants_plant.paths(text)
        self.room = os.path.dirname(self.paths[0])
        self.place = None
        self.tests = []
        self.flavour, self.oracle = 'check', None

    @staticmethod
    def of_patch(name, text):
        mutant = Mutant(name, text)
        head = text.split('\n--- ')[0]
        mutant.what = mutant.word_of(head, 'What')
        mutant.why = mutant.word_of(head, 'Why')
        mutant.tests = [t.strip() for t in
                        mutant.word_of(head, 'Caught by').split(',')]
        if '\nUnder: ' in head:
            mutant.flavour = mutant.word_of(head, 'Under')
        if '\nOracle: ' in head:
            words = mutant.word_of(head, 'Oracle')
            found = re.fullmatch(r'(\d+) alone, in (\d+) seeds', words)
            if found is None:
                sys.exit(f'{name}: "Oracle: {words}" is not understood')
            mutant.oracle, mutant.seeds = int(found[1]), int(found[2])
        return mutant

    @staticmethod
    def of_place(place):
        lines = read(f'{TREE}/{place.path}').rstrip('\n').split('\n')
        changed = lines[:place.at] + [place.text] + lines[place.end:]
        mutant = Mutant(place.name, '\n'.join(difflib.unified_diff(
            lines, changed, f'a/{place.path}', f'b/{place.path}',
            lineterm='')) + '\n')
        mutant.place = place
        return mutant

    def word_of(self, head, word):
        found = re.search(rf'^{word}: (.*(?:\n .*)*)', head, re.M)
        if found is None:
            sys.exit(f'{self.name}: its head has no line "{word}: ..."')
        return ' '.join(found.group(1).split())


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def read_bytes(path):
    with open(path, 'rb') as file:
        return file.read()


def equivalents():
    """Bugs that no test can detect: name, and reason."""
    found = {}
    for part in re.split(r'\n\n+', read(EQUIVALENT).strip()):
        if not part.startswith('#'):
            name, _, why = part.partition('\n')
            found[name] = ' '.join(why.split())
    return found


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def quiet(*command):
    return subprocess.run(command, cwd=TREE, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)


def make(flavour, target):
    # A mutant can leave a variable unused.
    return quiet('make', '-s', f'-j{os.cpu_count()}', f'FLAVOUR={flavour}',
                 f'CFLAGS={FLAGS[flavour]} -Wno-error',
                 f'build/{flavour}/{target}')


def write(path, text):
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def run_once(command, seconds):
    def limit():
        limits = {resource.RLIMIT_CPU: int(seconds) + 1,
                  resource.RLIMIT_DATA: MEMORY_SIZE_MAX,
                  resource.RLIMIT_CORE: 0}
        if not any('/check/' in word for word in command):
            # The shadow memory of a sanitizer has terabytes.
            del limits[resource.RLIMIT_DATA]
        for kind, most in limits.items():
            resource.setrlimit(kind, (most, most))

    # A short path, wherever the tree is: tests truncate longer ones.
    with tempfile.TemporaryDirectory(prefix='hasp-') as here:
        try:
            return subprocess.run(
                command, cwd=TREE, check=False, stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL, preexec_fn=limit,
                env={**os.environ, 'TMPDIR': here, 'ASAN_OPTIONS':
                     f'hard_rss_limit_mb={MEMORY_SIZE_MAX >> 20}'},
                timeout=WALL_SECONDS).returncode != 0
        except subprocess.TimeoutExpired:
            return True


def run(build, what, seconds):
    """True if the test failed or did not end in time; and the CPU seconds."""
    words = what.split()
    program = f'build/{build}/{words[0]}'
    used = cpu()
    if what.startswith(INTERRUPTS):
        return run_once(['tests/cluster/interrupts.py',
                         what.removeprefix(INTERRUPTS)],
                        CPU_SECONDS), cpu() - used
    if words[0] == 'property':
        return run_once(['tests/property/run.py', '--driver', program, '--seed',
                         '1', '--count', words[1], '--jobs', '1', '--failures',
                         '1', '--shorten', '0'], seconds), cpu() - used
    if words[0] != 'sim':
        return run_once([program], seconds), cpu() - used
    failed = False
    seed = 1
    while not failed and seed <= int(words[1]):
        # Few seeds first: they detect most bugs.
        count = min(4 * seed, int(words[1]) + 1 - seed)
        failed = run_once([program, '--seed', str(seed), '--seeds', str(count),
                           '--jobs', '1'], seconds - (cpu() - used))
        seed += count
    return failed, cpu() - used


def copy_tree():
    """A copy of the files in git."""
    files = subprocess.run(['git', 'ls-files', '-z'], stdout=subprocess.PIPE,
                           check=True).stdout.decode().split('\0')
    for path in filter(os.path.isfile, files):
        copy = os.path.join(TREE, path)
        os.makedirs(os.path.dirname(copy), exist_ok=True)
        if not os.path.exists(copy) or read_bytes(path) != read_bytes(copy):
            shutil.copy(path, copy)
    for path in glob.glob(f'{TREE}/**/*', recursive=True):
        inner = os.path.relpath(path, TREE)
        if os.path.isfile(path) and inner not in files and \
                not inner.startswith('build/'):
            os.unlink(path)


class Hunt:
    """Plants bugs into the copy of the tree and runs tests on them."""

    def __init__(self):
        copy_tree()
        self.takes = {}  # CPU seconds, by build and test.

    def measure(self, what, flavour='check'):
        """The test passes without a bug; how long does it take?"""
        self._build(what, flavour)
        few, times = what, 1
        if what.startswith('sim '):  # `make sim` runs all of them.
            few, times = SIM_REACH, int(what[4:]) / int(SIM_REACH[4:])
        failed, used = run(flavour, few, 10 * CPU_SECONDS)
        if failed:
            sys.exit(f'{flavour}: {what} fails without any bug planted')
        self.takes[flavour, what] = used * times
        return used * times

    def measure_reach(self, tests):
        """Which of the tests run which lines."""
        def measure(what):
            self._build(what, 'coverage')
            few = SIM_REACH if what == SIM else what
            run('coverage', few, 20 * CPU_SECONDS)
            return self.measure(what)
        reach = mutants_draw.Reach(TREE, tests, measure)
        self.takes = {('check', what): reach.seconds(what) for what in tests}
        return reach

    def _build(self, what, flavour):
        programs = ['haspd', 'hasp'] if what.startswith(INTERRUPTS) \
            else [what.split()[0]]
        for program in programs:
            built = make(flavour, program)
            if built.returncode != 0:
                sys.exit(f'{flavour}: {what} does not build:\n{built.stdout}')

    def _judge(self, mutant, tests, flavour, objects):
        # An object of a program is not in the library.
        targets = [os.path.relpath(path, f'{TREE}/build/{flavour}')
                   for path in objects]
        if any(make(flavour, target).returncode != 0
               for target in ['libhasp-all.a', *targets]):
            return DOES_NOT_COUNT[0] if mutant.place else 'the compiler', 0.0
        if flavour == 'check' and objects and all(
                read_bytes(path) == old for path, old in objects.items()):
            return DOES_NOT_COUNT[1], 0.0
        used = 0.0
        for what in tests:
            self._build(what, flavour)
            seconds = min(CPU_SECONDS - used,
                          5 * self.takes[flavour, what] + 2)
            failed, more = run(flavour, what, seconds)
            used += more
            if used > CPU_SECONDS:
                break
            if failed:
                return what, used
        return None, used

    def _seeds_pass(self, seeds, *more):
        """The same, in a simulator with these options."""
        return subprocess.run(
            ['build/check/sim', '--seed', '1', '--seeds', str(seeds), '--jobs',
             str(os.cpu_count()), *more], cwd=TREE, check=False,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=4 * WALL_SECONDS).returncode == 0

    def _is_alone(self, mutant):
        """True if this oracle detects it, and no other."""
        self._build('sim', 'check')
        return not self._seeds_pass(mutant.seeds) and \
            self._seeds_pass(mutant.seeds, '--without', str(mutant.oracle))

    def hunt(self, mutant, tests, flavour='check'):
        """The test that caught it, or None; and the CPU seconds of the tests."""
        for what in tests:
            if (flavour, what) not in self.takes:
                self.measure(what, flavour)
        try:
            texts = mutants_plant.planted(TREE, mutant.text)
        except mutants_plant.Unplantable as why:
            sys.exit(f'{mutant.name} does not apply: {why}')
        names = [f'{TREE}/build/{flavour}/{path[:-2]}.o'
                 for path in texts if path.endswith('.c')]
        objects = {name: read_bytes(name) for name in names
                   if os.path.exists(name)}
        before = {path: read(f'{TREE}/{path}') for path in texts}
        try:
            for path, text in texts.items():
                write(f'{TREE}/{path}', text)
            caught, used = self._judge(mutant, tests, flavour, objects)
            if caught is None or mutant.oracle is None:
                return caught, used
            if self._is_alone(mutant):
                return f'{caught}, oracle {mutant.oracle} alone', used
            print(f'{mutant.name}: not by oracle {mutant.oracle} alone')
            return None, used
        finally:
            for path, text in before.items():
                write(f'{TREE}/{path}', text)
            if all(path.endswith('.c') for path in before):
                # Newer than the source, so that no file is compiled twice.
                for name, old in objects.items():
                    with open(name, 'wb') as file:
                        file.write(old)


def applies(mutants):
    bad = 0
    for mutant in mutants:
        try:
            mutants_plant.planted('.', mutant.text)
        except mutants_plant.Unplantable as why:
            bad += 1
            print(f'tests/mutants/{mutant.name}.patch: no longer applies: '
                  f'plant the same bug in the code as it is: {why}')
    if table(mutants) != read(PAGE):
        bad += 1
        print(f'{PAGE} differs: tools/mutants.py --table > {PAGE}')
    bad += oracles_differ(mutants)
    places = {place.name for place in mutants_draw.all_places('.')}
    for name in equivalents():
        if name not in places:
            bad += 1
            print(f'{EQUIVALENT}: this line no longer exists: {name}')
    print(f'mutants: {len(mutants)} planted, {bad} problems')
    return bad


def table(mutants):
    lines = [PAGE_HEAD + '| room | bug | what it would cost | caught by |',
             '|---|---|---|---|']
    for mutant in sorted(mutants, key=lambda m: (m.room, m.name)):
        under = '' if mutant.flavour == 'check' else f' under {mutant.flavour}'
        lines.append(f'| {mutant.room} | {mutant.what} | {mutant.why} '
                     f'| `{"`, `".join(mutant.tests)}`{under} |')
    return '\n'.join(lines) + '\n'


def oracles():
    """Their names by number, as in the enumeration."""
    names = re.findall(r'^    (ORACLE_\w+)', read(ORACLES), re.M)
    return {number: name for number, name in enumerate(names, 1)
            if name != 'ORACLE_END'}


def oracle_table(mutants):
    lines = ['| oracle | planted | bug | seeds |', '|---|---|---|---|']
    for number, name in oracles().items():
        mine = [mutant for mutant in mutants if mutant.oracle == number]
        for mutant in mine:
            lines.append(f'| {number} `{name}` | `{mutant.name}` '
                         f'| {mutant.what} | {mutant.seeds} |')
        if not mine:
            lines.append(f'| {number} `{name}` | none is known | | |')
    return '\n'.join(lines) + '\n'


def oracles_differ(mutants):
    if oracle_table(mutants) in read(ORACLES_PAGE):
        return 0
    print(f'{ORACLES_PAGE}: its table is not what tools/mutants.py --oracles '
          'prints')
    return 1


class Results:
    """Reports the result of each, on stdout and in a file."""

    def __init__(self, path):
        self.path = path
        self.known = {}
        if path and os.path.exists(path):
            for line in read(path).splitlines():
                name, verdict = line.rsplit('\t', 1)
                self.known[name] = verdict
        self.counts = {'caught': 0, 'survived': 0, 'equivalent': 0,
                       'not counted': 0}

    def caught_before(self, name):
        verdict = self.known.get(name, '')
        return verdict.startswith(('caught', 'not counted'))

    def add(self, name, verdict, more=''):
        self.counts[verdict] += 1
        print(f'{name}: {verdict}{more}', flush=True)
        if self.path:
            with open(self.path, 'a', encoding='utf-8') as file:
                file.write(f'{name}\t{verdict}{more}\n')

    def pass_over(self, name):
        self.counts[self.known[name].split(':')[0]] += 1

    def tried(self):
        return sum(self.counts.values()) - self.counts['not counted']


def judge(hunt, mutant, results):
    caught, used = hunt.hunt(mutant, mutant.tests, mutant.flavour)
    if caught is None and mutant.place:
        tests = [what for what in mutant.tests if what.startswith('unit/') and
                 hunt.takes['check', what] < ASAN_SECONDS]
        caught, more = hunt.hunt(mutant, tests, 'asan')
        caught = f'asan {caught}' if caught is not None else None
        used += more
    if caught in DOES_NOT_COUNT and mutant.place:
        results.add(mutant.name, 'not counted', f': {caught}')
    elif caught is None:
        ran = '' if mutant.tests else ', run by no test'
        results.add(mutant.name, 'survived', f'{ran} ({used:.1f} s of CPU)')
    else:
        results.add(mutant.name, 'caught', f': {caught} ({used:.1f} s of CPU)')


def hunt_drawn(options, results):
    tests = ['unit/' + os.path.basename(path)[:-2]
             for path in sorted(glob.glob('tests/unit/test_*.c'))]
    hunt = Hunt()
    reach = hunt.measure_reach([t for t in tests if t not in NO_JUDGES]
                               + [PROPERTY, SIM])
    known = equivalents()
    for place in mutants_draw.drawn(TREE, options.seed):
        if results.tried() == options.draw:
            break
        if options.names and not any(n in place.name for n in options.names):
            continue
        if results.caught_before(place.name):
            results.pass_over(place.name)
        elif place.name in known:
            results.add(place.name, 'equivalent', f': {known[place.name]}')
        else:
            mutant = Mutant.of_place(place)
            mutant.tests = reach.tests(place)
            judge(hunt, mutant, results)


def hunt_patches(mutants, results):
    hunt = Hunt()
    for mutant in mutants:
        if results.caught_before(mutant.name):
            results.pass_over(mutant.name)
        else:
            judge(hunt, mutant, results)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n')[0])
    parser.add_argument('--applies', action='store_true')
    parser.add_argument('--table', action='store_true')
    parser.add_argument('--oracles', action='store_true')
    parser.add_argument('--draw', type=int, metavar='COUNT')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--results', metavar='FILE')
    parser.add_argument('names', nargs='*')
    options = parser.parse_args()
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
    mutants = [Mutant.of_patch(os.path.basename(path)[:-len('.patch')],
                               read(path))
               for path in sorted(glob.glob('tests/mutants/*.patch'))]
    if options.applies:
        sys.exit(applies(mutants) != 0)
    if options.table:
        print(table(mutants), end='')
        return
    if options.oracles:
        print(oracle_table(mutants), end='')
        return
    results = Results(options.results)
    if options.draw:
        hunt_drawn(options, results)
    else:
        mutants = [m for m in mutants if NEMESIS not in m.tests and (
            not options.names or any(n in m.name for n in options.names))]
        if not mutants:
            sys.exit('mutants: no patch of tests/mutants has such a name')
        hunt_patches(mutants, results)
    counts = results.counts
    print(f'mutants: {counts["equivalent"]} equivalent, '
          f'{counts["caught"]} passed, {counts["survived"]} failed')
    sys.exit(counts['survived'] != 0)


if __name__ == '__main__':
    main()
