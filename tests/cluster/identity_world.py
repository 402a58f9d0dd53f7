# SPDX-License-Identifier: MIT
"""Members on hosts of their own. Their data directories are replaced while the
old ones still run; a ledger has the answers to clients.

A place is a host, a data directory and the process that runs there. Two places
may have one id: a member that was replaced, and the directory it had before.
Everything is done as an operator would do it: haspd, its files, and RAFT.*
commands at the leader.
"""

import contextlib
import os
import shutil
import tempfile
import time

from cluster import Cluster, Node, ReplyError, as_map, text, wait_until
from fake_peer import identity
from nemesis_net import HubClient, Network, both

ELECTION_MS = 500
# Answers after which the request was not done, or is not known to be done.
NOT_DONE = ("NOLEADER", "UNKNOWN", "BUSY", "MOVED")
# An election needs less after a link was cut, on a quiet machine half a second.
PART_S = 3.0
# A smaller id that is not dialled dials after PEER_PATIENCE_MS.
PATIENCE_S = 6.0


class Place(Node):
    """A host of its own with an empty data directory of member 'number'."""

    def __init__(self, world, number, host):
        self.host = host
        world.network.add(host)
        self.address = world.network.addresses[host]
        super().__init__(world, number, (7420, 7421, 7422), host)

    @property
    def addresses(self):
        return "%s:7421,%s:7420" % (self.address, self.address)

    def write_config(self, extra=""):
        members = "".join(
            "member = %d %s:7421 %s:7420\n" % (n.id, n.address, n.address)
            for n in self.cluster.founders
        )
        with open(self.config, "w") as out:
            out.write(
                "[node]\nid = %d\ndir = %s\n" % (self.id, self.dir)
                + "[listen]\nhttp = off\n"
                + "client = %s:7420\n" % self.address
                + "peer = %s:7421\n" % self.address
                + "[cluster]\nname = test\n"
                + members
                + "[raft]\nelection_ms = %d\n" % ELECTION_MS
                + "[security]\ninsecure = yes\n"
                + "[limits]\ndisk_reserve = 1M\nttl_max = 3600000\n"
                + extra
            )

    def start(self, *flags, wrapper=(), environment=None):
        return super().start(
            *flags,
            wrapper=list(wrapper) + self.cluster.network.wrapper(self.host),
            environment=environment,
        )

    def connect(self, timeout=3.0):
        return HubClient(self.cluster.network, (self.address, 7420), timeout)

    @property
    def incarnation(self):
        return "%016x" % identity(self)[1]

    def forget_table(self):
        """As after a power failure: another boot wrote the table, so the node
        rebuilds it from the newest snapshot and the log."""
        assert not self.is_running
        path = os.path.join(self.dir, "trust")
        assert os.path.exists(path)
        with open(path, "w") as file:
            file.write("boot of-an-earlier-day\n")

    def wipe(self):
        assert not self.is_running
        shutil.rmtree(self.dir)

    def member(self, number):
        """The member as this place sees it; an empty dict if it does not."""
        status = self.status() or {"members": []}
        for member in map(as_map, status["members"]):
            if member["id"] == number:
                return member
        return {}


