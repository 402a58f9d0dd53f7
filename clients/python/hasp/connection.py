# SPDX-License-Identifier: MIT
"""One connection to one node."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Optional, TypeVar

from . import resp
from .request import SOCKET, Endpoint
from .tls import explained, peer_fault

Result = TypeVar('Result')


async def within(timeout: float, what: Awaitable[Result]) -> Result:
    """Its result, or socket.timeout, an OSError, after so many seconds. (Before
    Python 3.12 wait_for() may swallow a cancellation.)"""
    task = asyncio.ensure_future(what)
    try:
        if (await asyncio.wait({task}, timeout=max(timeout, 0.0)))[0]:
            return task.result()
        raise socket.timeout('no answer')
    finally:
        task.cancel()


class Connection(asyncio.Protocol):
    """Answers come in the order of the requests. Once it has failed ('error' is
    set) it is of no use any more: make another one."""

    def __init__(self, endpoint: Endpoint, turn: int,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        self.endpoint, self.turn, self.tls = endpoint, turn, tls
        self.on_push: Optional[Callable[[resp.Push], None]] = None
        self.on_close: Optional[Callable[[], None]] = None
        self.error: Optional[OSError] = None
        self._parser = resp.Parser()
        self._waiting: Deque[asyncio.Future[Any]] = deque()
        self._transport: Any = None

    async def open(self, timeout: float) -> None:
        host, port = self.endpoint
        loop = asyncio.get_running_loop()
        if port == 0:  # Nothing leaves the machine, so nothing is encrypted.
            await within(timeout, loop.create_unix_connection(
                lambda: self, host[len(SOCKET):]))
            return
        try:
            await within(timeout, loop.create_connection(
                lambda: self, host, port, ssl=self.tls,
                server_hostname=host if self.tls else None))
        except ssl.SSLError as error:
            raise explained(error) from error
        if self.tls:
            # As the handshake left it: the node may have closed since.
            fault = peer_fault(self._transport.get_extra_info('peercert'),
                               self.tls)
            if fault:
                self.fail(ssl.SSLError(fault))
                raise ssl.SSLError(fault)

    async def ask(self, timeout: float, *words: resp.Argument) -> Any:
        """Gives the reply, a ReplyError included. OSError if the connection
        fails, as it does if that takes longer than 'timeout' seconds."""
        if self.error:
            raise self.error
        loop = asyncio.get_running_loop()
        reply = loop.create_future()
        self._waiting.append(reply)
        timer = loop.call_later(max(timeout, 0.0), self.fail,
                                socket.timeout('no answer'))
        self._transport.write(resp.encode(*words))
        try:
            return await reply
        finally:
            timer.cancel()

    def fail(self, error: OSError) -> None:
        """Closes it; who waits gets the error."""
        if self.error:
            return
        self.error = error
        if self._transport:
            self._transport.abort()
        for reply in self._waiting:
            if not reply.done():
                reply.set_exception(error)
        if self.on_close:
            self.on_close()

    def close(self) -> None:
        self.fail(ConnectionAbortedError('given up'))

    def abandon(self) -> None:
        """Closes the copy of a forked child, and leaves the parent's alone."""
        raw = self._transport and self._transport.get_extra_info('socket')
        if raw is not None and raw.fileno() >= 0:
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, raw.fileno())
            os.close(null)

    # --- called by the event loop -----------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self.endpoint[1]:  # A socket of this machine has no TCP.
            tune(transport.get_extra_info('socket'))
        if self.error:  # Nobody waits for it any more.
            transport.abort()

    def connection_lost(self, error: Optional[Exception]) -> None:
        self.fail(explained(error) if isinstance(error, OSError) else
                  ConnectionResetError('closed the connection'))

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        try:
            while not self.error:
                reply = self._parser.next()
                if isinstance(reply, resp.Push):
                    if self.on_push:
                        self.on_push(reply)
                elif not self._waiting:
                    raise OSError('an answer that nobody asked for')
                elif not self._waiting[0].done():
                    self._waiting.popleft().set_result(reply)
                else:
                    self._waiting.popleft()  # Who asked has been cancelled.
        except resp.Incomplete:
            pass
        except OSError as error:
            self.fail(error)


def tune(raw: Any) -> None:
    """A node that is gone is noticed within seconds, where the system can."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (('TCP_NODELAY', 1), ('TCP_KEEPIDLE', 2),
                          ('TCP_KEEPINTVL', 1), ('TCP_KEEPCNT', 3),
                          ('TCP_USER_TIMEOUT', 5000)):
        if hasattr(socket, option):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
