#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random sequences of operations, applied to the state machine and to a naive
model of it; both must have the same answers, effects and holds.

    run.py [--driver BIN] [--seed N] [--count N] [--ops N] [--seconds S]
           [--length N] [--jobs N] [--failures N] [--shorten S] [--pairs N]
    run.py [--driver BIN] --script FILE

A seed determines a sequence. A sequence that differs is shortened as long as it
still differs, printed, and written to a file. --pairs prints in how many lives
each pair of options occurred (pairs.py), and fails if one occurred in fewer
than N. The last line is "property: N passed, N failed", counted in sequences.
"""

import argparse
import collections
import concurrent.futures
import itertools
import os
import random
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from model import Model  # noqa: E402
from pairs import Pairs, report  # noqa: E402
from state import EXCLUSIVE, LIMIT_COUNT, LIMIT_MAX, SHARED, \
    SLOTS, TTL_LIMIT, Cycle  # noqa: E402
from users import ANYONE, BOUND_MAX, LEADER, LOCAL, NAMED, \
    OF_CLUSTER  # noqa: E402

# How often each operation is generated.
WEIGHTS = {
    'acquire': 34, 'repeat': 5, 'release': 18, 'convert': 8, 'cancel': 3,
    'open': 5, 'close': 1.5, 'expire': 2.5, 'died': 1.5, 'time': 2, 'heard': 1,
    'release_if': 2, 'please': 0.6, 'note': 1.5, 'wait_over': 4, 'delay_over': 4,
    'hold_over': 2, 'break_holds': 2, 'break_over': 2, 'object_to': .7,
    'blacklist_add': 1.2, 'fence': 1.2, 'unfence': .3,
    'blacklist_remove': 1.2, 'blacklist_over': 0.7, 'redis': 5,
    'begin': 0.6, 'quarantine_over': 0.3, 'act': 0.2, 'feature': 0.1,
    'limit': 0.3, 'kept': 2, 'administer': 4,
}
# The operations that name the session of the request.
OF_SESSIONS = {'acq', 'rel', 'relif', 'conv', 'cancel', 'close', 'note',
               'please', 'break', 'object', 'bladd', 'blrem', 'fence',
               'unfence'}
OF_USERS = {'user', 'unuser', 'secret', 'unsecret', 'role', 'unrole', 'access',
            'revoke'}
RESOURCES = ('disk', 'tape', 'f1', 'f2', 'f3', '*511')
LONG = {'name': '*512', 'owner': '*129', 'value': '*4097'}


class Generator:
    """Writes a script line by line. It reads the model's state to generate
    interesting operations."""

    def __init__(self, seed, length):
        self.rng = rng = random.Random(seed)
        self.model = Model()
        self.pairs = Pairs(self.model)
        self.length = length
        self.lines = []
        self.expected = []
        self.index = 0
        self.req = {}
        self.numbered_lines = []
        self.old_keys = {'wait': [], 'hold': [], 'delay': [], 'break': []}
        self.names = ['a', 'b', 'c', 'd', 'e', '*511'][:rng.randint(1, 6)]
        self.owners = ['-', 'x', 'y', '*128'][:rng.randint(1, 4)]
        self.clients = ['-', 'bob', 'bill', 'eve']
        self.values = ['-', 'v', 'w', '*4096' if rng.random() < .1 else 'u']
        self.session_max = rng.randint(2, 8)
        self.modes = rng.choice([
            [EXCLUSIVE], [EXCLUSIVE, SHARED], [EXCLUSIVE, SHARED],
            [EXCLUSIVE, SHARED, SLOTS], [SLOTS], [SHARED, SLOTS],
            [EXCLUSIVE, SLOTS], [EXCLUSIVE, SHARED, SHARED, SLOTS, SLOTS]])
        self.slots = {n: rng.randint(1, 4) for n in self.names}
        if rng.random() < .6:
            self.slots = dict.fromkeys(self.names, rng.randint(1, 4))
        self.multi = rng.choice([0, .1, .3, .6])
        self.barge = rng.choice([0, .05, .3])
        self.delay = rng.choice([0, .1, .5])
        self.hold = rng.choice([0, .1, .5])
        self.wait = rng.choice([.5, .8, .95])
        self.numbers = rng.choice([0, .1, .5, .9])
        self.ack = rng.choice([0, .1, .4])
        self.bad = rng.choice([0, .01, .05])
        self.durable = rng.choice([0, .2, .6])
        self.people = rng.choice([0, 0, 1, 2, 3])
        self.quiet = rng.choice([.03, .2])  # How often a session goes.
        weights = {}
        for name, weight in WEIGHTS.items():
            weight *= rng.choice([1, 1, 1, .2, 3])
            if name in ('close', 'expire', 'died'):
                weight *= self.quiet * 5
            weights[name] = weight
        if not self.people:
            weights['administer'] = 0
        if rng.random() < .4:
            weights['redis'] = 0
        if rng.random() < .4:
            weights['blacklist_add'] = 0
        if rng.random() < .05:
            # More leaders than BEGINs that are stored.
            weights.update(begin=40, time=20)
        if rng.random() < .05:
            # Holds end, and no client asks which.
            weights.update(hold_over=40, release_if=20, release=.2, close=0,
                           expire=.1, blacklist_add=0)
        if seed % 12 == 5:
            # Operators break holds without lease, which are acquired again.
            self.durable = .9
            self.numbers = max(self.numbers, .5)
            weights.update(break_holds=10, break_over=14, hold_over=5,
                           release_if=5, release=8, convert=12, cancel=8,
                           note=4, blacklist_add=5,
                           blacklist_remove=5, repeat=10)
        self.deck = [getattr(self, name) for name, weight in weights.items()
                     for _ in range(round(weight * 20))]

    def pick(self, items):
        return items[int(self.rng.random() * len(items))]

    def chance(self, probability):
        return self.rng.random() < probability

    # --- Writing ----------------------------------------------------------

    def say(self, line):
        self.lines.append(line)
        self.expected.append(self.model.run(line))
        self.pairs.see(line, self.expected[-1])

    def entry(self, *words):
        self.index += 1 if self.rng.random() < .98 else self.rng.randint(2, 9)
        words = ' '.join(map(str, words)).split()
        user = self.asker(words) if self.people else None
        if user is not None:
            words[0] += f':{user}'
        self.say(f'{self.index} ' + ' '.join(words))

    def asker(self, words):
        """The user of the entry; None: as if there were no users."""
        if words[0] in OF_SESSIONS:
            session = self.model.sessions.get(int(words[1]))
            return session.user if session and self.chance(.97) else \
                self.anybody()
        if words[0] == 'redis':
            return self.model.user  # The reader of the keys.
        if words[0] in ('feature', 'quarover'):
            return self.pick((LEADER, LOCAL, self.anybody()))
        if words[0] in OF_USERS:
            return LOCAL if self.chance(.9) else self.anybody()
        if words[0] == 'limit':
            return None if self.chance(.8) else self.anybody()
        return self.anybody() if words[0] in ('open', 'died') else None

    def anybody(self):
        numbers = [user.number for user in self.model.users.values()]
        return self.pick((ANYONE, LOCAL, self.model.base + 3, *numbers,
                          *numbers, *numbers, *numbers))

    def run(self):
        if self.chance(.5):
            self.entry('limit', '0 - 0 0', TTL_LIMIT, 3600000)
        for key in range(LIMIT_COUNT if self.chance(.2) else 0):
            value = self.rng.choice([0, 0, 1, 2, 3, 4, 6, 8])
            if value:
                self.entry('limit', '0 - 0 0', key, value)
        if self.chance(.9):
            self.entry('begin', 1, 1,
                       self.rng.choice([0, 1000, 1 << 41, 1 << 50]), 0, 0)
        for _ in range(self.people):
            self.set_role()
            self.set_role()
            self.set_user()
        rng_random, deck = self.rng.random, self.deck
        size = len(deck)
        while len(self.lines) < self.length:
            if len(self.model.sessions) < 2 and rng_random() < .5:
                self.open()
            deck[int(rng_random() * size)]()
            if rng_random() < .012:
                self.state()
        self.dump()
        self.pairs.sweep(is_all=True)
        return self

    def dump(self):
        self.say('dump ' + ' '.join(RESOURCES))

    def state(self):
        at = self.rng.random()
        if at < .25:
            self.say('restore')
        elif at < .4:
            self.say('reload')
        elif at < .5:
            self.say('flush')
            return
        elif at < .55:
            self.entry('skip')
        elif at < .58:
            nodes = self.rng.sample(range(1, 5), self.rng.randint(1, 4))
            self.entry('change', *(f'{node} {self.directory(node)}'
                                   for node in sorted(nodes)))
        elif at < .6 and self.model.is_begun:
            self.new_life()
        self.dump()

    def directory(self, node):
        """Mostly the member's; otherwise a new one."""
        known = self.model.members.get(node)
        return known if known and self.chance(.8) else \
            self.rng.randint(1, 1 << 20)

    def new_life(self):
        if self.chance(.5):
            self.say('restore')
        self.say(f'newlife {self.rng.choice([1, 5000])}' +
                 ' suspend' * self.chance(.2))
        if self.chance(.5):
            self.say('restore')
        self.entry('begin', self.rng.randint(1, 3), 1,
                   self.rng.choice([0, 5, self.model.base + (1 << 41)])
                   if self.model.base < 1 << 51 else 0, *self.measured())

    # --- Picking ----------------------------------------------------------

    def session(self):
        sessions = self.model.sessions
        if sessions and not self.chance(.01):
            return self.pick(list(sessions))
        base = self.model.base
        return self.pick([base, base + 1, base + self.index // 2 + 1,
                          base + self.index + 1, base + self.index + 2, 1,
                          base + 99999])

    def edge(self, size):
        """Texts of the greatest size and one byte more, if the script may have
        errors."""
        return (f'*{size}', f'*{size + 1}') if self.chance(self.bad * 4) else ()

    def owner(self):
        if self.bad and self.chance(self.bad * .1):
            return LONG['owner']
        return self.pick(self.owners)

    def name(self):
        if self.bad and self.chance(self.bad):
            return self.pick(['-', LONG['name'], 'zz'])
        return self.pick(self.names)

    def ms(self, probability=.5):
        if not self.chance(probability):
            return 0
        if self.bad and self.chance(self.bad):
            return self.pick([1 << 40, (1 << 40) + 1, (1 << 64) - 1])
        return self.pick([1, 50, 700, 9000])

    def numbering(self, session):
        """REQ and ACKED."""
        if not self.chance(self.numbers):
            return '0 0' if self.chance(.98) else '0 3'
        last = self.req.get(session, 0)
        if self.chance(.9):
            req = self.req[session] = last + self.pick((1, 1, 1, 2))
        else:
            req = self.pick((1, last, max(1, last - 1), last + 1))
        acked = 0
        if last > 3 and self.chance(self.ack * .5):
            # Not all: some are still open.
            first = self.rng.randint(max(1, req - 12), req)
            return f'{req} {max(0, first - 3)},{first}-' \
                   f'{self.rng.randint(first, max(first, req - 1))}'
        if self.chance(self.ack):
            acked = max(0, req - self.pick((1, 1, 2, 3, 9, 40)))
            if self.bad and self.chance(self.bad):
                acked = req + self.pick((0, 1))
        return f'{req} {acked}'

    def who(self):
        session, owner = self.session(), self.owner()
        return f'{session} {owner} {self.numbering(session)}'

    def anyone(self):
        """The origin of an operation that needs no session."""
        return '0 - 0 0' if self.chance(.7) else self.who()

    def holds(self):
        return [h for s in self.model.sessions.values() for h in s.holds]

    def waits(self):
        return [w for s in self.model.sessions.values() for w in s.waits]

    def whose(self, thing):
        """The asker of a hold or wait, as an origin."""
        session = thing.session.id
        return f'{session} {thing.owner} ' \
               f'{self.numbering(session)}'

    # --- Operations -------------------------------------------------------

    def numbered(self, *words):
        self.entry(*words)
        line = self.lines[-1].split(None, 2)
        line[1] = line[1].partition(':')[0]
        self.numbered_lines.append(' '.join(line[1:]))
        del self.numbered_lines[:-30]

    def repeat(self):
        """Repeats a request, with or without the number."""
        if not self.numbered_lines:
            return
        words = self.pick(self.numbered_lines).split()
        if self.chance(.2):
            words[3:5] = self.numbering(int(words[1])).split()
        if words[0] == 'acq' and self.chance(.3):
            words[7:9] = self.pick((['0', '0'], ['1', '0'], ['1', '77']))
        if words[0] == 'acq' and self.chance(.1):
            at = self.pick((5, 9, 10, 11))
            words[at] = {5: '1', 9: '1', 10: 'w', 11: '77'}[at]
        if words[0] == 'conv' and self.chance(.3):
            words[7:9] = self.pick((['0', '0'], ['1', '0'], ['1', '77']))
        self.entry(*words)

    def open(self):
        if len(self.model.sessions) > self.session_max and self.chance(.9):
            return
        ttl, linger = self.pick((1, 10000, 4500005)), 0
        if self.chance(.3):
            linger = self.pick((1, 500, ttl))
        if self.bad and self.chance(self.bad):
            ttl = self.pick((0, 4500006, 1 << 31))
        durable = int(self.chance(self.durable))
        if durable and not self.chance(self.bad):
            ttl = linger = 0
        client = self.pick(self.clients)
        if self.bad and self.chance(self.bad):
            client = self.pick(('*128', '*129'))
        if self.bad and self.chance(self.bad):
            linger = ttl + 1
        self.entry('open', ttl, linger, client,
                   self.pick(('-', 'host:1', 'host:1', *self.edge(128))),
                   self.pick((0, 1, 1, 2)), durable, self.pick((0, 777)),
                   (not linger + durable or self.chance(self.bad)) * self.pick((0, 1)))

    def close(self):
        self.numbered('close', self.who())

    def expire(self):
        self.entry('expire', *(self.session() for _ in range(self.pick((1, 1, 2, 3)))))

    def died(self):
        self.entry('died', *(self.session(), self.pick((0, 1, 2))) * self.pick((1, 2)))

    def measured(self):
        """The entry from which time was measured, and the time."""
        newest = self.model.clock_index
        base = newest if self.chance(.8) else self.rng.randint(0, newest + 1)
        return base, self.pick((0, 7, 450, 800, 1000, 1001, 99999999))

    def time(self):
        marks = (f'{self.session()} {self.pick((1, 5, 2500, 99999999))}'
                 for _ in range(self.pick((0, 0, 1, 3))))
        self.entry('time', *self.measured(), *marks)

    def heard(self):
        self.entry('heard', *(self.session()
                              for _ in range(self.pick((1, 1, 3)))))

    def acquire(self):
        mode = self.pick(self.modes)
        names = [self.name()]
        if self.chance(self.multi):
            more = self.rng.sample(self.names, self.rng.randint(
                1, len(self.names)))
            names = more if len(more) > 1 else names + more
            if not self.bad:
                names = list(dict.fromkeys(names))
        who = None
        holds = self.holds() if self.multi else None
        if holds and self.chance(.2):
            # In addition to what it has.
            hold = self.pick(holds)
            who = self.whose(hold)
            names = list(dict.fromkeys([hold.lock.name] + names))
            self.rng.shuffle(names)
        if self.bad and self.chance(self.bad * .1):
            names = self.pick(([], [f'n{i}' for i in range(64)],
                               [f'n{i}' for i in range(65)]))
        slots = 0
        if mode == SLOTS and names:
            slots = self.slots.get(names[0], 2)
            if self.chance(.03):
                slots = self.pick((0, 1, 2, 5))
        if self.bad and self.chance(self.bad * .2):
            mode = 7
        waits = int(self.chance(self.wait))
        value = self.pick(self.values)
        if self.bad and self.chance(self.bad * .2):
            value = LONG['value']
        self.numbered('acq', who or self.who(), mode, slots, waits,
                      self.ms() if waits else 0, int(self.chance(self.barge)),
                      value, self.ms(self.delay), self.ms(self.hold), *names)

    def release(self):
        holds = self.holds()
        if not holds or self.chance(.05):
            self.numbered('rel', self.who(), self.pick((0, 1, self.index)),
                          self.pick((0, 1)), self.name())
            return
        hold = self.pick(holds)
        names = [hold.lock.name]
        tokens = [self.token_of(hold)]
        if self.chance(.15):
            more = [self.pick(holds) for _ in range(self.pick((1, 2, 3)))]
            names += [h.lock.name for h in more]
            tokens += [self.token_of(h) for h in more]
        token = 0 if self.chance(.5) else ','.join(map(str, tokens))
        if self.bad and self.chance(self.bad):
            names = self.pick(([], names + ['zz'] * (64 - len(names)),
                               names + ['zz'] * (65 - len(names))))
        self.numbered('rel', self.whose(hold), token, self.pick((0, 1)),
                      *names)

    def token_of(self, hold):
        """Mostly one that names the hold."""
        return max(1, self.pick((hold.token, hold.token, hold.first,
                                 hold.first - 1, hold.token + 1)))

    def convert(self):
        holds = self.holds()
        if holds and self.chance(.95):
            hold = self.pick(holds)
            who, name = self.whose(hold), hold.lock.name
            token = self.token_of(hold) if self.chance(.4) else 0
        else:
            who, name, token = self.who(), self.name(), 0
        waits = int(self.chance(self.wait))
        mode = self.pick((EXCLUSIVE, EXCLUSIVE, SHARED))
        if self.bad and self.chance(self.bad):
            mode = self.pick((SLOTS, 7))
        self.numbered('conv', who, name, mode, waits,
                      self.ms() if waits else 0, token)

    def cancel(self):
        waits = self.waits()
        if waits and self.chance(.8):
            wait = self.pick(waits)
            self.numbered('cancel', self.whose(wait), wait.lock.name)
        else:
            self.numbered('cancel', self.who(), self.name())

    def note(self):
        holds = self.holds()
        hold = self.pick(holds) if holds and self.chance(.9) else None
        token = self.token_of(hold) if hold and self.chance(.8) else \
            self.pick((0, 9))
        self.numbered('note', self.whose(hold) if hold else self.who(),
                      hold.lock.name if hold else self.name(), token,
                      self.pick(('-', '-', 'n1', '*40', '*4096', '*4097')))

    def please(self):
        self.numbered('please', self.anyone(), self.name(),
                      self.pick(('-', 'hurry', '*4096', '*4097')))

    def release_if(self):
        holds = self.holds()
        if not holds or self.chance(.1):
            self.numbered('relif', self.anyone(), self.name(),
                          self.pick((0, self.session())),
                          self.pick((self.owner(), *self.edge(128))),
                          self.pick((0, 1)))
            return
        hold = self.pick(holds)
        self.numbered('relif', self.anyone(), hold.lock.name,
                      self.pick((0, hold.session.id)), hold.owner,
                      self.pick((0, hold.token, hold.token,
                                 hold.token - 1)))

    def stale(self, kind, key):
        """One of the earlier keys, or this one, which is stored."""
        keys = self.old_keys[kind]
        if key:
            keys.append(key)
            del keys[:-12]
        if not keys:
            return None
        return key if key and self.chance(.7) else self.pick(keys)

    def wait_over(self):
        waits = self.waits()
        key = None
        if waits:
            w = self.pick(waits)
            key = (w.session.id, w.owner, w.index,
                   self.pick((0, w.asked, w.index)))
        key = self.stale('wait', key)
        if key:
            self.entry('waitover', *key)

    def delay_over(self):
        locks = [lock for lock in self.model.locks.values() if lock.delay]
        key = None
        if locks:
            lock = self.pick(locks)
            key = (lock.name, lock.delay_index)
        key = self.stale('delay', key)
        if key:
            self.entry('delayover', *key)

    def hold_key(self):
        holds = self.holds()
        key = None
        if holds:
            h = self.pick(holds)
            key = (h.lock.name, h.session.id, h.owner, h.token)
        return self.stale('hold', key)

    def hold_over(self):
        key = self.hold_key()
        if key:
            self.entry('holdover', *key)

    def durable_holds(self):
        return [h for h in self.holds() if h.session.durable]

    def break_holds(self):
        holds = self.durable_holds() or self.holds()
        if not holds or self.chance(.05):
            name, session = self.name(), self.session()
        else:
            hold = self.pick(holds)
            name, session = hold.lock.name, hold.session.id
        self.numbered('break', self.anyone(), name, self.ms(.98),
                      self.pick((0, 0, session)),
                      self.pick(('-', 'gone', *self.edge(4096))),
                      self.pick(('-', 'ops', *self.edge(128))))

    def break_over(self):
        holds = [h for h in self.holds() if h.broken]
        key = None
        if holds:
            h = self.pick(holds)
            key = (h.lock.name, h.session.id, h.owner, h.broken[0])
        key = self.stale('break', key)
        if key:
            self.entry('breakover', *key)

    def object_to(self):
        holds = [h for h in self.holds() if h.broken] or self.holds()
        if holds and self.chance(.9):
            hold = self.pick(holds)
            who, name = self.whose(hold), hold.lock.name
            token = self.token_of(hold) if self.chance(.5) else 0
        else:
            who, name, token = self.who(), self.name(), 0
        self.numbered('object', who, name,
                      self.pick(('-', 'here', *self.edge(4096))), token)

    def target(self):
        if self.chance(.5):
            return f'{self.session()} -'
        if self.bad and self.chance(self.bad):
            return self.pick(('0 -', f'{self.session()} bob', '0 *128',
                              '0 *129'))
        return '0 ' + self.pick(('bob', 'b*', 'bi?l', '*', 'eve', 'ev'))

    def blacklist_add(self):
        self.numbered('bladd', self.anyone(), self.target(),
                      self.pick(('-', 'why', 'because', *self.edge(4096))),
                      self.pick(('-', 'ops', *self.edge(128))),
                      self.ms())

    def blacklist_remove(self):
        listed = self.model.blacklist
        if listed and self.chance(.8):
            entry = self.pick(listed)
            self.numbered('blrem', self.anyone(), entry[1], entry[2])
        else:
            self.numbered('blrem', self.anyone(), self.target())

    def blacklist_over(self):
        listed = self.model.blacklist
        self.entry('blover', self.pick(listed)[0] if listed and
                   self.chance(.8) else self.rng.randint(0, self.index))

    def fence(self):
        base = self.model.base
        highest = base + self.index
        token = self.pick((0, base, base + 1, highest, highest + 1,
                           highest + 9, highest // 2 + 1, 1,
                           (1 << 53) - 1, 1 << 53, (1 << 40) - 1,
                           1 << 40)
                          if self.chance(.3) else
                          (base + self.rng.randint(1, self.index + 1),))
        self.numbered('fence', self.anyone(),
                      self.pick((*RESOURCES, *RESOURCES, *self.edge(511))),
                      token)

    def unfence(self):
        self.numbered('unfence', self.anyone(), self.pick(RESOURCES))

    def redis_key(self, name):
        """A key, mostly as it is, and a change of it."""
        was, hold = self.model.redis_state(name)
        value = hold.value if hold else '-'
        if self.chance(.1):
            was, value = self.rng.randint(0, 2), self.pick(self.values)
        change = self.pick({0: (0, 1, 1), 1: (0, 1, 2, 2, 3, 3), 2: (0,)}[was])
        times = '0 0 0'
        if change in (1, 2):
            times = self.pick(('6 1 0', '1255 1000 0', '4500005 3600000 0'))
            if self.chance(self.durable):
                times = '0 0 1'
            elif (was, change) == (1, 1) and self.chance(.2):
                times = '0 0 0'
        if self.bad and self.chance(self.bad):
            was, change = self.rng.randint(0, 2), self.rng.randint(0, 3)
            times = self.pick(('0 0 0', '4500006 3600000 0', '6 1 0', '0 0 1',
                               '6 1 1'))
        new = self.pick((*self.values, *self.values, *self.edge(4096))) \
            if change == 1 else '-'
        return f'{name} {was} {value} {change} {new} {times}'

    def redis(self):
        names = [self.name() for _ in range(self.pick((1, 1, 1, 2, 3)))]
        if not self.chance(self.bad):
            names = list(dict.fromkeys(names))
        self.model.user = self.anybody() if self.people else ANYONE
        self.entry('redis', self.pick(self.clients), 888,
                   *(self.redis_key(name) for name in names))

    def begin(self):
        if self.model.is_begun:
            self.entry('begin', self.rng.randint(1, 3),
                       int(self.chance(.3)), 7777,
                       *self.measured())

    def quarantine_over(self):
        self.entry('quarover', self.model.quarantine if self.chance(.8) else
                   self.rng.randint(0, self.index))

    def act(self):
        self.entry('act', self.pick((0, 3, 3)), self.rng.randint(1, 4),
                   self.rng.randint(0, 9), self.pick(('-', 'ops')),
                   self.pick(('-', '10.0.0.1:1')))

    def feature(self):
        self.entry('feature', self.rng.randint(0, 5))

    def limit(self):
        self.entry('limit', '0 - 0 0', self.pick((*range(LIMIT_COUNT), 99)),
                   self.pick((0, 1, 3, 8, 100, 5000, 10000, 10001, LIMIT_MAX,
                              LIMIT_MAX + 1)))

    # --- Users ------------------------------------------------------------

    def administer(self):
        self.pick((self.set_user, self.set_user, self.set_user, self.set_role,
                   self.set_role, self.remove_user, self.secret,
                   self.remove_role, self.access, self.revoke))()

    def office(self):
        """The origin of an administrator."""
        return '0 - 0 0' if self.chance(.9) else self.who()

    def person(self):
        if self.bad and self.chance(self.bad):
            return self.pick(('-', 'anyone', 'default', 'a/b', '*64', '*65',
                              'n' * 64, 'n' * 65, 'admin'))
        return self.pick(('ann', 'ben', 'cat')[:self.people])

    def role_name(self):
        if self.bad and self.chance(self.bad):
            return self.pick(('-', 'admin', 'a/b', 'r9', 'n' * 65))
        return self.pick(('r1', 'r2', 'r3', 'r4', 'r5', 'observer'))

    def seen(self, changed):
        """The version that was read: mostly still the present one."""
        return changed if self.chance(.9) else self.pick((0, 1, changed + 1))

    def set_user(self):
        name = self.person()
        user = self.model.users.get(name)
        changed = self.seen(user.changed if user and user.number else 0)
        roles = [role for role in self.model.roles if self.chance(.5)]
        if self.chance(.1):
            roles.append(self.pick(('admin', 'r1', 'r9', 'a/b', 'observer')))
        bounds = self.pick((
            (), (), (), (self.rng.randint(0, 6),),
            (9, self.rng.randint(0, 9)), (9, 99, self.rng.randint(0, 5)),
            (9, 9, 9, 0), BOUND_MAX))
        if self.bad and self.chance(self.bad):
            bounds = self.pick(((BOUND_MAX[0] + 1,), (*BOUND_MAX, 1)))
        self.numbered('user', self.office(), name, changed,
                      int(self.chance(.15)), int(self.chance(.8)),
                      ','.join(roles) or '-', *bounds)

    def remove_user(self):
        self.numbered('unuser', self.office(), self.person())

    def grant(self):
        if self.bad and self.chance(self.bad):
            return self.pick(('admin', 'access', 'read', 'read,sessions:a',
                              'read:', 'sessions:a', 'sessions:*'))
        if self.chance(.2):
            verbs = [verb for verb in OF_CLUSTER if self.chance(.4)]
            return ','.join(verbs or ['blacklist'])
        verbs = [verb for verb in NAMED if self.chance(.5)] or ['lock']
        name = self.pick(('*', '*', 'f*', '#*', 'tape',
                          *(name[0] for name in self.names),
                          *(name for name in self.names if name[0] != '*')))
        return ','.join(verbs) + ':' + name

    def set_role(self):
        name = self.role_name()
        changed = self.seen(self.model.roles.get(name, (0,))[0])
        count = self.pick((0, 1, 2, 3, 64 if self.bad else 1))
        if self.bad and self.chance(self.bad):
            count = 65
        self.numbered('role', self.office(), name, changed,
                      *(self.grant() for _ in range(count)))

    def remove_role(self):
        self.numbered('unrole', self.office(), self.role_name())

    def secret(self):
        name = self.person()
        user = self.model.users.get(name)
        if user and user.secrets and self.chance(.4):
            number = self.seen(self.pick(user.secrets)[0])
            self.numbered('unsecret', self.office(), name, number)
            return
        self.numbered('secret', self.office(), name, self.rng.randint(0, 9),
                      self.pick(('-', 'key', '*128', '*129')))

    def access(self):
        self.numbered('access', self.office(), int(self.chance(.3)),
                      int(self.chance(.5)))

    def revoke(self):
        self.numbered('revoke', self.office(), self.rng.randint(0, 9),
                      self.pick(('-', 'node.1', '*128', '*129')))

    def kept(self):
        keys = [(s.id, req) for s in self.model.sessions.values()
                for req in s.results]
        if keys and self.chance(.8):
            self.say('kept {} {}'.format(*self.pick(keys)))
        else:
            self.say(f'kept {self.session()} 1')


