# SPDX-License-Identifier: MIT
"""A scheduler of APScheduler with a job that runs each second. Each run appends
the time of its fire and the pid to the file RUNS."""

import faulthandler
import os
import signal
import sys

from apscheduler.schedulers.background import BackgroundScheduler

from hasp.contrib.apscheduler import OncePerFire, current_lock


def tick():
    lock = current_lock()
    lock.guard(0.1)
    line = "%s %d %d\n" % (lock.options["value"], lock.token, os.getpid())
    out = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, line.encode())
    os.close(out)


scheduler = BackgroundScheduler(
    timezone="UTC", executors={"default": OncePerFire(ttl=2, wait=8)})
scheduler.add_job(tick, "cron", second="*", id="tick", misfire_grace_time=10)


def stop(*_):
    faulthandler.dump_traceback_later(20)  # If it does not end, this says why.


# Each signal writes a byte, whichever thread gets it, and takes no lock, which
# an interrupted thread could hold. time.sleep() fails with libfaketime.
came, comes = os.pipe()
os.set_blocking(comes, False)
signal.set_wakeup_fd(comes)

signal.signal(signal.SIGTERM, stop)
scheduler.start()
os.read(came, 1)
scheduler.shutdown()
sys.exit(0)
