# SPDX-License-Identifier: MIT
"""How a cluster begins, how nodes come and go, and which are refused."""

import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from cluster import HASPD, Client, Cluster, ReplyError, Session, wait_until


def test_one_node_serves():
    with Cluster(1) as cluster:
        node = cluster.leader()
        with node.connect() as client:
            assert client.do("PING") == "PONG"
            session = Session(client, ttl=5000, name="one")
            token = client.do("LOCK.ACQUIRE", "a")
            assert token > 0
            assert client.do("LOCK.CHECK", "a", token) == 1
            assert client.do("LOCK.RELEASE", "a") == 0
            assert session.id > 0


def test_three_nodes_agree_on_a_leader_and_all_of_them_serve():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        for node in cluster.nodes:
            with node.connect() as client:
                Session(client)
                assert client.do("LOCK.ACQUIRE", "n%d" % node.id) > 0
        cluster.converged()
        seen = {(n.status()["leader"], n.status()["term"]) for n in cluster.nodes}
        assert seen == {(leader.id, leader.status()["term"])}


def test_founding_waits_for_all_members_and_says_so():
    with Cluster(3, start=False) as cluster:
        cluster.nodes[0].start()
        cluster.nodes[1].start()
        first = cluster.nodes[0]
        wait_until(
            lambda: first.log().count("peer up") == 1,
            10,
            "they greet each other",
        )
        with first.connect() as client:
            with pytest.raises(ReplyError) as refused:
                client.do("SESSION.OPEN")
            assert refused.value.code == "NOLEADER"
            assert "greeting of 3" in str(refused.value)
            # The same connection serves once the cluster has begun.
            cluster.nodes[2].start()
            cluster.leader()
            Session(client)


def test_after_the_first_start_a_majority_is_enough():
    with Cluster(3) as cluster:
        cluster.leader()
        cluster.converged()
        for node in cluster.nodes:
            assert node.stop() == 0
        cluster.nodes[0].start()
        cluster.nodes[2].start()
        with cluster.leader().connect() as client:
            Session(client)


def test_a_wiped_member_is_refused_and_has_no_vote():
    with Cluster(3) as cluster:
        cluster.leader()
        cluster.converged()
        wiped, dead, alone = cluster.nodes
        with alone.connect() as client:
            session = Session(client, ttl=600000)
            token = client.do("LOCK.ACQUIRE", "kept")
        for node in cluster.nodes:
            node.kill()
        shutil.rmtree(wiped.dir)
        # The wiped one and the one that remembers would be a majority.
        wiped.start()
        alone.start()
        wait_until(
            lambda: "another data directory" in alone.log(),
            15,
            "it is refused",
        )
        time.sleep(2.0)
        assert not alone.is_serving() and not wiped.is_serving()
        with alone.connect() as client:
            with pytest.raises(ReplyError) as refused:
                client.do("LOCK.SHOW", "kept")
            assert refused.value.code == "NOLEADER"
        # With the third one the cluster is there again, and nothing is lost.
        dead.start()
        leader = cluster.leader(besides=[wiped])
        with leader.connect() as client:
            session.attach(client)
            assert client.do("LOCK.CHECK", "kept", token) == 1
        assert not wiped.is_serving()


def test_all_members_but_one_wiped_do_not_found_a_second_cluster():
    with Cluster(3) as cluster:
        cluster.leader()
        for node in cluster.nodes:
            node.kill()
        for node in cluster.nodes[1:]:
            shutil.rmtree(node.dir)
            node.start()
        # They greet each other, but not the first one: no new cluster.
        wait_until(
            lambda: "peer up" in cluster.nodes[1].log().split("made")[-1],
            10,
            "the wiped ones greet each other",
        )
        time.sleep(1.5)
        for node in cluster.nodes[1:]:
            assert not node.is_serving()
        cluster.nodes[0].start()
        time.sleep(7.0)
        for node in cluster.nodes:
            assert not node.is_serving(), node.id


