#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures failover: kills the leader with -9 and times until another serves.

A three-node cluster of `hasp dev` with its default settings; a client at a
follower asks for a new lock again and again. What is told is the time from the
kill to the first acquisition that the cluster answers, for each kill, and the
median and the maximum. The killed node is started again before the next. With
--flush each flush of the nodes' disks takes so many milliseconds (by a library
that is preloaded, tests/cluster/slow_disk.c).

    tools/failover.py BUILD [KILLS] [--flush MS]
"""

import argparse
import os
import statistics
import time

from dev_cluster import DevCluster, acquire, status, until


def run(cluster, kills):
    times = []
    for kill in range(kills):
        leader = cluster.leader()
        other = [p for i, p in enumerate(cluster.ports) if i + 1 != leader][0]
        until(lambda: acquire(other, f'before/{kill}'))
        term = int(status(other)[b'term'])
        began = time.monotonic()
        cluster.kill(leader)
        until(lambda: acquire(other, f'after/{kill}'))
        times.append(time.monotonic() - began)
        terms = int(status(other)[b'term']) - term
        print(f'kill {kill + 1}: {1000 * times[-1]:.0f} ms, terms: {terms}',
              flush=True)
        cluster.restart(leader)
        time.sleep(0.5)
    print(f'{kills} kills: median {1000 * statistics.median(times):.0f} '
          f'ms, max {1000 * max(times):.0f} ms')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=os.path.abspath)
    parser.add_argument('kills', type=int, nargs='?', default=20)
    parser.add_argument('--flush', type=int, default=0, metavar='MS')
    options = parser.parse_args()
    with DevCluster(options.build, flush_ms=options.flush) as cluster:
        run(cluster, options.kills)


main()
