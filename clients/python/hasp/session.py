# SPDX-License-Identifier: MIT
"""Sessions and locks for threads.

A Session is kept alive by a thread of its own on a connection of its own. Each
call that waits uses a connection from a small pool, so any number of threads
may share a session.
"""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
from typing import (TYPE_CHECKING, Any, Callable, Coroutine, Optional,
                    Sequence, TypeVar, Union)

from . import connection
from .errors import HaspError
from .hold import Hold
from .keeper import Event, Keeper
from .request import CONNECT_TIMEOUT, wait_until

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hold import Options

Result = TypeVar('Result')
TIMEOUT_MIN = 0.001  # 0 would mean: do not wait at all.


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """To its end: all that it awaits blocks."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise AssertionError('it has awaited something that does not block')


class Connection(connection.Connection):
    async def open(self, timeout: float) -> None:
        self._socket = socket.create_connection(self.endpoint, timeout)
        connection.tune(self._socket)

    async def _send(self, data: bytes, timeout: float) -> None:
        self._socket.settimeout(max(timeout, TIMEOUT_MIN))
        self._socket.sendall(data)

    async def _read(self, timeout: float) -> bytes:
        self._socket.settimeout(max(timeout, TIMEOUT_MIN))
        return self._socket.recv(65536)

    def interrupt(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # It is closed already.

    def close(self) -> None:
        if hasattr(self, '_socket'):
            self._socket.close()


class Session(Keeper):
    """A lease-backed identity that owns locks.

        with Session(name='billing') as session:
            with session.lock('orders') as lock:
                write(..., token=lock.token)

    'on_event' is called with each Event, one after the other, on a thread that
    does nothing else. Times are in seconds.

    After os.fork() the child must not use the parent's session: every call but
    close() raises HaspError there. Open a session of its own.
    """

    _connection = Connection

    def __init__(self, endpoints: Union[None, str, Sequence[str]] = None, *,
                 name: str = '', ttl: float = 10.0, linger: float = 0.0,
                 timeout: float = 10.0,
                 on_event: Optional[Callable[[Event], None]] = None) -> None:
        super().__init__(endpoints, name=name, ttl=ttl, linger=linger,
                         timeout=timeout, on_event=on_event)
        self._events: 'queue.SimpleQueue[Optional[Event]]' = \
            queue.SimpleQueue()
        self._stop = threading.Event()
        try:
            run(self._open())
        except BaseException:
            self._drop()
            raise
        self._keeper = self._start(lambda: run(self._keep()), 'hasp-keeper')
        if on_event:
            self._start(self._tell, 'hasp-events')

    def lock(self, name: str, **options: Unpack[Options]) -> 'Lock':
        """A lock by this name: see Lock for the options."""
        return Lock(self, name, **options)

    def close(self) -> None:
        """Ends the session; its locks go to the next in line. Takes up to
        'timeout' if no node can be reached: then its lease must run out."""
        if self._pid != os.getpid():
            for line in [*self._idle, *self._busy]:
                line.close()  # The child's copy.
            return
        self._is_closed = True
        self._stop.set()
        keeper_line = self._keeper_line
        if keeper_line:
            keeper_line.interrupt()
        run(self._end())
        self._events.put(None)
        self._keeper.join(2 * CONNECT_TIMEOUT)
        self._drop()

    def __enter__(self) -> 'Session':
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # --- how it waits, and tells ------------------------------------------

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    async def _pause(self, seconds: float) -> None:
        self._stop.wait(seconds)

    def _start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=target, daemon=True, name=name)
        thread.start()
        return thread

    def _start_settling(self) -> None:
        if not (self._resolver and self._resolver.is_alive()):
            self._resolver = self._start(lambda: run(self._settle_doubts()),
                                         'hasp-resolver')

    def _emit(self, events: Sequence[Event]) -> None:
        for event in events:
            self._events.put(event)

    def _tell(self) -> None:
        for event in iter(self._events.get, None):
            try:
                self.on_event(event)  # type: ignore
            except Exception:  # The program's; the next events still count.
                logging.getLogger('hasp').exception('on_event failed')


class Lock(Hold):
    """A lock by name, owned by this object.

    Two Lock objects exclude each other even inside one session. The same object
    may acquire again, and releases as often; so it is for one thread: two that
    share it would both be let in. With 'shared', readers hold together; with
    'slots=n', n holders do. 'delay' keeps the lock closed so long after its
    holder died; 'hold' bounds one hold. Belief ends when the release is sent.
    """

    def __init__(self, session: Session, name: str,
                 **options: Unpack[Options]) -> None:
        super().__init__(session, name, **options)
        self._mutex = threading.Lock()

    def acquire(self, timeout: Optional[float] = None) -> bool:
        """Waits up to 'timeout' seconds (None: for ever, 0: not at all)."""
        until = wait_until(timeout)
        with self._mutex:
            return run(self._acquire(until))

    def release(self) -> None:
        """Gives one acquisition back, whatever it raises: the session goes on
        trying. NotHeld: the cluster had ended the hold before, so what was done
        last may have been done without the lock."""
        with self._mutex:
            run(self._release())

    def cancel(self) -> bool:
        """Ends an acquire() that waits in another thread and then returns
        False. True if there was one in the queue."""
        owner = self._owner
        if owner is None:
            return False
        return bool(run(self.session._request(
            ['LOCK.CANCEL', self.name, 'OWNER', owner.tag]))[0])

    async def _try_enter(self) -> bool:
        return self._mutex.acquire(blocking=False)

    def _leave(self) -> None:
        self._mutex.release()

    def __enter__(self) -> 'Lock':
        self.acquire()
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.release()
        except HaspError:
            if kind is None:
                raise  # Else what went wrong inside is the news.
