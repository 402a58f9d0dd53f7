# SPDX-License-Identifier: MIT
"""How a client of the nemesis test keeps a session and sends requests, and its
records of that.

It is a second reading of the rules, beside the client libraries: plain sockets
and none of their code.

One JSON object is written per line, each in one write(2), so that a line is
whole or absent whenever the process is killed. Requests and answers are in
nemesis_history.py. In addition, by CLOCK_MONOTONIC, which all processes of a
machine share:

    hold   it believes to hold a lock from 'begin' on ('call': asked since)
    seen   at 't' it still believed
    end    it believed until 'end'
    bad    a promise was broken, in words; 'early' if it is that session 's' has
           ended too early, which after a restore is none
    count  how often what happened

A client's own clock has a rate: a second of it is 1 / rate true ones. The
client trusts by that clock, and writes true time.
"""

import contextlib
import json
import os
import random
import threading
import time

from cluster import ReplyError
from nemesis_wire import REPLY_S

TRUST = 0.8
FOREVER = float("inf")
# Time limit of the attempts to close a durable session.
CLOSE_S = 12.0
# The part of a lease that a client with a clock within its bounds may trust:
# 0.8 / 0.9.
PROMISED = 0.88
# These say that nothing was done. The only limit that is met here is that of a
# disk, which passes.
REFUSED = ("NOLEADER", "BUSY", "MOVED", "LIMIT")
ENDED = ("EXPIRED", "NOSESSION")
# A request of a blacklisted session is refused, and its lease is not renewed:
# its holds stay until the lease is over.
LISTED = "BLACKLISTED"
# A right is taken away from a user now and then.
WITHDRAWN = "NOPERM"
RESULTS = ("DEADLOCK", "NOTHELD", LISTED, WITHDRAWN)


class Ended(Exception):
    """The session has ended."""


class Stopping(Exception):
    """The test asked this client to stop."""


class Recorder:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.mutex = threading.Lock()
        self.counts, self.number = {}, 0

    def write(self, **record):
        os.write(self.fd, json.dumps(record).encode() + b"\n")

    def bad(self, text, *values):
        self.write(k="bad", what=text % values, t=time.monotonic())

    def count(self, what):
        with self.mutex:
            self.counts[what] = self.counts.get(what, 0) + 1

    def asks(self, kind, session=0, at=None, **args):
        """Notes that something is asked now; gives its number."""
        with self.mutex:
            self.number += 1
            number = self.number
        at = time.monotonic() if at is None else at
        self.write(k="op", op=kind, n=number, t=at, s=session, **args)
        return number

    def told(self, number, reply, kind="done"):
        now = time.monotonic()
        if isinstance(reply, Refusal):
            self.write(k=kind, n=number, t=now, no=reply.code)
        elif isinstance(reply, ReplyError):
            self.write(k=kind, n=number, t=now, e=reply.code)
        else:
            self.write(k=kind, n=number, t=now, v=reply)


class Refusal:
    """A request was given up: nothing was done, says the cluster."""

    def __init__(self, code):
        self.code = code


