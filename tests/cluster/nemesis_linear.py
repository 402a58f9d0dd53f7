# SPDX-License-Identifier: MIT
"""Is there a sequential order that explains every answer?

The search is that of Wing and Gong, made quick by Lowe ("Testing for
linearizability", 2017): it goes through calls and answers in the order of their
time and keeps all states in which the object may be, each with the set of
requests that have taken effect and are not answered yet. Nothing is tried
before an answer demands it. When no state is left, the answer that came last
cannot be explained.

Locks are independent objects, so each is judged alone, as is each fence. Events
without a request happen as well: a session ends, not before its client's trust
in it does; a hold with a limit is over. A request without an answer takes
effect at any time until its session is known to have ended, or never.

STATES_MAX states at once are the most that are kept: beyond that a history is
undecided, which counts as a mistake of the test. Runs stay below 200. The cost
is a few ten microseconds for each answer and state.
"""

from collections import deque

from nemesis_history import FOREVER

STATES_MAX = 20000
LIFE_GAP = 2**40  # Between the tokens of two lives: ARCHITECTURE.md, rule 21.
CALL, ANSWER, GONE, LIFE = range(4)


class Undecided(Exception):
    """There are too many states."""


class Search:
    def __init__(self, model, ops, sessions, lives):
        self.model, self.sessions = model, sessions
        self.pending = {}
        self.unanswered = {n for n, op in enumerate(ops) if not op.is_known}
        self.states = {(model.initial(), frozenset())}
        self.most = 1
        self.events = self.in_order(ops, sessions, lives)

    def in_order(self, ops, sessions, lives):
        # At one moment, calls come first: all requests then overlap.
        events = [(op.call, CALL, number, op) for number, op in enumerate(ops)]
        events += [
            (op.end, ANSWER, number, op)
            for number, op in enumerate(ops)
            if op.is_known
        ]
        mine = {op.session for op in ops}
        for number in sorted(mine):
            session = sessions.get(number)
            if session is not None and session.gone < FOREVER:
                events.append((session.gone, GONE, number, session))
        events += [(life.t, LIFE, 0, life) for life in lives]
        return sorted(events, key=lambda event: event[:3])

    def run(self):
        """The answer without an explanation, in words; None if there is
        none."""
        for now, kind, number, what in self.events:
            before = self.states
            if kind == CALL:
                self.pending[number] = what
            elif kind == ANSWER:
                self.states = self.explain(number, now)
                del self.pending[number]
                self.forget_done()
            elif kind == GONE:
                self.states = self.end_session(what, now)
            elif kind == LIFE:
                self.states = self.restore(what)
            self.most = max(self.most, len(self.states))
            if not self.states:
                if kind == GONE:
                    what = "%.3f: session %d has ended" % (now, what.id)
                return "%s; before it: %s" % (
                    what,
                    " or ".join(sorted({str(s[0]) for s in before})[:4]),
                )
        return None

    def explain(self, number, now):
        """The states in which that request has taken effect."""
        is_over = lambda state, done: number in done
        return {
            (state, done - {number})
            for state, done in self.ways(now, is_over)
            if number in done
        }

    def ways(self, now, is_over):
        """The possible states now: each request under way has taken effect or
        has not yet. When the goal is reached nothing more is tried: the rest
        can take effect later as well. Shorter ways come first: a request
        without an answer that is not used up can still be used, and need not
        be, so of two ways to a state the one that uses less is enough."""
        seen, queue = {}, deque(self.states)
        count = 0
        while queue:
            state, done = self.with_idle(*queue.popleft())
            used = done & self.unanswered
            others = seen.setdefault((state, done - used), [])
            if any(other <= used for other in others):
                continue
            others.append(used)
            count += 1
            if count > STATES_MAX:
                raise Undecided("%d states at %.3f" % (count, now))
            yield state, done
            if is_over(state, done):
                continue
            for other, op in self.pending.items():
                if other not in done:
                    rivals = self.rivals(other, done)
                    for after in self.model.steps(state, op, rivals):
                        queue.append((after, done | {other}))
            for after in self.model.ends(state, now, self.sessions):
                queue.append((after, done))

    def with_idle(self, state, done):
        """A request that changes nothing and is explained now need not wait."""
        idle = [
            number
            for number, op in self.pending.items()
            if number not in done
            and op.is_known
            and self.model.steps(state, op, self.rivals(number, done))
            == [state]
        ]
        return (state, done | frozenset(idle)) if idle else (state, done)

    def rivals(self, number, done):
        """The requests that may wait beside that one: also one that will time
        out, which is idle and may have been put early."""
        return [
            op
            for other, op in self.pending.items()
            if other != number
            and (other not in done or (op.is_known and op.value is None))
        ]

    def forget_done(self):
        """The requests without an answer that can have no effect in any
        state."""
        for number in self.unanswered & self.pending.keys():
            if all(
                number in done
                or self.model.is_void(state, self.pending[number])
                for state, done in self.states
            ):
                del self.pending[number]
                self.states = {
                    (state, done - {number}) for state, done in self.states
                }

    def end_session(self, session, now):
        """By now it has ended, and its requests no longer have an effect. Later
        answers to others may be of the time before."""
        mine = {
            number
            for number, op in self.pending.items()
            if op.session == session.id and not op.is_known
        }
        has = lambda state: self.model.has(state, session.id)
        is_over = lambda state, done: mine <= done and not has(state)
        left = {
            (self.model.without(state, session), done - mine)
            for state, done in self.ways(now, is_over)
            if session.until <= now or not has(state)
        }
        for number in mine:
            del self.pending[number]
        return left

    def restore(self, life):
        """Later answers may be of the time before."""
        never = lambda state, done: False
        return {
            (self.model.restored(state, life), done)
            for state, done in self.ways(life.t, never)
        }


