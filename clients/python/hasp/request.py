# SPDX-License-Identifier: MIT
"""Requests, without I/O: where they go, their words, their numbers, and what an
error means."""

from __future__ import annotations

import hashlib
import math
import os
import random
import sys
import time
from typing import Dict, List, Optional, Sequence, Set, Tuple, Union

from . import resp
from .errors import HaspError, LeaseLost, NotHeld, Refused, Unknown, Unreachable

Endpoint = Tuple[str, int]

DEFAULT_ENDPOINTS = '127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440'
CONNECT_TIMEOUT = 1.0
ANSWER = 4.0  # For an answer; after it another node is asked.
GRACE = 2.0  # For the answer to a wait, beyond the wait.
SILENCE = 15.0  # A wait is asked again after so long: its node may be frozen.
IDLE_MAX = 8  # Connections kept for later requests.


def parse_endpoints(text: Union[None, str, Sequence[str]]) -> List[Endpoint]:
    """'host:port,...' or a list of them; a port that is missing is 7420."""
    if text is None:
        text = os.environ.get('HASP_ENDPOINTS', DEFAULT_ENDPOINTS)
    found = []
    for part in text.split(',') if isinstance(text, str) else text:
        host, colon, port = part.strip().rpartition(':')
        if not colon or (':' in host and not host.endswith(']')):
            host, port = part.strip(), '7420'
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f'{part!r} is no address of a node; write '
                             'host:port, as in 127.0.0.1:7420')
        found.append((host.strip('[]'), int(port)))
    return found


def default_name() -> str:
    return f'{os.path.basename(sys.argv[0] or "python")}:{os.getpid()}'


def open_words(name: str, ttl: float, linger: float,
               secret: str) -> List[resp.Argument]:
    """OPEN. Of the secret it shows the hash alone."""
    words: List[resp.Argument] = [
        'SESSION.OPEN', 'TTL', int(ttl * 1000), 'NAME', name,
        'PROOF', hashlib.sha256(secret.encode()).hexdigest()]
    return words + ['LINGER', int(linger * 1000)] if linger else words


def wait_until(timeout: Optional[float]) -> Optional[float]:
    """When a wait for a lock is over, on the monotonic clock; None: none."""
    if timeout is None:
        return math.inf
    if timeout < 0:
        raise ValueError('a timeout is None (for ever), 0 (not at all) or a '
                         'number of seconds')
    return time.monotonic() + timeout if timeout else None


def wait_words(until: Optional[float]) -> Tuple[List[resp.Argument], float]:
    """WAIT, and how long this attempt listens. Where the wait is over there is
    none: that asks for the outcome and gives the place in the queue up."""
    left = 0.0 if until is None else until - time.monotonic()
    if left <= 0:
        return [], ANSWER
    wait: resp.Argument = \
        'FOREVER' if left == math.inf else math.ceil(left * 1000)
    return ['WAIT', wait], min(left + GRACE, SILENCE)


def retry_pause(attempt: int) -> float:
    """Seconds before the nodes are asked once more: longer each time, and by
    chance, so that many clients do not come at once."""
    return random.uniform(0.02, 0.1) * min(attempt, 5)


def judge(error: resp.ReplyError) -> HaspError:
    """The exception of a refusal. Unreachable and Unknown: ask again."""
    if error.code in ('NOLEADER', 'BUSY', 'MOVED'):
        return Unreachable(str(error))
    kinds = {'UNKNOWN': Unknown, 'EXPIRED': LeaseLost, 'NOSESSION': LeaseLost,
             'NOTHELD': NotHeld}
    return kinds.get(error.code, Refused)(str(error))


class Trouble:
    """What the attempts of one request ended with."""

    def __init__(self) -> None:
        self.is_doubtful = False  # One of them may have been done.
        self._last: Dict[str, str] = {}

    def note(self, endpoint: Endpoint, error: Exception, is_sent: bool) -> None:
        self.is_doubtful |= is_sent
        text = getattr(error, 'strerror', None) or str(error) or 'no answer'
        self._last['%s:%d' % endpoint] = text

    def error(self) -> HaspError:
        told = '; '.join(f'{node}: {text}' for node, text in
                         self._last.items())
        if self.is_doubtful:
            return Unknown(f'no answer in time, it may have been done ({told})')
        return Unreachable(f'no node could do it ({told or "not tried"})')


class Owner:
    """An owner's tag and the numbers of its requests. A number that is sent
    again does nothing again; all below the oldest open one may be forgotten."""

    def __init__(self, tag: str) -> None:
        self.tag = tag
        self._newest = 0
        self._open: Set[int] = set()

    def begin(self) -> Tuple[int, List[resp.Argument]]:
        self._newest += 1
        self._open.add(self._newest)
        return self._newest, ['OWNER', self.tag, 'REQ', self._newest,
                              'ACKED', min(self._open) - 1]

    def end(self, number: int) -> None:
        self._open.discard(number)


class Owners:
    """Of a session. A private owner is used again, so that the cluster need not
    remember the numbers of ever more of them."""

    def __init__(self) -> None:
        self._named: Dict[str, Owner] = {}
        self._free: List[Owner] = []
        self._count = 0

    def take(self, tag: str) -> Owner:
        if tag:
            return self._named.setdefault(tag, Owner(tag))
        if self._free:
            return self._free.pop()
        self._count += 1
        return Owner(f'{os.getpid()}-{self._count}')

    def put(self, owner: Owner) -> None:
        if owner.tag not in self._named:
            self._free.append(owner)
