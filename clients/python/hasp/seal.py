# SPDX-License-Identifier: MIT
"""The hook of on_grant: it seals the resource at the token before the program
learns that it has the lock."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from .errors import HaspError, LeaseLost, SealFailed
from .grant import Belief
from .lease import ENDLESS, SECOND, read_clock
from .request import TIMER_MAX

if TYPE_CHECKING:
    from .hold import Hold


class Seal:
    """One run of the hook for a grant. Its methods are called in the loop, so
    that its end and its limit come one after the other."""

    def __init__(self, hold: Hold, grant: List[Belief],
                 late: Callable[[], Any] = lambda: None) -> None:
        self.hold, self.grant = hold, grant
        self.beliefs = [one for one in grant if one.is_first]
        self.is_late = False
        self._late = late  # Called at the limit, after the lock is given back.
        self._timer: Optional[asyncio.TimerHandle] = None
        self._began = read_clock()
        limit = hold.options.get('seal_time')
        # Renewals of the lease while the hook runs do not prolong it.
        self.limit = min(hold._remaining_of(grant), ENDLESS if limit is None
                         else int(limit * SECOND))

    def arm(self) -> None:
        left = self.limit - self._began.age(read_clock())
        if left <= 0:
            self._expire()
        elif self.limit < ENDLESS:
            self._timer = asyncio.get_running_loop().call_later(
                min(left / SECOND, TIMER_MAX), self.arm)

    def _expire(self) -> None:
        if not self.is_late:
            self.is_late = True
            self.hold._give_back(self.grant)
            self._late()

    async def end(self, error: Optional[BaseException]) -> None:
        """The hook has ended. Raises unless the lock is sealed and held."""
        if self._timer:
            self._timer.cancel()
        if self._began.age(read_clock()) >= self.limit:
            self._expire()
        name = self.hold.name
        lost = self._why_lost()
        if error is None and lost is None and not self.is_late:
            return
        await self._give_back()
        if lost:
            raise lost
        if self.is_late:
            raise SealFailed(
                f'on_grant of "{name}" took longer than '
                f'{self.limit / SECOND:.3f} s; the lock was given back'
            ) from error
        raise SealFailed(f'on_grant of "{name}" failed, and the lock was given '
                         f'back: {error!r}') from error

    def _why_lost(self) -> Optional[HaspError]:
        try:
            self.hold.session._check()
        except HaspError as error:
            return error
        is_there = any(one is self.grant for one in self.hold._grants)
        if any(one.is_over or one.is_late for one in self.grant) or \
                not (is_there or self.is_late):
            return LeaseLost(f'"{self.hold.name}" was taken away while on_grant '
                             'ran')
        return None

    async def _give_back(self) -> None:
        """Releases the lock; if that gets no answer, it continues in the
        background."""
        hold = self.hold
        hold._give_back(self.grant)
        await hold._resolve()
