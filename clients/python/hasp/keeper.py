# SPDX-License-Identifier: MIT
"""What keeps a session alive and tells what happens to it, written once for
threads and asyncio: heartbeats on a connection of their own."""

from __future__ import annotations

import random
import socket
import time
from typing import (Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Union)

from . import resp
from .connection import Connection
from .core import Core
from .errors import HaspError, LeaseLost
from .lease import SECOND, Clock, State, read_clock
from .request import CONNECT_TIMEOUT, Endpoint

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
    """One thread, or task, runs _keep()."""

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0,
                 on_event: Optional[Callable[[Event], None]] = None) -> None:
        super().__init__(endpoints, name, ttl, linger, timeout)
        self.on_event = on_event
        self._told = State.HELD
        self._is_closed = False
        self._keeper_line: Optional[Connection] = None
        self._keeper: Any = None  # A thread, or a task, as ...
        self._resolver: Any = None  # ... is who clears up the doubts.

    async def _keep(self) -> None:
        # The first one comes early: only then the node knows where to send
        # what is for this session.
        next_beat = time.monotonic() + self._interval() / 5
        try:
            while not self._is_closed:
                if time.monotonic() >= next_beat:
                    next_beat = await self._beat() + time.monotonic()
                self._emit(self._news())
                if self._told is State.LOST:
                    self._drop()
                    break
                if not await self._listen(
                        min(next_beat - time.monotonic(),
                            max(self.remaining(), LOOK_MIN))):
                    next_beat = time.monotonic()
        finally:
            self._hang_up()

    def _interval(self) -> float:
        """Seconds between heartbeats."""
        return self._lease.period() / SECOND

    async def _listen(self, timeout: float) -> bool:
        """Waits; False if the keeper's connection has failed."""
        timeout = max(0.0, timeout)
        if self._keeper_line is None:
            await self._pause(timeout)
            return True
        try:
            await self._keeper_line.listen(timeout)
            return True
        except OSError:
            self._hang_up()
            return False

    async def _beat(self) -> float:
        """Gives the seconds until the next heartbeat."""
        interval = self._interval()
        patience = max(PATIENCE_MIN, interval)
        line = self._keeper_line
        turn = line.turn if line else self._turn
        try:
            if line is None:
                line = await self._connect(turn, min(patience,
                                                     CONNECT_TIMEOUT))
                line.on_push = lambda push: self._emit(asked_for(push))
                self._keeper_line = line  # Before looking whether to stop.
                if self._is_closed:
                    return interval
            sent = read_clock()
            reply = await line.ask(patience, 'SESSION.KEEP', 'FULL')
            if isinstance(reply, resp.ReplyError):
                raise self._refusal(reply)
            self._emit(self._answered(reply, sent))
            if self._doubts:
                self._start_settling()
            return self._interval()
        except LeaseLost:
            pass
        except (OSError, HaspError) as error:
            host, port = self._endpoint(turn)
            self._why = 'no heartbeat was answered in time, last: ' \
                f'{host}:{port}: {error}'
            if isinstance(error, socket.timeout):
                self._suspect(self._endpoint(turn))
        self._hang_up()
        return min(interval, random.uniform(*AGAIN))

    async def _settle_doubts(self) -> None:
        for hold in list(self._doubts):
            if await hold._try_enter():
                try:
                    await hold._settle()
                except HaspError:
                    pass  # Again after the next heartbeat.
                finally:
                    hold._leave()

    def _suspect(self, endpoint: Endpoint) -> None:
        """A node that does not answer the keeper leaves those who wait for a
        lock in the dark, too: they go on at another one."""
        with self._pool:
            for line in self._busy:
                if line.endpoint == endpoint:
                    line.interrupt()

    def _hang_up(self) -> None:
        line, self._keeper_line = self._keeper_line, None
        self._fail(line)

    def _answered(self, reply: Dict[str, Any], sent: Clock) -> List[Event]:
        """A heartbeat was answered; gives what it tells of single holds."""
        self._prolong(reply, sent)
        return [Event('lost', hold.name, ended['token'],
                      str(ended.get('reason', '')))
                for ended in reply.get('ended', ())
                for hold in list(self._held) if hold.ends(ended)]

    def _news(self) -> List[Event]:
        """What the clock, or an answer, has changed."""
        state = self.state()
        if state is self._told or self._is_closed:
            return []
        self._told = state
        return [Event('safe') if state is State.HELD else
                Event(state.value, text=self._why)]

    # --- how it waits, and tells ------------------------------------------

    async def _pause(self, seconds: float) -> None:
        """Of the keeper; close() ends it."""
        raise NotImplementedError

    def _start_settling(self) -> None:
        """Runs _settle_doubts() in the background, if it does not run yet."""
        raise NotImplementedError

    def _emit(self, events: Sequence[Event]) -> None:
        raise NotImplementedError


def asked_for(push: resp.Push) -> List[Event]:
    """[lock, 'please', {token, message, ...}]"""
    if len(push) < 3 or push[1] != 'please':
        return []
    told = push[2]
    return [Event('please', str(told.get('lock', push[0])),
                  told.get('token') or 0, str(told.get('message') or ''))]
