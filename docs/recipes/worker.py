#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A semaphore: however many are started, five work at a time.

    worker.py SECONDS
"""

import sys
import time

from hasp import Session

with Session() as session, session.lock('render', slots=5) as lock:
    print('begin', flush=True)
    lock.guard(float(sys.argv[1]))
    time.sleep(float(sys.argv[1]))
    print('end', flush=True)
