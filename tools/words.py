#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts turns of phrase that make prose hard to read, and names that mislead,
and fails when a room has more of them than tools/words.tsv allows.

    tools/words.py            compares with the table (make lint-words)
    tools/words.py --write    lowers the figures that can be lower
    tools/words.py --rooms    prints the rate of each room, the worst first
    tools/words.py FILE...    prints each mark in these files

Prose is what people read: Markdown, comments, docstrings, and string literals
of three words or more. A room is a folder, or one page. Its figure is the
number of marks per 1,000 words, rounded up to the next half, so one more mark
does not fail a large room. A mark is a hint, not an error: the figure says
where to look, and a sentence is rewritten only if it gets better.

A room that is not in the table may have 3 marks per 1,000 words. Names are
counted in the C files of the product, without tests and examples.
"""

import bisect
import collections
import math
import os
import re
import subprocess
import sys

TABLE = 'tools/words.tsv'
GOAL = 3.0  # For a room that is not in the table.
LISTED = 20  # The marks printed of one room, at most.
READ = ('.c', '.h', '.def', '.md', '.txt', '.py', '.sh', '.js', '.ts', '.go',
        '.java', '.html')
# Vectors and mutants are data; this file has every pattern as an example.
SKIPPED = re.compile(r'tests/(vectors|mutants)/|tools/words\.py$')

HEAD = r'(?:^|[.;]\s+)'  # A sentence or a clause begins.

# Name, pattern, and the reason why a reader stops there.
MARKS = [
    ('tell', r'\b(?:tells?|told|telling)\b',
     'report, log, return, notify each name how it is told'),
    ('who', r'(?:^|[.;:,(]\s+|\b(?:of|for|to|by|from|and|that|than)\s+)'
     r'(?:who|whom|whoever|whose)\b(?! else)(?![^.;:]*\?)',
     'a clause as a noun hides the noun: a client, a node, a caller'),
    ('what first', HEAD + r'what\b(?![^.;]*\?)[^.;]*[.;]',
     'a clause as a subject is read twice: name the thing'),
    ('is no', r'(?<!there )\b(?:is|are|was|were)\s+no\s+(?!longer|more|one\b)\w',
     '"is not a" is the usual form'),
    ('stand', r'\bst(?:and|ands|ood|anding)\b',
     'a text is, appears, says; it does not stand'),
    ('so many', r'\bso (?:long|many|much|few)\b',
     'the reader looks for the measure: name it'),
    ('behind', r'\bbehind\b', '"after" for time, "following" for text'),
    ('any more', r'\b(?:not|no|nobody|nothing|never)\b[^.;]{0,30}\bany ?more\b'
     r'|\bno more\b(?! than\b| \w+s\b)', '"no longer" is shorter and comes first'),
    ('of first', HEAD + r'(?:of (?!course)|likewise\b)',
     'a fragment that begins with its end has no subject'),
    ('he', r'\b(?:he|his|him|himself)\b', 'a client is it, people are they'),
    ('come to', r'\b(?:has come|have come|had come|comes? to|goes on|go on|'
     r'gone on|going on)\b', 'reach, continue, become say it exactly'),
    ('look at', r'\blook(?:s|ed|ing)? (?:at|for|after)\b',
     'check, read, search say what is done'),
    ('as far as', r'\bas far as\b|\bup to (?:where|when|which)\b',
     'a bound without its name'),
    ('where', r'\bwhere (?:there|it|none|that|nobody|no|one|they|this)\b',
     '"if" for a condition, "when" for a time'),
    ('else', r'(?:^|[;,.]\s+)else\b(?! if\b)',
     '"otherwise" begins a clause, "else" does not'),
    ('private word', r'\b(?:reign|heir|stranger|pardon\w*|in vain|unwelcome|'
     r'anew|thereby|whither|nought)s?\b',
     'a reader has to learn it first: the field has a term'),
]
MARKS = [(name, re.compile(pattern, re.I), reason)
         for name, pattern, reason in MARKS]

# Phrases in which a marked word is the right one.
ALLOWED = re.compile('|'.join([
    r'\bbehind (?:a |the |an )?(?:\w+ )?(?:proxy|proxies|balancer|firewall|NAT)',
    r'\b(?:falls?|fell|lags?|far|left|entries) behind\b',  # A follower's lag.
    r'\bstand for election\b',  # Raft's term.
    r'\btells? \w+(?: \w+)? apart\b',  # An idiom without a shorter verb.
    r'\bhow to tell\b',  # To distinguish.
    r'\bevery so (?:many|often)\b',  # The measure is not what matters.
    r'\bstands for\b',  # An abbreviation.
]), re.I)

# Names that several functions have for a reason.
ALLOWED_NAMES = {
    'main': 'each program has one',
}

TOKENS_C = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|'
                      r"'(?:\\.|[^'\\\n])*'|`[^`]*`", re.S)
TOKENS_HASH = re.compile(r'(?<!\S)#[^\n]*|"""(?:\\.|[^\\])*?"""|'
                         r'"(?:\\.|[^"\\\n])*"|' r"'(?:\\.|[^'\\\n])*'", re.S)
MARKUP = re.compile(r'^\s*(?:/\*+|\*+/|\*(?!\S)|//+|#+!?|[rbf]*"{1,3})?\s?|'
                    r'\s*(?:\*+/|"{1,3})\s*$')


class Block:
    """A piece of prose: one text, and the line of each of its places."""

    def __init__(self):
        self.text = ''
        self.starts = []
        self.lines = []

    def add(self, line, text):
        if text.strip():
            self.starts.append(len(self.text))
            self.lines.append(line)
            self.text += text.strip() + ' '

    def line_of(self, place):
        return self.lines[bisect.bisect_right(self.starts, place) - 1]


def paragraphs(text):
    """The blocks of a page: paragraphs, rows and items, without programs."""
    block = Block()
    fenced = False
    for number, line in enumerate(text.split('\n'), 1):
        fence = line.lstrip().startswith('```')
        fenced ^= fence
        if fence or fenced or line.startswith('    ') or not line.strip() or \
                re.match(r'\s*(?:[-*#|]|\d+\.)', line):
            yield block
            block = Block()
        if not (fence or fenced or line.startswith('    ')):
            block.add(number, re.sub(r'^\s*(?:[-*#|]+|\d+\.)\s|`[^`]*`', ' X ',
                                     line).replace('**', '').strip(' X|')
                      if line.lstrip()[:1] in '-*#|0123456789' else
                      re.sub(r'`[^`]*`', 'X', line).replace('**', ''))
    yield block


def tokens(text, pattern):
    """The blocks of a source: comments and literals, neighbours joined."""
    block, last, end, line = Block(), None, 0, 1
    for match in pattern.finditer(text):
        word = match.group(0)
        gap = text[end:match.start()]
        line += text.count('\n', end, match.start())
        is_literal = word[0] in '"\'`' and not word.startswith('"""')
        kind = 'literal' if is_literal else word[:2]
        joins = kind == last and not gap.strip(' \n+\\') and (
            kind == 'literal' or (kind != '/*' and gap.count('\n') == 1))
        if not joins:
            yield last, block
            block = Block()
        if is_literal:
            start = len(block.text)
            block.add(line, re.sub(r'\\[nt]', ' ', word[1:-1]) or ' ')
            if len(block.text) > start and not word[-2:-1].isspace():
                block.text = block.text[:-1]  # "one " "text" joins as it is.
        else:
            for number, part in enumerate(word.split('\n')):
                block.add(line + number, MARKUP.sub('', part))
        line += word.count('\n')
        last, end = kind, match.end()
    yield last, block


