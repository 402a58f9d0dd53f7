#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes to SQLite that an old holder's token cannot do.

    fenced_sqlite.py FILE AMOUNT     adds to the balance under the lock
"""

import contextlib
import os
import sqlite3
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(HERE, 'fence.sql')) as file:
    CREATE, ADMIT = file.read().split(';')[:2]


class StaleToken(Exception):
    """Somebody with a newer token has written already."""


@contextlib.contextmanager
def fenced(db, resource, token):
    """A transaction that fails with StaleToken unless the token is new."""
    db.execute('BEGIN IMMEDIATE')
    try:
        row = db.execute(ADMIT, {'resource': resource, 'token': token})
        if row.fetchone() is None:
            raise StaleToken(f'token {token} is below the one in the fence')
        yield db
        db.execute('COMMIT')
    except BaseException:
        db.execute('ROLLBACK')
        raise


def connect(path):
    db = sqlite3.connect(path, isolation_level=None, timeout=10)
    db.execute(CREATE)
    db.execute('CREATE TABLE IF NOT EXISTS account (balance INTEGER)')
    return db


def main():
    from hasp import Session
    db = connect(sys.argv[1])
    with Session() as session, session.lock('account') as lock:
        balance = db.execute('SELECT sum(balance) FROM account').fetchone()[0]
        with fenced(db, 'account', lock.token):
            db.execute('DELETE FROM account')
            db.execute('INSERT INTO account VALUES (?)',
                       [(balance or 0) + int(sys.argv[2])])
        print('balance', (balance or 0) + int(sys.argv[2]))


if __name__ == '__main__':
    main()
