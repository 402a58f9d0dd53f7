# SPDX-License-Identifier: MIT
"""Sessions and locks for threads. A thread of the process runs an event loop,
which keeps them alive and does what the program's threads wait for."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from functools import partial
from typing import (TYPE_CHECKING, Any, Callable, Coroutine, Dict, Iterator,
                    List, Optional, Set, TypeVar, cast)

from .bridge import (Block, Call, Cancelled, Exit, Handle, Loop, Over, When,
                     block_of, cancel, start, surely)
from .core import LOG
from .errors import HaspError, LeaseLost
from .grant import Belief
from .hold import Hold
from .hooks import HookEvent
from .keeper import Event, Keeper
from .options import LOCK, SESSION, explains
from .request import wait_until
from .resp import Argument
from .seal import Seal
from .watch import Change, Changes, Leader, Leaders, leader_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hold import Options

Result = TypeVar('Result')


@explains(SESSION)
class Session(Keeper):
    """A lease-backed identity that owns locks.

        with Session(name='billing') as session:
            with session.lock('orders') as lock:
                write(..., token=lock.token)

    Any number of threads may share it. 'on_event' is called with one event after
    the other, on a thread that does nothing else.

    A session that holds nothing is closed when the program no longer has a
    reference to it, its locks or its watches.

    After os.fork() the child must not use the parent's session: every call but
    close() raises HaspError there. Open a session of its own.
    """

    _own: Session  # See Handle.

    def _begin(self) -> None:
        self._events: queue.SimpleQueue[Optional[Event]] = queue.SimpleQueue()
        self._teller: Optional[threading.Thread] = None
        self._hook_events: queue.SimpleQueue[Optional[HookEvent]] = \
            queue.SimpleQueue()
        self._hooker: Optional[threading.Thread] = None
        self._calls: Set[Call[Any]] = set()
        self._ending: Optional[asyncio.Task[None]] = None
        self._blocks: Dict[int, Block] = {}  # By thread: those being entered.
        own = self._own = object.__new__(type(self))
        own.__dict__ = self.__dict__
        own._report_hooks()  # Not the program's object: see Handle.
        while True:
            self._loop = Loop.join()
            self._left = self._loop.left.put
            self._handle = Handle(self, self._left)
            if type(self).close is Session.close:
                self.close = surely(  # type: ignore[method-assign]
                    self._loop, own._closing, own._close)
            try:
                return self._loop.run(Call(
                    own._open_all, when_left=When.FINISHED,
                    undo=lambda _: own._end_all()))
            except Over:
                pass  # The last session of that loop was just closed.

    async def _open_all(self) -> None:
        self._loop.sessions += 1
        try:
            await self._start()
        except BaseException:
            if self._unwanted:
                self._unwanted.add_done_callback(lambda _: self._loop.leave())
            else:
                self._loop.leave()
            raise
        if self.on_event:
            self._teller = start('hasp-events', self._tell_all)
        if self._reporter.hooks:
            self._hooker = start('hasp-hooks', self._call_hooks)
        self._handle.own = self

    def close(self) -> None:
        """Ends the session; its locks go to the next in line. Takes up to
        'timeout' if no node can be reached: then its lease must run out. If it
        is interrupted, this continues in the background."""
        self._close(partial(self._loop.run, self._closing()))

    def _closing(self) -> Call[None]:
        return Call(self._own._end_all, when_left=When.CARRIED_OUT)

    def _close(self, wait: Callable[[], None]) -> None:
        if self._pid != os.getpid():
            self._abandon()
            return
        try:
            wait()
        except (Over, Cancelled):
            pass  # It was closed.
        self._loop.wait_for_end()
        for thread in (self._hooker, self._teller):
            if thread and thread is not threading.current_thread():
                thread.join(self.timeout)

    def _end_all(self) -> asyncio.Task[None]:
        """Begins the end, once."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end_calls())
        return self._ending

    async def _end_calls(self) -> None:
        try:
            await self._end()
            await cancel({call.task for call in self._calls})
        finally:
            self._events.put(None)
            self._hook_events.put(None)
            self._loop.leave()

    @explains(LOCK)
    def lock(self, *names: str, **options: Unpack[Options]) -> Lock:
        """A lock, or several at once, by name."""
        return Lock(self, *names, **options)

    def watch(self, prefix: str = '') -> Watch:
        """Changes of the locks whose names begin with 'prefix', from now on."""
        return Watch(self, prefix)

    def ask(self, *words: Argument) -> Any:
        """The answer to any command of docs/protocol.md that may be repeated,
        as it is where a connection fails: session.ask('LOCK.SHOW', 'orders'),
        'LOCK.PLEASE', 'LOCK.CHECK', 'LOCK.RELEASEIF', 'FENCE.ADMIT' ..."""
        return self._run(partial(self._own._ask, *words))

    def untie(self) -> None:
        """Ends the tie to this process, for good, so that another process can
        take over the session. Unreachable: the agent has not confirmed it."""
        self._run(self._own._untie)

    def __enter__(self) -> Session:
        block = block_of(self)
        if block:
            block.call = self._closing()
        return self

    def _leave(self, _: Optional[Block], *__: Any) -> None:
        self.close()

    if TYPE_CHECKING:
        def __exit__(self, *_: Any) -> None: ...
    else:
        __exit__ = Exit(_leave)

    def _run(self, begin: Callable[[], Coroutine[Any, Any, Result]],
             undo: Optional[Callable[[Result], Any]] = None,
             when_left: When = When.GIVEN_UP) -> Result:
        call = Call(begin, undo, when_left, [self._calls])
        return self._wait(partial(self._loop.run, call))

    def _wait(self, wait: Callable[[], Result]) -> Result:
        self._check_process()
        try:
            return wait()
        except (Over, Cancelled):
            self._check()
            raise LeaseLost('the session is lost: it was closed; open '
                            'another one') from None

    def _background(self, begin: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Is called by the loop, for what nobody waits for."""
        Call(begin, among=[self._calls]).start()

    def _log(self, text: str, *arguments: Any) -> None:
        self._loop.log(text, *arguments)

    def _tell(self, event: Event) -> None:
        self._events.put(event)

    def _tell_all(self) -> None:
        for event in iter(self._events.get, None):
            try:
                self.on_event(event)  # type: ignore[misc]
            except Exception:  # A handler has failed; later events still count.
                LOG.exception('on_event failed')

    def _post_hook(self, event: HookEvent) -> None:
        self._hook_events.put(event)

    def _late_hooks(self) -> int:
        return self._hook_events.qsize()

    def _hook_failed(self, text: str) -> None:
        self._loop.post(partial(self._noticed, text))

    def _call_hooks(self) -> None:
        for event in iter(self._hook_events.get, None):
            self._reporter.call(event)


@explains(LOCK)
class Lock(Hold):
    """One lock, or several that are acquired together: all or none.

    It is used like threading.Lock: two Lock objects exclude each other, also
    within one session, and so do two threads that share one. It is not
    re-entrant unless it has an 'owner': the same owner can acquire again, and
    must release as often. The hold is no longer trusted from the moment at
    which the release is sent.
    """

    session: Session

    def acquire(self, blocking: bool = True,
                timeout: Optional[float] = -1) -> bool:
        """Waits in line for up to 'timeout' seconds, -1: without limit. With
        blocking=False it only tries. Returns False if the lock was not granted;
        its place in the queue is given up then. Raises LeaseLost if the session
        is lost, Unreachable or Unknown if no node answers, SealFailed if on_grant,
        which this thread runs, fails or takes too long."""
        return self._acquire_in(None, blocking, timeout)

    def _acquire_in(self, block: Optional[Block], blocking: bool = True,
                    timeout: Optional[float] = -1) -> bool:
        until = wait_until(blocking, timeout, self.options.get('timeout'))
        session = self.session
        call = Call(partial(self._acquire, until), self._give_back,
                    among=[session._calls, self._waits])
        if block:
            block.call = call
        session._check_process()
        try:
            grant = session._loop.run(call)
            if grant and self.options.get('on_grant'):
                self._seal(grant)
            return bool(grant)
        except Cancelled:
            session._check()
            return False
        except Over:
            session._check()
            raise LeaseLost('the session is lost: it was closed; open '
                            'another one') from None
        except HaspError:
            raise
        except BaseException:
            self._left(call)
            call.wait_until_left()  # Then nothing trusts it.
            raise

    def _seal(self, grant: List[Belief]) -> None:
        """Runs on_grant in this thread, and its limit in the loop."""
        seal = Seal(self, grant)
        failure: Optional[Exception] = None
        self.session._loop.post(seal.arm)
        try:
            for one in seal.beliefs:
                self.options['on_grant'](one.lock, one.token)
        except Exception as error:
            failure = error
        self.session._run(partial(seal.end, failure),
                          when_left=When.CARRIED_OUT)

    def cancel(self) -> bool:
        """Makes acquire() in other threads return False. True if there was one.
        """
        waits = list(self._waits)
        for call in waits:
            self.session._loop.post(call.cancel)
        return bool(waits)

    def release(self) -> None:
        """Releases the lock. If it raises, the session keeps trying in the
        background. NotHeld: the cluster had already ended the hold, so the last
        steps might have run without the lock."""
        self.session._run(self._release, when_left=When.CARRIED_OUT)

    def _releasing(self) -> Call[None]:
        return Call(self._release, when_left=When.CARRIED_OUT,
                    among=[self.session._calls])

    def convert(self, shared: bool, blocking: bool = True,
                timeout: Optional[float] = -1) -> bool:
        """Converts the hold. To shared: at once. To exclusive: when the other
        readers have released it, ahead of the queue, with a new token. False:
        the hold is still shared. Refused (DEADLOCK): another holder waits to
        convert. After an interrupt the lock is shared."""
        until = wait_until(blocking and not shared, timeout, None)
        return self.session._run(
            partial(self._convert, shared, until),
            lambda done: done and not shared and self.session._background(
                self._convert_back))

    def place(self) -> Optional[int]:
        """The place in the queue of an acquire() that waits in another thread; 1
        is the next. None: not in the queue. Asks the cluster."""
        return self.session._run(self._place)

    def note(self, text: str) -> None:
        """Stores up to 4096 bytes with the lock for later holders: 'note' of
        LOCK.SHOW. Raises NotHeld unless the lock is held."""
        self.session._run(partial(self._note, text))

    def __init__(self, session: Session, *names: str,
                 **options: Unpack[Options]) -> None:
        super().__init__(session._own, *names, **options)
        self._user = session._handle()  # The program's reference to the session.
        self._left = session._left
        if type(self).release is Lock.release:
            self.release = surely(  # type: ignore[method-assign]
                session._loop, self._releasing, session._wait)
        self._waits: Set[Call[List[Belief]]] = set()
        self._blocks: Dict[int, Block] = {}  # By thread: those being entered.

    def __enter__(self) -> HeldLock:
        self._entered(self._acquire_in(block_of(self)))
        return cast('HeldLock', self)

    def _leave(self, block: Optional[Block], kind: Any, *_: Any) -> None:
        async def leave() -> None:
            if block:
                block.ticket = block.call = None
            await self._release()

        try:
            self.session._run(leave, when_left=When.CARRIED_OUT)
        except HaspError:
            if kind is None:
                raise  # Otherwise the error of the block is raised.

    if TYPE_CHECKING:
        def __exit__(self, kind: Any, *_: Any) -> None: ...
    else:
        __exit__ = Exit(_leave)


class HeldLock(Lock):
    """The Lock inside a `with` block: its token is never None. Only a name for
    annotations: at run time the object is the Lock itself."""

    if TYPE_CHECKING:
        @property
        def token(self) -> int: ...


@explains(LOCK)
class Election(Lock):
    """A lock whose holder is the leader. Its 'value', such as an address, is
    shown to the other candidates. acquire() campaigns, release() resigns."""

    if TYPE_CHECKING:
        def __enter__(self) -> HeldElection: ...

    def leader(self) -> Optional[Leader]:
        """The current leader; None: there is none. It can be out of date as soon
        as it arrives."""
        return self.session._run(partial(leader_of, self.session,
                                         self.names[0]))

    def observe(self) -> Iterator[Optional[Leader]]:
        """Yields the current leader, then each new one."""
        leaders = Leaders(self.session, self.names[0])
        try:
            while True:
                yield self.session._run(leaders._next_leader, leaders._again)
        finally:
            self.session._loop.post(leaders._stop)


class HeldElection(HeldLock, Election):
    """Like HeldLock, for an Election."""


class Watch(Changes):
    """`for change in session.watch('jobs/'):` yields each Change until close(),
    which any thread can call."""

    def __init__(self, session: Session, prefix: str) -> None:
        super().__init__(session._own, prefix)
        self._user = session._handle()  # The program's reference to the watch.

    def close(self) -> None:
        """Ends the iteration."""
        self._session._loop.post(self._stop)  # type: ignore

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Change:
        change = self._session._run(  # type: ignore
            self._next, self._again)
        if change is None:
            raise StopIteration
        return change