def prose(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        text = file.read()
    if path.endswith('.md'):
        blocks = paragraphs(text)
    elif path.endswith('.txt') and path.startswith('tests/'):
        blocks = (block for kind, block in tokens(text, re.compile(
            r'^#[^\n]*', re.M)))
    elif path.endswith('.txt'):
        blocks = paragraphs(text.replace('\n    ', '\n'))
    else:
        pattern = TOKENS_HASH if path.endswith(('.py', '.sh')) else TOKENS_C
        blocks = (block for kind, block in tokens(text, pattern)
                  if kind != 'literal' or
                  len(re.findall(r'[A-Za-z]{2,}', block.text)) >= 3 and
                  ' ' in block.text.strip())
    return [block for block in blocks if re.search('[a-z]{3}', block.text)]


def marks(block):
    """Yields the line, name and excerpt of each mark."""
    allowed = [match.span() for match in ALLOWED.finditer(block.text)]
    for name, pattern, _ in MARKS:
        for match in pattern.finditer(block.text):
            start, end = match.span()
            if any(a < end and start < b for a, b in allowed):
                continue
            # A pattern may begin with the end of the sentence before.
            begin = start + re.match(r'[.;:,(\s]*', match.group(0)).end()
            yield block.line_of(begin), name, \
                block.text[max(0, begin - 20):begin + 50].strip()


def room_of(path):
    parts = path.split('/')
    if len(parts) == 1 or path.startswith('docs/') and path.endswith('.md'):
        return path
    two = parts[0] in ('tests', 'clients', 'cmd', 'core', 'docs')
    return '/'.join(parts[:2]) if two and len(parts) > 2 else parts[0]


def names(paths):
    """Counts of names that mislead, each with the names."""
    functions = collections.defaultdict(set)
    structs = collections.defaultdict(set)
    for path in paths:
        if not path.endswith(('.c', '.h')) or \
                path.startswith(('tests/', 'examples/', 'clients/')):
            continue
        with open(path, encoding='utf-8') as file:
            code = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', ' ', file.read(),
                          flags=re.S)
        if path.endswith('.c'):
            for name in re.findall(r'^[A-Za-z_][\w \t*]*?\b([a-z_]\w*)'
                                   r'\([^;{}]*\)\s*\{', code, flags=re.M):
                functions[name].add(path)
        for name in re.findall(r'^(?:typedef )?struct (\w+) \{', code,
                               flags=re.M):
            structs[name].add(path)

    def shared(found):
        return [f'{name} ({", ".join(sorted(places))})'
                for name, places in sorted(found.items())
                if len(places) > 1 and name not in ALLOWED_NAMES]
    return {
        'functions of one word': sorted(
            f'{name} ({", ".join(sorted(places))})'
            for name, places in functions.items()
            if '_' not in name and name not in ALLOWED_NAMES),
        'function names that several functions have': shared(functions),
        'struct names that several structs have': shared(structs),
    }


