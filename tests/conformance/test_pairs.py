# SPDX-License-Identifier: MIT
"""All pairs of options, with two lock objects of one owner, in each language.

For each pair the client of a language acquires a lock on a real node by two
objects of one owner, with one option each, and the test does to them what the
options say. The node's own answers show that the pair has met, and the holders;
belief must agree with that: an object whose hold has been taken is not believed
in, and does not release what the owner has been granted since.
"""

import itertools
import os
import sys
import time

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(HERE, '..', 'cluster'))

from cable import Cable  # noqa: E402
from cluster import Cluster  # noqa: E402
from driver import LANGUAGES, Conform, Refused  # noqa: E402
from wire import Wire, eventually, plain  # noqa: E402

OPTIONS = ('SHARED', 'SLOTS', 'WAIT', 'BARGE', 'OWNER re-entry', 'HOLD',
           'DELAY', 'DURABLE', 'several', 'PUSH', 'REQ', 'convert', 'cancel',
           'note', 'linger', 'shared connection', 'RELEASEIF', 'BREAK',
           'blacklist', 'max hold')
IMPOSSIBLE = {
    ('SHARED', 'SLOTS'): 'what an owner has in one mode it cannot have in both',
    ('SLOTS', 'convert'): 'a slot cannot be converted',
    ('DURABLE', 'linger'): 'a session without end has no lease to lower',
    ('linger', 'BREAK'): 'only holds of durable sessions are broken'}
FATES = ('RELEASEIF', 'BREAK', 'blacklist', 'max hold')
LEAST = 1  # So often each pair is to be met, in each language.
PATIENCE_S = 30
MANY = 4200


def possible_pairs():
    """Every name of the table is in some."""
    found = [pair for pair in itertools.combinations(OPTIONS, 2)
             if pair not in IMPOSSIBLE]
    assert set(itertools.chain(*found)) == set(OPTIONS)
    return found


@pytest.fixture(scope='module', name='node')
def node_():
    with Cluster(1) as cluster:
        cluster.leader()
        yield cluster.nodes[0]


