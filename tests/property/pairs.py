# SPDX-License-Identifier: MIT
"""All pairs of options, with two lock objects of one owner.

The life of a (session, owner, lock) begins with its first ACQUIRE, and is over
IDLE entries after it neither holds the lock nor waits for it: an ended or
cancelled hold may still matter when the owner comes back. Each life with two or
more requests for the lock counts for each pair of the options that occurred in
it. An option of a request that was refused as wrong does not count.
"""

from collections import Counter
from itertools import combinations

from state import SHARED, SLOTS, hold_at, wait_at

OPTIONS = ('SHARED', 'SLOTS', 'WAIT', 'BARGE', 'OWNER re-entry', 'HOLD',
           'DELAY', 'DURABLE', 'several', 'PUSH', 'REQ', 'convert', 'cancel',
           'note', 'linger', 'RELEASEIF', 'BREAK', 'blacklist', 'max hold')
# Options that the state machine does not know.
ABSENT = {'shared connection': 'the state does not know connections'}
IMPOSSIBLE = {
    ('DURABLE', 'linger'): 'a session without end has no lease to lower',
    ('linger', 'BREAK'): 'only holds of durable sessions are broken'}
# How a hold, or a wait, has ended: by the last word of the effect.
ENDS = {'releaseif': 'RELEASEIF', 'broken': 'BREAK', 'max-hold': 'max hold',
        'blacklisted': 'blacklist', 'cancelled': 'cancel'}
IDLE = 15
ANSWERED = ('ok', 'nil', 'queued', 'deadlock')


class Life:
    def __init__(self, session):
        self.met = set()
        self.objects = 0
        self.used = 0  # Newest entry with a hold or wait.
        if session.durable:
            self.met.add('DURABLE')
        elif session.linger:
            self.met.add('linger')


class Pairs:
    """The options in the script of a generator, line by line."""

    def __init__(self, model):
        self.model = model
        self.lives = {}
        self.numbers = set()  # (session, REQ) of requests.
        self.count = Counter()
        self.at = 0

    def see(self, line, told):
        """An entry, and the model's output."""
        words = line.split()
        if not words[0].isdigit() or words[1] in ('skip', 'change'):
            return
        self.at += 1
        operation, words = words[1].partition(':')[0], words[2:]
        result = told[1].split()
        method = getattr(self, 'see_' + operation, None)
        if method and result[1] in ANSWERED:
            method(words, result)
        for one in told[2:]:
            if isinstance(one, str):
                self.see_effect(one.split())
        if operation in ('bladd', 'expire', 'blover'):
            self.see_blacklist()
        if self.at % IDLE == 0:
            self.sweep()

    def life(self, session, owner, name):
        key = int(session), owner, name
        if key not in self.lives and key[0] in self.model.sessions:
            self.lives[key] = Life(self.model.sessions[key[0]])
        life = self.lives.get(key)
        if life:
            life.used = self.at
        return life

    def meet(self, session, owner, name, option):
        life = self.lives.get((int(session), owner, name))
        if life:
            life.met.add(option)

    def see_acq(self, words, result):
        session, owner, req, mode = *words[:3], int(words[4])
        is_again = (session, req) in self.numbers and req != '0'
        self.numbers.add((session, req))
        for name in words[12:]:
            life = self.life(session, owner, name)
            if not life:
                continue
            life.objects += not is_again
            lock = self.model.locks.get(name)
            hold = lock and hold_at(lock, int(session), owner)
            is_entered = result[1] == 'ok' and hold and hold.count > 1
            life.met.update(option for option, is_met in (
                ('SHARED', mode == SHARED), ('SLOTS', mode == SLOTS),
                ('WAIT', words[6] == '1'), ('BARGE', words[8] == '1'),
                ('DELAY', words[10] != '0'), ('HOLD', words[11] != '0'),
                ('several', len(words) > 13), ('REQ', is_again),
                ('OWNER re-entry', is_entered)) if is_met)

    def see_conv(self, words, _):
        self.see_again(words)
        self.meet(*words[:2], words[4], 'convert')

    def see_rel(self, words, _):
        self.see_again(words)

    def see_note(self, words, _):
        self.see_again(words)
        self.meet(*words[:2], words[4], 'note')

    def see_again(self, words):
        """A hold's, under a number that was used."""
        session, owner, req = words[:3]
        if (session, req) in self.numbers and req != '0':
            for name in words[4:]:
                self.meet(session, owner, name, 'REQ')
        self.numbers.add((session, req))

    def see_effect(self, words):
        if words[0] == 'w' or words[0] == 'G' and words[5] != '0':
            # A wait has ended, which a push reports.
            self.meet(*words[1:4], 'PUSH')
        elif words[0] in ('R', 'X', 'N') and words[-1] in ENDS:
            self.meet(*words[1:4], ENDS[words[-1]])

    def see_blacklist(self):
        for key, life in self.lives.items():
            session = self.model.sessions.get(key[0])
            if session and session.listed:
                life.met.add('blacklist')

    def sweep(self, is_all=False):
        for key, life in list(self.lives.items()):
            lock = self.model.locks.get(key[2])
            if lock and (hold_at(lock, *key[:2]) or wait_at(lock, *key[:2])):
                life.used = self.at
            if is_all or self.at - life.used > IDLE:
                del self.lives[key]
                if life.objects > 1:
                    self.count.update(life.met)
                    self.count.update(combinations(
                        sorted(life.met, key=OPTIONS.index), 2))


def report(count, least):
    """Prints the table. Returns how many pairs are below 'least', or occurred
    although they are impossible."""
    wrong = 0
    pairs = list(combinations(OPTIONS, 2))
    for one in (*OPTIONS, *pairs):
        why = IMPOSSIBLE.get(one)
        is_wrong = count[one] > 0 if why else count[one] < least
        wrong += is_wrong
        name = one if isinstance(one, str) else ' + '.join(one)
        print(f'options\t{name}\t{count[one]}' +
              (f'\timpossible: {why}' if why else '') +
              '\tWRONG' * is_wrong)
    for name, why in ABSENT.items():
        print(f'options\t{name}\tabsent: {why}')
    possible = [count[one] for one in pairs if one not in IMPOSSIBLE]
    print(f'options: {len(possible)} pairs, each in {min(possible)} lives of '
          f'two lock objects or more, {least} are wanted; {wrong} are wrong')
    return wrong
