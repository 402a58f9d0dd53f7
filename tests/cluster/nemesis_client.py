# SPDX-License-Identifier: MIT
"""A client process of the nemesis test, or an observer, which only reads.

A client keeps one session alive by the client's clock rules, acquires a few hot
locks in every possible way, releases them, and records its requests, their
answers and its beliefs (nemesis_session.py). An observer has no session: it
reads locks, fences and sessions, at any node.

The kind of a client (--kind) decides how it speaks: 'plain' RESP, waits that
end with a 'push', a 'durable' session that outlives the process, 'http', or a
'user' with a certificate, over TLS, which loses a right now and then.

A planted mistake (--plant) makes it a wrong client, which the checker must
find out.
"""

import argparse
import json
import random
import signal
import socket
import ssl
import sys
import threading
import time

from cluster import ReplyError, as_map, text
from nemesis_session import (
    RESULTS,
    WITHDRAWN,
    Ended,
    Hold,
    Keepsake,
    Recorder,
    Refusal,
    Session,
    Stopping,
    may_ask_again,
)
from nemesis_watch import watch_all
from nemesis_wire import REPLY_S, Certified, Connection, Http, Pushed


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
        self.plant, self.rate = arguments.plant, arguments.rate
        self.kind = arguments.kind
        self.is_durable = self.kind == "durable"
        self.is_pushed = self.kind == "push"
        self.keepsake = Keepsake(arguments.keepsake)
        self.tls = None
        if self.kind == "user":
            self.tls = as_user(arguments.certificates)
        self.recorder = Recorder(arguments.record)
        self.resource = Resource(arguments.resource)
        self.is_stopping = False
        self.number, self.tokens = 0, {}
        signal.signal(signal.SIGTERM, self.on_term)

    def on_term(self, *_):
        self.is_stopping = True

    def check_stop(self):
        if self.is_stopping:
            raise Stopping

    def connect(self, rng):
        makes = {"http": Http, "push": Pushed, "user": Certified}
        make = makes.get(self.kind, Connection)
        return make(rng.choice(self.endpoints), tls=self.tls)

    def next_number(self):
        self.number += 1
        return self.number


def as_user(folder):
    """Shows the user's certificate; nodes are known by their CA."""
    context = ssl.create_default_context(cafile=folder + "/ca.crt")
    context.check_hostname = False
    context.load_cert_chain(
        "%s/user-%s/client.crt" % (folder, USER),
        "%s/user-%s/client.key" % (folder, USER),
    )
    return context


# The locks, and how each is taken: exclusively, also shared, by two at a time,
# with a limit on each hold.
EXCLUSIVE = ("e0", "e1")
SHARED = "s0"
SLOTS = "n2"
SLOT_COUNT = 2
LIMITED = "h0"
LOCKS = EXCLUSIVE + (SHARED, SLOTS, LIMITED)
LIMIT_S = 0.4
# When a leader whose clock is a tenth too fast takes it away, at the earliest.
LIMIT_KEPT_S = LIMIT_S / 1.1
# The time that a lock stays closed after a hold that was not released, with a
# leader's clock that is a tenth too fast.
DELAY_S = 0.4
DELAY_KEPT_S = DELAY_S / 1.1
USER = "nemesis"
KINDS = ("plain", "push", "durable", "http", "user")
FENCES = EXCLUSIVE
# The time that an observer waits for a node that is frozen or cut off: its
# answer must be true when it is back.
PATIENCE_S = 3.0
CLIENT_PLANTS = ("", "answer", "forever", "late")


def choose(rng):
    """The locks, the mode, its words and the limit of the next hold."""
    kind = rng.random()
    if kind < 0.46:
        return (rng.choice(EXCLUSIVE),), "exclusive", [], 0
    if kind < 0.56:
        return EXCLUSIVE, "exclusive", [], 0
    if kind < 0.66:
        return (SHARED,), "exclusive", [], 0
    if kind < 0.80:
        return (SHARED,), "shared", ["SHARED"], 0
    if kind < 0.90:
        return (SLOTS,), "slots", ["SLOTS", SLOT_COUNT], 0
    if kind < 0.92:
        return (SLOTS,), "shared", ["SHARED"], 0
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


def stay(hold, pause_s):
    """With others beside it, and some who wait."""
    by = time.monotonic() + pause_s
    while time.monotonic() < by and hold.is_believed():
        time.sleep(0.01)


