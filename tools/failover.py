#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures failover: stops the leader and times until another one serves.

A three-node cluster of `hasp dev` with its default settings; a client at a
follower acquires new locks repeatedly. It prints the time from the
leader's end to the first acquisition that the cluster answers, for each run, the
median and the maximum. --by is the kind of end: KILL (as if it crashed), STOP (it
falls silent, its connections stay), TERM (it transfers first). It is restarted
or continued before the next run. With --flush each flush of the nodes' disks takes this
many milliseconds (by a library that is preloaded, tests/cluster/slow_disk.c).

    tools/failover.py BUILD [TIMES] [--by KILL|STOP|TERM] [--flush MS]
"""

import argparse
import os
import signal
import statistics
import time

from dev_cluster import DevCluster, acquire, status, until


def run(cluster, count, by, is_told=True):
    """The durations, in seconds."""
    times = []
    for turn in range(count):
        leader = cluster.leader()
        other = [p for i, p in enumerate(cluster.ports) if i + 1 != leader][0]
        until(lambda: acquire(other, f'before/{turn}'))
        term = int(status(other)[b'term'])
        began = time.monotonic()
        cluster.send(leader, by)
        until(lambda: acquire(other, f'after/{turn}'))
        times.append(time.monotonic() - began)
        terms = int(status(other)[b'term']) - term
        if is_told:
            print(f'{by.name} {turn + 1}: {1000 * times[-1]:.1f} ms, '
                  f'terms: {terms}', flush=True)
        if by == signal.SIGSTOP:
            cluster.send(leader, signal.SIGCONT)
        else:
            cluster.restart(leader)
        # Links that were up for less than a second are redialled with pauses.
        time.sleep(1.5)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('build', type=os.path.abspath)
    parser.add_argument('times', type=int, nargs='?', default=20)
    parser.add_argument('--by', choices=('KILL', 'STOP', 'TERM'),
                        default='KILL')
    parser.add_argument('--flush', type=int, default=0, metavar='MS')
    options = parser.parse_args()
    with DevCluster(options.build, flush_ms=options.flush) as cluster:
        by = signal.Signals[f'SIG{options.by}']
        times = run(cluster, options.times, by)
        print(f'{options.times} x {by.name}: median '
              f'{1000 * statistics.median(times):.1f} ms, max '
              f'{1000 * max(times):.1f} ms')


if __name__ == '__main__':
    main()
