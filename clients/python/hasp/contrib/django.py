# SPDX-License-Identifier: MIT
"""Locks for Django's management commands, and transactions that refuse the
writes of a former holder.

    from hasp.contrib.django import LockedCommand, fenced

    class Command(LockedCommand):
        def handle(self, *args, **options):
            for account in due():
                with fenced(Account.objects.filter(pk=account.pk), self.lock):
                    ...                # one transaction
"""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import Any, Dict, Iterator, Optional

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import router, transaction

from ..errors import HaspError, LeaseLost, NotHeld, TimedOut
from ..threads import HeldLock, Session
from .sessions import ProcessSession

EXIT_BUSY, EXIT_LOST = 75, 79  # As those of hasp run.

_mutex = threading.Lock()
_process: Optional[ProcessSession] = None


def _options() -> Dict[str, Any]:
    return {'name': 'django', **getattr(settings, 'HASP', {})}


def session() -> Session:
    """The hasp.Session of this process, for views and other code. Its options
    are in the setting HASP: HASP = {'endpoints': '10.0.0.1:7420,...'}."""
    global _process
    with _mutex:
        if _process is None:
            _process = ProcessSession(**_options())
    return _process.get()


class StaleToken(HaspError):
    """A later holder has written. The transaction was rolled back."""


@contextmanager
def fenced(rows: Any, lock: Any, column: str = 'fence',
           need: float = 0.0) -> Iterator[int]:
    """A transaction that only the newest holder of 'lock' can commit.

    It begins by setting 'column' of the rows of this queryset to the lock's
    token, which locks them until the transaction ends. If a row has a larger
    token it raises StaleToken, and nothing is written. The column is a
    BigIntegerField(default=0). All that the lock protects is written in such
    transactions, on the same rows.

    need: seconds that the transaction takes; LeaseLost if the lease is shorter.
    """
    lock.guard(need)
    token = lock.token
    using = rows._db or router.db_for_write(rows.model, **rows._hints)
    rows = rows.using(using)
    with transaction.atomic(using=using):
        count = rows.filter(**{f'{column}__lte': token}).update(
            **{column: token})
        wanted = rows.count()
        if wanted == 0:
            raise rows.model.DoesNotExist(
                f'no row of {rows.model._meta.label} to fence')
        if count != wanted:
            raise StaleToken(
                f'{rows.model._meta.label}: {wanted - count} of {wanted} rows '
                f'have a "{column}" above token {token}: a later holder has '
                'written; stop and acquire the lock again')
        yield token


def _on_term(_number: int, _frame: Any) -> None:
    sys.exit(128 + signal.SIGTERM)


class LockedCommand(BaseCommand):  # type: ignore[misc]
    """A management command that runs once at a time, on all machines.

    lock_name: name of the lock; default: 'django/' and the command's name.
    lock_wait: seconds to wait for the lock; None: without limit.
    lock_busy: what happens if it is not free then. 'fail': CommandError;
        'skip': a line on stderr, and exit status 0.

    'lock' is the hasp.Lock in handle(). SIGTERM ends the command like Ctrl-C:
    its transactions are rolled back and the lock is released.
    """

    lock_name: Optional[str] = None
    lock_wait: Optional[float] = 0.0
    lock_busy = 'fail'
    lock: HeldLock

    def execute(self, *args: Any, **options: Any) -> Any:
        if self.lock_busy not in ('fail', 'skip'):
            raise CommandError(f'lock_busy={self.lock_busy!r}: use '
                               "'fail' or 'skip'")
        name = self.lock_name or 'django/' + \
            type(self).__module__.rpartition('.')[2]
        is_ours = threading.current_thread() is threading.main_thread() and \
            signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if is_ours:
            signal.signal(signal.SIGTERM, _on_term)
        try:
            return self._execute(name, args, options)
        finally:
            if is_ours:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _execute(self, name: str, args: Any, options: Any) -> Any:
        is_held = False
        try:
            with Session(**_options()) as own, \
                    own.lock(name, timeout=self.lock_wait) as self.lock:
                is_held = True
                return super().execute(*args, **options)
        except (LeaseLost, NotHeld) as error:
            raise CommandError(
                f'lock "{name}" was lost, another command might have run '
                f'meanwhile: {error}', returncode=EXIT_LOST) from error
        except TimedOut:
            if is_held:
                raise
        except HaspError as error:
            if is_held:
                raise
            raise CommandError(f'lock "{name}": {error}') from error
        text = f'lock "{name}" is held elsewhere; waited {self.lock_wait} s'
        if self.lock_busy == 'fail':
            raise CommandError(text, returncode=EXIT_BUSY)
        self.stderr.write(text)
        return None
