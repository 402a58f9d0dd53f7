# SPDX-License-Identifier: MIT
"""MULTI, EXEC and WATCH: reply by reply beside a real Redis; as the .NET client
StackExchange.Redis gives locks back; and at their bounds."""

import random
import threading
from contextlib import closing

import pytest

from cluster import ReplyError
from test_redis_scripts import reference, rounded
from wire import NULL_ARRAY, OK, Wire, connect, encode, eventually, name, opened, world

STEPS = 1500
KEYS = ["tx-a", "tx-b", "tx-c"]
FREE = """
    for i = 1, #KEYS do
        if redis.call('get', KEYS[i]) then redis.call('del', KEYS[i]) end
    end
    return 1
"""


def said(wire, words):
    """The reply; from an error, the part that both servers share."""
    try:
        return rounded(wire.do(*words))
    except ReplyError as error:
        text = str(error)
        return text if "unknown command" not in text else text.split(",")[0]


class Play:
    """Draws what one of two connections says next. Left out is where hasp differs
    by purpose (docs/redis.md): values without a time, the same value again, DEL of
    what was not watched, a renewal of what the other watches, what was free and is
    free again, and commands that fail only when EXEC carries them out."""

    def __init__(self, rng):
        self.rng = rng
        self.values = 0
        self.is_open = [False, False]
        self.watched = [set(), set()]
        self.was_free = [set(), set()]  # Free ones, when watched.

    def take(self):
        self.values += 1
        px = self.rng.choice([15000, 25000, 35000])
        return ["SET", self.rng.choice(KEYS), "v%d" % self.values, "NX", "PX", px]

    def queued(self, who):
        rng, key = self.rng, self.rng.choice(KEYS)
        words = [["GET", key], ["EXISTS", key, rng.choice(KEYS)], ["PTTL", key]]
        words.append(self.take())
        if key not in self.watched[1 - who]:
            words.append(["PEXPIRE", key, rng.choice([10000, 20000, 30000])])
        seen = sorted(self.watched[who] - self.was_free[1 - who])
        if seen:
            seen = rng.choice(seen)
            words += [["DEL", seen], ["UNLINK", seen]]
            words += [["SET", seen, "w%d" % self.values, "XX", "PX", 15000]]
        if rng.random() < 0.1:
            words = [["GET"], ["nonsense"], ["MULTI"], ["WATCH", key], ["SET", key]]
        return rng.choice(words)

    def ended(self, who):
        self.is_open[who] = False
        self.watched[who] = set()
        self.was_free[who] = set()

    def next(self):
        """(who, what)"""
        rng, who = self.rng, self.rng.randrange(2)
        if self.is_open[who]:
            if rng.random() < 0.6:
                return who, self.queued(who)
            self.ended(who)
            return who, [["EXEC"]] * 6 + [["DISCARD"], ["EXEC", "x"], ["RESET"]]
        draw = rng.random()
        if draw < 0.3:
            self.is_open[who] = True
            return who, ["MULTI"]
        if draw < 0.5:
            keys = rng.sample(KEYS, rng.randint(1, 2))
            self.watched[who].update(keys)
            return who, ["WATCH", *keys]
        if draw < 0.55:
            self.ended(who)
            return who, ["UNWATCH"]
        if draw < 0.6:
            return who, rng.choice([["EXEC"], ["DISCARD"]])
        key = rng.choice(KEYS)
        if draw < 0.75 and key not in self.was_free[0] | self.was_free[1]:
            return who, ["EVAL", FREE, 1, key]
        return who, rng.choice([["GET", rng.choice(KEYS)], self.take()])


@pytest.mark.parametrize("seed", [1, 2])
def test_a_transaction_answers_as_it_does_in_redis(world, reference, seed):
    rng = random.Random(seed)
    play = Play(rng)
    # The reference's port is not known here: another connection to its peer.
    port = reference.socket.getpeername()[1]
    mine = [Wire(world.leader.client_port), Wire(world.follower.client_port)]
    real = [Wire(port), Wire(port)]
    kinds, history = set(), []
    for wire in (mine[0], real[0]):
        wire.do("EVAL", FREE, len(KEYS), *KEYS)
    for _ in range(STEPS):
        who, words = play.next()
        if isinstance(words[0], list):
            words = rng.choice(words)
        got, wanted = said(mine[who], words), said(real[who], words)
        history = history[-30:] + ["%d %s -> %s" % (who, words, wanted)]
        assert got == wanted, "\n".join(history)
        if words[0] == "WATCH" and wanted == OK:
            free = {key for key in words[1:] if not reference.do("EXISTS", key)}
            play.was_free[who] |= free
        kinds.add((words[0], str(wanted)[:20]))
    for wire in mine + real:
        wire.close()
    # All kinds of ends were seen.
    assert ("EXEC", str(rounded(NULL_ARRAY))) in kinds
    assert ("EXEC", "EXECABORT Transactio") in kinds
    assert ("EXEC", "ERR EXEC without MUL") in kinds
    assert ("WATCH", "ERR WATCH inside MUL") in kinds
    assert ("MULTI", "ERR MULTI calls can ") in kinds


