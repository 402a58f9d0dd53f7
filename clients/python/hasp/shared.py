# SPDX-License-Identifier: MIT
"""ReadWriteLock and Semaphore, for threads and asyncio."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from .hold import Hold
from .options import LOCK, explains

L = TypeVar('L', bound=Hold)
Made = TypeVar('Made', bound=Hold, covariant=True)


class Locksmith(Protocol[Made]):
    """A session."""

    def lock(self, *names: str, **options: Any) -> Made: ...


@explains(LOCK)
class ReadWriteLock(Generic[L]):
    """Many readers or one writer, in order of arrival: later readers do not
    starve a writer. `with rw.read() as lock:`"""

    def __init__(self, session: Locksmith[L], name: str,
                 **options: Any) -> None:
        self.session, self.name, self.options = session, name, options

    def read(self) -> L:
        """A new lock that readers hold together."""
        return self.session.lock(self.name, shared=True, **self.options)

    def write(self) -> L:
        """A new lock that is held exclusively."""
        return self.session.lock(self.name, **self.options)


@explains(LOCK)
class Semaphore(Generic[L]):
    """At most 'slots' holders in the cluster; all must give the same number.
    `with semaphore.slot() as slot:`"""

    def __init__(self, session: Locksmith[L], name: str, slots: int,
                 **options: Any) -> None:
        self.session, self.name, self.slots = session, name, slots
        self.options = options

    def slot(self) -> L:
        """A new lock for one of the slots."""
        return self.session.lock(self.name, slots=self.slots, **self.options)
