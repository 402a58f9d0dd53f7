# SPDX-License-Identifier: MIT
"""Ties of this process's sessions to itself, at the agent of this host
(docs/agent.md). When the process dies, the agent ends them in the cluster.

Like everything of a session it runs in one event loop. A loop has one
connection for each path of an agent; if the connection ends, it connects and
ties again. The agent keeps a tie when a connection ends, so a session that was
once tied can be tied until UNTIE is answered. An agent that hangs or is away
delays nothing but wait() and undo().
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import socket
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from .connection import abandon, settle, within
from .errors import Unreachable
from .resp import Argument

KINDS = ('none', 'try', 'must')
SOCKET = '/run/hasp-agent/agent.sock'
TTL = 60.0  # Seconds: the default with a tie.
ANSWER = 1.0  # Seconds for an answer of the agent.
# Seconds after a failure, and after the agent's end, which many programs notice
# at once: a random part of JITTER is added.
RETRY, RETRY_MAX, JITTER = 0.1, 5.0, 0.9
ASKED_MAX = 64  # Lines that are sent and not answered.
LINE_MAX = 1024


def check_tie(tie: str, durable: bool, linger: float) -> None:
    if tie not in KINDS:
        raise ValueError(f"tie={tie!r}: expected 'none', 'try' or 'must'")
    if tie != 'none' and (durable or linger):
        raise ValueError('a session that is tied needs a ttl, and neither '
                         'linger nor durable')


def path_of(agent: Optional[str]) -> str:
    return agent or os.environ.get('HASP_AGENT') or SOCKET


def start_of_process() -> int:
    """When this process was started, field 22 of /proc/self/stat; 0 if it cannot
    be read. The name, in parentheses, can contain any characters."""
    try:
        with open('/proc/self/stat', 'rb') as file:
            return int(file.read().rpartition(b')')[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0


class Tie:
    """The tie of one session. 'changed' is called with the reason when the
    session is not, or no longer, tied: once until it is tied again."""

    def __init__(self, agent: str, ttl: float,
                 changed: Callable[[str], None]) -> None:
        self._path, self._ttl = agent, ttl
        self.word = os.urandom(16).hex()  # The death word.
        self.changed: Optional[Callable[[str], None]] = changed
        self.session = ''
        self.agent: Optional[Agent] = None
        self.is_tied = False
        self.is_wanted = True  # False: to be untied, or untied.
        self.is_refused = False  # Not asked again on this connection.
        self.is_asked = False  # A line is sent and not answered.
        self.is_queued = False  # In the agent's list of ties to be asked for.
        self.is_over = False  # The session is gone.
        # TIE was sent since the last UNTIE was answered.
        self.may_be_tied = False
        self.why = ''
        self._is_told = False
        self._waiting: List[asyncio.Future[None]] = []

    def words(self) -> List[Argument]:
        """For SESSION.OPEN."""
        return ['WILL', hashlib.sha256(self.word.encode()).hexdigest()]

    def begin(self, session: str) -> None:
        self.session = session
        self.agent = Agent.join(self._path)
        self.agent.add(self)

    async def wait(self) -> None:
        """Waits until the session is tied."""
        await self._until(lambda: self.is_tied or bool(self.why))
        if not self.is_tied:
            raise Unreachable('the session cannot be tied: ' + self._reason())

    async def undo(self) -> None:
        """Unties the session for good, and waits for the answer. Unreachable: it
        may still be tied, and stays so."""
        # Lines are answered in order: the answer to a TIE comes first.
        await self._until(lambda: not self.is_asked)
        if self.may_be_tied and not self.is_asked and self.agent:
            self.is_wanted, self.is_refused, self.why = False, False, ''
            self.agent.hurry()
            self.agent.enqueue(self)
            await self._until(lambda: self.is_wanted or not self.may_be_tied)
        self.is_wanted = self.may_be_tied
        if self.may_be_tied:
            raise Unreachable('the session is tied to this process, and nothing '
                              'was handed over: ' + self._reason())
        if self.agent:
            self.agent.remove(self)

    def end(self) -> None:
        """The session is gone. UNTIE is sent, and not waited for."""
        if self.agent and not self.is_over:
            self.changed = None
            self.is_over, self.is_wanted = True, False
            self.agent.remove(self)

    async def ended(self) -> None:
        """Waits for the answer to the UNTIE of end(). If there is none, the agent
        learns from the cluster that the session is gone."""
        if self.agent and self.agent.is_open():
            await self._until(lambda: not self.may_be_tied or not self.agent or
                              not self.agent.is_open())

    def may_be_handed_over(self) -> bool:
        return not self.is_wanted and not self.may_be_tied

    def _reason(self) -> str:
        return self.why or 'the agent does not answer'

    async def _until(self, is_so: Callable[[], bool]) -> None:
        """Waits for it, for a limited time."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + 2 * ANSWER
        while not is_so():
            future = loop.create_future()
            self._waiting.append(future)
            try:
                await within(limit - loop.time(), future)
            except socket.timeout:
                return

    # --- called by the agent's connection ----------------------------------

    def line(self, start: int) -> Tuple[bool, str]:
        """Whether the next line is a TIE, and the line; '': there is nothing to
        ask for."""
        text = f'{self.session} {self.word} START {start}'
        if self.is_asked and not self.is_over:
            return False, ''
        if self.is_wanted and not self.is_tied and not self.is_refused:
            return True, f'TIE {text} TTL {int(self._ttl * 1000)}\n'
        if not self.is_wanted and self.may_be_tied:
            return False, f'UNTIE {text}\n'
        return False, ''

    def answered(self, is_tie: bool, why: str) -> None:
        """Handles an answer; 'why' is '' if it was OK."""
        self.is_asked = False
        self.is_tied = is_tie and not why
        self.is_refused = bool(why)
        if is_tie or not why:
            self.may_be_tied = self.is_tied
        else:
            self.is_wanted = True  # undo() has failed.
        self._tell(why)

    def lost(self, why: str) -> None:
        """The connection to the agent is lost, or cannot be opened."""
        self.is_asked = self.is_refused = self.is_tied = False
        if self.is_wanted or self.may_be_tied:
            self.is_wanted = True  # undo() has failed.
            self._tell(why)

    def _tell(self, why: str) -> None:
        self.why = why
        if self.is_tied:
            self._is_told = False
        elif why and not self._is_told and self.changed:
            self._is_told = True
            self.changed(why)
        self.wake()

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            settle(future, None)


