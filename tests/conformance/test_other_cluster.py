# SPDX-License-Identifier: MIT
"""Real nodes of another cluster at the endpoints of a running client, in each
language: the new epoch of a restored cluster, with which it continues, and a
cluster that was founded by mistake, in which no client locks."""

import asyncio
import os
import subprocess
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..', 'cluster'))

from cluster import (Cluster, Node, free_ports,  # noqa: E402
                     wait_until)
from driver import LANGUAGES, Conform, Refused  # noqa: E402
from tls_cluster import HASP, tool  # noqa: E402

NOT_DONE = ('UNREACHABLE', 'UNKNOWN', 'LOST')
CLOSED = ('LOST', 'EXPIRED', 'NOSESSION')


@pytest.fixture(params=sorted(LANGUAGES), name='language')
def language_(request):
    if not LANGUAGES[request.param][0]:
        pytest.skip(f'needs {request.param}')
    return request.param


def endpoints(cluster):
    return ','.join(f'127.0.0.1:{node.client_port}' for node in cluster.nodes)


def found(cluster, ports):
    """A node that does not know any cluster, and has founded its own."""
    founder = Node(cluster, 9, ports)
    founders, cluster.founders = cluster.founders, []
    founder.write_config()
    cluster.founders = founders
    founder.start()
    wait_until(founder.is_serving, 15, 'it has founded a cluster')
    return founder


def lock(conform, what, wait=0):
    """The token; None: it is not held."""
    number = conform.begin('lock', **{'as': what, 'names': [what],
                                      'wait': wait})
    told = conform.end(number, 40)
    return told['tokens'][what] if told['held'] else None


def close_lost(conform):
    conform.event('lost')
    try:
        conform.do('close')
    except Refused as error:
        assert error.word in CLOSED, error


def test_a_restored_cluster_is_known_by_its_former_life(language, tmp_path):
    """The session is lost; another one waits for the end of the quarantine."""
    path = str(tmp_path / 'backup')
    conform = Conform(language)
    try:
        with Cluster(1) as cluster:
            node = cluster.nodes[0]
            cluster.leader()
            conform.do('open', endpoints=endpoints(cluster), ttl=5000)
            first = lock(conform, 'a')
            tool('--socket', node.dir, 'snapshot', 'save', path,
                 folder=str(tmp_path))
            assert node.stop() == 0
            os.rename(node.dir, node.dir + '.old')
            tool('snapshot', 'restore', path, '--config', node.config,
                 '--quarantine', '4s', folder=str(tmp_path))
            node.start()
            wait_until(node.is_serving, 15, 'the new life has begun')
            close_lost(conform)
            conform.do('open', endpoints=endpoints(cluster), ttl=5000,
                       timeout=20000)
            assert lock(conform, 'a', wait=20000) > first
            with node.connect() as client:
                greeting = client.map('HELLO')
                assert len(greeting['former']) == 1
                assert greeting['cluster'] not in greeting['former']
            conform.do('release', **{'as': 'a'})
            conform.do('close')
    except BaseException:
        conform.close(kill=True)
        raise
    assert conform.close() == 0


def test_nobody_locks_at_a_cluster_that_was_founded_by_mistake(language):
    conform = Conform(language)
    try:
        with Cluster(3) as cluster:
            cluster.leader()
            nodes = endpoints(cluster)
            conform.do('open', endpoints=nodes, ttl=2000, timeout=1500)
            assert lock(conform, 'a')
            for node in cluster.nodes:
                node.kill()
            old = cluster.nodes[0]
            founder = found(cluster, (old.client_port, old.peer_port,
                                      old.http_port))
            with pytest.raises(Refused) as refused:
                lock(conform, 'b')
            assert refused.value.word in NOT_DONE
            close_lost(conform)
            with pytest.raises(Refused) as refused:
                conform.do('open', endpoints=nodes, ttl=2000, timeout=1500)
            assert refused.value.word in NOT_DONE
            with founder.connect() as client:
                assert client.do('SESSION.LIST')[1] == []
            # Two nodes of the known cluster come back, beside the other one.
            for node in cluster.nodes[1:3]:
                node.start()
            wait_until(lambda: any(node.is_serving() for node in
                                   cluster.nodes[1:3]), 20, 'a leader')
            conform.do('open', endpoints=nodes, ttl=2000, timeout=10000)
            for number in range(3):
                assert lock(conform, f'c{number}', wait=5000)
                time.sleep(.3)
            with founder.connect() as client:
                assert client.do('SESSION.LIST')[1] == []
            conform.do('close')
            founder.kill()
    except BaseException:
        conform.close(kill=True)
        raise
    assert conform.close() == 0


def test_hasp_run_and_asyncio_do_not_lock_there_either():
    sys.path.insert(0, os.path.join(HERE, '..', '..', 'clients', 'python'))
    import hasp.aio  # pylint: disable=import-outside-toplevel

    async def works(nodes, cluster, ports):
        async with hasp.aio.Session(nodes, ttl=2, timeout=2) as session:
            assert await session.lock('a').acquire(False)
            cluster.nodes[0].kill()
            founder = found(cluster, ports)
            with pytest.raises(hasp.HaspError, match='another cluster'):
                await session.lock('b').acquire(False)
        with pytest.raises(hasp.Unreachable, match='another cluster'):
            async with hasp.aio.Session(nodes, ttl=2, timeout=2):
                pass
        return founder

    with Cluster(1) as cluster:
        cluster.leader()
        ports = free_ports(3)
        nodes = f'{endpoints(cluster)},127.0.0.1:{ports[0]}'
        with subprocess.Popen(
                [HASP, '-e', nodes, 'run', '--ttl', '2s', 'job', '--', 'sleep',
                 '30'], stderr=subprocess.PIPE, text=True) as run:
            with cluster.nodes[0].connect() as client:
                wait_until(lambda: client.map('LOCK.SHOW', 'job')['holders'],
                           10, 'the job runs')
            founder = asyncio.run(works(nodes, cluster, ports))
            told = run.communicate(timeout=30)[1]
        assert run.returncode == 79 and 'of another cluster' in told
        with founder.connect() as client:
            assert client.do('SESSION.LIST')[1] == []
        founder.kill()
