# SPDX-License-Identifier: MIT
"""A damaged table is rebuilt, if that loses nothing."""

import os
import shutil

from cluster import Cluster, Session, as_map, wait_until

BUSY = "flush_ms = 20\nsnapshot_entries = 100\nwal_segment_size = 1M\n"
VALUE = b"a value that is found again in the table's file"
ANEW = 'event="the table is damaged and is rebuilt"'


def table_path(node):
    return os.path.join(node.dir, "table", "data.mdb")


def damage(node):
    """Flips one bit of the value, wherever the file has it."""
    with open(table_path(node), "r+b") as file:
        content = file.read()
        at = content.find(VALUE)
        assert at >= 0
        while at >= 0:
            file.seek(at)
            file.write(bytes([VALUE[0] ^ 1]))
            at = content.find(VALUE, at + 1)


def is_in_table(node):
    with open(table_path(node), "rb") as file:
        return VALUE in file.read()


def hold(node):
    """A lock that is held for an hour, and lies in the table."""
    with node.connect() as client:
        session = Session(client, ttl=3600000, linger=3600000)
        token = client.do("LOCK.ACQUIRE", "kept", "VALUE", VALUE)
        wait_until(lambda: is_in_table(node), 30, "it lies in the table")
    return session, token


def fill(node, count, name="passing"):
    with node.connect() as client:
        Session(client, ttl=60000)
        for _ in range(count):
            client.do("LOCK.ACQUIRE", name)
            client.do("LOCK.RELEASE", name)


def shown(node):
    """The holder, its token and value."""
    with node.connect() as client:
        holders = as_map(client.do("LOCK.SHOW", "kept"))["holders"]
    told = as_map(holders[0])
    return [told[key] for key in ("session", "token", "value", "count")]


def test_a_damaged_table_is_made_anew_three_times():
    """Records that do not add up at a start; from the log alone, then from
    snapshot and log."""
    with Cluster(1, BUSY) as cluster:
        node = cluster.leader()
        hold(node)
        before = shown(node)
        for number in (1, 2, 3):
            node.kill()
            damage(node)
            node.start()
            cluster.leader()
            assert shown(node) == before
            assert node.log().count(ANEW) == number
            assert "kept=table.damaged-%d" % number in node.log()
            aside = os.path.join(node.dir, "table.damaged-%d" % number)
            assert os.path.exists(os.path.join(aside, "data.mdb"))
            wait_until(lambda: is_in_table(node), 30, "it is in the table")
            if number == 1:
                fill(node, 200)
                wait_until(
                    lambda: 'event="snapshot taken"' in node.log(),
                    30,
                    "a snapshot",
                )
        # A disk that damages it four times is not trusted a fifth time.
        node.kill()
        damage(node)
        node.start()
        assert node.wait_exit() == 70
        assert "and was 3 times before" in node.log()
        assert node.log().count(ANEW) == 3
        for number in (1, 2, 3):
            shutil.rmtree(
                os.path.join(node.dir, "table.damaged-%d" % number)
            )
        node.start()
        cluster.leader()
        assert shown(node) == before


def test_a_table_that_cannot_be_made_anew_is_refused():
    """The log begins after entry 1, and no snapshot is left."""
    with Cluster(1, BUSY) as cluster:
        node = cluster.leader()
        hold(node)
        first = os.path.join(node.dir, "wal", "segment-%016d" % 1)
        while os.path.exists(first):
            fill(node, 500)
        node.kill()
        damage(node)
        shutil.rmtree(os.path.join(node.dir, "snapshot"))
        node.start()
        assert node.wait_exit() == 70
        assert "the log begins after the newest good snapshot" in node.log()
        assert ANEW not in node.log()
        assert os.path.exists(table_path(node))


def test_damage_that_the_scrub_finds_is_mended_by_the_next_start():
    with Cluster(3, BUSY) as cluster:
        leader = cluster.leader()
        hold(leader)
        before = shown(leader)
        node = cluster.followers(leader)[0]
        wait_until(lambda: is_in_table(node), 30, "it is in the table")
        damage(node)
        assert node.wait_exit(60) == 70
        assert "the table was damaged" in node.log()
        node.start()
        wait_until(lambda: ANEW in node.log(), 30, "it is rebuilt")
        cluster.converged()
        assert shown(node) == before


def busy(cluster, node):
    """A lock that is held, a table of some size, and the length of its file."""
    cluster.leader()
    hold(node)
    with node.connect() as client:
        Session(client, ttl=3600000, linger=3600000)
        for i in range(300):
            client.do("LOCK.ACQUIRE", "busy/%d" % i, "VALUE", "x" * 500)
    wait_until(lambda: os.path.getsize(table_path(node)) > 200000, 30, "a table")
    return shown(node)


def test_a_table_that_was_cut_is_made_anew():
    """While the node is away, at several lengths, after a kill and a stop."""
    with Cluster(1, BUSY) as cluster:
        node = cluster.nodes[0]
        before = busy(cluster, node)
        for number, part in enumerate((0.0, 0.3, 0.9, 1.0, 0.02, 0.5)):
            if number % 2 == 0:
                node.kill()
            else:
                assert node.stop() == 0
            size = os.path.getsize(table_path(node))
            os.truncate(table_path(node), int((size - 1) * part))
            node.start()
            cluster.leader()
            said = 'event="the table is truncated and is rebuilt"'
            assert node.log().count(said) == number + 1
            assert shown(node) == before
            with node.connect() as client:
                assert as_map(client.do("LOCK.SHOW", "busy/7"))["holders"]
            fill(node, 50)  # It is written, too, and nothing ends it.
            assert shown(node) == before
            assert node.is_running
        assert not os.path.exists(os.path.join(node.dir, "table.damaged-1"))


def test_a_table_that_is_cut_while_it_is_used_ends_the_node():
    with Cluster(1, BUSY) as cluster:
        node = cluster.nodes[0]
        before = busy(cluster, node)
        for number, part in enumerate((0.0, 0.5, 0.9)):
            size = os.path.getsize(table_path(node))
            os.truncate(table_path(node), int((size - 1) * part))
            try:
                fill(node, 1000, "cut/%d" % number)
            except OSError:
                pass
            assert node.wait_exit(30) == 70
            log = node.log()
            assert log.count("while it was in use") > number
            node.start()
            cluster.leader()
            assert "is rebuilt" in node.log()[len(log) :]
            assert shown(node) == before
            fill(node, 50)
            assert node.is_running
