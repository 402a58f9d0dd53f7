# SPDX-License-Identifier: MIT
"""Redisson's RLock by its requests, old and new: a hash with the owner's
counter, a message on release, a note that a release was answered. Its scripts
are rewritten here; their answers are compared with those of a real Redis, their
waiters woken. The library itself is not run: Debian does not have it."""

import random
import threading
import time
from contextlib import closing

import pytest

from test_redis_scripts import reference, rounded
from test_users import Tool
from wire import Wire, connect, eventually, name, opened, plain, world

STEPS = 400

TAKE = """
local free = redis.call('exists', KEYS[1]) == 0
if free or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[2], 1);
    redis.call('pexpire', KEYS[1], ARGV[1]);
    return nil;
end;
return redis.call('pttl', KEYS[1]);
"""
TAKE_OLD = """
if (redis.call('exists', KEYS[1]) == 0) then
    redis.call('hset', KEYS[1], ARGV[2], 1);
    redis.call('pexpire', KEYS[1], ARGV[1]);
    return nil;
end;
if (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
    redis.call('hincrby', KEYS[1], ARGV[2], 1);
    redis.call('pexpire', KEYS[1], ARGV[1]);
    return nil;
end;
return redis.call('pttl', KEYS[1]);
"""
# KEYS: lock, channel, note; ARGV: message, lease, owner, how to publish, time of the
# note.
GIVE_BACK = """
local known = redis.call('get', KEYS[3]);
if known ~= false then
    return tonumber(known);
end;
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then
    return nil;
end;
local left = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (left > 0) then
    redis.call('pexpire', KEYS[1], ARGV[2]);
    redis.call('set', KEYS[3], 0, 'px', ARGV[5]);
    return 0;
end;
redis.call('del', KEYS[1]);
redis.call(ARGV[4], KEYS[2], ARGV[1]);
redis.call('set', KEYS[3], 1, 'px', ARGV[5]);
return 1;
"""
GIVE_BACK_OLD = """
if (redis.call('exists', KEYS[1]) == 0) then
    redis.call('publish', KEYS[2], ARGV[1]);
    return 1;
end;
if (redis.call('hexists', KEYS[1], ARGV[3]) == 0) then
    return nil;
end;
local left = redis.call('hincrby', KEYS[1], ARGV[3], -1);
if (left > 0) then
    redis.call('pexpire', KEYS[1], ARGV[2]);
    return 0;
else
    redis.call('del', KEYS[1]);
    redis.call('publish', KEYS[2], ARGV[1]);
    return 1;
end;
return nil;
"""
RENEW = """
local kept = {}
for i = 1, #KEYS, 1 do
    if (redis.call('hexists', KEYS[i], ARGV[i + 1]) == 1) then
        redis.call('pexpire', KEYS[i], ARGV[1]);
        table.insert(kept, 1);
    else
        table.insert(kept, 0);
    end;
end;
return kept;
"""
FORCE = """
if (redis.call('del', KEYS[1]) == 1) then
    redis.call(ARGV[2], KEYS[2], ARGV[1]);
    return 1
else
    return 0
end
"""


class RLock:
    """One owner's view of a lock; as a thread of a program has it."""

    notes = 0

    def __init__(self, port, key, owner, lease=30000, old=False):
        self.wire, self.key, self.owner = Wire(port), key, owner
        self.lease, self.old = lease, old
        self.channel = "redisson_lock__channel:{%s}" % key

    def close(self):
        self.wire.close()

    def eval(self, text, keys, *arguments):
        answer = self.wire.do("EVAL", text, len(keys), *keys, *arguments)
        return answer if isinstance(answer, (int, list)) else None

    def take(self):
        """None: it is ours; otherwise for how many ms it is another's."""
        text = TAKE_OLD if self.old else TAKE
        return self.eval(text, [self.key], self.lease, self.owner)

    def give_back(self, note=None):
        """1: it is free, 0: we hold it still, None: we do not hold it."""
        keys = [self.key, self.channel]
        if self.old:
            return self.eval(GIVE_BACK_OLD, keys, 0, self.lease, self.owner)
        if note is None:
            RLock.notes += 1
            note = "redisson_unlock_latch:{%s}:%d" % (self.key, RLock.notes)
        keys.append(note)
        words = [0, self.lease, self.owner, "publish", 20000]
        answer = self.eval(GIVE_BACK, keys, *words)
        if answer is not None:
            self.wire.do("DEL", note)
        return answer

    def renew(self):
        return self.eval(RENEW, [self.key], self.lease, self.owner)

    def force(self):
        return self.eval(FORCE, [self.key, self.channel], 0, "publish")

    def count(self):
        return self.wire.do("HGET", self.key, self.owner)

    def is_held(self):
        return self.wire.do("HEXISTS", self.key, self.owner)

    def look(self):
        return [
            self.wire.do("EXISTS", self.key),
            self.wire.do("PTTL", self.key),
            self.count(),
            self.is_held(),
        ]

    def lock(self, wait=60):
        """Subscribes, tries, and waits for the message of a release, as the library
        does; at most until the other's time is over, and at most 'wait' seconds."""
        by = time.monotonic() + wait
        if self.take() is None:
            return True
        with closing(Wire(self.wire.socket.getpeername()[1])) as events:
            events.send("SUBSCRIBE", self.channel)
            assert events.receive()[0] == b"subscribe"
            while time.monotonic() < by:
                left = self.take()
                if left is None:
                    return True
                seconds = by - time.monotonic()
                seconds = min(seconds, left / 1000) if left >= 0 else seconds
                events.socket.settimeout(max(seconds, 0.01))
                try:
                    assert events.receive() == [b"message", self.channel.encode(), b"0"]
                except TimeoutError:
                    # The reader's buffer is of no use after that.
                    events.file = events.socket.makefile("rb")
        return False