class Agent(asyncio.Protocol):
    """A connection to an agent, for the ties of a loop."""

    _shared: Dict[Any, Agent] = {}

    def __init__(self, key: Any, path: str) -> None:
        self._key, self._path = key, path
        self._start = start_of_process()
        self._ties: Set[Tie] = set()
        self._queue: Deque[Tie] = deque()  # To be asked for.
        self._asked: Deque[Tuple[Tie, bool]] = deque()
        self._transport: Any = None
        self._opener: Optional[asyncio.Task[None]] = None
        # The limit of the oldest unanswered line, or the next attempt.
        self._timer: Optional[asyncio.TimerHandle] = None
        self._retry = 0.0
        self._input = b''

    @classmethod
    def join(cls, path: str) -> Agent:
        key = (asyncio.get_running_loop(), os.getpid(), path)
        for one in list(cls._shared):
            if one[0].is_closed() or one[1] != os.getpid():
                cls._shared.pop(one, None)
        if key not in cls._shared:
            cls._shared[key] = cls(key, path)
        return cls._shared[key]

    def add(self, tie: Tie) -> None:
        self._ties.add(tie)
        self.enqueue(tie)

    def remove(self, tie: Tie) -> None:
        self._ties.discard(tie)
        if self._transport:
            self.enqueue(tie)
        elif not self._ties:
            self._close()

    def enqueue(self, tie: Tie) -> None:
        if not tie.is_queued:
            tie.is_queued = True
            self._queue.append(tie)
        self._step()

    def is_open(self) -> bool:
        return self._transport is not None

    def hurry(self) -> None:
        """Makes the next attempt now."""
        if self._transport is None:
            self._set_timer(None)

    def _step(self) -> None:
        """Sends what is to be sent, or connects."""
        if self._transport is None:
            if self._ties and self._opener is None and self._timer is None:
                self._opener = asyncio.ensure_future(self._open())
            return
        while self._queue and len(self._asked) < ASKED_MAX:
            tie = self._queue.popleft()
            tie.is_queued = False
            is_tie, line = tie.line(self._start)
            if line:
                self._send(tie, is_tie, line)
        if not (self._ties or self._queue or self._asked):
            self._close()

    def _send(self, tie: Tie, is_tie: bool, line: str) -> None:
        tie.is_asked = True
        tie.may_be_tied |= is_tie
        self._asked.append((tie, is_tie))
        self._transport.write(line.encode())
        if len(self._asked) == 1:
            self._set_timer(ANSWER)

    def _set_timer(self, seconds: Optional[float]) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer = None if seconds is None else \
            asyncio.get_running_loop().call_later(seconds, self._timed_out)

    def _timed_out(self) -> None:
        self._timer = None
        if self._asked:
            self._lose('does not answer')
        else:
            self._step()

    async def _open(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            await within(ANSWER, loop.create_unix_connection(
                lambda: self, self._path))
        except (OSError, NotImplementedError, AttributeError,
                ValueError) as error:
            self._opener = None
            self._lose('cannot be reached: ' +
                       (getattr(error, 'strerror', None) or str(error)))
        else:
            self._opener = None
            self._step()

    def _lose(self, why: str) -> None:
        """The agent cannot be reached, or is gone."""
        was_connected = self._transport is not None
        if was_connected:
            transport, self._transport = self._transport, None
            # Even if a child of fork() has it: what the agent has not read is
            # void once it sees this.
            with contextlib.suppress(OSError):
                transport.get_extra_info('socket').shutdown(socket.SHUT_RDWR)
            transport.abort()
        self._input = b''
        asked = [tie for tie, _ in self._asked]
        self._asked.clear()
        self._retry = RETRY if was_connected else \
            min(max(2 * self._retry, RETRY), RETRY_MAX)
        for tie in self._queue:
            tie.is_queued = False
        self._queue.clear()
        self._set_timer(self._retry + random.uniform(0, JITTER))
        for tie in list(self._ties):
            tie.lost(f'the agent at {self._path} {why}')
            if tie.is_wanted and not tie.is_queued:
                tie.is_queued = True
                self._queue.append(tie)
        for tie in asked:
            tie.wake()  # One that has ended, and is no longer among the ties.
        if not self._ties:
            self._close()

    def _close(self) -> None:
        """No tie is left."""
        if self._shared.get(self._key) is self:
            del self._shared[self._key]
        self._set_timer(None)
        if self._opener:
            self._opener.cancel()
        if self._transport:
            transport, self._transport = self._transport, None
            transport.close()

    def abandon(self) -> None:
        """Closes the copy of a forked child, and leaves the parent's alone."""
        abandon(self._transport)

    # --- called by the event loop ------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        if not self._ties:
            self._close()

    def connection_lost(self, error: Optional[Exception]) -> None:
        if self._transport:
            self._lose('has ended the connection')

    def data_received(self, data: bytes) -> None:
        *lines, self._input = (self._input + data).split(b'\n')
        for line in lines:
            if not self._asked:
                self._input = b' ' * LINE_MAX  # An answer without a question.
                break
            tie, is_tie = self._asked.popleft()
            text = line.decode('ascii', 'replace')
            self._retry = 0.0
            tie.answered(is_tie, '' if text.startswith('OK') else
                         f'the agent at {self._path}: {text[:300]}')
            if not tie.is_over and tie.line(self._start)[1]:
                self.enqueue(tie)
        if self._transport and len(self._input) >= LINE_MAX:
            self._lose('does not speak the protocol')
        elif self._transport:
            self._set_timer(ANSWER if self._asked else None)
            self._step()
