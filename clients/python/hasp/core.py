# SPDX-License-Identifier: MIT
"""The lease of a session, its connections and its requests.

All of it is asyncio, and runs in one event loop: the program's own (hasp.aio),
or one on a thread that serves those who use threads (hasp.threads). Every
change carries a request number: after a lost connection it is asked again,
through another node, and never done twice.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import random
import time
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Union

from . import resp
from .connection import Connection
from .errors import HaspError, LeaseLost, Unknown, Unreachable
from .lease import Clock, Lease, State, read_clock, to_seconds
from .request import (CONNECT_TIMEOUT, IDLE_MAX, Endpoint, Forgotten, Owners,
                      Trouble, default_name, judge, open_words,
                      parse_endpoints, retry_pause, show_endpoint, wait_words)
from .secret import SecretFile, greeting_of
from .tls import Tls, context_of

LOG = logging.getLogger('hasp')


class Core:
    """A session as its locks see it."""

    def __init__(self, endpoints: Union[None, str, Sequence[str]], name: str,
                 ttl: float, linger: float, timeout: float,
                 tls: Tls = None, secret_file: SecretFile = None,
                 durable: bool = False, reason: str = '') -> None:
        self.endpoints = parse_endpoints(endpoints)
        self.tls = context_of(tls)
        self._user = greeting_of(secret_file)
        self.name = name or default_name()
        self.ttl, self.linger, self.timeout = ttl, linger, timeout
        self.durable, self.reason = durable, reason
        self.id = self.secret = ''
        self._pid = os.getpid()
        self._lease = Lease()
        self._owners = Owners()
        self._held: Set[Any] = set()  # Of hasp.hold.Hold, as are ...
        self._doubts: Set[Any] = set()  # ... those of unknown outcome.
        self._why = 'the lease has run out'
        self._is_closed = False
        self._turn = random.randrange(len(self.endpoints))
        self._idle: List[Connection] = []
        self._busy: Set[Connection] = set()

    def __repr__(self) -> str:
        state = 'of the parent process' if self._pid != os.getpid() else \
            f'{self.state().value}, {self.remaining():.3f} s left'
        return f'<hasp session {self.name!r} {self.id}: {state}>'

    def state(self) -> State:
        """HELD, JEOPARDY (out of touch) or LOST; asks nobody."""
        self._check_process()
        return self._lease.state(read_clock())

    def remaining(self) -> float:
        """Seconds for which the session's holds may be trusted; math.inf of a
        durable one."""
        return to_seconds(self._remaining())

    def _remaining(self) -> int:
        self._check_process()
        return self._lease.remaining(read_clock())

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise HaspError('this session belongs to the parent process; '
                            'open one in the child')

    def _check(self) -> None:
        self._check_process()
        if self._lease.state(read_clock()) is State.LOST:
            raise LeaseLost('the session is lost, open another one: '
                            f'{self._why}')

    def _refuse(self, why: str) -> None:
        """The session has ended."""
        if self.state() is not State.LOST:
            self._why = 'it has been closed' if self._is_closed else why
        self._lease.refuse()
        self._changed()

    def _changed(self) -> None:
        """What is believed may be another now: who waits for that looks."""

    def _refusal(self, reply: resp.ReplyError,
                 is_doubtful: bool = False) -> HaspError:
        error = judge(reply, is_doubtful)
        if self._lease.is_endless and reply.code == 'BLACKLISTED':
            error = LeaseLost(str(reply))  # There is no lease to wait for.
        if isinstance(error, LeaseLost):
            self._refuse(str(error))
        return error

    async def _open(self) -> None:
        secret = os.urandom(16).hex()
        reply, sent = await self._request(
            open_words(self.name, self.ttl, self.linger, secret,
                       self.durable, self.reason))
        self.id, self.secret = str(reply['id']), secret
        self._prolong(reply, sent)

    def _prolong(self, reply: Dict[str, Any], sent: Clock) -> None:
        """The answer to OPEN or KEEP, which was sent then."""
        if reply['ttl_ms'] is None:
            self._lease.answered_endless(sent)
        else:
            self._lease.answered(sent, reply['ttl_ms'],
                                 reply.get('linger_ms') or 0)
        self._changed()

    # --- requests ---------------------------------------------------------

    async def _ask(self, *words: resp.Argument) -> Any:
        return (await self._request(words))[0]

    async def _request(self, words: Sequence[resp.Argument],
                       until: Optional[float] = None,
                       timeout: Optional[float] = None,
                       is_doubtful: bool = False) -> Tuple[Any, Clock]:
        """Asks until there is an answer. 'until' is the end of a wait for a
        lock, the time-out counts from there. 'is_doubtful': it was sent before,
        under this number. Gives the reply and the clock before the answered
        request was sent."""
        limit = (time.monotonic() if until is None else until) + \
            (self.timeout if timeout is None else timeout)
        trouble = Trouble(is_doubtful)
        for attempt in itertools.count(1):
            self._check()
            endpoint = self._endpoint(self._turn)
            line, is_sent = None, False
            try:
                line = await self._take()
                endpoint = line.endpoint
                more, patience = wait_words(until, self.durable)
                sent, is_sent = read_clock(), True
                reply = await line.ask(min(patience, limit - time.monotonic()),
                                       *words, *more)
                LOG.debug('%s: %s: %s', show_endpoint(endpoint), words,
                          reply)
                if not isinstance(reply, resp.ReplyError):
                    self._put(line)
                    return reply, sent
                refusal = self._refusal(reply, trouble.is_doubtful)
                if isinstance(refusal, Forgotten) or \
                        not isinstance(refusal, (Unreachable, Unknown)):
                    self._put(line)
                    raise refusal
                trouble.note(endpoint, refusal, reply.code == 'UNKNOWN')
            except OSError as error:
                LOG.debug('%s: %s: %r', show_endpoint(endpoint), words, error)
                trouble.note(endpoint, error, is_sent)
            except BaseException:  # A cancellation, for one.
                self._fail(line)
                raise
            self._fail(line)
            pause = retry_pause(attempt)
            if time.monotonic() + pause >= limit:
                self._check()
                raise trouble.error()
            if attempt % len(self.endpoints) == 0:
                await asyncio.sleep(pause)
        raise AssertionError

    def _endpoint(self, turn: int) -> Endpoint:
        return self.endpoints[turn % len(self.endpoints)]

    async def _take(self) -> Connection:
        line = None
        while self._idle and (line is None or line.error):
            line = self._idle.pop()
        if line is None or line.error:
            line = await self._connect(self._turn, CONNECT_TIMEOUT)
        self._busy.add(line)
        return line

    def _put(self, line: Connection) -> None:
        self._busy.discard(line)
        if len(self._idle) < IDLE_MAX and \
                self._lease.state(read_clock()) is not State.LOST:
            self._idle.append(line)
        else:
            line.close()

    def _fail(self, line: Optional[Connection]) -> None:
        if line is not None:
            self._busy.discard(line)
            line.close()
            self._turn_from(line.turn)

    def _turn_from(self, turn: int) -> None:
        """The next connection goes to another node."""
        if self._turn == turn:
            self._turn += 1

    def _drop(self) -> None:
        """Closes what is idle; requests under way get an OSError."""
        for line in [*self._idle, *self._busy]:
            line.close()
        self._idle.clear()

    async def _connect(self, turn: int, timeout: float,
                       attaches: bool = True) -> Connection:
        """Greets, and tells the node whose connection it is."""
        line = Connection(self._endpoint(turn), turn, self.tls)
        greetings: List[Tuple[resp.Argument, ...]] = [
            ('HELLO', 3, *self._user)]
        if self.id and attaches:
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
