#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A holder is paused between its last check and its write.

    paused_holder.py             the write comes late, an update is lost
    paused_holder.py --check     the database checks the token, nothing is lost

Two processes add 1 to a counter under one lock. The first is stopped with
SIGSTOP after it has read the counter, as a long garbage collection or the
migration of a virtual machine would stop it. Its lease runs out, the second
process gets the lock and adds; then the first one continues.
"""

import os
import signal
import sys
import tempfile

from fenced_sqlite import StaleToken, connect, fenced
from hasp import LeaseLost, Session


def read(db):
    return db.execute('SELECT balance FROM account').fetchone()[0]


def write(db, number, token, checks):
    if checks:
        with fenced(db, 'account', token):
            db.execute('UPDATE account SET balance = ?', [number])
    else:
        db.execute('UPDATE account SET balance = ?', [number])


def add(path, name, checks, pause=None):
    """Adds 1 under the lock. False if the database refused."""
    is_written = False
    try:
        with Session(ttl=1) as session, session.lock('counter') as lock:
            is_written = step(connect(path), name, lock, checks, pause)
    except LeaseLost:  # From the end of the block.
        print(f'{name}: learns that the lease was lost', flush=True)
    return is_written


def step(db, name, lock, checks, pause):
    number = read(db)
    print(f'{name}: holds token {lock.token} and read {number}', flush=True)
    lock.guard(0.1)  # The lease is good, here.
    if pause:
        pause()
    try:
        write(db, number + 1, lock.token, checks)
    except StaleToken as error:
        print(f'{name}: refused, {error}', flush=True)
        return False
    print(f'{name}: wrote {number + 1}', flush=True)
    return True


def first(path, checks):
    def pause():
        os.kill(os.getpid(), signal.SIGSTOP)

    if not add(path, 'first', checks, pause):
        add(path, 'first', checks)  # With a new session and a new token.


def main():
    checks = '--check' in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'counter')
        connect(path).execute('INSERT INTO account VALUES (0)')
        pid = os.fork()
        if pid == 0:
            first(path, checks)
            os._exit(0)
        os.waitpid(pid, os.WUNTRACED)
        print('first: stopped', flush=True)
        add(path, 'second', checks)
        print('first: continues', flush=True)
        os.kill(pid, signal.SIGCONT)
        os.waitpid(pid, 0)
        print('two additions made', read(connect(path)))


main()
