#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A semaphore: however many are started, five work at a time.

    workers.py SECONDS
"""

import sys
import time

from hasp import Semaphore, Session

seconds = float(sys.argv[1])
with Session() as session, Semaphore(session, 'render', 5).slot() as slot:
    print('begin', flush=True)
    slot.guard(seconds)
    time.sleep(seconds)
    print('end', flush=True)
