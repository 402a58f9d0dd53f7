# SPDX-License-Identifier: MIT
"""The lease of a session, and its requests.

All of it is asyncio and runs in one event loop: the program's own (hasp.aio),
or one on a background thread (hasp.threads). Every change carries a request
number: after a lost connection it is sent again, through another node, and
takes effect once.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import socket
import time
from functools import partial
from typing import (Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Set, Tuple, Union)

from . import resp
from .connection import Connection, settle
from .credentials import credentials_of
from .errors import HaspError, LeaseLost, Refused, Unknown, Unreachable
from .grant import Beliefs
from .lease import Clock, Lease, State, read_clock, to_seconds
from .link import Denied, Link
from .request import (ACTING, LEAVES, TIMER_MAX, Endpoint, Forgotten, Owners,
                      Trouble, Wait, check_durations, closes_session,
                      default_name, goes_alone, is_of_asker, is_of_other,
                      is_opened, judge, open_words, parse_endpoints,
                      retry_pause, show_endpoint)
from .secret import SecretFile
from .tie import Tie
from .tls import Tls

LOG = logging.getLogger('hasp')
FULL = 'LIMIT sessions of a connection'
STRANGE = 'the peer is not a hasp node: an unexpected answer'


class Answer(NamedTuple):
    """'sent' is the time just before the answered request was sent."""
    reply: Any
    sent: Clock
    line: Connection


class Core:
    """The part of a session that its locks use."""

    def __init__(self, endpoints: Union[None, str, Sequence[str]], name: str,
                 ttl: float, linger: float, timeout: float,
                 tls: Tls = None, secret_file: SecretFile = None,
                 durable: bool = False, reason: str = '',
                 own_connection: bool = False,
                 tie: Optional[Tie] = None) -> None:
        check_durations(ttl=ttl, linger=linger, timeout=timeout)
        self.endpoints = parse_endpoints(endpoints)
        credentials = credentials_of(tls, secret_file)
        # Sessions with equal keys share a connection. The lease is part of the
        # key because the heartbeat interval is one for the whole connection.
        self._link_key = None if own_connection else (
            tuple(self.endpoints), credentials, durable or (ttl, linger))
        self._link = Link(self.endpoints, credentials)
        self.name = name or default_name()
        self.ttl, self.linger, self.timeout = ttl, linger, timeout
        self.durable, self.reason = durable, reason
        self.id = self._secret = ''
        self._tie = tie
        self._pid = os.getpid()
        self._lease = Lease()
        self._owners = Owners()
        self._beliefs = Beliefs()
        self._held: Set[Any] = set()  # The lock objects (hasp.hold.Hold).
        self._doubts: Set[Any] = set()  # Holds with an unknown outcome.
        self._acquiring: Set[Any] = set()  # Holds being requested.
        self._why = 'the lease has run out'
        self._is_closed = False
        self._has_joined = False
        # SESSION.OPEN requests with their connections; see _close_opened().
        self._opening: List[Tuple[Connection, asyncio.Future[Any]]] = []
        self._waits: Set[Wait] = set()
        # Futures that requests wait for; they end with the session.
        self._futures: Set[asyncio.Future[Any]] = set()

    def __repr__(self) -> str:
        state = 'inherited from a parent' if self._pid != os.getpid() else \
            f'{self.state().value}, {self.remaining():.3f} s left'
        return f'<hasp session {self.name!r} {self.id}: {state}>'

    def state(self) -> State:
        """HELD, JEOPARDY (no contact) or LOST. Sends no request."""
        self._check_process()
        return self._lease.state(read_clock())

    def remaining(self) -> float:
        """Seconds for which the session's holds can be trusted; math.inf for a
        durable session. Sends no request."""
        return to_seconds(self._remaining())

    def _remaining(self) -> int:
        self._check_process()
        return self._lease.remaining(read_clock())

    @property
    def secret(self) -> str:
        """With the id, it lets another process act for the session. HaspError
        while the session is, or can be, tied to this process: see untie()."""
        if self._tie and not self._tie.may_be_handed_over():
            raise HaspError('the session is tied to this process, and ends with '
                            'it: call untie() before you hand it over')
        return self._secret

    def is_tied(self) -> bool:
        """True while the session is tied to this process (the option 'tie')."""
        return bool(self._tie and self._tie.is_tied and
                    self._pid == os.getpid())

    async def _untie(self) -> None:
        self._check()
        if self._tie:
            await self._tie.undo()

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise HaspError('this session belongs to the parent process; '
                            'open one in the child')

    def _check(self) -> None:
        self._check_process()
        if self._lease.state(read_clock()) is State.LOST:
            raise LeaseLost(f'the session is lost: {self._why}; open another '
                            'one')

    def _refuse(self, why: str) -> None:
        """Records that the session has ended."""
        if self.state() is not State.LOST:
            self._why = 'it was closed' if self._is_closed else why
        self._lease.refuse()
        self._changed()

    def _changed(self) -> None:
        """Called when the state might have changed; subclasses override it."""

    def _log(self, text: str, *arguments: Any) -> None:
        """Logs at DEBUG."""
        LOG.debug(text, *arguments)

    def _refusal(self, reply: resp.ReplyError,
                 is_doubtful: bool = False,
                 is_other: bool = False) -> HaspError:
        error = judge(reply, is_doubtful)
        if is_other and isinstance(error, LeaseLost):
            return Refused(str(reply))
        if is_other:
            return error
        if self._lease.is_endless and reply.code == 'BLACKLISTED':
            error = LeaseLost(str(reply))  # There is no lease to wait for.
        if isinstance(error, LeaseLost):
            self._refuse(str(error))
        return error

    async def _open(self) -> None:
        secret = os.urandom(16).hex()
        words = open_words(self.name, self.ttl, self.linger, secret,
                           self.durable, self.reason)
        if self._tie:
            words += self._tie.words()
        answer = None
        while answer is None:
            if self._link_key:
                self._link = Link.join(self._link, self._link_key)
            self._has_joined = True
            try:
                answer = await self._request(words, fits=is_opened)
            except Refused as error:
                if not str(error).startswith(FULL) or not self._link.filled():
                    raise
                self._quit()
                self._link = self._link.another()
        reply, sent, line = answer
        self.id, self._secret = str(reply['id']), secret
        self._prolong(reply, sent)
        self._link.known.add(self)
        self._opening.clear()
        self._link.adopt(self, line)

    def _may_be_opened(self) -> bool:
        """True if a node might still answer that it opened the session."""
        return any(not asked.done() or not asked.exception() and
                   is_opened(asked.result()) for _, asked in self._opening)

    async def _close_opened(self) -> None:
        """Closes sessions whose OPEN was answered after the caller had left,
        since only this process knows them, then leaves the connection."""
        try:
            for line, asked in self._opening:
                # If there is none, the connection fails (ANSWER).
                reply = await asked
                if is_opened(reply):
                    await line.ask('SESSION.CLOSE', 'SESSION', reply['id'])
        except OSError:
            pass  # It ends by its lease.
        finally:
            self._quit()

    def _prolong(self, reply: Dict[str, Any], sent: Clock) -> None:
        """Renews the lease from the answer to an OPEN or KEEP sent at 'sent'.
        """
        if reply['ttl_ms'] is None:
            self._lease.answered_endless(sent)
        else:
            self._lease.answered(sent, reply['ttl_ms'],
                                 reply.get('linger_ms') or 0)
        self._changed()

    # --- requests ---------------------------------------------------------

    async def _ask(self, *words: resp.Argument) -> Any:
        if not words:
            raise TypeError('ask() needs a command, as in '
                            "ask('LOCK.SHOW', 'a')")
        if closes_session(words):
            raise ValueError('ask() does not close its own session: use '
                             'close()')
        is_other = is_of_other(words)
        if not goes_alone(words):
            return (await self._request(words, is_other=is_other)).reply
        link = self._link.another()
        try:
            return (await self._request(words, link=link,
                                        is_other=is_other)).reply
        finally:
            link.close()

    async def _request(self, words: Sequence[resp.Argument],
                       wait: Optional[Wait] = None,
                       timeout: Optional[float] = None,
                       is_doubtful: bool = False,
                       link: Optional[Link] = None,
                       fits: Callable[[Any], bool] = lambda _: True,
                       is_other: bool = False) -> Answer:
        """Sends the request until an answer fits. For a lock, the timeout counts
        from the end of the wait. 'is_doubtful': the request was sent before
        under this number. 'is_other': a refusal can concern another session.
        """
        limit = (wait.until if wait else time.monotonic()) + \
            (self.timeout if timeout is None else timeout)
        trouble = Trouble(limit, is_doubtful, is_other)
        if link is None and str(words[0]).upper() in ACTING:
            words = [*words, 'SESSION', self.id]
        if wait:
            self._waits.add(wait)
        try:
            for attempt in itertools.count(1):
                self._check()
                answer = await self._attempt(link or self._link, words, wait,
                                             limit, trouble, fits)
                if isinstance(answer, Answer):
                    return answer
                pause = retry_pause(attempt) if answer and (
                    answer not in LEAVES or
                    attempt % len(self.endpoints) == 0) else 0.0
                if time.monotonic() + pause >= trouble.latest():
                    self._check()
                    raise trouble.error()
                await asyncio.sleep(pause)
        finally:
            self._waits.discard(wait)  # type: ignore[arg-type]
        raise AssertionError

    async def _attempt(self, link: Link, words: Sequence[resp.Argument],
                       wait: Optional[Wait], limit: float, trouble: Trouble,
                       fits: Callable[[Any], bool]) -> Union[Answer, str]:
        """Returns the answer. If the request must be sent again, returns the
        error word of the refusal, or ''."""
        endpoint, is_sent = link.endpoint(), False
        try:
            line = link.line or await self._until(trouble.latest(),
                                                  link.opened())
            if time.monotonic() > trouble.latest():
                raise socket.timeout('no answer')
            endpoint = line.endpoint
            await self._ready(line, limit)
            is_sent = line.error is None
            sent = read_clock()
            asked = line.ask(*words, *(wait.words() if wait else ()))
            if words[0] == 'SESSION.OPEN':
                self._opening.append((line, asked))
                asked = asyncio.shield(asked)  # A late answer counts, too.
            reply = await self._until(limit, asked)
        except OSError as error:
            self._log('%s: %s: %r', show_endpoint(endpoint), words, error)
            if isinstance(error, Denied) and not trouble.is_doubtful and \
                    not link.denied(line, str(error)):
                raise self._refusal(error.refusal) from None
            trouble.note(endpoint, error, is_sent)
            return ''
        self._log('%s: %s: %s', show_endpoint(endpoint), words, reply)
        if wait and wait.is_queued(reply):
            trouble.is_doubtful = True
            if line is link.line:
                await self._park(wait, limit)
            reply = wait.granted()
            if reply is None:
                return ''
        if not isinstance(reply, resp.ReplyError):
            if not fits(reply):
                line.fail(OSError(STRANGE))
                trouble.note(endpoint, OSError(STRANGE), True)
                return ''
            link.worked(line)
            return Answer(reply, sent, line)
        if is_of_asker(reply) and link.denied(line, str(reply)):
            trouble.note(endpoint, OSError(str(reply)), False)
            return ''
        refusal = self._refusal(reply, trouble.is_doubtful, trouble.is_other)
        if isinstance(refusal, Forgotten) or \
                not isinstance(refusal, (Unreachable, Unknown)):
            if not is_of_asker(reply):
                link.worked(line)
            raise refusal
        trouble.note(endpoint, refusal, reply.code == 'UNKNOWN')
        if reply.code in LEAVES:
            link.leave(line, str(refusal))
        return reply.code

    async def _park(self, wait: Wait, limit: float) -> None:
        """Waits until a push ends the wait, or the wait must be requested
        again."""
        if not wait.is_over():
            future = asyncio.get_running_loop().create_future()
            wait.wake = partial(settle, future, None)
            try:
                await self._until(min(wait.look(), (wait.until + limit) / 2),
                                  future)
            except OSError:
                pass

    async def _until(self, limit: float, future: asyncio.Future[Any]) -> Any:
        """Returns the future's result; raises an OSError at 'limit', or when
        the session ends."""
        timer = asyncio.get_running_loop().call_later(
            min(max(limit - time.monotonic(), 0.0), TIMER_MAX), settle, future,
            socket.timeout('no answer'))
        self._futures.add(future)
        try:
            return await future
        finally:
            self._futures.discard(future)
            timer.cancel()

    def _attach(self, line: Connection) -> None:
        """Attaches the session to the connection, unless it is attached
        already, is being attached, or has ended."""
        if self.id and self._has_joined and \
                not {self.id} & (line.attached | line.attaching.keys()):
            line.attaching[self.id] = []
            line.post(partial(self._attached, line), 'SESSION.ATTACH', self.id,
                      self._secret)

    def _attached(self, line: Connection, reply: Any) -> None:
        """Handles the answer to ATTACH. If ATTACH failed, the answers to the
        requests sent after it mean nothing."""
        outcome = reply if isinstance(reply, OSError) else None
        if isinstance(reply, resp.ReplyError):
            outcome = OSError(str(reply))
            refusal = self._refusal(reply)
            if is_of_asker(reply):
                line.fail(Denied(reply))
            elif isinstance(refusal, (Unreachable, Unknown)):
                # Another node might know the session.
                line.fail(OSError(str(refusal)))
            else:
                self._refuse(str(refusal))
        elif outcome is None:
            line.attached.add(self.id)
        for future in line.attaching.pop(self.id, ()):
            settle(future, outcome)

    async def _ready(self, line: Connection, limit: float) -> None:
        """Waits until the session, if it is open, is attached to the
        connection."""
        self._attach(line)
        if self.id in line.attaching:
            future = asyncio.get_running_loop().create_future()
            line.attaching[self.id].append(future)
            await self._until(limit, future)

    # --- called by the link -----------------------------------------------

    def _connected(self) -> None:
        """Called when there is a new connection; urgent requests are sent
        first."""
        line = self._link.line
        if line:
            line.when_idle(partial(self._attach, line))

    def _disconnected(self, endpoint: Endpoint, why: str) -> None:
        """Called when the connection was lost or could not be opened."""
        for wait in self._waits:
            wait.wake()

    def _noticed(self, text: str) -> None:
        """Called with a text that people should know about the connection."""

    def _pushed(self, push: resp.Push) -> None:
        if push[1] == 'answer':
            for wait in list(self._waits):
                wait.pushed(push[2])

    def _abandon(self) -> None:
        """Refuses in a forked child, since the parent's sessions live on."""
        self._link.abandon()
        if self._tie and self._tie.agent:
            self._tie.agent.abandon()

    def _quit(self) -> None:
        """Leaves the connection; requests in flight get an OSError."""
        for future in list(self._futures):
            settle(future, ConnectionAbortedError('given up'))
        if self._tie:
            self._tie.end()
        if self._has_joined:
            self._has_joined = False
            self._link.quit(self)
