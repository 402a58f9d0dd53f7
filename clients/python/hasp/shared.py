# SPDX-License-Identifier: MIT
"""What is built from locks, for threads and asyncio alike."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Dict, Generic, List, Protocol, Tuple, TypeVar

from .errors import NotHeld
from .hold import Hold

L = TypeVar('L', bound=Hold)
Made = TypeVar('Made', bound=Hold, covariant=True)


class Locksmith(Protocol[Made]):
    """A session."""

    def lock(self, *names: str, **options: Any) -> Made: ...


class ReadWriteLock(Generic[L]):
    """Readers together, a writer alone, in the order of their arrival: readers
    that come later do not starve a writer. `with rw.read() as lock:`"""

    def __init__(self, session: Locksmith[L], name: str,
                 **options: Any) -> None:
        self.session, self.name, self.options = session, name, options

    def read(self) -> L:
        """A lock of its own, that readers hold together."""
        return self.session.lock(self.name, shared=True, **self.options)

    def write(self) -> L:
        """A lock of its own, that nobody else holds."""
        return self.session.lock(self.name, **self.options)


class SemaphoreBase(Generic[L]):
    """Held by 'slots' at once, cluster-wide; all must say the same number. Any
    number of threads or tasks may share it: each takes slots of its own, and
    gives back its own. `with semaphore as slot:` slot.guard() and so on."""

    def __init__(self, session: Locksmith[L], name: str, slots: int,
                 **options: Any) -> None:
        self.session, self.name, self.slots = session, name, slots
        self.options = options
        self._taken: Dict[Tuple[int, Any], List[L]] = {}

    def _new(self) -> L:
        return self.session.lock(self.name, slots=self.slots, **self.options)

    def _put(self, slot: L) -> bool:
        self._taken.setdefault(whoever(), []).append(slot)
        return True

    def _take(self) -> L:
        mine = self._taken.get(whoever(), [])
        if not mine:
            raise NotHeld(f'no slot of "{self.name}" is held here')
        slot = mine.pop()
        if not mine:
            del self._taken[whoever()]
        return slot


def whoever() -> Tuple[int, Any]:
    """Who asks: a thread, and in asyncio a task."""
    try:
        return threading.get_ident(), asyncio.current_task()
    except RuntimeError:
        return threading.get_ident(), None
