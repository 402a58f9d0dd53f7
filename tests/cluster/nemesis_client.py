# SPDX-License-Identifier: MIT
"""A client process of the nemesis test.

It keeps one session alive by the client's clock rules, takes and gives back a
few hot locks, and writes down what it believed and from when until when, by
CLOCK_MONOTONIC, which all processes of a machine share. It is a second reading
of the rules, beside the client libraries: plain sockets and nothing of theirs.

One JSON object is written per line, each in one write(2), so that a line is
whole or absent whenever the process is killed:

    hold   it believes to hold a lock from 'begin' on ('call': asked since)
    seen   at 't' it still believed
    end    it believed until 'end'
    bad    a promise was broken, in words
    count  how often what happened

A planted mistake (--plant) makes it a wrong client, which the checker must
find out.
"""

import argparse
import json
import os
import random
import signal
import socket
import sys
import threading
import time

from cluster import Client, ReplyError

TRUST = 0.8
CONNECT_S = 0.5
REPLY_S = 1.0
# The only limit that is met here is that of a disk, which passes.
AGAIN = ("NOLEADER", "UNKNOWN", "BUSY", "MOVED", "LIMIT")
ENDED = ("EXPIRED", "NOSESSION", "BLACKLISTED")


class Ended(Exception):
    """The session is no more."""


class Stopping(Exception):
    """The test asked this client to stop."""


