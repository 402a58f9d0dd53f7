# SPDX-License-Identifier: MIT
"""The body of a mutant: the lines that it changes, by function.

    --- lockfsm/lock/grant.c grant_first
    -    if (is_free(lock)) {
    +    if (true) {

A part names a file and, in C, a function; then follow the old lines
and the new ones. Lines are compared without their indentation,
and the function must have them once. So a bug stays planted when the lines
around it change, when the function moves within the file or to another one, and
when the file is renamed. Bodies that are patches are understood, too.
"""

import os
import re
import shutil
import subprocess
import tempfile


class Unplantable(Exception):
    """Why a mutant does not apply."""


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


def is_patch(text):
    return re.search(r'^@@ -\d', text, re.M) is not None


def paths(text):
    """The files that it names."""
    found = re.findall(r'^--- (\S+)', text, re.M)
    if is_patch(text):
        found = [path.removeprefix('a/') for path in found]
    return list(dict.fromkeys(found))


def parts_of(text):
    """Path, function or '', old lines, new lines."""
    parts = []
    for line in text[text.index('\n--- ') + 1:].rstrip('\n').split('\n'):
        found = re.fullmatch(r'--- (\S+)(?: (\w+))?', line)
        if found:
            parts.append((found[1], found[2] or '', [], []))
        elif line[:1] == '-':
            parts[-1][2].append(line[1:])
        elif line[:1] == '+':
            parts[-1][3].append(line[1:])
        else:
            raise Unplantable(f'it has a line without - or +: {line}')
    return parts


def extent(lines, function):
    """From the line that names the function to its end, or None."""
    name = re.compile(rf'^(?:[a-z_].*\W)?{function}\(')
    for start, line in enumerate(lines):
        if name.match(line):
            for end in range(start, len(lines)):
                if lines[end].startswith('}'):
                    return start, end + 1
                if lines[end].endswith(';') and lines[end][:1] != ' ' or \
                        lines[end].endswith(');') and end < start + 9 and \
                        '{' not in lines[start:end]:
                    break  # It is only a declaration.
    return None


def matches(lines, old):
    old = [line.strip() for line in old]
    stripped = [line.strip() for line in lines]
    return [i for i in range(len(lines) - len(old) + 1)
            if stripped[i:i + len(old)] == old]


def place(lines, function, old):
    """The position of the old lines if it is unique; otherwise the count."""
    found = extent(lines, function) if function else None
    if found:
        here = matches(lines[found[0]:found[1]], old)
        if len(here) == 1:
            return here[0] + found[0], 1
        if here:
            return None, len(here)
    here = matches(lines, old)
    return (here[0], 1) if len(here) == 1 else (None, len(here))


def home_of(tree, path, function, old):
    """The file that contains the lines now."""
    if os.path.exists(os.path.join(tree, path)):
        lines = read(os.path.join(tree, path)).split('\n')
        at, count = place(lines, function, old)
        if at is not None:
            return path
        if count > 1 or not function or extent(lines, function):
            raise Unplantable(f'{path}: {count} places have these lines:\n'
                              + '\n'.join(old))
    name = os.path.basename(path)
    kind = os.path.splitext(path)[1]
    found = subprocess.run(['git', 'ls-files', '*' + kind], check=True,
                           stdout=subprocess.PIPE, text=True).stdout.split()
    found = [one for one in found if
             os.path.exists(os.path.join(tree, one)) and
             (function or os.path.basename(one) == name) and
             has(os.path.join(tree, one), function, old)]
    if len(found) != 1:
        raise Unplantable(f'{path}: {len(found)} files have '
                          f'{function or name} with these lines:\n'
                          + '\n'.join(old))
    return found[0]


def has(path, function, old):
    text = read(path)
    if function and function not in text:
        return False
    lines = text.split('\n')
    return (not function or extent(lines, function) is not None) and \
        place(lines, function, old)[0] is not None


def planted_parts(tree, parts):
    texts = {}
    for path, function, old, new in parts:
        home = home_of(tree, path, function, old)
        lines = texts.get(home) or read(os.path.join(tree, home)).split('\n')
        at, _ = place(lines, function, old)
        if at is None:
            raise Unplantable(f'{home}: its parts are in the way of each other')
        texts[home] = lines[:at] + new + lines[at + len(old):]
    return {home: '\n'.join(lines) for home, lines in texts.items()}


def planted_patch(tree, text):
    with tempfile.TemporaryDirectory(prefix='hasp-') as here:
        for path in filter(lambda one: os.path.exists(os.path.join(tree, one)),
                           paths(text)):
            os.makedirs(os.path.join(here, os.path.dirname(path)),
                        exist_ok=True)
            shutil.copy(os.path.join(tree, path), os.path.join(here, path))
        done = subprocess.run(
            ['patch', '-s', '-p1', '-F2'], cwd=here, input=text,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            check=False)
        if done.returncode != 0:
            raise Unplantable(done.stdout)
        return {path: read(os.path.join(here, path)) for path in paths(text)}


def planted(tree, text):
    """The text of each file that has the bug, by its path in the tree."""
    if is_patch(text):
        return planted_patch(tree, text)
    return planted_parts(tree, parts_of(text))
