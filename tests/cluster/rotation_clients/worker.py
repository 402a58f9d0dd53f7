# SPDX-License-Identifier: MIT
"""Two sessions that share a connection; each acquires a lock and releases it,
again and again, until the input ends. Each line tells of cycles, of an event or
of an error."""

import sys
import threading

import hasp


def say(*words):
    """In one piece, whichever thread says it."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def told(event):
    say("EVENT", event.kind, event.text)


def work(number, stop):
    try:
        with hasp.Session(ttl=10, on_event=told) as session:
            lock = session.lock("app/python-%d" % number)
            with session.lock("app/python-kept-%d" % number):
                for cycle in range(10**9):
                    with lock:
                        stop.wait(0.005)
                    if cycle % 20 == 0:
                        say("CYCLE", number, session.id)
                    if stop.is_set():
                        break
    except BaseException as error:
        say("ERROR", repr(error))
        raise


over = threading.Event()
threads = [threading.Thread(target=work, args=(i, over)) for i in range(2)]
for one in threads:
    one.start()
sys.stdin.read()
over.set()
for one in threads:
    one.join()
say("END")
