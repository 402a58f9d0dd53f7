# SPDX-License-Identifier: MIT
"""The log's clock, and the time that a session has been quiet."""

from state import ok

STEP_MAX = 1000
BEGIN_MAX = 64
LEASE_MAX = 4500005


class Clock:
    """The log's clock, and the time that a session has been quiet."""

    def move(self, base, elapsed):
        """TIME and BEGIN count from the newest one, or not at all."""
        moved = 0
        if self.clock_index and int(base) == self.clock_index:
            moved = min(int(elapsed), STEP_MAX)
        self.clock += moved
        self.clock_index = self.index
        self.out.append(f't {moved}')

    def note_begin(self):
        """The number of stored BEGINs is bounded; the sessions of a dropped one
        are treated as those of the next."""
        begins = self.begins
        while len(begins) > 1 and self.clock - begins[1][1] >= LEASE_MAX:
            del begins[0]
        if len(begins) == BEGIN_MAX:
            least = min(range(BEGIN_MAX - 1), key=lambda i:
                        (begins[i + 1][1] - begins[i][2]) * 1024
                        // (self.clock - begins[i][2] + 1))
            begins[least + 1][2] = begins[least][2]
            del begins[least]
        begins.append([self.index, self.clock, self.clock])

    def op_time(self, base, elapsed, *words):
        self.move(base, elapsed)
        count = 0
        for id_, quiet in zip(words[::2], words[1::2]):
            s = self.sessions.get(int(id_))
            if s and not s.durable:
                count += 1
                s.mark = (min(int(quiet), s.ttl), self.clock)
                self.out.append(f'A {s.id} {s.mark[0]}')
        return ok(count)

    def op_heard(self, *ids):
        count = 0
        for id_ in ids:
            s = self.sessions.get(int(id_))
            if s and not s.durable:
                count += 1
                self.hear(s)
                self.out.append(f'h {s.id}')
        return ok(count)

    def hear(self, s):
        s.heard = self.index
        s.mark = None

    def quiet(self, s):
        """How long, and at which clock. If no TIME has marked the session, the
        first BEGIN since its last message has."""
        if s.durable:
            return '-'
        if s.mark:
            return '{}@{}'.format(*s.mark)
        for index, clock, _ in self.begins:
            if index > s.heard:
                return f'0@{clock}'
        return '-'
