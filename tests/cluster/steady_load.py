#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Clients that take and give back locks all the time, until stdin is closed.

    steady_load.py THREADS

Then it prints, as JSON: how many 'cycles' were done, each error as 'errors',
and of the cycles that came more than 100 ms after the one before [when that
began on CLOCK_MONOTONIC, for how long] as 'gaps'. HASP_ENDPOINTS and HASP_TLS
say where. It is a program of its own, for it may run on a host of its own."""

import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "clients", "python"))

import hasp  # noqa: E402

GAP_S = 0.1


def work(number, is_over, out):
    name, last = "load/%d" % number, None
    with hasp.Session(name="load") as session:
        while not is_over.is_set():
            try:
                with session.lock(name):
                    pass
            except Exception as error:  # each of them counts
                out["errors"].append("%.3f %r" % (time.monotonic(), error))
                time.sleep(0.1)
            now = time.monotonic()
            if last is not None and now - last > GAP_S:
                out["gaps"].append((last, now - last))
            out["cycles"] += 1
            last = now
            time.sleep(0.005)


def main():
    is_over = threading.Event()
    outs, threads = [], []
    for number in range(int(sys.argv[1])):
        outs.append({"cycles": 0, "errors": [], "gaps": []})
        threads.append(threading.Thread(
            target=work, args=(number, is_over, outs[-1])))
        threads[-1].start()
    print("ready", flush=True)
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()
    print(json.dumps({
        "cycles": sum(out["cycles"] for out in outs),
        "errors": [error for out in outs for error in out["errors"]],
        "gaps": sorted(gap for out in outs for gap in out["gaps"])}))


if __name__ == "__main__":
    main()
