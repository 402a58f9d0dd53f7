# SPDX-License-Identifier: MIT
"""The Python and Node.js clients on a real three-node cluster, the leader killed
meanwhile."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, '..', '..', '..')
sys.path.insert(0, os.path.join(HERE, '..'))
sys.path.insert(0, os.path.join(ROOT, 'tests', 'cluster'))

from cluster import Cluster  # noqa: E402

import hasp  # noqa: E402
import hasp.aio  # noqa: E402


@pytest.fixture
def cluster():
    with Cluster(3) as nodes:
        nodes.leader()
        yield nodes


def endpoints(cluster):
    return ','.join(f'127.0.0.1:{node.client_port}' for node in cluster.nodes)


def test_a_lock_excludes_and_tokens_grow(cluster):
    with hasp.Session(endpoints(cluster)) as one, \
            hasp.Session(endpoints(cluster)) as two:
        first, second = one.lock('a'), two.lock('a')
        assert first.acquire(0)
        assert not second.acquire(0)
        assert not second.acquire(timeout=0.2)
        token = first.token
        assert 0 < first.remaining() <= 8
        first.guard(1)
        with pytest.raises(hasp.LeaseLost):
            first.guard(60)
        first.release()
        assert first.remaining() == 0
        assert second.acquire(timeout=5)
        assert second.token > token


def test_two_locks_of_one_session_exclude_each_other(cluster):
    with hasp.Session(endpoints(cluster)) as session:
        one, two = session.lock('a'), session.lock('a')
        assert one.acquire(0) and not one.acquire(0)
        assert not two.acquire(0)
        one.release()
        assert two.acquire(0)
        with pytest.raises(hasp.NotHeld):
            one.release()


def test_the_lease_and_a_wait_survive_the_leader(cluster):
    events = []
    with hasp.Session(endpoints(cluster), ttl=3, on_event=lambda event:
                      events.append(event)) as one, \
            hasp.Session(endpoints(cluster), ttl=3) as two:
        first, second = one.lock('a'), two.lock('a')
        assert first.acquire(0)
        token = first.token
        waiter = threading.Thread(target=second.acquire)
        waiter.start()
        time.sleep(0.3)
        cluster.leader().kill()
        time.sleep(4)  # Longer than a lease: heartbeats went on.
        assert first.remaining() > 0
        assert waiter.is_alive()
        first.release()
        waiter.join(10)
        assert second.token > token
        second.release()
    assert events == []


def test_a_lost_majority_ends_belief_in_time(cluster):
    events = []
    session = hasp.Session(endpoints(cluster), ttl=1.5, timeout=0.5,
                           on_event=lambda event: events.append(event.kind))
    lock = session.lock('a')
    assert lock.acquire(0)
    for node in cluster.nodes[:2]:
        node.kill()
    time.sleep(1.5)
    assert lock.remaining() == 0
    assert session.state() is hasp.State.LOST
    with pytest.raises(hasp.LeaseLost):
        lock.guard(0.001)
    assert events[-1] == 'lost'
    session.close()


def test_a_please_reaches_the_holder(cluster):
    asked = threading.Event()
    with hasp.Session(endpoints(cluster), ttl=2, on_event=lambda event:
                      asked.set() if event.text == "deploy" else None) as session:
        assert session.lock('a').acquire(0)
        time.sleep(0.6)  # The keeper's first heartbeat attaches it.
        with cluster.leader().connect() as client:
            client.do('LOCK.PLEASE', 'a', 'MESSAGE', 'deploy')
        assert asked.wait(5)


@pytest.mark.skipif(not hasattr(os, 'fork'), reason='needs fork')
def test_a_child_must_not_use_the_session_of_its_parent(cluster):
    with hasp.Session(endpoints(cluster)) as session:
        child = os.fork()
        if child == 0:
            try:
                session.lock('a').acquire(0)
                os._exit(1)
            except hasp.HaspError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert session.lock('a').acquire(0)


def test_asyncio_waits_cancels_and_survives_the_leader(cluster):
    async def run():
        async with hasp.aio.Session(endpoints(cluster), ttl=3) as one, \
                hasp.aio.Session(endpoints(cluster), ttl=3) as two:
            first, second = one.lock('a'), two.lock('a')
            assert await first.acquire(0)
            assert not await second.acquire(timeout=0.1)
            waiting = asyncio.create_task(second.acquire())
            await asyncio.sleep(0.2)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            token = first.token
            waiting = asyncio.create_task(second.acquire())
            await asyncio.sleep(0.2)
            cluster.leader().kill()
            await asyncio.sleep(1)
            first.guard(0.5)
            await first.release()
            assert await asyncio.wait_for(waiting, 10)
            assert second.token > token
            async with one.lock('b') as lock:
                assert lock.remaining() > 0

    asyncio.run(run())


@pytest.mark.skipif(shutil.which('node') is None, reason='node is not installed')
def test_the_lease_of_the_node_client():
    told = subprocess.run(
        ['node', os.path.join(ROOT, 'clients', 'node', 'test', 'lease.js')],
        capture_output=True, text=True, timeout=60)
    assert told.returncode == 0, told.stderr
    assert int(told.stdout.split()[0]) > 100


@pytest.mark.skipif(shutil.which('node') is None, reason='node is not installed')
def test_the_node_client(cluster):
    leader = cluster.leader()
    run = subprocess.Popen(
        ['node', os.path.join(ROOT, 'clients', 'node', 'test',
                              'session.js')],
        env=dict(os.environ, HASP_ENDPOINTS=endpoints(cluster)),
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert run.stdout.readline() == 'kill the leader\n'
        leader.kill()
        run.stdin.write('killed\n')
        run.stdin.close()
        assert run.stdout.read() == 'ok\n'
        assert run.wait(30) == 0
    finally:
        run.kill()


@pytest.mark.skipif(shutil.which('node') is None, reason='node is not installed')
def test_what_the_node_client_can_do_beside(cluster):
    told = subprocess.run(
        ['node', os.path.join(ROOT, 'clients', 'node', 'test', 'features.js')],
        env=dict(os.environ, HASP_ENDPOINTS=endpoints(cluster)),
        capture_output=True, text=True, timeout=100)
    assert told.returncode == 0 and told.stdout.endswith('ok\n'), \
        told.stdout + told.stderr
    assert len(told.stdout.splitlines()) > 10
