# SPDX-License-Identifier: MIT
"""The table of docs/clients.md is what the clients say that they can do;
REWRITE=1 writes it."""

import os
import re
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

from driver import LANGUAGES, ROOT, Conform  # noqa: E402

PAGE = os.path.join(ROOT, 'docs', 'clients.md')
NAMES = {'c': 'C', 'go': 'Go', 'java': 'Java', 'node': 'Node.js',
         'python': 'Python'}
FEATURES = {
    'several': 'several locks at once, all or none',
    'convert': 'from shared to exclusive and back',
    'owner': 're-entrant, by an owner',
    'hold': 'holds with a limit',
    'linger': 'locks pass on soon after a process has died',
    'alive': 'heartbeats that the program has to earn',
    'cancel': 'a wait can be cancelled',
    'place': 'shows the place in the queue',
    'please': 'is notified that another client asks for the lock',
    'watch': 'watches what happens to locks',
    'note': 'leaves a note at the lock',
    'durable': '[sessions without end](durable.md)',
    'tie': '[tied](agent.md): locks pass on at once after the process has died',
    'seal': '[seals](when-a-lock-is-not-enough.md#seal-the-resource-first) the '
            'resource before it reports the grant',
    'hooks': '[hooks](#hooks) for traces and metrics',
    'late': 'closes a session that opens after the caller has given up',
}
NOT_SHOWN = {'freeze', 'throw'}


def table():
    can = {}
    for language in NAMES:
        conform = Conform(language)
        can[language] = set(conform.do('can')['features'])
        conform.close()
        assert can[language] <= {*FEATURES, *NOT_SHOWN}, language
    rows = [['', *NAMES.values()], ['---'] * (1 + len(NAMES))]
    for feature, text in FEATURES.items():
        rows.append([text, *('yes' if feature in can[language] else '-'
                             for language in NAMES)])
    return ''.join('| ' + ' | '.join(row) + ' |\n' for row in rows)


def test_the_page_says_what_the_clients_say():
    missing = [name for name, (program, _) in LANGUAGES.items() if not program]
    if missing:
        pytest.skip('needs ' + ' '.join(missing))
    with open(PAGE, encoding='utf-8') as file:
        page = file.read()
    made = re.sub(r'(test_can.py, REWRITE=1. -->\n).*?(<!-- -->)',
                  lambda found: found[1] + table() + found[2], page,
                  flags=re.S)
    if 'REWRITE' in os.environ:
        with open(PAGE, 'w', encoding='utf-8') as file:
            file.write(made)
        page = made
    assert page == made, 'REWRITE=1 rewrites it'


def test_each_feature_is_tried_by_the_suite():
    """A feature that is never tested would be an empty promise."""
    folder = os.path.join(HERE, 'scripts')
    needed = set()
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), encoding='utf-8') as file:
            needed |= set(re.findall(r'^# needs (\w+)', file.read(), re.M))
    assert {*FEATURES, *NOT_SHOWN} == needed
