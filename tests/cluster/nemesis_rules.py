# SPDX-License-Identifier: MIT
"""The rules that a history must satisfy beside linearizability
(nemesis_linear.py).

1. Tokens and session ids come from one log: a request made after another's
   grant was known got a greater one, whatever the lock.
2. A repetition under a number gets the same answer.
3. A session that is trusted is listed; one that has ended never comes back.
4. Of two exclusive waits in a queue the first is granted first; and no reader
   passes a wait that was seen to be exclusive. Places are known from LOCK.SHOW,
   which has the entry that queued a wait.
5. A wait that is shown in a queue was requested, and was not answered yet.
6. Locks that one request acquires are granted by one entry: with one token.
7. A request for a session that is known to have ended is not done.
8. A blacklisted client gets no grant, and no other client is refused as such.
9. A client that has lost a right gets no new lock by it, and one that has it is
   not refused for lack of it.

A request with BARGE passes a queue; none passes it for that.
"""

from bisect import bisect_left

from nemesis_linear import check_fences, check_locks


def judge(history, slots=2):
    """All that is wrong with a history, in words."""
    # Listings come first: they show which sessions have ended by when.
    found = check_rules(history)
    return found + check_locks(history, slots) + check_fences(history)


def check_rules(history):
    return (
        check_growth(history)
        + check_once(history)
        + check_listings(history)
        + check_queues(history)
        + check_at_once(history)
        + check_after_end(history)
        + check_blacklist(history)
        + check_rights(history)
    )


def grants(history):
    """Yields (op, its token), for each answer with a new token."""
    known = set()
    for op in sorted(history.ops, key=lambda op: op.end):
        if not op.is_known or op.refusal or op.error or op.value is None:
            continue
        if op.kind == "open":
            yield op, op.value
        elif op.kind in ("acquire", "macquire", "convert"):
            values = op.value if op.kind == "macquire" else [op.value]
            for lock, token in zip(op.locks, values):
                # An owner that enters again gets the token that it has.
                if (op.who, lock, token) not in known:
                    known.add((op.who, lock, token))
                    yield op, token


def check_growth(history):
    """A token answered before a request began is less than its answer."""
    found, ends, most = [], [], []
    for op, token in grants(history):
        # By their ends, so the greatest token of those before is a prefix's.
        before = bisect_left(ends, op.call)
        if before > 0 and token <= most[before - 1]:
            found.append(
                "token %d is not above %d, which was known before: %s"
                % (token, most[before - 1], op)
            )
        ends.append(op.end)
        most.append(max(token, most[-1] if most else 0))
    return found


def check_once(history):
    found = []
    for op in history.ops:
        for value, error in op.again:
            if (value, error) != (op.value, op.error):
                told = error or value
                found.append("asked again, the answer is %r: %s" % (told, op))
    return found


def check_listings(history):
    """Each SESSION.LIST against what is known of sessions. It is also evidence
    of an end: a session that was opened before and is not listed is gone."""
    found = []
    for op in history.ops:
        if op.kind != "sessions" or not op.is_known or op.refusal:
            continue
        listed = set(op.value)
        for session in history.sessions.values():
            if session.id in listed:
                if session.gone < op.call:
                    found.append(
                        "session %d had ended by %.3f and is listed: %s"
                        % (session.id, session.gone, op)
                    )
            elif session.opened < op.call and session.gone > op.end:
                if session.until > op.end:
                    found.append(
                        "session %d is trusted until %.3f and not listed: %s"
                        % (session.id, session.until, op)
                    )
                session.gone = op.end
    return found


def waiting(history):
    """{(session, owner, lock): requests that may wait there}"""
    asked = {}
    for op in history.ops:
        if op.kind in ("acquire", "macquire", "convert"):
            if op.args.get("wait", 0) > 0 and op.refusal is None:
                for place, lock in enumerate(op.locks):
                    key = (*op.who, lock)
                    asked.setdefault(key, []).append((op, place))
    return asked


def check_queues(history):
    found, asked = [], waiting(history)
    shown = {}  # {lock: {place: (op, its number among its locks)}}
    for op in shows(history):
        lock = op.args["lock"]
        indices = [q[3] for q in op.value["queue"] if not q[4]]
        if indices != sorted(indices):
            found.append("a queue is not in order: %s" % op)
        for session, owner, mode, index, _ in op.value["queue"]:
            waits = [
                (other, number)
                for other, number in asked.get((session, owner, lock), ())
                if other.call < op.end and other.end > op.call
            ]
            if not waits:
                found.append(
                    "session %d waits and has not asked to: %s" % (session, op)
                )
            elif len(waits) == 1 and mode == "exclusive":
                place = place_of(history, op, index)
                shown.setdefault(lock, {})[place] = waits[0]
    for lock, by_place in shown.items():
        found += check_order(lock, by_place)
    return found + check_latecomers(history, shown)


