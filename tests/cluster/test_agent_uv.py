# SPDX-License-Identifier: MIT
"""Ties of sessions on a libuv loop (hasp_uv.h, tests/client/tied_uv.c): what
the loop's program hears, and that the loop never stops for the agent. The tests
of tests/conformance/test_ties.py are the same ones for the languages."""

import os
import time

import pytest

import test_agent
from cluster import Cluster, wait_until
from fake_agent import TIE, UNTIE, FakeAgent
from test_agent import SOON_S, Agent, endpoints, is_passed_on

TIED_UV = os.path.join(test_agent.BUILD, "client-tests", "tied_uv")


@pytest.fixture(scope="module", name="cluster")
def cluster_():
    with Cluster(1) as cluster:
        cluster.leader()
        yield cluster


@pytest.fixture(name="agent")
def agent_():
    agent = FakeAgent()
    yield agent
    agent.end()


class Holder(test_agent.Holder):
    def __init__(self, cluster, agent, lock, tie="must"):
        super().__init__(cluster, agent, lock, tie, program=(TIED_UV,))


def sessions(cluster):
    with cluster.leader().connect() as client:
        return repr(client.do("SESSION.LIST", "COUNT", 1000)[1])


def test_a_session_is_tied_and_its_lock_passes_on(cluster):
    with Agent(cluster) as real, Holder(cluster, real.path, "uv") as holder:
        assert holder.is_tied, holder.first
        assert holder.ask("tied") == "yes" and holder.ask("event") == "none"
        holder.process.kill()
        is_passed_on(cluster, "uv", holder)


def test_a_session_that_is_closed_is_untied(cluster, agent):
    with Holder(cluster, agent.path, "uv-close") as holder:
        assert agent.said(TIE)[0][4] == "60000"
        assert holder.ask("close") == "closed"
        assert agent.wait_for(UNTIE)[2] == agent.said(TIE)[0][2]


def test_try_goes_on_without_an_agent_and_says_so(cluster):
    with Holder(cluster, "/nonexistent/a.sock", "uv-try", "try") as holder:
        assert holder.first.startswith("held") and not holder.is_tied
        wait_until(lambda: "/nonexistent/a.sock" in holder.ask("event"), SOON_S,
                   "an event")
        assert holder.ask("tied") == "no"
        # It was never tied, so there is nothing to undo.
        assert len(holder.ask("credentials").partition(":")[2]) == 32
        assert holder.ask("untie") == "untied"


def test_must_fails_without_an_agent(cluster):
    with Holder(cluster, "/nonexistent/a.sock", "uv-must") as holder:
        assert holder.first.startswith("failed the session cannot be tied: ")
        assert "/nonexistent/a.sock" in holder.first
        assert holder.ask("event") == "none"
        name = ":%d'" % holder.process.pid
        assert name in sessions(cluster)
        assert holder.ask("close") == "closed"
        assert name not in sessions(cluster)


def test_an_agent_that_hangs_stops_no_loop(cluster, agent):
    agent.answer = lambda line: None
    began = time.monotonic()
    with Holder(cluster, agent.path, "uv-hang") as holder:
        assert holder.first.startswith("failed the session cannot be tied: ")
        seconds = time.monotonic() - began
        assert 0.9 < seconds < SOON_S
        # 50 turns a second, if the machine has time for them.
        assert int(holder.ask("ticks")) > 5
        assert holder.ask("close") == "closed"


def test_a_refusal_is_reported(cluster, agent):
    agent.answer = lambda line: "ERR too many ties of this process"
    with Holder(cluster, agent.path, "uv-refused") as holder:
        assert "too many ties of this process" in holder.first
    with Holder(cluster, agent.path, "uv-refused", "try") as holder:
        wait_until(lambda: "too many ties" in holder.ask("event"), SOON_S,
                   "an event")
        assert holder.ask("tied") == "no"


def test_a_connection_that_ends_is_replaced(cluster, agent):
    with Holder(cluster, agent.path, "uv-again") as holder:
        agent.stop()
        wait_until(lambda: agent.path in holder.ask("event"), SOON_S,
                   "an event")
        assert holder.ask("tied") == "no"
        agent.start()
        wait_until(lambda: holder.ask("tied") == "yes", SOON_S, "another tie")
        assert holder.ask("believes") == "yes"


def test_a_session_is_handed_over_only_untied(cluster, agent):
    with Holder(cluster, agent.path, "uv-hand") as holder:
        told = holder.ask("credentials")
        assert "nothing was handed over" in told and "hasp_uv_untie" in told
        good, agent.answer = agent.answer, lambda line: None
        ticks = int(holder.ask("ticks"))
        told = holder.ask("untie")
        assert "nothing was handed over" in told and agent.path in told
        assert int(holder.ask("ticks")) - ticks > 5
        agent.answer = good
        wait_until(lambda: holder.ask("tied") == "yes", SOON_S,
                   "it is tied as before")
        assert holder.ask("untie") == "untied"
        assert holder.ask("tied") == "no"
        session, _, secret = holder.ask("credentials").partition(":")
        assert agent.said(UNTIE)[-1][1] == session
        with cluster.leader().connect() as client:
            client.do("SESSION.ATTACH", session, secret)
        # For good: whatever the agent does.
        count = len(agent.said(TIE))
        agent.cut()
        time.sleep(1.5)
        assert len(agent.said(TIE)) == count and holder.ask("tied") == "no"


def test_a_loop_that_ends_waits_for_no_agent(cluster, agent):
    with Holder(cluster, agent.path, "uv-end") as holder:
        agent.answer = lambda line: None
        began = time.monotonic()
        assert "nothing was handed over" in holder.ask("untie close")
        assert holder.process.stdout.readline().strip() == "closed"
        assert time.monotonic() - began < SOON_S


def test_a_refused_untie_is_no_end_of_the_tie(cluster, agent):
    with Holder(cluster, agent.path, "uv-kept") as holder:
        good = agent.answer
        agent.answer = lambda line: "ERR not the process that tied it" \
            if line.startswith("UNTIE") else good(line)
        assert "not the process that tied it" in holder.ask("untie")
        assert "nothing was handed over" in holder.ask("credentials")
