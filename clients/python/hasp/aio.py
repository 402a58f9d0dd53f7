# SPDX-License-Identifier: MIT
"""The same for asyncio: `async with Session() as s, s.lock('orders') as lock:`.

One task keeps the session alive. A task that is cancelled while it waits for a
lock leaves the queue.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import (TYPE_CHECKING, Any, Awaitable, Optional, Sequence,
                    TypeVar)

from . import connection
from .errors import HaspError
from .hold import Hold
from .keeper import Event, Keeper
from .request import wait_until

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hold import Options

Result = TypeVar('Result')


async def within(timeout: float, what: Awaitable[Result]) -> Result:
    try:
        return await asyncio.wait_for(what, max(timeout, 0.0))
    except asyncio.TimeoutError:  # No OSError before Python 3.11.
        raise socket.timeout('timed out') from None


class Connection(connection.Connection):
    async def open(self, timeout: float) -> None:
        self._reader, self._writer = await within(
            timeout, asyncio.open_connection(*self.endpoint))
        connection.tune(self._writer.get_extra_info('socket'))

    async def _send(self, data: bytes, timeout: float) -> None:
        self._writer.write(data)
        await within(timeout, self._writer.drain())

    async def _read(self, timeout: float) -> bytes:
        return await within(timeout, self._reader.read(65536))

    def interrupt(self) -> None:
        self._reader.set_exception(ConnectionAbortedError('given up'))

    def close(self) -> None:
        if hasattr(self, '_writer'):
            self._writer.close()


class Session(Keeper):
    """As hasp.Session; open it with `async with` or `await session.open()`.
    'on_event' is called by the loop."""

    _connection = Connection

    async def open(self) -> 'Session':
        await self._open()
        self._keeper = asyncio.ensure_future(self._keep())
        return self

    def lock(self, name: str, **options: Unpack[Options]) -> 'Lock':
        """A lock by this name: see Lock for the options."""
        return Lock(self, name, **options)

    async def close(self) -> None:
        """Ends the session; its locks go to the next in line."""
        if self._pid == os.getpid():
            self._is_closed = True
            for task in self._keeper, self._resolver:
                if task:
                    task.cancel()
            await self._end()
            self._drop()

    async def __aenter__(self) -> 'Session':
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    # --- how it waits, and tells ------------------------------------------

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    _pause = _sleep  # close() cancels the keeper's task.

    def _start_settling(self) -> None:
        if not self._resolver or self._resolver.done():
            self._resolver = asyncio.ensure_future(self._settle_doubts())

    def _emit(self, events: Sequence[Event]) -> None:
        for event in events if self.on_event else ():
            try:
                self.on_event(event)  # type: ignore
            except Exception as error:  # The program's; we go on.
                asyncio.get_running_loop().call_exception_handler(
                    {'message': 'on_event failed', 'exception': error})


class Lock(Hold):
    """As hasp.Lock, with awaitable acquire() and release(). It is for one task:
    two that share it would both be let in."""

    def __init__(self, session: Session, name: str,
                 **options: Unpack[Options]) -> None:
        super().__init__(session, name, **options)
        self._mutex = asyncio.Lock()

    async def acquire(self, timeout: Optional[float] = None) -> bool:
        """Waits up to 'timeout' seconds (None: for ever, 0: not at all)."""
        until = wait_until(timeout)
        async with self._mutex:
            try:
                return await self._acquire(until)
            except asyncio.CancelledError:
                await asyncio.shield(self._give_up())
                raise

    async def release(self) -> None:
        """As hasp.Lock.release()."""
        async with self._mutex:
            await self._release()

    async def _give_up(self) -> None:
        """Leaves the queue, and gives back a grant that came all the same."""
        try:
            await self._settle()
        except HaspError:
            pass  # The keeper goes on trying.

    async def _try_enter(self) -> bool:
        return not self._mutex.locked() and await self._mutex.acquire()

    def _leave(self) -> None:
        self._mutex.release()

    async def __aenter__(self) -> 'Lock':
        await self.acquire()
        return self

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        try:
            await self.release()
        except HaspError:
            if kind is None:
                raise  # Else what went wrong inside is the news.
