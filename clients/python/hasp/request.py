# SPDX-License-Identifier: MIT
"""Requests, without I/O: endpoints, words, request numbers, and the meaning of
errors."""

from __future__ import annotations

import hashlib
import math
import numbers
import os
import random
import re
import socket
import sys
import time
from typing import (Any, Callable, Dict, List, NamedTuple, Optional, Sequence,
                    Tuple, Union)

from . import resp
from .errors import HaspError, LeaseLost, NotHeld, Refused, Unknown, Unreachable

Endpoint = Tuple[str, int]  # Host and port, or 'unix:/path' and 0.

SOCKET = 'unix:'  # Before the path of a node's socket on this machine.

DEFAULT_ENDPOINTS = '127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440'
CONNECT_TIMEOUT = 1.0
ANSWER = 4.0  # Seconds for an answer; then another node is asked.
ATTEMPT_MIN = 0.25  # Seconds for the answer to the last attempt.
GRACE = 1.0  # Extra seconds for the push that ends a wait.
ENDLESS_WAIT_MS = 60000  # Limit of one wait request of a durable session.
SILENCE = 15.0  # A wait is then requested again: its push might be lost.
TIMER_MAX = 86400.0
ACKED_RANGES = 16  # Most ranges that a node accepts in ACKED.


# [host] or host, with or without a port; or an IPv6 address alone. Characters
# that no host name has are refused: they mean a URL, or a list with other
# commas.
ADDRESS = re.compile(r'(?:\[([^][\s,/;@]+)\]|([^][\s,/;@:]+))(?::(\d{1,5}))?|'
                     r'([^][\s,/;@:]*:[^][\s,/;@:]*:[^][\s,/;@]*)')


def parse_endpoints(text: Union[None, str, Sequence[str]]) -> List[Endpoint]:
    """'host:port,...' or a list of them. The default port is 7420; 'unix:/path'
    is a socket of this machine."""
    if text is None:
        text = os.environ.get('HASP_ENDPOINTS', DEFAULT_ENDPOINTS)
    parts = text.split(',') if isinstance(text, str) else list(text)
    if not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError(f'{text!r} names no node; write host:port, as in '
                         '127.0.0.1:7420, or a list of such texts')
    return [parse_endpoint(part.strip()) for part in parts]


def parse_endpoint(text: str) -> Endpoint:
    if text.startswith(SOCKET + '/'):
        return text, 0
    found = ADDRESS.fullmatch(text)
    port = int(found[3] or 7420) if found else 0
    if not found or not 0 < port < 65536:
        raise ValueError(f'{text!r} is not an address of a node; write host:port, '
                         'as in 127.0.0.1:7420')
    return found[1] or found[2] or found[4], port


def show_endpoint(endpoint: Endpoint) -> str:
    host, port = endpoint
    if not port:
        return host
    return f'[{host}]:{port}' if ':' in host else f'{host}:{port}'


def check_durations(**durations: float) -> None:
    """Checks the durations of a session, in seconds, by name; 0 means none,
    except for 'ttl' and 'timeout'."""
    for name, value in durations.items():
        least = name in ('ttl', 'timeout')
        if not isinstance(value, numbers.Real) or not 0 <= value < math.inf or \
                (least and not value):
            raise ValueError(f'{name}={value!r}: expected a number of seconds, '
                             f'{"above 0" if least else "0 or more"}')


def default_name() -> str:
    return f'{os.path.basename(sys.argv[0] or "python")}:{os.getpid()}'


def open_words(name: str, ttl: float, linger: float, secret: str,
               durable: bool = False, reason: str = '') -> List[resp.Argument]:
    """The words of OPEN, with the hash of the secret only."""
    words: List[resp.Argument] = [
        'SESSION.OPEN', 'TTL', 'NONE' if durable else int(ttl * 1000),
        'NAME', name,
        'PROOF', hashlib.sha256(secret.encode()).hexdigest()]
    if linger and not durable:
        words += ['LINGER', int(linger * 1000)]
    return words + ['LABEL', 'reason', reason] if reason else words


def is_number(reply: Any) -> bool:
    return isinstance(reply, int) and not isinstance(reply, bool)


def is_lease(reply: Any) -> bool:
    """True if the reply has the form of an answer to KEEP."""
    if not isinstance(reply, dict) or 'ttl_ms' not in reply:
        return False
    ttl, linger = reply['ttl_ms'], reply.get('linger_ms') or 0
    ended, dropped = reply.get('ended') or [], reply.get('dropped') or 0
    return isinstance(ended, list) and is_number(dropped) and all(
        isinstance(one, dict) and is_number(one.get('number') or 0)
        for one in ended) and (
        ttl is None or (is_number(ttl) and ttl > 0 and is_number(linger)))


def is_page(reply: Any) -> bool:
    """True if the reply has the form of an answer to SESSION.HOLDS."""
    return isinstance(reply, dict) and isinstance(reply.get('cursor'), str) \
        and isinstance(reply.get('holds'), list) and \
        is_number(reply.get('as_of')) and reply['as_of'] > 0