@pytest.fixture
def rlock(world):
    """Makes locks of a cluster, at the leader by default."""
    made = []

    def make(key, owner, where="leader", **more):
        made.append(RLock(getattr(world, where).client_port, key, owner, **more))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
def test_an_rlock_answers_as_it_does_with_redis(world, reference, name, old):
    rng = random.Random(7)
    port = reference.socket.getpeername()[1]
    keys = [name + "-a", name + "-b"]
    pairs = []
    for where in (world.leader, world.follower):
        for key in keys:
            owner = "%08x-uuid:%d" % (rng.getrandbits(32), len(pairs))
            pairs.append(
                [RLock(p, key, owner, old=old) for p in (where.client_port, port)]
            )
    seen = set()
    for _ in range(STEPS):
        mine, real = rng.choice(pairs)
        mine.lease = real.lease = rng.choice([15000, 25000, 35000])
        what = rng.choice(["take", "take", "give_back", "give_back", "renew"])
        what = "force" if rng.random() < 0.05 else what
        got, wanted = getattr(mine, what)(), getattr(real, what)()
        assert rounded(got) == rounded(wanted), what
        assert rounded(mine.look()) == rounded(real.look()), what
        seen.add((what, str(rounded(wanted))[:6]))
    for pair in pairs:
        for one in pair:
            one.force()
            one.close()
    assert {("give_back", "0"), ("give_back", "1"), ("give_back", "None")} <= seen
    assert {("renew", "['1']"), ("renew", "['0']"), ("force", "1")} <= seen
    assert not [one for one in seen if "error" in one[1]]


def test_re_entry_keeps_the_token_and_the_next_holder_gets_another(rlock, name):
    one, two = rlock(name, "a:1"), rlock(name, "b:1", "follower")

    def shown():
        [hold] = one.wire.map("LOCK.SHOW", name)["holders"]
        hold = plain(hold)
        return hold["token"], hold["value"]

    assert one.take() is None
    token, value = shown()
    assert value == b"\x01hash\na:1=1"
    assert one.take() is None
    assert shown() == (token, b"\x01hash\na:1=2")
    assert one.give_back() == 0 and shown()[0] == token
    assert one.renew() == [1] and shown()[0] == token
    assert two.give_back() is None
    assert one.give_back() == 1
    assert two.take() is None and shown()[0] > token
    assert two.give_back() == 1


@pytest.mark.parametrize("old", [False, True], ids=["new", "old"])
def test_who_waits_is_woken_when_it_is_given_back(world, rlock, name, old):
    """Long before the holder's time is over, whatever node it asked."""
    holder = rlock(name, "a:1", old=old)
    assert holder.take() is None and holder.take() is None
    sides = ["leader", "follower"] * 2
    waiters = [rlock(name, "w:%d" % i, w, old=old) for i, w in enumerate(sides)]
    order = []

    def work(waiter):
        assert waiter.lock()
        order.append(waiter.owner)
        assert waiter.give_back() == 1

    threads = [threading.Thread(target=work, args=(one,)) for one in waiters]
    begun = time.monotonic()
    for thread in threads:
        thread.start()
    eventually(lambda: subscribers(world) == len(waiters))
    assert holder.give_back() == 0
    assert not order
    assert holder.give_back() == 1
    for thread in threads:
        thread.join(60)
    assert len(order) == len(waiters)
    assert time.monotonic() - begun < 25  # The lease has 30 s.


def subscribers(world):
    found = 0
    for node in (world.leader, world.follower):
        with closing(Wire(node.client_port)) as wire:
            lines = wire.do("CLIENT", "LIST").splitlines()
        found += sum(b" sub=1 " in line for line in lines)
    return found


