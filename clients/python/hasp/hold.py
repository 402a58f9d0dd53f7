# SPDX-License-Identifier: MIT
"""A lock as the object sees it that acquires it: what is asked of the cluster,
and what is believed meanwhile. Written once for threads and asyncio, as is
hasp.core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Optional, TypedDict

from .core import Core
from .errors import HaspError, LeaseLost, LeaseShort, Unknown, Unreachable
from .lease import MS, SECOND, Clock, hold_remaining, read_clock, trusted
from .request import CONNECT_TIMEOUT, Forgotten, Owner
from .resp import Argument

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Options(TypedDict, total=False):
    """Of a lock; durations in seconds."""
    shared: bool  # Held together with other shared holders.
    slots: int  # Held by so many at once; all must say the same number.
    value: str  # Shown to people.
    delay: float  # Stays closed for so long after its holder died.
    hold: float  # A hold ends after so long, whatever happens.
    barge: bool  # Passes those who wait, never those who hold.
    owner: str  # Locks with the same owner do not exclude each other.


class Hold:
    """Acquired 'count' times; what it says of time needs no request."""

    def __init__(self, session: Core, name: str,
                 **options: Unpack[Options]) -> None:
        unknown = sorted(set(options) - set(Options.__annotations__))
        if unknown:
            raise TypeError(f'a lock has no option {unknown[0]!r}; it has ' +
                            ', '.join(Options.__annotations__))
        self.session = session
        self.name = name
        self.options = options
        self.token: Optional[int] = None
        self._count = 0
        self._owner: Optional[Owner] = None  # While there is one to own it.
        self._limit = 0  # Milliseconds of a limited hold, counted ...
        self._since: Optional[Clock] = None  # ... from here on.
        self._has_ended = False
        self._doubt: List[Argument] = []  # A change of unknown outcome ...
        self._doubt_number = 0  # ... under this number.

    def remaining(self) -> float:
        """Seconds for which the hold may be trusted; 0 if it is not held."""
        return self._remaining() / SECOND

    def _remaining(self) -> int:
        left = self.session._remaining()
        if self._count == 0 or self._has_ended:
            return 0
        if self._since is not None:
            left = min(left, hold_remaining(self._since, self._limit,
                                            read_clock()))
        return left

    def guard(self, need: float) -> None:
        """Raises LeaseLost unless a step of 'need' seconds ends inside the
        lease. Call it before each step that must not outlive the lock."""
        left = self._remaining()
        if left > 0 and left >= need * SECOND:
            return
        if self._count == 0:
            raise LeaseLost(f'"{self.name}" is not held')
        self.session._check()
        if self._has_ended:
            raise LeaseLost(f'"{self.name}" has been taken away')
        most = self.session._lease.promised()
        if self._since is not None:
            most = min(most, _to_ms(self.options['hold']) * MS)
        most_s = trusted(most) / SECOND
        text = (f'"{self.name}": {left / SECOND:.3f} s left of the lease, '
                f'{need:.3f} s needed')
        if need > most_s:
            text += (f'; it is never more than {most_s:.3f} s, 0.8 of the '
                     'smallest of ttl, linger and hold')
        raise LeaseShort(text)

    def ends(self, ended: Dict[str, Any]) -> bool:
        """Is it this hold that the cluster has ended? True once."""
        owner = self._owner
        if self._has_ended or owner is None or ended['lock'] != self.name or \
                ended['owner'] != owner.tag or ended['token'] != self.token:
            return False
        self._has_ended = True
        return True

    # --- for the locks of hasp.session and hasp.aio, one at a time --------

    async def _acquire(self, until: Optional[float]) -> bool:
        await self._settle()
        if await self._change('LOCK.ACQUIRE', self._words(), until) is None:
            return False
        if self._since is not None and until is not None:
            await self._ask_limit()
        self.session._check()
        return True

    async def _release(self) -> None:
        """Belief ends before the release is sent."""
        self._count = max(0, self._count - 1)
        if self._count == 0:
            self.token = None
            self.session._held.discard(self)
        await self._settle()
        await self._change('LOCK.RELEASE', [])

    async def _settle(self) -> None:
        """Clears up a change whose outcome is not known: asked again under its
        number, and not waiting, it tells what became of it. A lock that was
        granted meanwhile is given back: nobody waits for it any more."""
        while self._doubt:
            reply = None
            try:
                reply, _ = await self.session._request(self._doubt)
            except Forgotten:
                # A named owner may have other holds of it.
                assert self._owner is not None
                reply = 0 if self._owner.is_private else None
            except (Unknown, Unreachable):
                raise
            except HaspError:
                pass  # It has not been done, or there is nothing to undo.
            is_granted = reply is not None and self._doubt[0] == 'LOCK.ACQUIRE'
            self._end(is_over=not is_granted)
            if is_granted:
                self._begin('LOCK.RELEASE', [])
                self.session._doubts.add(self)

    async def _try_enter(self) -> bool:
        """For the resolver: False if somebody uses the lock. Else _leave()."""
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError

    # --- a change: numbered, and in doubt until its outcome is known ------

    async def _change(self, verb: str, more: List[Argument],
                      until: Optional[float] = None) -> Any:
        first = read_clock()
        self._begin(verb, more)
        try:
            reply, _ = await self.session._request(self._doubt, until)
        except BaseException as error:  # An interruption, for one.
            if _is_outcome(error, verb):
                self._end()
            else:
                self.session._doubts.add(self)
            raise
        if verb == 'LOCK.ACQUIRE' and reply is not None:
            self._granted(reply, first)
        self._end()
        return reply

    def _words(self) -> List[Argument]:
        words: List[Argument] = []
        for name, value in self.options.items():
            if name == 'owner' or not value:
                continue
            words.append(name.upper())
            if name in ('delay', 'hold'):
                words.append(_to_ms(value))  # type: ignore[arg-type]
            elif name in ('slots', 'value'):
                words.append(value)  # type: ignore[arg-type]
        return words

    def _begin(self, verb: str, more: List[Argument]) -> None:
        if self._owner is None:
            self._owner = self.session._owners.take(
                self.options.get('owner', ''))
        self._doubt_number, words = self.session._owners.begin(self._owner)
        self._doubt = [verb, self.name, *more, *words]

    def _end(self, is_over: bool = True) -> None:
        """The outcome is known. What holds nothing needs no owner."""
        assert self._owner is not None
        self.session._owners.end(self._doubt_number)
        self._doubt = []
        self.session._doubts.discard(self)
        if is_over and self._count == 0:
            self.session._owners.put(self._owner)
            self._owner = None

    def _granted(self, token: int, first: Clock) -> None:
        """A limited hold counts from before it was asked for the first time: an
        attempt whose answer was lost may be the one that was granted."""
        self.token = token
        self._count += 1
        if self._count == 1:
            self._has_ended = False
            self._limit = _to_ms(self.options.get('hold', 0.0))
            self._since = first if self._limit else None
            self.session._held.add(self)

    async def _ask_limit(self) -> None:
        """How much of a limited hold is left: the wait may have taken longer
        than that."""
        assert self._owner is not None
        try:
            shown, sent = await self.session._request(
                ['LOCK.SHOW', self.name], timeout=CONNECT_TIMEOUT)
        except HaspError:
            return  # It is counted from before the wait.
        for holder in shown.get('holders', ()):
            if str(holder['session']) == self.session.id and \
                    holder['owner'] == self._owner.tag and \
                    holder.get('hold_left_ms'):
                self._limit = min(self._limit, holder['hold_left_ms'])
                self._since = sent


def _to_ms(seconds: float) -> int:
    return int(1000 * seconds)


def _is_outcome(error: BaseException, verb: str) -> bool:
    """Does it tell what became of the change? What was not done need not be
    asked again, but for a release, which is made in any case."""
    if isinstance(error, Unreachable):
        return verb == 'LOCK.ACQUIRE'
    return isinstance(error, HaspError) and not isinstance(error, Unknown)
