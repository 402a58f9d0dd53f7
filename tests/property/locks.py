# SPDX-License-Identifier: MIT
"""ACQUIRE and the other operations on locks."""

from state import BAD, EXCLUSIVE, LIMIT, NIL, NOT_HELD, QUARANTINED, SHARED, \
    SLOTS, TIME_MAX, VOID, Cycle, Result, covers, hold_at, holders_allow, is_free, \
    ok, size, wait_at
from users import LOCAL


class LockOperations:
    """ACQUIRE and the other operations on locks."""

    # --- ACQUIRE ----------------------------------------------------------

    def op_acq(self, *words):
        mode, slots, is_waiting, ms = \
            int(words[4]), int(words[5]), words[6] == '1', int(words[7])
        is_barging = words[8] == '1'
        terms = (words[9], int(words[10]), int(words[11]))
        names = words[12:]

        is_bad = not self.names_are_good(names) or mode > SLOTS or \
            (mode == SLOTS) != (slots > 0) or \
            max(ms, terms[1], terms[2]) > TIME_MAX or \
            size(terms[0]) > 4096 or size(words[1]) > 128

        def do(s, owner, req):
            if s.listed:
                return self.refusal(s)
            if s.redis or s.durable and is_waiting and not ms or \
                    len(set(names)) < len(names):
                return BAD
            return self.acquire(s, owner, req, names, mode, slots,
                                is_waiting, ms, is_barging, terms)
        return self.numbered(words, ('acq', words[4:6], words[8:]), do,
                             is_bad)

    @staticmethod
    def names_are_good(names):
        return 1 <= len(names) <= 64 and \
            all(1 <= size(name) <= 511 for name in names)

    def acquire(self, s, owner, req, names, mode, slots, is_waiting, ms,
                is_barging, terms):
        locks = [self.locks.get(name) for name in names]
        owns = [lock and hold_at(lock, s.id, owner) for lock in locks]
        for lock, own in zip(locks, owns):
            if mode == SLOTS and lock and lock.slots not in (0, slots):
                return BAD
            if own and not covers(own, mode):
                return self.held_otherwise()
        if all(owns):
            for own in owns:
                self.enter_again(own)
            tokens = [own.token for own in owns]
            return Result('ok', tokens[0], tokens=tokens)
        wait = next((w for lock in locks if lock
                     for w in [wait_at(lock, s.id, owner)] if w), None)
        if wait:
            if wait.upgrade or [w.lock.name for w in wait.group] != \
                    list(names) or wait.mode != mode or \
                    (mode == SLOTS and wait.slots != slots):
                return BAD
            return self.ask_again(wait, is_waiting, ms, terms, req)
        need = sum(not own for own in owns)
        missing = locks.count(None)
        if need and len(s.holds) + len(s.waits) + need > self.limits[2] or \
                missing and len(self.locks) + missing > self.limits[1] or \
                need and self.is_over_quota(holds=need, bytes=need):
            return LIMIT
        if self.is_free_now(s, owner, locks, owns, mode, slots, is_barging):
            tokens = []
            for name, own in zip(names, owns):
                if own:
                    self.enter_again(own)
                else:
                    own = self.grant(self.obtain(name), s, owner, mode, terms,
                                     0)
                    own.lock.slots = slots or own.lock.slots
                tokens.append(own.token)
            return Result('ok', tokens[0], tokens=tokens)
        if not is_waiting:
            return self.not_acquired()
        return self.enqueue(s, owner, req, names, mode, slots, ms, terms)

    def enter_again(self, hold):
        self.object(hold, '-')
        hold.count += 1

    @staticmethod
    def held_otherwise():
        result = Result('deadlock')
        result.check = Cycle(None, None)
        return result

    def not_acquired(self):
        return QUARANTINED if self.quarantine or self.new_life else NIL

    def is_free_now(self, s, owner, locks, owns, mode, slots, is_barging):
        if self.quarantine or self.new_life:
            return False
        others = [lock for lock, own in zip(locks, owns) if lock and not own]
        if all(is_free(lock, mode, slots, lock.queue) for lock in others):
            return True
        return is_barging and not any(w.owner == owner for w in s.waits) and \
            all(holders_allow(lock, mode, slots) and
                self.may_pass(lock, mode) for lock in others)

    def may_pass(self, lock, mode):
        """May a barging request overtake all waits? Of each mode the oldest
        decides: the hold that blocks it blocks the later ones, too, or is
        their own."""
        decided = set()
        for wait in lock.queue:
            if mode == wait.mode == SHARED or wait.mode in decided:
                continue
            if not wait.upgrade:
                decided.add(wait.mode)
            granted = [hold.granted for hold in lock.holds
                       if (hold.session, hold.owner) !=
                       (wait.session, wait.owner)]
            last = max(0, lock.last_token - self.base)
            if (min(granted) if granted else last) > wait.index:
                return False
        return True

    def waits_pass_limits(self, s, owner, locks, count):
        return any(lock and len(lock.queue) >= self.limits[3]
                   for lock in locks) or \
            len(s.waits) + count > self.limits[4] or \
            sum(len(lock.queue) for lock in self.locks.values()) + count > \
            self.limits[8] or \
            len(s.holds) + len(s.waits) + count > self.limits[2] or \
            (owner not in s.askers() and
             len(s.askers()) >= self.limits[5]) or \
            self.is_over_quota(holds=count, waits=count, bytes=count)

    def enqueue(self, s, owner, req, names, mode, slots, ms, terms):
        locks = [self.locks.get(name) for name in names]
        if self.waits_pass_limits(s, owner, locks, len(names)):
            return LIMIT
        new = [n for n, lock in zip(names, locks) if not lock]
        group = [self.new_wait(self.obtain(name), s, owner, mode, slots, ms,
                               terms, req) for name in names]
        for wait in group:
            wait.group = group
            wait.lock.queue.append(wait)
            s.waits.append(wait)
        cycle = self.deadlock(s, owner)
        if cycle:
            for wait in group:
                wait.lock.queue.remove(wait)
                s.waits.remove(wait)
            for name in new:
                del self.locks[name]
            return cycle
        if mode == SLOTS:
            for wait in group:
                wait.lock.slots = slots
        return self.tell_queued(group[0], 0)

    # --- RELEASE, CONVERT, CANCEL, PLEASE ---------------------------------

    def op_rel(self, *words):
        tokens, counts, names = \
            [int(t) for t in words[4].split(',')], words[5] == '1', words[6:]
        tokens = tokens if tokens != [0] else []

        def do(s, owner, _req):
            released = 0
            for i, name in enumerate(names):
                hold = self.meant(s, owner, name, tokens[i] if tokens else 0)
                if not hold:
                    continue
                released += 1
                hold.count -= 1
                left = hold.count
                if not left:
                    self.end_hold(hold, 'released', True)
                    if s.redis and not s.holds:
                        break
            for name in names if released else ():
                if name in self.locks:
                    self.search_place(name, s, owner)
            if len(names) > 1 or counts:
                return ok(released)
            return ok(left) if released else NOT_HELD
        return self.numbered(words, ('rel', words[4:]), do,
                             not self.names_are_good(names) or
                             len(tokens) not in (0, len(names)))

    def meant(self, s, owner, name, token):
        """The owner's hold, if it has ever had the token (0: any)."""
        lock = self.locks.get(name)
        hold = lock and hold_at(lock, s.id, owner)
        if hold and (not token or hold.first <= token <= hold.token):
            return hold
        return None

    def op_relif(self, *words):
        name, session, howner, token = \
            words[4], int(words[5]), words[6], int(words[7])

        def do(_s, _owner, _req):
            lock = self.locks.get(name)
            holds = [h for h in lock.holds if h.owner == howner and
                     (h.session.user == self.user or
                      self.may(self.user, 'kick', name)) and
                     session in (0, h.session.id) and
                     token in (0, h.token)] if lock else []
            if len(holds) > 1:
                return BAD
            if not holds:
                return ok(0)
            self.end_hold(holds[0], 'releaseif', True)
            self.search_place(name, holds[0].session, howner)
            return ok(1)
        is_bad = not self.names_are_good([name]) or size(howner) > 128 or \
            (howner == '-' and not token)
        return self.numbered(words, ('relif', words[4:]), do, is_bad, True)

    def op_conv(self, *words):
        name, mode, is_waiting, ms, token = \
            words[4], int(words[5]), words[6] == '1', *map(int, words[7:])

        def do(s, owner, req):
            if mode == EXCLUSIVE and s.listed:
                return self.refusal(s)
            if s.redis or s.durable and is_waiting and not ms:
                return BAD
            hold = self.meant(s, owner, name, token)
            if not hold:
                return NOT_HELD
            return self.convert(s, owner, req, hold, mode, is_waiting, ms)
        is_bad = not self.names_are_good([name]) or mode > SHARED or \
            ms > TIME_MAX
        return self.numbered(words, ('conv', words[4:6] + words[8:]), do,
                             is_bad)

    def convert(self, s, owner, req, hold, mode, is_waiting, ms):
        lock, name = hold.lock, hold.lock.name
        if hold.mode == SLOTS:
            return BAD
        self.object(hold, '-')
        wait = wait_at(lock, s.id, owner)
        if wait and wait.upgrade and mode == EXCLUSIVE:
            return self.ask_again(wait, is_waiting, ms, None, req)
        if hold.mode == mode:
            return ok(token=hold.token)
        if wait:
            return BAD
        if mode == SHARED:
            hold.mode = SHARED
            self.touched[name] = True
            self.out.append(f'G {s.id} {owner} {name} {hold.token} 0 '
                            f'{hold.hold} downgraded')
            return ok(token=hold.token)
        is_closed = lock.delay or self.quarantine or self.new_life
        if lock.holds == [hold] and not is_closed:
            hold.mode = EXCLUSIVE
            cycle = any(w.owner == owner for w in s.waits) and \
                self.deadlock(s, owner)
            if cycle:
                hold.mode = SHARED
                return cycle
            self.upgrade(hold, 0)
            return ok(token=hold.token)
        if any(w.upgrade for w in lock.queue):
            return self.held_otherwise()
        if not is_waiting:
            return self.not_acquired()
        return self.enqueue_upgrade(s, owner, req, lock, ms, hold)

    def enqueue_upgrade(self, s, owner, req, lock, ms, hold):
        if self.waits_pass_limits(s, owner, [lock], 1):
            return LIMIT
        wait = self.new_wait(lock, s, owner, EXCLUSIVE, 0, ms,
                             (hold.value, hold.delay, hold.hold), req)
        wait.upgrade = True
        lock.queue.insert(0, wait)
        s.waits.append(wait)
        cycle = self.deadlock(s, owner)
        if cycle:
            lock.queue.remove(wait)
            s.waits.remove(wait)
            return cycle
        return self.tell_queued(wait, 0)

    def op_cancel(self, *words):
        name = words[4]

        def do(s, owner, _req):
            lock = self.locks.get(name)
            wait = lock and wait_at(lock, s.id, owner)
            if wait:
                self.end_wait(wait, 'cancelled', NIL)
                return ok(1)
            hold = lock and hold_at(lock, s.id, owner)
            return ok(token=hold.token if hold else 0)
        return self.numbered(words, ('cancel', name), do,
                             not self.names_are_good([name]))

    def op_note(self, *words):
        name, token, text = words[4:]

        def do(s, owner, _req):
            hold = self.meant(s, owner, name, int(token))
            if not hold or token == '0':
                return NOT_HELD
            lock = hold.lock
            is_own = lock.note_user == self.user
            if size(text) > (size(lock.note) if is_own else 0) and \
                    self.is_over_quota(bytes=1):
                return LIMIT
            lock.note, lock.note_user = text, s.user if size(text) else 0
            self.object(hold, text)
            return ok(0)
        is_bad = not self.names_are_good([name]) or size(text) > 4096
        return self.numbered(words, ('note', name, token, text), do, is_bad)

    # --- Breaking holds without lease ---------------------------------------

    def op_break(self, *words):
        name, after, session, reason, by = words[4:]

        def do(_s, _owner, _req):
            lock = self.locks.get(name)
            if not lock or not lock.holds:
                return ok(0)
            holds = [h for h in lock.holds if h.session.durable and
                     int(session) in (0, h.session.id)]
            if not holds:
                return BAD
            asker = self.numbered_user(self.user)
            who = asker.name if by == '-' or asker.number > LOCAL else by
            for h in holds:
                h.broken = (self.index, int(after), self.clock, who, reason)
                self.out.append(f'Y {h.session.id} {h.owner} {name} {h.token} '
                                f'{after} {reason}')
            return ok(len(holds))
        is_bad = not self.names_are_good([name]) or \
            not 1 <= int(after) <= TIME_MAX or \
            size(reason) > 4096 or size(by) > 128
        return self.numbered(words, ('break', words[4:]), do, is_bad, True)

    def object(self, hold, message):
        """A request of the holder shows that it lives."""
        if not hold.broken:
            return False
        hold.broken = None
        self.out.append(f'y {hold.session.id} {hold.owner} {hold.lock.name} '
                        f'{hold.token} 0 {message}')
        return True

    def op_object(self, *words):
        name, message, token = words[4:]

        def do(s, owner, _req):
            hold = self.meant(s, owner, name, int(token))
            if not hold:
                return NOT_HELD
            return ok(int(self.object(hold, message)))
        is_bad = not self.names_are_good([name]) or size(message) > 4096
        return self.numbered(words, ('object', words[4:]), do, is_bad)

    def op_breakover(self, name, session, owner, since):
        lock = self.locks.get(name)
        hold = lock and hold_at(lock, int(session), owner)
        if not hold or not hold.broken or hold.broken[0] != int(since):
            return VOID
        self.end_hold(hold, 'broken', False)
        self.search_place(name, hold.session, owner)
        return ok(1)

    def op_please(self, *words):
        name, message = words[4:]

        def do(_s, _owner, _req):
            lock = self.locks.get(name)
            holds = lock.holds if lock else []
            for h in holds:
                self.out.append(f'P {h.session.id} {h.owner} {name} {message}')
            return ok(len(holds))
        is_bad = not self.names_are_good([name]) or size(message) > 4096
        return self.numbered(words, ('please', name, message), do, is_bad,
                             True)

    # --- Times that are over ----------------------------------------------

    def op_waitover(self, session, owner, place, asked):
        s = self.sessions.get(int(session))
        for wait in s.waits if s else ():
            if wait.owner == owner and wait.index == int(place):
                if int(asked) not in (0, wait.asked):
                    return VOID
                self.end_wait(wait, 'timeout', NIL)
                return ok(1)
        return VOID

    def op_delayover(self, name, since):
        lock = self.locks.get(name)
        if not lock or not lock.delay or lock.delay_index != int(since):
            return VOID
        lock.delay = lock.delay_index = lock.delay_slots = 0
        lock.delay_clock = 0
        self.touched[name] = True
        self.out.append(f'd {name}')
        return ok(1)

    def named_hold(self, name, session, owner, token):
        lock = self.locks.get(name)
        hold = lock and hold_at(lock, int(session), owner)
        return hold if hold and hold.token == int(token) else None

    def op_holdover(self, name, session, owner, token):
        hold = self.named_hold(name, session, owner, token)
        if not hold:
            return VOID
        self.end_hold(hold, 'max-hold', False)
        self.search_place(name, hold.session, owner)
        return ok(1)
