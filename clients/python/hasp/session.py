# SPDX-License-Identifier: MIT
"""Sessions and locks for threads.

A Session is kept alive by a thread of its own on a connection of its own. Each
call that waits uses a connection from a small pool, so any number of threads
may share a session. Every change carries a request number: after a lost
connection it is asked again, through another node, and never done twice.
"""

from __future__ import annotations

import itertools
import logging
import os
import queue
import random
import socket
import threading
import time
from typing import (TYPE_CHECKING, Any, Callable, List, Optional, Sequence,
                    Set, Tuple, Union)

from . import resp
from .errors import HaspError, LeaseLost, Unknown, Unreachable
from .hold import Belief, Event, Hold, asked_for
from .lease import Clock, State, read_clock
from .request import (CONNECT_TIMEOUT, IDLE_MAX, Endpoint, Trouble,
                      default_name, open_words, parse_endpoints,
                      wait_until, wait_words)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hold import Options


class Connection:
    """One blocking connection to one node."""

    def __init__(self, endpoint: Endpoint, timeout: float, turn: int) -> None:
        self.endpoint, self.turn = endpoint, turn
        self.socket = socket.create_connection(endpoint, timeout)
        self.parser = resp.Parser()
        self.on_push: Optional[Callable[[resp.Push], None]] = None
        try:
            for level, option, value in (
                    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
                    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
                    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000)):
                self.socket.setsockopt(level, option, value)
            self.ask(timeout, 'HELLO', 3)
        except BaseException:
            self.close()
            raise

    def ask(self, timeout: float, *words: resp.Argument) -> Any:
        """Sends and waits for the reply; OSError if the connection fails, which
        an answer that takes too long counts as."""
        self.socket.settimeout(max(timeout, 0.001))
        self.socket.sendall(resp.encode(*words))
        return self._receive(time.monotonic() + timeout)

    def listen(self, timeout: float) -> None:
        """Takes what comes unasked, for so long."""
        try:
            self._receive(time.monotonic() + timeout)
        except socket.timeout:
            pass

    def _receive(self, until: float) -> Any:
        while True:
            try:
                reply = self.parser.next()
            except resp.Incomplete:
                self.socket.settimeout(max(until - time.monotonic(), 0.001))
                data = self.socket.recv(65536)
                if not data:
                    raise ConnectionResetError('closed the connection') \
                        from None
                self.parser.feed(data)
                continue
            if not isinstance(reply, resp.Push):
                return reply
            if self.on_push:
                self.on_push(reply)

    def interrupt(self) -> None:
        """Makes a thread that waits on it get an OSError."""
        try:
            self.socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It is closed already.

    def close(self) -> None:
        self.socket.close()


