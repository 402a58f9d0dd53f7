#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that only the code that decides a request writes an error or a word.

A reply may hold any bytes that a client chose, so the outcome of a request is
set by the code that decides it (core/outcome.h) and never read from a reply.
That holds while every refusal goes through request_refuse() or request_fail(),
which set the word and write the text together. This reads the sources for code
elsewhere that writes an error, sets a word, or reads a reply; and for a script
in http/, whose replies the gateway does read, like a client.

    tools/outcomes.py
"""

import glob
import re
import sys

# The forbidden pattern, and the functions in which it is allowed, by
# file; None: anywhere in that file.
RULES = [
    ('writes an error', r'\bresp_v?error\s*\(', {
        'net/resp.h': None,
        'net/resp_write.c': None,
        'core/outcome.c': ['word_put'],
        # A script's answer.
        'core/redis/commands.c': ['put_status'],
        # The answer to bytes that are not a request.
        'node/clients.c': ['answer_too_early', 'refuse_bytes'],
    }),
    ('writes a word', r'\bword_put\s*\(', {
        'core/outcome.h': None,
        'core/outcome.c': ['word_put'],
        'core/request.c': ['refuse_with', 'bound_reply'],
        'core/call.c': ['call_fail', 'call_fail_as'],
        # One heartbeat, or one channel, of several.
        'core/commands/keep.c': ['session_keep_read'],
        'core/commands/watch.c': ['channel_refuse'],
        # A push: it answers no request.
        'core/events/watches.c': ['close_watcher'],
    }),
    ('sets an outcome', r'->outcome(\.word)?\s*=[^=]', {
        'core/request.c': ['refuse_with', 'bound_reply', 'request_understand_borrowed'],
        'core/forward.c': ['forward_take_answer'],
    }),
    ('reads a reply', r'\breply_at_hand\s*\(', {
        # For WATCH the leader's versions; otherwise a copy for people.
        'core/request.c': ['reply_at_hand', 'request_done_as'],
    }),
    ('sends a script', r'"EVAL(SHA)?"', {
        'http/lease.c': ['put_script'],  # Its texts are constants.
        'http/fleetlock.c': ['send_script'],  # TAKE or DROP.
        'http/routes.c': None,  # The row of ROUTE_LEASE_DROP.
        'core/dispatch.c': ['with_text'],
        'core/redis/commands.c': ['redis_eval_parse', 'commands_carry_out'],
    }),
]
# Texts of scripts that the gateway may send, as lease.c names them.
SCRIPTS = {'DELETE', 'EXTEND', 'const char *script'}

FUNCTION = re.compile(r'^[a-z][\w\s*]*?\b\*?(\w+)\(')


def findings(path):
    """Each line with its function."""
    function = ''
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            begins = FUNCTION.match(line)
            if begins:
                function = begins.group(1)
            yield number, line, function


def main():
    problems, seen = [], set()
    paths = [path for folder in ('core', 'http', 'net', 'node')
             for ending in ('c', 'h')
             for path in sorted(glob.glob(f'{folder}/**/*.{ending}',
                                          recursive=True))]
    for path in paths:
        for number, line, function in findings(path):
            for what, pattern, places in RULES:
                if not re.search(pattern, line):
                    continue
                allowed = places.get(path, [])
                if allowed is None or function in allowed:
                    seen.add((what, path, function))
                else:
                    problems.append(
                        f'{path}:{number}: {function}() {what}: refuse by '
                        'request_refuse() or request_fail(), or say in '
                        'tools/outcomes.py why not')
            script = re.search(r'put_script\(.*, (.*?)\);', line)
            if path.startswith('http/') and script and \
                    script.group(1) not in SCRIPTS:
                problems.append(f'{path}:{number}: a script that is no '
                                'constant: its reply would be read as ours')
    for what, _, places in RULES:
        for path, functions in places.items():
            for function in functions or []:
                if (what, path, function) not in seen:
                    problems.append(f'{path}: {function}() no longer {what}: '
                                    'take it out of tools/outcomes.py')
    for problem in problems:
        print(problem)
    print(f'outcomes: {len(paths)} files, {len(problems)} problems')
    return 1 if problems or not paths else 0


if __name__ == '__main__':
    sys.exit(main())
