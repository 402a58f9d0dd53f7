#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that each part of a large structure is written by one module alone.

struct core and struct lockfsm consist of parts. A part belongs to the module in
whose header its struct is declared (core/propose.h: core/propose.c); for other
parts and for single fields the table below names the owners. Any module can
read a part. Only its owners assign to its fields, or take a pointer
through which they could.

    tools/parts.py
"""

import glob
import re
import sys

# The parts that have no header of their own, or more than one owner; a longer
# path counts before a shorter one. None: any module (with the reason).
OWNERS = {
    'core': {
        'run': ['core/core'],
        'run.has_fatal': ['core/raft_output'],
        'run.command_slots': ['core/command'],
        'run.described': ['core/core', 'core/commands/command_info'],
        'run.logged': ['core/core', 'core/apply', 'core/members/peer_filter'],
        'run.logged.level': ['core/members/feature'],
        'run.logged.quarantine_due_ns': ['core/session/quarantine'],
        'turn': None,  # Budgets and flags of a turn: each stage spends and sets.
        'stats.counts': None,  # Counters of events everywhere.
        'peers': None,  # Each module has fields of its own in struct peer.
        'conns.changes': ['core/session/identity'],
        'watches.message': ['core/events/events'],
        'scripts.arena': ['core/scripts', 'core/redis/commands'],
        'members.probe_number': ['core/members/membership'],
        'members.is_elsewhere': ['core/members/advertised'],
        'members.resume_log_ns': ['core/members/membership'],
        'leadership.must_compare_levels': ['core/members/feature'],
        'leadership.clock_successor': ['core/members/clocks'],
        'leadership.disk_successor': ['core/members/disks'],
    },
    'lockfsm': {
        'node_level': ['lockfsm/lockfsm'],
        'slice': ['lockfsm/lockfsm'],
        'limits': ['lockfsm/limits', 'lockfsm/cluster'],
        'limit_count': ['lockfsm/limits', 'lockfsm/cluster'],
        'applied_index': ['lockfsm/lockfsm'],
        'applied_term': ['lockfsm/lockfsm'],
        'epoch': ['lockfsm/cluster'],
        'clock': ['lockfsm/session/clock'],
        'redis_time_ms': ['lockfsm/redis'],
        'feature_level': ['lockfsm/cluster'],
        'trials': ['lockfsm/cluster'],
        'left': ['lockfsm/session/sessions', 'lockfsm/sweep'],
        'left.cut': ['lockfsm/lock/locks', 'lockfsm/sweep'],
        'blacklist': ['lockfsm/user/blacklist'],
        'blacklist_count': ['lockfsm/user/blacklist_match'],
        # A session that leaves the set is passed over: a call would close a
        # circle.
        'relist': ['lockfsm/user/reevaluate', 'lockfsm/session/sessions'],
        'access': ['lockfsm/user/users'],
        'access.anyone.use': ['lockfsm/user/quota'],
        'access.local.use': ['lockfsm/user/quota'],
        'access.revocations': ['lockfsm/user/revocations'],
        'access.revocation_order': ['lockfsm/user/revocations'],
        'acts': ['lockfsm/user/audit'],
        'members': ['lockfsm/cluster'],
        'cells': ['lockfsm/cells'],
        'settle': ['lockfsm/lock/finish_entry'],
        'settle.emptied': ['lockfsm/lock/holds', 'lockfsm/session/sessions'],
        'search': ['lockfsm/lock/deadlock'],
        'ledger': ['lockfsm/store/dirty', 'lockfsm/store/persist',
                   'lockfsm/store/digest'],
        'entry.trail': ['lockfsm/user/trail'],
        'entry': None,  # Its budgets and steps: each function spends of them.
        'scratch': None,
        'uses': None,  # Counts of holds and waits, by many.
        'pool': None,
        'next_serial': None,
    },
}
# These make the whole, or load it: they write all of it.
MAKERS = {'lockfsm/lockfsm', 'lockfsm/restore', 'lockfsm/store/load'}
# The structure: its header, the names by which code reaches it, its files.
WHOLES = {
    'core': ('core/state.h', r'core->', 'core/**/*.c'),
    'lockfsm': ('lockfsm/state.h', r'fsm->', 'lockfsm/**/*.c'),
}
# Their structures are values that any module has.
PUBLIC = {'core/core.h', 'core/command.h', 'core/outcome.h'}


def body(text, start):
    """The text between the braces that begin after 'start', and its end."""
    depth = 0
    for at in range(text.index('{', start), len(text)):
        depth += {'{': 1, '}': -1}.get(text[at], 0)
        if depth == 0:
            return text[text.index('{', start) + 1:at], at
    raise ValueError(text[start:start + 40])


def structs():
    """Each struct of a header: the header, and the types of its members."""
    found = {}
    for path in glob.glob('core/**/*.h', recursive=True) + \
            glob.glob('lockfsm/**/*.h', recursive=True):
        with open(path, encoding='utf-8') as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
        for match in re.finditer(r'\bstruct (\w+)\s*{', text):
            inside, end = body(text, match.start())
            found[match.group(1)] = (path, dict(
                (name, kind) for kind, name in
                re.findall(r'\bstruct (\w+) (\w+)(?:\[\w+\])?;', inside)))
    return found


def owners(whole, path, types):
    """The modules that may write this path; None: any."""
    words = path.split('.')
    for size in range(len(words), 0, -1):
        key = '.'.join(words[:size])
        if key in OWNERS[whole]:
            return OWNERS[whole][key]
    header, kind = None, whole
    for word in words:
        kind = types[kind][1].get(word)
        if kind not in types or types[kind][0] in PUBLIC:
            break
        if types[kind][0].startswith(whole):
            header = types[kind][0]
    return [header[:-2]] if header else [WHOLES[whole][0][:-2], 'core/core']


WRITE = re.compile(r'(\+\+|--)?{access}((?:\w+(?:\[[^\]]*\])?(?:\.|->)?)+)'
                   r'\s*(\+\+|--|[-+|&*]?=(?!=))?'.replace('{', '{{')
                   .replace('}', '}}').replace('{{access}}', '{access}'))


def writes(text, access):
    """The writes in a text: (position, path)."""
    pattern = re.compile(WRITE.pattern.replace('{access}', r'\b' + access))
    for match in pattern.finditer(text):
        if match.group(1) or match.group(3):
            yield match.start(), match.group(2)
    alias = re.compile(r'(?<!const )\bstruct \w+ \*\w+ = &' + access +
                       r'([\w.]+(?:\[[^\]]*\])?)')
    for match in alias.finditer(text):
        yield match.start(), match.group(1)


def main():
    problems, count = 0, 0
    types = structs()
    for whole, (_, access, files) in WHOLES.items():
        for file_path in sorted(glob.glob(files, recursive=True)):
            with open(file_path, encoding='utf-8') as file:
                text = file.read()
            for at, path in writes(text, access):
                # The target of a pointer is not a part.
                path = re.sub(r'\[[^\]]*\]', '', path.split('->')[0])
                allowed = owners(whole, path, types)
                count += 1
                if allowed is None or file_path[:-2] in allowed or \
                        file_path[:-2] in MAKERS:
                    continue
                problems += 1
                line = text.count('\n', 0, at) + 1
                print(f'{file_path}:{line}: writes {whole}->{path}, which '
                      f'{allowed[0]}.c owns: call it, or change the table in '
                      f'tools/parts.py')
    print(f'parts: {count} writes, {problems} problems')
    sys.exit(problems != 0)


if __name__ == '__main__':
    main()
