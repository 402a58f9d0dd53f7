# SPDX-License-Identifier: MIT
"""The events of a run's watchers, compared with each other and with the answers
to clients. nemesis_watch.py has the records.

Ids are of the log: (life, index, ordinal). A watch covers an interval of them:
from the event that it resumed from, or the gap or the first event that it got,
to the newest that it got. Nothing is missing in that interval.

1. Under one watch ids grow: no event comes twice, none out of order.
2. An id has the same event in every watch.
3. An event of one watch is in all watches that cover it.
4. Each grant that a client got is in all watches that cover its entry.
5. By the events a lock is granted exclusively only while nobody has it.
6. A watch that resumes from an event of another life gets a gap first.
"""

from bisect import bisect_left, bisect_right

from nemesis_rules import grants

# Only these are always taken exclusively.
ALONE = ("e0", "e1", "h0")
ENDS = ("released", "expired")


class Cover:
    """The interval of one watch: all of one life after 'low' up to 'high'."""

    def __init__(self, low, is_gap=False):
        self.low, self.high, self.is_gap = low, low, is_gap
        self.ids = []

    def add(self, id_):
        self.ids.append(id_)
        self.high = max(self.high, id_)


class Watches:
    """All watches of all observers."""

    def __init__(self):
        self.covers, self.events, self.found = [], {}, []

    def read(self, records):
        """Those of one process in one of its lives."""
        covers = {}
        for record in records:
            number = record.get("w")
            if record["k"] == "watch":
                since = record["since"]
                low = tuple(since) if since is not None else None
                covers[number] = None if low is None else Cover(low)
            elif record["k"] == "gap":
                covers[number] = Cover(tuple(record["id"]), is_gap=True)
            elif record["k"] == "event":
                covers[number] = self.take(covers[number], record)
                continue
            else:
                continue
            if covers[number] is not None:
                self.covers.append(covers[number])

    def take(self, cover, record):
        """An event; gives the cover that it belongs to."""
        id_ = tuple(record["id"])
        event = tuple(
            record[key]
            for key in ("lock", "kind", "session", "token", "message")
        )
        known = self.events.setdefault(id_, event)
        if known != event:
            self.found.append(
                "event %s is %r, and elsewhere %r" % (name(id_), event, known)
            )
        if cover is not None and cover.low[0] == 0:
            # From a node that begins a new life, which has no number yet.
            cover.low = cover.high = (id_[0], *cover.low[1:])
        is_new = cover is not None and cover.low[0] != id_[0]
        if cover is None or (is_new and cover.is_gap):
            # After a gap a life may have begun.
            cover = Cover(before(id_))
            self.covers.append(cover)
        elif is_new:
            self.found.append(
                "event %s follows %s without a gap"
                % (name(id_), name(cover.low))
            )
            return cover
        if cover.ids and id_ <= cover.ids[-1]:
            self.found.append(
                "event %s came after %s" % (name(id_), name(cover.ids[-1]))
            )
        cover.add(id_)
        return cover

    # --- What they lack -------------------------------------------------------

    def check_missing(self):
        ids = sorted(self.events)
        for cover in self.covers:
            told = set(cover.ids)
            first = bisect_right(ids, cover.low)
            for id_ in ids[first : bisect_right(ids, cover.high)]:
                if id_ not in told:
                    self.found.append(
                        "event %s, %r, is missing between %s and %s"
                        % (
                            name(id_),
                            self.events[id_],
                            name(cover.low),
                            name(cover.high),
                        )
                    )

    def bases(self):
        """{life: token less index of its grants}"""
        bases = {}
        for (life, index, _), (_, kind, _, token, _) in self.events.items():
            if kind == "granted":
                bases[life] = max(bases.get(life, 0), token - index)
        return bases

    def check_grants(self, history):
        """Returns the number of grants in the interval of some watch."""
        told = {
            (event[0], event[3])
            for event in self.events.values()
            if event[1] == "granted"
        }
        bases = sorted(self.bases().items(), key=lambda pair: pair[1])
        count = 0
        for op, token in grants(history):
            place = bisect_left([base for _, base in bases], token) - 1
            if op.kind == "open" or place < 0:
                continue
            life, base = bases[place]
            id_ = (life, token - base, 0)
            if not any(c.low < before(id_) and id_ < c.high for c in self.covers):
                continue
            count += 1
            if not all((lock, token) in told for lock in op.locks):
                self.found.append("no watch got the grant: %s" % op)
        return count

    def check_alone(self):
        """Goes through what is known without a break."""
        holder = {}
        ends = sorted((cover.low, cover.high) for cover in self.covers)
        at, reach = 0, (0, 0, 0)
        for id_ in sorted(self.events):
            while at < len(ends) and ends[at][0] < id_:
                if ends[at][0] > reach:
                    holder.clear()  # Between them things have happened.
                reach = max(reach, ends[at][1])
                at += 1
            lock, kind, _, token, _ = self.events[id_]
            if lock not in ALONE:
                continue
            if kind == "granted" and holder.get(lock, token) != token:
                self.found.append(
                    "%s is granted by %s while token %d has it"
                    % (lock, name(id_), holder[lock])
                )
            if kind == "granted":
                holder[lock] = token
            elif kind in ENDS and holder.pop(lock, token) != token:
                self.found.append(
                    "%s: a hold ends by %s that was not there"
                    % (lock, name(id_))
                )


def before(id_):
    """The greatest id that is less."""
    return (id_[0], id_[1] - 1, 2**32) if id_[2] == 0 else (*id_[:2], id_[2] - 1)


def name(id_):
    return "-".join(map(str, id_))


def check_events(processes, history):
    """From the records of each process: all faults, in words; and how many
    grants were compared."""
    watches = Watches()
    for records in processes:
        watches.read(records)
    watches.check_missing()
    count = watches.check_grants(history)
    watches.check_alone()
    return watches.found, count