class Session(Belief):
    """A lease-backed identity that owns locks.

        with Session(name='billing') as session:
            with session.lock('orders') as lock:
                write(..., token=lock.token)

    'on_event' is called with each Event, one after the other, on a thread that
    does nothing else. Times are in seconds.

    After os.fork() the child must not use the parent's session: every call but
    close() raises HaspError there. Open a session of its own.
    """

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0,
                 on_event: Optional[Callable[[Event], None]] = None) -> None:
        super().__init__(on_event)
        self.endpoints = parse_endpoints(endpoints)
        self.name = name or default_name()
        self.timeout = timeout
        self._mutex = threading.Lock()
        self._turn = random.randrange(len(self.endpoints))
        self._idle: List[Connection] = []
        self._busy: Set[Connection] = set()
        self._events: 'queue.SimpleQueue[Optional[Event]]' = \
            queue.SimpleQueue()
        self._stop = threading.Event()
        self._keeper_line: Optional[Connection] = None
        try:
            reply, sent = self._request(open_words(self.name, ttl, linger))
        except BaseException:
            self._drop()
            raise
        self._opened(reply, sent)
        self._keeper = self._start(self._keep, 'hasp-keeper')
        if on_event:
            self._start(self._tell, 'hasp-events')

    # --- what users call --------------------------------------------------

    def lock(self, name: str, **options: Unpack[Options]) -> 'Lock':
        """A lock by this name: see Lock for the options."""
        return Lock(self, name, **options)

    def close(self) -> None:
        """Ends the session; its locks go to the next in line. Takes up to
        'timeout' if no node can be reached: then its lease must run out."""
        if self._pid != os.getpid():
            for connection in [*self._idle, *self._busy]:
                connection.close()  # The child's copy.
            return
        self._stop.set()
        if self._keeper_line:
            self._keeper_line.interrupt()
        if self.state() is not State.LOST:
            try:
                self._request(['SESSION.CLOSE'])
            except HaspError:
                pass  # Its lease runs out by itself.
        self._refuse('it has been closed')
        self._events.put(None)
        self._keeper.join(2 * CONNECT_TIMEOUT)
        self._drop()

    def __enter__(self) -> 'Session':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- requests ---------------------------------------------------------

    def _request(self, words: Sequence[resp.Argument],
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
            endpoint = self.endpoints[self._turn % len(self.endpoints)]
            line, is_sent = None, False
            try:
                line = self._take()
                endpoint = line.endpoint
                more, patience = wait_words(until)
                sent, is_sent = read_clock(), True
                reply = line.ask(min(patience, limit - time.monotonic()),
                                 *words, *more)
                if not isinstance(reply, resp.ReplyError):
                    self._put(line)
                    return reply, sent
                refusal = self._refusal(reply)
                if not isinstance(refusal, (Unreachable, Unknown)):
                    self._put(line)
                    raise refusal
                trouble.note(endpoint, refusal, reply.code == 'UNKNOWN')
            except OSError as error:
                trouble.note(endpoint, error, is_sent)
            except BaseException:  # KeyboardInterrupt, for one.
                self._fail(line)
                raise
            self._fail(line)
            pause = random.uniform(0.02, 0.1) * min(attempt, 5)
            if time.monotonic() + pause >= limit:
                self._check()
                raise trouble.error()
            if attempt % len(self.endpoints) == 0:
                time.sleep(pause)

    def _take(self) -> Connection:
        with self._mutex:
            line = self._idle.pop() if self._idle else None
            turn = self._turn
        if line is None:
            try:
                line = self._connect(turn, CONNECT_TIMEOUT)
            except OSError:
                self._turn_from(turn)
                raise
        with self._mutex:
            self._busy.add(line)
        return line

    def _put(self, line: Connection) -> None:
        with self._mutex:
            self._busy.discard(line)
            if len(self._idle) < IDLE_MAX:
                self._idle.append(line)
                return
        line.close()

    def _fail(self, line: Optional[Connection]) -> None:
        if line is not None:
            with self._mutex:
                self._busy.discard(line)
            line.close()
            self._turn_from(line.turn)

    def _turn_from(self, turn: int) -> None:
        """The next connection goes to another node."""
        with self._mutex:
            if self._turn == turn:
                self._turn += 1

    def _drop(self) -> None:
        """Closes what is idle; requests under way get an OSError."""
        with self._mutex:
            idle, self._idle = self._idle, []
            busy = list(self._busy)
        for line in busy:
            line.interrupt()
        for line in idle:
            line.close()

    def _connect(self, turn: int, timeout: float) -> Connection:
        line = Connection(self.endpoints[turn % len(self.endpoints)], timeout,
                          turn)
        try:
            if self.id:
                reply = line.ask(timeout, 'SESSION.ATTACH', self.id,
                                 self.secret)
                self._attached(reply)
        except BaseException:
            line.close()
            raise
        return line

    # --- the session's threads --------------------------------------------

    def _start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True, name=name)
        thread.start()
        return thread

    def _keep(self) -> None:
        resolver: Optional[threading.Thread] = None
        next_beat = time.monotonic() + self._lease.beat_interval() / 5
        while not self._stop.is_set():
            if time.monotonic() >= next_beat:
                is_ok = self._beat()
                interval = self._lease.beat_interval()
                next_beat = time.monotonic() + (
                    interval if is_ok else
                    min(interval, random.uniform(0.02, 0.2)))
                if is_ok and self._doubts and not (resolver and
                                                   resolver.is_alive()):
                    resolver = self._start(self._settle_doubts,
                                           'hasp-resolver')
            for event in self._news():
                self._events.put(event)
            if self.state() is State.LOST:
                self._drop()
                break
            if not self._listen(max(0.0, min(
                    next_beat - time.monotonic(),
                    max(self.remaining(), 0.02)))):
                next_beat = time.monotonic()
        self._hang_up()

    def _listen(self, timeout: float) -> bool:
        """Waits; False if the keeper's connection has failed."""
        if self._keeper_line is None:
            self._stop.wait(timeout)
            return True
        try:
            self._keeper_line.listen(timeout)
            return True
        except (OSError, resp.ReplyError):
            self._hang_up()
            return False

    def _beat(self) -> bool:
        patience = max(0.05, self._lease.beat_interval())
        turn = self._keeper_line.turn if self._keeper_line else self._turn
        endpoint = self.endpoints[turn % len(self.endpoints)]
        try:
            if self._keeper_line is None:
                line = self._connect(turn, min(patience, CONNECT_TIMEOUT))
                line.on_push = self._pushed
                self._keeper_line = line  # Before looking whether to stop.
                if self._stop.is_set():
                    return False
            sent = read_clock()
            reply = self._keeper_line.ask(patience, 'SESSION.KEEP', 'FULL')
            if isinstance(reply, resp.ReplyError):
                raise self._refusal(reply)
            for event in self._answered(reply, sent):
                self._events.put(event)
            return True
        except LeaseLost:
            pass
        except (OSError, HaspError, resp.ReplyError) as error:
            self._why = 'no heartbeat was answered in time, last: ' \
                f'{endpoint[0]}:{endpoint[1]}: {error}'
            if isinstance(error, socket.timeout):
                self._suspect(endpoint)
        self._turn_from(turn)
        self._hang_up()
        return False

    def _suspect(self, endpoint: Endpoint) -> None:
        """A node that does not answer the keeper leaves those who wait for a
        lock in the dark, too: they go on at another one."""
        with self._mutex:
            for line in self._busy:
                if line.endpoint == endpoint:
                    line.interrupt()

    def _hang_up(self) -> None:
        line, self._keeper_line = self._keeper_line, None
        if line is not None:
            line.close()
            self._turn_from(line.turn)

    def _pushed(self, push: resp.Push) -> None:
        for event in asked_for(push):
            self._events.put(event)

    def _tell(self) -> None:
        for event in iter(self._events.get, None):
            try:
                self.on_event(event)  # type: ignore
            except Exception:  # The program's; the next events still count.
                logging.getLogger('hasp').exception('on_event failed')

    def _settle_doubts(self) -> None:
        for lock in list(self._doubts):
            if lock._mutex.acquire(blocking=False):
                try:
                    lock._settle()
                except HaspError:
                    pass  # Again after the next heartbeat.
                finally:
                    lock._mutex.release()


