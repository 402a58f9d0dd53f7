# SPDX-License-Identifier: MIT
"""The session that a framework's process uses for all its locks."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any, Optional

from ..lease import State
from ..threads import Session


class ProcessSession:
    """Opens a session when one is needed, in each process of a program; a lost
    session is replaced. 'options' are those of hasp.Session.

    Frameworks create this object before they fork their workers. A child opens
    a session of its own."""

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._forget()
        me = weakref.ref(self)

        def in_child() -> None:
            one = me()
            if one is not None:
                one._forget()

        os.register_at_fork(after_in_child=in_child)

    def _forget(self) -> None:
        self._mutex = threading.Lock()
        self._session: Optional[Session] = None

    def get(self) -> Session:
        """The session of this process. Raises what hasp.Session() raises."""
        with self._mutex:
            last = self._session
            if last is not None and last.state() is not State.LOST:
                return last
            self._session = None
            new = self._session = Session(**self._options)
            if last is not None:
                last.close()  # It holds nothing, and sends no request.
            return new

    def close(self) -> None:
        """Closes the session of this process. get() opens another one."""
        with self._mutex:
            last, self._session = self._session, None
        if last is not None:
            last.close()
