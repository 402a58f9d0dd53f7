# SPDX-License-Identifier: MIT
"""Acknowledged changes outlive the leader."""

import threading
import time

import pytest

from cluster import Client, Cluster, ReplyError, Session, as_map, wait_until


def show(client, name):
    lock = client.map("LOCK.SHOW", name)
    lock["holders"] = [as_map(h) for h in lock["holders"]]
    lock["queue"] = [as_map(w) for w in lock["queue"]]
    return lock


def test_lock_queue_and_tokens_survive_the_leader():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        survivor = cluster.followers(leader)[0]
        with survivor.connect() as holder_client:
            holder = Session(holder_client, ttl=60000, name="holder")
            token = holder_client.do("LOCK.ACQUIRE", "a", "VALUE", "mine")
            waiting = []
            for i in range(3):
                client = survivor.connect(60)
                session = Session(client, ttl=60000, name="waiter%d" % i)
                client.send("LOCK.ACQUIRE", "a", "WAIT", "FOREVER", "REQ", 1)
                waiting.append((client, session))
                wait_until(
                    lambda: len(show(holder_client, "a")["queue"]) == i + 1,
                    5,
                    "it is in the queue",
                )
            before = show(holder_client, "a")
            leader.kill()
            cluster.leader()

            after = show(holder_client, "a")
            assert [h["token"] for h in after["holders"]] == [token]
            assert after["holders"][0]["session"] == holder.id
            assert after["holders"][0]["value"] == "mine"
            assert [w["index"] for w in after["queue"]] == [
                w["index"] for w in before["queue"]
            ]
            # The queue moves on in its order, with growing tokens.
            tokens = [token]
            assert holder_client.do("LOCK.RELEASE", "a") == 0
            for client, _ in waiting:
                tokens.append(client.receive())
                assert client.do("LOCK.RELEASE", "a") == 0
            assert tokens == sorted(set(tokens))
            for client, _ in waiting:
                client.close()


def test_a_repeated_request_is_done_once():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        with leader.connect() as client:
            session = Session(client, ttl=60000)
            token = client.do("LOCK.ACQUIRE", "a", "REQ", 1)
        leader.kill()
        cluster.leader()

        def again(client):
            session.attach(client)
            return client.do("LOCK.ACQUIRE", "a", "REQ", 1)

        assert cluster.retry(again) == token

        def look(client):
            return show(client, "a")

        holders = cluster.retry(look)["holders"]
        assert [(h["token"], h["count"]) for h in holders] == [(token, 1)]


def test_requests_that_run_over_many_failovers_are_done_exactly_once():
    """A counter in the shape of reentrant holds: each acknowledged ACQUIRE
    counts one, none counts twice."""
    with Cluster(3) as cluster:
        cluster.leader()
        with cluster.nodes[0].connect() as client:
            session = Session(client, ttl=120000)
        done = threading.Event()
        acknowledged = []

        def work():
            number = 0
            while not done.is_set():
                number += 1

                def acquire(client, number=number):
                    session.attach(client)
                    return client.do(
                        "LOCK.ACQUIRE", "c", "REQ", number, "ACKED", number - 1
                    )

                cluster.retry(acquire, 30)
                acknowledged.append(number)

        worker = threading.Thread(target=work, daemon=True)
        worker.start()
        for _ in range(4):
            time.sleep(0.5)
            leader = cluster.leader()
            leader.kill()
            cluster.leader()
            leader.start()
        done.set()
        worker.join(40)
        assert not worker.is_alive()
        holders = cluster.retry(lambda client: show(client, "c"))["holders"]
        assert len(acknowledged) > 20
        assert [h["count"] for h in holders] == [len(acknowledged)]
        cluster.converged()


def test_a_stopped_leader_does_not_answer_from_the_past():
    with Cluster(3) as cluster:
        old = cluster.leader()
        with old.connect(60) as stale:
            session = Session(stale, ttl=60000)
            token = stale.do("LOCK.ACQUIRE", "a")
            old.pause()
            try:
                stale.send("LOCK.CHECK", "a", token)
                new = cluster.leader(besides=[old])
                with new.connect() as client:
                    session.attach(client)
                    assert client.do("LOCK.RELEASE", "a") == 0
            finally:
                old.resume()
            # Its question was in the socket before the release; the answer
            # comes after it, so it must show it.
            try:
                assert stale.receive() == 0
            except ReplyError as refused:
                assert refused.code in ("NOLEADER", "UNKNOWN")
        cluster.converged()


@pytest.mark.parametrize("is_new", [False, True])
def test_a_stalled_leader_reads_what_waits_before_it_expires(is_new):
    """Heartbeats that are in the sockets when the process continues, also on a
    connection that has yet to be accepted, come before what became due."""
    with Cluster(1) as cluster:
        node = cluster.leader()
        with node.connect() as client:
            session = Session(client, ttl=1000)
            token = client.do("LOCK.ACQUIRE", "a")
            node.pause()
            time.sleep(2.5)
            keeper = node.connect() if is_new else client
            if is_new:
                keeper.send("SESSION.ATTACH", session.id, session.secret)
            keeper.send("SESSION.KEEP")
            time.sleep(0.3)
            node.resume()
            if is_new:
                keeper.receive()
            assert keeper.receive() is not None
            assert "loop stalled" in node.log()
            assert client.do("LOCK.CHECK", "a", token) == 1
            if is_new:
                keeper.close()


def test_a_dead_holder_is_succeeded_though_the_leader_dies_too():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        other = cluster.followers(leader)[0]
        with other.connect() as client, other.connect(30) as waiter:
            Session(client, ttl=1000)
            first = client.do("LOCK.ACQUIRE", "a")
            session = Session(waiter, ttl=60000)
            waiter.send("LOCK.ACQUIRE", "a", "WAIT", "FOREVER", "REQ", 1)
            leader.kill()
            second = waiter.receive()
            assert second > first
            assert session.id


def test_a_paused_follower_catches_up():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        paused = cluster.followers(leader)[0]
        paused.pause()
        with leader.connect() as client:
            Session(client, ttl=60000)
            for i in range(200):
                client.do("LOCK.ACQUIRE", "p%d" % i)
        paused.resume()
        cluster.converged()
        assert cluster.leader() is leader


def test_without_a_majority_nothing_is_granted():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        followers = cluster.followers(leader)
        with leader.connect(30) as client:
            Session(client, ttl=60000)
            assert client.do("LOCK.ACQUIRE", "before") > 0
            for node in followers:
                node.kill()
            with pytest.raises(ReplyError) as refused:
                client.do("LOCK.ACQUIRE", "after", "REQ", 1)
            assert refused.value.code in ("NOLEADER", "UNKNOWN")
        followers[0].start()
        cluster.leader()


def test_clients_of_a_follower_are_answered_by_the_leader_or_sent_to_it():
    with Cluster(3, "[client]\nredirect = moved\n") as cluster:
        leader = cluster.leader()
        follower = cluster.followers(leader)[0]
        with follower.connect() as client:
            with pytest.raises(ReplyError) as moved:
                client.do("SESSION.OPEN")
            assert moved.value.code == "MOVED"
            assert str(moved.value).endswith(":%d" % leader.client_port)
        with Client(leader.client_port) as client:
            Session(client)
