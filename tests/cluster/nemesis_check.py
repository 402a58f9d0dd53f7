# SPDX-License-Identifier: MIT
"""The rules that a history of beliefs must satisfy.

A belief is an interval of CLOCK_MONOTONIC in which a client trusted that it
held a lock, with the token it was given. Rules:

1. Beliefs that exclude each other never overlap.
2. Tokens grow with time: a request made after another's grant was known gets a
   greater token; exclusive tokens are never given twice.
3. The guarded counter loses no update (see Counter).
4. No client saw a promise broken by itself ('bad' records).
"""

import json
import threading
from collections import namedtuple

# A client hears of a restore when it asks next.
EARLY_S = 15.0
Belief = namedtuple("Belief", "client lock mode token call begin end")


def read_beliefs(paths, restored=()):
    """The beliefs, the bad records and the sum of the counts. The belief of a
    killed client ends when it was last seen. A session may end early without a
    broken promise after a backup was restored."""
    beliefs, bad, counts = [], [], {}
    for client, path in enumerate(paths):
        open_holds = {}
        with open(path, "rb") as file:
            for line in file:
                record = json.loads(line)
                kind = record["k"]
                if kind == "bad":
                    if "early" in record and is_excused(record, restored):
                        continue
                    bad.append("client %d: %s" % (client, record["what"]))
                elif kind == "count":
                    for key, value in record["counts"].items():
                        counts[key] = counts.get(key, 0) + value
                elif kind == "hold":
                    holds = open_holds.setdefault(record["n"], [])
                    holds.append([record, record["begin"]])
                elif kind in ("seen", "end"):
                    at = record["t" if kind == "seen" else "end"]
                    for hold in open_holds[record["n"]]:
                        hold[1] = max(hold[0]["begin"], at)
        for hold, end in [h for hs in open_holds.values() for h in hs]:
            beliefs.append(
                Belief(
                    client,
                    hold["lock"],
                    hold["mode"],
                    hold["token"],
                    hold["call"],
                    hold["begin"],
                    end,
                )
            )
    return beliefs, bad, counts


def is_excused(record, restored):
    return any(0 <= record["t"] - t < EARLY_S for t in restored)


def check(beliefs, slots=2):
    """The broken rules, in words."""
    found = []
    for lock in sorted({b.lock for b in beliefs}):
        mine = sorted(
            (b for b in beliefs if b.lock == lock), key=lambda b: b.begin
        )
        found += check_overlaps(lock, mine, slots)
        found += check_tokens(lock, mine)
    return found


def may_share(belief, others, slots):
    if belief.mode == "slots":
        return len(others) < slots and all(o.mode == "slots" for o in others)
    return all(o.mode == belief.mode == "shared" for o in others)


def check_overlaps(lock, beliefs, slots):
    found = []
    current = []
    for belief in beliefs:
        current = [o for o in current if o.end > belief.begin]
        if not may_share(belief, current, slots):
            found.append(
                "%s: client %d began to believe (token %d) %.6f s before %s"
                % (
                    lock,
                    belief.client,
                    belief.token,
                    max(o.end for o in current) - belief.begin,
                    ", ".join(
                        "client %d (token %d)" % (o.client, o.token)
                        for o in current
                    )
                    + " ended",
                )
            )
        current.append(belief)
    return found


def check_tokens(lock, beliefs):
    """Beliefs come in the order of their begin, so those whose request came
    after an earlier one's begin are compared with the greatest such token."""
    found = []
    # After a refused conversion the client believes in its earlier hold again.
    exclusive = []
    for one in (b for b in beliefs if b.mode == "exclusive"):
        if not exclusive or one[:4] != exclusive[-1][:4]:
            exclusive.append(one)
    if len({b.token for b in exclusive}) != len(exclusive):
        found.append("%s: an exclusive token was given twice" % lock)
    for before, after in zip(exclusive, exclusive[1:]):
        if after.token <= before.token:
            found.append(
                "%s: token %d was followed by %d"
                % (lock, before.token, after.token)
            )
    events = [(b.begin, 1, b) for b in beliefs]
    events += [(b.call, 0, b) for b in beliefs]
    greatest, at_call = 0, {}
    for _, is_begin, belief in sorted(events, key=lambda e: e[:2]):
        if not is_begin:
            at_call[id(belief)] = greatest
            continue
        if belief.token <= at_call[id(belief)]:
            found.append(
                "%s: a request got token %d though %d was known before it"
                % (lock, belief.token, at_call[id(belief)])
            )
        greatest = max(greatest, belief.token)
    return found


class Counter:
    """A counter per lock that the clients read and write under it. It knows
    the greatest token it has been shown and refuses smaller ones, at reading
    as well, as a fenced resource should. So each accepted write must be one
    more than the value before it."""

    def __init__(self):
        self.mutex = threading.Lock()
        self.marks, self.values, self.writes = {}, {}, {}
        self.lost = []

    def ask(self, request):
        lock, token = request["lock"], request["token"]
        with self.mutex:
            if token < self.marks.get(lock, 0):
                return {"ok": False}
            self.marks[lock] = token
            value = self.values.get(lock, 0)
            if request["op"] == "read":
                return {"ok": True, "value": value}
            if request["value"] != value + 1:
                self.lost.append(
                    "%s: token %d wrote %d over %d"
                    % (lock, token, request["value"], value)
                )
            self.values[lock] = request["value"]
            self.writes[lock] = self.writes.get(lock, 0) + 1
            return {"ok": True, "value": request["value"]}

    def found(self):
        found = list(self.lost)
        for lock, value in self.values.items():
            if value != self.writes.get(lock, 0):
                found.append(
                    "%s: %d writes made the counter %d"
                    % (lock, self.writes.get(lock, 0), value)
                )
        return found
