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
from typing import (Any, Callable, List, Optional, Sequence, Set, Tuple,
                    Union)

from . import resp
from .errors import (HaspError, LeaseLost, NotHeld, Refused, Unknown,
                     Unreachable)
from .lease import Clock, Lease, State, read_clock
from .session import (AGAIN, CONNECT_TIMEOUT, ENDED, acquire_words, hold_left,
                      parse_endpoints, without_wait)

LOST = (OSError, asyncio.TimeoutError, asyncio.IncompleteReadError)


class Connection:
    def __init__(self, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.parser = resp.Parser()
        self.on_push: Optional[Callable[[resp.Push], None]] = None

    @classmethod
    async def open(cls, endpoint: Tuple[str, int]) -> 'Connection':
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(*endpoint), CONNECT_TIMEOUT)
        raw = writer.get_extra_info('socket')
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000)
        connection = cls(reader, writer)
        await connection.ask(CONNECT_TIMEOUT, 'HELLO', 3)
        return connection

    async def ask(self, timeout: Optional[float],
                  *words: resp.Argument) -> Any:
        self.writer.write(resp.encode(*words))
        return await asyncio.wait_for(self._reply(), timeout)

    async def _reply(self) -> Any:
        await self.writer.drain()
        while True:
            try:
                reply = self.parser.next()
            except resp.Incomplete:
                data = await self.reader.read(65536)
                if not data:
                    raise ConnectionResetError('closed by the node') from None
                self.parser.feed(data)
                continue
            if not isinstance(reply, resp.Push):
                return reply
            if self.on_push:
                self.on_push(reply)

    def close(self) -> None:
        self.writer.close()


