#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that no more than three files call each other in a circle.

Reads the calls out of built objects (relocations of their code; tables of
functions are data and do not count). Files that call each other in a circle
can only be understood together. The circles that are left stand in the table
below, each with its reason; a new one, or one that has grown, is an error, and
so is one that has gone or shrunk and still stands there.

    tools/circles.py BUILD      e.g. tools/circles.py build/check
"""

import glob
import os
import subprocess
import sys

FILES_MAX = 3

# A file of the circle: how many there are, and why they are not untied yet.
KNOWN = {
}


def objects(build):
    for path in glob.glob(build + '/**/*.o', recursive=True):
        name = path[len(build) + 1:-2]
        if '/' in name and not name.startswith(('tests/', 'gen/')) and \
                os.path.exists(name + '.c'):
            yield name, path


def read(build):
    """Who calls whom, by file."""
    defined, calls = {}, {}
    for name, path in objects(build):
        out = subprocess.run(['nm', '--defined-only', path],
                             capture_output=True, text=True, check=True)
        for line in out.stdout.splitlines():
            words = line.split()
            if words[1] == 'T':
                defined[words[2]] = name
        out = subprocess.run(['objdump', '-r', path], capture_output=True,
                             text=True, check=True)
        is_code = False
        for line in out.stdout.splitlines():
            if line.startswith('RELOCATION'):
                is_code = '[.text' in line
            words = line.split()
            if is_code and len(words) == 3:
                symbol = words[2].split('-0x')[0].split('+0x')[0]
                calls.setdefault(name, set()).add(symbol)
    return {name: {defined[s] for s in symbols
                   if s in defined and defined[s] != name}
            for name, symbols in calls.items()}


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
    for part in circles(read(build)):
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
