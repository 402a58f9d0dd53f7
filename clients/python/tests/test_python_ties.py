# SPDX-License-Identifier: MIT
"""Ties, where Python has what other languages have not: asyncio, and forks.
tests/conformance/test_ties.py has the rest."""

import asyncio
import gc
import os
import sys
import time
import warnings

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..'))
sys.path.insert(0, os.path.join(HERE, '..', '..', '..', 'tests', 'cluster'))

from cluster import Cluster  # noqa: E402
from fake_agent import TIE, UNTIE, FakeAgent  # noqa: E402

import hasp  # noqa: E402
import hasp.aio  # noqa: E402


@pytest.fixture(scope='module')
def nodes():
    with Cluster(1) as cluster:
        cluster.leader()
        yield f'127.0.0.1:{cluster.nodes[0].client_port}'


@pytest.fixture
def agent():
    agent = FakeAgent()
    yield agent
    agent.end()


def test_a_session_of_a_loop_is_tied(nodes, agent):
    async def run():
        events = []
        session = hasp.aio.Session(nodes, tie='must', agent=agent.path,
                                   on_event=events.append)
        async with session:
            assert session.is_tied() and session.ttl == 60
            with pytest.raises(hasp.HaspError, match='untie'):
                session.secret
            agent.cut()
            while not events:
                await asyncio.sleep(0.01)
            assert events[0].kind == 'notice' and not session.is_tied()
            while not session.is_tied():
                await asyncio.sleep(0.01)
            await session.untie()
            assert not session.is_tied() and len(session.secret) == 32
        async with hasp.aio.Session(nodes, tie='must', agent=agent.path):
            pass
        agent.wait_for(UNTIE, 2)
        assert len(events) == 1

    with warnings.catch_warnings():
        warnings.simplefilter('error', ResourceWarning)
        asyncio.run(asyncio.wait_for(run(), 30))
        gc.collect()


def test_an_agent_that_hangs_bounds_a_close(nodes, agent):
    session = hasp.Session(nodes, tie='must', agent=agent.path)
    agent.answer = lambda line: None
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 8


def test_a_fork_has_no_tie(nodes, agent):
    with hasp.Session(nodes, tie='must', agent=agent.path) as session:
        child = os.fork()
        if child == 0:
            is_tied = session.is_tied()
            session.close()
            os._exit(is_tied)
        assert os.waitpid(child, 0)[1] == 0
        assert session.is_tied() and not agent.said(UNTIE)
    assert len(agent.said(UNTIE)) == 1 and agent.count == 1


def test_a_child_that_opens_its_own_is_tied_by_its_own_start(nodes, agent):
    with hasp.Session(nodes, tie='must', agent=agent.path):
        time.sleep(0.05)  # Another start time, in ticks of 10 ms.
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with hasp.Session(nodes, tie='must', agent=agent.path):
                    status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        first, second = agent.said(TIE)
        assert first[3] != second[3] and agent.count == 2


def test_a_session_that_is_lost_is_untied(nodes, agent):
    with hasp.Session(nodes, tie='must', agent=agent.path) as session:
        with hasp.Session(nodes) as other:
            assert other.ask('SESSION.DIED', session.id,
                             agent.said(TIE)[0][2]) == 1
        agent.wait_for(UNTIE)