def fill_the_log(client, count):
    """Writes 'count' entries, and takes a snapshot after which the log is
    trimmed."""
    Session(client, ttl=60000)
    for _ in range(count // 200):
        for _ in range(100):
            client.send("LOCK.ACQUIRE", "filler")
            client.send("LOCK.RELEASE", "filler")
        for _ in range(200):
            client.receive()
    assert client.do("RAFT.SNAPSHOT") == "OK"


def test_a_member_that_was_replaced_keeps_the_others_from_founding_again():
    """It joined by a snapshot, and never saw the entry with the cluster's id."""
    with Cluster(3, extra="requests_in_flight = 300\n") as cluster:
        first, second, third = cluster.nodes
        cluster.leader()
        cluster.converged()
        third.kill()
        with cluster.leader().connect(30) as client:
            fill_the_log(client, 11000)
            assert client.do("RAFT.REMOVE", third.id) == "OK"
            shutil.rmtree(third.dir)
            third.start()
            assert client.do("RAFT.ADD", third.id, third.addresses) == "OK"
        assert "snapshot installed" in third.log()

        def cluster_of(node):
            with open(os.path.join(node.dir, "identity")) as file:
                return re.search("cluster.*", file.read()).group(0)
        wait_until(lambda: cluster_of(third) == cluster_of(first), 15,
                   "it knows its cluster")
        for node in (first, second):
            node.kill()
            shutil.rmtree(node.dir)
            node.start()
        for node in (first, second):
            wait_until(
                lambda: "joining a cluster that exists" in node.log(),
                15,
                "it sees that there is one",
            )
        time.sleep(2.0)
        assert not any(node.is_serving() for node in cluster.nodes)
        assert "another data directory" in third.log()


@pytest.mark.parametrize(
    "old, new, what",
    [
        ("name = test", "name = prod", "cluster.name is 'prod' at node 3"),
        ("member = 2 127.0.0.1", "member = 2 localhost", "different cluster.member"),
    ],
)
def test_founders_with_different_configurations_are_told_so(old, new, what):
    with Cluster(3, start=False) as cluster:
        odd = cluster.nodes[2]
        with open(odd.config) as file:
            content = file.read()
        assert old in content
        with open(odd.config, "w") as file:
            file.write(content.replace(old, new))
        cluster.start()
        for node in cluster.nodes:
            wait_until(
                lambda: "founders differ: " in node.log() and what in node.log(),
                15,
                "node %d says what differs" % node.id,
            )
        assert not any("cluster founded" in n.log() for n in cluster.nodes)
        assert odd.stop() == 0
        with open(odd.config, "w") as file:
            file.write(content)
        odd.start()
        cluster.leader()


def test_a_node_of_another_cluster_is_not_let_in():
    with Cluster(3) as ours, Cluster(3) as theirs:
        ours.leader()
        theirs.leader()
        theirs.converged()
        ours_id, theirs_id = (
            cluster.leader().status()["cluster"] for cluster in (ours, theirs)
        )
        for node in theirs.nodes:
            assert node.stop() == 0
        # The greater ids dial the smaller one.
        victim = ours.nodes[0]
        victim.kill()
        shutil.rmtree(victim.dir)
        shutil.copytree(theirs.nodes[0].dir, victim.dir)
        term = ours.leader().status()["term"]
        victim.start()
        wait_until(
            lambda: any("another cluster" in n.log() for n in ours.nodes),
            10,
            "a line says that the clusters differ",
        )
        time.sleep(1.0)
        assert not victim.is_serving()
        assert ours.leader().status()["term"] == term
        assert victim.status()["cluster"] == theirs_id != ours_id


def lone_node(tmp_path, *flags):
    """A node without member lines on a port that is free now."""
    with socket.create_server(("0.0.0.0", 0)) as one:
        client = one.getsockname()[1]
    return subprocess.Popen(
        [HASPD, "--id", "1", "--dir", str(tmp_path / "data"), "--insecure",
         "--listen-client", "0.0.0.0:%d" % client,
         "--listen-peer", "127.0.0.1:0", "--listen-http", "off", *flags],
        stderr=subprocess.PIPE, text=True)


def test_a_node_without_members_founds_nothing_that_others_reach(tmp_path):
    """Two such nodes would be two clusters that grant the same lock."""
    node = lone_node(tmp_path)
    text = node.communicate(timeout=20)[1]
    assert node.returncode == 78
    assert "'alone = yes' if it is the only node" in text
    node = lone_node(tmp_path, "--set", "cluster.alone=yes")
    try:
        for line in node.stderr:
            if "cluster founded" in line:
                break
        else:
            raise AssertionError("it does not found")
    finally:
        node.terminate()
        node.communicate(timeout=20)
    # The directory is a cluster's now: nobody is asked again.
    node = lone_node(tmp_path)
    try:
        for line in node.stderr:
            if "became leader" in line:
                break
        else:
            raise AssertionError("it does not continue")
    finally:
        node.terminate()
        node.communicate(timeout=20)


def test_a_second_process_on_the_directory_is_refused():
    with Cluster(1) as cluster:
        node = cluster.leader()
        first = node.process
        node.process = None
        try:
            node.start(
                "--listen-client",
                "127.0.0.1:0",
                "--listen-peer",
                "127.0.0.1:0",
            )
            assert node.wait_exit() == 70
            assert "in use by process" in node.log()
        finally:
            node.process = first
        assert node.is_serving()


def test_a_clean_stop_closes_the_table_for_any_boot():
    with Cluster(1) as cluster:
        node = cluster.leader()
        with node.connect() as client:
            Session(client, ttl=600000)
            client.do("LOCK.ACQUIRE", "a")
        assert node.stop() == 0
        with open(os.path.join(node.dir, "trust")) as file:
            assert "clean" in file.read()
        node.start()
        cluster.leader()
        assert "rebuilt" not in node.log()
        with node.connect() as client:
            assert len(client.map("LOCK.SHOW", "a")["holders"]) == 1


def test_a_stop_hands_leadership_over():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        others = cluster.followers(leader)
        assert leader.stop() == 0
        started = time.monotonic()
        assert cluster.leader() in others
        assert "handed_over=yes" in leader.log()
        print("next leader after %.3f s" % (time.monotonic() - started))


def test_the_service_manager_is_told(tmp_path):
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(10)
        with Cluster(1, start=False) as cluster:
            node = cluster.nodes[0]
            node.start(environment={"NOTIFY_SOCKET": path})
            assert manager.recv(4096) == b"READY=1"
            assert node.stop() == 0
            told = []
            while b"STOPPING=1" not in told:
                told.append(manager.recv(4096))
            assert any(b"STATUS=leader" in one for one in told)


def test_under_journald_lines_have_priorities_and_no_time(tmp_path):
    with Cluster(1, start=False) as cluster:
        node = cluster.nodes[0]
        open(node.log_path, "w").close()
        status = os.stat(node.log_path)
        stream = "%d:%d" % (status.st_dev, status.st_ino)
        node.start(environment={"JOURNAL_STREAM": stream})
        cluster.leader()
        lines = node.log().splitlines()
        assert lines and all(line.startswith("<") for line in lines)
        assert all(" node=1 " in line and "ts=" not in line for line in lines)


def test_connections_are_limited():
    extra = "connections = 20\nconnections_per_address = 10\n"
    with Cluster(1, extra) as cluster:
        node = cluster.leader()
        wait_until(lambda: node.is_serving(), 5, "serves")
        held = []
        refusal = None
        for _ in range(15):
            client = Client(node.client_port)
            try:
                client.do("PING")
                held.append(client)
            except (ReplyError, ConnectionError) as error:
                refusal = error
                client.close()
        assert len(held) == 10
        assert isinstance(refusal, ReplyError) and refusal.code == "LIMIT"
        for client in held:
            client.close()
        wait_until(lambda: node.is_serving(), 5, "there is room again")