# --- What is asked without a number ------------------------------------------


def look(world, ask, kind, words, read=int, **args):
    """Asks once, and records the answer; returns it, or None."""
    number = world.recorder.asks(kind, **args)
    try:
        value = read(ask(*words))
    except ReplyError as error:
        if error.code == "BADARG":
            world.recorder.bad("%r: %s", words, error)
        elif may_ask_again(error) and error.code != "UNKNOWN":
            world.recorder.told(number, Refusal(error.code))
        return None
    world.recorder.told(number, value)
    return value


def look_from(world, session, *what, **args):
    """The same on the session's connection."""
    if session.connection is None:
        return None
    try:
        ask = lambda *words: session.connection.ask(REPLY_S, *words)
        return look(world, ask, *what, **args)
    except OSError:
        session.reconnect()
        return None


def as_shown(reply):
    """The fields of LOCK.SHOW that the checker compares."""
    told = as_map(reply)
    holders = [as_map(h) for h in told["holders"]]
    held = {(h["session"], h["owner"]) for h in holders}
    queue = [as_map(w) for w in told["queue"]]
    return {
        "holders": [
            [h["session"], h["owner"], h["mode"], h["token"], h["count"]]
            for h in holders
        ],
        "queue": [
            [
                w["session"],
                w["owner"],
                w["mode"],
                w["index"],
                (w["session"], w["owner"]) in held,
            ]
            for w in queue
        ],
        "note": told.get("note", ""),
    }


def show(world, ask, lock):
    look(world, ask, "show", ["LOCK.SHOW", lock], as_shown, lock=lock)


def list_locks(world, ask):
    """One page is of one moment: it shows each lock that exists."""
    numbers = {
        lock: world.recorder.asks("show", lock=lock, by="list")
        for lock in LOCKS
    }
    _, page = ask("LOCK.LIST", "COUNT", 1000)
    shown = {text(as_map(one)["name"]): as_shown(one) for one in page}
    free = {"holders": [], "queue": [], "note": ""}
    for lock, number in numbers.items():
        world.recorder.told(number, shown.get(lock, free))


def list_sessions(world, ask):
    words = ["SESSION.LIST", "PREFIX", "nemesis", "COUNT", 1000]
    ids = lambda reply: [as_map(one)["id"] for one in reply[1]]
    look(world, ask, "sessions", words, ids)


def admit(world, session, lock, token):
    look_from(
        world,
        session,
        "admit",
        ["FENCE.ADMIT", lock, token],
        fence=lock,
        token=token,
    )


def go_on_writing(world, session):
    """Shows fences the newest tokens that it has had, perhaps in a life of the
    cluster that is over: as who does not know yet that it holds nothing."""
    for lock, tokens in world.tokens.items():
        admit(world, session, lock, tokens[-1])


def observe(world, rng):
    """Reads locks and fences until the test is over; in parallel a thread
    watches."""
    watching = random.Random(rng.random())
    thread = threading.Thread(
        target=watch_all, args=(world, watching), daemon=True
    )
    thread.start()
    try:
        look_around(world, rng)
    finally:
        thread.join()


def look_around(world, rng):
    connection = None
    while True:
        world.check_stop()
        try:
            if connection is None:
                connection = Connection(rng.choice(world.endpoints))
            ask = lambda *words: connection.ask(PATIENCE_S, *words)
            look_at_something(world, rng, ask)
            if rng.random() < 0.2:
                connection.close()
                connection = None
        except (OSError, ReplyError):
            if connection is not None:
                connection.close()
            connection = None
        time.sleep(rng.uniform(0.01, 0.06))


def look_at_something(world, rng, ask):
    kind = rng.random()
    if kind < 0.6:
        show(world, ask, rng.choice(LOCKS))
    elif kind < 0.75:
        list_locks(world, ask)
    elif kind < 0.9:
        list_sessions(world, ask)
    else:
        fence = rng.choice(FENCES)
        look(world, ask, "fence", ["FENCE.SHOW", fence], fence=fence)


# --- What is done under a session --------------------------------------------


