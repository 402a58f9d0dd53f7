# SPDX-License-Identifier: MIT
"""The same for asyncio: `async with Session() as s, s.lock('orders') as lock:`.

The clock rules are those of hasp.lease; one task keeps the session alive. A
task that is cancelled while it waits for a lock leaves the queue.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import socket
import time
from typing import (TYPE_CHECKING, Any, Callable, List, Optional, Sequence,
                    Set, Tuple, Union)

from . import resp
from .errors import HaspError, LeaseLost, Unknown, Unreachable
from .hold import Belief, Event, Hold, asked_for
from .lease import Clock, State, read_clock
from .request import (CONNECT_TIMEOUT, IDLE_MAX, Endpoint, Trouble,
                      default_name, open_words, parse_endpoints,
                      wait_until, wait_words)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hold import Options

LOST = (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError)


class Connection:
    def __init__(self, endpoint: Endpoint, turn: int) -> None:
        self.endpoint, self.turn = endpoint, turn
        self.parser = resp.Parser()
        self.on_push: Optional[Callable[[resp.Push], None]] = None

    async def open(self) -> 'Connection':
        self.reader, self.writer = await asyncio.open_connection(
            *self.endpoint)
        raw = self.writer.get_extra_info('socket')
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000)
        return self

    async def ask(self, timeout: float, *words: resp.Argument) -> Any:
        self.writer.write(resp.encode(*words))
        return await asyncio.wait_for(self._reply(), timeout)

    async def listen(self) -> None:
        """Takes what comes unasked, until the connection fails."""
        await self._reply()

    async def _reply(self) -> Any:
        await self.writer.drain()
        while True:
            try:
                reply = self.parser.next()
            except resp.Incomplete:
                data = await self.reader.read(65536)
                if not data:
                    raise ConnectionResetError('closed the connection') \
                        from None
                self.parser.feed(data)
                continue
            if not isinstance(reply, resp.Push):
                return reply
            if self.on_push:
                self.on_push(reply)

    def interrupt(self) -> None:
        """Makes a task that waits on it get an OSError."""
        self.reader.set_exception(ConnectionAbortedError('given up'))

    def close(self) -> None:
        self.writer.close()


class Session(Belief):
    """As hasp.Session; open it with `async with` or `await session.open()`.
    'on_event' is called by the loop."""

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0,
                 on_event: Optional[Callable[[Event], None]] = None) -> None:
        super().__init__(on_event)
        self.endpoints = parse_endpoints(endpoints)
        self.name = name or default_name()
        self.ttl, self.linger, self.timeout = ttl, linger, timeout
        self._turn = random.randrange(len(self.endpoints))
        self._idle: List[Connection] = []
        self._busy: Set[Connection] = set()
        self._tasks: Set['asyncio.Task[Any]'] = set()

    async def open(self) -> 'Session':
        reply, sent = await self._request(
            open_words(self.name, self.ttl, self.linger))
        self._opened(reply, sent)
        self._start(self._keep())
        return self

    def lock(self, name: str, **options: Unpack[Options]) -> 'Lock':
        """A lock by this name: see Lock for the options."""
        return Lock(self, name, **options)

    async def close(self) -> None:
        """Ends the session; its locks go to the next in line."""
        if self._pid == os.getpid():
            for task in self._tasks:
                task.cancel()
            if self.id and self.state() is not State.LOST:
                try:
                    await self._request(['SESSION.CLOSE'])
                except HaspError:
                    pass  # Its lease runs out by itself.
            self._refuse('it has been closed')
            self._drop()

    async def __aenter__(self) -> 'Session':
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    # --- requests ---------------------------------------------------------

    async def _request(self, words: Sequence[resp.Argument],
                       until: Optional[float] = None,
                       timeout: Optional[float] = None) -> Tuple[Any, Clock]:
        """Asks until there is an answer; see hasp.session."""
        limit = (time.monotonic() if until is None else until) + \
            (self.timeout if timeout is None else timeout)
        trouble = Trouble()
        for attempt in itertools.count(1):
            self._check()
            endpoint = self.endpoints[self._turn % len(self.endpoints)]
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
            except LOST as error:
                trouble.note(endpoint, error, is_sent)
            except asyncio.CancelledError:
                self._fail(line)
                raise
            self._fail(line)
            pause = random.uniform(0.02, 0.1) * min(attempt, 5)
            if time.monotonic() + pause >= limit:
                self._check()
                raise trouble.error()
            if attempt % len(self.endpoints) == 0:
                await asyncio.sleep(pause)
        raise AssertionError

    async def _take(self) -> Connection:
        if self._idle:
            line = self._idle.pop()
        else:
            turn = self._turn
            try:
                line = await self._connect(turn, CONNECT_TIMEOUT)
            except LOST:
                self._turn_from(turn)
                raise
        self._busy.add(line)
        return line

    def _put(self, line: Connection) -> None:
        self._busy.discard(line)
        if len(self._idle) < IDLE_MAX:
            self._idle.append(line)
        else:
            line.close()

    def _fail(self, line: Optional[Connection]) -> None:
        if line is not None:
            self._busy.discard(line)
            line.close()
            self._turn_from(line.turn)

    def _turn_from(self, turn: int) -> None:
        if self._turn == turn:
            self._turn += 1

    def _drop(self) -> None:
        """Closes what is idle; requests under way get an OSError."""
        for line in self._busy:
            line.interrupt()
        while self._idle:
            self._idle.pop().close()

    async def _connect(self, turn: int, timeout: float) -> Connection:
        line = Connection(self.endpoints[turn % len(self.endpoints)], turn)
        await asyncio.wait_for(line.open(), timeout)
        try:
            await line.ask(timeout, 'HELLO', 3)
            if self.id:
                reply = await line.ask(timeout, 'SESSION.ATTACH', self.id,
                                       self.secret)
                self._attached(reply)
        except BaseException:
            line.close()
            raise
        return line

    # --- the session's tasks ----------------------------------------------

    def _start(self, run: Any) -> 'asyncio.Task[Any]':
        task = asyncio.ensure_future(run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _emit(self, events: Sequence[Event]) -> None:
        for event in events if self.on_event else ():
            try:
                self.on_event(event)  # type: ignore
            except Exception as error:  # The program's; we go on.
                asyncio.get_running_loop().call_exception_handler(
                    {'message': 'on_event failed', 'exception': error})

    async def _keep(self) -> None:
        line: Optional[Connection] = None
        next_beat = time.monotonic() + self._lease.beat_interval() / 5
        try:
            while self.state() is not State.LOST:
                delay = min(next_beat - time.monotonic(),
                            max(self.remaining(), 0.02))
                if not await self._listen(line, delay):
                    line, next_beat = None, 0.0
                if time.monotonic() >= next_beat:
                    line = await self._beat(line)
                    interval = self._lease.beat_interval()
                    next_beat = time.monotonic() + (
                        interval if line else
                        min(interval, random.uniform(0.02, 0.2)))
                    if line and self._doubts:
                        self._start(self._settle_doubts())
                self._emit(self._news())
            self._drop()
        finally:
            if line is not None:
                line.close()

    async def _listen(self, line: Optional[Connection], delay: float) -> bool:
        """Waits; False if the connection has failed."""
        if line is None:
            await asyncio.sleep(delay)
            return True
        try:
            await asyncio.wait_for(line.listen(), max(0.0, delay))
        except asyncio.TimeoutError:
            return True
        except (*LOST, resp.ReplyError):
            self._fail(line)
            return False
        return True

    async def _beat(self, line: Optional[Connection]) -> Optional[Connection]:
        """The connection for the next one; None if it has failed."""
        patience = max(0.05, self._lease.beat_interval())
        turn = line.turn if line else self._turn
        endpoint = self.endpoints[turn % len(self.endpoints)]
        try:
            if line is None:
                line = await self._connect(turn, min(patience,
                                                     CONNECT_TIMEOUT))
                line.on_push = lambda push: self._emit(asked_for(push))
            sent = read_clock()
            reply = await line.ask(patience, 'SESSION.KEEP', 'FULL')
            if isinstance(reply, resp.ReplyError):
                raise self._refusal(reply)
            self._emit(self._answered(reply, sent))
            return line
        except LeaseLost:
            pass
        except (*LOST, HaspError, resp.ReplyError) as error:
            self._why = 'no heartbeat was answered in time, last: ' \
                f'{endpoint[0]}:{endpoint[1]}: {str(error) or "no answer"}'
            if isinstance(error, asyncio.TimeoutError):
                self._suspect(endpoint)
        except asyncio.CancelledError:
            if line is not None:
                line.close()
            raise
        if line is not None:
            line.close()
        self._turn_from(turn)
        return None

    def _suspect(self, endpoint: Endpoint) -> None:
        """As hasp.Session: what waits at a frozen node goes on elsewhere."""
        for line in self._busy:
            if line.endpoint == endpoint:
                line.interrupt()

    async def _settle_doubts(self) -> None:
        for lock in list(self._doubts):
            if not lock._mutex.locked():
                async with lock._mutex:
                    try:
                        await lock._settle()
                    except HaspError:
                        pass  # Again after the next heartbeat.


class Lock(Hold):
    """As hasp.Lock, with awaitable acquire() and release(). It is for one task:
    two that share it would both be let in."""

    session: Session

    def __init__(self, session: Session, name: str,
                 **options: Unpack[Options]) -> None:
        super().__init__(session, name, **options)
        self._mutex = asyncio.Lock()

    async def acquire(self, timeout: Optional[float] = None) -> bool:
        """Waits up to 'timeout' seconds (None: for ever, 0: not at all)."""
        until = wait_until(timeout)
        async with self._mutex:
            await self._settle()
            try:
                token = await self._change('LOCK.ACQUIRE', self._words(),
                                           until)
            except asyncio.CancelledError:
                await asyncio.shield(self._give_up())
                raise
            if token is None:
                return False
            if self._since is not None and until is not None:
                await self._ask_limit()
            self.session._check()
            return True

    async def release(self) -> None:
        """As hasp.Lock.release()."""
        async with self._mutex:
            self._released()
            await self._settle()
            await self._change('LOCK.RELEASE', [])

    async def _change(self, verb: str, more: List[resp.Argument],
                      until: Optional[float] = None) -> Any:
        first = self._begin(verb, more)
        try:
            reply, _ = await self.session._request(self._doubt, until)
            self._end()
        except BaseException as error:
            self._failed(error)
            raise
        if verb == 'LOCK.ACQUIRE' and reply is not None:
            self._granted(reply, first)
        self._rest()
        return reply

    async def _settle(self) -> None:
        """As hasp.Lock."""
        while self._doubt:
            reply = None
            try:
                reply, _ = await self.session._request(self._doubt)
            except (Unknown, Unreachable):
                raise
            except HaspError:
                pass  # It has not been done, or there is nothing to undo.
            self._settled(reply)

    async def _give_up(self) -> None:
        """Leaves the queue; gives back a grant that came all the same."""
        try:
            await self._settle()
        except HaspError:
            pass  # The keeper goes on trying.

    async def _ask_limit(self) -> None:
        try:
            self._limited(*await self.session._request(
                ['LOCK.SHOW', self.name], timeout=CONNECT_TIMEOUT))
        except HaspError:
            pass  # It is counted from before the wait.

    async def __aenter__(self) -> 'Lock':
        await self.acquire()
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        try:
            await self.release()
        except HaspError:
            if kind is None:
                raise  # Else what went wrong inside is the news.