def is_opened(reply: Any) -> bool:
    return is_lease(reply) and is_number(reply.get('id')) and reply['id'] > 0


def wait_until(blocking: bool, timeout: Optional[float],
               default: Optional[float]) -> Optional[float]:
    """When a wait for a lock is over, on the monotonic clock; None: do not
    wait. The arguments are those of threading.Lock.acquire()."""
    if blocking not in (False, True):
        raise TypeError(f'acquire({blocking!r}): blocking must be True or '
                        f'False; to wait up to {blocking!r} seconds write '
                        f'timeout={blocking!r}')
    if timeout is None or timeout == -1:
        timeout = default if default is not None and blocking else math.inf
    elif not blocking:
        raise ValueError('a timeout needs blocking=True')
    if timeout < 0:
        raise ValueError(f'timeout={timeout!r}: expected -1 (no limit), 0 (do '
                         'not wait) or a number of seconds')
    return time.monotonic() + timeout if blocking and timeout else None


class Wait:
    """A wait of one owner for locks. A request that must wait is answered
    QUEUED and its place in the queue; a push reports the end. The push can come
    before that answer, twice or never, so the wait is requested again from time
    to time, under the same request number."""

    def __init__(self, until: float, owner: str, names: Sequence[str],
                 is_durable: bool, queued: Callable[[], None]) -> None:
        self.until, self._queued = until, queued
        self._owner, self._names, self._is_durable = owner, names, is_durable
        self._place: Optional[int] = None
        self._told: Dict[str, Any] = {}
        self.wake: Callable[[], None] = bool  # Wakes the parked request.

    def words(self) -> List[resp.Argument]:
        """The WAIT words; none if the wait is over, which asks for the outcome and
        leaves the queue. A durable session waits with a limit, since the
        unlimited wait of a dead client would never end."""
        self._place, self._told, self.wake = None, {}, bool
        left = self.until - time.monotonic()
        if left <= 0:
            return []
        forever: resp.Argument = \
            ENDLESS_WAIT_MS if self._is_durable else 'FOREVER'
        return ['WAIT', forever if left == math.inf else
                math.ceil(left * 1000), 'PUSH']

    def look(self) -> float:
        """When the wait must be requested again."""
        return min(self.until + GRACE, time.monotonic() + SILENCE)

    def is_queued(self, reply: Any) -> bool:
        found = isinstance(reply, str) and re.fullmatch(r'QUEUED (\d+)', reply)
        self._place = int(found[1]) if found else None
        if found:
            self._queued()
        return bool(found)

    def is_queueing(self) -> bool:
        return self._place is not None

    def is_over(self) -> bool:
        return bool(self._told) and self._told.get('wait') == self._place

    def pushed(self, told: Dict[str, Any]) -> None:
        if told.get('owner') == self._owner:
            self._told = told
            if self.is_over():
                self.wake()

    def granted(self) -> Any:
        """The grant in the form of the answer; None if it must be requested: a
        push does not say how much of a limit is left."""
        grants = self._told.get('grants') if self.is_over() else None
        if not isinstance(grants, list) or len(grants) != len(self._names) or \
                not all(isinstance(one, dict) and
                        one.get('hold_left_ms', 0) is None for one in grants):
            return None
        return grants if len(self._names) > 1 else grants[0]


# Commands that act for a session, or are numbered in it, and others that
# neither wait nor change anything.
ACTING = frozenset((
    'SESSION.CLOSE', 'LOCK.ACQUIRE', 'LOCK.MACQUIRE', 'LOCK.CONVERT',
    'LOCK.RELEASE', 'LOCK.MRELEASE', 'LOCK.CANCEL', 'LOCK.NOTE', 'LOCK.OBJECT',
    'LOCK.PLEASE', 'FENCE.ADMIT', 'FENCE.REMOVE', 'SESSION.HOLDS'))
READING = frozenset((
    'SESSION.SHOW', 'SESSION.LIST', 'LOCK.SHOW', 'LOCK.LIST', 'LOCK.WHY',
    'LOCK.TOP', 'LOCK.GRAPH', 'LOCK.CHECK', 'LOCK.HISTORY', 'FENCE.SHOW',
    'FENCE.LIST'))
ALONE = frozenset(('WAIT', 'FOREVER'))


def goes_alone(words: Sequence[resp.Argument]) -> bool:
    """True if the command needs a connection of its own, because it waits,
    changes the connection, or names a session itself."""
    verb, *rest = (str(word).upper() for word in words)
    return verb not in ACTING | READING or names_session(words) or \
        not ALONE.isdisjoint(rest[1:])


def names_session(words: Sequence[resp.Argument]) -> bool:
    """True if the command names the session for which it acts. Its first
    argument is a name, except that of SESSION.CLOSE."""
    verb, *rest = (str(word).upper() for word in words)
    return 'SESSION' in rest[verb != 'SESSION.CLOSE':]