class Session:
    """As hasp.Session; open it with `async with` or `await session.open()`."""

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0,
                 on_event: Optional[Callable[[str, str], None]] = None
                 ) -> None:
        self.endpoints = parse_endpoints(endpoints)
        self.name = name or f'python:{os.getpid()}'
        self.ttl, self.linger, self.timeout = ttl, linger, timeout
        self.on_event = on_event
        self.id = self.secret = ''
        self._lease = Lease()
        self._idle: List[Connection] = []
        self._owners = itertools.count(1)
        self._doubts: Set['Lock'] = set()  # Whose last outcome is not known.
        self._keeper: Optional[asyncio.Task] = None

    async def open(self) -> 'Session':
        words: List[resp.Argument] = ['SESSION.OPEN', 'TTL',
                                      int(self.ttl * 1000), 'NAME', self.name]
        if self.linger:
            words += ['LINGER', int(self.linger * 1000)]
        reply, sent = await self._request(words, self.timeout)
        self.id, self.secret = str(reply['id']), reply['secret']
        self._times = (reply['ttl_ms'] / 1000,
                       (reply.get('linger_ms') or 0) / 1000)
        self._lease.answered(sent, *self._times)
        # Connections from before the session do not act for it.
        self._drop_idle()
        self._keeper = asyncio.create_task(self._keep())
        return self

    def lock(self, name: str, **options: Any) -> 'Lock':
        return Lock(self, name, **options)

    def state(self) -> State:
        return self._lease.state(read_clock())

    def remaining(self) -> float:
        return self._lease.remaining(read_clock())

    async def close(self) -> None:
        if self._keeper:
            self._keeper.cancel()
        if self.state() is not State.LOST:
            try:
                await self._request(['SESSION.CLOSE'], self.timeout)
            except HaspError:
                pass  # Its lease runs out by itself.
        self._lease.refuse()
        self._drop_idle()

    async def __aenter__(self) -> 'Session':
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    async def _connect(self, attempt: int) -> Connection:
        endpoint = self.endpoints[attempt % len(self.endpoints)]
        connection = await Connection.open(endpoint)
        if self.id:
            reply = await connection.ask(CONNECT_TIMEOUT, 'SESSION.ATTACH',
                                         self.id, self.secret)
            if isinstance(reply, resp.ReplyError):
                connection.close()
                raise reply
        return connection

    async def _request(self, words: Sequence[resp.Argument], timeout: float,
                       wait: Optional[float] = 0.0) -> Tuple[Any, Clock]:
        """Asks until there is an answer; see hasp.session."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + timeout
        first = random.randrange(len(self.endpoints))
        doubt: Optional[HaspError] = None
        for attempt in itertools.count():
            connection = self._idle.pop() if self._idle else None
            sent = read_clock()
            is_sent = connection is not None
            try:
                if connection is None:
                    connection = await self._connect(first + attempt)
                sent, is_sent = read_clock(), True
                reply = await connection.ask(
                    None if wait is None else timeout + wait, *words)
                if not isinstance(reply, resp.ReplyError):
                    self._idle.append(connection)
                    return reply, sent
                self._idle.append(connection)
                last = self._refused(reply)
            except resp.ReplyError as error:
                last = self._refused(error)
            except LOST as error:
                if connection is not None:
                    connection.close()
                last = Unknown(f'connection lost: {error}') if is_sent else \
                    Unreachable(f'no node could be used: {error}')
            except asyncio.CancelledError:
                if connection is not None:
                    connection.close()
                raise
            if wait is None and self.id and self.state() is not State.LOST:
                deadline = max(deadline, clock() + 1)
            doubt = last if isinstance(last, Unknown) else doubt
            if clock() >= deadline:
                raise doubt or last  # An earlier attempt may have been done.
            await asyncio.sleep(random.uniform(0.02, 0.1) *
                                min(attempt + 1, 5))
        raise HaspError('not reached')

    def _refused(self, error: resp.ReplyError) -> HaspError:
        if error.code in AGAIN:
            return Unknown(str(error)) if error.code == 'UNKNOWN' else \
                Unreachable(str(error))
        if error.code in ENDED:
            self._lease.refuse()
            raise LeaseLost(str(error))
        raise (NotHeld if error.code == 'NOTHELD' else Refused)(str(error))

    async def _keep(self) -> None:
        connection: Optional[Connection] = None
        told, turn = State.HELD, 0
        interval = self._lease.beat_interval()
        while told is not State.LOST:
            await asyncio.sleep(interval)
            connection, is_ok = await self._beat(connection, turn)
            turn += not is_ok
            if is_ok and self._doubts:
                asyncio.create_task(self._settle_doubts())
            interval = self._lease.beat_interval() if is_ok else \
                random.uniform(0.02, 0.2)
            state = self.state()
            if state is not told and self.on_event:
                self.on_event('safe' if state is State.HELD else
                              state.value, '')
            told = state

    async def _settle_doubts(self) -> None:
        for lock in list(self._doubts):
            if not lock._mutex.locked():
                async with lock._mutex:
                    try:
                        await lock._settle()
                    except HaspError:
                        pass  # Again after the next heartbeat.

    async def _beat(self, connection: Optional[Connection], turn: int
                    ) -> Tuple[Optional[Connection], bool]:
        try:
            if connection is None:
                connection = await self._connect(turn)
                connection.on_push = self._pushed
            sent = read_clock()
            reply = await connection.ask(
                max(0.05, self._lease.beat_interval()), 'SESSION.KEEP')
            if isinstance(reply, resp.ReplyError):
                raise reply
            self._lease.answered(sent, *self._times)
            return connection, True
        except resp.ReplyError as error:
            if error.code in ENDED:
                self._lease.refuse()
        except LOST:
            pass
        if connection is not None:
            connection.close()
        return None, False

    def _pushed(self, push: resp.Push) -> None:
        if len(push) >= 3 and push[1] == 'please' and self.on_event:
            self.on_event('please', str(push[2].get('message', '')))


class Lock:
    """As hasp.Lock, with awaitable acquire() and release()."""

    def __init__(self, session: Session, name: str, *, owner: str = '',
                 **options: Any) -> None:
        self.session, self.name, self.options = session, name, options
        self.owner = owner or f'{os.getpid()}-{next(session._owners)}'
        self.token: Optional[int] = None
        self._req = self._count = 0
        self._hold_since: Optional[Clock] = None
        self._doubt: List[resp.Argument] = []
        self._mutex = asyncio.Lock()

    async def _change(self, words: List[resp.Argument],
                      wait: Optional[float] = 0.0) -> Tuple[Any, Clock]:
        """As hasp.Lock: the clock is that of the first attempt."""
        await self._settle()
        self._req += 1
        words = words + ['REQ', self._req, 'ACKED', self._req - 1]
        first = read_clock()
        try:
            reply, _ = await self.session._request(
                words, self.session.timeout, wait)
        except (Unknown, asyncio.CancelledError):
            self._doubt = without_wait(words)
            self.session._doubts.add(self)
            raise
        return reply, first

    async def _settle(self) -> None:
        """Clears up a change whose outcome is not known; see hasp.Lock."""
        if not self._doubt:
            return
        words, reply = self._doubt, None
        try:
            reply, _ = await self.session._request(words, self.session.timeout)
        except (NotHeld, Refused):
            pass
        self._doubt = []
        self.session._doubts.discard(self)
        if words[0] == 'LOCK.ACQUIRE' and reply is not None:
            await self._change(['LOCK.RELEASE', self.name, 'OWNER',
                                self.owner])

    async def acquire(self, timeout: Optional[float] = None) -> bool:
        """Waits up to 'timeout' seconds (None: for ever, 0: not at all)."""
        async with self._mutex:
            words = acquire_words(self.name, owner=self.owner,
                                  timeout=timeout, **self.options)
            try:
                token, first = await self._change(words, timeout)
            except asyncio.CancelledError:
                await asyncio.shield(self._give_up())
                raise
            if token is None:
                return False
            self.token = token
            self._count += 1
            if self.options.get('hold') and self._count == 1:
                self._hold_since = first
            return True

    async def _give_up(self) -> None:
        """Leaves the queue; gives back a grant that came all the same."""
        try:
            await self._settle()
        except HaspError:
            pass  # The keeper goes on trying.

    async def release(self) -> None:
        async with self._mutex:
            self._count = max(0, self._count - 1)
            if self._count == 0:
                self.token, self._hold_since = None, None
            await self._change(['LOCK.RELEASE', self.name, 'OWNER',
                                self.owner])

    def remaining(self) -> float:
        """Seconds for which the hold may be trusted; 0 if it is not held."""
        if self._count == 0:
            return 0.0
        return hold_left(self.session.remaining(), self._hold_since,
                         self.options.get('hold', 0))

    def guard(self, need: float) -> None:
        """Raises LeaseLost unless a step of 'need' seconds ends in time."""
        if self.remaining() < need:
            raise LeaseLost(f'"{self.name}": {self.remaining():.3f} s left of '
                            f'the lease, {need:.3f} s needed')

    async def __aenter__(self) -> 'Lock':
        await self.acquire()
        return self

    async def __aexit__(self, *_: Any) -> None:
        try:
            await self.release()
        except (NotHeld, LeaseLost):
            pass  # It has passed on already.