# --- Comparing ----------------------------------------------------------------

def expectation(lines):
    model = Model()
    return [model.run(line) for line in lines]


def run_driver(driver, lines):
    for command in ([driver], [driver, 'line by line']):
        ended = subprocess.run(command, input='\n'.join(lines) + '\n',
                               capture_output=True, text=True, check=False)
        if ended.returncode == 0:
            break
    out = ended.stdout.split('\n')
    out.pop()
    if ended.returncode != 0:
        out.append(f'!status {ended.returncode} {ended.stderr[-2000:]}')
    return out


def is_same(expected, got):
    return expected == got if isinstance(expected, str) else \
        got.startswith('~') and expected.is_right(got[1:])


def is_cycle(line):
    return isinstance(line, Cycle) or line.startswith('~')


def are_right(expected, got):
    """Each reported cycle."""
    expected, got = (list(filter(is_cycle, x)) for x in (expected, got))
    return len(expected) == len(got) and all(map(is_same, expected, got))


def without_cycles(lines):
    return [line for line in lines if not is_cycle(line)]


def where(line):
    """The lock or session of an effect: only effects of the same one are
    ordered."""
    words = line.split(' ')
    if words[0] in ('G', 'Q', 'R', 'X', 'N', 'P', 'Y', 'y'):
        return words[3]
    return words[1] if words[0] in ('D', 'd') else ''


