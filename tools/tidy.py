#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what a formatter does not: lengths, guards, licences, leftovers, and
that the files, functions and tests named in prose exist, and the targets of
links.

Findings have one shape, "file:line: what". Lengths: 70 lines a function, 1000 a
file, 80 columns a line (88 in Python, as its formatters have it).
"""

import fnmatch
import os
import re
import subprocess
import sys

FUNCTION_LINES = 70
FILE_LINES = 1000
COLUMNS = 80
COLUMNS_PYTHON = 88

BANNED = {
    'strcpy': 'snprintf', 'strncpy': 'snprintf', 'strcat': 'snprintf',
    'sprintf': 'snprintf', 'gets': 'fgets', 'strtok': 'strtok_r',
    'atoi': 'bytes_to_u64', 'atol': 'bytes_to_u64', 'alloca': 'memory_new',
    'signal': 'sigaction',
}

problems = []


def report(path, line, what):
    problems.append(f'{path}:{line}: {what}')


def strip(text):
    """Blanks comments and strings, keeping the lines."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  blank, text, flags=re.S)


def check_functions(path, lines):
    start = None
    for number, line in enumerate(lines, 1):
        if line.startswith('{') and start is None:
            start = number
        elif line.startswith('}') and start is not None:
            length = number - start + 1
            if not line.startswith(('};', '} ')) and length > FUNCTION_LINES:
                report(path, start, f'function of {length} lines, at most '
                       f'{FUNCTION_LINES}')
            start = None


def check_c(path, text):
    lines = text.split('\n')
    code = strip(text)
    code_lines = code.split('\n')
    if not lines[0].startswith('/* SPDX-License-Identifier: MIT */'):
        report(path, 1, 'first line must be the SPDX licence line')
    if path.endswith('.h'):
        guard = 'HASP_' + re.sub(r'[^A-Z0-9]', '_', path.upper())
        guard = guard.replace('HASP_INCLUDE_HASP_', 'HASP_')
        if f'#ifndef {guard}' not in text or f'#define {guard}' not in text:
            report(path, 1, f'include guard must be {guard}')
        if '/*' not in '\n'.join(lines[1:8]):
            report(path, 1, 'a header begins with a design note')
    for number, line in enumerate(code_lines, 1):
        if re.search(r'(^|\s)//', line):
            report(path, number, 'line comment: use /* */')
        for word, instead in BANNED.items():
            if re.search(rf'(?<![\w.>]){word}\s*\(', line):
                report(path, number, f'{word}(): use {instead}')
    check_functions(path, code_lines)


def check_text(path, text):
    lines = text.split('\n')
    columns = COLUMNS_PYTHON if path.endswith('.py') else COLUMNS
    if len(lines) - 1 > FILE_LINES:
        report(path, len(lines), f'{len(lines) - 1} lines, at most '
               f'{FILE_LINES}')
    if path.startswith('tools/') and text.startswith('#!') and \
            not os.access(path, os.X_OK):
        report(path, 1, 'cannot be executed: chmod +x')
    for number, line in enumerate(lines, 1):
        if len(line) > columns:
            report(path, number, f'{len(line)} columns, at most {columns}')
        if line != line.rstrip():
            report(path, number, 'blanks at the end of the line')
        if '\t' in line:
            report(path, number, 'tab')
        if re.search(r'\b(FIXME|XXX|TODO|HACK)\b', line) and \
                path != 'tools/tidy.py':
            report(path, number, 'left-over marker')


def anchors(path):
    """Anchors of the headings of a page in Markdown, as viewers generate them."""
    with open(path, encoding='utf-8') as file:
        text = re.sub(r'^```.*?^```', '', file.read(), flags=re.S | re.M)
    found = {}
    for heading in re.findall(r'^#+ (.+?)\s*$', text, flags=re.M):
        shown = re.sub(r'\[([^\]]*)\]\([^)]*\)', r'\1', heading).lower()
        word = re.sub(r'[^\w\- ]', '', shown).replace(' ', '-')
        found[word] = found.get(word, -1) + 1
    return {word if i == 0 else f'{word}-{i}'
            for word, count in found.items() for i in range(count + 1)}


