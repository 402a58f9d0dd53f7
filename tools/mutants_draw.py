# SPDX-License-Identifier: MIT
"""Random bugs for mutants.py: each place of the pure rooms at which a
condition can be negated, a statement dropped, or a bound moved by one; and which
tests run that place.

A bug's name is its file, what was done, and the line itself. Which names are
drawn depends on the seed and the name alone, so that a change of one line
leaves the others drawn.
"""

import collections
import glob
import hashlib
import json
import os
import re
import subprocess
import sys

import layers

# Code that only checks or counts and is not behaviour: a bug there harms no user of
# a lock.
LEFT_OUT = re.compile(r'invariants\.c$|^core/measures\.c$|^base/(check|log)\.c$')
# Macros with arguments that have no effect, up to the end of the statement.
REMARK = re.compile(r'\b(CHECK|CHECK_SLOW|UNREACHABLE|LOG_[A-Z]+|_Static_assert'
                    r'|log_limit_pass)\(|->counts\.')
STATEMENT = re.compile(
    r'\s+(?!return\b|break;|continue;|goto\b|\(void\)|if \(|else\b'
    r'|for \(|while \(|switch \(|case\b|do\b'
    # Only the sanitizers see that memory is not freed.
    r'|(\w*_)?free\(|(buffer|record|tally|query|reader|effects)_done\()'
    r'\*?[a-z_]+[\w>.\-\[\]]*(\(|\+\+;|--;| [-+|&*/^]?= )')
OPERATORS = [(' < ', ' <= '), (' <= ', ' < '), (' > ', ' >= '),
             (' >= ', ' > '), (' + 1', ''), (' - 1', ''), (' && ', ' || '),
             (' || ', ' && '), (' == ', ' != '), (' != ', ' == ')]

# One bug: lines at to end (the first is 0) of the file become the text.
Place = collections.namedtuple('Place', 'name path at end text')


def pure_files(tree):
    listed = subprocess.run(['git', 'ls-files', '*.c'], check=True, text=True,
                            stdout=subprocess.PIPE).stdout.split()
    return [path for path in listed
            if (layers.room_of(path) or [False])[-1] is True
            and os.path.exists(f'{tree}/{path}')
            and not path.startswith('tests/') and not LEFT_OUT.search(path)]


def without_remarks(lines):
    """The lines, those empty that are comments, checks, log lines, counts or
    outside of functions."""
    kept = []
    in_function = in_comment = in_remark = False
    for line in lines:
        if line.startswith('{'):
            in_function = True
        elif line.startswith('}'):
            in_function = False
        code = re.sub(r'/\*.*?\*/', lambda found: ' ' * len(found[0]), line)
        was_comment = in_comment
        in_comment = '/*' in code or (in_comment and '*/' not in code)
        in_remark = in_remark or REMARK.search(code) is not None
        plain = in_function and not (was_comment or in_comment or in_remark)
        kept.append(line if plain else '')
        in_remark = in_remark and not code.rstrip().endswith(';')
    return kept


def end_of_statement(lines, at):
    """The line after the statement, or None if its end is not recognized."""
    for end in range(at, min(at + 12, len(lines))):
        if '{' in lines[end] or '}' in lines[end] or lines[end] == '':
            return None
        if lines[end].endswith(';'):
            return end + 1
    return None


def changes_of(lines, at):
    """Each mutation of the line: the change, the line after the
    last that changes, and the wrong text."""
    line = lines[at]
    condition = re.match(r'(\s+(?:\} else )?(?:if|while) \()(.*)(\) \{)$', line)
    negated = condition and condition[2].count('(') == condition[2].count(')')
    if negated:
        yield 'negated', at + 1, f'{condition[1]}!({condition[2]}){condition[3]}'
    if STATEMENT.match(line) and re.search(r'[;{}:]$', lines[at - 1] or ';'):
        end = end_of_statement(lines, at)
        if end is not None:
            yield 'dropped', end, re.sub(r'\S.*', ';', line)
    is_simple = negated and ' && ' not in line and ' || ' not in line
    for old, new in OPERATORS:
        if line.count(old) == 1 and '"' not in line and \
                not (is_simple and old in (' == ', ' != ')):
            yield f'"{old.strip()}" moved', at + 1, line.replace(old, new)


