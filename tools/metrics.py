#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that docs/monitoring.md has each metric, and that no page, alert or
panel names a metric that does not exist.

A metric is one call in node/metrics.c, with its help. The table of all metrics
on the page is made of these calls, and of packaging/alerts.yml and
packaging/dashboard.json, which say who reads it.

    tools/metrics.py            check, as make lint does
    tools/metrics.py --write    make the table again
"""

import glob
import re
import sys

SOURCE = 'node/metrics.c'
PAGE = 'docs/monitoring.md'
ALERTS = 'packaging/alerts.yml'
DASHBOARD = 'packaging/dashboard.json'
HEAD = '| metric | type | meaning | read by |\n|---|---|---|---|\n'
CALL = re.compile(r'\bmetrics_(head|counter|gauge)\(\s*out,\s*"(\w+)",\s*'
                  r'((?:"(?:[^"\\]|\\.)*"[,\s]*)+)')
NAME = re.compile(r'\b((?:hasp|process)_[a-z_]+)(?=[{`"\s\[()|,.:)]|$)')
PARTS = ('_bucket', '_sum', '_count')


def metrics():
    """(name, type, help) of each, in the order of the source."""
    with open(SOURCE, encoding='utf-8') as file:
        text = file.read()
    for kind, name, rest in CALL.findall(text):
        texts = [''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', part))
                 for part in re.split(r'"\s*,', rest.replace('",', '"",'))]
        texts = [text for text in texts if text]
        yield (name, texts[0], texts[1]) if kind == 'head' else \
            (name, kind, texts[0])


def base(name):
    """hasp_wait_seconds for hasp_wait_seconds_bucket."""
    for part in PARTS:
        name = name.removesuffix(part)
    return name


def readers():
    """The alerts and the dashboard that read each metric."""
    found = {}
    with open(ALERTS, encoding='utf-8') as file:
        text = file.read()
    for alert, expression in re.findall(r'- alert: (\w+)\n\s+expr: (.*)', text):
        for name in set(NAME.findall(expression)):
            found.setdefault(base(name), []).append(f'`{alert}`')
    with open(DASHBOARD, encoding='utf-8') as file:
        for name in {base(name) for name in NAME.findall(file.read())}:
            found.setdefault(name, []).append('dashboard')
    return found


def table(rows):
    read = readers()
    return HEAD + ''.join(
        f'| `{name}` | {kind} | {text} | {", ".join(read.get(name, []))} |\n'
        for name, kind, text in rows)


def main():
    rows = list(metrics())
    known = {name for name, _, _ in rows}
    with open(PAGE, encoding='utf-8') as file:
        page = file.read()
    start = page.index(HEAD)
    end = page.index('\n\n', start) + 1
    wanted = table(rows)
    if '--write' in sys.argv:
        with open(PAGE, 'w', encoding='utf-8') as file:
            file.write(page[:start] + wanted + page[end:])
        return 0
    problems = []
    there = page[start:end].splitlines()
    for line in wanted.splitlines():
        if line not in there:
            problems.append(f'{PAGE}: the table of all metrics lacks this row; '
                            f'run tools/metrics.py --write: {line}')
    for line in there:
        if line not in wanted.splitlines():
            problems.append(f'{PAGE}: no such metric, reader or help: {line}')
    names = sorted(glob.glob('docs/*.md')) + [ALERTS, DASHBOARD]
    for path in names:
        with open(path, encoding='utf-8') as file:
            text = file.read()
        for name in sorted(set(NAME.findall(text))):
            if name.startswith('hasp_') and re.search(
                    r'_(total|seconds|bytes|bucket|sum|count)$', name) and \
                    name not in known and base(name) not in known:
                problems.append(f'{path}: no such metric: {name}')
    for problem in problems:
        print(problem)
    print(f'metrics: {len(rows)} metrics, {len(problems)} problems')
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
