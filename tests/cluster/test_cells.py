# SPDX-License-Identifier: MIT
"""Cells: clusters that share names by prefix. No lock is granted in two of
them, however the maps change."""

import contextlib
import random
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest
from cluster import Cluster, ReplyError, Session, as_map, text, wait_until

PREFIXES = ["p%d/" % i for i in range(8)]
MOVES_S = 60
UNLOCK = ("if redis.call('get', KEYS[1]) == ARGV[1] then "
          "return redis.call('del', KEYS[1]) else return 0 end")


def endpoints(cell):
    return ",".join("127.0.0.1:%d" % n.client_port for n in cell.nodes)


def later_second():
    """A cluster that is founded now has the higher token_base."""
    now = int(time.time())
    wait_until(lambda: int(time.time()) > now, 5, "the next second")


@contextlib.contextmanager
def cells(count):
    """Clusters of one node, the oldest first; the first owns all names."""
    with contextlib.ExitStack() as stack:
        found = []
        for _ in range(count):
            if found:
                later_second()
            found.append(stack.enter_context(Cluster(1)))
            found[-1].leader()
        for cell in found[1:]:
            assert admin(cell, "CELLS.JOIN", endpoints(found[0])) == 0
        yield found


def admin(cell, *words):
    """By a connection that is kept: each is a login, which is logged."""
    node = cell.nodes[0]
    if getattr(cell, "door", None) is None:
        cell.door = node.door()
    return cell.door.do(*words)


def restart(cell):
    cell.door.close()
    cell.door = None
    cell.nodes[0].kill()
    cell.nodes[0].start()
    # Not cell.leader(), which acquires a lock of any name.
    wait_until(lambda: cell.nodes[0].status() is not None and
               cell.nodes[0].status()["role"] == "leader", 30, "a leader")


def shown(cell):
    found = as_map(admin(cell, "CELLS.SHOW"))
    found["cells"] = {
        row["prefix"]: row for row in map(as_map, found["cells"])
    }
    return found


def give(giver, prefix, taker):
    """The receipt."""
    cluster = text(shown(taker)["cluster"])
    admin(giver, "CELLS.GIVE", prefix, cluster, endpoints(taker))
    return text(shown(giver)["cells"][prefix]["receipt"])


def test_a_prefix_passes_on_with_its_receipt():
    with cells(3) as (a, b, c):
        with a.nodes[0].connect() as old, b.nodes[0].connect() as new:
            Session(old, ttl=60000)
            Session(new, ttl=60000)
            first = old.do("LOCK.ACQUIRE", "eu/x")
            with pytest.raises(ReplyError, match="locks 1"):
                give(a, "eu/", b)
            with pytest.raises(ReplyError, match="^FOREIGN"):
                new.do("LOCK.ACQUIRE", "eu/x")
            assert old.do("FENCE.ADMIT", "eu/disk", first) == 1
            old.do("LOCK.RELEASE", "eu/x")
            with pytest.raises(ReplyError, match="fences 1"):
                give(a, "eu/", b)
            assert admin(a, "FENCE.REMOVE", "eu/disk") == 1
            receipt = give(a, "eu/", b)
            assert give(a, "eu/", b) == receipt
            for client in old, new:
                with pytest.raises(ReplyError, match="^FOREIGN"):
                    client.do("LOCK.ACQUIRE", "eu/x")
            with pytest.raises(ReplyError, match="for another cluster"):
                admin(c, "CELLS.TAKE", receipt)
            for _ in range(2):
                assert admin(b, "CELLS.TAKE", receipt) == 1
            assert new.do("LOCK.ACQUIRE", "eu/x") > first
            assert new.do("FENCE.ADMIT", "eu/disk", first) == 0
            with pytest.raises(ReplyError, match="127.0.0.1:%d$"
                               % b.nodes[0].client_port):
                old.do("LOCK.ACQUIRE", "eu/x")


def test_a_map_outlives_its_node():
    with cells(2) as (a, b):
        receipt = give(a, "eu/", b)
        admin(b, "CELLS.TAKE", receipt)
        before = shown(a), shown(b)
        for cell in a, b:
            restart(cell)
        assert (shown(a), shown(b)) == before


def test_http_says_421_and_where():
    with cells(2) as (a, b):
        give(a, "eu/", b)
        url = "http://127.0.0.1:%d/v1/lease/eu%%2Fx" % a.nodes[0].http_port
        request = urllib.request.Request(
            url, b'{"holder":"me","ttl_ms":5000}',
            {"Content-Type": "application/json"}, method="PUT")
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request, timeout=10)
        body = caught.value.read().decode()
        assert caught.value.code == 421
        assert '"FOREIGN"' in body and endpoints(b) in body


