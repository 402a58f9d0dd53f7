# SPDX-License-Identifier: MIT
"""Until when may a lease be trusted? The clock rules, without I/O.

A lease of T is valid until S0 + 0.8 T, S0 being the clock when the newest
heartbeat that was answered OK was *sent*. The leader counts T from its receipt,
so with clocks up to 10 % off on either side the client ends first. Of
CLOCK_MONOTONIC and CLOCK_BOOTTIME the smaller remainder counts: the monotonic
clock of a suspended machine stands still while its lease runs out. With a
linger, the lease is in jeopardy (not held, though an answer mends it) from
S0 + 0.8 min(T, linger) on; from S0 + 0.8 T it is lost, and nothing leaves lost.

All in whole nanoseconds: a float would round at the very end. The clients in
other languages do the same, tests/vectors/lease.json holds them to it.
"""

from __future__ import annotations

import enum
import math
import time
from typing import NamedTuple, Optional

MS, SECOND = 1000000, 1000000000
ENDLESS = 2 ** 63 - 1  # What remains of the lease of a session without end.
LOOK = 5 * SECOND  # It asks so often whether something was taken.


def to_seconds(left: int) -> float:
    return math.inf if left == ENDLESS else left / SECOND


def trusted(promised: int) -> int:
    """The part of a promise that may be trusted: 0.8."""
    return promised * 4 // 5


class State(enum.Enum):
    HELD = 'held'
    JEOPARDY = 'jeopardy'
    LOST = 'lost'


class Clock(NamedTuple):
    monotonic: int
    boottime: int

    def age(self, now: Clock) -> int:
        """Nanoseconds since, on whichever clock more have passed."""
        return max(0, now.monotonic - self.monotonic,
                   now.boottime - self.boottime)


def read_clock() -> Clock:
    """Reads both clocks, in nanoseconds."""
    boottime = getattr(time, 'CLOCK_BOOTTIME', time.CLOCK_MONOTONIC)
    return Clock(time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                 time.clock_gettime_ns(boottime))


def hold_remaining(sent: Clock, left_ms: int, now: Clock) -> int:
    """Nanoseconds for which a limited hold may be trusted, 'left_ms' of it
    having been left by the answer to what was sent then."""
    return max(0, trusted(left_ms * MS) - sent.age(now))


class Lease:
    """The client's belief in its session. Several threads may ask without a
    mutex (a signal handler could not take one): nothing leaves lost, and an
    answer that comes while it is judged makes the judgement too careful."""

    def __init__(self) -> None:
        self.ttl = 0
        self.linger = 0
        self._sent: Optional[Clock] = None
        self._is_lost = False
        self.is_endless = False  # No time ends belief, only what is told.

    def answered_endless(self, sent: Clock) -> None:
        """As answered(), for a session without end."""
        self._sent, self.is_endless = sent, True

    def answered(self, sent: Clock, ttl_ms: int, linger_ms: int) -> None:
        """A heartbeat sent at 'sent' was answered OK. Nothing revives a lease
        that was lost by then, whether or not anybody had looked, and an older
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
        """An answer was given, and the lease is not lost."""
        return self._sent is not None and self.state(now) is not State.LOST

    def remaining(self, now: Clock) -> int:
        """Nanoseconds for which it may still be trusted; 0 unless held."""
        if self._sent is None or self.state(now) is not State.HELD:
            return 0
        if self.is_endless:
            return ENDLESS
        return max(0, trusted(self.promised()) - self._sent.age(now))

    def promised(self) -> int:
        """What each answer promises until the next one, in nanoseconds."""
        if self.is_endless:
            return ENDLESS
        return min(self.ttl, self.linger) if self.linger else self.ttl

    def period(self) -> int:
        """Nanoseconds between heartbeats: a fifth of what is promised, so that
        a session is never quiet for a quarter of its lease."""
        return LOOK if self.is_endless else self.promised() // 5
