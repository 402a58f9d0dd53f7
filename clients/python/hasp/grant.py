# SPDX-License-Identifier: MIT
"""Grants, and how long they are trusted; without I/O.

A hold is (session, lock, owner) and its tokens: it begins with one, and each
upgrade gives it a newer one. All tokens from 'first' to 'token' in an answer or
a notice belong to that hold only. Trust is based on what an answer said, not on
the request, and ends by the token.
"""

from __future__ import annotations

from typing import (TYPE_CHECKING, Any, Dict, Iterable, Iterator, List,
                    NamedTuple, Optional, Sequence, Tuple)

from .lease import Clock, hold_remaining
from .request import is_number

if TYPE_CHECKING:
    from .hold import Hold
    from .hooks import Acquisition


class Told(NamedTuple):
    """The report of an answer on one lock."""
    lock: str
    owner: str
    token: int
    first: int
    mode: str
    count: int  # 0: it was granted, and is over.
    left_ms: Optional[int]  # Remaining time of its limit; None: no limit.
    as_of: int  # The state of the cluster that this is about.


def read_told(reply: Any) -> Optional[Told]:
    """Parses a grant; None: it is malformed."""
    if not isinstance(reply, dict):
        return None
    told = Told(*(reply.get(key) for key in (
        'lock', 'owner', 'token', 'first', 'mode', 'count', 'hold_left_ms',
        'as_of')))  # type: ignore[arg-type]
    texts = told.lock, told.owner, told.mode
    numbers = told.token, told.first, told.count, told.as_of
    if not all(isinstance(one, str) for one in texts) or \
            not all(is_number(one) and one >= 0 for one in numbers) or \
            not 0 < told.first <= told.token or \
            not (told.left_ms is None or is_number(told.left_ms)):
        return None
    return told


def read_grants(reply: Any, names: Sequence[str]) -> Optional[List[Told]]:
    """Parses the grants of these locks, in their order. None: malformed."""
    told = [read_told(one) for one in (
        reply if isinstance(reply, list) else [reply])]
    found = [one for one in told if one]
    return found if [one.lock for one in found] == list(names) and \
        len(found) == len(told) else None


class Belief:
    """The trust that an acquisition of 'hold' has one lock."""

    def __init__(self, hold: Hold, told: Told, sent: Clock,
                 acquisition: Acquisition) -> None:
        self.hold, self.acquisition = hold, acquisition
        self.lock, self.owner = told.lock, told.owner
        self.first, self.token = told.first, told.token
        self.is_first = told.count == 1  # Not acquired again by its owner.
        self.as_of = told.as_of  # The newest state known to contain it.
        self.is_over = False  # The cluster has ended the hold.
        self.is_late = False  # Its limit is over by the clock.
        self.renew(told, sent)

    def renew(self, told: Told, sent: Clock) -> None:
        """Restarts its limit, from the sending of the answered request."""
        self._left_ms, self._sent = told.left_ms, sent

    def left(self, now: Clock) -> Optional[int]:
        """Nanoseconds left; None: it has no limit."""
        if self.is_over or self.is_late:
            return 0
        return None if self._left_ms is None else \
            hold_remaining(self._sent, self._left_ms, now)

    def limit_ms(self) -> Optional[int]:
        return self._left_ms

    def is_of(self, first: int, token: int) -> bool:
        return first <= self.token <= token


class Beliefs:
    """The beliefs of a session. Functions that end beliefs return those that
    were trusted until then, so that the program can be notified."""

    def __init__(self) -> None:
        self._of: Dict[Tuple[str, str], List[Belief]] = {}
        self.seen = 0  # All notices up to this number were handled.
        self.heard = 0  # The newest notice that was sent or dropped.

    def __iter__(self) -> Iterator[Belief]:
        return (one for some in list(self._of.values()) for one in some)

    def add(self, belief: Belief, told: Told) -> List[Belief]:
        """Adds a grant, and ends what the same owner had of that lock before.
        The grant itself is over if the owner has a later hold, or if its answer
        says so."""
        key = belief.lock, belief.owner
        ended = self.end(*key, 0, belief.first - 1)
        if told.count == 0 or any(one.first > belief.token
                                  for one in self._of.get(key, ())):
            ended += end_of([belief])
        self._of.setdefault(key, []).append(belief)
        return ended

    def remove(self, belief: Belief) -> None:
        key = belief.lock, belief.owner
        rest = [one for one in self._of.get(key, ()) if one is not belief]
        if rest:
            self._of[key] = rest
        else:
            self._of.pop(key, None)

    def end(self, lock: str, owner: str, first: int, token: int) \
            -> List[Belief]:
        return end_of(one for one in self._of.get((lock, owner), ())
                      if one.is_of(first, token))

    def converted(self, told: Told) -> List[Belief]:
        """Gives the parts of this hold its newest token."""
        found = [one for one in self._of.get((told.lock, told.owner), ())
                 if one.is_of(told.first, told.token)]
        for one in found:
            one.first, one.token = told.first, told.token
            one.as_of = max(one.as_of, told.as_of)
        return found

    def noticed(self, notice: Any) -> List[Belief]:
        """Handles the notice of the end of a hold."""
        if not isinstance(notice, dict):
            return []
        token = notice.get('token')
        first = notice.get('first', token)
        if not is_number(token) or not is_number(first):
            return []
        return self.end(str(notice.get('lock')), str(notice.get('owner')),
                        first, token)

    def are_older(self, number: int) -> bool:
        """True if the notice might be about the end of one of them."""
        return any(one.as_of < number and not one.is_over for one in self)

    def confirm(self, listed: Optional[Told], as_of: int) -> None:
        """Handles one hold in a page of the list of all holds."""
        if listed:
            for one in self._of.get((listed.lock, listed.owner), ()):
                if one.is_of(listed.first, listed.token):
                    one.as_of = max(one.as_of, as_of)

    def end_older(self, number: int) -> List[Belief]:
        """Ends the holds that the list, now complete, has not confirmed."""
        return end_of(one for one in self if one.as_of < number)


def end_of(beliefs: Iterable[Belief]) -> List[Belief]:
    ended = []
    for one in beliefs:
        if not one.is_over:
            one.is_over = True
            if not one.is_late:  # Otherwise it was reported before.
                ended.append(one)
    return ended