class Connection(Client):
    def __init__(self, address):
        self.socket = socket.create_connection(address, CONNECT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(REPLY_S)
        self.file = self.socket.makefile("rb")

    def ask(self, timeout, *words):
        self.socket.settimeout(timeout)
        return self.do(*words)


class Recorder:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.mutex = threading.Lock()
        self.counts = {}

    def write(self, **record):
        os.write(self.fd, json.dumps(record).encode() + b"\n")

    def bad(self, text, *values):
        self.write(k="bad", what=text % values, t=time.monotonic())

    def count(self, what):
        with self.mutex:
            self.counts[what] = self.counts.get(what, 0) + 1


class Lease:
    """Until when is the session trusted? Nothing leaves lost."""

    def __init__(self, ttl, linger, sent, plant):
        self.trust = TRUST * (min(ttl, linger) if linger else ttl)
        self.ttl, self.plant = ttl, plant
        self.mutex = threading.Lock()
        self.is_lost = False
        self.until = 0.0
        self.answered(sent, is_first=True)

    def answered(self, sent, is_first=False):
        now = time.monotonic()
        with self.mutex:
            if not is_first and now >= self.until:
                self.is_lost = True
            if self.plant == "answer":
                self.until = max(self.until, now + self.ttl)
            elif self.plant == "forever":
                self.until = float("inf")
            else:
                self.until = max(self.until, sent + self.trust)

    def end(self):
        """Until when it is trusted as of now: a moment in the past once it is
        lost."""
        with self.mutex:
            if self.until <= time.monotonic():
                self.is_lost = True
            return 0.0 if self.is_lost else self.until

    def refused(self):
        """The cluster says that the session has ended: how much too early?"""
        now = time.monotonic()
        with self.mutex:
            early = 0.0 if self.is_lost else self.until - now
            self.is_lost = True
        return early


class Session:
    def __init__(self, world, rng):
        self.world, self.rng = world, rng
        self.id = None
        self.requests = 0
        self.is_over = threading.Event()
        connection, opened, sent = self.open()
        self.id, self.secret = opened["id"], opened["secret"]
        self.lease = Lease(world.ttl_s, world.linger_s, sent, world.plant)
        self.connection = connection
        self.keeper = threading.Thread(target=self.keep, daemon=True)
        self.keeper.start()

    def open(self):
        words = ["SESSION.OPEN", "TTL", int(self.world.ttl_s * 1000)]
        words += ["NAME", self.world.name]
        if self.world.linger_s:
            words += ["LINGER", int(self.world.linger_s * 1000)]
        while True:
            self.world.check_stop()
            connection = None
            try:
                connection = Connection(self.rng.choice(self.world.endpoints))
                sent = time.monotonic()
                return connection, connection.map(*words), sent
            except (OSError, ReplyError) as error:
                if isinstance(error, ReplyError) and error.code not in AGAIN:
                    self.world.recorder.bad("SESSION.OPEN: %s", error)
                if connection is not None:
                    connection.close()
                time.sleep(self.rng.uniform(0.02, 0.1))

    def attached(self, rng):
        """A connection to any node that acts for this session."""
        connection = Connection(rng.choice(self.world.endpoints))
        try:
            connection.do("SESSION.ATTACH", self.id, self.secret)
        except BaseException:
            connection.close()
            raise
        return connection

    def refused(self, error):
        early = self.lease.refused()
        self.is_over.set()
        if early > 0:
            self.world.recorder.bad(
                "session %d: '%s' with %.3f s of trust left",
                self.id,
                error,
                early,
            )

    def keep(self):
        """Beats so often that the session is never quiet for T/4."""
        rng = random.Random(self.id)
        interval = self.lease.trust / TRUST / 5
        connection = None
        while not self.is_over.is_set():
            try:
                if connection is None:
                    connection = self.attached(rng)
                sent = time.monotonic()
                connection.ask(max(interval, 0.1), "SESSION.KEEP")
                self.lease.answered(sent)
                self.is_over.wait(interval)
                continue
            except ReplyError as error:
                if error.code in ENDED:
                    self.refused(error)
                elif error.code not in AGAIN:
                    self.world.recorder.bad("SESSION.KEEP: %s", error)
            except OSError:
                pass
            if connection is not None:
                connection.close()
                connection = None
            self.is_over.wait(rng.uniform(0.02, 0.1))
        if connection is not None:
            connection.close()

    def reconnect(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def request(self, words, wait_s=0.0):
        """Asks with one REQ until there is an answer. Gives it, with the time
        of the first attempt. Now and then it asks again although there was an
        answer, at another node: the answer must be the same."""
        self.requests += 1
        words = words + ["REQ", self.requests, "ACKED", self.requests - 1]
        first = time.monotonic()
        reply = self.ask_until_answered(words, wait_s)
        if self.rng.random() < 0.2:
            if self.rng.random() < 0.5:
                self.reconnect()
            again = self.ask_until_answered(words, wait_s)
            self.world.recorder.count("repeated")
            if str(again) != str(reply):
                self.world.recorder.bad(
                    "%r gave %r and then %r", words, str(reply), str(again)
                )
        return reply, first

    def ask_until_answered(self, words, wait_s):
        """The answer; an error reply that is a result is given as such."""
        while True:
            if self.lease.end() == 0.0 or self.is_over.is_set():
                raise Ended
            try:
                if self.connection is None:
                    self.connection = self.attached(self.rng)
                return self.connection.ask(REPLY_S + wait_s, *words)
            except ReplyError as error:
                if error.code in ENDED:
                    self.refused(error)
                    raise Ended from None
                if error.code not in AGAIN:
                    return error
                self.world.recorder.count(error.code)
            except OSError:
                self.world.recorder.count("connection lost")
                self.reconnect()
            if self.rng.random() < 0.3:
                self.reconnect()
            time.sleep(self.rng.uniform(0.01, 0.05))

    def close(self):
        self.is_over.set()
        self.keeper.join()
        try:
            if self.lease.end() > 0.0 and self.connection is not None:
                self.connection.ask(REPLY_S, "SESSION.CLOSE")
        except (OSError, ReplyError):
            pass
        self.reconnect()


class Hold:
    """What this process believes of one or several locks, acquired at once."""

    def __init__(self, session, mode, tokens, first, limit_s):
        now = time.monotonic()
        self.session = session
        self.recorder = session.world.recorder
        self.tokens = tokens
        self.limit = first + TRUST * limit_s if limit_s else float("inf")
        self.number = session.world.next_number()
        self.is_begun = self.until() > now
        if self.is_begun:
            for lock, token in tokens.items():
                self.recorder.write(
                    k="hold",
                    n=self.number,
                    lock=lock,
                    mode=mode,
                    token=token,
                    session=session.id,
                    call=first,
                    begin=now,
                )

    def until(self):
        return min(self.session.lease.end(), self.limit)

    def is_believed(self):
        now = time.monotonic()
        if self.until() <= now:
            return False
        self.recorder.write(k="seen", n=self.number, t=now)
        self.last = (now, self.until())
        return True

    def end(self):
        """Belief ends now, or ended when it was last trusted."""
        now = time.monotonic()
        if self.is_begun:
            until = self.until() or getattr(self, "last", (0, 0))[1]
            self.recorder.write(k="end", n=self.number, end=min(now, until))


class Resource:
    """The counter that the locks guard, kept by the test (see Counter)."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def ask(self, **request):
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        return json.loads(self.file.readline())


class World:
    def __init__(self, arguments):
        self.endpoints = [
            (host, int(port))
            for host, port in (e.split(":") for e in arguments.endpoints)
        ]
        self.ttl_s, self.linger_s = arguments.ttl, arguments.linger
        self.name = "nemesis%d" % arguments.index
        self.plant = arguments.plant
        self.recorder = Recorder(arguments.record)
        self.resource = Resource(arguments.resource)
        self.is_stopping = False
        self.number = 0
        signal.signal(signal.SIGTERM, self.on_term)

    def on_term(self, *_):
        self.is_stopping = True

    def check_stop(self):
        if self.is_stopping:
            raise Stopping

    def next_number(self):
        self.number += 1
        return self.number


# The locks, and how each is taken: exclusively, also shared, by two at a time,
# with a limit on each hold.
EXCLUSIVE = ("e0", "e1")
SHARED = "s0"
SLOTS = "n2"
LIMITED = "h0"
LOCKS = EXCLUSIVE + (SHARED, SLOTS, LIMITED)
LIMIT_S = 0.4


def choose(rng):
    """The locks, the mode, its words and the limit of the next hold."""
    kind = rng.random()
    if kind < 0.50:
        return (rng.choice(EXCLUSIVE),), "exclusive", [], 0
    if kind < 0.62:
        return EXCLUSIVE, "exclusive", [], 0
    if kind < 0.70:
        return (SHARED,), "exclusive", [], 0
    if kind < 0.82:
        return (SHARED,), "shared", ["SHARED"], 0
    if kind < 0.91:
        return (SLOTS,), "slots", ["SLOTS", 2], 0
    limit = ["HOLD", int(LIMIT_S * 1000)]
    return (LIMITED,), "exclusive", limit, LIMIT_S


def add_one(world, hold, lock, pause_s):
    """Read, wait, write: loses updates if two do it at once. Both steps show
    the token, so that the counter knows whoever comes too late."""
    token = hold.tokens[lock]
    read = world.resource.ask(op="read", lock=lock, token=token)
    by = time.monotonic() + pause_s
    while time.monotonic() < by and hold.is_believed():
        time.sleep(0.004)
    if read["ok"] and hold.is_believed():
        value = read["value"] + 1
        wrote = world.resource.ask(
            op="write", lock=lock, token=token, value=value
        )
        world.recorder.count("written" if wrote["ok"] else "fenced")


def check_token(world, session, hold, lock):
    """Is the token the holder's? While it is believed to be, it must be."""
    try:
        is_holder = session.connection.ask(
            REPLY_S, "LOCK.CHECK", lock, hold.tokens[lock]
        )
    except (OSError, ReplyError):
        session.reconnect()
        return
    if is_holder != 1 and hold.is_believed():
        world.recorder.bad(
            "LOCK.CHECK %s %d is %r while it is held",
            lock,
            hold.tokens[lock],
            is_holder,
        )


def take_and_give_back(world, session, rng):
    locks, mode, options, limit_s = choose(rng)
    many = len(locks) > 1
    verb = ["LOCK.MACQUIRE", len(locks)] if many else ["LOCK.ACQUIRE"]
    wait_s = rng.choice((0, 0.2, 1.0, 3.0))
    words = verb + list(locks) + options
    if wait_s:
        words += ["WAIT", int(wait_s * 1000)]
    reply, first = session.request(words, wait_s)
    if reply is None:
        world.recorder.count("not acquired")
        return
    if isinstance(reply, ReplyError):
        world.recorder.bad("%r: %s", words, reply)
        return
    tokens = dict(zip(locks, reply if many else [reply]))
    hold = Hold(session, mode, tokens, first, limit_s)
    world.recorder.count("acquired")
    if mode == "exclusive" and rng.random() < 0.8:
        pause_s = rng.choice((0.0, 0.0, 0.005, 0.02, 0.1, 0.5))
        add_one(world, hold, locks[0], pause_s)
    if session.connection is not None and rng.random() < 0.2:
        check_token(world, session, hold, locks[0])
    give_back(session, hold, locks, tokens)


def give_back(session, hold, locks, tokens):
    many = len(locks) > 1
    was_limited = hold.limit != float("inf")
    if session.world.plant != "late":
        hold.end()
    if many:
        words = ["LOCK.MRELEASE", len(locks)] + list(locks)
    else:
        words = ["LOCK.RELEASE", locks[0], "TOKEN", tokens[locks[0]]]
    reply, _ = session.request(words)
    if session.world.plant == "late":
        hold.end()
    is_right = reply == (len(locks) if many else 0)
    if not is_right and not was_limited and session.lease.end() > 0.0:
        session.world.recorder.bad("%r: %s", words, reply)


def work(world, rng):
    """One session's life."""
    session = Session(world, rng)
    world.recorder.count("sessions")
    try:
        while True:
            world.check_stop()
            take_and_give_back(world, session, rng)
            time.sleep(rng.choice((0, 0, 0.01, 0.05)))
    except Ended:
        world.recorder.count("lost")
        session.is_over.set()
        session.reconnect()
    except Stopping:
        session.close()
        raise


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--endpoints", nargs="+", required=True)
    parser.add_argument("--record", required=True)
    parser.add_argument("--resource", required=True)
    parser.add_argument("--index", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--ttl", type=float, default=2.0)
    parser.add_argument("--linger", type=float, default=0.0)
    parser.add_argument(
        "--plant", choices=("", "answer", "forever", "late"), default=""
    )
    arguments = parser.parse_args()
    world = World(arguments)
    rng = random.Random(arguments.seed * 1000 + arguments.index)
    try:
        while True:
            work(world, rng)
    except Stopping:
        world.recorder.write(k="count", counts=world.recorder.counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
