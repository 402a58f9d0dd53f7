#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A cron job once per cluster: the same line in every machine's crontab.

    cron.py NAME PERIOD COMMAND...

    0 2 * * *  cron.py nightly "$(date -u +\\%F)" /usr/local/bin/nightly

The lock NAME/PERIOD is never released but left to its lease of a minute, so a
machine with a clock that is slow by less than that finds it taken, even if the
job has ended. A machine that dies in the midst does not repeat the job.
"""

import subprocess
import sys

from hasp import Session

name, period, *command = sys.argv[1:]
once = Session(ttl=60, name=f'cron {name}')  # Not closed: it keeps the lock ...
if not once.lock(f'{name}/{period}').acquire(blocking=False):
    once.close()
    sys.exit(0)  # Another machine has it.
with Session(name=f'cron {name}') as session:
    with session.lock(name):  # Tonight's run waits for last night's.
        status = subprocess.run(command).returncode
sys.exit(status)  # ... for a minute longer than this program.
