# SPDX-License-Identifier: MIT
"""One connection to one node, but for how it waits: see hasp.core."""

from __future__ import annotations

import socket
import time
from typing import Any, Callable, Optional

from . import resp
from .request import Endpoint


class Connection:
    """To one node. How it waits is another's: open(), _send() and _read() end
    with an OSError if the connection fails, and with socket.timeout, which is
    one, if that takes longer than 'timeout' seconds."""

    def __init__(self, endpoint: Endpoint, turn: int) -> None:
        self.endpoint, self.turn = endpoint, turn
        self.on_push: Optional[Callable[[resp.Push], None]] = None
        self._parser = resp.Parser()

    async def open(self, timeout: float) -> None:
        raise NotImplementedError

    async def _send(self, data: bytes, timeout: float) -> None:
        raise NotImplementedError

    async def _read(self, timeout: float) -> bytes:
        raise NotImplementedError

    def interrupt(self) -> None:
        """Makes who waits on it get an OSError."""
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    async def ask(self, timeout: float, *words: resp.Argument) -> Any:
        """Gives the reply, a ReplyError included."""
        until = time.monotonic() + timeout
        await self._send(resp.encode(*words), timeout)
        return await self._reply(until)

    async def listen(self, timeout: float) -> None:
        """Takes what comes unasked, for so long."""
        try:
            await self._reply(time.monotonic() + timeout)
        except socket.timeout:
            pass

    async def _reply(self, until: float) -> Any:
        while True:
            try:
                reply = self._parser.next()
            except resp.Incomplete:
                data = await self._read(until - time.monotonic())
                if not data:
                    raise ConnectionResetError(
                        'closed the connection') from None
                self._parser.feed(data)
                continue
            if not isinstance(reply, resp.Push):
                return reply
            if self.on_push:
                self.on_push(reply)


def tune(raw: socket.socket) -> None:
    """A node that is gone is noticed within seconds, where the system can."""
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (('TCP_NODELAY', 1), ('TCP_KEEPIDLE', 2),
                          ('TCP_KEEPINTVL', 1), ('TCP_KEEPCNT', 3),
                          ('TCP_USER_TIMEOUT', 5000)):
        if hasattr(socket, option):
            raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
