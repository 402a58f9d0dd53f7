# SPDX-License-Identifier: MIT
"""Members come and go while the cluster serves."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from cluster import (
    Cluster,
    Node,
    ReplyError,
    Session,
    as_map,
    free_ports,
    wait_until,
)
from fake_node import FakeNode
from tls_cluster import HASP, TlsCluster


def roles(node):
    """{id: role} as this node sees it."""
    status = node.status()
    if status is None:
        return {}
    return {m["id"]: m["role"] for m in map(as_map, status["members"])}


def leader_do(cluster, *words, besides=()):
    with cluster.leader(besides=besides).connect(30) as client:
        return client.do(*words)


def hand_over(cluster, successor):
    """Waits until it leads. A transfer is refused while the successor has not
    been heard, and whether one took effect is not always known."""

    def leads():
        leader = cluster.leader()
        if leader is successor:
            return True
        with contextlib.suppress(OSError, ReplyError):
            with leader.connect(30) as client:
                client.do("RAFT.TRANSFER", successor.id)
        return cluster.leader() is successor

    wait_until(leads, 30, "node %d leads" % successor.id)


def test_a_cluster_grows_and_lives_on_the_newcomers():
    with Cluster(3) as cluster:
        first = cluster.leader()
        with first.connect() as client:
            session = Session(client, ttl=600000)
            token = client.do("LOCK.ACQUIRE", "kept")
        for _ in range(2):
            node = cluster.newcomer()
            wait_until(
                lambda: "waiting to be added" in node.log(), 10, "waits"
            )
            assert (
                leader_do(cluster, "RAFT.ADD", node.id, node.addresses) == "OK"
            )
            wait_until(
                lambda: roles(node).get(node.id) == "voter", 10, "it votes"
            )
        cluster.converged()
        # Two of five may go, the first leader among them.
        first.kill()
        next(n for n in cluster.founders if n is not first).kill()
        with cluster.leader().connect() as client:
            session.attach(client)
            assert client.do("LOCK.CHECK", "kept", token) == 1
            assert client.do("LOCK.ACQUIRE", "more") > token


def test_a_newcomer_keeps_its_place_over_a_restart():
    with Cluster(3) as cluster:
        cluster.leader()
        node = cluster.newcomer()
        assert leader_do(cluster, "RAFT.ADD", node.id, node.addresses) == "OK"
        cluster.converged()
        for one in cluster.nodes:
            one.kill()
        cluster.start()
        cluster.leader()
        cluster.converged()
        assert set(roles(node)) == {1, 2, 3, 4}


@pytest.mark.parametrize("number", [1, 3])
def test_a_wiped_member_comes_back_when_removed_and_added(number):
    with Cluster(3) as cluster:
        cluster.leader()
        cluster.converged()
        wiped = cluster.nodes[number - 1]
        others = [n for n in cluster.nodes if n is not wiped]
        wiped.kill()
        shutil.rmtree(wiped.dir)
        wiped.start()
        wait_until(
            lambda: any("another data directory" in n.log() for n in others),
            15,
            "it is refused",
        )
        do = lambda *words: leader_do(cluster, *words, besides=[wiped])
        assert do("RAFT.REMOVE", wiped.id) == "OK"
        assert do("RAFT.ADD", wiped.id, wiped.addresses) == "OK"
        cluster.converged(20)
        assert roles(others[0]) == {1: "voter", 2: "voter", 3: "voter"}
        # Now it counts again.
        others[0].kill()
        with cluster.leader().connect() as client:
            Session(client)


def test_an_old_copy_of_a_directory_is_noticed_and_never_used_again():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[0]
        others = [n for n in cluster.nodes if n is not node]
        cluster.converged()
        assert node.stop() == 0
        copy = node.dir + ".copy"
        shutil.copytree(node.dir, copy)
        node.start()
        with leader.connect() as client:
            Session(client, ttl=600000)
            token = client.do("LOCK.ACQUIRE", "kept")
        cluster.converged()
        node.kill()
        shutil.rmtree(node.dir)
        shutil.copytree(copy, node.dir)
        node.start()
        assert node.wait_exit() == 70
        assert "old copy" in node.log()
        assert "add it again with an empty directory" in node.log()
        assert "a member has lost data" in leader.log()
        # Nor when those who know have gone.
        for one in others:
            one.kill()
        for one in cluster.nodes:
            one.start()
        assert node.wait_exit() == 70
        do = lambda *words: leader_do(cluster, *words)
        assert do("RAFT.REMOVE", node.id) == "OK"
        shutil.rmtree(node.dir)
        node.start()
        assert do("RAFT.ADD", node.id, node.addresses) == "OK"
        cluster.converged()
        assert do("LOCK.CHECK", "kept", token) == 1


def test_a_removed_member_is_told_by_whom_and_stops():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        gone = cluster.followers(leader)[0]
        cluster.converged()
        with leader.connect() as client:
            assert client.do("CLIENT", "SETNAME", "ops") == "OK"
            assert client.do("RAFT.REMOVE", gone.id) == "OK"
        # The smaller id dials when it has not been dialled for a while.
        assert gone.wait_exit(30) == 78
        told = r"member %d was removed by 'ops' at 20\d\d-\d\d-\d\dT" % gone.id
        assert re.search(told, gone.log())
        assert "this node is refused" in gone.log()
        gone.start()
        assert gone.wait_exit(30) == 78
        # A new directory under its id has not been removed: it waits.
        shutil.rmtree(gone.dir)
        gone.start()
        wait_until(
            lambda: "this node is refused" in gone.log().split("made")[-1]
            or "not added yet" in gone.log(),
            15,
            "it learns that it is not a member",
        )
        assert gone.is_running
        with leader.connect() as client:
            Session(client)
            assert client.do("LOCK.ACQUIRE", "a") > 0


def test_clients_of_a_removed_member_are_told_and_go_elsewhere(tmp_path):
    """NOLEADER: nothing was done. A request that may have been done is repeated
    under its number elsewhere, and has kept its place; the tool's lock is
    kept."""
    with Cluster(3) as cluster:
        leader = cluster.leader()
        gone = cluster.followers(leader)[0]
        ports = [n.client_port for n in cluster.nodes]
        ports.sort(key=lambda port: port != gone.client_port)
        done = tmp_path / "done"
        script = "until [ -e %s ]; do sleep 0.05; done" % done
        with leader.connect() as client, gone.connect() as asker, \
                gone.connect() as waiter:
            Session(client, ttl=60000)
            assert client.do("LOCK.ACQUIRE", "busy") > 0
            session = Session(waiter, ttl=60000)
            wait = ("LOCK.ACQUIRE", "busy", "WAIT", 60000, "REQ", 1)
            waiter.send(*wait)
            tool = subprocess.Popen(
                [HASP, "-e", ",".join("127.0.0.1:%d" % port for port in ports),
                 "run", "job", "--", "sh", "-c", script])
            try:
                for name, part in (("job", "holders"), ("busy", "queue")):
                    wait_until(lambda: client.map("LOCK.SHOW", name)[part], 10,
                               name)
                token = holder_of(client, "job")
                assert client.do("RAFT.REMOVE", gone.id) == "OK"
                with pytest.raises(ReplyError, match="^NOLEADER .*nothing was done"):
                    asker.do("LOCK.SHOW", "job")
                with pytest.raises(ReplyError, match="^UNKNOWN "):
                    waiter.receive()
                assert gone.wait_exit(30) == 78
                with leader.connect() as elsewhere:
                    session.attach(elsewhere)
                    elsewhere.send(*wait)
                    assert client.do("LOCK.RELEASE", "busy") == 0
                    assert elsewhere.receive() > 0
                assert holder_of(client, "job") == token
                done.touch()
                assert tool.wait(20) == 0
                assert not client.map("LOCK.SHOW", "job")["holders"]
            finally:
                tool.kill()
                tool.wait()


def holder_of(client, name):
    holder = as_map(client.map("LOCK.SHOW", name)["holders"][0])
    return holder["session"], holder["token"]


@pytest.mark.parametrize("number", [1, 3])
def test_who_was_away_hears_a_leader_that_its_log_does_not_name(number):
    with Cluster(3) as cluster:
        cluster.leader()
        cluster.converged()
        away = cluster.nodes[number - 1]
        away.kill()
        for _ in range(2):
            node = cluster.newcomer()
            assert (
                leader_do(cluster, "RAFT.ADD", node.id, node.addresses) == "OK"
            )
        hand_over(cluster, node)
        away.start()
        cluster.converged()
        assert set(roles(away)) == {1, 2, 3, 4, 5}
        assert "unlisted member admitted" in away.log()
        # It counts: three of five, none else of the old ones.
        for one in cluster.founders:
            if one is not away:
                one.kill()
        with cluster.leader().connect() as client:
            Session(client)
            assert client.do("LOCK.ACQUIRE", "a") > 0


def replace_first(cluster, first):
    """Node 1 leaves and comes back with an empty directory, to lead."""
    do = lambda *words: leader_do(cluster, *words, besides=[first])
    assert do("RAFT.REMOVE", 1) == "OK"
    first.kill()
    shutil.rmtree(first.dir)
    first.start()
    assert do("RAFT.ADD", 1, first.addresses) == "OK"
    hand_over(cluster, first)


def let_others_lead(cluster, first):
    """Neither the first nor the last, which is to be away: the leader at that
    time stays."""
    hand_over(cluster, cluster.nodes[1])


def test_a_leader_that_is_not_expected_dials_although_its_id_is_smaller():
    with Cluster(4) as cluster:
        first, last = cluster.nodes[0], cluster.nodes[3]
        let_others_lead(cluster, first)
        assert leader_do(cluster, "RAFT.REMOVE", 1, besides=[first]) == "OK"
        # It knows that the removal is committed.
        wait_until(lambda: "member removed" in last.log(), 10, "it is logged")
        assert last.stop() == 0
        first.kill()
        shutil.rmtree(first.dir)
        first.start()
        assert (
            leader_do(cluster, "RAFT.ADD", 1, first.addresses, besides=[first])
            == "OK"
        )
        hand_over(cluster, first)
        last.start()
        cluster.converged(15)
        assert set(roles(last)) == {1, 2, 3, 4}
        assert "unlisted member admitted" in last.log()


@pytest.mark.parametrize("has_table", [True, False])
def test_a_founder_that_was_replaced_leads_one_that_was_away(has_table):
    with Cluster(4) as cluster:
        first, last = cluster.nodes[0], cluster.nodes[3]
        let_others_lead(cluster, first)
        cluster.converged()
        last.kill()
        replace_first(cluster, first)
        if not has_table:
            # As after a crash of the machine: it has its log and the record of
            # the founders, and does not know how much of that is committed.
            os.unlink(os.path.join(last.dir, "trust"))
        last.start()
        cluster.converged(15)
        assert set(roles(last)) == {1, 2, 3, 4}


def test_leadership_can_be_handed_to_a_chosen_member():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        successor = cluster.followers(leader)[-1]
        cluster.converged()
        assert leader_do(cluster, "RAFT.TRANSFER", successor.id) == "OK"
        assert cluster.leader() is successor


def test_a_vote_that_the_others_need_is_not_taken_away():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        second, silent = cluster.followers(leader)
        cluster.converged()
        silent.pause()
        silence_s = 1.5
        wait_until(
            lambda: silence_ms(leader, silent) > 1000 * silence_s, 15, "silent"
        )
        for words in (["RAFT.REMOVE"], ["RAFT.DEMOTE"]):
            with pytest.raises(ReplyError) as refused:
                leader_do(cluster, *words, second.id)
            assert refused.value.code == "BADARG"
            assert "member %d has been silent for" % silent.id in str(
                refused.value
            )
            assert "remove %d instead" % silent.id in str(refused.value)
        with pytest.raises(ReplyError, match="BADARG.*silent for"):
            leader_do(cluster, "RAFT.TRANSFER", silent.id)
        assert roles(leader)[second.id] == "voter"
        assert leader_do(cluster, "RAFT.REMOVE", silent.id) == "OK"
        with leader.connect() as client:
            Session(client)
            assert client.do("LOCK.ACQUIRE", "a") > 0


def silence_ms(node, other):
    """For how long 'node' has not heard 'other'; 0 if it does not answer."""
    status = node.status() or {"members": []}
    for member in map(as_map, status["members"]):
        if member["id"] == other.id:
            return member["last_contact_ms"]
    return 0


def start_alone(cluster, id):
    """A node of this number that does not know any cluster, and has founded its
    own; its ports, for clients and for nodes."""
    ports = free_ports(3)
    node = Node(cluster, 99, ports)
    node.id = id
    cluster.nodes.append(node)
    founders, cluster.founders = cluster.founders, []
    node.write_config()
    cluster.founders = founders
    node.start()
    wait_until(node.is_serving, 15, "it has founded a cluster")
    return ports


def test_who_is_to_be_added_is_dialled_at_both_addresses_first():
    with Cluster(3) as cluster, FakeNode(
        lambda words: Exception("ERR unknown command")
    ) as redis:
        leader = cluster.leader()
        other = cluster.followers(leader)[0]
        node = cluster.newcomer()
        alone = start_alone(cluster, node.id)
        host = "127.0.0.1:%d"
        peer, client = host % node.peer_port, host % node.client_port
        wait_until(lambda: "waiting to be added" in node.log(), 10, "waits")
        for address, why in (
            (host % 1 + "," + client, host % 1 + ": connection refused"),
            # The two were swapped.
            (client + "," + peer, peer + ": "),
            (
                peer + "," + host % other.client_port,
                "it is the address of node %d" % other.id,
            ),
            (peer + "," + redis.endpoint, "the peer is not a hasp node"),
        ):
            with pytest.raises(ReplyError) as refused:
                leader_do(cluster, "RAFT.ADD", node.id, address)
            assert refused.value.code == "BADARG"
            assert "member %d cannot be reached from member %d: " % (
                node.id,
                leader.id,
            ) in str(refused.value)
            assert why in str(refused.value)
            assert node.id not in roles(leader)
        with pytest.raises(ReplyError, match=(
            r"BADARG raft.add: the data directory of node %d .*belongs to "
            r"another cluster \([0-9a-f]{32}\): give the node an empty one" % node.id
        )):
            leader_do(cluster, "RAFT.ADD", node.id,
                      "127.0.0.1:%d,127.0.0.1:%d" % (alone[1], alone[0]))
        assert node.id not in roles(leader)
        # One that is on its way is waited for.
        node.kill()
        with leader.connect(30) as wire:
            wire.send("RAFT.ADD", node.id, node.addresses)
            time.sleep(0.3)
            node.start()
            assert wire.receive() == "OK"
        # A node that stops has dialled without success.
        with leader.connect() as wire:
            wire.send("RAFT.ADD", 9, host % 1)
            time.sleep(0.1)
            assert leader.stop() == 0


def test_a_standby_is_an_edge_for_clients():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        edge = cluster.followers(leader)[0]
        assert leader_do(cluster, "RAFT.DEMOTE", edge.id) == "OK"
        wait_until(lambda: roles(edge).get(edge.id) == "standby", 10, "it copies")
        with edge.connect() as one, edge.connect() as two:
            session = Session(one)
            token = one.do("LOCK.ACQUIRE", "a")
            Session(two)
            two.send("LOCK.ACQUIRE", "a", "WAIT", 30000)
            wait_until(
                lambda: as_map(one.do("LOCK.SHOW", "a"))["queue"] != [],
                10,
                "it waits",
            )
            one.do("SESSION.KEEP")
            one.do("LOCK.RELEASE", "a")
            assert two.receive() > token
        # It is not needed, and its clients continue elsewhere.
        edge.kill()
        with leader.connect() as client:
            session.attach(client)
            assert client.do("LOCK.ACQUIRE", "b") > token


# --- Another cluster ----------------------------------------------------------


def founded_by_mistake(node, cluster):
    """An empty directory, and a file without the members: on loopback the node
    founds a cluster of its own."""
    node.kill()
    shutil.rmtree(node.dir)
    with open(node.config) as file:
        text = file.read()
    with open(node.config, "w") as file:
        file.write(re.sub("(?m)^member = .*\n", "", text))
    node.start()
    wait_until(node.is_serving, 30, "it leads its own cluster")
    return text


def test_a_node_whose_peers_are_of_another_cluster_serves_nobody():
    with Cluster(3) as cluster:
        cluster.leader()
        node = cluster.nodes[0]
        text = founded_by_mistake(node, cluster)
        wait_until(
            lambda: "it belongs to another cluster" in node.log(), 30, "it is greeted"
        )
        # A greeting alone, from an address that nothing names, stops nobody.
        with node.connect() as client:
            Session(client)
            client.do("LOCK.ACQUIRE", "a")
        node.kill()
        with open(node.config, "w") as file:
            file.write(text)
        node.start()
        wait_until(
            lambda: 'event="this node serves no clients"' in node.log(), 60, "it logs"
        )
        with node.connect() as client:
            with pytest.raises(ReplyError) as refused:
                Session(client)
            assert str(refused.value).startswith("NOLEADER this node is alone in its")
            assert "belongs to another cluster" in client.map("RAFT.STATUS")["apart"]
        health = subprocess.run(
            [HASP, "-e", "127.0.0.1:%d" % node.client_port, "-t", "2s", "health"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
        )
        assert health.returncode != 0 and "alone in its cluster" in health.stderr
        # The cluster with a majority continues.
        with cluster.leader(besides=[node]).connect() as client:
            Session(client)
            client.do("LOCK.ACQUIRE", "a")


def test_a_node_that_listens_elsewhere_says_so():
    with Cluster(3) as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[0]
        assert node.status()["elsewhere"] == ""
        listed, node.client_port = node.client_port, free_ports(1)[0]
        node.kill()
        with open(node.config) as file:
            text = file.read()
        with open(node.config, "w") as file:
            file.write(text.replace("client = 127.0.0.1:%d\n" % listed,
                                    "client = 127.0.0.1:%d\n" % node.client_port))
        node.start()
        event = 'event="this node listens elsewhere than the member list says"'
        wait_until(lambda: event in node.log(), 30, "it is logged")
        wait_until(lambda: node.status() is not None, 30, "it answers")
        said = "clients at 127.0.0.1:%d, but the member list says 127.0.0.1:%d"
        assert said % (node.client_port, listed) in node.status()["elsewhere"]
        end = subprocess.run(
            [HASP, "-e", "127.0.0.1:%d" % node.client_port, "status"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60,
        )
        assert "node %d: it listens for clients at" % node.id in end.stderr
        assert leader.status()["elsewhere"] == ""


class Steady:
    """Clients that take and give back locks all the time: steady_load.py."""

    def __init__(self, ports, **environment):
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(os.path.abspath(
                __file__)), "steady_load.py"), "4"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, HASP_ENDPOINTS=",".join(
                "127.0.0.1:%d" % port for port in ports), **environment))
        assert self.process.stdout.readline() == "ready\n"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)

    def end(self):
        assert self.process.poll() is None, "the load has ended"
        return json.loads(self.process.communicate("", timeout=90)[0])


def hasp_update(cluster, node, *addresses):
    done = subprocess.run(
        [HASP, "-e", ",".join("127.0.0.1:%d" % n.client_port
                              for n in cluster.nodes if n.is_running),
         "member", "update", str(node.id),
         *addresses], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout


def settled(cluster):
    """All hear each other, and none listens elsewhere than the list says."""
    listed = {node.id: node.addresses for node in cluster.nodes}

    def is_settled():
        states = [node.status() for node in cluster.nodes]
        return all(
            state is not None and state["elsewhere"] == "" and
            {m["id"]: m["address"] for m in map(as_map, state["members"])}
            == listed for state in states
        ) and all(
            m["last_contact_ms"] >= 0 and m["last_contact_ms"] < 3000
            for state in states if state["role"] == "leader"
            for m in map(as_map, state["members"]))

    wait_until(is_settled, 60, "all are where the list says")


@pytest.mark.parametrize("is_first", [True, False])
def test_all_nodes_move_to_other_ports_under_load(is_first):
    """Node by node: its new address is entered, and it moves, or the reverse.
    The node with the least id is dialled by the others, and cannot come in
    before its address is entered."""
    with Cluster(3) as cluster:
        cluster.leader()
        new = {node.id: free_ports(2) for node in cluster.nodes}
        ports = [node.client_port for node in cluster.nodes]
        with Steady(ports + [pair[1] for pair in new.values()]) as load:
            for node in list(cluster.nodes):
                others = [n for n in cluster.nodes if n is not node]
                hand_over(cluster, others[0])
                peer, client = new[node.id]
                at = ["127.0.0.1:%d" % peer, "127.0.0.1:%d" % client]
                was = node.addresses
                if is_first:
                    hasp_update(cluster, node, *at)
                node.stop()
                with open(node.config) as file:
                    text = file.read()
                for name, old, port in (("peer", node.peer_port, peer),
                                        ("client", node.client_port, client)):
                    line = "%s = 127.0.0.1:%d\n"
                    assert line % (name, old) in text
                    text = text.replace(line % (name, old), line % (name, port))
                with open(node.config, "w") as file:
                    file.write(text)
                node.peer_port, node.client_port = peer, client
                node.start()
                if not is_first:
                    wait_until(lambda node=node: node.status(), 30, "it runs")
                    said = wait_until(
                        lambda node=node: node.status()["elsewhere"], 30,
                        "it says that it listens elsewhere")
                    assert ("hasp member update %d PEER,CLIENT" % node.id
                            in said), said
                    assert was.split(",")[0] in said
                    hasp_update(cluster, node, ",".join(at))
                settled(cluster)
                cluster.converged(30)
            found = load.end()
        assert found["errors"] == [], found
        assert found["cycles"] > 50
        for node in cluster.nodes:
            assert roles(node) == {1: "voter", 2: "voter", 3: "voter"}


def replace(cluster, node, *options):
    return subprocess.run(
        [HASP, "-e", ",".join("127.0.0.1:%d" % n.client_port
                              for n in cluster.nodes if n is not node),
         "member", "replace", str(node.id), *options], stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=120, check=False)


def incarnations(node):
    return {m["id"]: m["incarnation"]
            for m in map(as_map, node.status()["members"])}


def test_a_lost_directory_is_replaced_by_one_command_under_load(tmp_path):
    """The directory of a follower is gone: three voters of three again, and no
    client has seen an error. The old directory is refused for good."""
    with Cluster(3) as cluster:
        node = cluster.nodes[2]
        hand_over(cluster, cluster.nodes[0])
        leader = cluster.nodes[0]
        old = str(tmp_path / "old")
        with Steady([n.client_port for n in cluster.nodes]) as load:
            node.kill()
            was = incarnations(leader)[node.id]
            shutil.move(node.dir, old)
            node.start()
            wait_until(lambda: 'event="listening for clients"'
                       in node.log().split('data directory made')[-1], 30,
                       'it listens')
            refused = replace(cluster, node)
            assert refused.returncode == 65, refused.stdout
            assert "use FORCE if you trust that network" in refused.stdout
            done = replace(cluster, node, "--force")
            assert done.returncode == 0, done.stdout
            for one in cluster.nodes:
                wait_until(lambda one=one: roles(one) == {
                    1: "voter", 2: "voter", 3: "voter"}, 30, "three voters")
            cluster.converged(30)
            assert incarnations(leader)[node.id] != was
            again = replace(cluster, node, "--force")
            assert again.returncode == 0, again.stdout
            found = load.end()
        assert found["errors"] == [], found
        assert found["cycles"] > 20
        # It votes: without one of the others there is still a leader.
        other = cluster.nodes[1]
        other.kill()
        cluster.leader(besides=[other])
        other.start()
        settled(cluster)
        # The old directory returns.
        node.kill()
        shutil.rmtree(node.dir)
        shutil.move(old, node.dir)
        node.start()
        assert node.wait_exit(60) == 78
        assert "was removed by" in node.log()
        # It stays so.
        node.start()
        assert node.wait_exit(60) == 78
        assert roles(cluster.leader(besides=[node]))[node.id] == "voter"


def lose_directory(node, kept):
    """Its node starts with an empty directory; the former one is in 'kept'."""
    node.kill()
    shutil.move(node.dir, kept)
    node.start()
    wait_until(lambda: 'event="listening for clients"'
               in node.log().split('data directory made')[-1], 30, 'it listens')


@pytest.mark.parametrize("place", range(3))
def test_all_old_directories_end_for_good(tmp_path, place):
    """Whichever member was replaced, twice: each of its old directories is told
    so by the others, and its node ends with 78, which systemd heeds."""
    with Cluster(3) as cluster:
        node = cluster.nodes[place]
        others = [n for n in cluster.nodes if n is not node]
        hand_over(cluster, others[0])
        old = [str(tmp_path / "first"), str(tmp_path / "second")]
        for kept in old:
            lose_directory(node, kept)
            done = replace(cluster, node, "--force")
            assert done.returncode == 0, done.stdout
        newest = incarnations(cluster.leader())[node.id]
        for kept in old:
            node.kill()
            shutil.rmtree(node.dir)
            shutil.move(kept, node.dir)
            for _ in range(2):
                said = len(node.log())
                node.start()
                assert node.wait_exit(60) == 78
                assert "was removed" in node.log()[said:]
        assert incarnations(cluster.leader(besides=[node]))[node.id] == newest


def test_a_wiped_node_returns_between_nodes_with_certificates():
    """With tls.peer = require the operator needs no --force: whoever greets has
    the member's certificate."""
    with TlsCluster() as cluster:
        leader = cluster.leader()
        node = cluster.followers(leader)[-1]
        was = incarnations(leader)[node.id]
        node.kill()
        shutil.rmtree(node.dir)
        node.start()
        done = cluster.hasp("member", "replace", node.id)
        assert done.returncode == 0, done.stderr
        cluster.converged(30)
        assert roles(leader) == {1: "voter", 2: "voter", 3: "voter"}
        assert incarnations(leader)[node.id] != was


def test_two_empty_directories_are_not_replaced_at_once(tmp_path):
    """Five voters, two of which lose their directories. Each replacement is
    refused while the other voter is missing, with the reason. When one voter is
    removed the other returns."""
    with Cluster(5) as cluster:
        hand_over(cluster, cluster.nodes[0])
        one, two = cluster.nodes[3:]
        for node in (one, two):
            lose_directory(node, str(tmp_path / str(node.id)))
        for node, other in ((one, two), (two, one)):
            refused = replace(cluster, node, "--force")
            assert refused.returncode == 65, refused.stdout
            assert re.search(r"member %d .*: member %d is replaced only while "
                             "all other voters are heard" % (other.id, node.id),
                             refused.stdout), refused.stdout
        assert roles(cluster.leader()) == dict.fromkeys(range(1, 6), "voter")
        leader_do(cluster, "RAFT.REMOVE", one.id)
        done = replace(cluster, two, "--force")
        assert done.returncode == 0, done.stdout
        assert roles(cluster.leader()) == {1: "voter", 2: "voter", 3: "voter",
                                           5: "voter"}
