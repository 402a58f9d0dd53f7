# SPDX-License-Identifier: MIT
"""One connection to one node."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from functools import partial
from typing import (Any, Awaitable, Callable, Deque, Dict, List, Optional, Set,
                    Tuple, TypeVar)

from . import resp
from .request import ANSWER, SOCKET, Endpoint
from .tls import explained, peer_fault

Result = TypeVar('Result')
# A node handles no later request of a connection until these are answered. The
# number in flight is limited, so that a heartbeat never waits for those of a
# thousand sessions.
BLOCKING = frozenset(('SESSION.OPEN', 'SESSION.ATTACH', 'SESSION.CLOSE'))
BLOCKING_MAX = 8
# Called once, with the reply (which can be a ReplyError) or with the OSError
# that ended the connection.
Taker = Callable[[Any], None]


async def within(timeout: float, what: Awaitable[Result]) -> Result:
    """Returns its result; raises socket.timeout, an OSError, after 'timeout'
    seconds. (Before Python 3.12 wait_for() can swallow a cancellation.)"""
    task = asyncio.ensure_future(what)
    try:
        if (await asyncio.wait({task}, timeout=max(timeout, 0.0)))[0]:
            return task.result()
        raise socket.timeout('no answer')
    finally:
        task.cancel()


def settle(future: asyncio.Future[Any], outcome: Any) -> None:
    """Settles the future unless it is done already."""
    if future.done():
        return
    if isinstance(outcome, OSError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


class Connection(asyncio.Protocol):
    """A connection to one node. Answers come in the order of the requests, and
    the requests of one turn of the loop are written together. A node that does
    not answer in time has failed. A failed connection ('error' is set) cannot
    be used again: open another one."""

    def __init__(self, endpoint: Endpoint,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        self.endpoint, self.tls = endpoint, tls
        self.cluster = ''  # The node's cluster, by the answer to HELLO.
        self.attached: Set[str] = set()  # Ids of the attached sessions.
        # Ids being attached, with the requests that wait.
        self.attaching: Dict[str, List[asyncio.Future[None]]] = {}
        self.on_push: Optional[Callable[[resp.Push], None]] = None
        self.on_close: Optional[Callable[[], None]] = None
        self.error: Optional[OSError] = None
        self._parser = resp.Parser()
        self._urgent: List[Tuple[Taker, bytes]] = []  # Not written, sent first.
        self._later: List[Tuple[Taker, bytes]] = []  # Not written, sent later.
        # Written; since when.
        self._waiting: Deque[Tuple[Taker, float]] = deque()
        self._blocking = 0  # Blocking requests in flight.
        self._blocked: Deque[Tuple[Taker, bytes]] = deque()  # To be sent next.
        # To be run when none is in flight.
        self._idle: Deque[Callable[[], None]] = deque()
        self._watch: Optional[asyncio.TimerHandle] = None
        self._is_retired = False
        self._transport: Any = None

    async def open(self, timeout: float) -> None:
        host, port = self.endpoint
        loop = asyncio.get_running_loop()
        # The data never leaves the machine, so it is not encrypted.
        if port == 0:
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
                raise ssl.SSLError(fault)

    def post(self, take: Taker, *words: resp.Argument,
             is_urgent: bool = False) -> None:
        """Sends a request. An urgent one is sent before all others that are not
        yet written."""
        data = resp.encode(*words)
        if self.error:
            take(self.error)
        elif str(words[0]).upper() in BLOCKING:
            self._blocked.append((take, data))
            self._unblock()
        else:
            self._put(take, data, is_urgent)

    def when_idle(self, action: Callable[[], None]) -> None:
        """Calls 'action', which posts a blocking request, when none is in flight.
        """
        self._idle.append(action)
        self._unblock()

    def _put(self, take: Taker, data: bytes, is_urgent: bool = False) -> None:
        if not (self._urgent or self._later):
            asyncio.get_running_loop().call_soon(self._write)
        (self._urgent if is_urgent else self._later).append((take, data))

    def _unblock(self) -> None:
        while self._blocking < BLOCKING_MAX and not self.error and \
                (self._blocked or self._idle):
            if self._blocked:
                take, data = self._blocked.popleft()
                self._blocking += 1
                self._put(partial(self._unblocked, take), data)
            else:
                self._idle.popleft()()

    def _unblocked(self, take: Taker, outcome: Any) -> None:
        self._blocking -= 1
        take(outcome)
        self._unblock()

    def ask(self, *words: resp.Argument) -> asyncio.Future[Any]:
        """Returns the reply, a ReplyError included; raises an OSError."""
        future = asyncio.get_running_loop().create_future()
        self.post(partial(settle, future), *words)
        return future

    def is_busy(self) -> bool:
        """True if a request is not answered yet."""
        return bool(self._waiting or self._urgent or self._later or
                    self._blocked)

    def _write(self) -> None:
        if not self.error:
            written = self._urgent + self._later
            self._urgent, self._later = [], []
            now = asyncio.get_running_loop().time()
            self._waiting.extend((take, now) for take, _ in written)
            self._transport.write(b''.join(data for _, data in written))
            if self._watch is None:
                self._look()

    def _look(self) -> None:
        """Checks how long the oldest request has waited for its answer."""
        self._watch = None
        if self._waiting and not self.error:
            loop = asyncio.get_running_loop()
            left = self._waiting[0][1] + ANSWER - loop.time()
            if left > 0:
                self._watch = loop.call_later(left, self._look)
            else:
                self.fail(socket.timeout('no answer'))

    def fail(self, error: OSError) -> None:
        """Closes the connection; requests without an answer get the error."""
        if self.error:
            return
        self.error = error
        if self._transport:
            self._transport.abort()
        if self._watch:
            self._watch.cancel()
        for take, _ in [*self._waiting, *self._urgent, *self._later,
                        *self._blocked]:
            take(error)
        if self.on_close:
            self.on_close()

    def close(self) -> None:
        self.fail(ConnectionAbortedError('given up'))

    def retire(self) -> None:
        """Closes the connection as soon as all requests are answered."""
        self.on_close = None
        self._is_retired = True
        if not self.is_busy():
            self.close()

    def abandon(self) -> None:
        """Closes the copy of a forked child, and leaves the parent's alone."""
        abandon(self._transport)

    # --- called by the event loop -----------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if self.endpoint[1]:  # A socket of this machine does not use TCP.
            tune(transport.get_extra_info('socket'))
        if self.error:  # It is no longer needed.
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
                    raise OSError('the peer is not a hasp node: an answer '
                                  'without a request')
                else:
                    self._waiting.popleft()[0](reply)
        except resp.Incomplete:
            if self._is_retired:
                self.retire()
        except OSError as error:
            self.fail(error)


def abandon(transport: Optional[Any]) -> None:
    """Closes a forked child's copy of a socket, and leaves the parent's alone."""
    raw = transport and transport.get_extra_info('socket')
    if raw is not None and raw.fileno() >= 0:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, raw.fileno())
        os.close(null)


def tune(raw: Any) -> None:
    """Lets the kernel detect a dead node within seconds, if it can."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (('TCP_NODELAY', 1), ('TCP_KEEPIDLE', 2),
                          ('TCP_KEEPINTVL', 1), ('TCP_KEEPCNT', 3),
                          ('TCP_USER_TIMEOUT', 5000)):
        if hasattr(socket, option):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
