# SPDX-License-Identifier: MIT
"""The bridge from the program's threads to the loop that keeps its sessions.

An exception can come at any step of a thread of the program: Ctrl-C, the time
limit of a task queue or of a test. Therefore:

1. The loop never waits for anything that such a thread can hold: no mutex, no
   condition of a Future, no lock of the logging module. A thread appends a Call
   to a queue, and waits for a lock of that call, which the loop releases.
2. A thread that leaves without the outcome reports that by one call of a C
   function (SimpleQueue.put), which nothing interrupts. A grant is then
   released, and a release is carried out.
3. The end of a `with` block is noticed even if __exit__ was interrupted before
   its first line: see Exit.
"""

from __future__ import annotations

import _thread
import asyncio
import enum
import logging
import os
import queue
import threading
import weakref
from collections import deque
from functools import partial
from itertools import filterfalse
from typing import (Any, Awaitable, Callable, ClassVar, Deque, Dict, Generic,
                    List, Optional, Set, Tuple, TypeVar)

from .core import LOG
from .errors import HaspError

Result = TypeVar('Result')
STOP = 2.0  # Seconds for the loop to end.
LEFT = 0.5  # And for it to handle a thread that has left.
BLOCKED = 'the thread that keeps sessions alive cannot wait for one'


class Over(Exception):
    """The loop has ended, because the last session has left it."""


class Cancelled(Exception):
    """The call was cancelled: by cancel(), or with its session."""


class When(enum.Enum):
    """The fate of a call whose thread has left."""
    GIVEN_UP = 'it is cancelled'
    FINISHED = 'it finishes if it has started'
    CARRIED_OUT = 'it starts and finishes'


class Call(Generic[Result]):
    """A call from a thread into the loop. 'begin' makes the coroutine or task and
    'undo' reverts a result that no thread received; both run in the loop. While
    the call runs it is a member of each set in 'among'."""

    def __init__(self, begin: Callable[[], Awaitable[Result]],
                 undo: Optional[Callable[[Result], Any]] = None,
                 when_left: When = When.GIVEN_UP,
                 among: Any = ()) -> None:
        self.done = _thread.allocate_lock()
        self.done.acquire()
        self.value: Any = None
        self.error: Optional[BaseException] = None
        self.undo = undo
        self.task: Optional[asyncio.Future[Result]] = None
        self._begin = begin
        self._among: List[Set[Any]] = list(among)
        self._when_left = when_left
        self._is_left = self._is_over = self._has_left = False
        self._gone: Any = None  # The lock of a thread that waits for the end.

    def wait_until_left(self) -> None:
        """Waits until the loop has given it up: soon, unless the loop is
        busy."""
        gone = _thread.allocate_lock()
        gone.acquire()
        self._gone = gone
        if not self._has_left:
            gone.acquire(timeout=LEFT)

    # --- called by the loop -------------------------------------------------

    def start(self) -> None:
        if self.task is None and not self._is_over and (
                not self._is_left or self._when_left is When.CARRIED_OUT):
            for calls in self._among:
                calls.add(self)
            self.task = asyncio.ensure_future(self._begin())
            self.task.add_done_callback(self._finish)

    def cancel(self) -> None:
        if self.task:
            self.task.cancel()

    def leave(self) -> None:
        """The thread no longer waits for the outcome."""
        if not self._is_left:
            self._is_left = True
            if self._is_over:
                self._take_back()
            elif self._when_left is When.CARRIED_OUT:
                self.start()
            elif self._when_left is When.GIVEN_UP:
                self.cancel()
        if self.task is None or self._is_over:
            self._tell_left()

    def fail(self, error: BaseException) -> None:
        if not self._is_over:
            self._is_over, self.error = True, error
            self._tell_left()
            self.done.release()

    def _finish(self, task: asyncio.Future[Result]) -> None:
        for calls in self._among:
            calls.discard(self)
        if task.cancelled():
            self.error = Cancelled()
        else:
            self.error = task.exception()
            self.value = None if self.error else task.result()
        self._is_over = True
        if self._is_left:
            self._take_back()
            self._tell_left()
        self.done.release()

    def _tell_left(self) -> None:
        self._has_left = True
        if self._gone and self._gone.locked():
            self._gone.release()

    def _take_back(self) -> None:
        undo, self.undo = self.undo, None
        if undo and self.error is None:
            undo(self.value)


