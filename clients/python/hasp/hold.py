# SPDX-License-Identifier: MIT
"""A lock, or several at once, as the object sees it that acquires them: what is
asked of the cluster, and what is believed meanwhile. How a program waits for
that stands in hasp.threads and hasp.aio."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from typing import (TYPE_CHECKING, Any, Deque, Dict, Iterable, List, Optional,
                    TypedDict)

from .connection import settle
from .errors import (HaspError, LeaseLost, LeaseShort, NotHeld, TimedOut,
                     Unknown, Unreachable)
from .keeper import Keeper
from .lease import MS, SECOND, Clock, hold_remaining, read_clock, to_seconds, trusted
from .request import (CONNECT_TIMEOUT, TIMER_MAX, Forgotten, Owner, Wait,
                      is_number)
from .resp import Argument

if TYPE_CHECKING:
    from typing_extensions import Unpack

BEHIND = 0.05  # Seconds between two looks at other requests of an owner.

# What takes a change back whose outcome came when nobody waited for it.
UNDO: Dict[str, List[Argument]] = {'ACQUIRE': ['RELEASE'],
                                   'EXCLUSIVE': ['CONVERT', 'SHARED']}


class Options(TypedDict, total=False):
    """Of a lock; durations in seconds."""
    shared: bool  # Held together with other shared holders.
    slots: int  # Held by so many at once; all must say the same number.
    value: str  # Shown to people.
    delay: float  # Stays closed for so long after its holder died.
    hold: float  # A hold ends after so long, whatever happens.
    barge: bool  # Passes those who wait, never those who hold.
    owner: str  # The same owner acquires again, and must release as often.
    timeout: float  # For acquire() and `with`, where they say none.


class Gate:
    """Those who share an object enter in turn, one at a time."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: Deque[asyncio.Future[bool]] = deque()

    async def enter(self, until: Optional[float]) -> bool:
        """False: not by then; None: at once."""
        if not self._is_taken:
            self._is_taken = True
            return True
        if until is None:
            return False
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        timer = loop.call_later(
            min(max(until - time.monotonic(), 0.0), TIMER_MAX),
            settle, turn, False)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self.open()  # Its turn had just come.
            raise
        finally:
            timer.cancel()

    def open(self) -> None:
        """For the next one."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._is_taken = False


class Hold:
    """Acquired 'count' times; what it says of time needs no request."""

    def __init__(self, session: Keeper, *names: str,
                 **options: Unpack[Options]) -> None:
        unknown = sorted(set(options) - set(Options.__annotations__))
        if unknown:
            raise TypeError(f'a lock has no option {unknown[0]!r}; it has ' +
                            ', '.join(Options.__annotations__))
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError('a lock has a name, or several: lock("a", "b")')
        slots = options.get('slots')
        if slots is not None and slots < 1:
            raise ValueError(f'slots={slots}: at least one holds the lock; an '
                             'exclusive one has no slots')
        self.session = session
        self.names = names
        self.options = options
        self.shared = bool(options.get('shared'))  # convert() changes it.
        self.tokens: Dict[str, int] = {}
        self._count = 0
        self._grants: List[int] = []  # Numbers of its acquisitions.
        self._newest = 0
        self._owner: Optional[Owner] = None  # While there is one to own it.
        self._limit = 0  # Milliseconds of a limited hold, counted ...
        self._since: Optional[Clock] = None  # ... from here on.
        self._has_ended = False
        self._doubt: List[Argument] = []  # A change of unknown outcome, ...
        self._doubt_verb = ''  # ... what it is, and ...
        self._doubt_number = 0  # ... its number.
        self._owed = 0  # Releases that are still to be begun.
        self._wait: Optional[Wait] = None  # Of the newest change.
        self._mutex = asyncio.Lock()  # One change at a time.
        # From acquire() to release(): who shares the object waits in turn.
        self._gate = Gate()

    def __repr__(self) -> str:
        state = 'not held'
        if self._count and self.session._pid == os.getpid():
            left = self.remaining()
            state = f'token {self.token}, {left:.3f} s left' if left else 'lost'
        return f'<hasp lock {self.name!r}: {state}>'

    @property
    def name(self) -> str:
        return ', '.join(self.names)

    @property
    def token(self) -> Optional[int]:
        """Larger at each grant; None: not held. Of several: the first one's,
        'tokens' has all by their names."""
        return self.tokens.get(self.names[0])

    def locked(self) -> bool:
        """True if this object holds the lock, and the hold may be trusted now.
        """
        return self._remaining() > 0

    def remaining(self) -> float:
        """Seconds for which the hold may be trusted; 0 if it is not held."""
        return to_seconds(self._remaining())

    def _remaining(self) -> int:
        left = self.session._remaining()
        if self._count == 0 or self._has_ended:
            return 0
        if self._since is not None:
            left = min(left, hold_remaining(self._since, self._limit,
                                            read_clock()))
        return left

    def guard(self, need: float = 0.0) -> None:
        """Raises LeaseLost unless a step of 'need' seconds ends inside the
        lease. Call it before each step that must not outlive the lock."""
        left = self._remaining()
        if left > 0 and left >= need * SECOND:
            return
        if self._count == 0:
            raise LeaseLost(f'"{self.name}" is not held')
        self.session._check()
        if self._has_ended:
            raise LeaseLost(f'"{self.name}" has been taken away, or its hold '
                            'is over')
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

    def _limit_left(self) -> Optional[int]:
        """Nanoseconds until its own limit; None: it has none, or nothing is
        held."""
        if self._since is None or self._count == 0 or self._has_ended:
            return None
        return hold_remaining(self._since, self._limit, read_clock())

    def _is_over(self) -> bool:
        """True, once, if its limit is over by the clock: nobody else says so in
        time."""
        is_over = self._limit_left() == 0
        self._has_ended |= is_over
        return is_over

    def _is_ended_by(self, ended: Dict[str, Any]) -> bool:
        """True, once, if the cluster has ended this very hold."""
        owner = self._owner
        if self._has_ended or owner is None or ended['owner'] != owner.tag or \
                ended['token'] != self.tokens.get(ended['lock'], 0):
            return False
        self._has_ended = True
        return True

    # --- acquire, release, convert ----------------------------------------

    async def _acquire(self, until: Optional[float]) -> int:
        """Gives the number of the acquisition, 0: it is not held."""
        if not await self._enter(until):
            return 0
        grant = 0
        try:
            async with self._mutex:
                await self._settle()
                if await self._change('ACQUIRE', self._words(), until) is None:
                    return 0
                grant = self._newest
                if self._since is not None:
                    if until is not None:
                        await self._ask_limit()
                    self.session._changed()
                self.session._check()
                return grant
        except BaseException:
            if grant:  # Nobody is told of it.
                self._forget(grant)
                self._owe()
                grant = 0
            raise
        finally:
            if not grant or self.options.get('owner'):
                self._gate.open()

    def _entered(self, is_held: bool) -> None:
        if not is_held:
            raise TimedOut(f'"{self.name}" was not to be had in '
                           f'{self.options.get("timeout")} s')

    async def _enter(self, until: Optional[float]) -> bool:
        """Waits for the turn among those that share this object."""
        self.session._check()
        return await self._gate.enter(until)

    async def _release(self) -> None:
        """Releases the lock; trust in it ends before the request is sent."""
        if self._count == 0:
            raise NotHeld(f'"{self.name}" is not held')
        is_last = self._forget()
        is_begun = False
        try:
            async with self._mutex:
                await self._settle()
                is_begun = True
                released = await self._change('RELEASE', [])
        finally:
            if not is_begun:
                self._owe()
            if is_last and not self.options.get('owner'):
                self._gate.open()
        if len(self.names) > 1 and released < len(self.names):
            raise NotHeld(f'only {released} of {self.name} were held')

    def _owe(self) -> None:
        """A release is to be made as soon as that is possible."""
        self._owed += 1
        self.session._doubt(self)

    def _give_back(self, grant: int) -> None:
        """Gives an acquisition back that nobody was told of, unless it has been
        released; 0: there is none."""
        if grant in self._grants:
            is_last = self._forget(grant)
            self._owe()
            if is_last and not self.options.get('owner'):
                self._gate.open()

    def _forget(self, grant: int = 0) -> bool:
        """Ends the trust in one acquisition; true if it was the last one."""
        self._grants.remove(grant or self._grants[-1])
        self._count -= 1
        if self._count == 0:
            self.tokens = {}
            self.shared = bool(self.options.get('shared'))
            self.session._held.discard(self)
            self.session._changed()
        return self._count == 0

    async def _convert(self, shared: bool, until: Optional[float]) -> bool:
        if self._count == 0 or len(self.names) > 1:
            raise NotHeld('one lock that is held can be converted, not '
                          f'"{self.name}"')
        async with self._mutex:
            await self._settle()
            self.shared = self.shared or shared  # Belief ends first.
            mode = 'SHARED' if shared else 'EXCLUSIVE'
            return await self._change('CONVERT', [mode], until) is not None

    async def _convert_back(self) -> None:
        """After an upgrade that nobody was told of."""
        if self._count and not self.shared:
            try:
                await self._convert(True, None)
            except HaspError:
                pass

    async def _place(self) -> Optional[int]:
        """The place in the queue: 1 is the next; None if it is not in the
        queue."""
        shown = await self.session._ask('LOCK.SHOW', self.names[0])
        for place, waiter in enumerate(shown['queue'], 1):
            if self._is_mine(waiter):
                return place
        return None

    async def _note(self, text: str) -> None:
        if self._owner is None or self.token is None:
            raise NotHeld(f'"{self.name}" is not held')
        await self.session._ask('LOCK.NOTE', self.names[0], self.token, text,
                                'OWNER', self._owner.tag)

    def _is_mine(self, shown: Dict[str, Any]) -> bool:
        return self._owner is not None and \
            str(shown['session']) == self.session.id and \
            str(shown['owner']) == self._owner.tag

    # --- a change: numbered, and in doubt until its outcome is known ------

    async def _change(self, verb: str, more: List[Argument],
                      until: Optional[float] = None) -> Any:
        first = read_clock()
        if (verb == 'ACQUIRE' or 'EXCLUSIVE' in more) and \
                not await self._take_turn(until):
            return None
        self._begin(verb, more)
        assert self._owner is not None
        self._wait = None if until is None else Wait(
            until, self._owner.tag, len(self.names), self.session.durable)
        try:
            reply = (await self.session._request(
                self._doubt, self._wait, fits=self._fits)).reply
        except BaseException as error:  # A cancellation, for one.
            if _is_outcome(error, verb):
                self._end()
            else:
                self.session._doubts.add(self)
                if not isinstance(error, HaspError):
                    self.session._doubt(self)
            raise
        finally:
            self.session._acquiring.discard(self)
        if verb != 'RELEASE' and reply is not None:
            self._granted(reply, first)
        self._end()
        return reply

    def _fits(self, reply: Any) -> bool:
        """Is it what such a change is answered? Whatever else a node that is
        none says is no grant."""
        if self._doubt_verb == 'RELEASE':
            return is_number(reply)
        tokens = reply if isinstance(reply, list) else [reply]
        return reply is None or (len(tokens) == len(self.names) and all(
            is_number(token) and token > 0 for token in tokens))

    async def _take_turn(self, until: Optional[float]) -> bool:
        """The cluster takes two waits of one owner for one, with one grant. So
        an owner asks once at a time for a lock, and not before it is known what
        came of what nobody waits for any more: that will be given back."""
        session, owner = self.session, self.options.get('owner')
        limit = (until or time.monotonic()) + session.timeout

        def are_rivals(holds: Iterable[Hold]) -> List[Hold]:
            return [hold for hold in holds if owner and hold is not self and
                    hold.options.get('owner') == owner and
                    not set(self.names).isdisjoint(hold.names)]

        while are_rivals(session._acquiring) or are_rivals(session._doubts):
            if time.monotonic() >= (until or 0) and any(
                    hold._wait and hold._wait.is_queueing()
                    for hold in are_rivals(session._acquiring)):
                return False
            if time.monotonic() >= limit:
                raise Unreachable('it is not known what came of an earlier '
                                  f'request of {owner!r}')
            for hold in are_rivals(session._doubts):
                await hold._resolve()
            await asyncio.sleep(BEHIND)
            session._check()
        session._acquiring.add(self)
        return True

    def _words(self) -> List[Argument]:
        words: List[Argument] = []
        for name, value in self.options.items():
            if name not in ('owner', 'timeout') and value:
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
        self._doubt_verb = 'EXCLUSIVE' if 'EXCLUSIVE' in more else verb
        many: List[Argument] = [f'LOCK.M{verb}', len(self.names)]
        self._doubt = [*(many if len(self.names) > 1 else [f'LOCK.{verb}']),
                       *self.names, *more, *words]

    def _end(self, is_over: bool = True) -> None:
        """Ends a change whose outcome is known. An object that holds nothing
        needs no owner."""
        assert self._owner is not None
        self.session._owners.end(self._doubt_number)
        self._doubt = []
        self.session._doubts.discard(self)
        if is_over and self._count == 0 and not self._owed:
            self.session._owners.put(self._owner)
            self._owner = None

    def _granted(self, reply: Any, first: Clock) -> None:
        """A limited hold counts from before it was asked for the first time: an
        attempt whose answer was lost may be the one that was granted."""
        if self._doubt_verb != 'ACQUIRE':
            # Its owner has one hold, however many locks of his tell of it.
            for lock in self.session._held:
                if lock._owner.tag == self._owner.tag and \
                        self.name in lock.tokens:
                    lock.tokens[self.name] = reply
                    lock.shared = self._doubt_verb != 'EXCLUSIVE'
            return
        self.tokens = dict(zip(self.names, reply if isinstance(reply, list)
                               else [reply]))
        self._count += 1
        self._newest += 1
        self._grants.append(self._newest)
        if self._count == 1:
            self._has_ended = False
            self._limit = _to_ms(self.options.get('hold', 0.0))
            self._since = first if self._limit else None
            self.session._held.add(self)

    async def _ask_limit(self) -> None:
        """How much of a limited hold is left: the wait may have taken longer
        than that."""
        try:
            shown, sent, _ = await self.session._request(
                ['LOCK.SHOW', self.names[0]], timeout=CONNECT_TIMEOUT)
        except HaspError:
            return  # It is counted from before the wait.
        for holder in filter(self._is_mine, shown.get('holders', ())):
            if holder.get('hold_left_ms'):
                self._limit = min(self._limit, holder['hold_left_ms'])
                self._since = sent

    async def _settle(self) -> None:
        """Clears up a change whose outcome is not known: asked again under its
        number, and not waiting, it tells what became of it. What was granted
        meanwhile is taken back: nobody waits for it any more."""
        while self._doubt or self._owed:
            if not self._doubt:
                self._owed -= 1
                self._begin('RELEASE', [])
                self.session._doubts.add(self)
            reply: Any = None
            try:
                reply = (await self.session._request(
                    self._doubt, is_doubtful=True, fits=self._fits)).reply
            except Forgotten:
                # A named owner may have other holds of it.
                assert self._owner is not None
                reply = 0 if self._owner.is_private else None
            except (Unknown, Unreachable):
                raise
            except HaspError:
                pass  # It has not been done, or there is nothing to undo.
            undo = UNDO.get(self._doubt_verb) if reply is not None else None
            if reply and self._count and self._doubt_verb == 'EXCLUSIVE':
                self.tokens[self.names[0]] = reply
            self._end(is_over=not undo)
            if undo:
                self._begin(str(undo[0]), undo[1:])
                self.session._doubts.add(self)

    async def _resolve(self) -> None:
        """Settles the change in the background; whoever uses the lock settles
        it first anyway."""
        if not self._mutex.locked():
            async with self._mutex:
                try:
                    await self._settle()
                except HaspError:
                    pass  # Again after the next heartbeat.


def _to_ms(seconds: float) -> int:
    return int(1000 * seconds)


def _is_outcome(error: BaseException, verb: str) -> bool:
    """Does it tell what became of the change? What was not done need not be
    asked again, but for a release, which is made in any case."""
    if isinstance(error, Unreachable):
        return verb != 'RELEASE'
    return isinstance(error, HaspError) and not isinstance(error, Unknown)
