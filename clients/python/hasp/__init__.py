# SPDX-License-Identifier: MIT
"""A client of the hasp lock service; standard library only.

    from hasp import Session

    with Session(name='billing') as session:
        with session.lock('orders') as lock:
            lock.guard(2.0)            # may a step of 2 s begin?
            store.write(row, fence=lock.token)

hasp.aio has the same for asyncio.
"""

from .errors import (HaspError, LeaseLost, LeaseShort, NotHeld, Refused,
                     SealFailed, TimedOut, Unknown, Unreachable)
from .hooks import HookEvent, Hooks
from .keeper import Event
from .lease import State
from .shared import ReadWriteLock, Semaphore
from .threads import (Election, HeldElection, HeldLock, Lock, Session,
                      Watch)
from .watch import Change, Leader

__all__ = ['Change', 'Election', 'Event', 'HaspError', 'HeldElection',
           'HeldLock', 'HookEvent', 'Hooks', 'Leader', 'LeaseLost',
           'LeaseShort', 'Lock', 'NotHeld', 'ReadWriteLock', 'Refused',
           'SealFailed', 'Semaphore', 'Session', 'State', 'TimedOut', 'Unknown',
           'Unreachable', 'Watch']