class Loop:
    """An event loop on a thread of its own, for the sessions of a process. The
    last session that leaves ends it."""

    _shared: ClassVar[Dict[int, Loop]] = {}  # By process.

    def __init__(self) -> None:
        self.left: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sessions = 0
        self._inbox: Deque[Tuple[Callable[[], None], Any]] = deque()
        # Locks of threads that wait for the end.
        self._ends: Deque[Any] = deque()
        self._once = _thread.allocate_lock()  # It is never released.
        self._loop: Any = None
        self._thread: Any = None
        self._hearer: Optional[threading.Thread] = None
        self._ident = 0
        self._error: Exception = Over()
        self._is_over = self._has_ended = False
        self._is_logging = False
        self._logs: Optional[queue.SimpleQueue[Any]] = None

    # --- called by any thread, and interrupted anywhere ---------------------

    @classmethod
    def join(cls) -> Loop:
        """Returns the loop of this process. It can end before it is used:
        Over."""
        return cls._shared.setdefault(os.getpid(), cls())

    def run(self, call: Call[Result]) -> Result:
        """Returns the result of the call. If an exception interrupts the wait,
        the call is cancelled, undone or carried out (see When), and the
        exception is raised. Over, Cancelled: no result; the caller must turn
        these into its own error."""
        try:
            if _thread.get_ident() == self._ident:
                raise HaspError(BLOCKED)
            self._is_logging = LOG.isEnabledFor(logging.DEBUG)
            self._inbox.append((call.start, call))
            self._wake()
            call.done.acquire()
            if call.error is None:
                return call.value  # type: ignore[no-any-return]
        except BaseException:
            self.left.put(call)
            raise
        try:
            raise call.error
        finally:
            del call  # The error's traceback has this frame.

    def outcome(self, order: Order) -> Any:
        """Waits for the outcome of an order; raises as run() does."""
        if _thread.get_ident() == self._ident:
            raise HaspError(BLOCKED)
        done = _thread.allocate_lock()
        done.acquire()
        order.append(done)
        if None not in order and not self._has_ended:
            done.acquire()
        call = order.made
        if call is None:
            raise self._error  # It came too late.
        try:
            if call.error:
                raise call.error
            return call.value
        finally:
            del call, order  # The error's traceback has this frame.

    def post(self, action: Callable[[], Any]) -> None:
        """Runs it in the loop, unless the loop has ended."""
        try:
            if self._loop:
                self._loop.call_soon_threadsafe(action)
        except RuntimeError:
            pass

    def wait_for_end(self) -> None:
        """Waits for the end of the loop, if the loop is ending."""
        if self._is_over and self._thread:
            ended = _thread.allocate_lock()
            ended.acquire()
            self._ends.append(ended)
            if not self._has_ended:
                ended.acquire(timeout=2 * STOP)
            self._thread.join(STOP)

    def _wake(self) -> None:
        """The order matters. A call is in the queue before the thread checks
        that the loop exists, and the loop is gone before it checks the queue
        for the last time."""
        if self._is_over:
            raise self._error
        if self._loop:
            self.post(self._drain)
        else:
            _thread.start_new_thread(self._begin, ())

    # --- called by threads of our own ---------------------------------------

    def _begin(self) -> None:
        """A Thread's start() waits for its thread, and an interrupt of that
        would block both. So the first thread that needs the loop calls it
        here."""
        if self._once.acquire(False):
            try:
                self._thread = start('hasp', self._main)
            except Exception as error:
                self._end(error)

    def _main(self) -> None:
        try:
            loop = asyncio.new_event_loop()
            self._ident = _thread.get_ident()
            self._hearer = start('hasp-left', self._hear)
            loop.call_soon(self._drain)
            self._loop = loop
            loop.run_forever()
            self._end(Over())
            loop.close()
        except Exception as error:
            self._end(error)

    def _hear(self) -> None:
        """Handles threads that have left, after their earlier calls."""
        for one in iter(self.left.get, None):
            self._inbox.append((one.leave, one))
            self.post(self._drain)

    def _drain(self) -> None:
        while self._inbox:
            action, one = self._inbox.popleft()
            try:
                if self._is_over:
                    raise self._error
                action()
            except Exception as error:
                one.fail(error)

    def leave(self) -> None:
        """Counts a session that has ended; called in the loop."""
        self.sessions -= 1
        if self.sessions == 0:
            self._close(Over())
            self._stopping = asyncio.ensure_future(self._stop())

    async def _stop(self) -> None:
        """Cancels the tasks that are still running."""
        await cancel(asyncio.all_tasks() - {asyncio.current_task()})
        self._loop.stop()

    def _close(self, error: Exception) -> None:
        """Accepts no more calls."""
        self._error, self._is_over = error, True
        if self._shared.get(os.getpid()) is self:
            del self._shared[os.getpid()]

    def _end(self, error: Exception) -> None:
        self._close(error)
        self.left.put(None)
        if self._hearer:
            self._hearer.join()
        self._drain()
        if self._logs:
            self._logs.put(None)
        self._has_ended = True
        while not self.left.empty():  # Calls that arrived after None.
            one = self.left.get()
            if one:
                one.fail(error)
        while self._ends:
            self._ends.popleft().release()

    def log(self, text: str, *arguments: Any) -> None:
        """Logs at DEBUG, on a thread of its own."""
        if self._is_logging:
            if self._logs is None:
                self._logs = queue.SimpleQueue()
                start('hasp-log', partial(write_logs, self._logs))
            self._logs.put((text, *arguments))


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=Loop._shared.clear)


