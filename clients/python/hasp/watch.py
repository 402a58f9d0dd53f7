# SPDX-License-Identifier: MIT
"""Watches of locks, and observers of elections."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Deque, NamedTuple, Optional

from . import resp
from .connection import Connection, within
from .errors import Unreachable
from .keeper import Keeper
from .request import CONNECT_TIMEOUT, is_of_asker, retry_pause

BACKLOG_MAX = 10000  # Unread changes; beyond that there is a gap.


class Change(NamedTuple):
    """'kind': granted, queued, wait-ended, released, expired, delayed,
    delay-over, blacklisted, please; or 'gap': changes might have been missed
    before this one; read the locks again with LOCK.SHOW."""
    kind: str
    name: str = ''
    session: int = 0
    token: int = 0
    index: int = 0  # The index in the cluster's log; it grows.
    text: str = ''


class Changes:
    """Changes of all locks whose names begin with 'prefix'. The connection is
    opened for the first change and, if it fails, again at another node."""

    def __init__(self, session: Keeper, prefix: str) -> None:
        self._session, self._prefix = session, prefix
        self._found: Deque[Change] = deque()
        self._news = asyncio.Event()
        self._link = session._link.another()  # It has a connection of its own.
        self._line: Optional[Connection] = None
        self._is_closed = False

    async def _next(self) -> Optional[Change]:
        """The next change; None: the watch was closed. Raises LeaseLost if the
        session is lost."""
        attempt = 0
        while not self._found and not self._is_closed:
            self._news.clear()
            self._session._check()
            if self._line and not self._line.error:
                await self._news.wait()
                continue
            try:
                await self._begin()
            except (OSError, Unreachable):
                attempt += 1
                await asyncio.sleep(retry_pause(attempt))
        return None if self._is_closed else self._found.popleft()

    def _again(self, change: Optional[Change]) -> None:
        """Puts back a change that no caller received."""
        if change:
            self._found.appendleft(change)

    async def _begin(self) -> None:
        session, is_again = self._session, self._line is not None
        session._check()
        line = await self._link.connect()
        if line.error:
            self._link.skip()
            raise line.error
        self._line = line
        line.on_push, line.on_close = self._take, self._news.set
        reply = await within(CONNECT_TIMEOUT,
                             line.ask('LOCK.WATCH', self._prefix))
        if isinstance(reply, resp.ReplyError):
            line.close()
            if is_of_asker(reply) and self._link.denied(line, str(reply)):
                raise OSError(str(reply))
            raise session._refusal(reply)
        if is_again:
            self._found.appendleft(Change('gap'))

    def _take(self, push: resp.Push) -> None:
        told = push[2]
        self._found.append(Change(push[1], told['lock'], told['session'],
                                  told['token'], told['index'],
                                  told['message']))
        self._news.set()
        if len(self._found) > BACKLOG_MAX and self._line:
            self._line.close()

    def _stop(self) -> None:
        self._is_closed = True
        if self._line:
            self._line.close()
        self._news.set()


class Leader(NamedTuple):
    """The holder of an election's lock."""
    value: str
    token: int
    client: str  # The name of its session.


async def leader_of(session: Keeper, name: str) -> Optional[Leader]:
    for holder in (await session._ask('LOCK.SHOW', name))['holders']:
        return Leader(holder['value'], holder['token'], holder['client'])
    return None


class Leaders(Changes):
    """Yields the current leader of an election, then each new one."""

    _last: Optional[Leader] = None
    _is_told = False

    def _again(self, _: Any) -> None:
        self._is_told = False

    async def _next_leader(self) -> Optional[Leader]:
        """The next leader. None: there is none, or the watch was closed."""
        while not self._is_closed:
            if self._is_told:
                change = await self._next()
                if change and change.name not in ('', self._prefix):
                    continue
            elif self._line is None:
                await self._begin()
            leader = await leader_of(self._session, self._prefix)
            if leader != self._last or not self._is_told:
                self._last, self._is_told = leader, True
                return leader
        return None
