# SPDX-License-Identifier: MIT
"""The cluster and its sessions, the blacklist, fences and Redis values."""

from state import BAD, DELETE, EXCLUSIVE, FREE, KEEP, LIFE, LIMIT, OTHER, \
    RENEW, SET, TIME_MAX, TTL_LIMIT, TTL_MAX, VALUE, VOID, RedisKey, Result, \
    Session, is_free, is_match, limit_allows, ok, size


class SessionOperations:
    """The cluster and its sessions, the blacklist, fences and Redis values."""

    # --- Sessions ---------------------------------------------------------

    def op_begin(self, node, is_new, base, since, elapsed):
        node = int(node)
        self.move(since, elapsed)
        self.note_begin()
        if is_new == '1' and not self.is_begun:
            self.is_begun = True
            if self.new_life:
                self.base = max(self.base, int(base)) + LIFE
                self.new_life = False
                for s in self.sessions.values():
                    s.ended, s.dropped = [], self.base + self.index
                self.quarantine = self.index
                self.quarantine_clock = self.clock
            else:
                self.base = int(base)
                self.found()
        self.out.append(f'b {node}')
        return ok(node)

    def change(self, members):
        for node, incarnation in self.members.items():
            if members.get(node) != incarnation:
                self.removed[node] = (incarnation, self.index, 0, '-')
        self.members = members

    def op_act(self, kind, node, wall, who, address):
        node = int(node)
        removed = self.removed.get(node)
        if kind == '3' and removed and removed[3] == '-':
            self.removed[node] = (*removed[:2], int(wall),
                                  who if who != '-' else address)
        return ok(node)

    def op_feature(self, level):
        self.feature = max(self.feature, int(level))
        return ok(self.feature)

    def op_quarover(self, since):
        if not self.quarantine or int(since) != self.quarantine:
            return VOID
        self.quarantine = 0
        self.quarantine_ms = 0
        self.quarantine_clock = 0
        self.touched.update(dict.fromkeys(self.shut))
        self.shut = {}
        return ok(1)

    def hit(self, session, name):
        """The oldest matching entry of the blacklist."""
        for entry in self.blacklist:
            if entry[1] == session if entry[1] else is_match(entry[2], name):
                return entry
        return None

    def op_open(self, ttl, linger, name, address, labels, durable, wall,
                will):
        ttl, linger, durable = int(ttl), int(linger), durable == '1'
        if durable != (ttl == 0) or ttl > TTL_MAX or linger > ttl or \
                max(size(name), size(address)) > 128:
            return BAD
        if int(will) and (durable or linger):
            return BAD
        if ttl > self.limits[TTL_LIMIT]:
            return LIMIT
        listed = self.hit(0, name)
        if listed:
            return Result('blacklisted', text=listed[3])
        if len(self.sessions) >= self.limits[0] or \
                self.is_over_quota(sessions=1, bytes=1):
            return LIMIT
        s = Session(self.base + self.index, self.index, ttl, linger, name, address,
                    int(labels))
        s.user = self.user
        s.will = int(will)
        if durable:
            s.durable, s.opened = 1, int(wall)
        self.sessions[s.id] = s
        self.out.append(f'O {s.id} {ttl}')
        return ok(token=s.id)

    def end_session(self, s, reason, is_clean):
        while s.waits:
            self.end_wait(s.waits[0], 'session', Result('expired'))
        while s.holds:
            self.end_hold(s.holds[0], reason, is_clean, True)
        del self.sessions[s.id]
        self.blacklist = [b for b in self.blacklist if b[1] != s.id]
        self.out.append(f'E {s.id} {reason}')

    def op_close(self, *words):
        def do(s, _owner, _req):
            count = len(s.holds)
            self.end_session(s, 'closed', True)
            return ok(count)
        return self.numbered(words, ('close',), do, False)

    def op_expire(self, *ids):
        count = 0
        for id_ in ids:
            s = self.sessions.get(int(id_))
            if s and not s.durable:
                count += 1
                reason = 'blacklisted' if s.listed or self.cut_off(s.user) \
                    else 'expired'
                self.end_session(s, reason, False)
        return ok(count)

    def op_died(self, *words):
        count = 0
        for id_, will in zip(words[::2], words[1::2]):
            s = self.sessions.get(int(id_))
            if s and s.will and s.will == int(will):
                count += 1
                self.end_session(s, 'died', False)
        return ok(count)

    # --- Blacklist and fences ---------------------------------------------

    def review(self):
        """Blacklists sessions after the list has changed."""
        for s in sorted(self.sessions.values(), key=lambda s: s.id):
            entry = self.hit(s.id, s.name)
            if s.durable:  # No lease can run out.
                if entry:
                    self.end_session(s, 'blacklisted', False)
                continue
            was, s.listed = s.listed, entry[0] if entry else 0
            if s.listed and not was:
                while s.waits:
                    self.end_wait(s.waits[0], 'blacklisted',
                                  Result('blacklisted', text=entry[3]))
                self.out.append(f'C {s.id} {s.ttl} blacklisted {entry[3]}')
            elif was and not s.listed:
                self.out.append(f'C {s.id} {s.ttl} pardoned -')

    def op_bladd(self, *words):
        session, client, reason, by, ms = \
            int(words[4]), words[5], words[6], words[7], int(words[8])

        def do(_s, _owner, _req):
            if session:
                refused = self.find(session)[1]
                if refused:
                    return refused
            kept = [b for b in self.blacklist if b[1:3] != [session, client]]
            if kept == self.blacklist and len(kept) >= self.limits[7]:
                return LIMIT
            self.blacklist = kept + [[self.index, session, client, reason, by,
                                      ms, self.clock]]
            self.out.append(f'B {session} {self.index} {ms} {reason}')
            self.review()
            return VOID
        is_bad = bool(session) == (client != '-') or size(client) > 128 or \
            size(reason) > 4096 or size(by) > 128 or ms > TIME_MAX
        return self.numbered(words, ('bladd', words[4:]), do, is_bad, True)

    def op_blrem(self, *words):
        session, client = int(words[4]), words[5]

        def do(_s, _owner, _req):
            kept = [b for b in self.blacklist if b[1:3] != [session, client]]
            return self.shorten_blacklist(kept)
        return self.numbered(words, ('blrem', words[4:]), do, False, True)

    def shorten_blacklist(self, kept):
        count = len(self.blacklist) - len(kept)
        self.blacklist = kept
        self.review()
        return ok(count)

    def op_blover(self, since):
        return self.shorten_blacklist([b for b in self.blacklist
                                       if b[0] != int(since)])

    def op_fence(self, *words):
        resource, token = words[4], int(words[5])

        def do(_s, _owner, _req):
            highest = self.fences.get(resource, 0)
            is_held = any(h.token == token for s in self.sessions.values()
                          if s.durable for h in s.holds)
            if token < highest or 1 << 40 <= token < self.base and \
                    not is_held:
                return ok(0, highest)
            if resource not in self.fences and \
                    (len(self.fences) >= self.limits[6] or
                     self.is_over_quota(bytes=1)):
                return LIMIT
            self.fences[resource] = token
            return ok(1, token)
        is_bad = not self.names_are_good([resource]) or \
            token > max(self.base + self.index, (1 << 40) - 1)
        return self.numbered(words, ('fence', words[4:]), do, is_bad, True)

    def op_limit(self, *words):
        key, value = int(words[4]), int(words[5])

        def do(_s, _owner, _req):
            self.limits[key] = value
            self.out.append(f'l {key} {value}')
            return ok()
        is_bad = not limit_allows(key, value)
        return self.numbered(words, ('limit', words[4:]), do, is_bad, True)

    def op_unfence(self, *words):
        def do(_s, _owner, _req):
            return ok(1 if self.fences.pop(words[4], None) is not None else 0)
        return self.numbered(words, ('unfence', words[4:]), do, False, True)

    # --- Redis ------------------------------------------------------------

    def redis_state(self, name):
        """The state of a key, and its hold."""
        lock = self.locks.get(name)
        if lock and len(lock.holds) == 1 and lock.holds[0].session.redis and \
                lock.holds[0].session.user == self.user:
            return VALUE, lock.holds[0]
        if self.quarantine or self.new_life or \
                lock and not is_free(lock, EXCLUSIVE, 0, lock.queue):
            return OTHER, None
        return FREE, None

    def renew(self, s, key, wall):
        if len(s.holds) == 1 or \
                not s.durable and (key.durable or key.ttl > s.ttl):
            s.ttl, s.px = key.ttl, key.px
            if key.durable != s.durable:
                s.durable = key.durable
                s.opened = int(wall) if s.durable else 0
        self.hear(s)
        self.out.append(f'C {s.id} {s.ttl} renewed -')

    def redis_is_bad(self, keys):
        names = [key.name for key in keys]
        if not self.names_are_good(names) or len(set(names)) < len(names):
            return True
        for key in keys:
            none = not key.ttl and not key.px
            some = 1 <= key.ttl <= TTL_MAX and key.px and not key.durable or \
                none and key.durable
            none = none and not key.durable
            good = {KEEP: key.was <= OTHER and none,
                    SET: key.was == FREE and some or
                    key.was == VALUE and (some or none),
                    RENEW: key.was == VALUE and some,
                    DELETE: key.was == VALUE and none}
            if not good[key.change] or size(key.new) > 4096:
                return True
        return False

    def redis_refusal(self, keys):
        """For keys that are as they were found."""
        for key in keys:
            hold = self.redis_state(key.name)[1]
            if key.change in (SET, RENEW) and hold and hold.session.listed:
                return self.refusal(hold.session)
        new = sum(key.change == SET and key.name not in self.locks
                  for key in keys)
        if new and len(self.locks) + new > self.limits[1]:
            return LIMIT
        taken = sum((key.was, key.change) == (FREE, SET) for key in keys)
        longer = sum(size(key.new) > size(key.value) for key in keys
                     if (key.was, key.change) == (VALUE, SET))
        if self.is_over_quota(holds=taken, bytes=taken + longer):
            return LIMIT
        return None

    def redis_open(self, client, taken, wall):
        if len(taken) > self.limits[2]:
            return None, LIMIT
        if size(client) > 128:
            return None, BAD
        listed = self.hit(0, client)
        if listed:
            return None, Result('blacklisted', text=listed[3])
        if len(self.sessions) >= self.limits[0] or \
                self.is_over_quota(sessions=1, bytes=1):
            return None, LIMIT
        longest = max(taken, key=lambda key: key.px)
        s = Session(self.base + self.index, self.index, longest.ttl, 0, client,
                    'host:1', 0)
        s.user = self.user
        s.redis, s.px = 1, longest.px
        if any(key.durable for key in taken):
            s.durable, s.opened, s.ttl, s.px = 1, int(wall), 0, 0
        self.sessions[s.id] = s
        self.out.append(f'O {s.id} {s.ttl}')
        return s, None

    def redis_change(self, key, s, wall):
        hold = self.redis_state(key.name)[1]
        if hold and key.change in (SET, RENEW):
            self.object(hold, '-')
        if key.change == SET and not hold:
            self.grant(self.obtain(key.name), s, '-', EXCLUSIVE,
                       (key.new, 0, 0), 0)
        elif key.change == DELETE and len(hold.session.holds) == 1:
            self.end_session(hold.session, 'deleted', True)
        elif key.change == DELETE:
            self.end_hold(hold, 'deleted', True)
        elif key.change != KEEP:
            if key.change == SET and hold.value != key.new:
                self.out.append(f'R {hold.session.id} {hold.owner} {key.name} '
                                f'{hold.token} deleted')
                hold.value, hold.granted = key.new, self.index
                hold.token = hold.lock.last_token = self.base + self.index
                hold.first = hold.token
                self.out.append(f'G {hold.session.id} {hold.owner} {key.name} '
                                f'{hold.token} 0 0 -')
            if key.ttl or key.durable:
                self.renew(hold.session, key, wall)

    def op_redis(self, client, wall, *words):
        keys = [RedisKey(words[i], int(words[i + 1]), words[i + 2],
                         int(words[i + 3]), words[i + 4], int(words[i + 5]),
                         int(words[i + 6]), int(words[i + 7]))
                for i in range(0, len(words), 8)]
        for count in range(len(keys) + 1):  # The first error decides.
            if self.redis_is_bad(keys[:count]) and count or not keys:
                return BAD
            if count and keys[count - 1].px > self.limits[TTL_LIMIT]:
                return LIMIT
        for key in keys:
            was, hold = self.redis_state(key.name)
            if was != key.was or hold and hold.value != key.value:
                return ok(0)
        refusal = self.redis_refusal(keys)
        if refusal:
            return refusal
        s = None
        taken = [key for key in keys if (key.was, key.change) == (FREE, SET)]
        if taken:
            s, refusal = self.redis_open(client, taken, wall)
        if refusal:
            return refusal
        for key in keys:
            self.redis_change(key, s, wall)
        return ok(1, s.id if s else 0)