class LockModel:
    """A lock: ((hold, ...), note, the newest token, when it opens).

    A hold is (who, mode, token, count, over, delay): 'over' is the time from
    which on its limit may have ended it; if it is not released, no client gets
    the lock for 'delay' seconds, which is the fourth of the state: 0, or the
    earliest moment of the next grant. A token that no client got is known to be
    greater than some other: it is written as that other's negative.
    """

    def __init__(self, name, slots=2, closed=()):
        self.name, self.slots, self.closed = name, slots, closed

    def initial(self):
        return ((), "", 0, 0)

    def steps(self, state, op, rivals):
        return getattr(self, "step_" + op.kind)(state, op, rivals)

    # --- What happens unasked ------------------------------------------------

    def ends(self, state, now, sessions):
        holds, note, last, opens = state
        for hold in holds:
            session = sessions.get(hold[0][0])
            if session is not None and session.until <= now:
                yield self.without(state, session)
            if hold[4] <= now:
                opens = max(opens, hold[4] + hold[5] if hold[5] else 0)
                left = tuple(h for h in holds if h is not hold)
                yield (left, note, last, opens)

    def is_void(self, state, op):
        """Can it never do anything again?"""
        return False

    def has(self, state, session):
        return any(hold[0][0] == session for hold in state[0])

    def without(self, state, session):
        """It has ended, and a hold of it perhaps before, by its limit. A client
        that may have closed it has released everything."""
        ended = [h for h in state[0] if h[0][0] == session.id]
        holds = tuple(h for h in state[0] if h[0][0] != session.id)
        opens = state[3]
        for _, _, _, _, over, delay in ended:
            if delay and not session.is_closed:
                opens = max(opens, min(over, session.until) + delay)
        return (holds, state[1], state[2], opens)

    def restored(self, state, life):
        return ((), "", state[2], 0)

    # --- What is asked for ---------------------------------------------------

    def mine(self, state, who):
        return next((h for h in state[0] if h[0] == who), None)

    def replaced(self, state, old, *new, note=None, last=None, opens=None):
        holds = [h for h in state[0] if h is not old] + list(new)
        return (
            tuple(sorted(holds)),
            state[1] if note is None else note,
            state[2] if last is None else last,
            state[3] if opens is None else opens,
        )

    def allow(self, holds, mode):
        """Do the holders let in one more of that mode?"""
        if mode == "slots":
            return len(holds) < self.slots and all(
                h[1] == "slots" for h in holds
            )
        return not holds or (
            mode == "shared" and all(h[1] == "shared" for h in holds)
        )

    def is_closed(self, op):
        """Was there a quarantine meanwhile?"""
        return any(a <= op.end and op.call <= b for a, b in self.closed)

    def may_be_kept_out(self, op, rivals):
        """By who waits ahead? Readers alone do not wait for readers."""
        mode = op.args.get("mode")
        return self.is_closed(op) or any(
            other.who != op.who
            and other.kind in ("acquire", "convert")
            and other.args.get("wait", 0) > 0
            and not mode == other.args.get("mode") == "shared"
            for other in rivals
        )

    def step_acquire(self, state, op, rivals):
        mode, mine = op.args["mode"], self.mine(state, op.who)
        if op.is_known and not isinstance(op.value, int):
            # Any one of several locks may be the reason.
            is_explained = (
                op.error is not None
                or len(op.locks) > 1
                or not self.allow(state[0], mode)
                or state[3] > 0  # When exactly it opens nobody knows.
                or self.may_be_kept_out(op, rivals)
            )
            return [state] if is_explained else []
        if mine is not None:
            covers = mine[1] == "exclusive" or mine[1] == mode
            if not covers or (op.is_known and not fits(mine[2], op.value)):
                return []
            token = op.value if op.is_known else mine[2]
            again = (*mine[:2], token, mine[3] + 1, *mine[4:])
            return [self.replaced(state, mine, again)]
        if not self.allow(state[0], mode) or op.end < state[3]:
            return []
        token = op.value if op.is_known else -state[2]
        # Those whom one entry lets in together have one token.
        least = state[2] + (mode == "exclusive")
        if op.is_known and token < least:
            return []
        limits = (op.args.get("over", FOREVER), op.args.get("delay", 0))
        hold, last = (op.who, mode, token, 1, *limits), max(token, state[2])
        return [self.replaced(state, None, hold, last=last, opens=0)]

    def step_release(self, state, op, rivals):
        """Of one lock, with its token; or of several locks, without."""
        token, mine = op.args.get("token"), self.mine(state, op.who)
        is_mine = mine is not None and (token is None or fits(mine[2], token))
        if op.error is not None or (op.is_known and op.value is None):
            return [] if is_mine and mine[2] > 0 else [state]
        if not is_mine:
            return []
        left = mine[3] - 1
        if op.is_known and token is not None and op.value != left:
            return []
        if left == 0:
            return [self.replaced(state, mine)]
        fewer = (*mine[:2], token or mine[2], left, *mine[4:])
        return [self.replaced(state, mine, fewer)]

    def step_releaseif(self, state, op, rivals):
        found = [
            h
            for h in state[0]
            if h[0] == op.who and fits(h[2], op.args["token"])
        ]
        if op.is_known and op.value == 0:
            return [] if found and found[0][2] > 0 else [state]
        return [self.replaced(state, found[0])] if found else []

    def step_convert(self, state, op, rivals):
        mine, to = self.mine(state, op.who), op.args["mode"]
        if op.error == "NOTHELD":
            return [state] if mine is None else []
        if op.error is not None:
            return [state]
        if mine is None:
            return []
        if op.is_known and op.value is None:
            is_explained = len(state[0]) > 1 or self.is_closed(op)
            return [state] if is_explained else []
        if to == "shared" or mine[1] == "exclusive":
            if op.is_known and not fits(mine[2], op.value):
                return []
            token = op.value if op.is_known else mine[2]
        elif len(state[0]) > 1 or (op.is_known and op.value <= state[2]):
            return []
        else:
            token = op.value if op.is_known else -state[2]
        changed = (mine[0], to, token, *mine[3:])
        return [
            self.replaced(state, mine, changed, last=max(token, state[2]))
        ]

    def step_note(self, state, op, rivals):
        mine = self.mine(state, op.who)
        is_mine = mine is not None and fits(mine[2], op.args["token"])
        if op.error is not None:
            return [] if is_mine and mine[2] > 0 else [state]
        if not is_mine:
            return []
        return [self.replaced(state, None, note=op.args["note"])]

    def step_check(self, state, op, rivals):
        if not op.is_known:
            return []
        is_held = any(fits(h[2], op.args["token"]) for h in state[0])
        is_sure = any(h[2] == op.args["token"] for h in state[0])
        if op.value == 1:
            return [state] if is_held else []
        return [] if is_sure else [state]

    def step_show(self, state, op, rivals):
        """Each holder as [session, owner, mode, token, count]."""
        if not op.is_known:
            return []
        told = {(h[0], h[1]): h[2:] for h in op.value["holders"]}
        if len(told) != len(state[0]) or op.value["note"] != state[1]:
            return []
        holds, last = [], state[2]
        for who, mode, token, count, *limits in state[0]:
            shown = told.get(who)
            if shown is None or shown[0] != mode or shown[2] != count:
                return []
            if not fits(token, shown[1]):
                return []
            holds.append((who, mode, shown[1], count, *limits))
            last = max(last, shown[1])
        return [(tuple(sorted(holds)), state[1], last, state[3])]


