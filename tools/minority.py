#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures the cost of dead members in a lightly loaded cluster.

One client at the leader acquires and releases a lock, a change every 100
ms and a little, so that its phase to the heartbeats drifts. It prints
the time of a change, with all members and with a minority killed: 1 of 3,
2 of 5.

    tools/minority.py BUILD [CHANGES]
"""

import argparse
import os
import signal
import time

from dev_cluster import Client, DevCluster, until

PAUSE_S = 0.1037


def measure(cluster, count):
    port = cluster.ports[cluster.leader() - 1]
    client = until(lambda: Client(port, 10))
    client.ask('SESSION.OPEN', 'TTL', '60000')
    times = []
    for i in range(count):
        words = ['LOCK.RELEASE' if i % 2 else 'LOCK.ACQUIRE', 'a']
        began = time.monotonic()
        client.ask(*words)
        times.append(time.monotonic() - began)
        time.sleep(PAUSE_S)
    client.close()
    times.sort()
    return [1000 * times[count * part // 100] for part in (50, 90, 99)]


def run(build, nodes, changes):
    with DevCluster(build, nodes) as cluster:
        before = measure(cluster, changes)
        leader = cluster.leader()
        others = [i + 1 for i in range(nodes) if i + 1 != leader]
        for number in others[:nodes // 2]:
            cluster.send(number, signal.SIGKILL)
        time.sleep(1)
        after = measure(cluster, changes)
    for name, times in ((f'{nodes} of {nodes} up', before),
                        (f'{nodes - nodes // 2} of {nodes} up', after)):
        print('%s: p50 %.2f ms, p90 %.2f ms, p99 %.2f ms'
              % (name, *times), flush=True)
    print('ratio: p50 %.2f, p90 %.2f'
          % (after[0] / before[0], after[1] / before[1]), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=os.path.abspath)
    parser.add_argument('changes', type=int, nargs='?', default=200)
    options = parser.parse_args()
    for nodes in (3, 5):
        run(options.build, nodes, options.changes)


main()