class StackExchange:
    """LockTake, LockExtend and LockRelease as StackExchange.Redis 2 sends them to
    a server older than 8.4: the condition is asked for with WATCH, and waited for;
    then comes the rest in one piece, or UNWATCH."""

    def __init__(self, port):
        self.wire = Wire(port)

    def close(self):
        self.wire.close()

    def take(self, key, value, px):
        return self.wire.do("SET", key, value, "PX", px, "NX") == OK

    def transaction(self, key, value, *words, between=lambda: None):
        wire = self.wire
        wire.raw(encode(["WATCH", key]) + encode(["GET", key]))
        assert wire.receive() == OK
        if wire.receive() != value.encode():
            assert wire.do("UNWATCH") == OK
            return False
        between()
        wire.raw(encode(["MULTI"]) + encode(words) + encode(["EXEC"]))
        assert wire.receive() == OK
        assert wire.receive() == "QUEUED"
        answer = wire.receive()
        return False if answer is NULL_ARRAY else answer == [1]

    def extend(self, key, value, px, **more):
        return self.transaction(key, value, "PEXPIRE", key, px, **more)

    def release(self, key, value, **more):
        return self.transaction(key, value, "DEL", key, **more)


@pytest.fixture(params=["leader", "follower"])
def dotnet(request, world):
    with closing(StackExchange(getattr(world, request.param).client_port)) as client:
        yield client


def test_stackexchange_redis_takes_extends_and_releases(dotnet, name):
    assert dotnet.take(name, "mine", 15000)
    assert not dotnet.take(name, "other", 15000)
    assert not dotnet.extend(name, "other", 30000)
    assert 10000 < dotnet.wire.do("PTTL", name) <= 15000
    assert dotnet.extend(name, "mine", 30000)
    assert 25000 < dotnet.wire.do("PTTL", name) <= 30000
    assert not dotnet.release(name, "other")
    assert dotnet.wire.do("GET", name) == b"mine"
    assert dotnet.release(name, "mine")
    assert not dotnet.release(name, "mine")
    assert dotnet.wire.do("EXISTS", name) == 0


def test_what_changed_since_watch_is_not_given_back(dotnet, world, name):
    def steal():
        with closing(Wire(world.leader.client_port)) as wire:
            assert wire.do("DELIFEQ", name, "mine") == 1
            assert wire.do("SET", name, value, "NX", "PX", 20000) == OK

    # Another has it; and it is another grant, though the value is the same.
    for value in ("other", "mine"):
        assert dotnet.take(name, "mine", 15000)
        assert not dotnet.release(name, "mine", between=steal)
        assert dotnet.wire.do("GET", name) == value.encode()
        assert dotnet.wire.do("DELIFEQ", name, value) == 1


def test_a_watch_outlives_its_leader(world, name):
    with closing(StackExchange(world.follower.client_port)) as client:
        assert client.take(name, "mine", 20000)

        def move():
            with closing(Wire(world.leader.client_port)) as wire:
                assert wire.do("RAFT.TRANSFER") == OK
            world.find()

        assert client.release(name, "mine", between=move)
        assert client.wire.do("EXISTS", name) == 0


def test_of_many_that_change_a_key_by_watch_one_at_a_time_does(world, name):
    """Each adds one, the value being what it read: none is lost."""
    rounds, done = 10, []

    def work(port):
        with closing(Wire(port)) as wire:
            for _ in range(rounds):
                while True:
                    wire.do("WATCH", name)
                    was = int(wire.do("GET", name))
                    wire.do("MULTI")
                    wire.do("SET", name, was + 1, "XX", "PX", 30000)
                    if wire.do("EXEC") is not NULL_ARRAY:
                        break
            done.append(port)

    with closing(Wire(world.leader.client_port)) as wire:
        wire.do("SET", name, 0, "NX", "PX", 30000)
        ports = [world.leader.client_port, world.follower.client_port] * 2
        threads = [threading.Thread(target=work, args=(port,)) for port in ports]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == len(ports)
        assert wire.do("GET", name) == b"%d" % (rounds * len(ports))


def test_all_of_it_comes_in_one_piece(connect, name):
    wire = connect()
    words = [
        ["WATCH", name],
        ["MULTI"],
        ["SET", name, "v", "NX", "PX", 20000],
        ["GET", name],
        ["EXEC"],
        ["DELIFEQ", name, "v"],
    ]
    wire.raw(b"".join(encode(one) for one in words))
    answers = [wire.receive() for _ in words]
    assert answers == [OK, OK, "QUEUED", "QUEUED", [OK, b"v"], 1]


