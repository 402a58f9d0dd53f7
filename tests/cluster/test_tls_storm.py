# SPDX-License-Identifier: MIT
"""Clients that come back all at once, and peers that only begin a TLS
handshake, cost the cluster no leader."""

import asyncio
import random
import resource
import socket
import threading
import time

import pytest

from bounded import bounded_to
from cluster import wait_until
from tls_cluster import TlsCluster, as_user

CLIENTS = 2000

bounded = bounded_to(240)


@pytest.fixture(scope="module")
def cluster():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE,
                       (min(hard, max(soft, 2 * CLIENTS)), hard))
    with TlsCluster() as cluster:
        cluster.leader()
        yield cluster
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Cycles:
    """A lock that is taken and given back all the while, at the leader."""

    def __init__(self, node):
        self.node = node
        self.count = 0
        self.error = None
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        wait_until(lambda: self.count > 0 or self.error, 10, "a first cycle")
        return self

    def __exit__(self, *_):
        self.is_over.set()
        self.thread.join(30)

    def run(self):
        try:
            with self.node.connect() as client:
                client.do("SESSION.OPEN", "TTL", "60000")
                while not self.is_over.is_set():
                    client.do("SESSION.KEEP")
                    assert client.do("LOCK.ACQUIRE", "cycle")
                    client.do("LOCK.RELEASE", "cycle")
                    self.count += 1
        except Exception as error:
            self.error = error


async def come_back(port, context, clients):
    """Connects all of them at once; each says PING and is answered."""
    by = time.monotonic() + 90

    async def one():
        while time.monotonic() < by:
            try:
                reader, writer = await asyncio.wait_for(
                    asyncio.open_connection("127.0.0.1", port, ssl=context), 60)
                writer.write(b"PING\r\n")
                if await asyncio.wait_for(reader.readline(), 60) == \
                        b"+PONG\r\n":
                    return writer
            except (OSError, asyncio.TimeoutError):
                # The kernel's backlog is full, or this process was too slow for
                # the handshake's bound: later, as a client would.
                await asyncio.sleep(random.uniform(0.1, 1))
        raise AssertionError("never let in")

    writers = await asyncio.gather(*(one() for _ in range(clients)))
    for writer in writers:
        writer.transport.abort()
    return len(writers)


def test_thousands_that_come_back_at_once_cost_no_leader(cluster):
    leader = cluster.leader()
    term = leader.status()["term"]
    context = as_user(cluster.certs)
    with Cycles(leader) as cycles:
        for _ in range(2):
            before = cycles.count
            assert asyncio.run(come_back(leader.client_port, context,
                                         CLIENTS)) == CLIENTS
            wait_until(lambda: cycles.count > before or cycles.error, 20,
                       "the lock is still held")
            assert cycles.error is None
    status = leader.status()
    assert (status["role"], status["term"]) == ("leader", term)


def test_half_handshakes_hold_up_nobody(cluster):
    leader = cluster.leader()
    term = leader.status()["term"]
    strangers = []
    with Cycles(leader) as cycles:
        try:
            for i in range(1000):
                one = socket.create_connection(
                    ("127.0.0.1", leader.client_port), 5)
                one.sendall(b"\x16\x03\x01\x02\x00\x01"[:1 + i % 6])
                strangers.append(one)
            before = cycles.count
            wait_until(lambda: cycles.count > before + 20 or cycles.error, 20,
                       "the lock is still held")
            # Each is closed when its time is over.
            for one in strangers:
                one.settimeout(20)
                assert one.recv(100) == b""
        finally:
            for one in strangers:
                one.close()
    assert cycles.error is None
    assert leader.status()["term"] == term
