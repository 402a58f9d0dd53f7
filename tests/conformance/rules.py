# SPDX-License-Identifier: MIT
"""The rules of belief, written once more for the runner: until when may a client
believe at the latest, by the requests that the nodes got and the answers that
they gave? test_rules.py checks the arithmetic with tests/vectors/lease.json.

A node reads its clock after it has read a request, and a client reads its own
before it sends one. It is the same clock, so no client may believe for longer
than these bounds, not by a nanosecond."""

import threading

MS = 1000000
NEVER = float('inf')


def trusted(promised):
    """The trusted part of a promised time, in nanoseconds."""
    return promised * 4 // 5


def age(sent, now):
    """The time that has passed, on the clock on which it is longer."""
    return max(0, *(late - early for early, late in zip(sent, now)))


def hold_left(sent, left_ms, now):
    return max(0, trusted(left_ms * MS) - age(sent, now))


class Lease:
    """A client's trust in its session; clocks are pairs (monotonic, boottime).
    """

    def __init__(self):
        self.sent = self.ttl = self.promised = None
        self.is_lost = False

    def answered(self, sent, ttl_ms, linger_ms):
        if self.check(sent)[0] == 'lost' or (self.sent and sent < self.sent):
            return
        self.sent, self.ttl = sent, ttl_ms * MS
        self.promised = min(ttl_ms, linger_ms or ttl_ms) * MS

    def refused(self):
        self.is_lost = True

    def check(self, now):
        """The state, and the remaining time."""
        if self.is_lost:
            return 'lost', 0
        if self.sent is None:
            return 'jeopardy', 0
        passed = age(self.sent, now)
        self.is_lost = passed >= trusted(self.ttl)
        left = max(0, trusted(self.promised) - passed)
        return 'lost' if self.is_lost else 'held' if left else 'jeopardy', \
            0 if self.is_lost else left

    def period(self):
        return (self.promised or 0) // 5


class Bounds:
    """What the nodes have answered to the client of one script."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sessions, self.grants = [], []

    def opens(self):
        """Another session is opened."""
        with self.lock:
            self.sessions, self.grants = [], []

    def answers(self, received, verb, told):
        """An answer that is about to be sent; 'received': when its request was.
        """
        with self.lock:
            if verb in ('SESSION.OPEN', 'SESSION.KEEP'):
                self.sessions.append((received, told))
            elif verb in ('LOCK.ACQUIRE', 'LOCK.MACQUIRE', 'LOCK.CONVERT'):
                for one in told if isinstance(told, list) else [told]:
                    self.grants.append((received, one))

    def session(self):
        """The latest time at which a belief in the session may end."""
        latest = 0
        with self.lock:
            for received, told in self.sessions:
                if not isinstance(told, dict) or told.get('ttl_ms') is None:
                    if isinstance(told, dict):
                        return NEVER  # Without end.
                    continue
                lease = Lease()
                lease.answered((received, received), told['ttl_ms'],
                               told.get('linger_ms') or 0)
                latest = max(latest, received + lease.check(
                    (received, received))[1])
        return latest

    def hold(self, since, tokens):
        """Likewise of one acquisition: its command began at 'since'."""
        ends = []
        with self.lock:
            for name, token in tokens.items():
                found = [received + (
                    NEVER if told.get('hold_left_ms') is None else
                    hold_left((0, 0), told['hold_left_ms'], (0, 0)))
                    for received, told in self.grants
                    if received >= since and isinstance(told, dict) and
                    (told.get('lock'), told.get('token')) == (name, token)]
                ends.append(max(found, default=0))
        return min(ends, default=NEVER)