def places_of(path, lines):
    seen = collections.Counter()
    code = without_remarks(lines)
    for at in range(1, len(code)):
        for what, end, text in changes_of(code, at):
            name = f'{path}: {what}: {code[at].strip()}'
            seen[name] += 1
            if seen[name] > 1:
                name += f' #{seen[name]}'
            yield Place(name, path, at, end, text)


def all_places(tree):
    places = []
    for path in pure_files(tree):
        with open(f'{tree}/{path}', encoding='utf-8') as file:
            places += places_of(path, file.read().split('\n'))
    return places


def drawn(tree, seed):
    """All places of a copy of the tree, in the order in which the seed draws
    them."""
    return sorted(all_places(tree), key=lambda place: hashlib.sha256(
        f'{seed} {place.name}'.encode()).digest())


def digest_of(paths, *more):
    found = hashlib.sha256(' '.join(more).encode())
    for path in sorted(paths):
        with open(path, 'rb') as file:
            found.update(path.encode() + file.read())
    return found.hexdigest()


def lines_run(tree):
    """By file: the lines that gcov knows as code, each with how often it was
    run since the last data were removed."""
    data = [os.path.relpath(path, tree) for path in
            glob.glob(f'{tree}/build/coverage/**/*.gcda', recursive=True)
            if '/tests/' not in path]
    if not data:
        sys.exit('a test has left no data for gcov: it did not end by itself')
    told = subprocess.run(['gcov', '--json-format', '--stdout', *data],
                          cwd=tree, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, check=True).stdout
    found = {}
    for report in told.splitlines():
        for file in json.loads(report)['files']:
            lines = found.setdefault(file['file'], {})
            for line in file['lines']:
                lines[line['line_number']] = line['count'] + \
                    lines.get(line['line_number'], 0)
    return found


class Reach:
    """The time and the lines of each test, stored in the copy of the tree
    until the test or the code changes."""

    def __init__(self, tree, tests, measure):
        """measure(test) is the CPU seconds that the test takes; then it has left
        gcov's data."""
        self.of_test = {}
        code = digest_of(path for path in glob.glob(f'{tree}/*/**/*.[ch]',
                                                    recursive=True)
                         if f'{tree}/tests/' not in path) + digest_of(
                             path for name in ('fsm', 'transcripts', 'vectors')
                             for path in glob.glob(f'{tree}/tests/{name}/*')
                             if os.path.isfile(path))
        os.makedirs(f'{tree}/build/reach', exist_ok=True)
        for test in tests:
            name = test.split()[0]
            own = glob.glob(f'{tree}/tests/{name}.c') + \
                glob.glob(f'{tree}/tests/{name}/*.[ch]') + \
                glob.glob(f'{tree}/tests/{name}/*.py')
            kept = f'{tree}/build/reach/{name.replace("/", "-")}.json'
            key = digest_of(own, code, test)
            found = None
            if os.path.exists(kept):
                with open(kept, encoding='utf-8') as file:
                    found = json.load(file)
            if found is None or found['key'] != key:
                found = self._measure(tree, test, key, measure)
                with open(kept + '.new', 'w', encoding='utf-8') as file:
                    json.dump(found, file)
                os.replace(kept + '.new', kept)
            self.of_test[test] = found

    @staticmethod
    def _measure(tree, test, key, measure):
        for old in glob.glob(f'{tree}/build/coverage/**/*.gcda',
                             recursive=True):
            os.unlink(old)
        seconds = measure(test)
        lines = lines_run(tree)
        return {'key': key, 'seconds': seconds,
                'code': {path: list(of) for path, of in lines.items()},
                'run': {path: [at for at, count in of.items() if count > 0]
                        for path, of in lines.items()}}

    def seconds(self, test):
        return self.of_test[test]['seconds']

    def tests(self, place):
        """Those that run the place, or the last line before it that is code; the
        quickest first."""
        code = {at for found in self.of_test.values()
                for at in found['code'].get(place.path, [])}
        at = max((at for at in code if at <= place.at + 1), default=0)
        return sorted((test for test, found in self.of_test.items()
                       if at in found['run'].get(place.path, [])),
                      key=self.seconds)
