# SPDX-License-Identifier: MIT
"""Which cluster a process works with, so that it does not lock at another one
which happens to answer at one of its endpoints."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Dict, Sequence, Tuple

from .lease import read_clock
from .request import Endpoint, show_endpoint

if TYPE_CHECKING:
    from .core import Core


class Known:
    """Each node says in its answer to HELLO to which life of a cluster it
    belongs, and from which lives that was restored. The first life at which
    something was done becomes the known one. A node of another life is a
    stranger, unless its life was restored from the known one, or every endpoint
    showed that same life when it was reached last, and no session of the
    process is believed any longer. It is never stored."""

    # No mutex: an interrupted thread would leave it locked, and each step here
    # is one of the interpreter's.

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints
        self.id = ''
        self._shown: Dict[Endpoint, str] = {}  # Other lives, by endpoint.
        self._sessions: Dict[int, weakref.ref[Core]] = {}

    def add(self, session: Core) -> None:
        """It is open, and may be believed."""
        number = id(session)
        self._sessions[number] = weakref.ref(
            session, lambda _: self._sessions.pop(number, None))

    def _is_believed(self) -> bool:
        now = read_clock()
        for one in list(self._sessions.values()):
            session = one()
            if session is not None and session._lease.is_believed(now):
                return True
        return False

    def judge(self, endpoint: Endpoint, greeting: Any) -> Tuple[str, str]:
        """By the answer to HELLO: why the node is to be left, or '', and
        whether people should be told of it, in words, or ''."""
        told = greeting if isinstance(greeting, dict) else {}
        name, former = told.get('cluster'), told.get('former') or []
        if name is None:
            return '', ''
        if not name:
            return 'belongs to no cluster yet', ''
        if self.id in ('', name):
            self._shown.pop(endpoint, None)
            return '', ''
        was_shown = self._shown.get(endpoint) == name
        self._shown[endpoint] = name
        if self.id in former or self._is_all_there_is(name):
            self.id, self._shown = name, {}
            return '', ''
        why = f'is a node of another cluster ({name}, not {self.id})'
        text = f'{show_endpoint(endpoint)} {why}; it is asked nothing'
        return why, '' if was_shown else text

    def _is_all_there_is(self, name: str) -> bool:
        return all(self._shown.get(one) == name for one in self._endpoints) \
            and not self._is_believed()

    def missed(self, endpoint: Endpoint) -> None:
        """It was not reached."""
        self._shown.pop(endpoint, None)

    def learn(self, name: str) -> None:
        """A node of that life has done something."""
        self.id = self.id or name


_all: Dict[Tuple[Endpoint, ...], Known] = {}


def known_at(endpoints: Sequence[Endpoint]) -> Known:
    """The same for all connections of the process to these endpoints."""
    return _all.setdefault(tuple(endpoints), Known(tuple(endpoints)))
