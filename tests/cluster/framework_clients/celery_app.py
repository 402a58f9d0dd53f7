# SPDX-License-Identifier: MIT
"""The tasks of test_frameworks.py. A line is appended to the file RUNS at the
begin and at the end of each run: begin or end, id, token, pid."""

import os
import time

from celery import Celery

from hasp.contrib.celery import Singleton

app = Celery("shop", broker=os.environ.get("BROKER", "memory://"))
app.conf.hasp = {"ttl": 2}
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_transport_options={"visibility_timeout": 3},
)


def write(*words):
    line = " ".join(map(str, words)) + "\n"
    out = os.open(os.environ["RUNS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, line.encode())
    os.close(out)


@app.task(base=Singleton, bind=True, lock_retry=0.3)
def bill(self, seconds):
    write("begin", self.request.id, self.lock.token, os.getpid())
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        self.lock.guard(0.1)
        time.sleep(0.05)
    write("end", self.request.id, self.lock.token, os.getpid())


@app.task(base=Singleton, lock_name="customers/{customer}", lock_busy="fail")
def of_customer(customer, action=None):
    return action() if action else of_customer.lock.name


@app.task(base=Singleton, lock_name="customers/{nobody}")
def nameless():
    pass
