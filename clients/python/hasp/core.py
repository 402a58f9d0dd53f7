# SPDX-License-Identifier: MIT
"""The lease of a session and its requests, written once for threads and asyncio,
as are hasp.hold and hasp.keeper.

Whatever may wait is a coroutine. In hasp.aio it waits in the event loop. In
hasp.session all that it awaits blocks its thread instead, so that a coroutine
comes to its end in one step. Every change carries a request number: after a
lost connection it is asked again, through another node, and never done twice.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
import time
from typing import Any, Dict, List, Optional, Sequence, Set, Tuple, Type, Union

from . import resp
from .connection import Connection
from .errors import HaspError, LeaseLost, Unknown, Unreachable
from .lease import SECOND, Clock, Lease, State, read_clock
from .request import (CONNECT_TIMEOUT, IDLE_MAX, Endpoint, Forgotten, Owners,
                      Trouble, default_name, judge, open_words,
                      parse_endpoints, retry_pause, wait_words)


class Core:
    """A session as its locks see it."""

    _connection: Type[Connection]

    def __init__(self, endpoints: Union[None, str, Sequence[str]], name: str,
                 ttl: float, linger: float, timeout: float) -> None:
        self.endpoints = parse_endpoints(endpoints)
        self.name = name or default_name()
        self.ttl, self.linger, self.timeout = ttl, linger, timeout
        self.id = self.secret = ''
        self._pid = os.getpid()
        self._lease = Lease()
        self._owners = Owners()
        self._held: Set[Any] = set()  # Of hasp.hold.Hold, as are ...
        self._doubts: Set[Any] = set()  # ... those of unknown outcome.
        self._why = 'the lease has run out'
        self._pool = threading.Lock()  # Over the next three; held briefly.
        self._turn = random.randrange(len(self.endpoints))
        self._idle: List[Connection] = []
        self._busy: Set[Connection] = set()

    def state(self) -> State:
        self._check_process()
        return self._lease.state(read_clock())

    def remaining(self) -> float:
        """Seconds for which the session's holds may be trusted."""
        return self._remaining() / SECOND

    def _remaining(self) -> int:
        self._check_process()
        return self._lease.remaining(read_clock())

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise HaspError('this session belongs to the parent process; '
                            'open one in the child')

    def _check(self) -> None:
        self._check_process()
        if self.id and self.state() is State.LOST:
            raise LeaseLost('the session is lost, open another one: '
                            f'{self._why}')

    def _refuse(self, why: str) -> None:
        self._why = why
        self._lease.refuse()

    def _refusal(self, reply: resp.ReplyError) -> HaspError:
        error = judge(reply)
        if isinstance(error, LeaseLost):
            self._refuse(str(error))
        return error

    async def _open(self) -> None:
        secret = os.urandom(16).hex()
        reply, sent = await self._request(
            open_words(self.name, self.ttl, self.linger, secret))
        self.id, self.secret = str(reply['id']), secret
        self._prolong(reply, sent)

    def _prolong(self, reply: Dict[str, Any], sent: Clock) -> None:
        """The answer to OPEN or KEEP, which was sent then."""
        self._lease.answered(sent, reply['ttl_ms'],
                             reply.get('linger_ms') or 0)

    async def _end(self) -> None:
        """The session's locks go to the next in line."""
        if self.id and self.state() is not State.LOST:
            try:
                await self._request(['SESSION.CLOSE'])
            except HaspError:
                pass  # Its lease runs out by itself.
        self._refuse('it has been closed')

    # --- requests ---------------------------------------------------------

    async def _request(self, words: Sequence[resp.Argument],
                       until: Optional[float] = None,
                       timeout: Optional[float] = None) -> Tuple[Any, Clock]:
        """Asks until there is an answer. 'until' is the end of a wait for a
        lock, the time-out counts from there. Gives the reply and the clock
        before the answered request was sent."""
        limit = (time.monotonic() if until is None else until) + \
            (self.timeout if timeout is None else timeout)
        trouble = Trouble()
        for attempt in itertools.count(1):
            self._check()
            endpoint = self._endpoint(self._turn)
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
                if isinstance(refusal, Forgotten) or \
                        not isinstance(refusal, (Unreachable, Unknown)):
                    self._put(line)
                    raise refusal
                trouble.note(endpoint, refusal, reply.code == 'UNKNOWN')
            except OSError as error:
                trouble.note(endpoint, error, is_sent)
            except BaseException:  # An interruption, for one.
                self._fail(line)
                raise
            self._fail(line)
            pause = retry_pause(attempt)
            if time.monotonic() + pause >= limit:
                self._check()
                raise trouble.error()
            if attempt % len(self.endpoints) == 0:
                await self._sleep(pause)
        raise AssertionError

    def _endpoint(self, turn: int) -> Endpoint:
        return self.endpoints[turn % len(self.endpoints)]

    async def _take(self) -> Connection:
        with self._pool:
            line = self._idle.pop() if self._idle else None
            turn = self._turn
        if line is None:
            line = await self._connect(turn, CONNECT_TIMEOUT)
        with self._pool:
            self._busy.add(line)
        return line

    def _put(self, line: Connection) -> None:
        with self._pool:
            self._busy.discard(line)
            if len(self._idle) < IDLE_MAX:
                self._idle.append(line)
                return
        line.close()

    def _fail(self, line: Optional[Connection]) -> None:
        if line is not None:
            with self._pool:
                self._busy.discard(line)
            line.close()
            self._turn_from(line.turn)

    def _turn_from(self, turn: int) -> None:
        """The next connection goes to another node."""
        with self._pool:
            if self._turn == turn:
                self._turn += 1

    def _drop(self) -> None:
        """Closes what is idle; requests under way get an OSError."""
        with self._pool:
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for line in busy:
            line.interrupt()
        for line in idle:
            line.close()

    async def _connect(self, turn: int, timeout: float) -> Connection:
        """Greets, and tells the node whose connection it is."""
        line = self._connection(self._endpoint(turn), turn)
        greetings: List[Tuple[resp.Argument, ...]] = [('HELLO', 3)]
        if self.id:
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

    async def _sleep(self, seconds: float) -> None:
        raise NotImplementedError
