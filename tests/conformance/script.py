# SPDX-License-Identifier: MIT
"""Two fake nodes that answer as a script says (README.md), and its reader."""

import json
import os
import queue
import random
import re
import shutil
import socket
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'cluster'))

from fake_node import Raw, encode, push  # noqa: E402

from driver import PATIENCE_S, Refused  # noqa: E402
import rules  # noqa: E402

BYTE_S = 0.02
LATE_S = 0.02, 0.15  # Of a variant: drawn for each answer.
VARIANTS = 'late', 'more', 'again', 'torn', 'notices'
WITHOUT_HOOKS = 'more', 'torn'  # Most programs have none.
RANGES_MAX = 16  # ACKED m,RANGE...
CONNECTIONS_MAX = 100  # In a second, of one client to both nodes.
LATEST = 1 << 52  # No state is newer than that of a grant.
LARGEST = (1 << 53) - 1
LONGEST_MS = 1 << 40  # No time of a request is longer.
SEED = int(os.environ.get('SEED', random.randrange(1 << 30)))
FOR_A_SESSION = ('SESSION.KEEP', 'SESSION.CLOSE', 'SESSION.HOLDS',
                 'LOCK.ACQUIRE',
                 'LOCK.RELEASE', 'LOCK.CONVERT', 'LOCK.MACQUIRE')
BY_ITSELF = ('SESSION.OPEN', 'SESSION.ATTACH', 'SESSION.CLOSE')