def test_a_release_is_told_once_to_each_and_to_globs(rlock, connect, name):
    lock = rlock(name, "a:1")
    exact, glob = connect(), connect(version=3)
    exact.do("SUBSCRIBE", lock.channel)
    glob.send("PSUBSCRIBE", "redisson_lock__channel:*")
    assert glob.push()[0] == b"psubscribe"
    lock.take()
    lock.give_back()
    assert exact.receive() == [b"message", lock.channel.encode(), b"0"]
    pushed = glob.push()
    assert pushed == [
        b"pmessage",
        b"redisson_lock__channel:*",
        lock.channel.encode(),
        b"0",
    ]
    assert lock.give_back() is None
    lock.take()
    assert lock.force() == 1
    assert exact.receive()[2] == b"0"
    assert exact.is_silent()


def test_hasps_own_channels_tell_of_its_events_alone(rlock, connect, name):
    lock, other = rlock(name, "a:1"), connect()
    other.do("SUBSCRIBE", "lock:" + name)
    lock.channel = "lock:" + name
    lock.take()
    assert b'"kind":"granted"' in other.receive()[2]
    lock.give_back()
    assert b'"kind":"released"' in other.receive()[2]
    assert other.is_silent()


def test_an_answer_that_was_lost_is_told_again(rlock, name):
    lock = rlock(name, "a:1")
    note = "redisson_unlock_latch:{%s}:x" % name
    keys = [name, lock.channel, note]
    lock.take()
    words = [0, 30000, "a:1", "publish", 20000]
    assert [lock.eval(GIVE_BACK, keys, *words) for _ in range(3)] == [1, 1, 1]
    assert lock.wire.do("DEL", note) == 1
    assert lock.eval(GIVE_BACK, keys, *words) is None


def test_a_hash_is_no_string_and_the_reverse(connect, name):
    wire = connect()
    wire.do("SET", name, "v", "NX", "PX", 20000)
    said = ("WRONGTYPE", "Operation against a key holding the wrong kind of value")
    for words in (["HGET", name, "f"], ["HEXISTS", name, "f"]):
        assert wire.error(*words) == said
    lock = [TAKE, 1, name + "-h", 20000, "a:1"]
    wire.do("EVAL", *lock)
    assert wire.error("GET", name + "-h") == said
    text = "return redis.call('type', KEYS[1])"
    assert wire.do("EVAL", text, 1, name + "-h") == "hash"
    # Nobody can write what looks like one, nor delete one by mistake.
    value = "\x01hash\na:1=1"
    assert wire.error("SET", name + "-x", value, "NX", "PX", 20000)[0] == "BADARG"
    assert wire.error("DEL", name + "-h")[0] == "BADARG"
    assert wire.do("EVAL", FORCE, 2, name + "-h", "c", 0, "publish") == 1
    assert wire.do("DELIFEQ", name, "v") == 1


def test_a_session_that_holds_it_is_waited_for(rlock, connect, name):
    session = connect()
    session.do("SESSION.OPEN", "TTL", 4000)
    assert session.do("LOCK.ACQUIRE", name) > 0
    lock = rlock(name, "a:1")
    assert 0 <= lock.take() <= 4000
    assert session.do("LOCK.RELEASE", name) == 0
    assert lock.take() is None
    assert lock.give_back() == 1


def test_a_message_is_for_its_user_and_who_may_read_everything(world, name, tmp_path):
    tool = Tool(world.cluster)
    secrets = {}
    # Redisson names both as keys of its script.
    beside = ["lock:redisson_unlock_latch:{some/*"]
    beside += ["read:redisson_lock__channel:{some/*"]
    users = (("all", "lock,read:*"), ("some", "lock,read:some/*", *beside))
    for user, *grants in users:
        path = str(tmp_path / user)
        tool.admin("role", "set", user, *grants)
        tool.admin("user", "add", user, "--role", user)
        tool.admin("secret", "add", user, "--file", path)
        with open(path) as file:
            secrets[user] = file.read().strip()

    def subscribed(user):
        wire = Wire(world.follower.client_port)
        assert user is None or wire.do("AUTH", secrets[user]) == "OK"
        wire.do("PSUBSCRIBE", "redisson*")
        return wire

    # While access is open, anyone may read everything.
    every, some, anyone = subscribed("all"), subscribed("some"), subscribed(None)
    for user, heard in (("some", (every, some, anyone)), ("all", (every, anyone))):
        with closing(RLock(world.leader.client_port, "some/" + name, "a:1")) as lock:
            assert lock.wire.do("AUTH", secrets[user]) == "OK"
            assert lock.take() is None and lock.give_back() == 1
            for wire in heard:
                assert wire.receive()[2] == lock.channel.encode()
    assert some.is_silent()
    for wire in (every, some, anyone):
        wire.close()
