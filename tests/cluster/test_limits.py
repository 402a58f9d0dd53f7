# SPDX-License-Identifier: MIT
"""Limits of the state are the cluster's: files that differ, limits that change
while it runs, restarts after such a change."""

import json
import os
import subprocess

import pytest

from cluster import Cluster, ReplyError, Session, wait_until
from test_http import metrics

ROOT = os.path.dirname(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
)
IGNORED = "limit of the configuration is ignored"
HASP = os.environ.get("HASP", os.path.join(ROOT, "build", "release", "hasp"))


def hasp(cluster, *words):
    """The tool, run to its end, by the local door of the first node."""
    return subprocess.run(
        [HASP, "--socket", cluster.nodes[0].dir] + list(words),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )


def shown(cluster):
    """{limit: {value, used, ...}}, as the tool prints it."""
    rows = json.loads(hasp(cluster, "-o", "json", "limits").stdout)
    return {row["name"]: row for row in rows}


def refused(client, *words):
    with pytest.raises(ReplyError) as error:
        client.do(*words)
    return error.value


def transfer(cluster, to):
    """Lets 'to' lead."""
    for _ in range(10):
        leader = cluster.leader()
        if leader is to:
            return
        with leader.connect() as client:
            try:
                client.do("RAFT.TRANSFER", to.id)
            except ReplyError:
                continue
        wait_until(lambda: cluster.leader() is not leader, 15, "a new leader")
    raise AssertionError("node %d does not lead" % to.id)




def test_one_lock_has_one_holder_whatever_the_files_say():
    with Cluster(3, start=False) as cluster:
        for node in cluster.nodes:
            node.write_config("locks = 1\n")
        cluster.start()
        cluster.leader()
        for node in cluster.nodes[1:]:
            assert node.stop() == 0
            node.write_config("locks = 1000000\n")
            node.start()
            cluster.leader()
            cluster.converged()
        first, second = cluster.nodes[1], cluster.nodes[0]
        transfer(cluster, first)
        with first.connect() as one, first.connect() as other:
            Session(one, ttl=30000)
            other_session = Session(other, ttl=30000)
            answers = []
            for name in ("a", "b", "c"):
                try:
                    answers.append(one.do("LOCK.ACQUIRE", name))
                except ReplyError as error:
                    answers.append(error.code)
            transfer(cluster, second)
            with second.connect() as third:
                other_session.attach(third)
                for name, answer in zip(("a", "b", "c"), answers):
                    try:
                        again = third.do("LOCK.ACQUIRE", name)
                    except ReplyError as error:
                        again = error.code
                    if isinstance(answer, int):
                        assert again is None, name
                    else:
                        assert again == answer == "LIMIT", name
        value = shown(cluster)["locks"]["value"]
        odd = [n for n in cluster.nodes if (n is second) == (value != 1)]
        for node in cluster.nodes:
            assert metrics(node)['hasp_limit{limit="locks"}'] == value
        for node in odd:
            wait_until(lambda: IGNORED in node.log(), 10, "the line")
            assert node.log().count(IGNORED) == 1
        assert not any(IGNORED in n.log() for n in cluster.nodes if n not in odd)


def test_founders_whose_limits_differ_refuse_each_other():
    with Cluster(3, start=False) as cluster:
        odd = cluster.nodes[1]
        odd.write_config("locks = 5000\n")
        cluster.start()
        says = (
            "founders differ: limits.locks is %d at node %d and %d at node %d; "
            "use the same in both files"
        )
        # The greater id dials, is refused, and gets the reason.
        for refusing, refused_one, there, here in (
            (cluster.nodes[0], odd, 5000, 1000000),
            (odd, cluster.nodes[2], 1000000, 5000),
        ):
            why = says % (there, refused_one.id, here, refusing.id)
            for event, node in (
                ("peer refused", refusing),
                ("this node is refused", refused_one),
            ):
                wait_until(
                    lambda: any(
                        event in line and why in line
                        for line in node.log().splitlines()
                    ),
                    15,
                    "node %d says why" % node.id,
                )
        assert not any("cluster founded" in n.log() for n in cluster.nodes)
        assert odd.stop() == 0
        odd.write_config("")
        odd.start()
        cluster.leader()
        assert shown(cluster)["locks"]["value"] == 1000000


