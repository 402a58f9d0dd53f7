# SPDX-License-Identifier: MIT
"""A lock, or several at once, as one lock object: its requests to the cluster,
and what the client can trust meanwhile. hasp.threads and hasp.aio have the ways
in which a program waits."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from typing import (TYPE_CHECKING, Any, Callable, Deque, Dict, Iterable, List,
                    Optional, Tuple, TypedDict)

from .connection import settle
from .errors import (HaspError, LeaseLost, LeaseShort, NotHeld, TimedOut,
                     Unknown, Unreachable)
from .grant import Belief, Told, read_grants
from .hooks import UNREPORTED, Acquisition
from .keeper import Keeper
from .lease import (MS, SECOND, Clock, hold_remaining, read_clock, to_seconds,
                    trusted)
from .request import (TIMER_MAX, Forgotten, Owner, Wait, is_number,
                      retry_pause)
from .resp import Argument

if TYPE_CHECKING:
    from typing_extensions import Unpack

BEHIND = 0.05  # Seconds between checks for other requests of an owner.

# Options that are no words of a request.
OURS = ('owner', 'timeout', 'on_grant', 'seal_time')

# Requests that undo a change whose caller had left before its outcome.
UNDO = {'ACQUIRE': 'RELEASE', 'EXCLUSIVE': 'CONVERT SHARED'}


class Options(TypedDict, total=False):
    """Options of a lock; durations in seconds."""
    shared: bool  # Held together with other shared holders.
    slots: int  # Number of concurrent holders; the same for all users.
    value: str  # Shown to people.
    trace: str  # A W3C traceparent, shown with the hold or the wait.
    delay: float  # How long the lock stays closed after its holder died.
    hold: float  # Maximum duration of a hold.
    barge: bool  # Skips the queue; holders are not affected.
    owner: str  # The same owner can acquire again, and must release as often.
    timeout: float  # Default for acquire() and `with`.
    on_grant: Callable[[str, int], Any]  # Seals the resource at the token.
    seal_time: float  # Limit of on_grant; default: the lease.


class Gate:
    """The users of an object enter in turn, one at a time."""

    def __init__(self) -> None:
        self._is_taken = False
        self._waiting: Deque[asyncio.Future[bool]] = deque()

    async def enter(self, until: Optional[float]) -> bool:
        """Waits for the turn. False: not in time; None: does not wait."""
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
        """Lets the next one in."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(True)
                return
        self._is_taken = False