class Lease:
    """Until when is the session trusted? Nothing leaves lost. No time ends a
    durable one."""

    def __init__(self, world, sent):
        ttl, linger = world.ttl_s, world.linger_s
        if world.is_durable:
            ttl, linger = FOREVER, 0.0
        self.full = min(ttl, linger) if linger else ttl
        self.trust = TRUST * self.full / world.rate
        self.ttl, self.plant = ttl, world.plant
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
        self.requests, self.former = 0, None
        self.left_token = None  # Token of a hold left to its limit.
        self.is_over = threading.Event()
        connection, opened, sent = self.open()
        self.id, self.secret = opened["id"], opened["secret"]
        self.lease = Lease(world, sent)
        self.note_kept(sent)
        self.connection = connection
        self.keeper = None
        if world.is_durable:
            world.keepsake.write(self.id, self.secret)
        else:
            self.keeper = threading.Thread(target=self.keep, daemon=True)
            self.keeper.start()

    def open(self):
        ttl = "NONE" if self.world.is_durable else int(self.world.ttl_s * 1000)
        words = ["SESSION.OPEN", "TTL", ttl, "NAME", self.world.name]
        if self.world.linger_s:
            words += ["LINGER", int(self.world.linger_s * 1000)]
        recorder = self.world.recorder
        while True:
            self.world.check_stop()
            connection = None
            try:
                connection = self.world.connect(self.rng)
                sent = time.monotonic()
                about = {"name": self.world.name, "by": self.world.kind}
                number = recorder.asks("open", **about)
                opened = connection.map(*words)
                recorder.told(number, opened["id"])
                return connection, opened, sent
            except (OSError, ReplyError) as error:
                if isinstance(error, ReplyError) and not may_ask_again(error):
                    self.note_listed(error, "SESSION.OPEN")
                if connection is not None:
                    connection.close()
                time.sleep(self.rng.uniform(0.02, 0.1))

    def note_listed(self, error, asked):
        """Records a refusal that only a blacklisted client may get."""
        if error.code == LISTED:
            name, now = self.world.name, time.monotonic()
            self.world.recorder.write(k="barred", name=name, t=now)
            self.world.recorder.count("refused as blacklisted")
        else:
            self.world.recorder.bad("%s: %s", asked, error)

    def note_withdrawn(self, asked):
        now, recorder = time.monotonic(), self.world.recorder
        recorder.write(k="denied", name=self.world.name, asked=asked, t=now)
        recorder.count("denied")

    def note_kept(self, sent):
        until = sent + PROMISED * self.lease.full
        self.world.recorder.write(k="kept", s=self.id, until=until)

    def attached(self, rng):
        """A connection to any node that acts for this session."""
        connection = self.world.connect(rng)
        try:
            connection.do("SESSION.ATTACH", self.id, self.secret)
        except BaseException:
            connection.close()
            raise
        return connection

    def refused(self, error):
        early = self.lease.refused()
        self.is_over.set()
        now = time.monotonic()
        self.world.recorder.write(k="gone", s=self.id, t=now)
        if early > 0:
            what = "session %d: '%s' with %.3f s of trust left" % (
                self.id,
                error,
                early,
            )
            self.world.recorder.write(
                k="bad", what=what, t=now, early=True, s=self.id
            )

    def keep(self):
        """Beats so often that the session is never quiet for T/4."""
        rng = random.Random(self.id)
        interval = self.lease.full / 5
        connection = None
        while not self.is_over.is_set():
            try:
                if connection is None:
                    connection = self.attached(rng)
                sent = time.monotonic()
                connection.ask(max(interval, 0.1), "SESSION.KEEP")
                self.lease.answered(sent)
                self.note_kept(sent)
                self.is_over.wait(interval)
                continue
            except ReplyError as error:
                if error.code in ENDED:
                    self.refused(error)
                elif not may_ask_again(error):
                    self.note_listed(error, "SESSION.KEEP")
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

    def request(self, kind, words, wait_s=0.0, **args):
        """Asks with one REQ until there is an answer, or gives up what was
        refused. Gives the answer, with the time of the first attempt. Now and
        then it asks again although there was an answer, at another node."""
        recorder = self.world.recorder
        self.requests += 1
        if wait_s and self.world.is_pushed and kind != "convert":
            words = words + ["PUSH"]
        words = words + ["REQ", self.requests, "ACKED", self.requests - 1]
        first = time.monotonic()
        if wait_s:
            args["wait"] = wait_s
        number = recorder.asks(kind, self.id, first, **args)
        reply = self.ask_until_answered(words, wait_s, first)
        recorder.told(number, reply)
        if isinstance(reply, Refusal):
            recorder.count("given up")
        elif not is_listed(reply) and self.rng.random() < 0.2:
            if self.rng.random() < 0.5:
                self.reconnect()
            again = self.ask_until_answered(
                words, wait_s, first, may_give_up=False
            )
            recorder.count("repeated")
            recorder.told(number, again, "again")
        if self.former is not None and self.rng.random() < 0.1:
            self.ask_former(*self.former)
        self.former = (words, reply)
        return reply, first

    def ask_former(self, words, told):
        """The request before has been acknowledged meanwhile: it is forgotten
        or, if the acknowledgement has not arrived, answered as before; never
        done."""
        if self.connection is None or isinstance(told, Refusal):
            return
        try:
            reply = self.connection.ask(REPLY_S, *words)
        except ReplyError as error:
            reply = error
        except OSError:
            self.reconnect()
            return
        code = getattr(reply, "code", None)
        is_silent = code in REFUSED + ENDED + ("FORGOTTEN", "UNKNOWN", LISTED)
        self.world.recorder.count("former numbers")
        if not is_silent and (
            code != getattr(told, "code", None) or (code is None and reply != told)
        ):
            what = "%r, of an acknowledged number, gets %r, and got %r"
            self.world.recorder.bad(what, words, reply, told)

    def ask_until_answered(self, words, wait_s, first, may_give_up=True):
        """The answer; an error reply that is a result is given as such. It was
        first asked at 'first': the decision of that time is repeated later."""
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
                if error.code == LISTED:
                    self.note_listed(error, words[0])
                elif error.code == WITHDRAWN:
                    self.note_withdrawn(first)
                if not may_ask_again(error) and (
                    error.code != LISTED or self.is_first(may_give_up)
                ):
                    return error
                self.world.recorder.count(error.code)
                if error.code == "UNKNOWN":
                    may_give_up = False
                elif may_give_up and self.rng.random() < 0.3:
                    return Refusal(error.code)
            except OSError:
                self.world.recorder.count("connection lost")
                may_give_up = may_give_up and self.connection is None
                self.reconnect()
            if self.rng.random() < 0.3:
                self.reconnect()
            time.sleep(self.rng.uniform(0.01, 0.05))

    def is_first(self, may_give_up):
        """Was it asked once, and answered: not refused at SESSION.ATTACH?"""
        return may_give_up and self.connection is not None

    def close(self):
        self.is_over.set()
        if self.keeper is None:
            self.world.keepsake.close(self.world, self.rng)
        else:
            self.keeper.join()
            self.try_close()
        self.reconnect()

    def try_close(self):
        try:
            if self.lease.end() > 0.0 and self.connection is not None:
                number = self.world.recorder.asks("close", self.id)
                count = self.connection.ask(REPLY_S, "SESSION.CLOSE")
                self.world.recorder.told(number, count)
        except (OSError, ReplyError):
            pass