def test_a_limit_is_changed_for_all_and_outlives_a_restart():
    with Cluster(3, extra="snapshot_entries = 20\n") as cluster:
        leader = cluster.leader()
        with leader.connect() as client:
            Session(client, ttl=60000)
            for i in range(30):
                assert client.do("LOCK.ACQUIRE", "l%d" % i) > 0
            assert hasp(cluster, "limits", "set", "locks", "10").returncode == 0
            assert shown(cluster)["locks"]["value"] == 10
            assert shown(cluster)["locks"]["used"] == 30
            # It ends nothing: what is held may be held again and given back.
            assert refused(client, "LOCK.ACQUIRE", "new").code == "LIMIT"
            assert client.do("LOCK.ACQUIRE", "l3") > 0
            assert client.do("LOCK.RELEASE", "l3") == 1
            for i in range(25):
                assert client.do("LOCK.RELEASE", "l%d" % i) == 0
            assert client.do("LOCK.ACQUIRE", "new") > 0
            assert shown(cluster)["locks"]["used"] == 6
            assert hasp(cluster, "limits", "set", "locks", "6").returncode == 0
            assert refused(client, "LOCK.ACQUIRE", "newer").code == "LIMIT"
        # The entries behind the newest snapshot are applied again.
        for node in cluster.nodes:
            node.kill()
        cluster.start()
        leader = cluster.leader()
        for node in cluster.nodes:
            wait_until(
                lambda: metrics(node).get('hasp_limit{limit="locks"}') == 6,
                15,
                "node %d has the limit" % node.id,
            )
            assert metrics(node)['hasp_limit_used{limit="locks"}'] == 6


def test_a_limit_out_of_its_range_is_refused_with_the_range():
    with Cluster(1) as cluster:
        node = cluster.leader()
        with node.door() as client:
            for words, text in (
                (("locks", 0), "locks must be from 1 to 100000000"),
                (("locks", 100000001), "locks must be from 1 to 100000000"),
                (("locks", "-1"), "locks must be a decimal integer, not '-1'"),
                (("lokcs", 1), "unknown limit 'lokcs'"),
            ):
                error = refused(client, "LIMITS.SET", *words)
                assert error.code == "BADARG"
                assert text in str(error)
            assert refused(client, "LIMITS.SET", "locks").code == "BADARG"
        told = hasp(cluster, "limits", "set", "locks", "0")
        assert told.returncode == 64
        assert "must be from 1 to 100000000" in told.stderr
        assert hasp(cluster, "limits", "set", "locks", "many").returncode == 64
        assert hasp(cluster, "limits", "set", "locks").returncode == 64
        assert hasp(cluster, "limits", "set", "locks", "1M").returncode == 0
        assert shown(cluster)["locks"]["value"] == 1 << 20


def test_no_ttl_is_longer_than_the_bound():
    with Cluster(1) as cluster:
        node = cluster.leader()
        with node.connect() as client, node.connect() as other:
            long_one = Session(other, ttl=50000)
            assert hasp(cluster, "limits", "set", "ttl_max", "5000").returncode == 0
            said = "LIMIT ttl_max: at most 5000 ms"
            script = (
                "if redis.call('get',KEYS[1]) == ARGV[1] then "
                "return redis.call('pexpire',KEYS[1],ARGV[2]) else return 0 end"
            )
            assert str(refused(client, "SESSION.OPEN", "TTL", 5001)) == said
            assert str(refused(client, "SET", "k", "v", "NX", "PX", 5001)) == said
            assert client.do("SET", "k", "v", "NX", "PX", 5000) == "OK"
            assert str(refused(client, "SET", "k", "v", "NX", "AGAIN", "PX",
                               6000)) == said
            assert client.do("EVAL", script, 1, "k", "v", 4000) == 1
            assert str(refused(client, "EVAL", script, 1, "k", "v", 9000)) == said
            # Without a TTL it is the default, or less.
            assert client.map("SESSION.OPEN")["ttl_ms"] == 5000
            # The existing ones stay.
            assert other.do("SESSION.KEEP") is not None
            assert other.map("SESSION.SHOW", long_one.id)["ttl_ms"] == 50000
        row = shown(cluster)["ttl_max"]
        assert (row["value"], row["used"]) == (5000, None)
        assert (row["min"], row["max"]) == (1000, 3600000)
        assert 'hasp_limit_used{limit="ttl_max"}' not in metrics(node)


