# SPDX-License-Identifier: MIT
"""Sessions and locks for threads.

A Session is kept alive by a thread of its own on a connection of its own. Each
call that waits uses a connection from a small pool, so any number of threads
may share a session. Every change carries a request number: after a lost
connection it is asked again, through another node, and never done twice.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
import time
from typing import (Any, Callable, List, Optional, Sequence, Set, Tuple,
                    Union)

from . import resp
from .errors import (HaspError, LeaseLost, NotHeld, Refused, Unknown,
                     Unreachable)
from .lease import Clock, Lease, State, read_clock

DEFAULT_ENDPOINTS = '127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440'
CONNECT_TIMEOUT = 1.0
AGAIN = ('NOLEADER', 'BUSY', 'MOVED', 'UNKNOWN')
ENDED = ('EXPIRED', 'NOSESSION')


def parse_endpoints(text: Union[None, str, Sequence[str]]
                    ) -> List[Tuple[str, int]]:
    if text is None:
        text = os.environ.get('HASP_ENDPOINTS', DEFAULT_ENDPOINTS)
    parts = text.split(',') if isinstance(text, str) else text
    found = []
    for part in parts:
        host, _, port = part.strip().rpartition(':')
        found.append((host.strip('[]'), int(port)))
    return found


def acquire_words(name: str, *, owner: str, timeout: Optional[float],
                  shared: bool = False, slots: int = 0, value: str = '',
                  delay: float = 0, hold: float = 0, barge: bool = False
                  ) -> List[resp.Argument]:
    """The words of LOCK.ACQUIRE; the asyncio side uses them, too."""
    words: List[resp.Argument] = ['LOCK.ACQUIRE', name, 'OWNER', owner]
    if shared:
        words.append('SHARED')
    if slots:
        words += ['SLOTS', slots]
    if timeout is None:
        words += ['WAIT', 'FOREVER']
    elif timeout > 0:
        words += ['WAIT', int(timeout * 1000) or 1]
    if value:
        words += ['VALUE', value]
    if delay:
        words += ['DELAY', int(delay * 1000)]
    if hold:
        words += ['HOLD', int(hold * 1000)]
    if barge:
        words.append('BARGE')
    return words


def without_wait(words: List[resp.Argument]) -> List[resp.Argument]:
    """The same change, not waiting: names and tags stand before WAIT."""
    if words[0] == 'LOCK.ACQUIRE' and 'WAIT' in words[4:]:
        at = words.index('WAIT', 4)
        return words[:at] + words[at + 2:]
    return words


def hold_left(left: float, since: Optional[Clock], hold: float) -> float:
    """Seconds for which a hold may be trusted, given the session's. A limited
    one counts 0.8 of its limit from before it was asked for, on both clocks."""
    if since is None:
        return left
    now = read_clock()
    age = max(now.monotonic - since.monotonic, now.boottime - since.boottime)
    return max(0.0, min(left, 0.8 * hold - age))


class Connection:
    """One blocking connection to one node."""

    def __init__(self, endpoint: Tuple[str, int], timeout: float) -> None:
        self.socket = socket.create_connection(endpoint, timeout)
        for level, option, value in (
                (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
                (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 2),
                (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
                (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
                (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 5000)):
            self.socket.setsockopt(level, option, value)
        self.parser = resp.Parser()
        self.on_push: Optional[Callable[[resp.Push], None]] = None
        self.ask(timeout, 'HELLO', 3)

    def ask(self, timeout: Optional[float], *words: resp.Argument) -> Any:
        """Sends and waits for the reply; OSError if the connection fails."""
        self.socket.settimeout(timeout)
        self.socket.sendall(resp.encode(*words))
        while True:
            try:
                reply = self.parser.next()
            except resp.Incomplete:
                data = self.socket.recv(65536)
                if not data:
                    raise ConnectionResetError('closed by the node') from None
                self.parser.feed(data)
                continue
            if isinstance(reply, resp.Push):
                if self.on_push:
                    self.on_push(reply)
                continue
            return reply

    def close(self) -> None:
        self.socket.close()


class Session:
    """A lease-backed identity that owns locks.

        with Session(name='billing') as session:
            with session.lock('orders') as lock:
                write(..., token=lock.token)

    'on_event' is called from the keeper's thread with 'jeopardy', 'safe',
    'lost' or 'please' and, for the last, the message. Times are in seconds.

    After os.fork() the child must not use the parent's session: every call
    raises HaspError there. Open a session of its own.
    """

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0,
                 on_event: Optional[Callable[[str, str], None]] = None
                 ) -> None:
        self.endpoints = parse_endpoints(endpoints)
        self.name = name or f'{os.path.basename(os.sys.argv[0] or "python")}' \
            f':{os.getpid()}'
        self.timeout = timeout
        self.on_event = on_event
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._idle: List[Connection] = []
        self._owners = itertools.count(1)
        self._doubts: Set['Lock'] = set()  # Whose last outcome is not known.
        self._lease = Lease()
        self._stop = threading.Event()
        words: List[resp.Argument] = ['SESSION.OPEN', 'TTL', int(ttl * 1000),
                                      'NAME', self.name]
        if linger:
            words += ['LINGER', int(linger * 1000)]
        self.id = self.secret = ''
        reply, sent = self._request(words, self.timeout)
        self.id, self.secret = str(reply['id']), reply['secret']
        self._times = (reply['ttl_ms'] / 1000,
                       (reply.get('linger_ms') or 0) / 1000)
        self._lease.answered(sent, *self._times)
        self._keeper = threading.Thread(target=self._keep, daemon=True,
                                        name='hasp-keeper')
        self._keeper.start()

    # --- what users call --------------------------------------------------

    def lock(self, name: str, **options: Any) -> 'Lock':
        """A lock by this name: see Lock for the options."""
        return Lock(self, name, **options)

    def state(self) -> State:
        with self._mutex:
            return self._lease.state(read_clock())

    def remaining(self) -> float:
        """Seconds for which the session's holds may be trusted."""
        with self._mutex:
            return self._lease.remaining(read_clock())

    def close(self) -> None:
        """Ends the session; its locks go to the next in line."""
        self._stop.set()
        if self._pid == os.getpid() and self.state() is not State.LOST:
            try:
                self._request(['SESSION.CLOSE'], self.timeout)
            except HaspError:
                pass  # Its lease runs out by itself.
        with self._mutex:
            self._lease.refuse()
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def __enter__(self) -> 'Session':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- requests ---------------------------------------------------------

    def _connect(self, endpoint: Tuple[str, int]) -> Connection:
        connection = Connection(endpoint, CONNECT_TIMEOUT)
        try:
            if self.id:
                reply = connection.ask(CONNECT_TIMEOUT, 'SESSION.ATTACH',
                                       self.id, self.secret)
                if isinstance(reply, resp.ReplyError):
                    raise reply
        except BaseException:
            connection.close()
            raise
        return connection

    def _request(self, words: Sequence[resp.Argument], timeout: float,
                 wait: Optional[float] = 0.0) -> Tuple[Any, Clock]:
        """Asks until there is an answer. 'wait' is how long the server itself
        may take beyond the time-out (None: for ever). Gives the reply and the
        clock before the answered request was sent."""
        if self._pid != os.getpid():
            raise HaspError('this session belongs to the parent process; '
                            'open one in the child')
        deadline = time.monotonic() + timeout
        last: Exception = Unreachable('not tried')
        doubt: Optional[Unknown] = None
        endpoints = random.sample(self.endpoints, len(self.endpoints))
        for attempt in itertools.count():
            try:
                with self._mutex:
                    connection = self._idle.pop() if self._idle else None
                if connection is None:
                    connection = self._connect(
                        endpoints[attempt % len(endpoints)])
            except (OSError, resp.ReplyError) as error:
                last = Unreachable(f'no node could be used: {error}')
                if isinstance(error, resp.ReplyError):
                    last = self._refused(error, last)
            else:
                sent = read_clock()
                limit = None if wait is None else timeout + wait
                try:
                    reply = connection.ask(limit, *words)
                except OSError as error:
                    connection.close()
                    last = doubt = Unknown(f'connection lost: {error}')
                else:
                    with self._mutex:
                        self._idle.append(connection)
                    if not isinstance(reply, resp.ReplyError):
                        return reply, sent
                    last = self._refused(reply, Unreachable(str(reply)))
                    doubt = last if isinstance(last, Unknown) else doubt
            if wait is None and self.id and self.state() is not State.LOST:
                deadline = max(deadline, time.monotonic() + 1)
            if time.monotonic() >= deadline:
                raise doubt or last  # An earlier attempt may have been done.
            time.sleep(random.uniform(0.02, 0.1) * min(attempt + 1, 5))
        raise last

    def _refused(self, error: resp.ReplyError, again: Exception) -> Exception:
        """Raises for a final refusal; gives what to raise if asking again does
        not help in time."""
        if error.code in AGAIN:
            return Unknown(str(error)) if error.code == 'UNKNOWN' else again
        if error.code in ENDED:
            self._refuse()
            raise LeaseLost(str(error))
        if error.code == 'NOTHELD':
            raise NotHeld(str(error))
        raise Refused(str(error))

    def _refuse(self) -> None:
        with self._mutex:
            self._lease.refuse()

    # --- the keeper's thread ----------------------------------------------

    def _keep(self) -> None:
        connection: Optional[Connection] = None
        told = State.HELD
        turn = 0
        next_beat = time.monotonic() + self._lease.beat_interval()
        while not self._stop.is_set():
            now = time.monotonic()
            if now >= next_beat:
                connection, is_ok = self._beat(connection, turn)
                turn += not is_ok
                interval = self._lease.beat_interval()
                if is_ok:
                    self._settle_doubts(interval / 2)
                next_beat = time.monotonic() + (
                    interval if is_ok else min(interval,
                                               random.uniform(0.02, 0.2)))
            told = self._tell(told)
            if told is State.LOST:
                break
            self._stop.wait(max(0.0, min(next_beat - time.monotonic(),
                                         max(self.remaining(), 0.02))))
        if connection is not None:
            connection.close()

    def _settle_doubts(self, timeout: float) -> None:
        for lock in list(self._doubts):
            if lock._mutex.acquire(blocking=False):
                try:
                    lock._settle(timeout)
                except HaspError:
                    pass  # Again after the next heartbeat.
                finally:
                    lock._mutex.release()

    def _beat(self, connection: Optional[Connection], turn: int
              ) -> Tuple[Optional[Connection], bool]:
        patience = max(0.05, self._lease.beat_interval())
        try:
            if connection is None:
                endpoint = self.endpoints[turn % len(self.endpoints)]
                connection = Connection(endpoint, min(patience, 1.0))
                connection.on_push = self._pushed
                reply = connection.ask(patience, 'SESSION.ATTACH', self.id,
                                       self.secret)
                if isinstance(reply, resp.ReplyError):
                    raise reply
            sent = read_clock()
            reply = connection.ask(patience, 'SESSION.KEEP')
            if isinstance(reply, resp.ReplyError):
                raise reply
            with self._mutex:
                self._lease.answered(sent, *self._times)
            return connection, True
        except resp.ReplyError as error:
            if error.code in ENDED:
                self._refuse()
            elif error.code not in AGAIN:
                return connection, False
        except OSError:
            pass
        if connection is not None:
            connection.close()
        return None, False

    def _pushed(self, push: resp.Push) -> None:
        if len(push) >= 3 and push[1] == 'please' and self.on_event:
            self.on_event('please', str(push[2].get('message', '')))

    def _tell(self, told: State) -> State:
        state = self.state()
        if state is not told and self.on_event:
            self.on_event('safe' if state is State.HELD else state.value, '')
        return state