def git(*arguments):
    return subprocess.run(['git', *arguments], text=True, check=False,
                          capture_output=True).stdout


def lines_added():
    """The lines, by file, that are new since the table was last written."""
    commit = git('log', '-1', '--format=%H', '--', TABLE).strip()
    added = collections.defaultdict(set)
    path = None
    for line in git('diff', '-U0', '-M', commit or 'HEAD').split('\n'):
        if line.startswith('+++ '):
            path = line[6:]
        elif match := re.match(r'@@ \S+ \+(\d+)(?:,(\d+))? @@', line):
            first, count = int(match[1]), int(match[2] or 1)
            added[path].update(range(first, first + count))
    return added


def read_table():
    table = {}
    if os.path.exists(TABLE):
        with open(TABLE, encoding='utf-8') as file:
            for line in file:
                if line.strip() and not line.startswith('#'):
                    name, figure = line.rstrip('\n').split('\t')
                    table[name] = float(figure)
    return table


def write_table(figures):
    """Lowers the figures; a raised one is an edit by hand, for all to see."""
    old = read_table()
    if old:  # A new room begins at the goal, however bad it is.
        figures = {name: figure if name in old or ' ' in name else
                   min(figure, GOAL) for name, figure in figures.items()}
    with open(TABLE, 'w', encoding='utf-8') as file:
        file.write('# The most marks per 1,000 words in each room, and the most '
                   'names of each kind.\n# tools/words.py --write lowers '
                   'them.\n')
        for name, figure in sorted(figures.items()):
            file.write(f'{name}\t{min(figure, old.get(name, figure)):g}\n')


def rounded(count, words):
    return max(0.5, math.ceil(2000 * count / words) / 2)


def measure(paths):
    """The words of each room, and its marks: (path, line, name, excerpt)."""
    words, found = collections.Counter(), collections.defaultdict(list)
    for path in paths:
        room = room_of(path)
        for block in prose(path):
            words[room] += len(block.text.split())
            found[room] += [(path, *mark) for mark in marks(block)]
    return words, found


def show(mark, reasons):
    path, line, name, excerpt = mark
    print(f'{path}:{line}: "{name}" in: {excerpt}: {reasons[name]}')


def check(words, found, bad_names, reasons):
    table, added, failed = read_table(), None, 0
    for room in sorted(words):
        figure = table.get(room, GOAL)
        most = math.ceil(figure * words[room] / 1000)
        if len(found[room]) <= most:
            continue
        failed += 1
        added = lines_added() if added is None else added
        new = [mark for mark in found[room] if mark[1] in added[mark[0]]]
        for mark in (new or found[room])[:LISTED]:
            show(mark, reasons)
        advice = f'rewrite the {len(new)} marks on new lines' if new else \
            'no marked line is new: rewrite any of them'
        print(f'{room}: {len(found[room])} marks in {words[room]} words, at '
              f'most {most} ({figure:g} per 1,000): {advice}')
    for kind, bad in bad_names.items():
        if len(bad) > table.get(kind, 0):
            failed += 1
            print('\n'.join(bad))
            print(f'{kind}: {len(bad)}, at most {table.get(kind, 0):g}')
    total = sum(map(len, found.values()))
    print(f'words: {sum(words.values())} words, {total} marks, '
          f'figures of {TABLE} exceeded: {failed}')
    return 1 if failed or not words else 0


def main(arguments):
    reasons = {name: reason for name, _, reason in MARKS}
    tracked = [path for path in git('ls-files').split('\n')
               if os.path.isfile(path)]
    files = [path for path in arguments if not path.startswith('--')]
    paths = [path for path in files or tracked
             if path.endswith(READ) and os.path.isfile(path) and
             (files or not SKIPPED.match(path))]
    words, found = measure(paths)
    if files:
        for mark in sorted(mark for each in found.values() for mark in each):
            show(mark, reasons)
        return 0
    if '--rooms' in arguments:
        for room in sorted(words, key=lambda r: -len(found[r]) / words[r]):
            print(f'{1000 * len(found[room]) / words[room]:6.1f}  {room} '
                  f'({words[room]} words)')
        return 0
    bad_names = names(tracked)
    if '--write' in arguments:
        write_table({room: rounded(len(found[room]), words[room])
                     for room in words} |
                    {kind: len(bad) for kind, bad in bad_names.items()})
        return 0
    return check(words, found, bad_names, reasons)


sys.exit(main(sys.argv[1:]))