def in_any_order(lines):
    """The effects of an entry by lock, those of a lock in order; but the grants
    of one entry may be in any order."""
    def key(line):
        at = where(line)
        is_free = at == '' or line[0] in 'GPY'
        return at, is_free, line if is_free else ''
    return lines[:2] + sorted(lines[2:], key=key)


def in_any_holders(lines):
    """A dump, the holds of a lock that one entry granted in any order."""
    return [line for _, same in itertools.groupby(lines, lambda line:
            (line[0], line.split(' ')[6] if line[0] == 'H' else line))
            for line in sorted(same)]


def difference(lines, expected, got):
    """(number of the line that differs, expected, actual)."""
    at = 0
    for number, want in enumerate(expected):
        have = got[at:at + len(want)]
        at += len(want)
        if have == want:
            continue
        if len(have) == len(want):
            if all(map(is_same, want, have)):
                continue
            sort = in_any_order if lines[number][0].isdigit() else \
                in_any_holders
            if are_right(want, have) and \
                    sort(without_cycles(want)) == sort(without_cycles(have)):
                continue
        # If the entries' bounds contain it, show only this entry's lines.
        rest = got[at - len(want):]
        end = next((i for i, line in enumerate(rest[1:], 1)
                    if line[:1] in '@I'), len(rest)) if rest else 0
        return number, want, rest[:end]
    if at != len(got):
        return len(lines), ['the end'], got[at:at + 20]
    return None


