#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A file that keeps the highest token it has seen beside its content.

    fenced_file.py FILE TEXT         writes TEXT under the lock
"""

import fcntl
import json
import os
import sys


class StaleToken(Exception):
    """Somebody with a newer token has written already."""


def write(path, content, token):
    """Replaces the file; StaleToken if it has seen a higher token. The program
    that stores the file must do this check: on a file server, the server."""
    with open(path + '.lock', 'w') as mutex:
        fcntl.flock(mutex, fcntl.LOCK_EX)  # Between check and rename.
        if os.path.exists(path):
            with open(path) as file:
                seen = json.load(file)['token']
            if token < seen:
                raise StaleToken(f'token {token} is below {seen}')
        with open(path + '.new', 'w') as file:
            json.dump({'token': token, 'content': content}, file)
            file.flush()
            os.fsync(file.fileno())
        os.rename(path + '.new', path)


def main():
    from hasp import Session
    with Session() as session, session.lock('file') as lock:
        write(sys.argv[1], sys.argv[2], lock.token)
        print('written with token', lock.token)


if __name__ == '__main__':
    main()
