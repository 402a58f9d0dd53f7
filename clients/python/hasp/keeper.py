# SPDX-License-Identifier: MIT
"""Heartbeats of a session, and the events that it reports."""

from __future__ import annotations

import asyncio
import random
import socket
from functools import partial
from typing import (Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Set, Union)

from . import resp
from .connection import Connection, within
from .core import STRANGE, Core
from .errors import HaspError, LeaseLost
from .grant import Belief, read_told
from .hooks import Acquisition, HookEvent, Hooks, Reporter
from .lease import SECOND, Clock, State, read_clock, to_seconds
from .request import (LEAVES, TIMER_MAX, Endpoint, check_durations, is_lease,
                      is_of_asker, is_page, show_endpoint)
from .secret import SecretFile
from .tie import TTL as TTL_TIED
from .tie import Tie, check_tie, path_of
from .tls import Tls

TTL = 10.0  # Seconds: the default.
PATIENCE_MIN = 0.05  # Seconds for an answer, for any lease.
LOOK_MIN = 0.02  # Seconds between checks of a lease.
LIST_COUNT = 1000  # Holds on one page of the list.
PAGES_MAX = 10000  # Limit of pages: more than a session can have.
AGAIN = (0.02, 0.2)  # Pause after a heartbeat that a node could not answer.


class Event(NamedTuple):
    """'kind': 'jeopardy' (no contact: start nothing), 'safe' (contact again),
    'lost' (for good), 'please' (somebody asks for the lock), 'notice' (nothing
    is lost, but people should know). 'name' and 'token' identify the hold; ''
    and 0: the session with all its holds. 'text' is the message or the
    reason."""
    kind: str
    name: str = ''
    token: int = 0
    text: str = ''