def start(name: str, action: Callable[[], Any]) -> threading.Thread:
    """Must not be called by a thread of the program."""
    thread = threading.Thread(target=action, daemon=True, name=name)
    thread.start()
    return thread


def write_logs(logs: queue.SimpleQueue[Any]) -> None:
    for words in iter(logs.get, None):
        LOG.debug(*words)


async def cancel(tasks: Set[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait({asyncio.ensure_future(asyncio.sleep(0)), *tasks},
                       timeout=STOP)


# --- calls that are always carried out --------------------------------------


class Order(list):  # type: ignore[type-arg]
    """[call, lock ...]: creates the Call, and has the locks of its waiters. A
    class without __init__, so that C code creates it."""

    made: Optional[Call[Any]] = None

    def leave(self) -> None:
        self.made = self[0]()
        self.made.start()
        assert self.made.task
        self.made.task.add_done_callback(self._finish)

    def fail(self, error: BaseException) -> None:
        self.made = self[0]()
        self.made.fail(error)
        self._finish(None)

    def _finish(self, _: Any) -> None:
        self.append(None)  # The call is over, for later waiters.
        for lock in [one for one in self[1:] if one]:
            lock.release()


def surely(loop: Loop, call: Callable[[], Call[Any]],
           receive: Callable[[Callable[[], Any]], None]) -> Callable[[], None]:
    """Returns a function that runs an action in the loop, even if it is
    interrupted. An interrupt before the first line of a Python function ends
    it. So everything until the loop has the order is C code: a partial() asks a
    map() for its next element; that asks filterfalse(), which creates an Order,
    puts it into the queue, and passes it on. Only then 'receive' is called with
    the object to wait for."""
    def wait(order: Order) -> None:
        receive(partial(loop.outcome, order))

    orders = iter(partial(Order, (call,)), None)
    return partial(next, map(wait, filterfalse(loop.left.put, orders)))


# --- the end of a with block ------------------------------------------------


class Block:
    """One `with` block. 'call' is given up when the block has ended, unless its
    __exit__ has been carried out."""

    def __init__(self) -> None:
        self.call: Optional[Call[Any]] = None
        self.ticket: Any = None  # A weak reference.


class Handle(weakref.ref):  # type: ignore[type-arg]
    """The program's reference to a session. If the program drops it without
    closing the session, the session is closed: an interrupt can come between
    Session() and `with`. Therefore everything that keeps the session alive has
    another object, 'own', with the same attributes."""

    own: Any = None  # Set when the session is open.

    def leave(self) -> None:
        if self.own:
            self.own._end_all()

    def fail(self, _: BaseException) -> None:
        """The loop has ended, and so has the session."""


class Ticket(weakref.ref):  # type: ignore[type-arg]
    block: Optional[Block] = None

    def leave(self) -> None:
        if self.block and self.block.call:
            self.block.call.leave()

    def fail(self, _: BaseException) -> None:
        """Nothing remains to be done."""


class Exit:
    """An __exit__ that takes effect even if it is interrupted. An interrupt
    before the first line of a function ends it. But a `with` statement gets
    __exit__ when it begins, and drops it in any case when it ends. Here it gets
    an object to which only the statement refers, and C code alone notifies the
    loop when that object is gone. The object, a partial(), is in no
    traceback."""

    def __init__(self, leave: Callable[..., Any]) -> None:
        self._leave = leave

    def __get__(self, instance: Any, _: Any = None) -> Callable[..., Any]:
        if instance is None:
            return partial(self._call)
        block = Block()
        found = partial(self._leave, instance, block)
        block.ticket = Ticket(found, instance._left)
        block.ticket.block = block
        instance._blocks[_thread.get_ident()] = block
        return found

    def _call(self, instance: Any, *told: Any) -> Any:
        return self._leave(instance, None, *told)


def block_of(instance: Any) -> Optional[Block]:
    """The block of an __enter__; None: __enter__ was called by hand."""
    block: Optional[Block] = instance._blocks.pop(_thread.get_ident(), None)
    return block if block and block.ticket() is not None else None