class Wire:
    """A connection of a node, which answers in the order of the requests."""

    def __init__(self, connection, number=0, variant=''):
        self.variant = variant
        self.connection, self.number = connection, number  # Within its node.
        self.lock = threading.Lock()
        self.open = []  # Requests that are not answered, the oldest first.
        self.is_silent = self.is_known = self.is_strange = False
        self.is_over = threading.Event()

    def send(self, value, pause_s=0):
        step = 1 + len(value) // 60  # The steps of a slow value.
        parts = [value] if not pause_s else \
            [value[i:i + step] for i in range(0, len(value), step)]
        try:
            for part in parts:
                self.connection.sendall(part)
                time.sleep(pause_s)
        except OSError:
            pass  # The client has gone to another node.

    def lose(self):
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The client was quicker.

    def tear(self, value):
        """Half of an answer, and the connection is lost."""
        self.send(value[:len(value) // 2])
        self.lose()

    def answered(self):
        """Sends without waiting for earlier answers."""
        with self.lock:
            while self.open and self.open[0].value and not self.is_silent:
                request = self.open.pop(0)
                if request.is_torn():
                    self.is_silent = True
                    self.tear(request.value[0])
                else:
                    self.send(*request.value)


class Request:
    """One that a node got, and that the script has to answer."""

    def __init__(self, words, wire, bounds=None):
        self.received = time.monotonic_ns()
        self.bounds = bounds or rules.Bounds()
        self.words = [word.decode() for word in words]
        self.wire, self.value = wire, None
        upper = [word.upper() for word in self.words]
        self.number = self.words[upper.index('REQ') + 1] \
            if 'REQ' in upper else None
        self.owner = self.words[upper.index('OWNER') + 1] \
            if 'OWNER' in upper else ''
        self.may_push = 'PUSH' in upper
        self.upper = upper
        self.is_queued = False
        self.torn = None  # Answers of which half was sent, by number.
        self.told = None
        wire.open.append(self)

    def lasting(self, *others):
        """Its words without what may differ when it is repeated."""
        return tuple(re.sub(r' (%s) \S+' % '|'.join(('ACKED', *others)), '',
                            ' '.join(self.words)).split(' '))

    def is_torn(self):
        """Whether this answer is torn: the first one to a number that is asked
        again, with the same words."""
        key = (self.upper[0], self.number)
        if self.torn is None or not self.number or self.is_queued or \
                key in self.torn:
            return False
        self.torn[key] = self.lasting('WAIT'), self.value, self.told
        return True

    def answer(self, how):
        how, _, rest = how.partition(' ') if re.match(
            'lose|never|slow|late', how) else ('', '', how)
        if how == 'lose':
            self.wire.lose()
        elif how == 'never':
            self.wire.is_silent = True
        elif how == 'late':
            pause, _, rest = rest.partition(' ')
            time.sleep(int(pause) / 1000)
        if how in ('lose', 'never'):
            return
        if rest.startswith('-'):
            value = Raw(rest.encode() + b'\r\n')
        else:
            self.told = self.granted(json.loads(rest))
            self.bounds.answers(self.received, self.upper[0], self.told)
            value = encode(self.varied(self.told))
        if self.is_queued:
            told = json.loads(rest)
            granted = told if isinstance(told, list) else [told]
            grants = [self.grant(name, token, True) for name, token
                      in zip(self.names(), granted)]
            self.bounds.answers(self.received, self.upper[0], grants)
            ends = push('lock', 'answer', {
                'session': 7, 'owner': self.owner, 'index': 9, 'wait': 8,
                'tokens': [grant['token'] for grant in grants],
                'grants': grants})
            if self.wire.variant == 'notices':
                self.push_others()
                self.wire.send(ends)  # A push can come twice.
            self.wire.send(ends)
        else:
            self.value = (value, BYTE_S if how == 'slow' else 0)
            self.wire.answered()

    def push_others(self):
        """Pushes that concern no wait of the client: of another owner, of an
        earlier wait of this one, of another session, and of unknown kinds."""
        for told in ({'owner': 'foreign', 'wait': 8}, {'wait': 3},
                     {'session': 9}):
            self.wire.send(push('lock', 'answer', {
                'session': 7, 'owner': self.owner, 'index': 2, 'wait': 8,
                'tokens': [1], 'grants': [dict(
                    self.grant(name, 1, True), hold_left_ms=None)
                    for name in self.names()], **told}))
        self.wire.send(push('lock', 'a_later_kind', {'owner': 1}))
        self.wire.send(push('later', 'answer', [self.owner]))

    def varied(self, value):
        """With members that no client knows yet, if the script is run so."""
        if self.wire.variant != 'more':
            return value
        if isinstance(value, list):
            return [self.varied(one) for one in value]
        if isinstance(value, dict):
            return {'a_later_member': [1, {'a': None}],
                    **{key: self.varied(one) for key, one in value.items()},
                    'another_one': LARGEST}
        return value

    # --- What was granted: a script may say the token alone ---------------

    def names(self):
        is_several = self.upper[0] in ('LOCK.MACQUIRE', 'LOCK.MRELEASE')
        count = int(self.words[1]) if is_several else 1
        first = 2 if is_several else 1
        return self.words[first:first + count]

    def option(self, word, default):
        return int(self.words[self.upper.index(word) + 1]) \
            if word in self.upper else default

    def grant(self, name, told, is_push=False):
        """The map of a grant. A script that gives a map says what differs
        from what was asked for."""
        told = told if isinstance(told, dict) else {'token': told}
        left = self.option('HOLD', None)
        first = told['token']
        if self.upper[0] == 'LOCK.CONVERT':
            first = self.option('TOKEN', first)
        if self.wire.variant == 'more' and not is_push and not left:
            # Limits and delays that were not asked for, as long as can be.
            told = {'hold_left_ms': LONGEST_MS, 'delay_ms': LONGEST_MS,
                    **told}
        return {'lock': name, 'owner': self.owner, 'token': told['token'],
                'first': first, 'mode': 'shared' if 'SHARED' in self.upper
                else 'slots' if 'SLOTS' in self.upper else 'exclusive',
                'count': 1, 'hold_left_ms': 0 if left and is_push else left,
                'delay_ms': self.option('DELAY', 0), 'as_of': LATEST, **told}

    def granted(self, told):
        """An answer as it goes over the wire."""
        if 'FULL' not in self.upper or told is None or not self.upper[0] in (
                'LOCK.ACQUIRE', 'LOCK.MACQUIRE', 'LOCK.CONVERT'):
            return told
        if self.upper[0] != 'LOCK.MACQUIRE':
            return self.grant(self.names()[0], told)
        return [self.grant(*each) for each in zip(self.names(), told)]

    def repeats(self, earlier):
        """Whether this repeats 'earlier', whose connection its client
        closed."""
        return earlier is not None and self.number is not None and \
            self.words == earlier.words and self.wire is not earlier.wire and \
            earlier.wire.is_over.wait(1)

    def answer_later(self):
        """A wait with PUSH holds back nothing that comes after it."""
        if self.may_push:
            self.value = (Raw(b'+QUEUED 8\r\n'), 0)
            self.is_queued = True
            self.wire.answered()


class Nodes:
    def __init__(self, is_about, secret=None, variant=''):
        """'is_about': the commands that the script itself answers. A client
        that has not shown the secret, if there is one, is not known here.
        'variant': late, each answer is late; more, maps have unknown members
        and numbers that were not asked for;
        again, each request with a number is lost at first, with its
        connection; torn, half of its answer comes, and the connection is lost;
        notices, heartbeats report the ends of holds that the client has not,
        and pushes the ends of waits that it has not."""
        self.is_about, self.secret = is_about, secret
        self.variant = variant
        self.lost = set()
        self.torn = {}
        self.bounds = rules.Bounds()
        self.drawn = random.Random(SEED)
        self.later = {}  # [a wait, the answer to it or None], by its words.
        self.wrong = []  # Requests that no client may send.
        self.asked = queue.Queue()
        self.keep = self.hello = ''
        self.kept = threading.Semaphore(0)
        self.always, self.is_set = {}, threading.Lock()
        self.opened = {'ttl_ms': 10000, 'linger_ms': 0}
        self.log = []
        self.wires = set()  # The connections for events.
        self.connections = set()
        self.connected_at = []  # When each connection came, in seconds.
        self.clusters = {}  # The cluster in a node's answer to HELLO.
        self.strange = set()  # Nodes of which that is another cluster.
        self.asked_there = []  # Requests that came all the same.
        self.listeners = [socket.create_server(('127.0.0.1', 0))
                          for _ in range(3)]
        self.endpoints = ['127.0.0.1:%d' % one.getsockname()[1]
                          for one in self.listeners]
        self.folder = tempfile.mkdtemp(prefix='hasp-')
        self.local = []  # The same two nodes, by sockets of this machine.
        for number in range(2):
            path = os.path.join(self.folder, str(number))
            self.local.append('unix:' + path)
            self.listeners.insert(0, socket.socket(socket.AF_UNIX))
            self.listeners[0].bind(path)
            self.listeners[0].listen()
        for number, listener in enumerate(self.listeners[:-1]):
            # The last one says nothing.
            threading.Thread(target=self._accept, args=(listener, number),
                             daemon=True).start()

    def close(self):
        for listener in self.listeners:
            listener.close()
        shutil.rmtree(self.folder)

    def down(self, number):
        """Stops that node."""
        self.listeners[number].shutdown(socket.SHUT_RDWR)
        for wire in list(self.connections):
            if wire.number == number:
                wire.lose()

    def _accept(self, listener, number):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection, number),
                             daemon=True).start()

    def _serve(self, connection, number):
        is_attached = False
        self.connected_at.append(time.monotonic())
        wire = Wire(connection, number, self.variant)
        self.connections.add(wire)
        with connection, connection.makefile('rb') as stream:
            try:
                while True:
                    head = stream.readline()
                    if not head.startswith(b'*'):
                        return
                    words = []
                    for _ in range(int(head[1:])):
                        size = int(stream.readline()[1:])
                        words.append(stream.read(size + 2)[:-2])
                    verb = words[0].upper()
                    is_attached |= verb in (b'SESSION.OPEN', b'SESSION.ATTACH')
                    if is_attached or verb == b'LOCK.WATCH':
                        self.wires.add(wire)
                    self._asked(Request(words, wire, self.bounds),
                                is_attached)
            except OSError:
                pass
            finally:
                self.wires.discard(wire)
                self.connections.discard(wire)
                wire.is_over.set()

    def _asked(self, request, is_attached):
        verb = request.words[0].upper()
        self.log.append(request.words)
        request.wire.is_known |= self.secret in (None, *request.words)
        if self.variant == 'late':
            time.sleep(self.drawn.uniform(*LATE_S))
        if self.variant == 'notices' and is_attached:
            request.push_others()
        if self.variant == 'again' and request.number and \
                (verb, request.number) not in self.lost:
            self.lost.add((verb, request.number))
            request.wire.open.remove(request)
            request.wire.lose()
            return
        self.check_acked(request)
        if self.variant == 'torn':
            request.torn = self.torn
            done = self.torn.get((request.upper[0], request.number))
            if done and done[0] == request.lasting('WAIT'):
                self.torn[request.upper[0], request.number] = ()
                request.torn = None
                request.value = done[1]
                # The client counts from its repetition, as a node does.
                self.bounds.answers(request.received, verb, done[2])
                request.wire.answered()
                return
        if self.waits_again(request):
            return
        if verb == 'HELLO' and self.hello:
            request.answer(self.hello)
        elif verb == 'HELLO':
            request.wire.is_strange = request.wire.number in self.strange
            request.answer(json.dumps({
                'server': 'haspd', 'proto': 3,
                **self.clusters.get(request.wire.number, {})}))
        elif request.wire.is_strange:
            self.asked_there.append(request.words)
        elif not request.wire.is_known:
            request.answer('-NOAUTH say who you are')
        elif verb == 'AUTH':
            request.answer('"OK"')
        elif not is_attached and verb in FOR_A_SESSION and \
                not (verb == 'SESSION.KEEP' and len(request.words) > 2):
            request.answer('-NOSESSION no session is attached')
        elif verb == 'SESSION.KEEP':
            request.answer(self.noticed(kept(self.keep) if self.keep else
                                        json.dumps(dict(
                                            self.opened, trust_ms=0, ended=[],
                                            dropped=0))))
            self.kept.release()
        elif verb not in self.is_about and verb in BY_ITSELF and \
                verb not in self.always:
            request.answer(self._by_itself(verb, request.words))
        else:
            with self.is_set:
                how = self.always.get(verb)
                if how is None:
                    self.asked.put(request)
            if how is not None:
                request.answer(how)

    def waits_again(self, request):
        """Whether this repeats a wait whose connection was lost: it waits again,
        or gets its answer."""
        found = self.later.get(request.lasting())
        if not found or found[0].wire is request.wire or \
                not found[0].wire.is_over.wait(1):
            return False
        found[0] = request
        if found[1] is None:
            request.answer_later()
        else:
            request.answer(found[1])
        return True

    def check_acked(self, request):
        """At most 16 ranges; none has the request's own number."""
        if request.number is None or 'ACKED' not in request.upper:
            return
        text = request.words[request.upper.index('ACKED') + 1]
        parts = [[int(end) for end in part.split('-')]
                 for part in text.split(',')]
        parts[0] = [1, parts[0][0]] if len(parts[0]) == 1 else parts[0]
        if len(parts) > 1 + RANGES_MAX or any(
                one[0] <= int(request.number) <= one[-1] for one in parts):
            self.wrong.append(request.words)

    def noticed(self, text):
        """The answer to a heartbeat, with notices that concern no hold of the
        client, in a script that is run so: of foreign locks, of another owner of
        its locks, and of its earlier holds."""
        if self.variant != 'notices' or not text.startswith('{'):
            return text
        told = json.loads(text)
        if told.get('dropped'):
            return text
        ended = [{'lock': 'foreign', 'owner': 'foreign', 'token': LATEST - 1}]
        for words in self.log:
            upper = [word.upper() for word in words]
            if upper[0] == 'LOCK.ACQUIRE':
                owner = words[upper.index('OWNER') + 1] \
                    if 'OWNER' in upper else ''
                ended.append({'lock': words[1], 'owner': owner, 'token': 2})
                ended.append({'lock': words[1], 'owner': owner + '-other',
                              'token': LATEST - 1})
        for one in ended[:16]:
            told['ended'].insert(0, {
                'first': 1, 'number': 3, 'reason': 'releaseif', **one})
        return json.dumps(told)

    def set_always(self, verb, how):
        """Answers 'verb' with 'how' from now on, also what was asked before:
        a client that asks again does not wait for the script's next line."""
        waiting = []
        with self.is_set:
            if not how:
                del self.always[verb]
                return
            self.always[verb] = how
            while not self.asked.empty():
                waiting.append(self.asked.get())
            for request in waiting:
                if request.words[0].upper() != verb:
                    self.asked.put(request)
        for request in waiting:
            if request.words[0].upper() == verb:
                request.answer(how)

    def _by_itself(self, verb, words):
        if verb != 'SESSION.OPEN':
            return '"OK"' if verb == 'SESSION.ATTACH' else '1'
        upper = [word.upper() for word in words]
        for key in 'TTL', 'LINGER':
            if key in upper:
                self.opened[key.lower() + '_ms'] = \
                    int(words[upper.index(key) + 1])
        return json.dumps({'id': 7, **self.opened, 'trust_ms': 0})


