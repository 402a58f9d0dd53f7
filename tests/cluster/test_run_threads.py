# SPDX-License-Identifier: MIT
"""hasp run and processes whose main thread has ended."""

import signal
import time

import pytest

from test_run import WRITER, Relay, cluster  # noqa: F401 (a fixture)

# The main thread ends, by its own system call, and another one writes on: the
# process shows the state Z, no command line and no environment.
LEADERLESS = """
import ctypes, platform, signal, threading
signal.signal(signal.SIGTERM, signal.SIG_IGN)
threading.Thread(target=exec, args=(%r, {})).start()
number = {"x86_64": 60}.get(platform.machine(), 93)
ctypes.CDLL(None).syscall(number, 0)
""" % WRITER.replace("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n", "")


@pytest.mark.parametrize("orphan", [False, True])
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_writer_whose_main_thread_has_ended_is_not_taken_for_dead(
    cluster, tmp_path, how, orphan
):
    with Relay(
        cluster, tmp_path, "kill", orphan=orphan, writer=LEADERLESS
    ) as relay:
        time.sleep(1)
        if how == "kill":
            relay.first.kill()
        else:
            relay.first.send_signal(signal.SIGSTOP)
        relay.check_handed_over()
        relay.first.send_signal(signal.SIGCONT)