class World(Cluster):
    """Founders on hosts n1, n2, ..."""

    def __init__(self, count=3, extra=""):
        self.network = Network()
        self.folder = tempfile.mkdtemp(prefix="hasp-identity-")
        self.extra, self.tls = extra, None
        self.nodes = []
        self.ledger = {}  # {lock: (session id, secret, token)}
        for i in range(count):
            self.nodes.append(Place(self, i + 1, "n%d" % (i + 1)))
        self.founders = list(self.nodes)
        for node in self.nodes:
            node.write_config(extra)
        self.start()
        wait_until(lambda: self.are_linked(self.founders), 20, "links")

    def close(self):
        super().close()
        self.network.close()

    def place(self, number, host):
        """Another place for a member. Its configuration names the present
        members and not itself, as that of a newcomer."""
        place = Place(self, number, host)
        founders = self.founders
        self.founders = [n for n in founders if n.id != number]
        place.write_config(self.extra)
        self.founders = founders
        self.nodes.append(place)
        return place.start()

    # --- The network ----------------------------------------------------------

    def cut(self, some, others):
        self.network.cut(both(some, others))

    def mend(self, some, others):
        self.network.mend(both(some, others))

    # --- Operators ------------------------------------------------------------

    def make_leader(self, successor):
        """Waits until it serves; a transfer may be refused, or fail."""

        def leads():
            with contextlib.suppress(OSError, ReplyError):
                with self.leader().connect(10) as client:
                    if not successor.is_serving():
                        client.do("RAFT.TRANSFER", successor.id)
            return successor.is_serving()

        wait_until(leads, 30, "member %d leads" % successor.id)

    def leads(self, places):
        """The one of these that serves; None."""
        return next((p for p in places if p.is_serving()), None)

    def make_leader_of(self, places):
        """Waits until one of these leads, which are a majority."""
        return wait_until(lambda: self.leads(places), 15, "one leads")

    @staticmethod
    def order(leader, *words, timeout=20):
        """A command of an operator, again while nothing was done."""
        by = time.monotonic() + timeout
        while True:
            try:
                with leader.connect(timeout) as client:
                    return client.do(*words)
            except ReplyError as error:
                is_early = error.code in NOT_DONE or "silent" in str(error)
                if not is_early or time.monotonic() > by:
                    raise
                time.sleep(0.1)

    def replace(self, leader, old, host, *options):
        """Removes the member and adds it with an empty directory on another
        host; the old process is left as it is. Returns the new place."""
        assert self.order(leader, "RAFT.REMOVE", old.id) == "OK"
        new = self.place(old.id, host)
        self.add(leader, new, *options)
        return new

    def add(self, leader, new, *options):
        words = ("RAFT.ADD", new.id, new.addresses, *options)
        assert self.order(leader, *words) == "OK"
        role = "standby" if "STANDBY" in options else "voter"
        wait_until(
            lambda: new.member(new.id).get("role") == role, 10, "it is " + role
        )

    def kill(self, *places):
        for place in places:
            place.kill()

    # --- Clients --------------------------------------------------------------

    def take(self, node, *locks):
        """Acquires locks by way of a node; its grants are in the ledger."""
        for lock in locks:
            with node.connect(10) as client:
                opened = client.map("SESSION.OPEN", "TTL", 3600000)
                token = client.do("LOCK.ACQUIRE", lock)
                assert token > 0
                self.ledger[lock] = (opened["id"], opened["secret"], token)

    @staticmethod
    def try_to_take(node, lock):
        """The token of a new holder; 0 if the lock is held, or nobody says."""
        with contextlib.suppress(OSError, ReplyError):
            with node.connect(1.0) as client:
                client.do("SESSION.OPEN", "TTL", 3600000)
                return client.do("LOCK.ACQUIRE", lock) or 0
        return 0

    def never_granted(self, nodes, seconds=PART_S):
        """Tries to take the locks of the ledger at any of these nodes, which
        are not a majority: fails if one is granted, or one of them is
        elected."""
        leaders = {s["term"] for s in self.leaders(nodes)}
        by = time.monotonic() + seconds
        while time.monotonic() < by:
            for node in nodes:
                for lock, (_, _, token) in self.ledger.items():
                    second = self.try_to_take(node, lock)
                    assert not second, (
                        "two holders: '%s' has token %d, and member %d on %s "
                        "granted %d" % (lock, token, node.id, node.host, second)
                    )
            for status in self.leaders(nodes):
                assert status["term"] in leaders, (
                    "member %d was elected in term %d by directories without a "
                    "majority" % (status["node"], status["term"])
                )
            time.sleep(0.05)

    def never_granted_quickly(self, nodes):
        """One round of that, be they a majority or not."""
        for node in nodes:
            with contextlib.suppress(OSError, ReplyError):
                with node.connect(0.5) as client:
                    client.do("SESSION.OPEN", "TTL", 3600000)
                    for lock, (_, _, token) in self.ledger.items():
                        second = client.do("LOCK.ACQUIRE", lock)
                        assert not second, (
                            "two holders: '%s' has token %d, and member %d on "
                            "%s granted %d"
                            % (lock, token, node.id, node.host, second)
                        )

    def commits_nothing(self, node, seconds=PART_S):
        """It is without a majority."""
        by = time.monotonic() + seconds
        while time.monotonic() < by:
            token = self.try_to_take(node, "free")
            assert not token, "%s granted %d with no majority" % (
                node.host,
                token,
            )
            time.sleep(0.05)

    @staticmethod
    def leaders(nodes):
        states = [node.status() for node in nodes if node.is_running]
        return [s for s in states if s is not None and s["role"] == "leader"]

    def kept(self):
        """Within a while some node serves, and all locks that were acknowledged
        are held."""
        leader = self.leader()
        for lock, (session, secret, token) in self.ledger.items():
            with leader.connect(10) as client:
                client.do("SESSION.ATTACH", session, secret)
                held = client.do("LOCK.CHECK", lock, token)
                assert held == 1, "'%s' is lost at %s" % (lock, leader.host)
        return leader

    # --- Links ----------------------------------------------------------------

    @staticmethod
    def hears(node, other):
        """Has heard a member of that id within a second, it says."""
        return 0 <= node.member(other.id).get("last_contact_ms", -1) < 1000

    def are_linked(self, places):
        """Each of them hears each other one."""
        return all(
            self.hears(one, other)
            for one in places
            for other in places
            if one is not other
        )

    def try_to_link(self, places, seconds=2.0):
        """Waits a moment, for an event that may not happen."""
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.are_linked(places), seconds, "links")

    @staticmethod
    def links(place):
        """The incarnations at the other ends of its links, as it says."""
        status = place.status() or {"members": []}
        return {
            text(member["link"])
            for member in map(as_map, status["members"])
            if member["id"] != place.id and member["link"]
        }

    def is_cast_out(self, old, places):
        """Between an old directory and these there is no link."""
        present = {place.incarnation for place in places}
        return not self.links(old) & present and not any(
            old.incarnation in self.links(place) for place in places
        )

    @staticmethod
    def is_named(old, place, since):
        """The place says that this old directory has dialled since then."""
        status = place.status() or {"replaced": []}
        return any(
            (one["id"], text(one["incarnation"])) == (old.id, old.incarnation)
            and one["seen_ms"] < 1000 * (time.monotonic() - since)
            for one in map(as_map, status["replaced"])
        )

    def named(self, olds, places):
        """Some of these places say that the old directories dial them now."""
        since = time.monotonic()
        for old in olds:
            wait_until(
                lambda: any(self.is_named(old, p, since) for p in places),
                15,
                "%s is named" % old.host,
            )

    def whole(self, places, olds):
        """In the end the present members are linked, and have all applied the
        same; the old directories have no links with them."""
        wait_until(lambda: self.are_linked(places), 15, "all are linked")
        wait_until(
            lambda: len({(p.status() or {}).get("applied") for p in places})
            == 1,
            10,
            "all have applied the same",
        )
        for old in olds:
            assert self.is_cast_out(old, places), old.host + " has a link"