class Keepsake:
    """Where a process leaves the durable session that outlives it."""

    def __init__(self, path):
        self.path = path

    def write(self, session, secret, is_tried=False):
        """'is_tried': closing it has been tried."""
        with open(self.path + ".new", "w") as file:
            json.dump([session, secret, is_tried], file)
        os.replace(self.path + ".new", self.path)

    def close(self, world, rng):
        """Closes the session that was left here, if there is one: only a
        restore can have ended it. Its locks are free then."""
        if not os.path.exists(self.path):
            return
        with open(self.path) as file:
            session, secret, is_tried = json.load(file)
        self.write(session, secret, is_tried=True)
        by = time.monotonic() + CLOSE_S
        while time.monotonic() < by:
            number = world.recorder.asks("close", session)
            try:
                with contextlib.closing(world.connect(rng)) as connection:
                    connection.do("SESSION.ATTACH", session, secret)
                    count = connection.ask(REPLY_S, "SESSION.CLOSE")
                world.recorder.told(number, count)
                break
            except ReplyError as error:
                if error.code in ENDED:
                    world.recorder.told(number, error)
                    if not is_tried:
                        note_ended(world, session, error)
                    break
                is_tried |= error.code == "UNKNOWN"
            except OSError:
                is_tried = True
            time.sleep(rng.uniform(0.02, 0.1))
        os.remove(self.path)


def note_ended(world, session, error):
    now, what = time.monotonic(), "durable session %d: %s" % (session, error)
    world.recorder.write(k="bad", what=what, t=now, early=True, s=session)


def may_ask_again(error):
    return error.code in REFUSED or error.code == "UNKNOWN"


def is_listed(reply):
    return isinstance(reply, ReplyError) and reply.code == LISTED


class Hold:
    """The belief of this process in one or several locks, acquired at once."""

    def __init__(self, session, mode, tokens, first, limit_s=0):
        self.session = session
        self.recorder = session.world.recorder
        self.tokens, self.first = tokens, first
        trusted = TRUST * limit_s / session.world.rate
        self.limit = first + trusted if limit_s else float("inf")
        self.is_begun = False
        self.begin(mode)

    def begin(self, mode):
        now = time.monotonic()
        self.mode = mode
        self.number = self.session.world.next_number()
        self.last = (0, 0)
        self.is_begun = self.until() > now
        if self.is_begun:
            for lock, token in self.tokens.items():
                self.recorder.write(
                    k="hold",
                    n=self.number,
                    lock=lock,
                    mode=mode,
                    token=token,
                    session=self.session.id,
                    call=self.first,
                    begin=now,
                )

    def until(self):
        return min(self.session.lease.end(), self.limit)

    def is_believed(self):
        now = time.monotonic()
        if self.until() <= now:
            return False
        if self.is_begun:
            self.recorder.write(k="seen", n=self.number, t=now)
        self.last = (now, self.until())
        return True

    def end(self):
        """Belief ends now, or ended when it was last trusted."""
        now = time.monotonic()
        if self.is_begun:
            until = self.until() or self.last[1]
            self.recorder.write(k="end", n=self.number, end=min(now, until))
        self.is_begun = False