def test_a_cluster_is_founded_with_a_minute():
    with Cluster(1, start=False) as cluster:
        node = cluster.nodes[0]
        node.write_config()
        with open(node.config) as file:
            lines = file.read().replace("ttl_max", "#ttl_max")
        with open(node.config, "w") as file:
            file.write(lines)
        cluster.start()
        cluster.leader()
        assert shown(cluster)["ttl_max"]["value"] == 60000


def test_a_full_state_refuses_what_is_new_and_all_nodes_stay_up():
    with Cluster(3, extra="state_size = 256K\ntable_size = 16M\n") as cluster:
        leader = cluster.leader()
        with leader.connect() as client, leader.connect() as other:
            Session(client, ttl=60000)
            second = Session(other, ttl=60000)
            held = []
            with pytest.raises(ReplyError) as error:
                for i in range(1000):
                    token = client.do(
                        "LOCK.ACQUIRE", "l%d" % i, "VALUE", "v" * 4000, "REQ", i + 1
                    )
                    held.append(token)
            assert error.value.code == "LIMIT"
            assert "state_size: " in str(error.value)
            assert 40 < len(held) < 60
            with pytest.raises(ReplyError):
                for i in range(1000):
                    other.do("FENCE.ADMIT", "r%d" % i, 1)
            for words in (
                ("LOCK.ACQUIRE", "l0", "OWNER", "o" * 64, "WAIT", 100),
                ("SESSION.OPEN", "NAME", "n" * 100),
                ("SET", "k", "v" * 4000, "NX", "PX", 900),
            ):
                assert refused(other, *words).code == "LIMIT"
            row = shown(cluster)["state_size"]
            assert row["value"] == 256 << 10
            assert 0.78 * row["value"] < row["used"] <= 0.8 * row["value"]
            for node in cluster.nodes:
                wait_until(
                    lambda: metrics(node)['hasp_limit_used{limit="state_size"}']
                    == row["used"],
                    10,
                    "all nodes have as much",
                )
            # Releases are served; then there is room again.
            assert other.do("BLACKLIST.ADD", "CLIENT", "rogue", "REASON", "r") == "OK"
            assert client.do("SESSION.KEEP") is not None
            assert client.do("LOCK.RELEASE", "l0", "REQ", 2000) == 0
            assert client.do("LOCK.RELEASE", "l1") == 0
            assert other.do("LOCK.ACQUIRE", "l0", "VALUE", "v" * 4000) > 0
            assert refused(other, "LOCK.ACQUIRE", "l1", "VALUE", "v" * 4000)
            assert hasp(cluster, "limits", "set", "state_size", "1M").returncode == 0
            assert other.do("LOCK.ACQUIRE", "l1", "VALUE", "v" * 4000) > 0
            assert other.do("SESSION.CLOSE") == 2
        assert second.id
        assert all(node.is_running for node in cluster.nodes)


def test_a_table_without_room_grows():
    """Without that, all nodes ended at the same entry."""
    with Cluster(3, extra="table_size = 16M\nflush_records = 500\n") as cluster:
        leader = cluster.leader()
        with leader.connect(60) as client:
            session = Session(client, ttl=600000)
            count, value = 6000, "v" * 4096
            for first in range(0, count, 250):
                for i in range(first, first + 250):
                    client.send("LOCK.ACQUIRE", "l%d" % i, "VALUE", value)
                assert all(client.receive() > 0 for _ in range(250))
            for node in cluster.nodes:
                wait_until(
                    lambda: metrics(node)["hasp_table_bytes"] > 32 << 20,
                    30,
                    "node %d has written all" % node.id,
                )
                assert metrics(node)["hasp_table_room_bytes"] >= 64 << 20
                wait_until(
                    lambda: 'event="table grown"' in node.log(), 10, "told"
                )
                assert node.is_running
            assert client.do("LOCK.RELEASE", "l17") == 0
        for node in cluster.nodes:
            assert node.stop() == 0
        cluster.start()
        with cluster.leader().connect() as client:
            session.attach(client)
            assert client.do("LOCK.RELEASE", "l18") == 0
            assert client.map("SESSION.SHOW", session.id)["holds"] == count - 2


def test_zero_in_the_file_is_an_error_with_its_line():
    with Cluster(1, start=False) as cluster:
        node = cluster.nodes[0]
        node.write_config("waits_per_lock = 0\n")
        node.start()
        assert node.wait_exit() == 78
        with open(node.config) as file:
            line = file.read().splitlines().index("waits_per_lock = 0") + 1
        assert "%s:%d: " % (node.config, line) in node.log()
