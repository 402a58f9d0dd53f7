# SPDX-License-Identifier: MIT
"""Carries out the commands on stdin: tests/conformance/README.md."""

import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))

import hasp  # noqa: E402

FEATURES = ['several', 'convert', 'alive', 'place', 'cancel', 'owner', 'linger',
            'hold', 'note', 'please', 'watch', 'durable', 'late',
            'tie', 'seal', 'hooks', 'throw']
SESSION_SECONDS = ('ttl', 'linger', 'timeout', 'alive')
LOCK_SECONDS = ('hold', 'delay')
OPTIONS = ('shared', 'slots', 'owner', 'value', 'trace', 'hold', 'delay', 'barge')
WORDS = {hasp.LeaseShort: 'SHORT', hasp.LeaseLost: 'LOST', hasp.NotHeld: 'NOTHELD',
         hasp.Unreachable: 'UNREACHABLE',
         hasp.SealFailed: 'SEAL', hasp.Unknown: 'UNKNOWN'}


def in_ns(seconds):
    """JSON has no infinity."""
    return int(min(seconds * 1e9, 2 ** 63 - 1))


class Said(hasp.Hooks):
    """Says each event of an acquisition."""

    def __init__(self, say, fails):
        self.say, self.fails = say, fails

    def hook(self, event):
        self.say(event='hook', kind=event.kind, id=event.id, name=event.name,
                 token=event.token, trace=event.trace, text=event.text,
                 elapsed_ns=in_ns(event.elapsed), skipped=event.skipped)
        if self.fails:
            raise ValueError('a hook that fails')

    acquire = wait = granted = failed = released = lost = hook


class Program:
    def __init__(self):
        self.session = None
        self.beside = None  # It shares the connection.
        self.locks = {}
        self.unsealed = threading.Event()  # Ends the hooks that hang.
        self.output = threading.Lock()

    def say(self, **told):
        with self.output:
            print(json.dumps(told), flush=True)

    def on_event(self, event):
        self.say(event=event.kind, name=event.name, token=event.token, text=event.text)

    def lock(self, told):
        """The lock object by that name; the first command makes it."""
        if told['as'] not in self.locks:
            options = {key: told[key] for key in OPTIONS if key in told}
            for key in LOCK_SECONDS:
                options[key] = options.get(key, 0) / 1000
            if 'seal' in told:
                options['on_grant'] = self.seal(told['seal'])
            if 'seal_time' in told:
                options['seal_time'] = told['seal_time'] / 1000
            self.locks[told['as']] = self.session.lock(*told['names'], **options)
        return self.locks[told['as']]

    def seal(self, kind):
        """A hook for on_grant."""
        def hook(name, token):
            if kind == 'hang':
                self.say(event='seal', name=name, token=token, text='')
                self.unsealed.wait(60)
            elif self.session.ask('FENCE.ADMIT', name, token) != 1:
                raise ValueError('stale')

        return hook

    def do_unseal(self, _):
        self.unsealed.set()
        return {}

    def do_can(self, _):
        return {'features': FEATURES}

    def do_open(self, told):
        options = {key: told[key] / 1000 for key in SESSION_SECONDS
                   if key in told}
        options.update({key: told[key] for key in
                        ('durable', 'reason', 'tie', 'agent') if key in told})
        if 'hooks' in told:
            options['hooks'] = Said(self.say, told['hooks'] == 'fail')
        if told.get('beside'):
            self.beside = hasp.Session(told['endpoints'],
                                       **{**options, 'hooks': None})
        self.session = hasp.Session(told['endpoints'], name=told.get('name', ''),
                                    on_event=self.on_event, **options)
        self.locks = {}
        return {}

    def do_close(self, _):
        try:
            self.session.close()
        finally:
            if self.beside:
                self.beside.close()
                self.beside = None
        return {}

    def do_beside(self, _):
        return {'state': self.beside.state().value}

    def do_state(self, _):
        now = time.monotonic_ns()
        left = self.session.remaining()
        return {'state': self.session.state().value, 'left_ns': in_ns(left),
                'at_ns': now}

    def do_lock(self, told):
        lock = self.lock(told)
        wait = told.get('wait')
        held = lock.acquire(False) if wait == 0 else \
            lock.acquire(timeout=-1 if wait is None else wait / 1000)
        return {'held': held, 'tokens': lock.tokens}

    def do_release(self, told):
        self.lock(told).release()
        return {}

    def do_guard(self, told):
        now = time.monotonic_ns()
        self.lock(told).guard(told.get('need', 0) / 1000)
        return {'at_ns': now}

    def do_remaining(self, told):
        now = time.monotonic_ns()
        return {'left_ns': in_ns(self.lock(told).remaining()), 'at_ns': now}

    def do_convert(self, told):
        wait = told.get('wait')
        lock = self.lock(told)
        held = lock.convert(told['shared'], wait != 0,
                            -1 if not wait else wait / 1000)
        return {'held': held, 'tokens': lock.tokens}

    def do_cancel(self, told):
        self.lock(told).cancel()
        return {}

    def do_place(self, told):
        return {'place': self.lock(told).place()}

    def do_note(self, told):
        self.lock(told).note(told['text'])
        return {}

    def do_watch(self, told):
        def watch():
            for change in self.session.watch(told['prefix']):
                self.on_event(change)

        threading.Thread(target=watch, daemon=True).start()
        return {}

    def do_tied(self, _):
        return {'tied': self.session.is_tied()}

    def do_credentials(self, told):
        if not told.get('tied'):
            self.session.untie()
        return {'session': int(self.session.id), 'secret': self.session.secret}

    def do_alive(self, _):
        self.session.alive()
        return {}

    def do_ask(self, told):
        return {'reply': self.session.ask(*told['words'])}

    def answer(self, told):
        try:
            done = getattr(self, 'do_' + told['do'])(told)
            self.say(id=told['id'], ok=done)
        except (hasp.HaspError, TypeError, ValueError) as error:
            word = getattr(error, 'code', None) or next(
                (word for kind, word in WORDS.items() if isinstance(error, kind)),
                'MISUSE')
            self.say(id=told['id'], error=word, text=str(error))


program = Program()
for line in sys.stdin:
    threading.Thread(target=program.answer, args=[json.loads(line)],
                     daemon=True).start()