def find_difference(driver, lines, expected=None):
    return difference(lines, expected or expectation(lines),
                      run_driver(driver, lines))


def what(found):
    """The kind of a difference, which shortening must preserve."""
    _, want, have = found
    if any(line.startswith('!') for line in have):
        return 'stop'
    for w, h in zip(want, have):
        if not is_same(w, h):
            return (str(w)[:8], h[:8])
    return 'length'


def shrink(driver, lines, deadline):
    """Drops lines as long as it still differs."""
    found = find_difference(driver, lines)
    kind = what(found)
    lines = lines[:found[0] + 1]
    size = max(1, len(lines) // 2)
    while True:
        at = 0
        is_shorter = False
        while at < len(lines):
            fewer = lines[:at] + lines[at + size:]
            if time.monotonic() > deadline:
                return lines
            try:
                again = find_difference(driver, fewer) if fewer else None
            except (KeyError, ValueError, AttributeError):
                again = None
            if again and what(again) == kind:
                lines = fewer[:again[0] + 1]
                is_shorter = True
            else:
                at += size
        if size == 1 and not is_shorter:
            return lines
        size = max(1, size // 2)


def show(driver, lines, why):
    number, want, have = find_difference(driver, lines)
    with tempfile.NamedTemporaryFile('w', delete=False, suffix='.txt',
                                     prefix='property-') as file:
        file.write('\n'.join(lines) + '\n')
    print(f'property: {why} differs; the shortest script:')
    for line in lines:
        print('    ' + line)
    print('at its last line the model says:')
    for line in want:
        print('    ' + (line if isinstance(line, str) else
                        f'~ a cycle of {line.newcomer} along {line.edges}'))
    print('and the state machine:')
    for line in have:
        print('    ' + line)
    print(f'again: {sys.argv[0]} --driver {driver} --script {file.name}')
    sys.stdout.flush()


def run_seed(driver, seed, length):
    """(number of entries, None or the script that differs, pairs met)."""
    generated = Generator(seed, length).run()
    found = find_difference(driver, generated.lines, generated.expected)
    return generated.index, generated.lines if found else None, \
        generated.pairs.count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--driver', default='build/check/property')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--count', type=int, default=0,
                        help='stop after so many sequences')
    parser.add_argument('--ops', type=int, default=0,
                        help='stop after so many operations')
    parser.add_argument('--seconds', type=float, default=0)
    parser.add_argument('--length', type=int, default=1000,
                        help='lines of a sequence')
    parser.add_argument('--jobs', type=int, default=os.cpu_count())
    parser.add_argument('--failures', type=int, default=3,
                        help='stop after so many')
    parser.add_argument('--shorten', type=float, default=60,
                        help='seconds for the search of the shortest script')
    parser.add_argument('--pairs', type=int, default=0,
                        help='lives that each pair of options is to be met in')
    parser.add_argument('--script')
    arguments = parser.parse_args()
    driver = arguments.driver
    if arguments.script:
        with open(arguments.script, encoding='ascii') as file:
            lines = file.read().split('\n')
        lines = [line for line in lines if line]
        found = find_difference(driver, lines)
        if found:
            show(driver, lines, arguments.script)
        print(f'property: {int(not found)} passed, {int(bool(found))} failed')
        return int(bool(found))
    return run_many(arguments, driver)


def run_many(arguments, driver):
    start = time.monotonic()
    passed = failed = ops = wrong = 0
    pairs = collections.Counter()
    seed = arguments.seed
    if not (arguments.count or arguments.ops or arguments.seconds):
        arguments.count = 1

    def is_over():
        return failed >= arguments.failures or \
            (arguments.count and seed >= arguments.seed + arguments.count) or \
            (arguments.ops and ops >= arguments.ops) or \
            (arguments.seconds and
             time.monotonic() - start >= arguments.seconds)

    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        running = {}
        while not is_over() or running:
            while not is_over() and len(running) < arguments.jobs + 1:
                future = pool.submit(run_seed, driver, seed, arguments.length)
                running[future] = seed
                seed += 1
            done, _ = concurrent.futures.wait(
                running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                number = running.pop(future)
                count, lines, met = future.result()
                ops += count
                pairs.update(met)
                if lines is None:
                    passed += 1
                    continue
                failed += 1
                lines = shrink(driver, lines,
                               time.monotonic() + arguments.shorten)
                show(driver, lines, f'seed {number}')
    seconds = time.monotonic() - start
    print(f'property: {ops} operations, {ops / seconds:.0f} per second, seeds '
          f'{arguments.seed} to {seed - 1}')
    if arguments.pairs:
        wrong = report(pairs, arguments.pairs)
    print(f'property: {passed} passed, {failed} failed')
    return int(failed > 0 or passed == 0 or wrong > 0)


if __name__ == '__main__':
    sys.exit(main())
