# SPDX-License-Identifier: MIT
"""A process that takes a lock of listen.consul again and again, with a client
that nobody here wrote:

    consul_programs.py consul|consul2|tooz FILE PORT...

It appends a line for each hold to FILE: "enter NAME TOKEN NS", "leave ...", by
the monotonic clock that all processes share; and "odd ..." for an answer that
is neither true nor false.
"""

import os
import random
import sys
import threading
import time

import consul  # python3-consul, or python3-consul2.

KIND, FILE = sys.argv[1:3]
PORTS = [int(one) for one in sys.argv[3:]]
NAME = "%s-%d" % (KIND, os.getpid())
KEY = "tooz/locks/x"


def say(*words):
    line = " ".join(str(one) for one in words) + "\n"
    file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, line.encode())
    os.close(file)


def inside(token):
    say("enter", NAME, token, time.monotonic_ns())
    time.sleep(random.random() / 100)
    say("leave", NAME, token, time.monotonic_ns())



def client():
    return consul.Consul(port=random.choice(PORTS))


def until(action):
    """The first answer, at any node."""
    while True:
        try:
            return action(client())
        except consul.base.NotFound:
            raise
        except Exception:  # Each version has other classes for a lost connection.
            time.sleep(0.1)


def is_true(answer):
    if answer is not True and answer is not False:
        say("odd", NAME, repr(answer))
    return answer is True


def renew(session):
    while True:
        time.sleep(2)
        until(lambda one: one.session.renew(session))


def plain():
    session = until(lambda one: one.session.create(NAME, ttl=10, lock_delay=1))
    threading.Thread(target=renew, args=(session,), daemon=True).start()
    while True:
        if not is_true(until(lambda one: one.kv.put(KEY, NAME, acquire=session))):
            time.sleep(0.05)
            continue
        _, held = until(lambda one: one.kv.get(KEY))
        if held["Session"] != session:
            say("odd", NAME, "another holds it:", held["Session"])
        inside(held["LockIndex"])
        is_true(until(lambda one: one.kv.put(KEY, "", release=session)))


def beat(coordinator, over):
    while not over.wait(2):
        try:
            coordinator.heartbeat()
        except Exception:
            pass


def cooperate(coordinator):
    """Until something is not known: tooz then needs a new session."""
    lock = coordinator.get_lock(b"x")
    while True:
        if not is_true(lock.acquire(blocking=False)):
            time.sleep(0.05)
            continue
        _, held = until(lambda one: one.kv.get(KEY))
        inside(held["LockIndex"])
        is_true(lock.release())


def tooz():
    from tooz import coordination
    while True:
        over = threading.Event()
        try:
            coordinator = coordination.get_coordinator(
                "consul://127.0.0.1:%d?ttl=10" % random.choice(PORTS), NAME.encode())
            coordinator.start()
            threading.Thread(target=beat, args=(coordinator, over), daemon=True).start()
            cooperate(coordinator)
        except Exception:
            time.sleep(0.1)
        over.set()
        try:
            coordinator.stop()
        except Exception:
            pass


(tooz if KIND == "tooz" else plain)()
