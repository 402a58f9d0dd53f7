# SPDX-License-Identifier: MIT
"""Sessions and locks for threads. A thread of the process runs an event loop,
which keeps them alive and does what the program's threads wait for."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import threading
from typing import (TYPE_CHECKING, Any, Callable, ClassVar, Coroutine, Dict,
                    Iterator, Optional, Set, TypeVar)

from .core import LOG
from .errors import HaspError
from .hold import Hold
from .keeper import Event, Keeper
from .request import wait_until
from .resp import Argument
from .watch import Change, Changes, Leader, Leaders, leader_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hold import Options

Result = TypeVar('Result')
STOP = 2.0  # Seconds for the loop to end.


class Loop:
    """An event loop on a thread of its own, for the sessions of a process. The
    last one that leaves ends it."""

    _shared: ClassVar[Optional[Loop]] = None
    _mutex = threading.Lock()

    def __init__(self) -> None:
        self._pid, self._count = os.getpid(), 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever,
                                        daemon=True, name='hasp')
        self._thread.start()

    @classmethod
    def join(cls) -> Loop:
        with cls._mutex:
            if cls._shared is None or cls._shared._pid != os.getpid():
                cls._shared = cls()
            cls._shared._count += 1
            return cls._shared

    def leave(self) -> None:
        with self._mutex:
            self._count -= 1
            if self._count:
                return
            Loop._shared = None
        self._stop()

    @classmethod
    def _forked(cls) -> None:
        cls._mutex = threading.Lock()  # It may have been taken.

    def run(self, coroutine: Coroutine[Any, Any, Result],
            undo: Optional[Callable[[Result], Any]] = None,
            waits: Optional[Dict[Any, Any]] = None,
            calls: Optional[Set[asyncio.Task[Any]]] = None) -> Result:
        """Its result. An exception that comes from outside meanwhile (Ctrl-C)
        cancels it; had it been done by then, 'undo' runs in the loop. While it
        runs, its key in 'waits' has what cancels it, and 'calls' has it."""
        done: concurrent.futures.Future[Result] = concurrent.futures.Future()
        task: Any = None

        def start() -> None:
            nonlocal task
            task = self._loop.create_task(coroutine)
            task.add_done_callback(finish)
            if calls is not None:
                calls.add(task)

        def finish(task: asyncio.Task[Result]) -> None:
            if calls is not None:
                calls.discard(task)
            if task.cancelled():
                done.set_exception(concurrent.futures.CancelledError())
            elif task.exception():
                done.set_exception(task.exception())
            else:
                done.set_result(task.result())

        def abandon() -> None:
            if task is None:
                coroutine.close()
            elif not task.done():
                task.cancel()
            elif undo and not task.cancelled() and not task.exception():
                undo(task.result())

        if waits is not None:
            waits[done] = lambda: self._loop.call_soon_threadsafe(
                lambda: task.cancel())
        try:
            self._loop.call_soon_threadsafe(start)
            concurrent.futures.wait([done])
        except BaseException:
            self._loop.call_soon_threadsafe(abandon)
            raise
        finally:
            if waits is not None:
                del waits[done]
        return done.result()

    def _stop(self) -> None:
        """What still runs is cancelled."""
        async def finish() -> None:
            await cancel(asyncio.all_tasks() - {asyncio.current_task()})
            self._loop.stop()

        asyncio.run_coroutine_threadsafe(finish(), self._loop)
        self._thread.join(2 * STOP)
        if not self._thread.is_alive():
            self._loop.close()


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=Loop._forked)


async def cancel(tasks: Set[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0)), *tasks},
                       timeout=STOP)


class Session(Keeper):
    """A lease-backed identity that owns locks.

        with Session(name='billing') as session:
            with session.lock('orders') as lock:
                write(..., token=lock.token)

    Any number of threads may share it. Times are in seconds:

    ttl       locks pass on so long after the last heartbeat
    linger    and so long after the connections are gone; 0: after 'ttl'
    timeout   for one request, apart from the wait for a lock
    alive     unless alive() is called so often, the lease is not renewed
    tls       a folder with ca.crt, and client.crt with client.key ('hasp cert
              user' makes it), or an ssl.SSLContext; None: HASP_TLS, or plain
    secret_file  with the secret of a user ('hasp secret add' writes it, 0600);
              None: HASP_SECRET_FILE, or who the certificate says, or anyone
    own_connection  is not shared with the other sessions of the process, which
              have one for all that ask the same nodes in the same way
    on_event  is called with each Event, one after the other, on a thread that
              does nothing else

    After os.fork() the child must not use the parent's session: every call but
    close() raises HaspError there. Open a session of its own.
    """

    def _begin(self) -> None:
        self._events: queue.SimpleQueue[Optional[Event]] = queue.SimpleQueue()
        self._teller: Optional[threading.Thread] = None
        self._calls: Set[asyncio.Task[Any]] = set()
        self._closing = threading.Lock()  # Is taken once.
        self._loop = Loop.join()
        try:
            self._loop.run(self._start())
        except BaseException:
            self._loop.leave()
            raise
        if self.on_event:
            self._teller = threading.Thread(target=self._tell_all, daemon=True,
                                            name='hasp-events')
            self._teller.start()

    def close(self) -> None:
        """Ends the session; its locks go to the next in line. Takes up to
        'timeout' if no node can be reached: then its lease must run out."""
        if self._pid != os.getpid():
            self._abandon()
        elif self._closing.acquire(blocking=False):
            try:
                self._loop.run(self._end_all())
            finally:
                self._loop.leave()
                self._events.put(None)
                if self._teller and self._teller is not \
                        threading.current_thread():
                    self._teller.join(self.timeout)

    async def _end_all(self) -> None:
        await self._end()
        await cancel(set(self._calls))

    def lock(self, *names: str, **options: Unpack[Options]) -> Lock:
        """A lock, or several at once, by name: see Lock for the options."""
        return Lock(self, *names, **options)

    def watch(self, prefix: str = '') -> Watch:
        """What happens to the locks whose names begin so, from now on."""
        return Watch(self, prefix)

    def ask(self, *words: Argument) -> Any:
        """The answer to any command of docs/protocol.md that may be repeated,
        as it is where a connection fails: session.ask('LOCK.SHOW', 'orders'),
        'LOCK.PLEASE', 'LOCK.CHECK', 'LOCK.RELEASEIF', 'FENCE.ADMIT' ..."""
        return self._run(self._ask(*words))

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _run(self, coroutine: Coroutine[Any, Any, Result],
             undo: Optional[Callable[[Result], Any]] = None,
             waits: Optional[Dict[Any, Any]] = None) -> Result:
        try:
            self._check_process()
            if not self._loop._thread.is_alive():
                self._check()
        except HaspError:
            coroutine.close()
            raise
        return self._loop.run(coroutine, undo, waits, self._calls)

    def _tell(self, event: Event) -> None:
        self._events.put(event)

    def _tell_all(self) -> None:
        for event in iter(self._events.get, None):
            try:
                self.on_event(event)  # type: ignore[misc]
            except Exception:  # The program's; the next events still count.
                LOG.exception('on_event failed')


class Lock(Hold):
    """A lock by name, or several at once, all or none of them.

    It is used as threading.Lock: two Lock objects exclude each other, also
    inside one session, and so do two threads that share one. It is not
    re-entrant, unless it has an 'owner': then the same owner may acquire again,
    and must release as often. With 'shared', readers hold together; with
    'slots=n', n holders do. 'delay' keeps the lock closed so long after its
    holder died; 'hold' bounds one hold; 'timeout' is acquire()'s, where that
    has none. Belief ends when the release is sent.
    """

    session: Session

    def acquire(self, blocking: bool = True,
                timeout: Optional[float] = -1) -> bool:
        """Waits in line for up to 'timeout' seconds, -1: for ever; unless
        'blocking' it only tries. False: it is not held, and nobody waits.
        LeaseLost: the session is lost. Unreachable, Unknown: no cluster."""
        until = wait_until(blocking, timeout, self.options.get('timeout'))
        try:
            return self.session._run(
                self._acquire(until), waits=self._waits, undo=lambda held:
                held and asyncio.ensure_future(self._give_back()))
        except concurrent.futures.CancelledError:
            self.session._check()
            return False

    def cancel(self) -> bool:
        """Makes acquire() in other threads return False; was there one?"""
        waits = list(self._waits.values())
        for cancel in waits:
            cancel()
        return bool(waits)

    def release(self) -> None:
        """Gives it back, whatever it raises: the session goes on trying.
        NotHeld: the cluster had ended the hold before, so what was done last
        may have been done without the lock."""
        self.session._run(self._release())

    def convert(self, shared: bool, blocking: bool = True,
                timeout: Optional[float] = -1) -> bool:
        """To shared: at once. To exclusive: when the other readers have gone,
        ahead of the queue, with a new token. False: still shared. Refused
        (DEADLOCK): somebody else waits to convert."""
        return self.session._run(self._convert(shared, wait_until(
            blocking and not shared, timeout, None)))

    def place(self) -> Optional[int]:
        """Of an acquire() that waits in another thread: 1 is the next. None: in
        no queue. Asks the cluster."""
        return self.session._run(self._place())

    def note(self, text: str) -> None:
        """Leaves up to 4096 bytes at the lock for whoever comes next, who finds
        them as 'note' of LOCK.SHOW. NotHeld: only a holder may."""
        self.session._run(self._note(text))

    def __init__(self, session: Session, *names: str,
                 **options: Unpack[Options]) -> None:
        super().__init__(session, *names, **options)
        self._waits: Dict[Any, Callable[[], Any]] = {}

    async def _give_back(self) -> None:
        try:
            await self._release()
        except HaspError:
            pass

    def __enter__(self) -> Lock:
        self._entered(self.acquire())
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        try:
            self.release()
        except HaspError:
            if kind is None:
                raise  # Else what went wrong inside is the news.


class Election(Lock):
    """A lock whose holder leads, and whose 'value' is what it tells the others:
    its address, for example. acquire() campaigns, release() resigns."""

    def leader(self) -> Optional[Leader]:
        """Who leads now; None: nobody. Old when it comes."""
        return self.session._run(leader_of(self.session, self.names[0]))

    def observe(self) -> Iterator[Optional[Leader]]:
        """Who leads, now and whenever it is another one."""
        leaders = Leaders(self.session, self.names[0])
        try:
            while True:
                yield self.session._run(leaders._next_leader())
        finally:
            self.session._loop._loop.call_soon_threadsafe(leaders._stop)


class Watch(Changes):
    """`for change in session.watch('jobs/'):` gives each Change, also in
    another thread's close()."""

    def close(self) -> None:
        """Ends the iteration."""
        session = self._session
        session._loop._loop.call_soon_threadsafe(  # type: ignore
            self._stop)

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        change = self._session._run(self._next())  # type: ignore
        if change is None:
            raise StopIteration
        return change
