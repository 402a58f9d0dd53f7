#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the includes between rooms, and that pure objects call nothing impure.

The table below is the architecture (ARCHITECTURE.md explains it). A change of
it is a design decision. The first part reads #include lines; the second reads
the undefined symbols of built objects (`nm -u`), if they exist.

    tools/layers.py [BUILD]     e.g. tools/layers.py build/check
"""

import glob
import os
import re
import subprocess
import sys

# Room: the folder (or single files) it covers, most specific first. 'may' are
# rooms or files whose headers it may include; 'foreign' the libraries; 'pure'
# rooms call no clock, random, file or socket.
ROOMS = [
    ('net/resp', r'net/resp(_\w+)?\.[ch]$', 'base', '', True),
    ('net/json', r'net/json\.[ch]$', 'base net/resp', 'jansson', True),
    ('net/frame', r'net/frame\.[ch]$', 'base', '', True),
    # TLS without a socket, for streams and for clients.
    ('net/tls', r'net/tls(_\w+)?\.[ch]$', 'base', 'openssl', False),
    ('net/http', r'net/http(_head)?\.[ch]$', 'base net net/tls', 'uv microhttpd',
     False),
    ('lease/rules', r'lease/rules\.h$', 'base', '', True),
    ('lease/lease', r'lease/lease\.[ch]$', 'base lease/rules', '', True),
    ('lease', r'lease/', 'base lockfsm lease/rules', '', True),
    ('storage/table_lmdb', r'storage/table_lmdb\.c$', 'base storage', 'lmdb',
     False),
    ('base/sha', r'base/sha\.[ch]$', 'base', 'openssl', True),
    ('base', r'base/', '', 'uthash xxhash', True),
    ('lockfsm', r'lockfsm/', 'base lease/rules storage/table.h', '', True),
    ('raft', r'raft/', 'base', 'raft', True),
    ('storage', r'storage/', 'base', '', False),
    ('net', r'net/', 'base net/frame net/tls', 'uv', False),
    # A wing sees the part of core that its handlers need, not its internals.
    # Core includes nothing of its wings: core_new() receives their table.
    ('core/commands', r'core/commands/',
     'base base/sha lease/rules lockfsm net/resp core/request.h '
     'core/state.h core/conn.h core/command.h core/dispatch.h core/authorize.h '
     'core/options.h core/cluster_slot.h core/audit_log.h core/stats.h '
     'core/session/attach.h core/session/identity.h core/session/lease.h '
     'core/session/quarantine.h core/snapshot/backup.h '
     'core/snapshot/snapshots.h '
     'core/events/events.h core/events/event_log.h core/events/watches.h '
     'core/members/feature.h core/members/membership.h '
     'core/members/transfer.h core/scripts.h core/transaction.h '
     'core/forward.h core/propose.h core/read_index.h core/redis/keys.h', '',
     True),
    ('core/redis', r'core/redis/',
     'base base/sha lease/rules lockfsm net/resp core/request.h '
     'core/conn.h core/state.h core/command.h core/dispatch.h core/authorize.h '
     'core/scripts.h core/transaction.h core/session/lease.h core/propose.h '
     'core/read_index.h core/commands/commands.h', '', True),
    ('core', r'core/',
     'base base/sha lease/rules lockfsm lease raft net/resp net/frame '
     'storage/table.h storage/snapshot.h', '', True),
    # HTTP requests as client requests; it sees only core's public headers.
    ('http', r'http/',
     'base base/sha net/resp net/json net/http core/core.h core/options.h',
     'jansson', False),
    ('node', r'node/',
     'base lockfsm raft storage net net/resp net/json net/frame net/http '
     'net/tls core '
     'core/commands/table.h http include', 'uv jansson', False),
    # hasp_uv.h goes with hasp.h; neither includes anything of ours.
    ('include', r'include/', '', '', False),
    # As users write it: only system includes (<hasp/hasp.h>).
    ('examples', r'examples/', '', 'uv', False),
    # The client's decisions, without I/O; the drivers use it.
    ('client/session_fsm',
     r'client/(client_request|cluster_conn|cluster_conn_member|credentials'
     r'|endpoints|hold|hooks|known_cluster|operation|operation_words|query|reply'
     r'|request_numbers|session_fsm)\.[ch]$',
     'base base/sha net/resp lease/lease lease/rules include', '', True),
    ('client', r'client/',
     'base base/sha net/resp net/tls lease/lease lease/rules include '
     'client/session_fsm', 'uv', False),
    ('cmd/haspd', r'cmd/haspd/',
     'base include node/settings.def node/settings_live.def',
     'inih systemd', False),
    ('cmd/hasp/cert', r'cmd/hasp/cert/',
     'base client client/session_fsm cmd/hasp net/tls include',
     'openssl smartcols jansson', False),
    ('cmd/hasp', r'cmd/hasp/',
     'base base/sha client client/session_fsm lease/lease net/tls '
     'net/rights.h net/json include',
     'smartcols jansson', False),
]

LIBRARIES = {
    'raft.h': 'raft', 'raft/': 'raft', 'uv.h': 'uv', 'lmdb.h': 'lmdb',
    'openssl/': 'openssl', 'uthash.h': 'uthash',
    'xxhash.h': 'xxhash', 'ini.h': 'inih', 'libsmartcols/': 'smartcols',
    'jansson.h': 'jansson', 'systemd/': 'systemd',
    'microhttpd.h': 'microhttpd', 'cmocka.h': 'cmocka',
}

# Symbols that a pure object must not call. snprintf and abort are fine; check_failed
# and the log's sink are base's business.
IMPURE = set('''
time clock_gettime gettimeofday clock nanosleep usleep sleep rand random
srand srandom drand48 getrandom arc4random getentropy open openat fopen
fclose read write pread pwrite pread64 pwrite64 pwritev2 close socket
connect accept bind listen send recv sendmsg recvmsg sendto recvfrom select
poll epoll_wait fsync fdatasync unlink rename mkdir getenv fork execve kill
pthread_create pthread_mutex_lock mmap munmap localtime gmtime getpid
setlocale system popen
'''.split())

problems = []


def room_of(path):
    for name, pattern, may, foreign, pure in ROOMS:
        if re.match(pattern, path):
            return name, may.split(), foreign.split(), pure
    return None


def check_includes(path):
    room = room_of(path)
    if room is None:
        problems.append(f'{path}:1: is in no room of tools/layers.py')
        return
    name, may, foreign, _ = room
    with open(path, encoding='utf-8') as file:
        lines = file.readlines()
    for number, line in enumerate(lines, 1):
        local = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        system = re.match(r'\s*#\s*include\s+<([^>]+)>', line)
        if local:
            target = local.group(1)
            if name == 'include':
                # Installed headers name each other without a path of ours.
                target = os.path.join(os.path.dirname(path), target)
            other = room_of(target)
            if other is None or not os.path.exists(target):
                problems.append(f'{path}:{number}: no such header: {target}')
            elif other[0] != name and other[0] not in may and \
                    target not in may:
                problems.append(f'{path}:{number}: {name} may not include '
                                f'{target} (room {other[0]})')
        elif system:
            target = system.group(1)
            for prefix, library in LIBRARIES.items():
                if target == prefix or (prefix.endswith('/') and
                                        target.startswith(prefix)):
                    if library not in foreign:
                        problems.append(f'{path}:{number}: {name} may not '
                                        f'use {library} ({target})')
        elif re.match(r'\s*#\s*include', line) and name != 'base':
            problems.append(f'{path}:{number}: odd #include')


def check_pure(build):
    """Reads the objects' undefined symbols; returns how many were read."""
    seen = 0
    for path in sorted(glob.glob('**/*.c', recursive=True)):
        room = room_of(path)
        if room is None or not room[3]:
            continue
        target = os.path.join(build, path[:-2] + '.o')
        if not os.path.exists(target):
            continue
        seen += 1
        output = subprocess.run(['nm', '-u', target], check=True,
                                capture_output=True, text=True).stdout
        for line in output.splitlines():
            symbol = line.split()[-1].split('@')[0]
            if symbol in IMPURE:
                problems.append(f'{path}:1: {room[0]} is pure but calls '
                                f'{symbol}()')
    return seen


def main():
    sources = [path for folder in ('base', 'lockfsm', 'storage', 'raft',
                                   'net', 'lease', 'core', 'client', 'http',
                                   'node', 'cmd',
                                   'include', 'examples')
               for ending in ('c', 'h')
               for path in sorted(glob.glob(f'{folder}/**/*.{ending}',
                                            recursive=True))]
    for path in sources:
        check_includes(path)
    seen = 0
    if len(sys.argv) > 1:
        seen = check_pure(sys.argv[1])
        if seen == 0:
            problems.append(f'{sys.argv[1]}:1: holds no pure objects: build '
                            f'first')
    for problem in problems:
        print(problem)
    print(f'layers: {len(sources)} files, {seen} pure objects, '
          f'{len(problems)} problems')
    return 1 if problems or not sources else 0


if __name__ == '__main__':
    sys.exit(main())
