#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes that an old holder cannot do: what is written is called FILE.TOKEN, and
readers take the one with the highest token. So what comes late, from a holder
that was stopped between its last look and its write, changes nothing.

    fenced.py FILE TEXT [PAUSE]    writes TEXT, PAUSE seconds after its last look
"""

import glob
import os
import sys
import time

from hasp import LeaseLost, Session


def newest(path):
    """The highest token of those that have written; 0: none."""
    ends = [name.rsplit('.', 1)[1] for name in glob.glob(path + '.*')]
    return max([int(end) for end in ends if end.isdigit()], default=0)


def write(path, text, token):
    with open(f'{path}.{token}.new', 'w') as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f'{path}.{token}.new', f'{path}.{token}')
    seen = newest(path)
    if token < seen:
        os.remove(f'{path}.{token}')
        sys.exit(f'refused: token {token} is below {seen}')


try:
    with Session(ttl=2) as session, session.lock('file') as lock:
        lock.guard(0.5)
        token = lock.token
        print('holds token', token, flush=True)
        time.sleep(float(sys.argv[3]) if len(sys.argv) > 3 else 0)
        write(sys.argv[1], sys.argv[2], token)
        print('written with token', token)
except LeaseLost as error:
    sys.exit(f'lost: {error}')
