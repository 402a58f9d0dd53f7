# SPDX-License-Identifier: MIT
"""What a program believes of a lock and of its session, without I/O."""

from __future__ import annotations

import os
from typing import (TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple,
                    Optional, Set)

from . import resp
from .errors import HaspError, LeaseLost, LeaseShort, Unknown, Unreachable
from .lease import TRUST, Clock, Lease, State, read_clock
from .request import Owner, Owners, judge

if TYPE_CHECKING:
    from typing import TypedDict

    from typing_extensions import Unpack

    class Options(TypedDict, total=False):
        """Of a lock; durations in seconds."""
        shared: bool  # Held together with other shared holders.
        slots: int  # Held by so many at once; all must say the same number.
        value: str  # Shown to people.
        delay: float  # Stays closed for so long after its holder died.
        hold: float  # A hold ends after so long, whatever happens.
        barge: bool  # Passes those who wait, never those who hold.
        owner: str  # Locks with the same owner do not exclude each other.

OPTIONS = ('shared', 'slots', 'value', 'delay', 'hold', 'barge', 'owner')


class Event(NamedTuple):
    """'kind': 'jeopardy' (out of touch: begin nothing), 'safe' (in touch
    again), 'lost' (for good), 'please' (somebody asks for the lock). 'name' and
    'token' tell which hold; '' and 0: the session with all it holds. 'text' is
    the message, or the reason."""
    kind: str
    name: str = ''
    token: int = 0
    text: str = ''


class Belief:
    """A session's lease, and what it holds."""

    def __init__(self, on_event: Optional[Callable[[Event], None]]) -> None:
        self.on_event = on_event
        self.id = self.secret = ''
        self._pid = os.getpid()
        self._lease = Lease()
        self._owners = Owners()
        self._held: Set[Hold] = set()
        self._doubts: Set[Hold] = set()  # Whose last outcome is not known.
        self._why = 'the lease has run out'
        self._told = State.HELD

    def state(self) -> State:
        self._check_process()
        return self._lease.state(read_clock())

    def remaining(self) -> float:
        """Seconds for which the session's holds may be trusted."""
        self._check_process()
        return self._lease.remaining(read_clock())

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise HaspError('this session belongs to the parent process; '
                            'open one in the child')

    def _check(self) -> None:
        self._check_process()
        if self.id and self.state() is State.LOST:
            raise LeaseLost(f'the session is lost, open another one: '
                            f'{self._why}')

    def _refuse(self, why: str) -> None:
        self._why = why
        self._lease.refuse()

    def _refusal(self, reply: resp.ReplyError) -> HaspError:
        error = judge(reply)
        if isinstance(error, LeaseLost):
            self._refuse(str(error))
        return error

    def _attached(self, reply: Any) -> None:
        """OSError: another node may know the session."""
        if isinstance(reply, resp.ReplyError):
            error = self._refusal(reply)
            raise error if isinstance(error, LeaseLost) else \
                OSError(str(error))

    def _opened(self, reply: Dict[str, Any], sent: Clock) -> None:
        self.id, self.secret = str(reply['id']), reply['secret']
        self._answered(reply, sent)

    def _answered(self, reply: Dict[str, Any], sent: Clock) -> List[Event]:
        """A heartbeat was answered; gives what it tells of single holds."""
        self._lease.answered(sent, reply['ttl_ms'] / 1000,
                             (reply.get('linger_ms') or 0) / 1000)
        events = []
        for ended in reply.get('ended', ()):
            for lock in list(self._held):
                if lock._ends(ended):
                    events.append(Event('lost', lock.name, ended['token'],
                                        str(ended.get('reason', ''))))
        return events

    def _news(self) -> List[Event]:
        """What the clock, or an answer, has changed."""
        state = self.state()
        if state is self._told:
            return []
        self._told = state
        kind = 'safe' if state is State.HELD else state.value
        return [Event(kind, text='' if kind == 'safe' else self._why)]


def asked_for(push: resp.Push) -> List[Event]:
    """[lock, 'please', {token, message, ...}]"""
    if len(push) < 3 or push[1] != 'please':
        return []
    told = push[2]
    return [Event('please', str(told.get('lock', push[0])),
                  told.get('token') or 0, str(told.get('message') or ''))]


