#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks what a formatter does not: lengths, guards, licences, left-overs.

Findings have one shape, "file:line: what". Lengths: 70 lines a function, 1000 a
file, 80 columns a line (88 in Python, as its formatters have it).
"""

import re
import subprocess
import sys

FUNCTION_LINES = 70
FILE_LINES = 1000
COLUMNS = 80
COLUMNS_PYTHON = 88

BANNED = {
    'strcpy': 'snprintf', 'strcat': 'snprintf', 'sprintf': 'snprintf',
    'gets': 'fgets', 'strtok': 'strtok_r', 'atoi': 'bytes_to_u64',
    'atol': 'bytes_to_u64', 'alloca': 'memory_new', 'signal': 'sigaction',
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


def main():
    tracked = subprocess.run(['git', 'ls-files'], check=True, text=True,
                             capture_output=True).stdout.split('\n')
    seen = 0
    for path in tracked:
        if not path.endswith(('.c', '.h', '.py', '.sh', '.def')):
            continue
        try:
            with open(path, encoding='utf-8') as file:
                text = file.read()
        except FileNotFoundError:
            continue
        seen += 1
        check_text(path, text)
        if path.endswith(('.c', '.h')):
            check_c(path, text)
    for problem in problems:
        print(problem)
    print(f'tidy: {seen} files, {len(problems)} problems')
    return 1 if problems or seen == 0 else 0


sys.exit(main())
