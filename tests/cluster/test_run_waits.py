# SPDX-License-Identifier: MIT
"""hasp run and the end of its wait."""

import signal
import time

from cluster import wait_until
from test_run import ask_json, cluster, end, start  # noqa: F401 (a fixture)


def test_a_session_lost_as_the_wait_ends_is_a_wait_that_is_over(
    cluster,  # noqa: F811
):
    first = start(cluster, "run", "over", "sh", "-c", "echo up; sleep 60")
    second = None
    try:
        assert first.stdout.readline() == "up\n"
        second = start(cluster, "run", "--ttl", "1s", "-w", "3s", "over", "true")
        by = time.monotonic() + 3
        assert "held by" in second.stderr.readline()
        wait_until(
            lambda: ask_json(cluster, "show", "over")["queue"], 3, "it waits"
        )
        second.send_signal(signal.SIGSTOP)
        wait_until(
            lambda: not ask_json(cluster, "show", "over")["queue"]
            and time.monotonic() > by,
            15,
            "its session and its time are over",
        )
        second.send_signal(signal.SIGCONT)
        assert second.wait(10) == 75, second.stderr.read()
    finally:
        end(first)
        if second is not None:
            end(second)