def kept(text):
    """The answer to a heartbeat, with what the script leaves out."""
    if not text.startswith('{'):
        return text
    told = {'dropped': 0, **json.loads(text)}
    told['ended'] = [{'first': one['token'], 'number': one['token'] + 1, **one}
                     for one in told.get('ended', ())]
    return json.dumps(told)


def values(text):
    """[(key, operator, value)] of 'a=1 b<=2 c=["x"]'."""
    found = []
    for key, operator, value in re.findall(r'(\w+)(<=|>=|=)(\S+)', text):
        try:
            found.append((key, operator, json.loads(value)))
        except ValueError:
            found.append((key, operator, value))
    return found


def compares(told, operator, value):
    if operator == '=':
        return told == value
    return told <= value if operator == '<=' else told >= value


# What may follow an event of an acquisition. 'END': the program has ended.
FOLLOWS = {
    'acquire': ('wait', 'granted', 'failed', 'END'),
    'wait': ('granted', 'failed', 'END'),
    'granted': ('released', 'lost', 'END'),
    'failed': ('END',), 'released': ('END',), 'lost': ('END',),
}


def misordered(events):
    """The events of hooks that break the rules of docs/clients.md."""
    last, wrong = {}, []
    for told in events:
        before = last.get(told['id'])
        kinds = FOLLOWS[before['kind']] if before else ('acquire',)
        is_granted = told['kind'] in ('granted', 'released', 'lost')
        if told['kind'] not in kinds or told['elapsed_ns'] < 0 or \
                is_granted != (told['token'] > 0) or \
                (told['kind'] in ('failed', 'lost')) != bool(told['text']) or \
                before and told['name'] != before['name'] or \
                told['kind'] in ('released', 'lost') and \
                told['token'] != before['token']:
            wrong.append((before, told))
        last[told['id']] = told
    return wrong


