# SPDX-License-Identifier: MIT
"""Until when may a lease be trusted? The clock rules, without I/O.

A lease of T is valid until S0 + 0.8 T, S0 being the clock when the newest
heartbeat that was answered OK was *sent*. The leader counts T from its receipt,
so with clocks up to 10 % off on either side the client ends first. Of
CLOCK_MONOTONIC and CLOCK_BOOTTIME the smaller remainder counts: the monotonic
clock of a suspended machine stands still while its lease runs out. With a
linger, the lease is in jeopardy (not held, though an answer mends it) from
S0 + 0.8 min(T, linger) on; from S0 + 0.8 T it is lost, and nothing leaves lost.
"""

from __future__ import annotations

import enum
import math
import time
from typing import NamedTuple, Optional

TRUST = 0.8


class State(enum.Enum):
    HELD = 'held'
    JEOPARDY = 'jeopardy'
    LOST = 'lost'


class Clock(NamedTuple):
    monotonic: float
    boottime: float

    def age(self, now: Clock) -> float:
        """Seconds since, on whichever clock more have passed."""
        return max(now.monotonic - self.monotonic, now.boottime - self.boottime)


def read_clock() -> Clock:
    """Reads both clocks, in seconds."""
    boottime = getattr(time, 'CLOCK_BOOTTIME', time.CLOCK_MONOTONIC)
    return Clock(time.clock_gettime(time.CLOCK_MONOTONIC),
                 time.clock_gettime(boottime))


class Lease:
    """The client's belief in its session. Several threads may ask without a
    mutex (a signal handler could not take one): nothing leaves lost, and an
    answer that comes while it is judged makes the judgement too careful."""

    def __init__(self) -> None:
        self.ttl = 0.0
        self.linger = 0.0
        self._sent: Optional[Clock] = None
        self._is_lost = False

    def answered(self, sent: Clock, ttl: float, linger: float) -> None:
        """A heartbeat sent at 'sent' was answered OK. Nothing revives a lease
        that was lost by then, whether or not anybody had looked, and an older
        heartbeat than the newest changes nothing."""
        if self._sent is not None and (sent < self._sent or
                                       self.state(sent) is State.LOST):
            return
        self.ttl, self.linger, self._sent = ttl, linger, sent

    def refuse(self) -> None:
        """The server said that the session has ended."""
        self._is_lost = True

    def _age(self, now: Clock) -> float:
        return math.inf if self._sent is None else self._sent.age(now)

    def state(self, now: Clock) -> State:
        age = self._age(now)
        if self._is_lost or age >= TRUST * self.ttl:
            self._is_lost = self._is_lost or self._sent is not None
            return State.LOST
        return State.HELD if age < TRUST * self.trusted() else State.JEOPARDY

    def remaining(self, now: Clock) -> float:
        """Seconds for which it may still be trusted; 0 unless held."""
        if self.state(now) is not State.HELD:
            return 0.0
        return max(0.0, TRUST * self.trusted() - self._age(now))

    def trusted(self) -> float:
        """The part of the lease that counts without an answer, before 0.8."""
        return min(self.ttl, self.linger) if self.linger else self.ttl

    def beat_interval(self) -> float:
        """Seconds between heartbeats: a fifth of what is trusted, so that a
        session is never quiet for a quarter of its lease."""
        return self.trusted() / 5
