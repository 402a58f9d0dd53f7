#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A read-write lock around a file: readers together, a writer alone.

    readers.py read FILE
    readers.py add FILE
"""

import sys

from hasp import Session

what, path = sys.argv[1:]
with Session() as session:
    if what == 'read':
        with session.lock('file', shared=True):
            with open(path) as file:
                print(file.read().strip())
    else:
        with session.lock('file') as lock:
            with open(path) as file:
                number = int(file.read())
            lock.guard(1.0)
            with open(path, 'w') as file:
                file.write(str(number + 1))
