# SPDX-License-Identifier: MIT
"""A naive model of the state machine, to be compared with lockfsm/.

Written from the text of lockfsm/README.md and of the design, not from the code,
and sharing nothing with it: plain lists and dicts, every question answered by a
full search. If the text leaves open which of two applicable refusals is
returned, the model follows the code.

A script is a list of lines, each an entry ("INDEX OPERATION:USER ARGUMENTS",
by the user's number, or anyone's) or a question to the state ("dump"); the model
and driver.c print the same lines for the same script. Texts are bare words; "-"
is the empty one and "*N" one of N bytes.
"""

from clock import Clock
from locks import LockOperations
from rules import Rules
from sessions import SessionOperations
from state import Cycle
from users import ANYONE, LEADER, LOCAL, Users


# Entries that are not numbered requests.
UNNUMBERED = ('open', 'died', 'redis', 'feature', 'quarover')
DEFAULT_USERS = {'limit': LOCAL, 'act': LEADER}


class Model(SessionOperations, LockOperations, Clock, Users, Rules):
    """One state, and the effects and output of a script's line."""

    def run(self, line):
        """The output of one line of a script; a Cycle replaces a text that
        cannot be predicted."""
        words = line.split()
        if not words[0].isdigit():
            return getattr(self, 'ask_' + words[0])(*words[1:])
        self.index = int(words[0])
        self.out = out = []
        if words[1] == 'skip':
            return [f'@{self.index}']
        if words[1] == 'change':
            numbers = [int(word) for word in words[2:]]
            self.change(dict(zip(numbers[::2], numbers[1::2])))
            return [f'@{self.index}']
        operation, _, user = words[1].partition(':')
        self.user = int(user) if user else DEFAULT_USERS.get(operation, ANYONE)
        self.denied = self.denial(operation, words[2:])
        if self.denied and operation in UNNUMBERED:
            result = self.denied
        else:
            result = getattr(self, 'op_' + operation)(*words[2:])
        self.settle()
        lines = [f'@{self.index}', f'r {result.line()} {result.place}']
        if result.check:
            lines.append(result.check)
        return lines + out

    def ask_restore(self):
        return ['restored']

    def ask_reload(self):
        return ['reloaded']

    def ask_flush(self):
        return []

    def ask_newlife(self, ms, *users):
        if users:
            for user in self.users.values():
                user.disabled = user.number != 0
        for lock in list(self.locks.values()):
            lock.queue = []
            lock.delay = lock.delay_index = lock.delay_slots = 0
            lock.delay_clock = 0
            lock.holds = [h for h in lock.holds if h.session.durable]
            if not lock.holds:
                del self.locks[lock.name]
        self.sessions = {s.id: s for s in self.sessions.values() if s.durable}
        for s in self.sessions.values():
            s.waits = []
            s.results = {n: kept for n, kept in s.results.items()
                         if not kept[1]}
            for hold in s.holds:
                hold.broken = None
        self.blacklist = [b for b in self.blacklist if not b[1]]
        self.members = {}
        self.removed = {}
        self.is_begun = False
        self.new_life = True
        self.shut = {}
        self.quarantine = 0
        self.quarantine_ms = int(ms)
        self.begins = []
        return []

    def ask_kept(self, session, req):
        found = self.sessions.get(int(session))
        kept = found and found.results.get(int(req))
        if not kept or kept[1]:
            return ['k none']
        lines = [f'k {kept[2].line()}']
        if kept[2].check:
            lines.append(kept[2].check)
        return lines

    def ask_dump(self, *resources):
        out = [f'I {self.index} {self.base} {int(self.is_begun)} '
               f'{self.quarantine} {self.quarantine_ms} {self.feature} '
               f'{self.clock} {self.clock_index} {self.quarantine_clock}']
        out += [f'M {n} {incarnation}' for n, incarnation
                in sorted(self.members.items())]
        out += [f'X {n} {index} {incarnation} {wall} {who}'
                for n, (incarnation, index, wall, who)
                in sorted(self.removed.items())]
        for s in sorted(self.sessions.values(), key=lambda s: s.id):
            out.append(
                f'S {s.id} {s.user} {s.durable} {s.opened} {s.ttl} {s.linger} '
                f'{self.quiet(s)} {s.name} {s.address} '
                f'{s.labels} {s.listed} {s.redis} {s.px} {len(s.holds)} '
                f'{len(s.waits)} {len(s.askers())} {len(s.results)} '
                f'{s.dropped}')
            out += [f'E {" ".join(map(str, e))}' for e in s.ended]
        for lock in sorted(self.locks.values(), key=lambda l: l.name):
            out.append(f'L {lock.name} {lock.slots} {lock.delay} '
                       f'{lock.delay_index} {lock.delay_slots} '
                       f'{lock.last_token} {lock.delay_clock} {lock.note}')
            out += [f'H {h.session.id} {h.owner} {h.value} {h.mode} {h.token} '
                    f'{h.first} {h.granted} {h.count} {h.delay} {h.hold} '
                    f'{h.clock if h.hold else 0}' +
                    ''.join(f' {word}' for word in h.broken or ())
                    for h in lock.holds]
            out += [f'W {w.session.id} {w.owner} {w.value} {w.mode} {w.slots} '
                    f'{w.index} {w.asked} {w.ms} {w.delay} {w.hold} {w.req} '
                    f'{int(w.upgrade)} {w.clock if w.ms else 0}'
                    for w in lock.queue]
        out += [f'B {" ".join(map(str, b[:6]))} {b[6] if b[5] else 0}'
                for b in self.blacklist]
        out += [f'F {r} {self.fences[r]}' for r in resources
                if r in self.fences]
        return out + self.dump_users()