class Hold:
    """A lock as the object sees it that acquires it."""

    def __init__(self, session: Belief, name: str,
                 **options: Unpack[Options]) -> None:
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise TypeError(f'a lock has no option {unknown[0]!r}; it has ' +
                            ', '.join(OPTIONS))
        self.session: Any = session
        self.name = name
        self.options = options
        self.token: Optional[int] = None
        self._count = 0
        self._owner: Optional[Owner] = None
        self._limit = 0.0  # Of a limited hold, counted ...
        self._since: Optional[Clock] = None  # ... from here on.
        self._has_ended = False
        self._doubt: List[resp.Argument] = []  # A change nobody knows about.
        self._doubt_number = 0

    def remaining(self) -> float:
        """Seconds for which the hold may be trusted; 0 if it is not held."""
        left: float = self.session.remaining()
        if self._count == 0 or self._has_ended:
            return 0.0
        if self._since is not None:
            left = min(left, TRUST * self._limit - self._since.age())
        return max(0.0, left)

    def guard(self, need: float) -> None:
        """Raises LeaseLost unless a step of 'need' seconds ends inside the
        lease. Call it before each step that must not outlive the lock."""
        left = self.remaining()
        if left >= need > 0 or left > need == 0:
            return
        if self._count == 0:
            raise LeaseLost(f'"{self.name}" is not held')
        self.session._check()
        if self._has_ended:
            raise LeaseLost(f'"{self.name}" has been taken away')
        most = TRUST * self.session._lease.trusted()
        if self._since is not None:
            most = min(most, TRUST * self.options['hold'])
        text = (f'"{self.name}": {left:.3f} s left of the lease, {need:.3f} s '
                'needed')
        if need > most:
            text += (f'; it is never more than {most:.3f} s, 0.8 of the '
                     'smallest of ttl, linger and hold')
        raise LeaseShort(text)

    def _words(self) -> List[resp.Argument]:
        words: List[resp.Argument] = []
        for word in ('shared', 'barge'):
            if self.options.get(word):
                words.append(word.upper())
        for word in ('slots', 'value'):
            if self.options.get(word):
                words += [word.upper(), self.options[word]]  # type: ignore
        for word in ('delay', 'hold'):
            if self.options.get(word):
                words += [word.upper(),
                          int(self.options[word] * 1000)]  # type: ignore
        return words

    # A change of the lock has a number and stays in '_doubt' until its outcome
    # is known, so that it can be asked again.

    def _begin(self, verb: str, more: List[resp.Argument]) -> Clock:
        """Gives the clock before it is asked for the first time: an attempt
        whose answer is lost may be the one that is granted."""
        if self._owner is None:
            self._owner = self.session._owners.take(
                self.options.get('owner', ''))
        self._doubt_number, words = self._owner.begin()
        self._doubt = [verb, self.name, *more, *words]
        return read_clock()

    def _end(self) -> None:
        """Its outcome is known."""
        self._owner.end(self._doubt_number)  # type: ignore
        self._doubt = []
        self.session._doubts.discard(self)

    def _failed(self, error: BaseException) -> None:
        """Its outcome is not known, or it has not been done. A release is made
        in any case, and nobody waits any more for what was interrupted."""
        is_open = not isinstance(error, HaspError) or \
            isinstance(error, Unknown) or \
            (isinstance(error, Unreachable) and
             self._doubt[0] == 'LOCK.RELEASE')
        if is_open:
            self.session._doubts.add(self)
        else:
            self._end()
            self._rest()

    def _settled(self, reply: Any) -> None:
        """It has been asked again, not waiting, and 'reply' is its outcome. A
        grant that nobody waits for any more is to be given back."""
        is_granted = self._doubt[0] == 'LOCK.ACQUIRE' and reply is not None
        self._end()
        if is_granted:
            self._begin('LOCK.RELEASE', [])
            self.session._doubts.add(self)
        else:
            self._rest()

    def _rest(self) -> None:
        """What holds nothing needs no owner."""
        if self._count == 0 and self._owner is not None:
            self.session._owners.put(self._owner)
            self._owner = None

    def _granted(self, token: int, first: Clock) -> None:
        self.token = token
        self._count += 1
        if self._count == 1:
            self._has_ended = False
            self._limit = self.options.get('hold', 0.0)
            self._since = first if self._limit else None
            self.session._held.add(self)

    def _limited(self, shown: Dict[str, Any], sent: Clock) -> None:
        """LOCK.SHOW tells how much of a limited hold is left: the wait for it
        may have taken longer than that."""
        for holder in shown.get('holders', ()):
            if str(holder['session']) == self.session.id and \
                    holder['owner'] == self._owner.tag and \
                    holder.get('hold_left_ms'):
                self._limit = min(self._limit, holder['hold_left_ms'] / 1000)
                self._since = sent

    def _released(self) -> None:
        """Belief ends here, before the release is sent."""
        self._count = max(0, self._count - 1)
        if self._count == 0:
            self.token = None
            self.session._held.discard(self)

    def _ends(self, ended: Dict[str, Any]) -> bool:
        """Is it this hold that the cluster has ended? True once."""
        owner = self._owner
        if self._has_ended or owner is None or ended['lock'] != self.name or \
                ended['owner'] != owner.tag or ended['token'] != self.token:
            return False
        self._has_ended = True
        return True