class History:
    """Two lock objects, x and y, of one owner."""

    def __init__(self, port, conform, pair, name):
        self.pair, self.name = set(pair), name
        self.conform = conform
        self.cable = Cable([port])
        self.operator = Wire(port)
        self.rival = Wire(port)
        self.rival.do('SESSION.OPEN', 'TTL', 60000)
        self.met = set()
        self.session = None

    def close(self):
        self.operator.close()
        self.rival.close()
        self.cable.close()

    # --- What the node says -----------------------------------------------

    def show(self):
        return plain(self.operator.do('LOCK.SHOW', self.name))

    def hold(self):
        """The owner's, as a map; None."""
        for one in map(plain, self.show()['holders']):
            if one["owner"] == b"me":
                return one
        return None

    def eventually(self, condition):
        eventually(condition, PATIENCE_S)

    # --- What the client does ---------------------------------------------

    def begin(self, what, **words):
        return self.conform.begin('lock', **{
            'as': what, 'names': [self.name], 'owner': 'me', 'wait': 0,
            **self.options(), **words})

    def options(self):
        """The request of both objects: a re-entry has the mode of the hold, and
        its limit."""
        words = {'SHARED': {'shared': True}, 'SLOTS': {'slots': 2},
                 'WAIT': {'wait': 20000}, 'BARGE': {'barge': True},
                 'HOLD': {'hold': 600000}, 'DELAY': {'delay': 20}}
        asked = {}
        for option in self.pair & set(words):
            asked.update(words[option])
            self.met.add(option)
        if 'max hold' in self.pair:
            asked['hold'] = 500
        return asked

    def lock(self, what, **words):
        told = self.conform.end(self.begin(what, **words))
        assert told['held'], (self.pair, told)
        return told['tokens'][self.name]

    def names(self, is_second):
        """Several locks: the second object's, beside those of the first one."""
        if 'several' not in self.pair or not is_second:
            return [self.name]
        self.met.add('several')
        return [self.name, self.name + '/too']

    def believes(self, what):
        try:
            self.conform.do('guard', **{'as': what, 'need': 0})
        except Refused:
            return False
        return True

    def release(self, what):
        """True if it was given back; it may have ended before."""
        try:
            self.conform.do('release', **{'as': what})
        except Refused as error:
            assert error.word in ('NOTHELD', 'LOST', 'EXPIRED', 'NOSESSION',
                                  'MISUSE'), (self.pair, error)
            return False
        return True

    # --- The history ------------------------------------------------------

    def play(self):
        options = {'ttl': 8000}
        if 'linger' in self.pair:
            options['linger'] = 6000
        if 'DURABLE' in self.pair or 'BREAK' in self.pair:
            options = {'durable': True}
        self.met |= self.pair & {'linger', 'DURABLE'}
        is_shared = 'shared connection' in self.pair
        self.conform.do('open', endpoints=self.cable.endpoints,
                        beside=is_shared, **options)
        if is_shared:
            self.eventually(lambda: sum(end.fileno() >= 0 for end in
                                        self.cable.open) == 2)  # One's.
            self.met.add('shared connection')
        try:
            self.first()
            self.lock('y', names=self.names(True))
            self.entered()
            for option in sorted(self.pair - {'blacklist'},
                                 key=OPTIONS.index) + \
                    sorted(self.pair & {'blacklist'}):
                act = {'convert': self.convert, 'note': self.note,
                       'RELEASEIF': self.take, 'BREAK': self.broken,
                       'max hold': self.limit,
                       'blacklist': self.blacklist}.get(option)
                if act:
                    act()
            self.over()
            if is_shared:  # An act on one does not affect the other.
                assert self.conform.do('beside')['state'] == 'held'
        finally:
            try:
                self.conform.do('close')
            except Refused:
                pass  # It is lost.

    def is_refused(self):
        return 'blacklist' in self.met

    def first(self):
        """The first object; with a rival, if it is to wait."""
        waits = self.pair & {'PUSH', 'cancel'}
        if waits:
            self.rival.do('LOCK.ACQUIRE', self.name)
        if 'cancel' in self.pair:
            number = self.begin('x', wait=20000)
            self.eventually(lambda: self.show()['queue'])
            self.conform.do('cancel', **{'as': 'x'})
            assert not self.conform.end(number)['held']
            self.met.add('cancel')
        if 'PUSH' in self.pair:
            number = self.begin('x', wait=20000)
            self.eventually(lambda: self.show()['queue'])
            self.rival.do('LOCK.RELEASE', self.name)
            assert self.conform.end(number)['held']
            self.met.add('PUSH')
        elif 'REQ' in self.pair:
            self.again(waits)
        else:
            if waits:
                self.rival.do('LOCK.RELEASE', self.name)
            # A cancelled wait may be released in the background.
            self.lock('x', wait=20000 if waits else 0)
        if 'REQ' in self.pair and 'REQ' not in self.met:
            self.release('x')
            self.again(False)
        self.session = self.hold()['session']

    def again(self, is_held):
        """A request is lost with its connection, and repeated."""
        if is_held:
            self.rival.do('LOCK.RELEASE', self.name)
        self.cable.is_cut = True
        number = self.begin('x', wait=20000 if 'cancel' in self.pair else 0)
        time.sleep(.05)
        broken = list(self.cable.open)
        self.cable.is_cut = False
        for one in broken:
            try:
                one.shutdown(2)
            except OSError:
                pass  # It has gone.
        assert self.conform.end(number)['held']
        self.met.add('REQ')

    def entered(self):
        if self.hold()['count'] == 2:
            self.met.add('OWNER re-entry')
        self.agree('x', 'y')

    def convert(self):
        what = 'y' if 'several' not in self.pair else 'x'
        is_down = 'SHARED' not in self.pair
        told = self.conform.do('convert', **{'as': what, 'shared': is_down})
        assert told['held'] and self.hold()['mode'] == \
            (b'shared' if is_down else b'exclusive')
        self.met.add('convert')
        self.agree('x', 'y')

    def note(self):
        self.conform.do('note', **{'as': 'x', 'text': 'a note'})
        assert self.show()['note'] == b'a note'
        self.met.add('note')

    def take(self):
        hold = self.hold()
        if not hold:
            hold = {'token': self.lock_again('v')}
        assert self.operator.do(
            'LOCK.RELEASEIF', self.name, 'OWNER', 'me', 'SESSION',
            self.session, 'TOKEN', hold['token']) == 1
        self.met.add('RELEASEIF')

    def broken(self):
        if not self.hold():
            self.lock_again('w')
        self.operator.do('LOCK.BREAK', self.name, 'AFTER', 1, 'SESSION',
                         self.session)
        self.eventually(lambda: not self.hold())
        self.met.add('BREAK')

    def limit(self):
        if not self.hold():
            self.lock_again('u')
        self.eventually(lambda: not self.hold())
        self.met.add('max hold')
        for what in 'xy':
            assert not self.believes(what), (self.pair, what)

    def lock_again(self, what):
        """The next hold of the owner, under a later token; while a delay or a
        limit that ends is on the way it may take a while."""
        return self.lock(what, wait=20000)

    def blacklist(self):
        self.operator.do('BLACKLIST.ADD', 'SESSION', self.session)
        try:
            told = self.conform.end(self.begin('z'))
            # An owner that has it enters it again; others are refused.
            assert not told['held'] or self.hold()
        except Refused as error:
            assert error.word in ('BLACKLISTED', 'LOST', 'EXPIRED',
                                  'NOSESSION'), error
            self.met.add('blacklist')
        self.operator.do('BLACKLIST.REMOVE', 'SESSION', self.session)

    def agree(self, *objects):
        """The one that believes has it."""
        for what in objects:
            if self.believes(what):
                hold = self.hold()
                assert hold and hold['session'] == self.session, \
                    (self.pair, what)

    def over(self):
        """All is given back, and what was granted later is not given back in
        the place of what has ended."""
        was_taken = self.met & {'RELEASEIF', 'BREAK', 'max hold'}
        if was_taken and not self.is_refused():
            token = self.lock_again('z')
            for what in 'xy':
                assert not self.believes(what), (self.pair, what)
                assert not self.release(what), (self.pair, what)
            hold = self.hold()
            assert hold and hold['token'] == token and hold['count'] == 1, \
                (self.pair, hold)
            assert self.release('z')
        else:
            for what in 'xy':
                assert self.release(what) or self.is_refused(), self.pair
                if what == 'x' and not self.is_refused():
                    assert self.hold()['count'] == 1, self.pair
        if not self.is_refused():
            assert not self.hold(), self.pair


