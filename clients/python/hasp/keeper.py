# SPDX-License-Identifier: MIT
"""What keeps a session alive and tells what happens to it: heartbeats on a
connection of their own."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from typing import (Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Set, Union)

from . import resp
from .connection import Connection, within
from .core import LOG, Core
from .errors import HaspError, LeaseLost
from .lease import SECOND, Clock, State, read_clock
from .request import CONNECT_TIMEOUT, show_endpoint
from .secret import SecretFile
from .tls import Tls

PATIENCE_MIN = 0.05  # For an answer, however short the lease.
LOOK_MIN = 0.02  # Between two looks at a lease that runs out.
AGAIN = (0.02, 0.2)  # After a heartbeat without an answer; by chance.


class Event(NamedTuple):
    """'kind': 'jeopardy' (out of touch: begin nothing), 'safe' (in touch
    again), 'lost' (for good), 'please' (somebody asks for the lock). 'name' and
    'token' tell which hold; '' and 0: the session with all it holds. 'text' is
    the message, or the reason."""
    kind: str
    name: str = ''
    token: int = 0
    text: str = ''


class Keeper(Core):
    """Two tasks: one sends heartbeats, the other one looks at the lease, so
    that an end is told in time whatever the first one waits for."""

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0, alive: float = 0.0,
                 tls: Tls = None, secret_file: SecretFile = None,
                 durable: bool = False, reason: str = '',
                 on_event: Optional[Callable[[Event], Any]] = None) -> None:
        super().__init__(endpoints, name, ttl, linger, timeout, tls,
                         secret_file, durable, reason)
        self.on_event = on_event
        self._alive = alive
        self._reported = read_clock()
        self._told = State.HELD
        self._line: Optional[Connection] = None
        self._change = asyncio.Event()
        self._tasks: List[asyncio.Task[None]] = []
        self._resolver: Optional[asyncio.Task[None]] = None
        self._begin()

    def _begin(self) -> None:
        """What is left to do where a program uses threads."""

    def alive(self) -> None:
        """Reports progress, where 'alive' seconds were asked for: without it
        the lease is renewed no more. Call it where the work is done, not from a
        timer or a thread of its own. LeaseLost if the session is lost."""
        self._reported = read_clock()
        self._check()

    async def _start(self) -> None:
        await self._open()
        self._reported = read_clock()
        self._tasks = [asyncio.ensure_future(one)
                       for one in (self._keep(), self._look())]

    async def _end(self) -> None:
        """The session's locks go to the next in line."""
        self._tell_news()  # A loss that came just now is told, too.
        self._is_closed = True
        for task in [*self._tasks, *filter(None, [self._resolver])]:
            task.cancel()
        self._hang_up()
        if self.id and self.state() is not State.LOST:
            try:
                await self._request(['SESSION.CLOSE'])
            except HaspError:
                pass  # Its lease runs out by itself.
        self._refuse('it has been closed')
        self._drop()

    def _abandon(self) -> None:
        """In a forked child: the parent's session lives on."""
        for line in [*self._idle, *self._busy, *filter(None, [self._line])]:
            line.abandon()

    def _changed(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    async def _rest(self, timeout: float) -> None:
        """Until something has changed, for so long at most."""
        try:
            await within(timeout, self._change.wait())
        except socket.timeout:
            pass

    # --- looking ----------------------------------------------------------

    async def _look(self) -> None:
        while self._told is not State.LOST:
            await self._rest(max(self.remaining(), LOOK_MIN))
            self._tell_news()
        self._hang_up()
        self._drop()

    def _tell_news(self) -> None:
        """What the clock, or an answer, has changed."""
        state = self.state()
        if state is not self._told and not self._is_closed and self.id:
            self._told = state
            self._emit([Event('safe') if state is State.HELD else
                        Event(state.value, text=self._why)])

    def _emit(self, events: Sequence[Event]) -> None:
        for event in events:
            LOG.debug('%s: %s', self.id, event)
            self._tell(event)

    def _tell(self, event: Event) -> None:
        raise NotImplementedError

    # --- heartbeats -------------------------------------------------------

    def _interval(self) -> float:
        """Seconds between heartbeats."""
        return self._lease.period() / SECOND

    async def _keep(self) -> None:
        # The first one comes early: only then the node knows where to send
        # what is for this session.
        pause = self._interval() / 5
        while self.state() is not State.LOST:
            until = time.monotonic() + pause
            while time.monotonic() < until and not (
                    self._line and self._line.error):
                await self._rest(until - time.monotonic())
            pause = await self._beat()

    def _is_stuck(self) -> bool:
        """Has the program failed to report progress?"""
        age = self._reported.age(read_clock())
        return 0 < self._alive * SECOND <= age

    async def _beat(self) -> float:
        """Gives the seconds until the next heartbeat."""
        interval = self._interval()
        patience = max(PATIENCE_MIN, interval)
        if self._is_stuck():
            self._why = f'no progress was reported for {self._alive} s (alive)'
            return min(interval, AGAIN[1])
        line = self._line if self._line and not self._line.error else None
        turn = line.turn if line else self._turn
        endpoint = self._endpoint(turn)
        try:
            if line is None:
                line = self._line = await self._connect(
                    turn, min(patience, CONNECT_TIMEOUT))
                line.on_push = lambda push: self._emit(asked_for(push))
                line.on_close = self._changed
            sent = read_clock()
            reply = await line.ask(patience, 'SESSION.KEEP', 'FULL')
            if isinstance(reply, resp.ReplyError):
                raise self._refusal(reply)
            self._emit(self._answered(reply, sent))
            if self._doubts:
                self._settle_soon()
            return self._interval()
        except LeaseLost:
            pass
        except (OSError, HaspError) as error:
            self._why = 'no heartbeat was answered in time, last: ' \
                f'{show_endpoint(endpoint)}: {error}'
            if isinstance(error, socket.timeout):
                # Those who wait for a lock there are in the dark, too.
                for busy in list(self._busy):
                    if busy.endpoint == endpoint:
                        busy.close()
        self._hang_up()
        return min(interval, random.uniform(*AGAIN))

    def _settle_soon(self) -> None:
        """In the background, unless that is under way."""
        if not self._resolver or self._resolver.done():
            self._resolver = asyncio.ensure_future(self._settle_doubts())

    async def _settle_doubts(self) -> None:
        tried: Set[Any] = set()
        while self._doubts - tried:
            hold = next(iter(self._doubts - tried))
            tried.add(hold)
            await hold._resolve()

    def _hang_up(self) -> None:
        line, self._line = self._line, None
        self._fail(line)

    def _answered(self, reply: Dict[str, Any], sent: Clock) -> List[Event]:
        """A heartbeat was answered; gives what it tells of single holds."""
        self._prolong(reply, sent)
        ended = [Event('lost', end['lock'], end['token'],
                       str(end.get('reason', '')))
                 for end in reply.get('ended', ())
                 for hold in list(self._held) if hold._is_ended_by(end)]
        if ended:
            self._changed()
        return ended


def asked_for(push: resp.Push) -> List[Event]:
    """[lock, 'please', {token, message, ...}]; or 'breaking', of a durable
    hold."""
    if len(push) < 3 or push[1] not in ('please', 'breaking'):
        return []
    told = push[2]
    return [Event('please', str(told.get('lock', push[0])),
                  told.get('token') or 0, str(told.get('message') or ''))]
