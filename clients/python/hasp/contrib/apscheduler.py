# SPDX-License-Identifier: MIT
"""An executor for APScheduler 3: of all processes that schedule a job, one runs
each fire of it.

    from hasp.contrib.apscheduler import OncePerFire, current_lock

    scheduler = BackgroundScheduler(executors={'default': OncePerFire()})
    scheduler.add_job(report, 'cron', hour=3, id='report')
"""

from __future__ import annotations

import re
import sys
import traceback
from contextvars import ContextVar
from datetime import datetime, timedelta, timezone
from typing import Any, Dict, List, Optional

from apscheduler.events import (EVENT_JOB_ERROR, EVENT_JOB_EXECUTED,
                                EVENT_JOB_MISSED, JobExecutionEvent)
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.triggers.interval import IntervalTrigger

from ..errors import HaspError, TimedOut
from ..threads import HeldLock
from .sessions import ProcessSession

FORMAT = '%Y-%m-%dT%H:%M:%S.%fZ'
AHEAD = timedelta(minutes=1)  # Clocks that differ by more get a warning.

_lock: 'ContextVar[Optional[HeldLock]]' = ContextVar('hasp_lock', default=None)


def current_lock() -> HeldLock:
    """The lock of the job that this thread runs: guard() and token."""
    lock = _lock.get()
    if lock is None:
        raise HaspError('no job of OncePerFire runs in this thread')
    return lock


def _parts(trigger: Any) -> List[Any]:
    """The trigger, and those that it combines."""
    return [trigger, *(part for one in getattr(trigger, 'triggers', ())
                       for part in _parts(one))]


def fire_of(trigger: Any, run_time: datetime) -> datetime:
    """The time, in UTC, that stands for this fire in all processes. Intervals
    begin in each process when it starts, so one of them stands for all fires
    within the same multiple of it."""
    parts = _parts(trigger)
    if any(getattr(one, 'jitter', None) for one in parts):
        raise ValueError('its trigger has jitter, so its fires differ in each '
                         'process; remove jitter')
    utc = run_time.astimezone(timezone.utc)
    if not isinstance(trigger, IntervalTrigger):
        if any(isinstance(one, IntervalTrigger) for one in parts):
            raise ValueError('its trigger combines an interval, which begins '
                             'at another time in each process; use cron')
        return utc
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    interval: timedelta = trigger.interval
    return epoch + (utc - epoch) // interval * interval


class OncePerFire(ThreadPoolExecutor):  # type: ignore[misc]
    """Runs a fire of a job unless another process runs it or has run it. The
    scheduled time identifies a fire, so clocks may differ. The lock
    PREFIX + job id is held during the run, and its note is the last fire.

    A job runs at most once per fire: a fire whose process dies is not repeated.

    prefix: before the job's id in the name of the lock.
    wait: seconds to wait for a lock that another process holds; longer than
        the ttl of the session, so that the fire after the death of a process
        is not lost.
    max_workers, pool_kwargs: as in APScheduler's ThreadPoolExecutor.
    The other options are those of hasp.Session.
    """

    def __init__(self, max_workers: int = 10, pool_kwargs: Any = None,
                 prefix: str = 'apscheduler/', wait: float = 15.0,
                 **options: Any) -> None:
        super().__init__(max_workers, pool_kwargs)
        self._prefix, self._wait_s = prefix, wait
        self._process = ProcessSession(**{'name': 'apscheduler', **options})

    def shutdown(self, wait: bool = True) -> None:
        super().shutdown(wait)
        if wait:  # Otherwise running jobs keep their locks until they end.
            self._process.close()

    def _do_submit_job(self, job: Any, run_times: List[datetime]) -> None:
        def done(future: Any) -> None:
            error = future.exception()
            if error:
                self._run_job_error(job.id, error, error.__traceback__)
            else:
                self._run_job_success(job.id, future.result())

        self._pool.submit(self._run_fires, job, run_times).add_done_callback(
            done)

    def _run_fires(self, job: Any, run_times: List[datetime]) -> List[Any]:
        """Returns the events for the scheduler. A fire that is another
        process's has none."""
        events = []
        for at in run_times:
            kind = EVENT_JOB_EXECUTED
            more: Dict[str, Any] = {}
            late = datetime.now(timezone.utc) - at
            grace = job.misfire_grace_time
            if grace is not None and late > timedelta(seconds=grace):
                self._logger.warning('Run time of job "%s" was missed by %s',
                                     job, late)
                kind = EVENT_JOB_MISSED
            else:
                try:
                    if not self._run_fire(job, at, more):
                        continue
                except BaseException as error:
                    self._logger.exception('Job "%s" raised an exception', job)
                    kind, more = EVENT_JOB_ERROR, {
                        'exception': error, 'traceback': ''.join(
                            traceback.format_tb(error.__traceback__))}
                    traceback.clear_frames(sys.exc_info()[2])
            events.append(JobExecutionEvent(
                kind, job.id, job._jobstore_alias, at, **more))
        return events

    def _run_fire(self, job: Any, at: datetime, more: Dict[str, Any]) -> bool:
        """Runs it under the lock; False: it is another process's."""
        self._check_id(job)
        try:
            fire = fire_of(job.trigger, at).strftime(FORMAT)
        except ValueError as error:
            raise ValueError(f'job "{job.id}": {error}') from None
        name, session = self._prefix + job.id, self._process.get()
        if self._has_run(session, name, fire):
            return False
        is_held = False
        try:
            with session.lock(name, timeout=self._wait_s, value=fire) as lock:
                is_held = True
                if self._has_run(session, name, fire):
                    return False
                lock.note(fire)
                self._logger.info('Running job "%s" (scheduled at %s)', job, at)
                before = _lock.set(lock)
                try:
                    more['retval'] = job.func(*job.args, **job.kwargs)
                finally:
                    _lock.reset(before)
        except TimedOut:
            if is_held:
                raise
            self._logger.warning(
                'Fire %s of job "%s" skipped: another process has run an '
                'earlier one for %s s', fire, job, self._wait_s)
            return False
        return True

    def _has_run(self, session: Any, name: str, fire: str) -> bool:
        last = session.ask('LOCK.SHOW', name).get('note')
        if last is None:
            return False
        try:
            until = datetime.strptime(last, FORMAT).replace(
                tzinfo=timezone.utc)
        except ValueError:
            raise HaspError(
                f'the note of lock "{name}" is {last!r}, not the time of a '
                'fire; choose another prefix') from None
        if until - datetime.now(timezone.utc) > AHEAD:
            self._logger.warning(
                'The last fire of lock "%s" is of %s, later than the clock of '
                'this machine; until then no fire runs', name, last)
        return bool(last >= fire)

    def _check_id(self, job: Any) -> None:
        """An id that APScheduler has drawn differs in each process."""
        if re.fullmatch('[0-9a-f]{32}', job.id) and isinstance(
                self._scheduler._lookup_jobstore(job._jobstore_alias),
                MemoryJobStore):
            raise ValueError(f'job "{job}" has no id of its own; give the same '
                             'one in all processes: add_job(..., id="report")')
