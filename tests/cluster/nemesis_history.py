# SPDX-License-Identifier: MIT
"""The requests of a run's clients, and the answers.

A history is made of the records that nemesis_client.py writes, one JSON object
per line; times are CLOCK_MONOTONIC of the machine, whatever a client's own
clock shows:

    op     'n' was asked at 't': 'op' is the kind, 'lock' or 'locks' and what
           else the kind has are beside it, 's' is the session
    done   'n' was answered at 't': 'v' is the value, or 'e' the error word of a
           result (DEADLOCK, NOTHELD), or 'no' the word of a refusal that says
           that nothing was done. An op without 'done' may have happened at any
           time after 't', or never
    again  'n' was asked once more under its REQ after it had been answered, and
           'v' or 'e' is the new answer
    kept   the client trusts session 's' until 'until'
    gone   the client learned at 't' that session 's' has ended

nemesis_check.py defines beliefs. A run adds 'life' records: at 't'
no node ran, and those that were started then had the state of a backup, which
was begun at 'backup' and over at 'until' (the end of the quarantine). And
'listed' records: sessions of that 'name' were asked to be blacklisted at
'asked', surely were from 't' on, which may be never, and until 'until'. A
client that was refused for it wrote 'barred'. 'withdrawn' records: the right of
user 'name' to lock was withdrawn at 'asked', was surely lost from 't' on and
until 'until', when it was requested again, and was back at 'over'. A client
whose request of 'asked' was refused for it wrote 'denied'.
"""

import json
from collections import namedtuple

FOREVER = float("inf")
Life = namedtuple("Life", "t backup until")
Listing = namedtuple("Listing", "name asked t until")
Withdrawal = namedtuple("Withdrawal", "name asked t until over")
Denial = namedtuple("Denial", "name asked t")


class Op:
    """One request, from its first sending until its answer."""

    def __init__(self, client, record):
        self.client, self.number = client, record["n"]
        self.kind, self.session = record["op"], record.get("s", 0)
        self.owner = record.get("owner", "")
        self.args = record
        self.call, self.end = record["t"], FOREVER
        self.value = self.error = self.refusal = None
        self.is_known = False
        self.again = []

    def answer(self, record):
        self.end = record["t"]
        self.value, self.error = record.get("v"), record.get("e")
        self.refusal = record.get("no")
        self.is_known = True

    @property
    def who(self):
        return (self.session, self.owner)

    @property
    def locks(self):
        return self.args.get("locks") or [self.args["lock"]]

    def __str__(self):
        hidden = ("k", "n", "t", "op", "s")
        words = ["%s=%s" % p for p in self.args.items() if p[0] not in hidden]
        told = "unknown"
        if self.is_known:
            told = "%s" % (self.refusal or self.error or repr(self.value))
        return "%.3f..%.3f client %d, session %d: %s %s: %s" % (
            self.call,
            self.end,
            self.client,
            self.session,
            self.kind,
            " ".join(words),
            told,
        )


class Session:
    """The known bounds of a session's end: not before 'until', over by
    'gone'."""

    def __init__(self, number):
        self.id = number
        self.opened = FOREVER  # When its opening was answered.
        self.until, self.gone = 0.0, FOREVER
        self.is_closed = False  # It was asked to end.


class History:
    def __init__(self):
        self.ops, self.sessions, self.lives = [], {}, []
        self.listings, self.barred = [], []
        self.withdrawals, self.denials = [], []

    def session(self, number):
        return self.sessions.setdefault(number, Session(number))

    def read(self, client, lines):
        """Adds what one client, in one of its lives, has written."""
        asked = {}
        for line in lines:
            record = json.loads(line) if isinstance(line, bytes) else line
            self.take(client, asked, record)

    def take(self, client, asked, record):
        kind = record["k"]
        if kind == "op":
            op = asked[record["n"]] = Op(client, record)
            self.ops.append(op)
        elif kind == "done":
            asked[record["n"]].answer(record)
        elif kind == "again":
            told = (record.get("v"), record.get("e"))
            asked[record["n"]].again.append(told)
        elif kind == "kept":
            session = self.session(record["s"])
            session.until = max(session.until, record["until"])
        elif kind == "gone":
            session = self.session(record["s"])
            session.gone = min(session.gone, record["t"])
        elif kind == "listed":
            self.listings.append(of_record(Listing, record))
        elif kind == "withdrawn":
            self.withdrawals.append(of_record(Withdrawal, record))
        elif kind == "denied":
            self.denials.append(of_record(Denial, record))
        elif kind == "barred":
            self.barred.append((record["name"], record["t"]))
        elif kind == "life":
            self.lives.append(
                Life(record["t"], record["backup"], record["until"])
            )

    def conclude(self):
        """The facts about sessions in the answers, once all are read."""
        for op in self.ops:
            if op.kind == "open" and op.is_known and op.refusal is None:
                self.session(op.value).opened = op.end
            elif op.kind == "close":
                session = self.session(op.session)
                session.until = min(session.until, op.call)
                session.is_closed = True
                if op.is_known and op.error is None and op.refusal is None:
                    session.gone = min(session.gone, op.end)
        for life in self.lives:
            for session in self.sessions.values():
                if session.opened < life.t:
                    session.until = min(session.until, life.t)
                    session.gone = min(session.gone, life.t)
        return self


def of_record(kind, record):
    return kind(*(record[word] for word in kind._fields))


def read_records(path):
    with open(path, "rb") as file:
        return [json.loads(line) for line in file]


def read_files(paths, extra=()):
    """The history of those files; 'extra' are records of the run itself."""
    history = History()
    for client, path in enumerate(paths):
        with open(path, "rb") as file:
            history.read(client, file)
    history.read(len(paths), extra)
    return history.conclude()