def test_a_client_of_redis_cluster_gets_an_error_and_stays():
    """FOREIGN is no redirect: a slot knows no prefixes."""
    with cells(2) as (a, b):
        give(a, "eu/", b)
        said = {}
        for name in "eu/x", "us/x":
            done = subprocess.run(
                ["redis-cli", "-c", "-p", str(a.nodes[0].client_port),
                 "--no-raw", "SET", name, "v", "NX", "PX", "1000"],
                capture_output=True, text=True, timeout=20, check=False)
            said[name] = done.stdout.strip()
        assert said["us/x"] == "OK"
        assert said["eu/x"].startswith("(error) FOREIGN ")
        assert endpoints(b) in said["eu/x"]


class World:
    """Who believes to hold which name, over all cells."""

    def __init__(self, found):
        self.cells = found
        self.mutex = threading.Lock()
        self.holders = {}
        self.tokens = {}
        self.grants = {i: 0 for i in range(len(found))}
        self.foreign = 0
        self.wrong = []
        self.is_over = False

    def granted(self, name, who, cell, token):
        with self.mutex:
            self.grants[cell] += 1
            if name in self.holders:
                self.wrong.append("%s: %s beside %s" % (
                    name, who, self.holders[name]))
            if token is not None and token <= self.tokens.get(name, 0):
                self.wrong.append("%s: token %d after %d" % (
                    name, token, self.tokens[name]))
            self.holders[name] = who
            self.tokens[name] = max(token or 0, self.tokens.get(name, 0))

    def gives_up(self, name):
        """Before the release is sent."""
        with self.mutex:
            del self.holders[name]


def take_and_give(world, client, cell, name, who, draw):
    """One cycle at a cell that may be the wrong one."""
    if draw.random() < 0.3:
        if client.do("SET", name, who, "NX", "PX", 20000) is None:
            return
        world.granted(name, who, cell, None)
        world.gives_up(name)
        assert client.do("EVAL", UNLOCK, 1, name, who) == 1
        return
    token = client.do("LOCK.ACQUIRE", name, "WAIT", draw.choice((0, 5)))
    if token is None:
        return
    world.granted(name, who, cell, token)
    world.gives_up(name)
    client.do("LOCK.RELEASE", name)


def work(world, number):
    """A client with a map that is always stale: it asks any cell."""
    draw = random.Random(number)
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(cell.nodes[0].connect(30))
            for cell in world.cells
        ]
        for client in clients:
            Session(client, ttl=60000)
        while not world.is_over:
            cell = draw.randrange(len(clients))
            name = draw.choice(PREFIXES) + draw.choice("xy")
            try:
                take_and_give(world, clients[cell], cell, name,
                              "client %d" % number, draw)
            except ReplyError as error:
                if error.code != "FOREIGN":
                    world.wrong.append(str(error))
                with world.mutex:
                    world.foreign += 1


def refusal(cell, *words):
    """The refusal, or None."""
    try:
        admin(cell, *words)
    except ReplyError as error:
        return str(error)
    return None


def move(world, prefix, giver, taker, receipts):
    """Gives the prefix when it is unused for a moment; old receipts are used
    again everywhere, which changes nothing."""
    before = world.grants[giver]
    wait_until(lambda: world.grants[giver] > before + 20 or world.wrong,
               MOVES_S, "grants before the next move")
    by = time.monotonic() + MOVES_S
    cluster = text(shown(world.cells[taker])["cluster"])
    to = endpoints(world.cells[taker])
    busy = 0
    while True:
        said = refusal(world.cells[giver], "CELLS.GIVE", prefix, cluster, to)
        if said is None:
            break
        assert "in use" in said, said
        busy += 1
        assert time.monotonic() < by, "%s is never unused" % prefix
    row = shown(world.cells[giver])["cells"][prefix]
    receipt = text(row["receipt"])
    for old, owner in receipts[-4:]:
        for number, cell in enumerate(world.cells):
            said = refusal(cell, "CELLS.TAKE", old)
            # Of its owner it is a repetition, until it has given it on.
            assert said is not None or owner == number, (old, number)
    assert refusal(world.cells[taker], "CELLS.TAKE", receipt) is None
    receipts.append((receipt, taker))
    return busy


def test_no_lock_is_granted_in_two_cells():
    """Three cells; each prefix moves from the first to the second to the
    third, under clients that ask any cell for any name."""
    with cells(3) as found:
        world = World(found)
        threads = [
            threading.Thread(target=work, args=(world, n)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        receipts, busy = [], 0
        try:
            for giver in 0, 1:
                for prefix in PREFIXES:
                    busy += move(world, prefix, giver, giver + 1, receipts)
            before = world.grants[2]
            wait_until(lambda: world.grants[2] > before + 100 or world.wrong,
                       30, "grants in the last cell")
        finally:
            world.is_over = True
            for thread in threads:
                thread.join()
        print("moves %d, refused as in use %d, grants %s, foreign %d" % (
            len(receipts), busy, world.grants, world.foreign))
        assert not world.wrong, world.wrong[:5]
        assert len(receipts) == 2 * len(PREFIXES)
        assert min(world.grants.values()) > 0 and world.foreign > 0
