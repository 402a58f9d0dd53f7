# SPDX-License-Identifier: MIT
"""300 fires of a task of node-cron in two processes whose clocks are 20 s apart,
while leaders are killed: make test-long."""

import contextlib
import time

from bounded import bounded_to
from cluster import Cluster
from test_node_cron import (  # noqa: F401
    fires,
    folder_,
    no_fires,
    process,
)

FIRES = 300  # One a second.
AHEAD_S = 20
GIVE_UP_S = 540
LEADER_DIES_EACH_S = 15
# The process whose clock is ahead asks first for each fire. So it is killed now
# and then, for long enough that the other one runs fires as well.
RUNS_S, AWAY_S = 30, 45
LEADERS, OF_THE_OTHER = FIRES // LEADER_DIES_EACH_S // 2, FIRES // 10

bounded = bounded_to(GIVE_UP_S + 120)


def test_300_fires_run_once_each(folder):
    began = time.monotonic()
    killed = 0
    with Cluster(3) as cluster, process(folder, cluster, 0):
        while len(set(fires(folder)[0])) < FIRES:
            at = time.monotonic() - began
            assert at < GIVE_UP_S, "%d fires, %d leaders" % (
                len(fires(folder)[0]), killed)
            with contextlib.ExitStack() as stack:
                if at % (RUNS_S + AWAY_S) < RUNS_S:
                    stack.enter_context(process(folder, cluster, AHEAD_S))
                    lasts = RUNS_S
                else:
                    lasts = AWAY_S
                for _ in range(lasts // LEADER_DIES_EACH_S):
                    time.sleep(LEADER_DIES_EACH_S)
                    leader = cluster.leader()
                    leader.kill()
                    leader.start()
                    killed += 1
    ran, ahead = fires(folder)
    print("%d fires, %d with the clock ahead, %d leaders killed" % (
        len(ran), ahead.count(AHEAD_S), killed))
    assert len(set(ran)) == len(ran), "a fire ran twice"
    assert killed >= LEADERS
    assert min(ahead.count(0), ahead.count(AHEAD_S)) >= OF_THE_OTHER