def test_all_pairs_of_options(node, language):
    conform = Conform(language)
    counts = {}
    try:
        for number, pair in enumerate(possible_pairs()):
            history = History(node.client_port, conform, pair,
                              f'{language}/{number}')
            try:
                history.play()
            except (AssertionError, Refused) as error:
                raise AssertionError(f'{pair}: {error}') from error
            finally:
                history.close()
            assert set(pair) <= history.met, (pair, history.met)
            counts[pair] = counts.get(pair, 0) + 1
    except BaseException:
        conform.close(kill=True)
        raise
    for pair in itertools.combinations(OPTIONS, 2):
        print(' + '.join(pair), counts.get(pair, 0),
              IMPOSSIBLE.get(pair, ''))
    few = [pair for pair in possible_pairs() if counts.get(pair, 0) < LEAST]
    assert not few, few
    assert conform.close() == 0


def test_more_holds_end_than_notices_are_kept(node, language):
    """A session keeps 64 notices: more than any bound of it (1,024 results,
    4,096 of a connection) end between two heartbeats."""
    conform = Conform(language)
    operator = Wire(node.client_port, timeout=60)
    names = [f'{language}/many/{i:04}' for i in range(MANY)]
    try:
        conform.do('open', endpoints=f'127.0.0.1:{node.client_port}', ttl=40000)
        for part in range(0, MANY, 500):
            asked = [conform.begin('lock', **{'as': one, 'names': [one],
                                              'owner': 'me', 'wait': 0})
                     for one in names[part:part + 500]]
            for number in asked:
                assert conform.end(number)['held']
        first = plain(operator.do('LOCK.SHOW', names[0]))
        session = plain(first['holders'][0])['session']
        kept = names[::100]
        taken = [one for one in names if one not in kept]
        for one in taken:
            operator.send('LOCK.RELEASEIF', one, 'OWNER', 'me', 'SESSION',
                          session)
        assert all(operator.receive() == 1 for _ in taken)

        def is_held(one):
            try:
                conform.do('guard', **{'as': one, 'need': 0})
            except Refused as error:
                assert error.word == 'LOST', error
                return False
            return True

        # One more heartbeat reports it, and the session does not expire
        # meanwhile.
        eventually(lambda: not any(map(is_held, taken)), 60)
        assert all(map(is_held, kept))
        for one in kept:
            conform.do('release', **{'as': one})
        conform.do('close')
    except BaseException:
        conform.close(kill=True)
        raise
    finally:
        operator.close()
    assert conform.close() == 0


@pytest.fixture(params=sorted(LANGUAGES), name='language')
def language_(request):
    if not LANGUAGES[request.param][0]:
        pytest.skip(f'needs {request.param}')
    return request.param
