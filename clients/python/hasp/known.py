# SPDX-License-Identifier: MIT
"""The cluster that a process works with. It prevents the process from locking
in another cluster that happens to answer at one of its endpoints."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Dict, Sequence, Tuple

from .lease import read_clock
from .request import Endpoint, show_endpoint

if TYPE_CHECKING:
    from .core import Core


class Known:
    """In its answer to HELLO each node names the life of its cluster, and the
    lives from which that one was restored. The first life in which a request
    was done becomes the known one. A node of another life is rejected, unless
    that life was restored from the known one, or every endpoint showed that
    same life when it was last reached and the process has no trusted session
    left. Nothing is stored."""

    # No mutex: an interrupted thread would leave it locked. Each step here is a
    # single one of the interpreter.

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints
        self.id = ''
        self._shown: Dict[Endpoint, str] = {}  # Other lives, by endpoint.
        self._sessions: Dict[int, weakref.ref[Core]] = {}

    def add(self, session: Core) -> None:
        """Adds a session, which is open and might be trusted."""
        number = id(session)

        def forget(_: weakref.ref[Core]) -> None:
            self._sessions.pop(number, None)

        self._sessions[number] = weakref.ref(session, forget)

    def _is_believed(self) -> bool:
        now = read_clock()
        for one in list(self._sessions.values()):
            session = one()
            if session is not None and session._lease.is_believed(now):
                return True
        return False

    def judge(self, endpoint: Endpoint, greeting: Any) -> Tuple[str, str]:
        """Judges the answer to HELLO. Returns why the node must be left, or '',
        and a text that people should know, or ''."""
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
        """The endpoint could not be reached."""
        self._shown.pop(endpoint, None)

    def learn(self, name: str) -> None:
        """A node of that life has done a request."""
        self.id = self.id or name


_all: Dict[Tuple[Endpoint, ...], Known] = {}


def known_at(endpoints: Sequence[Endpoint]) -> Known:
    """Returns the same object for all connections of the process to these
    endpoints."""
    return _all.setdefault(tuple(endpoints), Known(tuple(endpoints)))