class Lock:
    """A lock by name, owned by this object.

    Two Lock objects exclude each other even inside one session; the same
    object may acquire again (it counts). With 'shared', readers hold together;
    with 'slots=n', n holders do. 'delay' keeps the lock closed so long after
    its holder died; 'hold' bounds one hold. Belief ends when the release is
    sent.
    """

    def __init__(self, session: Session, name: str, *, owner: str = '',
                 **options: Any) -> None:
        self.session = session
        self.name = name
        self.owner = owner or f'{os.getpid()}-{next(session._owners)}'
        self.options = options
        self.token: Optional[int] = None
        self._req = 0
        self._mutex = threading.Lock()
        self._count = 0
        self._hold_since: Optional[Clock] = None  # Of a limited hold.
        self._doubt: List[resp.Argument] = []

    def _change(self, words: List[resp.Argument],
                wait: Optional[float] = 0.0) -> Tuple[Any, Clock]:
        """One change, numbered, so that asking again never does it twice. Gives
        the reply and the clock before it was asked for the first time: an
        attempt whose answer was lost may be the one that had its effect."""
        self._settle(self.session.timeout)
        self._req += 1
        words = words + ['REQ', self._req, 'ACKED', self._req - 1]
        first = read_clock()
        try:
            reply, _ = self.session._request(words, self.session.timeout, wait)
        except Unknown:
            self._doubt = without_wait(words)
            self.session._doubts.add(self)
            raise
        return reply, first

    def _settle(self, timeout: float) -> None:
        """Clears up a change whose outcome is not known: asked again under its
        number, and not waiting, it tells what became of it. A lock that was
        granted meanwhile is given back: nobody waits for it any more."""
        if not self._doubt:
            return
        words, reply = self._doubt, None
        try:
            reply, _ = self.session._request(words, timeout)
        except Unknown:
            raise
        except (NotHeld, Refused):
            pass
        self._doubt = []
        self.session._doubts.discard(self)
        if words[0] == 'LOCK.ACQUIRE' and reply is not None:
            self._change(['LOCK.RELEASE', self.name, 'OWNER', self.owner])

    def acquire(self, timeout: Optional[float] = None) -> bool:
        """Waits up to 'timeout' seconds (None: for ever, 0: not at all)."""
        with self._mutex:
            words = acquire_words(self.name, owner=self.owner,
                                  timeout=timeout, **self.options)
            token, first = self._change(words, timeout)
            if token is None:
                return False
            self.token = token
            self._count += 1
            if self.options.get('hold') and self._count == 1:
                self._hold_since = first
            return True

    def release(self) -> None:
        """Gives one acquisition back. NotHeld if there is none."""
        with self._mutex:
            if self._count:
                self._count -= 1
            if self._count == 0:
                self.token, self._hold_since = None, None
            self._change(['LOCK.RELEASE', self.name, 'OWNER', self.owner])

    def remaining(self) -> float:
        """Seconds for which the hold may be trusted; 0 if it is not held."""
        if self._count == 0:
            return 0.0
        return hold_left(self.session.remaining(), self._hold_since,
                         self.options.get('hold', 0))

    def guard(self, need: float) -> None:
        """Raises LeaseLost unless a step of 'need' seconds ends inside the
        lease. Call it before each step that must not outlive the lock."""
        left = self.remaining()
        if left < need:
            raise LeaseLost(f'"{self.name}": {left:.3f} s left of the lease, '
                            f'{need:.3f} s needed')

    def __enter__(self) -> 'Lock':
        self.acquire()
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self.release()
        except (NotHeld, LeaseLost):
            pass  # It has passed on already.
