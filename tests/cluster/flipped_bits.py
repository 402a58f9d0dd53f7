# SPDX-License-Identifier: MIT
"""A bit of a stopped node's files has flipped: then the node refuses to start and
says why, or nothing of what was acknowledged differs."""

import collections
import itertools
import os
import random
import re
import shutil

import pytest

from cluster import Cluster, ReplyError, Session, as_map, wait_until

SEED = int(os.environ.get("SEED", random.randrange(1 << 30)))
# Small, so that a directory has several segments and snapshots.
SMALL = ("flush_ms = 20\nsnapshot_entries = 150\nwal_segment_size = 1M\n"
         "snapshot_log_size = 1M\n")
HELD = 24  # Locks that are held, each with a value of its own.
FOUND_S = 60  # Time in which three nodes elect, or have refused.
REFUSED = 70  # hasp-exit-codes(7): for good, until somebody has acted.
REPAIRED = "damaged|repaired|rebuil|torn"  # In a log line.
SELDOM = 0.1
TAIL = 60  # Bytes of about the newest batch of the log.
PLACES = ("wal", "tail", "vote", "identity", "trust", "snapshot", "table")


class World:
    """Three stopped directories with known locks, copied for each trial."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.drawn = random.Random(SEED)
        self.cluster = Cluster(3, SMALL)
        self.acknowledged = self._fill()
        for node in self.cluster.nodes:
            # One was killed: its table does not end with its log.
            node.kill() if node.id == 1 else node.stop()
            shutil.copytree(node.dir, self._copy(node),
                            ignore=shutil.ignore_patterns("*.sock"))

    def _copy(self, node):
        return os.path.join(self.folder, "copy-%d" % node.id)

    def _fill(self):
        with self.cluster.leader().connect() as client:
            Session(client, ttl=3600000, linger=3600000)
            for i in range(HELD):
                client.do("LOCK.ACQUIRE", "held/%d" % i, "VALUE", "value %d" % i)
                for _ in range(10):
                    client.do("LOCK.ACQUIRE", "passing/%d" % i)
                    client.do("LOCK.RELEASE", "passing/%d" % i)
            return {name: shown(client, name) for name in self.names()}

    @staticmethod
    def names():
        return ["%s/%d" % (kind, i) for kind in ("held", "passing")
                for i in range(HELD)]

    def files(self, node, place):
        """What is not empty, by its path below the directory."""
        found = []
        for path, _, names in os.walk(self._copy(node)):
            for name in names:
                whole = os.path.join(path, name)
                inner = os.path.relpath(whole, self._copy(node))
                if inner.split(os.sep)[0] == place.replace("tail", "wal"):
                    with open(whole, "rb") as file:
                        if file.read().strip(b"\0"):
                            found.append(inner)
        found.sort()
        return found[-1:] if place == "tail" else found

    def flip(self, node, place):
        """Flips a bit of what the file has written; says where."""
        inner = self.drawn.choice(self.files(node, place))
        path = os.path.join(node.dir, inner)
        with open(path, "r+b") as file:
            content = file.read()
            # Segments and tables have empty space: flips there are seldom.
            written = [i for i, byte in enumerate(content) if byte]
            at = self.drawn.choice(written)
            if place == "tail":
                at = self.drawn.choice(written[-TAIL:])
            elif self.drawn.random() < SELDOM:
                at = self.drawn.randrange(len(content))
            bit = self.drawn.randrange(8)
            file.seek(at)
            file.write(bytes([content[at] ^ 1 << bit]))
        return "%s byte %d bit %d of node %d" % (inner, at, bit, node.id)

    def restore(self):
        for node in self.cluster.nodes:
            node.signal(9)
            if node.process:
                node.process.wait(10)
            shutil.rmtree(node.dir)
            shutil.copytree(self._copy(node), node.dir)
            with open(node.log_path, "w"):
                pass

    def trial(self, place, count):
        """Returns what became of the nodes with a flip: a Counter."""
        self.restore()
        hurt = self.drawn.sample(self.cluster.nodes, count)
        where = [self.flip(node, place) for node in hurt]
        try:
            return self._judge(hurt)
        except AssertionError as error:
            self.cluster.print_logs()
            raise AssertionError("%s\nSEED=%d: %s" % (
                error, SEED, "; ".join(where))) from None

    def _judge(self, hurt):
        nodes = self.cluster.nodes
        for node in nodes:
            node.start()
        wait_until(self._has_settled, FOUND_S, "a leader, or refusals")
        refused = [node for node in nodes if not node.is_running]
        for node in refused:
            assert node in hurt, "node %d has ended unhurt" % node.id
            assert node.wait_exit() == REFUSED, node.process.returncode
            assert_says_why(node)
        if len(refused) < 2:
            self._judge_state()
        else:
            self._judge_silence([node for node in nodes if node.is_running])
        return collections.Counter(
            "refused" if node in refused else
            "repaired" if re.search(REPAIRED, node.log()) else "not needed"
            for node in hurt)

    def _has_settled(self):
        """Each node has ended or answers, and a majority has a leader."""
        running = [node for node in self.cluster.nodes if node.is_running]
        if any(node.status() is None for node in running):
            return False
        return len(running) < 2 or any(node.is_serving() for node in running)

    def _judge_state(self):
        attempts = itertools.count()  # A leader may be deposed in the middle.
        self.cluster.retry(lambda client: self._compare(client, next(attempts)),
                           FOUND_S)

    def _compare(self, client, attempt):
        for name, told in self.acknowledged.items():
            assert shown(client, name) == told, name
        Session(client, ttl=60000)
        highest = max(told[0] for told in self.acknowledged.values() if told)
        assert client.do("LOCK.ACQUIRE", "held/0", "WAIT", "0") is None
        token = client.do("LOCK.ACQUIRE", "passing/%d" % (attempt % HELD))
        assert token > highest

    def _judge_silence(self, running):
        """A minority grants nothing."""
        for node in running:
            with node.connect() as client:
                with pytest.raises(ReplyError, match="^NOLEADER"):
                    client.do("SESSION.OPEN", "TTL", "1000")

    def close(self):
        self.cluster.close()


def shown(client, name):
    """The token, session and value of the holder; None: it is free."""
    lock = client.do("LOCK.SHOW", name)
    holders = as_map(lock)["holders"] if lock else []
    if not holders:
        return None
    told = as_map(holders[0])
    return told["token"], told["session"], told["value"]


def assert_says_why(node):
    """The last line names a file of the directory, and what to do."""
    last = node.log().splitlines()[-1]
    assert node.dir in last and re.search("remove|replace|restore|move", last), last
