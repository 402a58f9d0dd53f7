#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that no expression of the simulator draws two random numbers in an
order that the compiler may choose.

A seed is one history in every build, so the first number that is drawn must go
to the same use with gcc as with clang. C leaves open which argument, which
operand of most operators and which member of a list in braces is evaluated
first. Only `&&`, `||` and `?:` have an order.

A function draws if it calls the generator (base/prng.h) or a function that
draws. Names are compared, so a static function counts in its own file alone.

    tools/draws.py      prints "file:line: what"
"""

import glob
import re
import sys

GENERATOR = {'prng_next', 'prng_below', 'prng_chance'}
FILES = ('tests/sim/*.c', 'tests/unit/drawn_requests.c')
# Members that point to such a function.
POINTERS = {'below'}
TOKEN = re.compile(r'[A-Za-z_]\w*|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|->|\S')
WORDS = {'if', 'while', 'for', 'switch', 'return', 'sizeof', 'case', 'else',
         'do'}
# Operators whose operands have an order.
IN_ORDER = {'&&', '||', '?', ':'}


def strip(text):
    """Blanks comments, strings and lines for the preprocessor."""
    def blank(match):
        return re.sub(r'[^\n]', ' ', match.group(0))
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'',
                  blank, text, flags=re.S)
    return re.sub(r'^#(?:.*\\\n)*.*$', blank, text, flags=re.M)


def functions(text):
    """(name, is static, line, body) of each function; the house's style has
    its braces alone in the first column."""
    for match in re.finditer(r'^([A-Za-z_][^;{}()]*?)(\w+)\([^;{}]*\)\n'
                             r'\{\n(.*?)^\}', text, re.S | re.M):
        line = text.count('\n', 0, match.start(3)) + 1
        yield (match.group(2), 'static' in match.group(1), line,
               match.group(3))


def tokens(body, line):
    found = []
    at = 0
    for match in TOKEN.finditer(body):
        line += body.count('\n', at, match.start())
        at = match.start()
        found.append((match.group(0), line))
    return found


def called(found):
    return {word for (word, _), (after, _) in zip(found, found[1:])
            if after == '(' and word not in WORDS}


def statements(found):
    """Cuts at ";", "{" and "}" between statements; braces of a list stay."""
    current, depth, lists = [], 0, []
    for i, (word, line) in enumerate(found):
        if word in '([':
            depth += 1
        elif word in ')]':
            depth -= 1
        is_list = word == '{' and current and \
            current[-1][0] in ('=', ')', ',', '(', '{') and not (
                current[-1][0] == ')' and is_head(current))
        if is_list:
            lists.append(depth)
            depth += 1
        elif word == '}' and lists:
            depth -= 1
            lists.pop()
        elif word in (';', '{', '}') and (word != ';' or not depth or
                                          is_for(current)):
            yield current
            current, depth = ([], 0) if word != ';' or not depth else \
                ([('for', line), ('(', line)], 1)
            continue
        current.append((word, line))
    yield current


def is_for(current):
    return bool(current) and current[0][0] == 'for'


def is_head(current):
    """A condition in parentheses, or the head of LIST_EACH and its like."""
    first = current[0][0]
    return first in WORDS or re.fullmatch(r'[A-Z_]+', first) is not None


def draws_of(statement, drawing):
    """(place, end of its arguments) of each call that draws."""
    for i, (word, _) in enumerate(statement[:-1]):
        is_call = statement[i + 1][0] == '('
        before = statement[i - 1][0] if i else ''
        if is_call and (word in POINTERS if before in ('->', '.')
                        else word in drawing):
            depth, end = 0, i + 1
            while end < len(statement):
                depth += (statement[end][0] == '(') - \
                    (statement[end][0] == ')')
                if depth == 0:
                    break
                end += 1
            yield i, end


def are_ordered(between):
    """Whether what stands between two calls gives them an order: the weakest
    operator at the smallest depth does, or does not."""
    depth = least = 0
    at_least = []
    for word, _ in between:
        if word in ')]}':
            depth -= 1
            if depth < least:
                least, at_least = depth, []
        elif word in '([{':
            depth += 1
        elif depth == least:
            at_least.append(word)
    if ',' in at_least or any(re.fullmatch(r'[-+*/%&|^]?=', word)
                              for word in at_least):
        return False
    return any(word in IN_ORDER for word in at_least)


def check(path, name, statement, drawing):
    calls = list(draws_of(statement, drawing))
    for i, (first, end) in enumerate(calls):
        for second, _ in calls[i + 1:]:
            if second < end:
                continue  # Arguments are evaluated before the call.
            if not are_ordered(statement[end + 1:second]):
                yield (f'{path}:{statement[second][1]}: {name}() draws two '
                       f'numbers in an order that the compiler chooses: '
                       f'{statement[first][0]}, {statement[second][0]}; draw '
                       'the first one in a statement of its own')
                return


def main():
    files = {}
    for pattern in FILES:
        for path in sorted(glob.glob(pattern)):
            with open(path, encoding='utf-8') as file:
                files[path] = [(*one[:2], tokens(one[3], one[2])) for one in
                               functions(strip(file.read()))]
    everywhere, own = set(GENERATOR), {path: set() for path in files}
    is_new = True
    while is_new:
        is_new = False
        for path, those in files.items():
            for name, is_static, found in those:
                where = own[path] if is_static else everywhere
                if name not in where and (
                        called(found) & (everywhere | own[path]) or
                        called(found) & POINTERS):
                    where.add(name)
                    is_new = True
    problems = []
    for path, those in files.items():
        for name, _, found in those:
            for statement in statements(found):
                problems += check(path, name, statement,
                                  everywhere | own[path])
    print('\n'.join(problems), end='\n' if problems else '')
    count = sum(len(those) for those in files.values())
    if not problems:
        print(f'draws: {count} functions, one number at a time')
    return bool(problems)


if __name__ == '__main__':
    sys.exit(main())
