#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the page's memory stays flat while it is open.

Three nodes under load, the page in a headless Chromium with one lock opened;
every 10 s it measures script and elements after a garbage collection.
Fails if the last quarter takes a tenth and half a megabyte more than the second.

    tools/page_memory.py [MINUTES]     10 unless given; build first
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cluster'))

from cluster import Cluster  # noqa: E402
from test_page import HASP, Page, lockers  # noqa: E402

STEP_S = 10


def weigh(page):
    """Bytes of the script's heap, and the number of DOM nodes."""
    ask = page.driver.execute_cdp_cmd
    ask('HeapProfiler.collectGarbage', {})
    metrics = {one['name']: one['value']
               for one in ask('Performance.getMetrics', {})['metrics']}
    return metrics['JSHeapUsedSize'], metrics['Nodes']


def watch(page, minutes):
    page.driver.execute_cdp_cmd('Performance.enable', {})
    samples, until = [], time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        time.sleep(STEP_S)
        samples.append(weigh(page))
        print('%6.1f min  %6.2f MB  %6d nodes' % (
            len(samples) * STEP_S / 60, samples[-1][0] / 1e6, samples[-1][1]),
            flush=True)
    return samples


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 10
    with Cluster(3) as cluster, tempfile.TemporaryDirectory() as folder:
        leader = cluster.leader()
        ports = ','.join('127.0.0.1:%d' % n.client_port for n in cluster.nodes)
        bench = subprocess.Popen(
            [HASP, '-e', ports, 'bench', '-c', '16', '-s',
             str(int(60 * minutes + 60))],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        page = Page(folder)
        try:
            with lockers(leader, 'holder', 'waiter', ttl=3600000) as (one, two):
                one.do('LOCK.ACQUIRE', 'held')
                two.send('LOCK.ACQUIRE', 'held', 'WAIT', 'FOREVER')
                page.open(cluster.followers(leader)[0], '#lock=held')
                page.wait_text('#why', 'is held')
                samples = watch(page, minutes)
        finally:
            page.driver.quit()
            bench.kill()
            bench.wait()
    quarter = len(samples) // 4
    for at, what, slack in ((0, 'bytes', 5e5), (1, 'nodes', 500)):
        early, late = (statistics.median(s[at] for s in part) for part in (
            samples[quarter:2 * quarter], samples[-quarter:]))
        print('%s: %d, in the end %d' % (what, early, late))
        if late > 1.1 * early + slack:
            sys.exit('the page grows')


if __name__ == '__main__':
    main()
