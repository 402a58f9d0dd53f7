# SPDX-License-Identifier: MIT
"""A session, written once for threads and asyncio.

Whatever may wait is a coroutine. In hasp.aio it waits in the event loop. In
hasp.session all that it awaits blocks its thread instead, so that a coroutine
comes to its end in one step. Every change carries a request number: after a
lost connection it is asked again, through another node, and never done twice.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
import time
from typing import (Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Set, Tuple, Type, Union)

from . import resp
from .connection import Connection
from .errors import HaspError, LeaseLost, Unknown, Unreachable
from .hold import Hold
from .lease import Clock, Lease, State, read_clock
from .request import (CONNECT_TIMEOUT, IDLE_MAX, Endpoint, Owners, Trouble,
                      default_name, judge, open_words, parse_endpoints,
                      retry_pause, wait_words)


class Event(NamedTuple):
    """'kind': 'jeopardy' (out of touch: begin nothing), 'safe' (in touch
    again), 'lost' (for good), 'please' (somebody asks for the lock). 'name' and
    'token' tell which hold; '' and 0: the session with all it holds. 'text' is
    the message, or the reason."""
    kind: str
    name: str = ''
    token: int = 0
    text: str = ''


class Core:
    """The lease of a session, its requests, and what keeps it alive."""

    _connection: Type[Connection]

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0,
                 on_event: Optional[Callable[[Event], None]] = None) -> None:
        self.endpoints = parse_endpoints(endpoints)
        self.name = name or default_name()
        self.ttl, self.linger, self.timeout = ttl, linger, timeout
        self.on_event = on_event
        self.id = self.secret = ''
        self._pid = os.getpid()
        self._lease = Lease()
        self._owners = Owners()
        self._held: Set[Hold] = set()
        self._doubts: Set[Hold] = set()  # Whose last outcome is not known.
        self._why = 'the lease has run out'
        self._told = State.HELD
        self._is_closed = False
        self._pool = threading.Lock()  # Over the next three; held briefly.
        self._turn = random.randrange(len(self.endpoints))
        self._idle: List[Connection] = []
        self._busy: Set[Connection] = set()
        self._keeper_line: Optional[Connection] = None
        self._keeper: Any = None  # A thread, or a task, as ...
        self._resolver: Any = None  # ... is who clears up the doubts.

    def state(self) -> State:
        self._check_process()
        return self._lease.state(read_clock())

    def remaining(self) -> float:
        """Seconds for which the session's holds may be trusted."""
        self._check_process()
        return self._lease.remaining(read_clock())

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise HaspError('this session belongs to the parent process; '
                            'open one in the child')

    def _check(self) -> None:
        self._check_process()
        if self.id and self.state() is State.LOST:
            raise LeaseLost('the session is lost, open another one: '
                            f'{self._why}')

    def _refuse(self, why: str) -> None:
        self._why = why
        self._lease.refuse()

    def _refusal(self, reply: resp.ReplyError) -> HaspError:
        error = judge(reply)
        if isinstance(error, LeaseLost):
            self._refuse(str(error))
        return error

    async def _open(self) -> None:
        reply, sent = await self._request(
            open_words(self.name, self.ttl, self.linger))
        self.id, self.secret = str(reply['id']), reply['secret']
        self._answered(reply, sent)

    async def _end(self) -> None:
        """The session's locks go to the next in line."""
        if self.id and self.state() is not State.LOST:
            try:
                await self._request(['SESSION.CLOSE'])
            except HaspError:
                pass  # Its lease runs out by itself.
        self._refuse('it has been closed')

    # --- requests ---------------------------------------------------------

    async def _request(self, words: Sequence[resp.Argument],
                       until: Optional[float] = None,
                       timeout: Optional[float] = None) -> Tuple[Any, Clock]:
        """Asks until there is an answer. 'until' is the end of a wait for a
        lock, the time-out counts from there. Gives the reply and the clock
        before the answered request was sent."""
        limit = (time.monotonic() if until is None else until) + \
            (self.timeout if timeout is None else timeout)
        trouble = Trouble()
        for attempt in itertools.count(1):
            self._check()
            endpoint = self._endpoint(self._turn)
            line, is_sent = None, False
            try:
                line = await self._take()
                endpoint = line.endpoint
                more, patience = wait_words(until)
                sent, is_sent = read_clock(), True
                reply = await line.ask(min(patience, limit - time.monotonic()),
                                       *words, *more)
                if not isinstance(reply, resp.ReplyError):
                    self._put(line)
                    return reply, sent
                refusal = self._refusal(reply)
                if not isinstance(refusal, (Unreachable, Unknown)):
                    self._put(line)
                    raise refusal
                trouble.note(endpoint, refusal, reply.code == 'UNKNOWN')
            except OSError as error:
                trouble.note(endpoint, error, is_sent)
            except BaseException:  # An interruption, for one.
                self._fail(line)
                raise
            self._fail(line)
            pause = retry_pause(attempt)
            if time.monotonic() + pause >= limit:
                self._check()
                raise trouble.error()
            if attempt % len(self.endpoints) == 0:
                await self._sleep(pause)
        raise AssertionError

    def _endpoint(self, turn: int) -> Endpoint:
        return self.endpoints[turn % len(self.endpoints)]

    async def _take(self) -> Connection:
        with self._pool:
            line = self._idle.pop() if self._idle else None
            turn = self._turn
        if line is None:
            line = await self._connect(turn, CONNECT_TIMEOUT)
        with self._pool:
            self._busy.add(line)
        return line

    def _put(self, line: Connection) -> None:
        with self._pool:
            self._busy.discard(line)
            if len(self._idle) < IDLE_MAX:
                self._idle.append(line)
                return
        line.close()

    def _fail(self, line: Optional[Connection]) -> None:
        if line is not None:
            with self._pool:
                self._busy.discard(line)
            line.close()
            self._turn_from(line.turn)

    def _turn_from(self, turn: int) -> None:
        """The next connection goes to another node."""
        with self._pool:
            if self._turn == turn:
                self._turn += 1

    def _drop(self) -> None:
        """Closes what is idle; requests under way get an OSError."""
        with self._pool:
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for line in busy:
            line.interrupt()
        for line in idle:
            line.close()

    async def _connect(self, turn: int, timeout: float) -> Connection:
        """Greets, and tells the node whose connection it is."""
        line = self._connection(self._endpoint(turn), turn)
        greetings: List[Tuple[resp.Argument, ...]] = [('HELLO', 3)]
        if self.id:
            greetings.append(('SESSION.ATTACH', self.id, self.secret))
        try:
            await line.open(timeout)
            for words in greetings:
                reply = await line.ask(timeout, *words)
                if isinstance(reply, resp.ReplyError):
                    refusal = self._refusal(reply)
                    raise refusal if isinstance(refusal, LeaseLost) else \
                        OSError(str(refusal))  # Another node may know us.
        except BaseException:
            line.close()
            self._turn_from(turn)
            raise
        return line

    # --- keeping it alive -------------------------------------------------

    async def _keep(self) -> None:
        next_beat = time.monotonic() + self._lease.beat_interval() / 5
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
                            max(self.remaining(), 0.02))):
                    next_beat = time.monotonic()
        finally:
            self._hang_up()

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
        interval = self._lease.beat_interval()
        patience = max(0.05, interval)
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
            return self._lease.beat_interval()
        except LeaseLost:
            pass
        except (OSError, HaspError) as error:
            host, port = self._endpoint(turn)
            self._why = 'no heartbeat was answered in time, last: ' \
                f'{host}:{port}: {error}'
            if isinstance(error, socket.timeout):
                self._suspect(self._endpoint(turn))
        self._hang_up()
        return min(interval, random.uniform(0.02, 0.2))

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
        self._lease.answered(sent, reply['ttl_ms'] / 1000,
                             (reply.get('linger_ms') or 0) / 1000)
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

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError

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
