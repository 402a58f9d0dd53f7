# SPDX-License-Identifier: MIT
"""The asyncio client: `async with Session() as s, s.lock('orders') as lock:`.

The event loop sends the heartbeats, so a blocked loop sends none. A task that
is cancelled while it waits for a lock leaves the queue.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from functools import partial
from typing import TYPE_CHECKING, Any, AsyncIterator, List, Optional, cast

from .connection import settle
from .errors import HaspError, LeaseLost
from .grant import Belief
from .hold import Hold
from .hooks import HookEvent
from .keeper import Event, Keeper
from .options import CANCEL_ON_LOSS, LOCK, SESSION, explains
from .request import wait_until
from .resp import Argument
from .seal import Seal
from .shared import ReadWriteLock, Semaphore
from .watch import Change, Changes, Leader, Leaders, leader_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .hold import Options

__all__ = ['Election', 'HeldElection', 'HeldLock', 'Lock', 'ReadWriteLock',
           'Semaphore', 'Session', 'Watch']


@explains(SESSION)
class Session(Keeper):
    """Like hasp.Session; open it with `async with` or `await session.open()`.
    'on_event' is called by the loop and can be a coroutine function."""

    _ending: Optional[asyncio.Task[None]] = None

    async def open(self) -> Session:
        """Opens the session. If the call is cancelled, a session that was opened
        meanwhile is closed in the background."""
        opening = asyncio.ensure_future(self._start())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            opening.add_done_callback(self._opened_late)
            raise
        return self

    def _opened_late(self, opening: asyncio.Future[None]) -> None:
        if not opening.cancelled() and not opening.exception():
            self._ending = asyncio.ensure_future(self._end())

    async def close(self) -> None:
        """Ends the session; its locks go to the next in line. If the call is
        cancelled, this continues in the background."""
        if self._pid != os.getpid():
            self._abandon()
            return
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end())
        await asyncio.shield(self._ending)

    @explains(LOCK + CANCEL_ON_LOSS)
    def lock(self, *names: str, cancel_on_loss: bool = False,
             **options: Unpack[Options]) -> Lock:
        """One lock, or several that are acquired together."""
        return Lock(self, *names, cancel_on_loss=cancel_on_loss, **options)

    def watch(self, prefix: str = '') -> Watch:
        """As hasp.Session.watch(); `async for`."""
        return Watch(self, prefix)

    async def ask(self, *words: Argument) -> Any:
        """As hasp.Session.ask()."""
        return await self._ask(*words)

    async def untie(self) -> None:
        """As hasp.Session.untie()."""
        await self._untie()

    async def __aenter__(self) -> Session:
        return await self.open()

    async def __aexit__(self, *_: Any) -> None:
        await self.close()

    def _tell(self, event: Event) -> None:
        if self.on_event:
            try:
                told = self.on_event(event)
                if asyncio.iscoroutine(told):
                    self._callback = asyncio.ensure_future(told)
            except Exception as error:
                # A handler of the program has failed; continue.
                asyncio.get_running_loop().call_exception_handler(
                    {'message': 'on_event failed', 'exception': error})

    def _post_hook(self, event: HookEvent) -> None:
        asyncio.get_running_loop().call_soon(self._reporter.call, event)


@explains(LOCK + CANCEL_ON_LOSS)
class Lock(Hold):
    """Like hasp.Lock, with awaitable methods. With 'cancel_on_loss' the task in
    `async with` is cancelled as soon as the hold cannot be trusted, even for a
    while; the block then raises LeaseLost."""

    def __init__(self, session: Session, *names: str,
                 cancel_on_loss: bool = False,
                 **options: Unpack[Options]) -> None:
        super().__init__(session, *names, **options)
        self._cancels = cancel_on_loss
        self._guards: List[asyncio.Task[None]] = []
        self._is_cancelled = False

    async def acquire(self, blocking: bool = True,
                      timeout: Optional[float] = -1) -> bool:
        """As hasp.Lock.acquire(); on_grant can be a coroutine function, which is
        cancelled at its limit."""
        grant = await self._acquire(wait_until(
            blocking, timeout, self.options.get('timeout')))
        if grant and self.options.get('on_grant'):
            await self._seal(grant)
        return bool(grant)

    async def _seal(self, grant: List[Belief]) -> None:
        """Runs on_grant, in a task if it is a coroutine function: that is
        cancelled at its limit."""
        hook = asyncio.ensure_future(self._run_hook(grant))
        late = asyncio.get_running_loop().create_future()
        seal = Seal(self, grant, partial(settle, late, True))
        failure: Optional[BaseException] = None
        try:
            seal.arm()
            await asyncio.wait({hook, late},
                               return_when=asyncio.FIRST_COMPLETED)
            if not hook.done():
                hook.cancel()
            elif hook.cancelled():
                failure = asyncio.CancelledError()
            else:
                failure = hook.exception()
        except BaseException:  # The caller's task was cancelled.
            hook.cancel()
            self._give_back(grant)
            raise
        await seal.end(failure)

    async def _run_hook(self, grant: List[Belief]) -> None:
        for one in grant:
            if one.is_first:
                done = self.options['on_grant'](one.lock, one.token)
                if inspect.isawaitable(done):
                    await done

    async def release(self) -> None:
        """As hasp.Lock.release()."""
        await self._release()

    async def convert(self, shared: bool, blocking: bool = True,
                      timeout: Optional[float] = -1) -> bool:
        """As hasp.Lock.convert()."""
        return await self._convert(shared, wait_until(
            blocking and not shared, timeout, None))

    async def place(self) -> Optional[int]:
        """As hasp.Lock.place()."""
        return await self._place()

    async def note(self, text: str) -> None:
        """As hasp.Lock.note()."""
        await self._note(text)

    async def _cancel_on_loss(self, task: asyncio.Task[Any]) -> None:
        while self.remaining() > 0:
            await self.session._rest(self.remaining())
        self._is_cancelled = True
        task.cancel()

    async def __aenter__(self) -> HeldLock:
        self._entered(await self.acquire())
        task = asyncio.current_task()
        if self._cancels and task:
            self._is_cancelled = False
            self._guards.append(
                asyncio.ensure_future(self._cancel_on_loss(task)))
        return cast('HeldLock', self)

    async def __aexit__(self, kind: Any, *_: Any) -> None:
        if self._guards:
            self._guards.pop().cancel()
        try:
            await self.release()
        except HaspError:
            if kind is None:
                raise  # Otherwise the error of the block is raised.
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
        finally:
            if self._is_cancelled and kind in (None, asyncio.CancelledError):
                task = asyncio.current_task()
                if hasattr(task, 'uncancel'):  # From Python 3.11 on.
                    task.uncancel()  # type: ignore[union-attr]
                raise LeaseLost(f'the hold of "{self.name}" could no longer be '
                                'trusted')


class HeldLock(Lock):
    """The Lock inside `async with`: its token is never None. Only a name for
    annotations: at run time the object is the Lock itself."""

    if TYPE_CHECKING:
        @property
        def token(self) -> int: ...


@explains(LOCK + CANCEL_ON_LOSS)
class Election(Lock):
    """As hasp.Election."""

    if TYPE_CHECKING:
        async def __aenter__(self) -> HeldElection: ...

    async def leader(self) -> Optional[Leader]:
        return await leader_of(self.session, self.names[0])

    async def observe(self) -> AsyncIterator[Optional[Leader]]:
        leaders = Leaders(self.session, self.names[0])
        try:
            while True:
                yield await leaders._next_leader()
        finally:
            leaders._stop()


class HeldElection(HeldLock, Election):
    """Like HeldLock, for an Election."""


class Watch(Changes):
    """As hasp.Watch."""

    def close(self) -> None:
        self._stop()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Change:
        change = await self._next()
        if change is None:
            raise StopAsyncIteration
        return change
