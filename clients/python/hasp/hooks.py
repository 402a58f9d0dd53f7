# SPDX-License-Identifier: MIT
"""Hooks learn of each acquisition, for traces and metrics.
docs/clients.md has the rules that all clients share."""

from __future__ import annotations

import itertools
import time
from typing import Callable, NamedTuple, Optional

LATE_MAX = 1000  # Events that hooks can be late by.


class HookEvent(NamedTuple):
    """'id' numbers the acquisitions of a session. 'name' and 'token' are those
    of the lock, or of the first one of several; 'token' is 0 until it is
    granted. 'at' is time.time(), for people; 'elapsed' is measured by the
    monotonic clock."""
    kind: str
    id: int
    name: str
    token: int
    trace: str  # The option of the lock.
    at: float
    elapsed: float  # Seconds since acquire or, when a hold ends, granted.
    text: str = ''  # The reason of failed and lost.
    skipped: int = 0  # Earlier acquisitions that no hook was called for.


class Hooks:
    """Override what you need. 'acquire' comes first, then 'wait' if others have
    the lock, then 'granted' or 'failed'; a hold ends by 'released' or 'lost'.
    Session calls them on a thread of their own, hasp.aio in the loop."""

    def acquire(self, event: HookEvent) -> None:
        """An acquisition begins; no request was sent yet."""

    def wait(self, event: HookEvent) -> None:
        """The cluster has put the request into the queue."""

    def granted(self, event: HookEvent) -> None:
        """It is held; on_grant, if there is one, runs after this."""

    def failed(self, event: HookEvent) -> None:
        """It was not granted, and no later event follows."""

    def released(self, event: HookEvent) -> None:
        """The program has released it; the request is sent after this."""

    def lost(self, event: HookEvent) -> None:
        """The hold was lost."""


class Acquisition:
    """One that is reported. Its methods are called in the loop, in any order:
    those that do not fit the state do nothing, so each has exactly one end."""

    def __init__(self, reporter: Reporter, number: int, name: str,
                 trace: str) -> None:
        self._reporter, self._number = reporter, number
        self._name, self._trace = name, trace
        self._state, self._token = 'acquire', 0
        self._since = time.monotonic()
        self._report('acquire')

    def _report(self, kind: str, text: str = '') -> None:
        elapsed = time.monotonic() - self._since
        self._state = kind
        self._reporter.send(HookEvent(
            kind, self._number, self._name, self._token, self._trace,
            time.time(), elapsed, text, self._reporter.take_skipped()))

    def waits(self) -> None:
        if self._state == 'acquire':
            self._report('wait')

    def granted(self, token: int) -> None:
        if self._state in ('acquire', 'wait'):
            self._token = token
            self._report('granted')
            self._since = time.monotonic()

    def failed(self, why: str) -> None:
        if self._state in ('acquire', 'wait'):
            self._report('failed', why)

    def released(self) -> None:
        if self._state == 'granted':
            self._report('released')

    def lost(self, why: str) -> None:
        if self._state == 'granted':
            self._report('lost', why)


class Unreported(Acquisition):
    """An acquisition without hooks, or one that is skipped."""

    def __init__(self) -> None:
        self._state = 'unreported'


UNREPORTED = Unreported()


class Reporter:
    """The hooks of a session. 'post' delivers an event in order, outside of the
    client's own steps; 'late' returns the number of events not delivered yet."""

    def __init__(self, hooks: Optional[Hooks],
                 post: Callable[[HookEvent], None],
                 late: Callable[[], int],
                 notice: Callable[[str], None]) -> None:
        self.hooks = hooks
        self.send, self._late, self._notice = post, late, notice
        self._numbers = itertools.count(1)
        self._skipped = 0
        self._has_failed = False

    def begin(self, name: str, trace: str) -> Acquisition:
        if self.hooks is None:
            return UNREPORTED
        if self._late() >= LATE_MAX:
            self._skipped += 1
            return UNREPORTED
        return Acquisition(self, next(self._numbers), name, trace)

    def take_skipped(self) -> int:
        skipped, self._skipped = self._skipped, 0
        return skipped

    def call(self, event: HookEvent) -> None:
        """Calls the hook, on the thread that delivers. The first exception of a
        session is reported, as a notice."""
        try:
            getattr(self.hooks, event.kind)(event)
        except Exception as error:
            if not self._has_failed:
                self._has_failed = True
                self._notice(f'the hook {event.kind!r} has failed: {error!r}')