def take_and_give_back(world, session, rng):
    locks, mode, options, limit_s = choose(rng)
    many = len(locks) > 1
    verb = ["LOCK.MACQUIRE", len(locks)] if many else ["LOCK.ACQUIRE"]
    wait_s = rng.choice((0, 0.2, 1.0, 3.0))
    words = verb + list(locks) + options
    args = {"locks": locks} if many else {"lock": locks[0]}
    if wait_s:
        words += ["WAIT", int(wait_s * 1000)]
    if limit_s:
        args["over"] = time.monotonic() + LIMIT_KEPT_S
    if locks[0] in EXCLUSIVE + (LIMITED,) and not many and rng.random() < 0.3:
        words += ["DELAY", int(DELAY_S * 1000)]
        args["delay"] = DELAY_KEPT_S
    if rng.random() < 0.15:
        words += ["BARGE"]
        args["barge"] = True
    kind = "macquire" if many else "acquire"
    reply, first = session.request(kind, words, wait_s, mode=mode, **args)
    if not is_result(world, words, reply):
        return
    tokens = dict(zip(locks, reply if many else [reply]))
    if session.left_token in tokens.values():
        return  # It is held still, and ends by the limit that it was left to.
    hold = Hold(session, mode, tokens, first, limit_s)
    world.recorder.count("acquired")
    use(world, session, rng, hold, locks)
    if limit_s and "delay" in args and rng.random() < 0.5:
        hold.end()
        session.left_token = hold.tokens[LIMITED]
        knock(world, session, rng)
    else:
        give_back(world, session, rng, hold, locks)


def is_result(world, words, reply):
    """Was something acquired? An answer that is not allowed is recorded."""
    if isinstance(reply, ReplyError) and reply.code not in RESULTS:
        world.recorder.bad("%r: %s", words, reply)
    if not is_acquired(reply):
        world.recorder.count("not acquired")
        return False
    return True


def is_acquired(reply):
    return reply is not None and not isinstance(reply, (Refusal, ReplyError))


def use(world, session, rng, hold, locks):
    """Does with what it holds what one does with locks."""
    lock, mode = locks[0], hold.mode
    if mode == "exclusive" and rng.random() < 0.8:
        pause_s = rng.choice((0.0, 0.0, 0.005, 0.02, 0.1, 0.5))
        add_one(world, hold, lock, pause_s)
    elif mode != "exclusive" and rng.random() < 0.5:
        stay(hold, rng.choice((0.02, 0.1, 0.3)))
    if lock in FENCES:
        older = world.tokens.setdefault(lock, [])
        if rng.random() < 0.3:
            admit(world, session, lock, hold.tokens[lock])
            if older and rng.random() < 0.3:
                admit(world, session, lock, rng.choice(older))
        older.append(hold.tokens[lock])
        del older[:-8]
    if rng.random() < 0.2:
        token = hold.tokens[lock]
        words = ["LOCK.CHECK", lock, token]
        look_from(world, session, "check", words, lock=lock, token=token)
    if rng.random() < 0.08:
        note(session, hold, lock)
    if len(locks) == 1 and lock in EXCLUSIVE and rng.random() < 0.15:
        enter_again(world, session, rng, hold, lock)
    if lock == SHARED and rng.random() < 0.35:
        convert(world, session, rng, hold)
    if mode == "slots" and rng.random() < 0.5:
        fill(world, session, rng, lock)


def fill(world, session, rng, lock):
    """Other owners take the free slots of a semaphore, and try one more: six
    clients seldom fill it."""
    taken = {}
    for number in range(SLOT_COUNT):
        owner = "slot%d" % number
        options = ["SLOTS", SLOT_COUNT]
        options += ["BARGE"] if rng.random() < 0.5 else []
        token = try_as(world, session, owner, lock, "slots", options)
        if token is not None:
            taken[owner] = token
    for owner, token in taken.items():
        release_as(session, owner, lock, token)


def knock(world, session, rng):
    """Another owner tries the lock that was left to its limit, perhaps past the
    queue: it fails while the hold lasts, and then its delay."""
    owner, options, args = "knocks", [], {}
    if rng.random() < 0.5:
        options, args = ["BARGE"], {"barge": True}
    by = time.monotonic() + LIMIT_S + DELAY_S
    token = None
    while token is None and time.monotonic() < by:
        time.sleep(rng.uniform(0.01, 0.08))
        token = try_as(
            world, session, owner, LIMITED, "exclusive", options, **args
        )
    if token is not None:
        release_as(session, owner, LIMITED, token)


def try_as(world, session, owner, lock, mode, options, **args):
    """The token, or None."""
    words = ["LOCK.ACQUIRE", lock, "OWNER", owner] + options
    reply, _ = session.request(
        "acquire", words, lock=lock, mode=mode, owner=owner, **args
    )
    return reply if is_result(world, words, reply) else None