def shows(history):
    """The answers about locks, in their order."""
    told = [op for op in history.ops if op.kind == "show" and op.is_known]
    return sorted(
        (op for op in told if op.refusal is None), key=lambda op: op.end
    )


def place_of(history, op, index):
    """Indices restart in a new life."""
    return (sum(life.t < op.end for life in history.lives), index)


def token_of(op, place):
    """The grant to a wait for an exclusive lock, or None."""
    if op.kind == "convert" or op.args.get("mode") != "exclusive":
        return None
    if not op.is_known or op.error or op.value is None:
        return None
    return op.value[place] if op.kind == "macquire" else op.value


def check_order(lock, by_place):
    found, newest = [], 0
    for _, (op, number) in sorted(by_place.items(), key=lambda item: item[0]):
        token = token_of(op, number)
        if token is not None and token <= newest and not op.args.get("barge"):
            found.append(
                "%s: granted before the one ahead (token %d): %s"
                % (lock, newest, op)
            )
        newest = max(newest, token or 0)
    return found


def first_seen(history):
    """{(lock, place): when a queue with that place had been shown}"""
    seen = {}
    for op in shows(history):
        for _, _, _, index, _ in op.value["queue"]:
            place = place_of(history, op, index)
            seen.setdefault((op.args["lock"], place), op.end)
    return seen


def check_latecomers(history, shown):
    """A request made after another was seen to wait comes after it."""
    found, seen, ahead = [], first_seen(history), {}
    for lock, by_place in shown.items():
        waits = [
            (seen[lock, place], token_of(*wait) or 0)
            for place, wait in by_place.items()
        ]
        greatest, ahead[lock] = 0, []
        for at, token in sorted(waits):
            greatest = max(greatest, token)
            ahead[lock].append((at, greatest))
    for op, token in grants(history):
        if op.args.get("mode") not in ("exclusive", "shared"):
            continue
        if op.kind not in ("acquire", "macquire") or op.args.get("barge"):
            continue
        for lock in op.locks:
            before = bisect_left(ahead.get(lock, []), (op.call, 0))
            if before > 0 and ahead[lock][before - 1][1] > token:
                found.append(
                    "%s: passed who was seen to wait (token %d): %s"
                    % (lock, ahead[lock][before - 1][1], op)
                )
    return found


def check_at_once(history):
    found = []
    for op in history.ops:
        if op.kind == "macquire" and op.value and len(set(op.value)) > 1:
            found.append("several entries granted it: %s" % op)
    return found


def check_after_end(history):
    found = []
    for op in history.ops:
        session = history.sessions.get(op.session)
        if session is None or op.kind == "close" or op.refusal:
            continue
        if op.is_known and op.call > session.gone and op.error is None:
            found.append(
                "its session had ended by %.3f: %s" % (session.gone, op)
            )
    return found


def names_of_sessions(history):
    return {
        op.value: op.args.get("name")
        for op in history.ops
        if op.kind == "open" and op.is_known and op.refusal is None
    }


def check_blacklist(history):
    """The requests that are made and granted while the client is surely
    blacklisted. A restore may forget entries made after the backup."""
    found, names = [], names_of_sessions(history)
    for op, token in grants(history):
        name = names.get(op.value if op.kind == "open" else op.session)
        for listing in history.listings:
            until = listing.until
            for life in history.lives:
                if listing.asked < life.t:
                    until = min(until, life.backup)
            if name == listing.name and listing.t < op.call < op.end < until:
                found.append("%s is blacklisted: %s" % (name, op))
    for name, told in history.barred:
        if not any(
            listing.name == name and listing.asked < told
            for listing in history.listings
        ):
            found.append("%s was refused as blacklisted" % name)
    return found


def check_rights(history):
    """The requests that were made and granted while a right was surely lost;
    and those refused while it was surely there."""
    found, names = [], names_of_sessions(history)
    for op, token in grants(history):
        for lost in history.withdrawals:
            is_about_it = op.args.get("mode", "shared") != "shared"
            is_meanwhile = lost.t < op.call < op.end < lost.until
            if is_about_it and is_meanwhile and names[op.session] == lost.name:
                found.append("%s has no right to it: %s" % (lost.name, op))
    for denial in history.denials:
        if not any(
            lost.name == denial.name
            and lost.asked < denial.t
            and denial.asked < lost.over
            for lost in history.withdrawals
        ):
            found.append("%s was refused, and had all rights" % denial.name)
    return found