def fits(token, told):
    """Can the token, perhaps known only by what it exceeds, be this one?"""
    return token == told or (token <= 0 and told > -token)


class FenceModel:
    """A fence: (its highest token or None, at least this, former lives).

    After a restore the highest is that of the backup: the token admitted before
    the backup began, or a greater one. Tokens of former lives are not admitted
    then; ids of sessions are tokens, too, and show the range of a life.
    """

    def __init__(self, ops, sessions):
        self.ops, self.sessions = ops, sessions

    def initial(self):
        return (0, 0, 0)

    def ends(self, state, now, sessions):
        return ()

    def is_void(self, state, op):
        token = op.args["token"]
        return token <= state[2] or (state[0] or 0) >= token

    def has(self, state, session):
        return False

    def without(self, state, session):
        return state

    def restored(self, state, life):
        admitted = [
            op for op in self.ops if op.kind == "admit" and op.value == 1
        ]
        least = [o.args["token"] for o in admitted if o.end < life.backup]
        former = [s.id for s in self.sessions if s.opened < life.t]
        return (None, max(least + [0]), max(former + [0]) + LIFE_GAP // 2)

    def steps(self, state, op, rivals):
        highest, least, former = state
        if op.kind == "fence":
            if not op.is_known:
                return []
            if highest is None and least <= op.value <= former:
                return [(op.value, least, former)]
            return [state] if op.value == highest else []
        token = op.args["token"]
        is_older = token <= former or (highest is not None and token < highest)
        if op.error is not None or (op.is_known and op.value == 0):
            return [state] if is_older or op.error is not None else []
        return [] if is_older else [(token, least, former)]


class LockPart:
    """The part of a request for several locks that concerns one of them."""

    def __init__(self, op, place):
        self.kind, self.who, self.session = op.kind, op.who, op.session
        self.kind = {"macquire": "acquire", "mrelease": "release"}.get(
            op.kind, op.kind
        )
        self.call, self.end = op.call, op.end
        self.args, self.locks = op.args, op.locks
        self.is_known, self.error, self.op = op.is_known, op.error, op
        self.value = op.value
        if op.kind == "macquire" and op.value is not None:
            self.value = op.value[place]
        elif op.kind == "mrelease":
            is_all = op.value == len(op.locks)
            self.is_known = self.is_known and is_all

    def __str__(self):
        return str(self.op)


def is_done(op):
    """It was not refused, and it was not a read without an answer."""
    is_look = op.kind in ("show", "check", "fence")
    return op.refusal is None and (op.is_known or not is_look)


def lock_parts(history):
    """{lock: what was asked of it}, without what was refused and not done."""
    parts = {}
    kinds = ("acquire", "release", "releaseif", "convert", "note", "check")
    for op in filter(is_done, history.ops):
        if op.kind in kinds + ("macquire", "mrelease", "show"):
            for place, lock in enumerate(op.locks):
                parts.setdefault(lock, []).append(LockPart(op, place))
    return parts


def check_locks(history, slots=2):
    """Says which locks' answers no order explains."""
    closed = [(life.t, life.until) for life in history.lives]
    found = []
    for lock, parts in sorted(lock_parts(history).items()):
        model = LockModel(lock, slots, closed)
        found += judged("lock " + lock, model, parts, history)
    return found


def check_fences(history):
    fences = {}
    for op in filter(is_done, history.ops):
        if op.kind in ("admit", "fence"):
            fences.setdefault(op.args["fence"], []).append(op)
    found = []
    for fence, ops in sorted(fences.items()):
        model = FenceModel(ops, history.sessions.values())
        found += judged("fence " + fence, model, ops, history)
    return found


def judged(name, model, parts, history):
    search = Search(model, parts, history.sessions, history.lives)
    try:
        broken = search.run()
    except Undecided as error:
        broken = "undecided, %s" % error
    return [] if broken is None else ["%s: no order explains %s" % (name, broken)]
