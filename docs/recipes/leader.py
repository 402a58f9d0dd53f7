#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Leader election: start it on every machine, one of them works.

    leader.py [SECONDS]     leads for this time, then steps down (default: for
    ever)
"""

import sys
import time

from hasp import HaspError, LeaseLost, Session


def lead(lock, seconds):
    """The leader's work, in steps that each fit into the lease."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        lock.guard(0.5)  # LeaseLost: in 0.5 s somebody else might lead.
        print('leading with token', lock.token, flush=True)
        time.sleep(0.2)


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else float('inf')
    while True:
        try:
            # A leader that dies is followed 2 s after its connection closes;
            # so a step of up to 0.8 * 2 s fits into the lease.
            with Session(ttl=5, linger=2) as session:
                with session.lock('leader') as lock:  # Waits for its turn.
                    lead(lock, seconds)
                    print('stepped down', flush=True)
                    return
        except LeaseLost as error:
            print('deposed:', error, flush=True)
        except HaspError as error:
            print('no cluster:', error, flush=True)
        time.sleep(0.5)


main()