@pytest.mark.parametrize(
    "words",
    [
        ["LOCK.ACQUIRE", "x"],
        ["SESSION.OPEN"],
        ["EVAL", "return 1", 0],
        ["PING"],
        ["SUBSCRIBE", "x"],
        ["UNWATCH"],
    ],
    ids=lambda words: words[0],
)
def test_what_cannot_stand_in_a_transaction_is_refused_at_once(connect, name, words):
    wire = connect()
    wire.do("MULTI")
    assert wire.do("SET", name, "v", "NX", "PX", 20000) == "QUEUED"
    code, why = wire.error(*words)
    assert code == "ERR"
    assert why.startswith("'%s' is not allowed in a transaction" % words[0].lower())
    assert wire.error("EXEC")[0] == "EXECABORT"
    assert wire.do("EXISTS", name) == 0


@pytest.mark.parametrize(
    "words, why",
    [
        (["SET", "{}", "v"], "a lock needs a time to live"),
        (["DEL", "{}-held"], "a held lock is released only by its holder"),
        (["PEXPIRE", "{}", "x"], "PEXPIRE: a time to live must be from 1 ms to 1 h"),
        (["SET", "{}", "v", "PX"], "SET: syntax error"),
    ],
)
def test_what_one_command_cannot_do_none_does(connect, name, words, why):
    wire = connect()
    wire.do("SET", name + "-held", "other", "NX", "PX", 20000)
    wire.do("MULTI")
    wire.do("SET", name + "-free", "v", "NX", "PX", 20000)
    assert wire.do(*[word.format(name) for word in words]) == "QUEUED"
    code, text = wire.error("EXEC")
    assert code == "EXECABORT" and why in text
    assert wire.do("EXISTS", name, name + "-free") == 0
    assert wire.do("GET", name + "-held") == b"other"
    assert wire.do("DELIFEQ", name + "-held", "other") == 1


def test_a_sessions_lock_is_nobodys_in_a_transaction(connect, name):
    wire, other = connect(), connect()
    other.do("SESSION.OPEN", "TTL", 20000)
    assert other.do("LOCK.ACQUIRE", name, "VALUE", "v") > 0
    wire.do("WATCH", name)
    wire.do("MULTI")
    wire.do("GET", name)
    wire.do("DEL", name)
    code, text = wire.error("EXEC")
    assert code == "EXECABORT" and "DEL: a held lock" in text
    wire.do("WATCH", name)
    assert other.do("LOCK.RELEASE", name) == 0
    wire.do("MULTI")
    wire.do("GET", name)
    assert wire.do("EXEC") is NULL_ARRAY


def test_transactions_have_bounds(connect, name):
    wire = connect()

    def queue(*words):
        try:
            return wire.do(*words)
        except ReplyError as error:
            return str(error)

    for text, words in (
        ("LIMIT keys of a transaction", lambda i: ["GET", "%s-%d" % (name, i)]),
        ("LIMIT size of a transaction", lambda i: ["EXISTS"] + [name] * 50),
        (
            "LIMIT size of a transaction",
            lambda i: ["SET", name, "x" * 4000, "NX", "PX", 20000],
        ),
    ):
        wire.do("MULTI")
        answers = [queue(*words(i)) for i in range(100)]
        first = answers.index(text)
        assert 10 <= first <= 64 and answers[:first] == ["QUEUED"] * first
        assert wire.error("EXEC")[0] == "EXECABORT"
    keys = ["%s-%d" % (name, i) for i in range(64)]
    assert wire.do("WATCH", *keys) == OK
    assert queue("WATCH", name + "-65") == "LIMIT keys of a transaction"
    wire.do("MULTI")
    assert wire.error("EXEC")[1].endswith("WATCH was refused")
    assert wire.do("WATCH", *keys) == OK
    wire.do("MULTI")
    assert wire.do("EXEC") == []


def test_what_is_queued_is_told_and_ends_with_its_connection(connect, name):
    wire, other = connect(), connect()
    mine = b"id=%d " % wire.do("CLIENT", "ID")

    def told():
        lines = other.do("CLIENT", "LIST").splitlines()
        return [line for line in lines if line.startswith(mine)]

    assert b" multi=-1 " in told()[0]
    wire.do("MULTI")
    wire.do("SET", name, "v", "NX", "PX", 20000)
    assert b" multi=1 " in told()[0]
    wire.close()
    eventually(lambda: not told())
    assert other.do("EXISTS", name) == 0


def test_what_is_sent_in_one_piece_is_done_in_its_order(connect, name):
    """Without a transaction, too: a command without an effect is judged again
    when leadership is confirmed, but not before those ahead of it are done, nor
    after those that follow it."""
    wire = connect()
    words = [
        ["SET", name, "v", "NX", "PX", 20000],
        ["PEXPIRE", name, 10000],
        ["DELIFEQ", name, "v"],
        ["DELIFEQ", name, "w"],
        ["SET", name, "w", "NX", "PX", 20000],
        ["GET", name],
        ["DELIFEQ", name, "w"],
    ]
    for _ in range(20):
        wire.raw(b"".join(encode(one) for one in words))
        assert [wire.receive() for _ in words] == [OK, 1, 1, 0, OK, b"w", 1]
