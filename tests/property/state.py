# SPDX-License-Identifier: MIT
"""The parts of the model: sessions, locks, holds, waits, results."""

import collections

EXCLUSIVE, SHARED, SLOTS = 0, 1, 2
FREE, VALUE, OTHER = 0, 1, 2  # State of a Redis key ...
KEEP, SET, RENEW, DELETE = 0, 1, 2, 3  # ... and its change.
RedisKey = collections.namedtuple(
    'RedisKey', 'name was value change new ttl px durable')
TTL_MAX = 4500005
TIME_MAX = 1 << 40
LIFE = 1 << 40
# In the order of enum limit_key.
LIMIT_COUNT = 10  # Without state_size, which is not modelled.
LIMIT_MAX = 100000000
ANSWERED_MAX = 1024
SPENT_MAX = 64
WAITING_MAX = 64
ENDED_MAX = 64
BLACKLIST_LIMIT, BLACKLIST_MAX = 7, 10000
TTL_LIMIT = 9


def limit_allows(key, value):
    if key == TTL_LIMIT:
        return 1000 <= value <= 3600000
    most = BLACKLIST_MAX if key == BLACKLIST_LIMIT else LIMIT_MAX
    return key < LIMIT_COUNT and 1 <= value <= most


def size(text):
    if text == '-':
        return 0
    return int(text[1:]) if text[0] == '*' < text else len(text)


def is_match(pattern, text):
    """A glob of '*', '?' and plain characters, over the words of a script."""
    pattern = '' if pattern == '-' else pattern
    text = '' if text == '-' else text
    if not pattern:
        return not text
    if pattern[0] == '*':
        return any(is_match(pattern[1:] or '-', text[i:] or '-')
                   for i in range(len(text) + 1))
    return bool(text) and pattern[0] in ('?', text[0]) and \
        is_match(pattern[1:] or '-', text[1:] or '-')


class Session:
    def __init__(self, id_, heard, ttl, linger, name, address, labels):
        self.id = id_
        self.user = 0
        self.durable = 0
        self.will = 0  # A number that stands for the hash; 0: none.
        self.opened = 0
        self.ttl = ttl
        self.linger = linger
        self.heard = heard
        self.mark = None  # (quiet time, clock)
        self.name = name
        self.address = address
        self.labels = labels
        self.listed = 0
        self.redis = 0
        self.px = 0
        self.holds = []
        self.waits = []
        self.ended = []   # (lock, owner, first, token, why, number)
        self.dropped = 0
        self.results = {}  # number -> [command, place, result, owner]
        self.spent = []    # [from, to], ascending, with gaps between

    def askers(self):
        return {wait.owner for wait in self.waits}

    def is_spent(self, number):
        return any(a <= number <= b for a, b in self.spent)

    def spend(self, first, last):
        if not 0 < first <= last:
            return
        self.spent.append([first, last])
        self.spent.sort()
        merged = []
        for a, b in self.spent:
            if merged and a <= merged[-1][1] + 1:
                merged[-1][1] = max(b, merged[-1][1])
            else:
                merged.append([a, b])
        if len(merged) > SPENT_MAX:
            merged[1][0] = merged.pop(0)[0]
        self.spent = merged

    def answered(self, number, result):
        """Adds the newest; drops the oldest unacknowledged one."""
        kept = self.results.pop(number)
        kept[1:3] = 0, result
        self.results[number] = kept
        answered = [n for n, one in self.results.items() if not one[1]]
        if len(answered) > ANSWERED_MAX:
            del self.results[answered[0]]


class Lock:
    def __init__(self, name):
        self.name = name
        self.slots = 0
        self.holds = []
        self.queue = []
        self.delay = 0
        self.delay_index = 0
        self.delay_clock = 0
        self.delay_slots = 0
        self.last_token = 0
        self.note = '-'
        self.note_user = 0


class Hold:
    pass


class Wait:
    pass


class Result:
    def __init__(self, code, token=0, count=0, tokens=(), text='-', place=0):
        self.code = code
        self.token = token
        self.count = count
        self.tokens = tokens
        self.text = text
        self.place = place
        self.check = None  # For a deadlock: the expected text.

    def line(self):
        tokens = '-'
        token = self.token
        if len(self.tokens) > 1:
            tokens = ','.join(map(str, self.tokens))
            token = 0
        return f'{self.code} {token} {self.count} {tokens} {self.text}'


BAD = Result('badarg')
NIL = Result('nil')
QUARANTINED = Result('quarantined')
NOT_HELD = Result('notheld')
LIMIT = Result('limit')
FORGOTTEN = Result('forgotten')
VOID = Result('ok')


def ok(count=0, token=0):
    return Result('ok', token, count)


class Cycle:
    """The allowed texts of a DEADLOCK: a path along these edges from the
    newcomer to itself; without edges, any words. A repetition is the same."""

    def __init__(self, newcomer, edges):
        self.newcomer = newcomer
        self.edges = edges
        self.told = None

    def is_right(self, text):
        if self.told is not None:
            return text == self.told
        self.told = text
        if self.edges is None:
            return '->' not in text
        # A wait for a request further ahead in a queue goes through those
        # between, but the text may name it directly.
        words = text.split(' -> ')
        is_cut = len(text) >= 390
        if is_cut:
            words = words[:(len(words) - 2) // 2 * 2 + 1]
        names = [words[i] for i in range(0, len(words), 2)]
        hops = zip(names, words[1::2], names[1:])
        return len(words) >= 5 and names[0] == self.newcomer and \
            (is_cut or names[-1] == self.newcomer) and \
            all(self.leads(*hop) for hop in hops)

    def leads(self, at, lock, to):
        seen = set()
        todo = {at}
        while todo:
            seen |= todo
            todo = {e[2] for e in self.edges
                    if e[0] in todo and e[1] == lock} - seen
        return to in seen and to != at


def ranges_of(acked):
    """'2,5-9': all up to 2, and 5 to 9."""
    first, _, more = acked.partition(',')
    ranges = [(1, int(first))]
    if more:
        ranges.append(tuple(map(int, more.split('-'))))
    return ranges


def short(text):
    """The name in a cycle."""
    return '#' * 40 + '...' if text[0] == '*' else text


def asker_text(session, owner):
    return str(session) if owner == '-' else f'{session}/{short(owner)}'


def covers(hold, mode):
    """Does the owner's own hold cover a further request?"""
    return hold.mode == EXCLUSIVE or hold.mode == mode


def hold_at(lock, session, owner):
    for hold in lock.holds:
        if hold.session.id == session and hold.owner == owner:
            return hold
    return None


def wait_at(lock, session, owner):
    for wait in lock.queue:
        if wait.session.id == session and wait.owner == owner:
            return wait
    return None


def holders_allow(lock, mode, slots, more=0):
    """'more': slots that waits ahead will use."""
    if lock.delay and not (mode == SLOTS and lock.delay_slots):
        return False
    if mode == EXCLUSIVE:
        return not lock.holds
    if any(hold.mode != mode for hold in lock.holds):
        return False
    return mode == SHARED or \
        len(lock.holds) + lock.delay_slots + more < slots


def is_free(lock, mode, slots, ahead):
    """Can a request after 'ahead' be granted?"""
    if ahead and (mode == EXCLUSIVE or
                  any(wait.mode != mode for wait in ahead)):
        return False
    return holders_allow(lock, mode, slots, len(ahead))
