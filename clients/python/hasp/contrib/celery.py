# SPDX-License-Identifier: MIT
"""A Celery task that runs once at a time, on all workers together.

    from hasp.contrib.celery import Singleton

    app.conf.hasp = {'endpoints': '10.0.0.1:7420,10.0.0.2:7420,10.0.0.3:7420'}

    @app.task(base=Singleton, bind=True, acks_late=True)
    def bill(self):
        for row in rows():
            self.lock.guard(2.0)       # LeaseLost: do not begin this step
            store.write(row, fence=self.lock.token)
"""

from __future__ import annotations

import inspect
import threading
import weakref
from typing import Any, List, Optional

from celery import Task
from celery.exceptions import Ignore, Reject
from celery.signals import worker_process_shutdown, worker_shutdown
from celery.utils.log import get_task_logger

from ..errors import HaspError, LeaseLost, TimedOut, Unknown, Unreachable
from ..threads import HeldLock
from .sessions import ProcessSession

LOG = get_task_logger(__name__)
DONE_MAX = 64  # Task ids in a lock's note: some 2400 bytes.
BUSY = 'retry', 'skip', 'fail'

_sessions: 'weakref.WeakKeyDictionary[Any, ProcessSession]' = \
    weakref.WeakKeyDictionary()
_mutex = threading.Lock()


class Busy(HaspError):
    """Another run of the task has the lock."""


def session_of(app: Any) -> ProcessSession:
    """The session for the tasks of this app. Its options are those of
    hasp.Session, from the setting 'hasp' of the app."""
    with _mutex:
        if app not in _sessions:
            options = {'name': f'celery {app.main or ""}'.strip(),
                       **(app.conf.get('hasp') or {})}
            _sessions[app] = ProcessSession(**options)
        return _sessions[app]


def close(**_: Any) -> None:
    """Closes the sessions of this process. Workers do this when they stop."""
    with _mutex:
        all_of_them = list(_sessions.values())
    for one in all_of_them:
        one.close()


worker_process_shutdown.connect(close)
worker_shutdown.connect(close)


class Singleton(Task):  # type: ignore[misc]
    """A task whose runs never overlap. Options are arguments of app.task():

    lock_name: name of the lock; may contain arguments of the task,
        'invoices/{customer}': one run per customer. Default: 'celery/' and the
        task's name.
    lock_busy: what happens while another run has the lock. 'retry': the message
        is sent again, for lock_retry seconds later, which does not count as one
        of the task's retries. 'skip': the message is dropped, without a result.
        'fail': the task fails with Busy.
    lock_wait: seconds to wait in line before that, with a worker's slot.
    lock_retry: seconds until the next attempt.
    lock_once: True: a message that the broker delivers again after its task has
        succeeded is dropped. The cluster stores the ids of the last 64 tasks
        with the lock. Default: True if lock_name contains no argument.

    In the task 'lock' is the hasp.Lock. If it is lost during the run, the task
    fails with LeaseLost or NotHeld at its end: its result does not count.
    """

    abstract = True
    lock_name: Optional[str] = None
    lock_busy = 'retry'
    lock_wait = 0.0
    lock_retry = 5.0
    lock_once: Optional[bool] = None

    @property
    def lock(self) -> HeldLock:
        """The lock of the current run."""
        lock: Optional[HeldLock] = getattr(self.request, 'hasp_lock', None)
        if lock is None:
            raise LeaseLost(f'task {self.name}: the lock exists only while the '
                            'task runs; do not call run() directly')
        return lock

    def name_of(self, args: Any, kwargs: Any) -> str:
        """The lock's name for these arguments of the task."""
        if self.lock_name is None:
            return f'celery/{self.name}'
        given = inspect.signature(self.run).bind(*args, **kwargs)
        given.apply_defaults()
        try:
            return self.lock_name.format(**given.arguments)
        except (KeyError, IndexError, AttributeError) as error:
            raise ValueError(
                f'task {self.name}: lock_name={self.lock_name!r} needs {error}; '
                'the arguments are ' + ', '.join(given.arguments)) from None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        request = self.request
        if not request.called_directly:
            if getattr(request, 'hasp_lock', None) is not None:
                return self.run(*args, **kwargs)  # It calls itself.
            return self._locked(args, kwargs)
        self.push_request(args=args, kwargs=kwargs)
        try:
            return self._locked(args, kwargs)
        finally:
            self.request_stack.pop()

    def _locked(self, args: Any, kwargs: Any) -> Any:
        if self.lock_busy not in BUSY:
            raise ValueError(f'task {self.name}: lock_busy={self.lock_busy!r}; '
                             'use one of ' + ', '.join(BUSY))
        name, request = self.name_of(args, kwargs), self.request
        is_held = False
        try:
            lock = session_of(self.app).get().lock(
                name, timeout=self.lock_wait, value=f'{self.name} {request.id}')
            with lock as held:
                is_held = True
                request.hasp_lock = held
                try:
                    return self._run_once(held, name, args, kwargs)
                finally:
                    request.hasp_lock = None
        except (TimedOut, Unreachable, Unknown, LeaseLost) as error:
            if is_held:
                raise
            reason = error
        return self._busy(name, reason)

    def _run_once(self, lock: HeldLock, name: str, args: Any,
                  kwargs: Any) -> Any:
        request = self.request
        once = self.lock_once
        if once is None:
            once = '{' not in (self.lock_name or '')
        if not once or request.called_directly or request.is_eager:
            return self.run(*args, **kwargs)
        session = lock.session
        done: List[str] = str(
            session.ask('LOCK.SHOW', name).get('note', '')).split()
        if request.id in done:
            LOG.info('%s[%s] was delivered again after it had succeeded',
                     self.name, request.id)
            raise Ignore(f'{request.id} has succeeded before')
        result = self.run(*args, **kwargs)
        lock.note(' '.join([*done, request.id][-DONE_MAX:]))
        return result

    def _busy(self, name: str, reason: Exception) -> Any:
        """There is no lock; nothing has run."""
        request = self.request
        is_busy = isinstance(reason, TimedOut)
        direct = request.called_directly or request.is_eager
        if is_busy and self.lock_busy == 'skip' and not direct:
            LOG.info('%s[%s] skipped: lock "%s" is held', self.name, request.id,
                     name)
            raise Ignore(f'lock "{name}" is held')
        if self.lock_busy == 'retry' and not direct:
            LOG.info('%s[%s] again in %s s: %s', self.name, request.id,
                     self.lock_retry, reason)
            try:
                self.signature_from_request(
                    request, countdown=self.lock_retry,
                    retries=request.retries).apply_async()
            except Exception as error:
                raise Reject(error, requeue=True) from error
            # Not Retry: it would overwrite the state of the run that has the
            # lock if both come from the same message.
            raise Ignore(f'again in {self.lock_retry} s: {reason}')
        if is_busy:
            raise Busy(f'task {self.name}: lock "{name}" is held by another '
                       f'run; waited {self.lock_wait} s') from None
        raise reason
