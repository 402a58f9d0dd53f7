# SPDX-License-Identifier: MIT
"""Nothing that was acknowledged is lost, however the processes end."""

import os
import random
import shutil
import threading
import time

from cluster import Cluster, ReplyError, Session, as_map, wait_until

# Small, so that the tests go through snapshots and new segments.
SMALL = (
    "snapshot_entries = 300\nsnapshot_chunk_size = 4096\n"
    "wal_segment_size = 1M\n"
    "flush_ms = 20\n"
)


class Writers:
    """Threads that take a lock of their own, show its token to a fence and give
    it back; each remembers the newest token that the fence was said to have
    taken."""

    def __init__(self, cluster, count):
        self.cluster = cluster
        self.acknowledged = [0] * count
        self.failed = None
        self.is_done = threading.Event()
        self.threads = [
            threading.Thread(target=self.run, args=(i,), daemon=True)
            for i in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, i):
        try:
            session = self.cluster.retry(
                lambda client: Session(client, ttl=600000)
            )
            while not self.is_done.is_set():
                self.visit(i, session)
        except Exception as error:  # pylint: disable=broad-except
            self.failed = error

    def visit(self, i, session):
        node = random.choice(self.cluster.nodes)
        try:
            with node.connect(3.0) as client:
                session.attach(client)
                while not self.is_done.is_set():
                    token = client.do("LOCK.ACQUIRE", "lock%d" % i)
                    assert token >= self.acknowledged[i]
                    assert client.do("FENCE.ADMIT", "fence%d" % i, token) == 1
                    self.acknowledged[i] = token
                    client.do("LOCK.RELEASE", "lock%d" % i)
        except ReplyError as error:
            # An acknowledged session or token must not be unknown.
            if error.code not in ("NOLEADER", "UNKNOWN", "BUSY"):
                raise
            time.sleep(0.01)
        except OSError:
            time.sleep(0.01)

    def stop(self):
        self.is_done.set()
        for thread in self.threads:
            thread.join(20)
            assert not thread.is_alive()
        if self.failed is not None:
            raise self.failed

    def check(self, client):
        for i, token in enumerate(self.acknowledged):
            assert client.do("FENCE.SHOW", "fence%d" % i) >= token
            assert token > 0


def test_all_killed_at_once_lose_nothing():
    with Cluster(3, SMALL) as cluster:
        cluster.leader()
        writers = Writers(cluster, 6)
        for _ in range(4):
            time.sleep(0.7)
            for node in cluster.nodes:
                node.kill()
            cluster.start()
            cluster.leader()
        time.sleep(0.3)
        writers.stop()
        print("acknowledged: %r" % writers.acknowledged)
        cluster.retry(writers.check)
        cluster.converged()


def test_one_after_the_other_killed_loses_nothing():
    with Cluster(3, SMALL) as cluster:
        cluster.leader()
        writers = Writers(cluster, 6)
        for i in range(6):
            time.sleep(0.4)
            cluster.nodes[i % 3].kill()
            cluster.leader()
            cluster.nodes[i % 3].start()
        writers.stop()
        cluster.leader()
        cluster.retry(writers.check)
        cluster.converged()


def test_one_node_killed_again_and_again_loses_nothing():
    with Cluster(1, SMALL) as cluster:
        cluster.leader()
        writers = Writers(cluster, 4)
        for _ in range(6):
            time.sleep(0.4)
            cluster.nodes[0].kill()
            cluster.start()
            cluster.leader()
        writers.stop()
        cluster.retry(writers.check)


def test_holds_queues_and_sessions_are_there_after_a_restart_of_all():
    with Cluster(3, SMALL) as cluster:
        leader = cluster.leader()
        with leader.connect() as client, leader.connect(30) as other:
            session = Session(client, ttl=600000, name="keeper")
            tokens = {
                name: client.do("LOCK.ACQUIRE", name, "VALUE", "v-" + name)
                for name in ("a", "b", "c")
            }
            waiter = Session(other, ttl=600000)
            other.send("LOCK.ACQUIRE", "a", "WAIT", "FOREVER", "REQ", 1)
            wait_until(
                lambda: client.map("LOCK.SHOW", "a")["queue"],
                5,
                "the waiter waits",
            )
            for node in cluster.nodes:
                node.kill()
        cluster.start()
        leader = cluster.leader()
        with leader.connect() as client, leader.connect(30) as other:
            session.attach(client)
            for name, token in tokens.items():
                assert client.do("LOCK.CHECK", name, token) == 1
                holder = as_map(client.map("LOCK.SHOW", name)["holders"][0])
                assert holder["value"] == "v-" + name
                assert holder["client"] == "keeper"
            # The waiter takes up its place by asking again.
            waiter.attach(other)
            other.send("LOCK.ACQUIRE", "a", "WAIT", "FOREVER", "REQ", 1)
            assert client.do("LOCK.RELEASE", "a") == 0
            assert other.receive() > tokens["a"]


def test_a_lost_table_is_rebuilt_from_snapshot_and_log():
    with Cluster(1, SMALL) as cluster:
        node = cluster.leader()
        with node.connect() as client:
            session = Session(client, ttl=600000)
            tokens = [client.do("LOCK.ACQUIRE", "l%d" % i) for i in range(500)]
        wait_until(lambda: "snapshot taken" in node.log(), 10, "a snapshot")
        node.kill()
        # As after a crash of the operating system: another boot wrote it.
        path = os.path.join(node.dir, "trust")
        with open(path) as file:
            content = file.read()
        assert content.startswith("boot"), content
        with open(path, "w") as file:
            file.write("boot 00000000-0000-0000-0000-000000000000\n")
        node.start()
        cluster.leader()
        assert "table is rebuilt" in node.log()
        with node.connect() as client:
            session.attach(client)
            for i, token in enumerate(tokens):
                assert client.do("LOCK.CHECK", "l%d" % i, token) == 1


def test_a_follower_that_was_away_long_gets_a_snapshot():
    with Cluster(3, SMALL) as cluster:
        leader = cluster.leader()
        away = cluster.followers(leader)[0]
        away.kill()
        with leader.connect() as client:
            session = Session(client, ttl=600000)
            tokens = {}
            # More entries than the log keeps after a snapshot, in batches.
            for _ in range(100):
                for i in range(400):
                    client.send("LOCK.ACQUIRE", "f%d" % i)
                for i in range(400):
                    tokens[i] = client.receive()
                for i in range(200):
                    client.send("LOCK.RELEASE", "f%d" % i)
                for i in range(200):
                    client.receive()
        away.start()
        wait_until(
            lambda: "snapshot received" in away.log(),
            30,
            "it receives a snapshot",
        )
        cluster.converged(30)
        # It can lead with what it received.
        for node in cluster.followers(away):
            if node is not leader:
                node.kill()
        cluster.leader()

        def check(client):
            session.attach(client)
            for i in range(200, 400):
                assert client.do("LOCK.CHECK", "f%d" % i, tokens[i]) == 1

        cluster.retry(check, nodes=[away])
        assert "snapshot installed" in away.log()


def test_a_directory_that_lost_its_log_does_not_start():
    with Cluster(3) as cluster:
        cluster.leader()
        node = cluster.nodes[0]
        cluster.converged()
        node.kill()
        shutil.rmtree(os.path.join(node.dir, "wal"))
        node.start()
        assert node.wait_exit() == 70
        assert "log is gone" in node.log()