def check_links(path, text):
    """Checks that each link within the project leads to a file and a heading in it."""
    for match in re.finditer(r'\]\(([^)\s]+)\)', text):
        target, _, anchor = match.group(1).partition('#')
        if re.match(r'[a-z]+:', target):
            continue
        line = text.count('\n', 0, match.start()) + 1
        file = os.path.normpath(os.path.join(os.path.dirname(path), target)) \
            if target else path
        if not os.path.exists(file):
            report(path, line, f'there is no {target}')
        elif anchor and file.endswith('.md') and anchor not in anchors(file):
            report(path, line, f'{file} has no heading #{anchor}')


def is_prose(path):
    """Whether the files, functions and tests that this file names must exist."""
    return path.endswith('README.md') or path in (
        'ARCHITECTURE.md', 'CONTRIBUTING.md', 'core/commands/commands.h')


def spans(path, text):
    """Yields each text that may name something, with its line: in Markdown the
    text between backticks, in C the comments."""
    pattern = r'`([^`\n]+)`' if path.endswith('.md') else r'/\*(.*?)\*/'
    for match in re.finditer(pattern, text, flags=re.S):
        yield (text.count('\n', 0, match.start()) + 1,
               re.sub(r'<\w+>', '*', match.group(1)))


def files_of(name, home, tracked):
    """The files meant by a path from the top or from the folder 'home', by its
    last parts, without its ending, as a folder, or as a pattern."""
    name = name.rstrip('/')
    return [path for path in tracked for start in ('', home + '/', '*/')
            for end in ('', '.?*', '/*')
            if fnmatch.fnmatchcase(path, start + name + end)]


def check_names(path, text, words):
    """'words' has those of each tracked file, comments left out."""
    home = path.rpartition('/')[0]
    tops = {other.partition('/')[0] for other in words if '/' in other}
    anywhere = set().union(*words.values())
    anywhere.update(re.split(r'[/.]', other)[-2] for other in words
                    if '.' in other)
    for number, span in spans(path, text):
        # "file.c: function, function" and "test_file: test"
        place = re.fullmatch(r'(test_\w+|[\w/]+\.[chj]s?|[\w/]+\.py): ([\w, ]+)',
                             span)
        if place:
            stem = re.sub(r'\.\w+$', '', place.group(1))
            there = set().union(*(words[other] for other in
                                  files_of(stem, home, words)))
            for word in set(re.findall(r'\w+', place.group(2))) - there:
                report(path, number, f'{place.group(1)} has no {word}')
            continue
        for word in re.findall(r'(?<![\w/<.-])\w[\w./*\[\]-]+', span):
            is_path = word.partition('/')[0] in tops and '/' in word[:-1]
            if (is_path or re.fullmatch(r'\w+\.([chj]|def|py)', word)) and \
                    not files_of(word.rstrip('.'), home, words):
                report(path, number, f'there is no file {word}')
        for function, other in re.findall(
                r'\b([a-z]\w*)\(\)|\b([a-z]\w*_\w+_\w+)\b', span):
            if (function or other) not in anywhere:
                report(path, number, f'nothing is called {function or other}')


def main():
    tracked = subprocess.run(['git', 'ls-files'], check=True, text=True,
                             capture_output=True).stdout.split('\n')
    seen = 0
    words = {}
    prose = {}
    for path in tracked:
        try:
            with open(path, encoding='utf-8') as file:
                text = file.read()
        except (FileNotFoundError, UnicodeDecodeError):
            continue
        words[path] = set() if path.endswith('.md') else set(re.findall(
            r'\w+', re.sub(r'/\*.*?\*/', '', text, flags=re.S)
            if path.endswith(('.c', '.h')) else text))
        if is_prose(path):
            prose[path] = text
        if path.endswith('.md'):
            check_links(path, text)
        if not path.endswith(('.c', '.h', '.py', '.sh', '.def')):
            continue
        seen += 1
        check_text(path, text)
        if path.endswith(('.c', '.h')):
            check_c(path, text)
    for path, text in prose.items():
        check_names(path, text, words)
    for problem in problems:
        print(problem)
    print(f'tidy: {seen} files, {len(problems)} problems')
    return 1 if problems or seen == 0 else 0


sys.exit(main())
