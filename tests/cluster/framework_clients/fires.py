# SPDX-License-Identifier: MIT
"""A scheduler of APScheduler with a job that runs each second. Each run appends
the time of its fire and the pid to the file RUNS."""

import faulthandler
import os
import signal
import sys
import threading

from apscheduler.schedulers.background import BackgroundScheduler

from hasp.contrib.apscheduler import OncePerFire, current_lock

OVER = threading.Event()


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
    OVER.set()


signal.signal(signal.SIGTERM, stop)
scheduler.start()
OVER.wait()
scheduler.shutdown()
sys.exit(0)
