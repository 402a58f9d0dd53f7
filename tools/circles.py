#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that no more than three files call each other in a circle, that core
calls nothing of its wings, and that functions that no other file uses are
static.

Reads the calls from built objects: the relocations of their code, and of their
data, since functions are also called through tables; a table is found by its
name, as a function is. Files that call each other in a circle can only be
understood together. The remaining circles are in the table below, each with its
reason; a new one, or one that has grown, is an error, and so is one that has
shrunk or vanished but is still there.

    tools/circles.py BUILD      e.g. tools/circles.py build/check
"""

import glob
import os
import re
import subprocess
import sys

FILES_MAX = 3

# Core knows no command: core_new() receives the table, whose rows name
# functions of the wings alone.
CORE, WINGS = 'core/', ('core/commands/', 'core/redis/')
TABLE = 'core/commands/table'

# A file of the circle: the number of files, and why it still exists.
KNOWN = {
    'http/gateway': (6, 'Its table names the doors, and each of them sends its '
                        'commands through it; no door knows another one.'),
}


def objects(build):
    for path in glob.glob(build + '/**/*.o', recursive=True):
        name = path[len(build) + 1:-2]
        if '/' in name and not name.startswith(('tests/', 'gen/')) and \
                os.path.exists(name + '.c'):
            yield name, path


def read(build):
    """The calls between files; and the functions that no other file uses."""
    defined, functions, calls, uses, rows = {}, set(), {}, {}, set()
    for name, path in objects(build):
        out = subprocess.run(['nm', '--defined-only', path],
                             capture_output=True, text=True, check=True)
        for line in out.stdout.splitlines():
            words = line.split()
            if words[1] in 'TDRB':  # Functions, and tables of them.
                defined[words[2]] = name
                if words[1] == 'T':
                    functions.add(words[2])
        out = subprocess.run(['objdump', '-r', path], capture_output=True,
                             text=True, check=True)
        is_code = is_data = False
        for line in out.stdout.splitlines():
            if line.startswith('RELOCATION'):
                is_data = '[.data' in line
                is_code = '[.text' in line or is_data
            words = line.split()
            if len(words) != 3:
                continue
            symbol = words[2].split('-0x')[0].split('+0x')[0]
            uses.setdefault(symbol, set()).add(name)
            if is_code:
                calls.setdefault(name, set()).add(symbol)
            if is_data and name == TABLE:
                rows.add(symbol)
    graph = {name: {defined[s] for s in symbols
                    if s in defined and defined[s] != name}
             for name, symbols in calls.items()}
    lonely = {symbol: name for symbol, name in defined.items()
              if symbol in functions and
              not uses.get(symbol, set()) - {name}}
    return graph, lonely, {symbol: defined[symbol] for symbol in rows
                           if symbol in defined}


def upward(graph, rows):
    """Calls from core into its wings, and rows that name functions of core."""
    for name, others in sorted(graph.items()):
        if name.startswith(CORE) and not name.startswith(WINGS):
            for other in sorted(others):
                if other.startswith(WINGS):
                    yield f'{name}.c: core may not call {other}.c'
    for symbol, name in sorted(rows.items()):
        if not name.startswith(WINGS):
            yield (f'{name}.c: {symbol}() is a handler of the table of '
                   f'commands: move it to core/commands')


def used_elsewhere():
    """The words of tests and of code for users, which use functions, too."""
    words = set()
    for pattern in ('tests/**/*.[ch]', 'examples/**/*.c', 'include/**/*.h'):
        for path in glob.glob(pattern, recursive=True):
            with open(path, encoding='utf-8') as file:
                words.update(re.findall(r'\w+', file.read()))
    return words


def circles(graph):
    """The strongly connected parts of more than one file (Tarjan, 1972)."""
    index, low, stack, found = {}, {}, [], []

    def visit(name):
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph.get(name, ())):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            part = stack[stack.index(name):]
            del stack[stack.index(name):]
            if len(part) > 1:
                found.append(sorted(part))

    sys.setrecursionlimit(10000)
    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(found, key=len, reverse=True)


def main():
    build = sys.argv[1]
    problems, left = 0, dict(KNOWN)
    graph, lonely, rows = read(build)
    for problem in upward(graph, rows):
        problems += 1
        print(problem)
    others = used_elsewhere() | {'main'}
    for symbol, name in sorted(lonely.items()):
        with open(name + '.c', encoding='utf-8') as file:
            is_written = re.search(rf'\b{symbol}\b', file.read())
        if is_written and symbol not in others:  # Not made by a macro.
            problems += 1
            print(f'{name}.c: no other file uses {symbol}(): make it static')
    for part in circles(graph):
        known = [name for name in part if name in left]
        size = left.pop(known[0])[0] if known else FILES_MAX
        if len(part) > size or (known and len(part) < size):
            problems += 1
            print(f'tools/circles.py: {len(part)} files call each other in a '
                  f'circle, {size} are allowed: {" ".join(part)}')
    for name in left:
        problems += 1
        print(f'tools/circles.py: the circle around {name} has gone: take it '
              f'out of the table')
    print(f'circles: {problems} problems')
    sys.exit(problems != 0)


if __name__ == '__main__':
    main()
