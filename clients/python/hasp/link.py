# SPDX-License-Identifier: MIT
"""The connections of a process, which its sessions share."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import ssl
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, Hashable, List, Optional, Sequence

from . import resp
from .connection import Connection, settle, within
from .credentials import Credentials
from .known import known_at
from .request import CONNECT_TIMEOUT, Endpoint, is_of_asker, retry_pause

if TYPE_CHECKING:
    from .core import Core

LOG = logging.getLogger('hasp')
SESSIONS_MAX = 1000  # On one connection; a node accepts 4,096.
# Seconds between attempts while the nodes refuse the credentials.
DENIED_PAUSE = (0.1, 1.0)


class Denied(OSError):
    """The node refuses the credentials, or requires TLS."""

    def __init__(self, refusal: resp.ReplyError) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class Link:
    """One connection to one node at a time, shared by all sessions in an event
    loop that would open the same one. If it is lost, or its node is not usable,
    the link connects to the next node, as long as a session or a waiting
    request needs it; the heartbeats of the sessions are sent first then. The
    last session that leaves closes it."""

    _shared: Dict[Any, Link] = {}  # Links that more sessions can join.
    _key: Hashable = None

    def __init__(self, endpoints: Sequence[Endpoint],
                 credentials: Credentials) -> None:
        self._endpoints, self._credentials = endpoints, credentials
        self.known = known_at(endpoints)
        self._turn = random.randrange(len(endpoints))
        self._failed = 0  # Failed attempts in a row.
        self._is_denied = False  # The last node refused this client.
        self.patience = CONNECT_TIMEOUT  # Limit for a new connection.
        self.count = 1  # Users of the link.
        self.sessions: Dict[str, Core] = {}  # The open sessions among them.
        self.line: Optional[Connection] = None  # The open connection.
        self._waiting: List[asyncio.Future[Connection]] = []
        self._opener: Optional[asyncio.Task[None]] = None

    @classmethod
    def join(cls, made: Link, key: Hashable) -> Link:
        """Returns the link with this key in this loop, or 'made', which others
        can join from now on."""
        key = (asyncio.get_running_loop(), os.getpid(), key)
        for one in list(cls._shared):
            if one[0].is_closed():  # Its sessions were not closed.
                cls._shared.pop(one, None)
        found = cls._shared.get(key)
        if found is None or found.count == SESSIONS_MAX:
            found = cls._shared[key] = made
            found._key = key
        else:
            found.count += 1
        return found

    def quit(self, session: Core) -> None:
        """Leaves the link; the last user closes it. Otherwise the node is
        notified that this session has left, as if its connection had ended."""
        self.sessions.pop(session.id, None)
        self.count -= 1
        line = self.line
        if self.count == 0:
            self.close()
        elif line and session.id in line.attached:
            line.attached.discard(session.id)
            line.post(bool, 'SESSION.DETACH', 'SESSION', session.id)

    def filled(self) -> bool:
        """The node accepts no more sessions. Returns whether there were
        others."""
        if self._shared.get(self._key) is self:
            del self._shared[self._key]
        return self.count > 1

    def closed(self, session: Core) -> None:
        """The node has confirmed that the session is closed."""
        if self.line:
            self.line.attached.discard(session.id)

    def close(self) -> None:
        self.filled()  # No other session can join it.
        if self._opener:
            self._opener.cancel()
        if self.line:
            self.line.close()

    def another(self) -> Link:
        """Another link, for a connection that is not shared."""
        return Link(self._endpoints, self._credentials)

    def endpoint(self) -> Endpoint:
        """The endpoint of the connection, or of the next one."""
        return self._endpoints[self._turn % len(self._endpoints)]

    def adopt(self, session: Core, line: Connection) -> None:
        """Adds a session that was opened on this connection, and so is
        attached."""
        self.sessions[session.id] = session
        line.attached.add(session.id)
        if self.line is None:
            self._open_soon()
        elif self.line is not line:
            session._connected()

    def opened(self) -> asyncio.Future[Connection]:
        """Returns the next connection; its 'error' is set if it failed."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._open_soon()
        return future

    def worked(self, line: Connection) -> None:
        """Records that a node has done a request."""
        self.known.learn(line.cluster)
        self._failed = 0
        self._credentials.is_known = True

    def denied(self, line: Connection, why: str) -> bool:
        """Records that a node refused the credentials, or requires TLS. True:
        ask again on another connection, for which the files are read again.
        Credentials that were accepted before are retried until the files are
        right; others get one more attempt if the files have changed."""
        is_final = not (self._renewed() or self._credentials.is_known)
        if not is_final:
            self._is_denied = True
            self.leave(line, why)
        return not is_final

    def _renewed(self) -> bool:
        """Reads the certificates and the secret again. Returns whether they
        changed."""
        has_changed, why = self._credentials.renew()
        if why:
            self._notice(why)
        return has_changed

    def _notice(self, text: str) -> None:
        LOG.warning('%s', text)
        for session in list(self.sessions.values()):
            session._noticed(text)

    def leave(self, line: Connection, why: str) -> None:
        """Moves to the next node; earlier requests can still be answered on the
        old one."""
        if line is self.line:
            self._lost(why)
            line.retire()

    def _open_soon(self) -> None:
        if self._opener is None or self._opener.done():
            self._opener = asyncio.ensure_future(self._open())

    async def _open(self) -> None:
        while self.line is None and (self.sessions or self._waiting):
            if self._is_denied:
                # At most the time a heartbeat may wait for a connection.
                await asyncio.sleep(min(random.uniform(*DENIED_PAUSE),
                                        self.patience))
            elif self._failed and self._failed % len(self._endpoints) == 0:
                await asyncio.sleep(retry_pause(self._failed))
            line = await self.connect()
            if line.error:
                self._lost(str(line.error))
            else:
                self.line = line
                line.on_close = partial(self._broken, line)
                line.on_push = self._pushed
                for session in list(self.sessions.values()):
                    session._connected()
            waiting, self._waiting = self._waiting, []
            for future in waiting:
                settle(future, line)

    async def connect(self) -> Connection:
        """Opens a new connection, with no state from the old one. If 'error' is
        set it has failed."""
        self._renewed()
        line = Connection(self.endpoint(), self._credentials.context)
        self._is_denied = False
        is_stranger = False
        try:
            await line.open(self.patience)
            hello = await self._greet(line, 'HELLO', 3)
            why, notice = self.known.judge(line.endpoint, hello)
            if notice:
                self._notice(notice)
            if why:
                is_stranger = True
                raise OSError(why)
            line.cluster = hello.get('cluster') or '' \
                if isinstance(hello, dict) else ''
            if self._credentials.user:
                # Send a secret only to a node of the known cluster.
                await self._greet(line, *self._credentials.user)
        except ssl.SSLError as error:
            self._is_denied = self._credentials.is_known
            line.fail(error)
        except (OSError, ValueError) as error:  # An invalid host name.
            line.fail(error if isinstance(error, OSError) else
                      OSError(str(error)))
        except asyncio.CancelledError:
            line.close()
            raise
        if line.error and not is_stranger:
            self.known.missed(line.endpoint)
        return line

    async def _greet(self, line: Connection, *words: resp.Argument) -> Any:
        reply = await within(self.patience, line.ask(*words))
        if isinstance(reply, resp.ReplyError):
            self._is_denied = is_of_asker(reply)
            raise Denied(reply) if self._is_denied else OSError(str(reply))
        return reply

    def skip(self) -> None:
        """Makes the next connection go to another node."""
        self._turn += 1
        self._failed += 1

    def _broken(self, line: Connection) -> None:
        self._is_denied = isinstance(line.error, (Denied, ssl.SSLError))
        self._lost(str(line.error))

    def _lost(self, why: str) -> None:
        endpoint, self.line = self.endpoint(), None
        self.skip()
        for session in list(self.sessions.values()):
            session._disconnected(endpoint, why)
        if self.sessions:
            self._open_soon()

    def _pushed(self, push: resp.Push) -> None:
        """Handles a push, which names its session."""
        told: Any = push[2] if len(push) == 3 else None
        if isinstance(told, dict):
            session = self.sessions.get(str(told.get('session')))
            if session:
                session._pushed(push)

    def abandon(self) -> None:
        if self.line:
            self.line.abandon()
