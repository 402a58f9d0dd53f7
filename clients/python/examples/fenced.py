#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes that an old holder cannot do: the file keeps the highest token that it
has seen beside its content, and refuses what comes with a smaller one.

    fenced.py FILE TEXT [PAUSE]    writes TEXT, PAUSE seconds after its last look
"""

import fcntl
import json
import os
import sys
import time

from hasp import LeaseLost, Session


def write(path, content, token):
    """Whoever stores the file must check the token: on a file server, the
    server."""
    with open(path + '.lock', 'w') as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)  # Between check and rename.
        if os.path.exists(path):
            with open(path) as file:
                seen = json.load(file)['token']
            if token < seen:
                sys.exit(f'refused: token {token} is below {seen}')
        with open(path + '.new', 'w') as file:
            json.dump({'token': token, 'content': content}, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + '.new', path)


try:
    with Session(ttl=2) as session, session.lock('file') as lock:
        lock.guard(0.5)
        print('holds token', lock.token, flush=True)
        time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
        write(sys.argv[1], sys.argv[2], lock.token)
        print('written with token', lock.token)
except LeaseLost as error:
    sys.exit(f'lost: {error}')
