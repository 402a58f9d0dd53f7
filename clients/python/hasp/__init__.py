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
                     Unknown, Unreachable)
from .keeper import Event
from .lease import State
from .session import Lock, Session

__all__ = ['Event', 'HaspError', 'LeaseLost', 'LeaseShort', 'Lock', 'NotHeld',
           'Refused', 'Session', 'State', 'Unknown', 'Unreachable']
