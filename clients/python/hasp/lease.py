# SPDX-License-Identifier: MIT
"""Until when may a lease be trusted? The clock rules, without I/O.

A lease of T is valid until S0 + 0.8 T, where S0 is the clock when the newest
heartbeat that was answered OK was *sent*. The leader counts T from its receipt,
so with clocks up to 10 % off on either side the client ends first. The smaller
remainder of CLOCK_MONOTONIC and CLOCK_BOOTTIME counts: on a suspended machine
the monotonic clock stops, while the lease runs out. With a linger, the lease is
in jeopardy (not held, though an answer restores it) from
S0 + 0.8 min(T, linger) on. From S0 + 0.8 T on it is lost, and a lost lease
stays lost.

All times are whole nanoseconds, since a float would be rounded. The clients in
other languages follow the same rules; tests/vectors/lease.json checks all of
them.
"""

from __future__ import annotations

import enum
import math
import time
from typing import NamedTuple, Optional

MS, SECOND = 1000000, 1000000000
ENDLESS = 2 ** 63 - 1  # Remaining time of a durable session.
LOOK = 5 * SECOND  # How often a durable session checks its holds.


def to_seconds(left: int) -> float:
    return math.inf if left == ENDLESS else left / SECOND


def trusted(promised: int) -> int:
    """The part of a promised time that can be trusted: 0.8."""
    return promised * 4 // 5


class State(enum.Enum):
    HELD = 'held'
    JEOPARDY = 'jeopardy'
    LOST = 'lost'


class Clock(NamedTuple):
    monotonic: int
    boottime: int

    def age(self, now: Clock) -> int:
        """Nanoseconds since then, on the clock on which more have passed."""
        return max(0, now.monotonic - self.monotonic,
                   now.boottime - self.boottime)


def read_clock() -> Clock:
    """Reads both clocks, in nanoseconds."""
    boottime = getattr(time, 'CLOCK_BOOTTIME', time.CLOCK_MONOTONIC)
    return Clock(time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                 time.clock_gettime_ns(boottime))


def hold_remaining(sent: Clock, left_ms: int, now: Clock) -> int:
    """Nanoseconds for which a limited hold can be trusted. The answer to the
    request sent then said that 'left_ms' of it were left."""
    return max(0, trusted(left_ms * MS) - sent.age(now))


class Lease:
    """The client's trust in its session. Several threads may use it without a
    mutex (a signal handler could not lock one): a lost lease stays lost, and an
    answer that arrives during a check only makes the result too careful."""

    def __init__(self) -> None:
        self.ttl = 0
        self.linger = 0
        self._sent: Optional[Clock] = None
        self._is_lost = False
        self.is_endless = False  # Only the cluster ends it, no time does.

    def answered_endless(self, sent: Clock) -> None:
        """Like answered(), for a durable session."""
        self._sent, self.is_endless = sent, True

    def answered(self, sent: Clock, ttl_ms: int, linger_ms: int) -> None:
        """A heartbeat sent at 'sent' was answered OK. A lease that was lost by
        then stays lost, even if no check has noticed the loss. An older
        heartbeat than the newest changes nothing."""
        if self.state(sent) is State.LOST or \
                (self._sent is not None and sent < self._sent):
            return
        self.ttl, self.linger, self._sent = ttl_ms * MS, linger_ms * MS, sent

    def refuse(self) -> None:
        """The server said that the session has ended."""
        self._is_lost = True

    def state(self, now: Clock) -> State:
        """The state; JEOPARDY before the first answer."""
        if self._is_lost:
            return State.LOST
        if self._sent is None:
            return State.JEOPARDY
        if self.is_endless:
            return State.HELD
        age = self._sent.age(now)
        if age >= trusted(self.ttl):
            self._is_lost = True
            return State.LOST
        return State.HELD if age < trusted(self.promised()) \
            else State.JEOPARDY

    def is_believed(self, now: Clock) -> bool:
        """True if there was an answer, and the lease is not lost."""
        return self._sent is not None and self.state(now) is not State.LOST

    def remaining(self, now: Clock) -> int:
        """Nanoseconds for which the lease can be trusted; 0 unless it is
        held."""
        if self._sent is None or self.state(now) is not State.HELD:
            return 0
        if self.is_endless:
            return ENDLESS
        return max(0, trusted(self.promised()) - self._sent.age(now))

    def promised(self) -> int:
        """The time that each answer promises until the next one, in
        nanoseconds."""
        if self.is_endless:
            return ENDLESS
        return min(self.ttl, self.linger) if self.linger else self.ttl

    def period(self) -> int:
        """Nanoseconds between heartbeats: a fifth of the promised time, so that
        a session is never silent for a quarter of its lease."""
        return LOOK if self.is_endless else self.promised() // 5