class Script:
    """Runs one; AssertionError says which line."""

    def __init__(self, path, conform, secret=None, front=None, variant=''):
        """'front' makes proxies of endpoints."""
        with open(path, encoding='utf-8') as file:
            self.lines = file.read().split('\n')
        self.path, self.conform = os.path.basename(path), conform
        about = {line.split()[1].upper() for line in self.lines
                 if line.startswith('node ')}
        self.nodes = Nodes(about, secret, variant)
        self.front = front(self.nodes.endpoints) if front else None
        self.untold = []
        self.commands = {}  # (command, its words, its time) by number.
        self.has_hooks = 'hooks' in conform.do('can')['features'] and \
            variant not in WITHOUT_HOOKS
        self.opens = set()  # The numbers of 'open'.
        self.held = {}  # The acquisitions of each lock object, for the rules.
        self.owner = ''  # The newest that was named.
        self.previous = self.how = self.pending = None

    def run(self):
        try:
            for number, line in enumerate(self.lines, 1):
                line = re.sub(r'(^|\s+)#.*', '', line)
                if not line:
                    continue
                command, _, rest = line.partition(' ')
                try:
                    getattr(self, 'do_' + command)(rest.strip())
                except (AssertionError, Refused) as error:
                    raise AssertionError(
                        f'{self.path}:{number}: {line}: {error}\n'
                        f'SEED={SEED}\nasked: ' +
                        '\n'.join(' '.join(words) for words in
                                  self.nodes.log[-32:])) from None
            assert not self.nodes.wrong, f'{self.path}: {self.nodes.wrong}'
            self.judge_hooks()
            assert not self.nodes.asked_there, \
                f'{self.path}: another cluster was asked {self.nodes.asked_there}'
            self.judge_rate()
        finally:
            self.nodes.close()
            if self.front:
                self.front.close()

    def judge_hooks(self):
        """Each session's events of hooks have an order."""
        told = [[]]
        for one in self.conform.log:
            if one.get('event') == 'hook':
                told[-1].append(one)
            elif one.get('id') in self.opens:
                told.append([])
        wrong = [one for some in told for one in misordered(some)]
        assert not wrong, f'{self.path}: hooks: {wrong}'

    def do_client(self, text):
        command, _, rest = text.partition(' ')
        words = {key: value for key, _, value in values(rest)}
        if command == 'open' and self.has_hooks:
            words.setdefault('hooks', True)  # For judge_hooks().
        if command == 'open':
            nodes = (self.front or self.nodes).endpoints
            nodes = nodes[::-1] if words.pop('silent', False) else nodes[:2]
            if words.pop('local', False):
                nodes = self.nodes.local
            words.setdefault('endpoints', ','.join(nodes))
            self.nodes.bounds.opens()
            self.held = {}
        since = time.monotonic_ns()
        self.untold.append(self.conform.begin(command, **words))
        self.commands[self.untold[-1]] = command, words, since
        if command == 'open':
            self.opens.add(self.untold[-1])

    def judge_rate(self):
        """A client that is refused, or loses each connection, pauses."""
        at = self.nodes.connected_at
        for first, last in zip(at, at[CONNECTIONS_MAX:]):
            assert last - first >= 1, \
                f'{self.path}: over {CONNECTIONS_MAX} connections in a second'

    def judge(self, number, told):
        """Compares what the client believes with the rules."""
        command, words, since = self.commands[number]
        name = words.get('as', '')
        if command == 'release' and self.held.get(name):
            self.held[name].pop()
        elif command in ('lock', 'convert') and told.get('held'):
            until = self.nodes.bounds.hold(since, told['tokens'])
            if command == 'lock':
                self.held.setdefault(name, []).append(until)
            elif self.held.get(name):
                # A downgrade does not restart the limit.
                self.held[name][-1] = max(until, self.held[name][-1]) \
                    if words['shared'] else until
            command, told = 'remaining', self.conform.do(
                'remaining', **{'as': name})
        if command not in ('remaining', 'guard', 'state') or \
                'at_ns' not in told:
            return
        believed = told['at_ns'] + told.get('left_ns', 0)
        until = self.nodes.bounds.session()
        if command != 'state' and self.held.get(name):
            until = min(until, self.held[name][-1])
        assert believed <= until or told.get('left_ns') == 0, \
            f'it believes {believed - until} ns too long'

    def do_returns(self, text):
        number = self.untold.pop()
        try:
            told = self.conform.end(number)
        except Refused as error:
            told = {'error': error.word}
        self.judge(number, told)
        wanted = values(text)
        if 'error' in told:
            assert any(key == 'error' for key, _, _ in wanted), told
        for key, operator, value in wanted:
            assert key in told, told
            if key == 'error':
                assert told[key] in value.split('|'), told
            else:
                assert compares(told[key], operator, value), told

    def next_asked(self):
        try:
            return self.nodes.asked.get(timeout=PATIENCE_S)
        except queue.Empty:
            raise AssertionError('it was not asked') from None

    def do_node(self, text):
        wanted, _, how = text.replace('$owner', self.owner).partition(' -> ')
        wanted, *options = re.split(r' (?=has |lacks )', wanted)
        wanted = wanted.split()
        same = wanted.pop() if wanted[-1] in ('same', 'other') else None
        request = self.next_asked()
        # On a busy machine a client can lose patience with its connection while
        # the answer is under way. As at a node, the repetition has no effect and
        # gets the same answer.
        while request.words[0].upper() != wanted[0] and \
                not re.match('lose|never', self.how or 'never') and \
                request.repeats(self.previous):
            request.answer(self.how)
            request = self.next_asked()
        asked = request.words[:len(wanted)]
        assert [asked[0].upper(), *asked[1:]] == wanted, request.words
        for option in options:
            kind, _, words = option.partition(' ')
            found = f' {words} ' in ' '.join([*request.words, ''])
            assert found == (kind == 'has'), request.words
        if same:
            is_same = request.number == self.previous.number
            assert is_same == (same == 'same'), request.words
        self.previous, self.how = request, how
        self.owner = request.owner or self.owner
        if how == 'later':
            self.pending = self.nodes.later[request.lasting()] = \
                [request, None]
            request.answer_later()
        else:
            request.answer(how)

    def do_cluster(self, text):
        """Sets the nodes' cluster for connections from here on."""
        where, name, *rest = text.split()
        numbers = self.numbers(where)
        words = {'cluster': name * 16 if name != '""' else '', 'former': [
            one * 16 for one in rest[1:] if rest[0] == 'was']}
        self.nodes.clusters.update({one: words for one in numbers})
        self.nodes.strange -= set(numbers)
        if rest == ['strange']:
            self.nodes.strange |= set(numbers)

    def numbers(self, where):
        """'here' is where the newest request was asked."""
        here = self.previous.wire.number if self.previous else None
        return [number for number in range(len(self.nodes.listeners) - 1)
                if where == 'all' or (number == here) == (where == 'here')]

    def do_waits(self, text):
        """Makes N waits, and after each gets a lock."""
        for i in range(int(text)):
            self.do_client(f'lock as=w{i} names=["w{i}"]')
            self.do_node(f'LOCK.ACQUIRE w{i} -> later')
            self.do_client(f'lock as=g{i} names=["g{i}"] wait=0')
            self.do_node(f'LOCK.ACQUIRE g{i} -> {99 + i}')
            self.do_returns('held=true')

    def do_down(self, where):
        for number in self.numbers(where):
            self.nodes.down(number)

    def do_cut(self, _):
        """All connections are lost."""
        for wire in list(self.nodes.connections):
            wire.lose()

    def do_answer(self, how):
        self.pending[1] = how
        self.pending[0].answer(how)

    def do_always(self, text):
        """The answer to a command from here on; 'always LOCK.ACQUIRE' ends
        it."""
        verb, _, how = text.partition(' -> ')
        self.nodes.set_always(verb, how)

    def do_push(self, text):
        """On each connection that is attached, or watches."""
        kind, _, told = text.partition(' ')
        for wire in list(self.nodes.wires):
            wire.send(push('lock', kind, json.loads(told)))

    def do_keep(self, text):
        how = text.partition('-> ')[2]
        self.nodes.keep = '' if how == 'default' else how

    def do_hello(self, text):
        how = text.partition('-> ')[2]
        self.nodes.hello = '' if how == 'default' else how

    def do_kept(self, _):
        while self.nodes.kept.acquire(blocking=False):
            pass
        assert self.nodes.kept.acquire(timeout=PATIENCE_S), 'no heartbeat'

    def do_event(self, text):
        kind, _, rest = text.partition(' ')
        told = self.conform.event(kind)
        for key, operator, value in values(rest):
            assert compares(told[key], operator, value), told

    def do_quiet(self, _):
        assert self.nodes.asked.empty(), self.nodes.asked.get().words

    def do_sleep(self, text):
        time.sleep(int(text) / 1000)