class Lock(Hold):
    """A lock by name, owned by this object.

    Two Lock objects exclude each other even inside one session. The same object
    may acquire again, and releases as often; so it is for one thread: two that
    share it would both be let in. With 'shared', readers hold together; with
    'slots=n', n holders do. 'delay' keeps the lock closed so long after its
    holder died; 'hold' bounds one hold. Belief ends when the release is sent.
    """

    session: Session

    def __init__(self, session: Session, name: str,
                 **options: Unpack[Options]) -> None:
        super().__init__(session, name, **options)
        self._mutex = threading.Lock()

    def acquire(self, timeout: Optional[float] = None) -> bool:
        """Waits up to 'timeout' seconds (None: for ever, 0: not at all)."""
        until = wait_until(timeout)
        with self._mutex:
            self._settle()
            if self._change('LOCK.ACQUIRE', self._words(), until) is None:
                return False
            if self._since is not None and until is not None:
                self._ask_limit()
            self.session._check()
            return True

    def release(self) -> None:
        """Gives one acquisition back, whatever it raises: the session goes on
        trying. NotHeld: the cluster had ended the hold before, so what was done
        last may have been done without the lock."""
        with self._mutex:
            self._released()
            self._settle()
            self._change('LOCK.RELEASE', [])

    def cancel(self) -> bool:
        """Ends an acquire() that waits in another thread and then returns
        False. True if there was one in the queue."""
        owner = self._owner
        if owner is None:
            return False
        return bool(self.session._request(
            ['LOCK.CANCEL', self.name, 'OWNER', owner.tag])[0])

    def _change(self, verb: str, more: List[resp.Argument],
                until: Optional[float] = None) -> Any:
        first = self._begin(verb, more)
        try:
            reply, _ = self.session._request(self._doubt, until)
            self._end()
        except BaseException as error:
            self._failed(error)
            raise
        if verb == 'LOCK.ACQUIRE' and reply is not None:
            self._granted(reply, first)
        self._rest()
        return reply

    def _settle(self) -> None:
        """Asks again, under its number and not waiting, for what became of a
        change whose outcome is not known."""
        while self._doubt:
            reply = None
            try:
                reply, _ = self.session._request(self._doubt)
            except (Unknown, Unreachable):
                raise
            except HaspError:
                pass  # It has not been done, or there is nothing to undo.
            self._settled(reply)

    def _ask_limit(self) -> None:
        try:
            self._limited(*self.session._request(
                ['LOCK.SHOW', self.name], timeout=CONNECT_TIMEOUT))
        except HaspError:
            pass  # It is counted from before the wait.

    def __enter__(self) -> 'Lock':
        self.acquire()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.release()
        except HaspError:
            if kind is None:
                raise  # Else what went wrong inside is the news.