class Keeper(Core):
    """Two timers: one for heartbeats, the other one for checks of the lease, so
    that its end is reported in time even if a heartbeat waits."""

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: Optional[float] = None,
                 linger: float = 0.0,
                 timeout: float = 10.0, alive: float = 0.0,
                 tls: Tls = None, secret_file: SecretFile = None,
                 durable: bool = False, reason: str = '',
                 own_connection: bool = False,
                 tie: str = 'none', agent: Optional[str] = None,
                 on_event: Optional[Callable[[Event], Any]] = None,
                 hooks: Optional[Hooks] = None) -> None:
        check_durations(alive=alive)
        check_tie(tie, durable, linger)
        if ttl is None:
            ttl = TTL if tie == 'none' else TTL_TIED
        super().__init__(endpoints, name, ttl, linger, timeout, tls,
                         secret_file, durable, reason, own_connection,
                         None if tie == 'none' else
                         Tie(path_of(agent), ttl, self._noticed))
        self._must_be_tied = tie == 'must'
        self.on_event = on_event
        self._hooks = hooks
        self._alive = alive
        self._reported = read_clock()
        self._told = State.HELD
        self._change = asyncio.Event()
        self._timers: Dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._resolver: Optional[asyncio.Task[None]] = None
        self._unwanted: Optional[asyncio.Task[None]] = None
        self._lister: Optional[asyncio.Task[None]] = None
        self._tried: Set[Any] = set()  # Doubts that it has tried to settle.
        self._begin()

    def _begin(self) -> None:
        """The remaining part of the start; more if the program uses threads."""
        self._report_hooks()

    def _report_hooks(self) -> None:
        """The reporter keeps a reference to this object."""
        self._reporter = Reporter(self._hooks, self._post_hook,
                                  self._late_hooks, self._hook_failed)

    def alive(self) -> None:
        """Reports progress, if the option 'alive' is set: without it the lease
        is no longer renewed. Call it where the work is done, not from a timer
        or a thread of its own. LeaseLost if the session is lost."""
        self._reported = read_clock()
        self._check()

    async def _start(self) -> None:
        try:
            await self._open()
        except BaseException as error:
            if not self._may_be_opened():
                self._quit()
            elif isinstance(error, asyncio.CancelledError):
                await self._close_opened()  # The loop is about to end.
            else:
                self._unwanted = asyncio.ensure_future(self._close_opened())
            raise
        self._reported = read_clock()
        self._link.patience = min(self._link.patience, self._patience())
        self._later(self._interval(), self._beat)
        if self._tie:
            self._tie.begin(self.id)
            await self._check_tie(self._tie)

    async def _check_tie(self, tie: Tie) -> None:
        """Waits until the session is tied, if it must be."""
        try:
            if self._must_be_tied:
                await tie.wait()
        except BaseException:
            await self._end()
            raise

    async def _end(self) -> None:
        """The session's locks go to the next in line."""
        self._tell_news()  # Reports a loss that happened just now, too.
        self._is_closed = True
        self._stop()
        self._end_holds(Acquisition.released)
        try:
            if self.id and self.state() is not State.LOST:
                await self._request(['SESSION.CLOSE'])
                self._link.closed(self)
        except HaspError:
            pass  # Its lease runs out by itself.
        finally:
            self._refuse('it was closed')
            self._end_holds(Acquisition.released)
            self._quit()
            if self._tie:
                await self._tie.ended()

    def _stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for task in (self._resolver, self._lister):
            if task:
                task.cancel()

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        """Restarts the timer of the action."""
        if action in self._timers:
            self._timers[action].cancel()
        if not self._is_closed and self._told is not State.LOST:
            self._timers[action] = asyncio.get_running_loop().call_later(
                min(seconds, TIMER_MAX), action)

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()
        self._later(0, self._look)

    async def _rest(self, timeout: float) -> None:
        """Waits until something has changed, or for this long."""
        try:
            await within(timeout, self._change.wait())
        except socket.timeout:
            pass

    # --- looking ----------------------------------------------------------

    def _look(self) -> None:
        self._tell_news()
        if self._told is State.LOST:
            self._stop()
            self._quit()
        else:
            limits = [hold._limit_left() for hold in self._held]
            left = min([self.remaining(), *(to_seconds(one) for one in limits
                                            if one is not None)])
            self._later(max(left, LOOK_MIN), self._look)

    def _tell_news(self) -> None:
        """Reports a change of the lease by the clock or an answer."""
        state = self.state()
        if state is not State.LOST and not self._is_closed:
            self._tell_ended([one for hold in list(self._held)
                              for one in hold._late()], 'max hold')
        if state is not self._told and not self._is_closed and self.id:
            self._told = state
            self._emit([Event('safe') if state is State.HELD else
                        Event(state.value, text=self._why)])
            if state is State.LOST:
                self._end_holds(lambda one: one.lost(self._why))

    def _end_holds(self, end: Callable[[Acquisition], None]) -> None:
        """All holds of the session have ended."""
        for hold in list(self._held):
            for grant in hold._grants:
                end(grant[0].acquisition)

    def _tell_ended(self, ended: Sequence[Belief], reason: str) -> None:
        """Reports holds that have ended, each once."""
        self._emit([Event('lost', lock, token, reason) for lock, token in
                    dict.fromkeys((one.lock, one.token) for one in ended)])
        for one in ended:
            one.acquisition.lost(reason)
        if ended:
            self._changed()

    def _emit(self, events: Sequence[Event]) -> None:
        for event in events:
            self._log('%s: %s', self.id, event)
            self._tell(event)

    def _tell(self, event: Event) -> None:
        raise NotImplementedError

    def _post_hook(self, event: HookEvent) -> None:
        raise NotImplementedError

    def _late_hooks(self) -> int:
        """Events for hooks that were not delivered yet."""
        return 0

    def _hook_failed(self, text: str) -> None:
        self._noticed(text)

    # --- heartbeats -------------------------------------------------------

    def _interval(self) -> float:
        """Seconds between heartbeats."""
        return self._lease.period() / SECOND

    def _patience(self) -> float:
        """Seconds for the answer to a heartbeat."""
        return max(PATIENCE_MIN, self._interval())

    def _is_stuck(self) -> bool:
        """True if the program has failed to report progress."""
        age = self._reported.age(read_clock())
        return 0 < self._alive * SECOND <= age

    def _connected(self) -> None:
        super()._connected()
        if not self._is_closed:
            self._beat()

    def _disconnected(self, endpoint: Endpoint, why: str) -> None:
        super()._disconnected(endpoint, why)
        self._why = unanswered(endpoint, why)

    def _beat(self) -> None:
        """Sends a heartbeat. The next one is sent after its answer, or on
        another connection."""
        if self._beat in self._timers:
            self._timers.pop(self._beat).cancel()
        line = self._link.line
        if self._is_stuck():
            self._why = f'no progress was reported for {self._alive} s (alive)'
            self._later(min(self._interval(), AGAIN[1]), self._beat)
        elif line:
            patience = self._patience() * (2 if line.is_busy() else 1)
            silence = asyncio.get_running_loop().call_later(
                patience, line.fail, socket.timeout('no answer'))
            # It carries the secret, so it need not wait for ATTACH.
            line.post(partial(self._kept, line, silence, read_clock()),
                      'SESSION.KEEP', self.id, self._secret, 'FULL', 'AFTER',
                      self._beliefs.seen, is_urgent=True)

    def _kept(self, line: Connection, silence: asyncio.TimerHandle,
              sent: Clock, reply: Any) -> None:
        silence.cancel()
        if isinstance(reply, OSError) or self._is_closed:
            return
        if isinstance(reply, resp.ReplyError):
            refusal = self._refusal(reply)
            if not isinstance(refusal, LeaseLost):
                self._why = unanswered(line.endpoint, str(refusal))
            self._later(min(self._interval(), random.uniform(*AGAIN)),
                        self._beat)
            if is_of_asker(reply):
                self._link.denied(line, str(refusal))
            elif reply.code in LEAVES:
                self._link.leave(line, str(refusal))
        elif not is_lease(reply):
            line.fail(OSError(STRANGE))
        else:
            self._link.worked(line)
            self._answered(reply, sent)
            if self._doubts:
                self._settle_soon()
            self._later(max(0.0, self._interval() -
                            sent.age(read_clock()) / SECOND), self._beat)

    def _doubt(self, hold: Any) -> None:
        """Settles the doubts of a lock, now and after each heartbeat.
        """
        self._doubts.add(hold)
        self._tried.discard(hold)
        self._settle_soon()

    def _settle_soon(self) -> None:
        """Settles doubts in the background, unless that is under way.
        """
        if (not self._resolver or self._resolver.done()) and \
                not self._is_closed:
            self._resolver = asyncio.ensure_future(self._settle_doubts())

    async def _settle_doubts(self) -> None:
        self._tried.clear()
        while self._doubts - self._tried:
            hold = next(iter(self._doubts - self._tried))
            self._tried.add(hold)
            await hold._resolve()

    def _answered(self, reply: Dict[str, Any], sent: Clock) -> None:
        """Handles the answer to a heartbeat. Its notices report the newest
        holds that have ended. If the cluster dropped notices before this client
        read them, all holds are listed, and the notices are requested again
        until then."""
        self._prolong(reply, sent)
        notices, dropped = reply.get('ended') or (), reply.get('dropped') or 0
        for notice in notices:
            self._tell_ended(self._beliefs.noticed(notice),
                             str(notice.get('reason', '')))
        beliefs = self._beliefs
        newest = max([dropped, *(notice.get('number') or 0
                                 for notice in notices)])
        beliefs.heard = max(beliefs.heard, newest)
        if dropped <= beliefs.seen or not beliefs.are_older(dropped):
            beliefs.seen = max(beliefs.seen, newest)
        elif not self._lister or self._lister.done():
            self._lister = asyncio.ensure_future(self._list(dropped))

    async def _list(self, dropped: int) -> None:
        """Reads the list of the session's holds. Afterwards no belief is older
        than the dropped notices."""
        beliefs, cursor = self._beliefs, ''
        try:
            for _ in range(PAGES_MAX):
                page = (await self._request(
                    ['SESSION.HOLDS', 'COUNT', LIST_COUNT,
                     *(['CURSOR', cursor] if cursor else [])],
                    fits=is_page)).reply
                cursor = page['cursor']
                if page['as_of'] < dropped:
                    return  # The node does not know the dropped notices yet.
                for one in page['holds']:
                    beliefs.confirm(read_told(one), page['as_of'])
                if cursor == '0':
                    self._tell_ended(beliefs.end_older(dropped), 'ended')
                if not beliefs.are_older(dropped):
                    beliefs.seen = max(beliefs.seen, dropped)
                    return
        except HaspError:
            pass  # It is read again after the next heartbeat.

    def _noticed(self, text: str) -> None:
        self._emit([Event('notice', text=text)])

    def _pushed(self, push: resp.Push) -> None:
        super()._pushed(push)
        self._emit(asked_for(push))


def unanswered(endpoint: Endpoint, why: str) -> str:
    return 'no heartbeat was answered in time, last: ' \
        f'{show_endpoint(endpoint)}: {why}'


def asked_for(push: resp.Push) -> List[Event]:
    """[lock, 'please', {token, message, ...}]; or 'breaking', of a durable
    hold."""
    if len(push) < 3 or push[1] not in ('please', 'breaking'):
        return []
    told = push[2]
    return [Event('please', str(told.get('lock', push[0])),
                  told.get('token') or 0, str(told.get('message') or ''))]