def release_as(session, owner, lock, token):
    words = ["LOCK.RELEASE", lock, "OWNER", owner, "TOKEN", token]
    reply = Refusal("")
    while isinstance(reply, Refusal):
        reply, _ = session.request(
            "release", words, lock=lock, token=token, owner=owner
        )


def note(session, hold, lock):
    note = "note %d" % session.requests
    words = ["LOCK.NOTE", lock, hold.tokens[lock], note]
    session.request(
        "note", words, lock=lock, token=hold.tokens[lock], note=note
    )


def enter_again(world, session, rng, hold, lock):
    """The same owner counts; another owner of the session is kept out."""
    words = ["LOCK.ACQUIRE", lock]
    token, args = hold.tokens[lock], {"lock": lock, "mode": "exclusive"}
    if rng.random() < 0.5:
        reply, _ = session.request(
            "acquire", words + ["OWNER", "other"], owner="other", **args
        )
        if is_acquired(reply):
            world.recorder.bad("two owners of a session hold %s", lock)
        return
    reply, _ = session.request("acquire", words, **args)
    if reply == token:
        words = ["LOCK.RELEASE", lock, "TOKEN", token]
        while isinstance(reply, (int, Refusal)) and reply != 1:
            reply, _ = session.request(
                "release", words, lock=lock, token=token
            )
            if not isinstance(reply, Refusal) and reply != 1:
                world.recorder.bad("%r of two entries: %s", words, reply)


def convert(world, session, rng, hold):
    """Belief in its hold ends before, and restarts after the answer."""
    to = "shared" if hold.mode == "exclusive" else "exclusive"
    wait_s = rng.choice((0, 0.3)) if to == "exclusive" else 0
    words = ["LOCK.CONVERT", SHARED, to.upper()]
    if wait_s:
        words += ["WAIT", int(wait_s * 1000)]
    was = hold.mode
    hold.end()
    reply, first = session.request(
        "convert", words, wait_s, lock=SHARED, mode=to
    )
    if isinstance(reply, ReplyError) and reply.code not in RESULTS:
        world.recorder.bad("%r: %s", words, reply)
    if isinstance(reply, int):
        if to == "exclusive":
            hold.first = first
        hold.tokens[SHARED] = reply
        hold.begin(to)
        world.recorder.count("converted")
    else:
        hold.begin(was)


def give_back(world, session, rng, hold, locks):
    many = len(locks) > 1
    token = hold.tokens[locks[0]]
    was_limited = hold.limit != float("inf")
    if world.plant != "late":
        hold.end()
    kind, args = "release", {"lock": locks[0], "token": token}
    words = ["LOCK.RELEASE", locks[0], "TOKEN", token]
    right = 0
    if many:
        words = ["LOCK.MRELEASE", len(locks)] + list(locks)
        kind, args, right = "mrelease", {"locks": locks}, len(locks)
    elif world.kind != "http" and rng.random() < 0.1:
        words = ["LOCK.RELEASEIF", locks[0], "OWNER", "", "TOKEN", token]
        words += ["SESSION", session.id]
        kind, right = "releaseif", 1
    reply = Refusal("")
    while isinstance(reply, Refusal):
        reply, _ = session.request(kind, words, **args)
    if world.plant == "late":
        hold.end()
    if reply != right and not was_limited and session.lease.end() > 0.0:
        world.recorder.bad("%r: %s", words, reply)


def work(world, rng):
    """One session's life."""
    world.keepsake.close(world, rng)
    session = Session(world, rng)
    world.recorder.count("sessions")
    try:
        go_on_writing(world, session)
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
    parser.add_argument("--rate", type=float, default=1.0)
    parser.add_argument("--observer", action="store_true")
    parser.add_argument("--kind", choices=KINDS, default="plain")
    parser.add_argument("--keepsake", required=True)
    parser.add_argument("--certificates", default="")
    parser.add_argument("--plant", choices=CLIENT_PLANTS, default="")
    arguments = parser.parse_args()
    world = World(arguments)
    rng = random.Random(arguments.seed * 1000 + arguments.index)
    try:
        while True:
            (observe if arguments.observer else work)(world, rng)
    except Stopping:
        world.recorder.write(k="count", counts=world.recorder.counts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