class Hold:
    """The state of one lock object. Reading its times sends no request."""

    def __init__(self, session: Keeper, *names: str,
                 **options: Unpack[Options]) -> None:
        unknown = sorted(set(options) - set(Options.__annotations__))
        if unknown:
            raise TypeError(f'a lock has no option {unknown[0]!r}; use one '
                            'of ' + ', '.join(Options.__annotations__))
        if not names or not all(isinstance(name, str) for name in names):
            raise TypeError('a lock needs a name, or several: lock("a", "b")')
        if not callable(options.get('on_grant', print)):
            raise TypeError('on_grant: expected a function of the name and the '
                            'token')
        slots = options.get('slots')
        if slots is not None and slots < 1:
            raise ValueError(f'slots={slots}: expected 1 or more; omit slots '
                             'for an exclusive lock')
        self.session = session
        self.names = names
        self.options = options
        self.shared = bool(options.get('shared'))  # convert() changes it.
        # Acquisitions that were not released: the beliefs of each.
        self._grants: List[List[Belief]] = []
        self._owner: Optional[Owner] = None  # While it is in use.
        self._doubt: List[Argument] = []  # The change with an unknown outcome,
        self._doubt_verb = ''  # its verb,
        self._doubt_number = 0  # its number,
        self._doubt_owner = ''  # its owner,
        self._doubt_of: Optional[Dict[str, int]] = None  # the holds it names,
        self._was_granted = False  # and whether an answer has granted it.
        # Releases that must still be sent: locks with their tokens.
        self._owed: List[Dict[str, int]] = []
        self._wait: Optional[Wait] = None  # The wait of the newest change.
        self._reported = UNREPORTED  # The newest acquisition.
        self._mutex = asyncio.Lock()  # One change at a time.
        # From acquire() to release(): other users of this object wait here.
        self._gate = Gate()

    def __repr__(self) -> str:
        state = 'not held'
        if self._grants and self.session._pid == os.getpid():
            left = self.remaining()
            state = f'token {self.token}, {left:.3f} s left' if left else 'lost'
        return f'<hasp lock {self.name!r}: {state}>'

    @property
    def name(self) -> str:
        return ', '.join(self.names)

    @property
    def tokens(self) -> Dict[str, int]:
        """The tokens by lock name; larger at each grant."""
        grants = self._grants[-1:]  # Another thread may release it now.
        return {one.lock: one.token for one in grants[0]} if grants else {}

    @property
    def token(self) -> Optional[int]:
        """The fencing token, larger at each grant; None: not held. For several
        locks, the token of the first one; 'tokens' has all by name."""
        return self.tokens.get(self.names[0])

    def locked(self) -> bool:
        """True if this object holds the lock, and the hold can be trusted now.
        """
        return self._remaining() > 0

    def remaining(self) -> float:
        """Seconds for which the hold can be trusted; 0 if it is not held."""
        return to_seconds(self._remaining())

    def _remaining(self) -> int:
        grants = self._grants[-1:]
        return self._remaining_of(grants[0]) if grants else 0

    def _remaining_of(self, grant: List[Belief]) -> int:
        left = self.session._remaining()
        now = read_clock()
        limits = [one.left(now) for one in grant]
        return min([left, *(one for one in limits if one is not None)])

    def guard(self, need: float = 0.0) -> None:
        """Raises LeaseLost unless a step of 'need' seconds ends within the lease.
        Call it before each step that must not outlive the lock. Sends no
        request."""
        left = self._remaining()
        if left > 0 and left >= need * SECOND:
            return
        grants = self._grants[-1:]
        if not grants:
            raise LeaseLost(f'"{self.name}" is not held')
        self.session._check()
        if any(one.is_over or one.is_late for one in grants[0]):
            raise LeaseLost(f'"{self.name}" was taken away, or its hold time '
                            'is over')
        limits = [one.limit_ms() for one in grants[0]]
        most_s = trusted(min([self.session._lease.promised(), *(
            one * MS for one in limits if one is not None)])) / SECOND
        text = (f'"{self.name}": {left / SECOND:.3f} s left of the lease, '
                f'{need:.3f} s needed')
        if need > most_s:
            text += (f'; it is never more than {most_s:.3f} s, 0.8 of the '
                     'smallest of ttl, linger and hold')
        raise LeaseShort(text)

    def _limit_left(self) -> Optional[int]:
        """Nanoseconds until the next limit; None: there is none."""
        now = read_clock()
        limits = [one.left(now) for grant in self._grants for one in grant
                  if not one.is_over and not one.is_late]
        return min((one for one in limits if one is not None), default=None)

    def _late(self) -> List[Belief]:
        """Returns, once, the holds whose time limit has passed by the local clock:
        the cluster reports that too late."""
        now = read_clock()
        late = [one for grant in self._grants for one in grant
                if not one.is_over and not one.is_late and one.left(now) == 0]
        for one in late:
            one.is_late = True
        return late

    # --- acquire, release, convert ----------------------------------------

    async def _acquire(self, until: Optional[float]) -> List[Belief]:
        """Returns what was granted; empty: nothing."""
        reported = self.session._reporter.begin(
            self.names[0], self.options.get('trace') or '')
        try:
            grant = await self._acquire_as(reported, until)
        except BaseException as error:
            reported.failed(str(error) or type(error).__name__)
            raise
        if not grant:
            reported.failed('not granted in time')
        return grant

    async def _acquire_as(self, reported: Acquisition,
                          until: Optional[float]) -> List[Belief]:
        if not await self._enter(until):
            return []
        grant: List[Belief] = []
        try:
            async with self._mutex:
                await self._settle()
                self._reported = reported
                if not await self._change('ACQUIRE', self._words(), until):
                    return []
                grant = self._grants[-1]
                self.session._changed()
                self.session._check()
                return grant
        except BaseException:
            if grant:  # No caller receives it.
                self._forget(grant)
                self._owe(grant)
                grant = []
            raise
        finally:
            if not grant or self.options.get('owner'):
                self._gate.open()

    def _entered(self, is_held: bool) -> None:
        if not is_held:
            raise TimedOut(f'"{self.name}" was not granted within '
                           f'{self.options.get("timeout")} s')

    async def _enter(self, until: Optional[float]) -> bool:
        """Waits for the turn among the users of this object."""
        self.session._check()
        return await self._gate.enter(until)

    async def _release(self) -> None:
        """Releases the lock; trust in it ends before the request is sent. A hold
        that is known to have ended is not released, since another hold of the
        owner might have begun."""
        if not self._grants:
            raise NotHeld(f'"{self.name}" is not held')
        grant = self._grants[-1]
        is_last = self._forget(grant)
        tokens = live(grant)
        is_begun, released = not tokens, 0
        try:
            self.session._check()
            if tokens:
                async with self._mutex:
                    await self._settle()
                    is_begun = True
                    released = await self._change('RELEASE', [], of=tokens)
        finally:
            if not is_begun:
                self._owe(grant)
            if is_last and not self.options.get('owner'):
                self._gate.open()
        if not tokens:
            raise NotHeld(f'"{self.name}" is no longer held: it was taken away '
                          'earlier')
        if len(tokens) < len(self.names) or (
                len(tokens) > 1 and released < len(tokens)):
            raise NotHeld(f'only {released if len(tokens) > 1 else 1} of the '
                          f'locks "{self.name}" were still held')

    def _owe(self, grant: List[Belief]) -> None:
        """Records that a release must be sent as soon as possible."""
        tokens = live(grant)
        if tokens:
            self._owed.append(tokens)
            self.session._doubt(self)

    def _give_back(self, grant: List[Belief]) -> None:
        """Releases an acquisition that no caller received, unless that was done;
        empty: there is none."""
        if any(one is grant for one in self._grants):
            is_last = self._forget(grant)
            self._owe(grant)
            if is_last and not self.options.get('owner'):
                self._gate.open()

    def _forget(self, grant: List[Belief]) -> bool:
        """Ends the trust in one acquisition; true if it was the last one."""
        self._grants = [one for one in self._grants if one is not grant]
        grant[0].acquisition.released()
        for belief in grant:
            self.session._beliefs.remove(belief)
        if not self._grants:
            self.shared = bool(self.options.get('shared'))
            self.session._held.discard(self)
            self.session._changed()
        return not self._grants

    async def _convert(self, shared: bool, until: Optional[float]) -> bool:
        if not self._grants:
            raise NotHeld(f'"{self.name}" is not held')
        if len(self.names) > 1:
            raise NotHeld(f'cannot convert several locks at once: {self.name}')
        async with self._mutex:
            await self._settle()
            tokens = live(self._grants[-1]) if self._grants else {}
            if not tokens:
                self.session._check()
                raise NotHeld(f'"{self.name}" is no longer held: it was taken '
                              'away earlier')
            self.shared = self.shared or shared  # Trust ends first.
            mode = 'SHARED' if shared else 'EXCLUSIVE'
            return await self._change('CONVERT', [mode], until,
                                      tokens) is not None

    async def _convert_back(self) -> None:
        """Undoes an upgrade whose caller had left."""
        if self._grants and not self.shared:
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
        if self._owner is None or not self._grants or \
                not live(self._grants[-1]):
            raise NotHeld(f'"{self.name}" is not held')
        await self.session._ask('LOCK.NOTE', self.names[0], self.token, text,
                                'OWNER', self._owner.tag)

    def _is_mine(self, shown: Dict[str, Any]) -> bool:
        return self._owner is not None and \
            str(shown['session']) == self.session.id and \
            str(shown['owner']) == self._owner.tag

    # --- a change: numbered, and in doubt until its outcome is known ------

    async def _change(self, verb: str, more: List[Argument],
                      until: Optional[float] = None,
                      of: Optional[Dict[str, int]] = None) -> Any:
        """Changes the hold with these tokens, or begins one if there are none.
        Returns the number of released locks, or what was granted; None:
        nothing."""
        if (verb == 'ACQUIRE' or 'EXCLUSIVE' in more) and \
                not await self._take_turn(until):
            return None
        self._begin(verb, more, of)
        assert self._owner is not None
        self._wait = None if until is None else Wait(
            until, self._owner.tag, self.names, self.session.durable,
            self._reported.waits)
        try:
            reply, sent = await self._ask_change(self._wait)
        except BaseException as error:  # A cancellation, for one.
            if _is_outcome(error, verb) and not self._was_granted:
                self._end()
            else:
                self.session._doubts.add(self)
                if not isinstance(error, HaspError):
                    self.session._doubt(self)
            if isinstance(error, NotHeld) and of:
                for name, token in of.items():
                    self._tell_ended(self.session._beliefs.end(
                        name, self._doubt_owner, token, token))
            raise
        finally:
            self.session._acquiring.discard(self)
        if verb != 'RELEASE' and reply is not None:
            self._granted(reply, sent)
        self._end()
        return reply

    async def _ask_change(self, wait: Optional[Wait] = None,
                          is_doubtful: bool = False) -> Tuple[Any, Clock]:
        """Sends a change. Returns the number of released locks, or the grant
        with the clock just before the answered request was sent, or None. The
        change is sent again under its number if the answer is older than the
        known state, or if its limit has passed: the limit counts from the
        sending of the answered request."""
        session, until = self.session, time.monotonic() + self.session.timeout
        was_late = False
        while True:
            answer = await session._request(
                self._doubt, wait, is_doubtful=is_doubtful, fits=self._fits)
            told = None
            if self._doubt_verb != 'RELEASE':
                told = read_grants(answer.reply, self.names)
            if told is None:
                return answer.reply, answer.sent
            wait, is_doubtful, self._was_granted = None, True, True
            late = [one for one in told if one.count and one.left_ms is not None
                    and not hold_remaining(answer.sent, one.left_ms,
                                           read_clock())]
            is_old = any(one.as_of < session._beliefs.heard for one in told)
            if not is_old and (not late or was_late):
                return [one._replace(count=0) if one in late else one
                        for one in told], answer.sent
            if time.monotonic() >= until:
                raise Unknown('the grant might have ended: all answers are '
                              'older than the last notice of an end')
            was_late = not is_old
            await asyncio.sleep(BEHIND if is_old else 0)

    def _fits(self, reply: Any) -> bool:
        """True if the reply has the form that this change is answered with. Any
        other reply, from a peer that is not a node, must not count as a
        grant."""
        if self._doubt_verb == 'RELEASE':
            return is_number(reply)
        return reply is None or read_grants(reply, self.names) is not None

    async def _take_turn(self, until: Optional[float]) -> bool:
        """Lets an owner send one request for a lock at a time. The cluster merges
        two waits of one owner into one wait with one grant, so a second request
        must wait until abandoned ones are settled: their grants are released.
        """
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
                raise Unreachable('the outcome of an earlier request of '
                                  f'{owner!r} is not known yet')
            for hold in are_rivals(session._doubts):
                await hold._resolve()
            await asyncio.sleep(BEHIND)
            session._check()
        session._acquiring.add(self)
        return True

    def _words(self) -> List[Argument]:
        words: List[Argument] = []
        for name, value in self.options.items():
            if name not in OURS and value:
                words.append(name.upper())
                if name in ('delay', 'hold'):
                    words.append(_to_ms(value))  # type: ignore[arg-type]
                elif name in ('slots', 'value', 'trace'):
                    words.append(value)  # type: ignore[arg-type]
        return words

    def _begin(self, verb: str, more: List[Argument],
               of: Optional[Dict[str, int]] = None) -> None:
        if self._owner is None:
            self._owner = self.session._owners.take(
                self.options.get('owner', ''))
        self._doubt_owner, self._was_granted = self._owner.tag, False
        self._doubt_number, words = self.session._owners.begin(self._owner)
        self._doubt_verb = 'EXCLUSIVE' if 'EXCLUSIVE' in more else verb
        self._doubt_of = of
        names = list(of or self.names)
        more = list(more) if verb == 'RELEASE' else [*more, 'FULL']
        many: List[Argument] = [f'LOCK.{verb}']
        if len(names) > 1:
            many = [f'LOCK.M{verb}', len(names)]
        if of:
            more += ['TOKENS' if len(names) > 1 else 'TOKEN', *of.values()]
        self._doubt = [*many, *names, *more, *words]

    def _end(self, is_over: bool = True) -> None:
        """Ends a change whose outcome is known. An object that holds nothing
        needs no owner."""
        assert self._owner is not None
        self.session._owners.end(self._doubt_number)
        self._doubt = []
        self.session._doubts.discard(self)
        if is_over and not self._grants and not self._owed:
            self.session._owners.put(self._owner)
            self._owner = None

    def _granted(self, told: List[Told], sent: Clock) -> None:
        """The trust is based on the answer, not on the request."""
        beliefs = self.session._beliefs
        if self._doubt_verb == 'ACQUIRE':
            grant = [Belief(self, one, sent, self._reported) for one in told]
            for belief, one in zip(grant, told):
                self._tell_ended(beliefs.add(belief, one))
            self._grants = [*self._grants, grant]
            self.shared = told[0].mode == 'shared'
            self.session._held.add(self)
            self._reported.granted(told[0].token)
            if any(one.is_over for one in grant):
                self._reported.lost('ended')
            return
        if told[0].count == 0:
            self._tell_ended(beliefs.end(told[0].lock, told[0].owner,
                                         told[0].first, told[0].token))
        # An owner has one hold, shared by all its lock objects.
        for belief in beliefs.converted(told[0]):
            belief.hold.shared = told[0].mode == 'shared'
            if belief.hold is self:
                belief.renew(told[0], sent)
        self.session._changed()

    def _tell_ended(self, ended: List[Belief]) -> None:
        self.session._tell_ended(ended, 'ended')

    async def _settle(self) -> None:
        """Settles a change with an unknown outcome: sent again under its
        number, and without a wait, it returns the outcome. A grant is released,
        since no caller waits for it."""
        rounds = 0
        while self._doubt or self._owed:
            if not self._doubt:
                self._begin('RELEASE', [], self._owed.pop(0))
                self.session._doubts.add(self)
            told: Any = None
            undo, tokens = '', None
            try:
                told, sent = await self._ask_change(is_doubtful=True)
            except Forgotten:
                undo, tokens = self._after_forgotten()
                if rounds:
                    await asyncio.sleep(retry_pause(rounds))
                rounds += 1
            except (Unknown, Unreachable):
                raise
            except HaspError:
                pass  # It was not done, or there is nothing to undo.
            if told and self._doubt_verb != 'RELEASE':
                tokens = {one.lock: one.token for one in told if one.count}
                if self._doubt_verb != 'ACQUIRE':
                    self._granted(told, sent)
                undo = UNDO.get(self._doubt_verb, '') if tokens else ''
            self._end(is_over=not undo)
            if undo:
                verb, *more = undo.split()
                self._begin(verb, list(more), tokens)
                self.session._doubts.add(self)

    def _after_forgotten(self) -> Tuple[str, Optional[Dict[str, int]]]:
        """The request that makes sure that nothing is left of a forgotten one, and
        the holds that it names. The cluster may have executed it or not: its
        number is spent unused if too many others overtake it."""
        verb, of = self._doubt_verb, self._doubt_of
        assert self._owner is not None
        if verb == 'CONVERT' or verb == 'EXCLUSIVE' and self.shared:
            return UNDO['EXCLUSIVE'], of
        # A named owner can have other holds of the lock, and a release that was
        # executed must not end another acquisition of the same hold.
        is_safe = self._owner.is_private if of is None else \
            verb == 'RELEASE' and not self._has_others(of)
        return ('RELEASE' if is_safe else ''), of

    def _has_others(self, names: Iterable[str]) -> bool:
        """True if the owner holds one of these locks by another acquisition, or
        is requesting it."""
        session = self.session
        return any((hold is not self or bool(self._grants)) and
                   hold._owner is not None and
                   hold._owner.tag == self._doubt_owner and
                   not set(names).isdisjoint(hold.names)
                   for hold in session._held | session._acquiring)

    async def _resolve(self) -> None:
        """Settles the change in the background, unless a user of the lock
        settles it first."""
        if not self._mutex.locked():
            async with self._mutex:
                try:
                    await self._settle()
                except HaspError:
                    pass  # Again after the next heartbeat.


def live(grant: List[Belief]) -> Dict[str, int]:
    """The tokens of the holds that are not known to have ended, by name."""
    return {one.lock: one.token for one in grant if not one.is_over}


def _to_ms(seconds: float) -> int:
    return int(1000 * seconds)


def _is_outcome(error: BaseException, verb: str) -> bool:
    """True if the error determines the outcome of the change. A change that was
    not done need not be sent again, except a release, which is always sent."""
    if isinstance(error, Unreachable):
        return verb != 'RELEASE'
    return isinstance(error, HaspError) and not isinstance(error, Unknown)