def closes_session(words: Sequence[resp.Argument]) -> bool:
    """True if the command would end this session without its object's
    knowledge."""
    return str(words[0]).upper() == 'SESSION.CLOSE' and \
        not names_session(words)


def is_of_other(words: Sequence[resp.Argument]) -> bool:
    """True if a refusal of the command can concern another session."""
    return str(words[0]).upper() not in ACTING or names_session(words)


def retry_pause(attempt: int) -> float:
    """Seconds before the nodes are asked again: longer each time, and random,
    so that many clients do not ask at the same moment."""
    return random.uniform(0.02, 0.1) * min(attempt, 5)


class Forgotten(Unknown):
    """The cluster no longer has the result of that request number, so asking
    again is useless."""


LEAVES = frozenset(('NOLEADER', 'MOVED', 'UNKNOWN'))  # Another node is asked.


def is_of_asker(error: resp.ReplyError) -> bool:
    return error.code in ('NOAUTH', 'WRONGPASS', 'NOTLS')


def is_open_still(error: resp.ReplyError) -> bool:
    """True if the refusal concerns only this attempt: the client's credentials,
    or a full disk of the leader. An earlier attempt might still be in
    flight."""
    return is_of_asker(error) or str(error).startswith('LIMIT disk')


def judge(error: resp.ReplyError, is_doubtful: bool = False) -> HaspError:
    """The exception of a refusal. Unreachable and Unknown: ask again.
    'is_doubtful': an earlier attempt might have been done."""
    if error.code in ('NOLEADER', 'BUSY', 'MOVED') or \
            (is_doubtful and is_open_still(error)):
        return Unreachable(str(error))
    kinds = {'UNKNOWN': Unknown, 'FORGOTTEN': Forgotten,
             'EXPIRED': LeaseLost, 'NOSESSION': LeaseLost, 'NOTHELD': NotHeld}
    return kinds.get(error.code, Refused)(str(error))


class Trouble:
    """The errors of a request's attempts, and the deadline for more of them.
    """

    def __init__(self, limit: float, is_doubtful: bool,
                 is_other: bool) -> None:
        self.is_doubtful = is_doubtful  # An attempt might have been done.
        self.is_other = is_other  # A refusal can concern another session.
        self._limit = limit
        self._latest = limit - min(ATTEMPT_MIN, (limit - time.monotonic()) / 4)
        self._last: Dict[str, str] = {}

    def latest(self) -> float:
        """The last moment to begin an attempt. A later one that gets no answer
        would turn a certain outcome, nothing was done, into an unknown one."""
        return self._limit if self.is_doubtful else self._latest

    def note(self, endpoint: Endpoint, error: Exception, is_sent: bool) -> None:
        self.is_doubtful |= is_sent
        text = getattr(error, 'strerror', None) or str(error) or 'no answer'
        if isinstance(error, socket.timeout):
            # A missing answer does not replace an error that was reported before.
            self._last.setdefault(show_endpoint(endpoint), text)
        else:
            self._last[show_endpoint(endpoint)] = text

    def error(self) -> HaspError:
        told = '; '.join(f'{node}: {text}' for node, text in
                         self._last.items())
        if self.is_doubtful:
            return Unknown(f'no answer in time, it may have been done ({told})')
        return Unreachable(f'no node could do it ({told or "not tried"})')


class Owner(NamedTuple):
    """The owner tag of a request within the session. Private tags are reused.
    """
    tag: str
    is_private: bool


class Owners:
    """The owners of a session and its request numbers. A number is used for one
    request, which takes effect once however often it is sent. Each request
    lists the finished numbers, so that the cluster can forget their results.
    """

    def __init__(self) -> None:
        self._free: List[Owner] = []
        self._count = 0
        self._newest = 0
        self._open: List[int] = []  # Unfinished numbers, ascending.
        self._turn = 0  # Where the next ranges begin.

    def take(self, tag: str) -> Owner:
        if tag:
            return Owner(tag, False)
        if self._free:
            return self._free.pop()
        self._count += 1
        return Owner(f'{os.getpid()}-{self._count}', True)

    def put(self, owner: Owner) -> None:
        if owner.is_private:
            self._free.append(owner)

    def begin(self, owner: Owner) -> Tuple[int, List[resp.Argument]]:
        self._newest += 1
        self._open.append(self._newest)
        return self._newest, ['OWNER', owner.tag, 'REQ', self._newest,
                              'ACKED', self._acked()]

    def end(self, number: int) -> None:
        self._open.remove(number)

    def _acked(self) -> str:
        """'4,6-9': all numbers up to the first one, and the ranges between open
        numbers. If there are too many ranges, the next request sends the
        others."""
        open_ = self._open
        words = [str(open_[0] - 1)]
        for i in range(len(open_)):
            at = (self._turn + i) % len(open_)
            end = open_[at + 1] if at + 1 < len(open_) else self._newest + 1
            if open_[at] + 1 < end:
                words.append(f'{open_[at] + 1}-{end - 1}')
            if len(words) > ACKED_RANGES:
                self._turn = at + 1
                break
        return ','.join(words)
