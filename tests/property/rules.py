# SPDX-License-Identifier: MIT
"""Requests, grants, and the graph of waits."""

from state import BAD, ENDED_MAX, EXCLUSIVE, FORGOTTEN, LIMIT, LIMIT_COUNT, \
    NIL, NOT_HELD, SHARED, SLOTS, TTL_LIMIT, WAITING_MAX, Cycle, Hold, Lock, \
    Result, Wait, asker_text, covers, hold_at, is_free, ok, ranges_of, short, \
    size, wait_at
from users import ONLY_FREE


class Rules:
    """Requests, grants, and the graph of waits."""

    def __init__(self):
        self.index = 0
        self.base = 0
        self.is_begun = False
        self.new_life = False
        self.quarantine = 0
        self.quarantine_ms = 0
        self.feature = 1
        self.sessions = {}
        self.locks = {}
        self.fences = {}
        self.clock = 0
        self.clock_index = 0
        self.begins = []  # [index, clock, clock of the first it stands for]
        self.quarantine_clock = 0
        self.blacklist = []  # [since, session, client, reason, by, for, clock]
        self.members = {}
        self.removed = {}
        self.out = []
        self.touched = {}
        self.shut = {}  # Locks with quarantined waits, by the first.
        self.delayed = {}
        self.limits = [1 << 60] * LIMIT_COUNT
        self.limits[TTL_LIMIT] = 60000

    # --- Requests ---------------------------------------------------------

    def find(self, session):
        """The session, or the refusal."""
        found = self.sessions.get(session)
        if found:
            return found, None
        if self.base < session <= self.base + self.index:
            return None, Result('expired')
        return None, Result('nosession')

    def refusal(self, session):
        """The refusal of a blacklisted session."""
        for entry in self.blacklist:
            if entry[0] == session.listed:
                return Result('blacklisted', text=entry[3])
        return None

    def numbered(self, words, command, do, is_bad, is_anonymous=False):
        """Exactly once: 'do' unless this number was answered before."""
        session, owner, req = int(words[0]), words[1], int(words[2])
        named = self.sessions.get(session)
        if named and named.user != self.user:
            return Result('nosession')
        if not req and self.denied:
            return self.denied
        if not req and is_bad:
            return BAD
        if not req and is_anonymous:
            return do(None, owner, 0)
        s, refused = self.find(session)
        if refused:
            return refused
        if size(owner) > 128:
            return BAD
        if not req:
            return do(s, owner, 0)
        acked = ranges_of(words[3])
        for first, last in acked:
            s.spend(first, last)
        for number in [n for n, kept in s.results.items() if not kept[1] and
                       any(a <= n <= b for a, b in acked)]:
            del s.results[number]
        command = (owner, command)
        kept = s.results.get(req)
        if kept and kept[0] != command:
            return BAD
        if kept and not kept[1]:
            return kept[2]
        if not kept and s.is_spent(req):
            return FORGOTTEN
        if not kept and sum(1 for one in s.results.values()
                            if one[1] and one[3] == owner) >= WAITING_MAX:
            return LIMIT
        if kept:
            result = BAD if is_bad else do(s, owner, req)
        else:
            result = self.first_time(command[1], is_bad, do, s, owner, req)
        is_kept = result.code in ('ok', 'queued') or \
            result.code not in ('noauth', 'quarantined') and \
            not self.is_over_quota(bytes=1)
        if not kept and is_kept and self.sessions.get(session) is s:
            s.spend(req, req)
            s.results[req] = [command, result.place, result, owner]
            if not result.place:
                s.answered(req, result)
        return result

    def first_time(self, command, is_bad, do, s, owner, req):
        """For a new number."""
        only_frees = command[0] in ONLY_FREE or \
            command[0] == 'conv' and command[1][1] == str(SHARED)
        if self.denied:
            return self.denied
        if not only_frees and self.is_over_quota(bytes=1):
            return LIMIT
        return BAD if is_bad else do(s, owner, req)

    # --- Holds and waits --------------------------------------------------

    def obtain(self, name):
        if name not in self.locks:
            self.locks[name] = Lock(name)
        return self.locks[name]

    def grant(self, lock, s, owner, mode, terms, place):
        """A new hold; 'terms' is (value, delay, hold)."""
        hold = Hold()
        hold.lock, hold.session, hold.owner, hold.mode = lock, s, owner, mode
        hold.value, hold.delay, hold.hold = terms
        hold.token = lock.last_token = self.base + self.index
        hold.first = hold.token
        hold.granted = self.index
        hold.broken = None  # (since, after, clock, by, reason)
        hold.count, hold.clock = 1, self.clock
        lock.holds.append(hold)
        s.holds.append(hold)
        self.out.append(f'G {s.id} {owner} {lock.name} {hold.token} {place} '
                        f'{hold.hold} -')
        return hold

    def upgrade(self, hold, place):
        hold.mode = EXCLUSIVE
        hold.token = hold.lock.last_token = self.base + self.index
        hold.granted, hold.clock = self.index, self.clock
        self.out.append(f'G {hold.session.id} {hold.owner} {hold.lock.name} '
                        f'{hold.token} {place} {hold.hold} upgraded')

    def end_hold(self, hold, reason, is_clean, is_session_end=False):
        s, lock = hold.session, hold.lock
        s.holds.remove(hold)
        lock.holds.remove(hold)
        self.touched[lock.name] = True
        self.out.append(f'{"R" if is_clean else "X"} {s.id} {hold.owner} '
                        f'{lock.name} {hold.token} {reason}')
        if not is_clean and hold.delay:
            if hold.mode == SLOTS and (lock.delay_slots or not lock.delay):
                lock.delay_slots += 1
            else:
                lock.delay_slots = 0
            lock.delay = max(lock.delay, hold.delay)
            lock.delay_index = self.index
            lock.delay_clock = self.clock
            self.delayed[lock.name] = True
        wait = wait_at(lock, s.id, hold.owner)
        if wait and wait.upgrade:
            self.end_wait(wait, 'released', NOT_HELD)
        if reason in ('releaseif', 'max-hold', 'broken'):
            s.ended.append((lock.name, hold.owner, hold.first, hold.token,
                            reason, self.base + self.index))
            if len(s.ended) > ENDED_MAX:
                s.dropped = s.ended.pop(0)[5]
        if s.redis and not s.holds and not is_session_end:
            self.end_session(s, 'released', is_clean)

    def answer(self, wait, result):
        """Answers the asker, and every number of the wait."""
        s = wait.session
        self.out.append(f'w {s.id} {wait.owner} {wait.group[0].lock.name} '
                        f'{wait.index} {wait.asked} {result.line()}')
        if result.check:
            self.out.append(result.check)
        for number in [n for n, kept in s.results.items()
                       if kept[1] == wait.index]:
            s.answered(number, result)

    def remove_waits(self, wait):
        for w in wait.group:
            w.lock.queue.remove(w)
            w.session.waits.remove(w)
            self.touched[w.lock.name] = True

    def end_wait(self, wait, reason, result):
        """Ends the whole request."""
        self.remove_waits(wait)
        for w in wait.group:
            self.out.append(f'N {w.session.id} {w.owner} {w.lock.name} '
                            f'{w.index} {reason}')
        self.answer(wait, result)

    def new_wait(self, lock, s, owner, mode, slots, ms, terms, req):
        if self.quarantine and not lock.queue:
            self.shut.pop(lock.name, None)
            self.shut[lock.name] = True
        wait = Wait()
        wait.lock, wait.session, wait.owner = lock, s, owner
        wait.mode, wait.slots = mode, slots
        wait.ms, wait.req, wait.clock = ms, req, self.clock
        wait.value, wait.delay, wait.hold = terms
        wait.index = wait.asked = self.index
        wait.upgrade = False
        wait.group = [wait]
        return wait

    def tell_queued(self, wait, again):
        for w in wait.group:
            self.out.append(f'Q {w.session.id} {w.owner} {w.lock.name} '
                            f'{w.index} {w.asked} {w.ms} {again}')
        return Result('queued', place=wait.index)

    def ask_again(self, wait, is_waiting, ms, terms, req):
        if is_waiting and terms and size(terms[0]) > size(wait.value) and \
                self.is_over_quota(bytes=1):
            return LIMIT
        if not is_waiting:
            self.end_wait(wait, 'timeout', NIL)
            return NIL
        for w in wait.group:
            w.asked, w.ms, w.req = self.index, ms, req
            w.clock = self.clock
            if terms:
                w.value, w.delay, w.hold = terms
        return self.tell_queued(wait, 1)

    # --- Granting ---------------------------------------------------------

    def wait_is_free(self, wait):
        lock = wait.lock
        own = hold_at(lock, wait.session.id, wait.owner)
        if wait.upgrade:
            return not lock.delay and lock.holds == [own]
        if own and covers(own, wait.mode):
            return True
        return is_free(lock, wait.mode, wait.slots,
                       lock.queue[:lock.queue.index(wait)])

    def grant_waiter(self, wait):
        self.remove_waits(wait)
        tokens = []
        for w in wait.group:
            own = hold_at(w.lock, w.session.id, w.owner)
            if w.upgrade:
                self.upgrade(own, w.index)
            elif own:
                self.enter_again(own)
                self.out.append(f'N {w.session.id} {w.owner} {w.lock.name} '
                                f'{w.index} re-entered')
            else:
                own = self.grant(w.lock, w.session, w.owner, w.mode,
                                 (w.value, w.delay, w.hold), w.index)
            tokens.append(own.token)
        self.answer(wait, Result('ok', tokens[0], tokens=tokens))

    def settle(self):
        """Grants every wait that can be granted, at any lock. It must be a lock
        that was changed, but only lockfsm uses that."""
        if not self.touched:
            return
        for name in self.delayed:
            lock = self.locks[name]
            self.out.append(f'D {name} {lock.delay} {lock.delay_index}')
        self.delayed = {}
        is_closed = self.quarantine or self.new_life
        while not is_closed and self.grant_some():
            pass
        for name in self.touched:
            lock = self.locks.get(name)
            if lock and not (lock.holds or lock.queue or lock.delay):
                lock.slots = 0
                if lock.note == '-':
                    del self.locks[name]
        self.touched = {}

    def grant_some(self):
        is_changed = False
        names = list(self.touched)
        names += [n for n in self.locks if n not in self.touched]
        for name in names:
            lock = self.locks.get(name)
            for wait in list(lock.queue) if lock else ():
                if wait in lock.queue and all(map(self.wait_is_free,
                                                  wait.group)):
                    self.grant_waiter(wait)
                    is_changed = True
        return is_changed

    # --- Deadlock ---------------------------------------------------------

    @staticmethod
    def edges(s, owner):
        """(lock, other session, other owner, the wait for a slot or None) of
        all whom this asker waits for. For a slot one of many must end, or none:
        reduce() handles the surplus."""
        found = []
        for wait in s.waits:
            if wait.owner != owner:
                continue
            lock = wait.lock
            own = hold_at(lock, s.id, owner)
            if wait.upgrade:
                found += [(lock, h.session, h.owner, None)
                          for h in lock.holds if h is not own]
                continue
            if own and covers(own, wait.mode):
                continue
            ahead = lock.queue[:lock.queue.index(wait)]
            others = [o for o in lock.holds + ahead if o is not own]
            same = [o for o in others if o.mode == wait.mode]
            found += [(lock, o.session, o.owner, None) for o in others
                      if o.mode != wait.mode or wait.mode == EXCLUSIVE]
            if wait.mode == SLOTS:
                found += [(lock, o.session, o.owner, wait) for o in same]
        return found

    def reachable(self, s, owner, is_all):
        """The edges of all askers on the ways from this one: {asker: edges};
        without 'is_all' only along those that must all end."""
        graph = {}
        todo = [(s, owner)]
        while todo:
            at = todo.pop()
            if at in graph:
                continue
            graph[at] = [e for e in self.edges(*at) if is_all or not e[3]]
            todo += [(e[1], e[2]) for e in graph[at]]
        return graph

    def search_place(self, name, s, owner):
        """A request for several locks lost a hold that it counted on."""
        lock = self.locks[name]
        wait = wait_at(lock, s.id, owner)
        refusal = wait and not hold_at(lock, s.id, owner) and \
            self.deadlock(s, owner)
        if refusal:
            self.end_wait(wait, 'deadlock', refusal)

    def deadlock(self, s, owner):
        """The refusal, if this asker waits for itself."""
        if not s.holds and len(s.waits) <= 1:
            return None
        me = (s, owner)
        graph = self.reachable(s, owner, True)
        if not self.has_edge_to(graph, me):
            return None
        if not self.has_edge_to(self.reachable(s, owner, False), me):
            stuck = self.reduce(graph)
            if me not in stuck:
                return None
        result = Result('deadlock')
        edges = {(asker_text(at[0].id, at[1]), self.shown(s.user, e[0].name),
                  asker_text(e[1].id, e[2]))
                 for at, found in graph.items() for e in found}
        result.check = Cycle(asker_text(s.id, owner), edges)
        return result

    def shown(self, user, name):
        """The lock's name in the cycle that the asker sees."""
        return short(name) if self.may(user, 'read', name) or \
            self.may(user, 'share', name) else '<hidden>'

    @staticmethod
    def has_edge_to(graph, asker):
        return any((e[1], e[2]) == asker
                   for found in graph.values() for e in found)

    @staticmethod
    def reduce(graph):
        """Removes all askers that can end until nothing changes; returns the
        others."""
        stuck = set(graph)

        def is_stuck(asker):
            taken = {}
            for _lock, session, owner, wait in graph[asker]:
                if (session, owner) not in stuck:
                    continue
                if not wait:
                    return True
                taken[wait] = taken.get(wait, 0) + 1
            return any(n >= wait.slots for wait, n in taken.items())

        while True:
            free = [asker for asker in stuck if not is_stuck(asker)]
            if not free:
                return stuck
            stuck.difference_update(free)
