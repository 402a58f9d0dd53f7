#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Leader election: start it on every machine, one of them works.

    election.py [NAME]     NAME is what the others see of the leader
"""

import os
import sys
import time

from hasp import Election, HaspError, Session

name = sys.argv[1] if len(sys.argv) > 1 else f'process {os.getpid()}'
while True:
    try:
        # A leader that dies is followed 2 s after its connection closes; so a
        # step of up to 0.8 * 2 s fits into the lease.
        with Session(ttl=5, linger=2) as session:
            with Election(session, 'scheduler', value=name) as lead:
                print('leading with token', lead.token, flush=True)
                while True:
                    lead.guard(0.5)  # LeaseLost: then another may lead.
                    print('step with token', lead.token, flush=True)
                    time.sleep(0.2)
    except HaspError as error:
        print('not leading:', error, flush=True)
        time.sleep(0.5)
