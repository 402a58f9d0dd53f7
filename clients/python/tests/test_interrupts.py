# SPDX-License-Identifier: MIT
"""An exception from outside (Ctrl-C, a time-out's signal, a cancellation) may
come at any step of a call. Whatever the step: nothing stays held that nobody
owns, nothing hangs, other sessions do not feel it, and the error is the
caller's own.

HASP_INTERRUPTS=20 does twenty times as much as `make test`."""

import asyncio
import dis
import gc
import logging
import os
import random
import signal
import sys
import threading
import time
import weakref
from functools import partial

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get('HASP_CLIENT', os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(HERE, '..', '..', '..', 'tests', 'cluster'))

from cluster import Cluster, wait_until  # noqa: E402

import hasp  # noqa: E402
import hasp.aio  # noqa: E402

TIMES = float(os.environ.get('HASP_INTERRUPTS', '1'))
# The interrupted code: the client, and what it calls in the caller's thread.
FAULTS_MAX = 2  # Then it goes no further.
RETURN = dis.opmap['RETURN_VALUE']  # No signal is handled there.
TRACED = (os.path.dirname(hasp.__file__), threading.__file__,
          asyncio.__path__[0],
          os.path.join(os.path.dirname(threading.__file__), 'concurrent'))


NUMBERS = iter(range(10 ** 9))


class Stop(BaseException):
    """An exception from outside, like Ctrl-C."""


class Hung(BaseException):
    pass


@pytest.fixture(scope='module')
def cluster():
    with Cluster(1) as nodes:
        nodes.leader()
        yield nodes


@pytest.fixture
def node(cluster):
    with cluster.leader().connect() as client:
        yield client


@pytest.fixture
def nodes(cluster):
    return f'127.0.0.1:{cluster.nodes[0].client_port}'


def holders(node, name):
    return node.map('LOCK.SHOW', name)['holders']


def is_free(node, name):
    shown = node.map('LOCK.SHOW', name)
    return not shown['holders'] and not shown['queue']


# The interpreter calls these when an object dies, whenever that is, and ignores
# what they raise.
CALLED_FOR_DEAD = '__del__', 'forget'


class Steps:
    """Calls 'action', with Stop at its step number 'at': a line, or with 'fine'
    a bytecode, of what runs in this thread. 'count' says how many there were.
    """

    def __init__(self, at, fine=False, traced=TRACED, only=None):
        self.at, self.fine, self.count, self.where = at, fine, 0, ''
        self.traced, self.only = traced, only

    def _trace(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(self.traced) or \
                frame.f_code.co_name in CALLED_FOR_DEAD or \
                self.only not in (None, frame.f_code.co_name):
            return None
        frame.f_trace_opcodes = self.fine
        if event == ('opcode' if self.fine else 'line') and not (
                self.fine and frame.f_code.co_code[frame.f_lasti] == RETURN):
            self.count += 1
            if self.count - 1 == self.at:
                self.where = (f'{os.path.basename(frame.f_code.co_filename)}:'
                              f'{frame.f_lineno} {frame.f_code.co_name}')
                raise Stop(self.where)
        return self._trace

    def __call__(self, action):
        before = sys.gettrace()
        sys.settrace(self._trace)
        try:
            return action()
        finally:
            sys.settrace(before)


def bounded(seconds, action):
    """Raises Hung if it takes longer."""
    def give_up(*_):
        raise Hung

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds, 1)
    try:
        return action()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Room:
    """Two sessions: that of the lock, and a bystander who shares its loop and
    its connection."""

    def __init__(self, nodes, node):
        self.nodes, self.node, self.told = nodes, node, []
        self.session = hasp.Session(nodes, ttl=4, on_event=self.told.append)
        self.other = hasp.Session(nodes, ttl=4, on_event=self.told.append)

    def close(self):
        bounded(20, self.session.close)
        bounded(20, self.other.close)

    def faults(self, lock, must_be_free):
        """The faults after an interrupt."""
        try:
            if bounded(5, lambda: self.other.ask('PING')) != 'PONG':
                return 'no answer'
        except Hung:
            return 'the loop is blocked'
        told = 'not free'
        until = time.monotonic() + 3
        while time.monotonic() < until:
            owned = lock.token is not None and not must_be_free
            free = all(is_free(self.node, name) for name in lock.names)
            if owned != free:
                told = ''
                break
            time.sleep(0.002)
        if told:
            return f'held by nobody, token {lock.token}'
        try:
            if lock.token is not None:
                bounded(5, lock.release)
            if not bounded(5, lambda: lock.acquire(timeout=3)):
                return 'the object is blocked'
            bounded(5, lock.release)
        except Hung:
            return 'the object hangs'
        except hasp.HaspError as error:
            return f'afterwards: {error!r}'
        return '' if not self.told else f'told {self.told}'


# --- what is interrupted: prepares, and gives the action and how it is left ---


def do_acquire(room, lock):
    return lambda: lock.acquire(False)


def do_wait(room, lock):
    held = room.other.lock(*lock.names)
    assert held.acquire()
    threading.Timer(0.01, held.release).start()
    return lambda: lock.acquire(timeout=5)


def do_release(room, lock):
    assert lock.acquire()
    return lock.release


def do_with(room, lock):
    def action():
        with lock:
            pass
    return action


def do_nested(room, lock):
    def action():
        with lock:
            with room.session.lock(*lock.names, owner='me'):
                pass
    return action


def do_guard(room, lock):
    assert lock.acquire()

    def action():
        lock.guard(0.1)
        lock.remaining()
        lock.locked()
    return action


def do_upgrade(room, lock):
    assert lock.acquire()
    return lambda: lock.convert(shared=False)


def do_downgrade(room, lock):
    assert lock.acquire()
    return lambda: lock.convert(shared=True)


STEPS = {  # The lock's options, and whether it must be free afterwards.
    'acquire': (do_acquire, {}, True),
    'wait': (do_wait, {}, True),
    'limited': (do_wait, {'hold': 30}, True),
    'release': (do_release, {}, True),
    'with': (do_with, {}, True),
    'nested': (do_nested, {'owner': 'me'}, True),
    'guard': (do_guard, {}, False),
    'upgrade': (do_upgrade, {'shared': True}, False),
    'downgrade': (do_downgrade, {}, False)}
ACQUIRING = (do_acquire, do_wait)


def interrupt(room, name, at, fine):
    """Returns the step and what was wrong; None if the call has fewer steps."""
    prepare, options, must_be_free = STEPS[name]
    lock = room.session.lock(f'{name}/{next(NUMBERS)}', **options)
    action = prepare(room, lock)
    steps = Steps(at, fine)
    try:
        bounded(10, lambda: steps(action))
        if not steps.where:
            bounded(5, lock.release) if lock.token else None
            return None
        told = 'the interrupt was swallowed'
    except Stop:
        told = ''
    except Hung:
        told = 'hangs'
    except Exception as error:
        told = repr(error)
    if prepare in ACQUIRING and lock.locked():
        told = 'believed after the error'
    return steps.where, told or room.faults(lock, must_be_free)


def interrupt_all(nodes, node, name, fine=False, every=1):
    """At each step in turn; gives how many there were, and the faults."""
    room, at, count, faults = Room(nodes, node), 0, 0, []
    while True:
        found = interrupt(room, name, at, fine)
        if found is None:
            break
        count += 1
        if found[1]:
            faults.append(found)
            if len(faults) == FAULTS_MAX:
                return count, faults
            room = Room(nodes, node)  # The old one may be broken.
        at += every
    room.close()
    return count, faults


@pytest.mark.parametrize('name', STEPS)
def test_at_each_line(nodes, node, name):
    count, faults = interrupt_all(nodes, node, name)
    assert count > 5 and faults == []


@pytest.mark.parametrize('name', STEPS)
def test_at_bytecodes(nodes, node, name):
    every = 1 if TIMES > 1 else 11
    count, faults = interrupt_all(nodes, node, name, True, every)
    assert count > 5 and faults == []


# --- signals, at any time ---------------------------------------------------


def signalled(room, name, delays):
    """As interrupt(), by signals after a delay."""
    begun, done, ended = [], [], []

    def stop(*_):
        if begun and not ended:
            raise Stop

    prepare, options, must_be_free = STEPS[name]
    lock = room.session.lock(f'{name}/{next(NUMBERS)}', **options)
    action = prepare(room, lock)
    before = signal.signal(signal.SIGUSR1, stop)
    timers = [threading.Timer(delay, signal.pthread_kill, (
        threading.get_ident(), signal.SIGUSR1)) for delay in delays]
    for timer in timers:
        timer.start()
    # No signal is handled between these three, which C code calls.
    steps = map(partial.__call__, [
        partial(begun.append, True), partial(action),
        partial(done.append, True)])
    told = ''
    try:
        bounded(10, partial(list, steps))
        ended.append(True)
    except Stop:
        ended.append(True)
    except Hung:
        told = 'hangs'
    for timer in timers:
        timer.join()
    signal.signal(signal.SIGUSR1, before)
    # A second one ends the wait for the end of belief: that comes soon then.
    if prepare in ACQUIRING and lock.locked() and not done and \
            len(delays) == 1:
        told = 'believed after the error'
    return told or room.faults(lock, must_be_free and not (
        done and prepare in ACQUIRING))


def test_at_any_time(nodes, node):
    """The duration of a call is measured, so that most signals come within
    it."""
    room, faults, count = Room(nodes, node), [], 0
    for name in STEPS:
        if name == 'guard':
            continue
        lock = room.session.lock(f'{name}/first', **STEPS[name][1])
        action = STEPS[name][0](room, lock)
        began = time.monotonic()
        action()
        took = time.monotonic() - began
        if lock.token:
            lock.release()
        for at in range(int(40 * TIMES)):
            count += 1
            delay = took * random.random() * 1.2
            # Every other time a second one comes, soon.
            told = signalled(room, name, [
                delay, delay + took * random.random() / 4][:1 + at % 2])
            if told:
                faults.append((name, at, told))
                assert len(faults) < FAULTS_MAX, faults
                room = Room(nodes, node)
    room.close()
    assert count >= 320 * min(TIMES, 1) and faults == []


# --- asyncio: a cancellation at each await ----------------------------------


class Cut:
    """Awaits what 'coroutine' awaits; at wait number 'at' its task is
    cancelled: at once, or with 'late' when the awaited event comes.
    """

    def __init__(self, coroutine, at, late):
        self.coroutine, self.at, self.late = coroutine, at, late
        self.count, self.is_cut = 0, False

    def __await__(self):
        task, steps = asyncio.current_task(), self.coroutine.__await__()
        send, value = steps.send, None
        while True:
            try:
                waits = send(value)
            except StopIteration as end:
                return end.value
            if self.count == self.at:
                self.is_cut = True
                if self.late and waits is not None:
                    waits.add_done_callback(lambda _: task.cancel())
                else:
                    task.cancel()
            self.count += 1
            try:
                value, send = (yield waits), steps.send
            except BaseException as error:
                value, send = error, steps.throw


async def aio_acquire(session, other, lock):
    return lambda: lock.acquire(False)


async def aio_wait(session, other, lock):
    held = other.lock(*lock.names)
    assert await held.acquire()

    async def release():
        await asyncio.sleep(0.005)
        await held.release()

    lock.helper = asyncio.ensure_future(release())
    return lambda: lock.acquire(timeout=5)


async def aio_turn(session, other, lock):
    assert await lock.acquire()

    async def release():
        await asyncio.sleep(0.005)
        await lock.release()

    lock.helper = asyncio.ensure_future(release())
    return lambda: lock.acquire(timeout=5)


async def aio_release(session, other, lock):
    assert await lock.acquire()
    return lock.release


async def aio_with(session, other, lock):
    async def action():
        async with lock:
            await asyncio.sleep(0)
    return action


async def aio_nested(session, other, lock):
    async def action():
        async with lock, session.lock(*lock.names, owner='me'):
            await asyncio.sleep(0)
    return action


async def aio_guarded(session, other, lock):
    own = session.lock(*lock.names, cancel_on_loss=True)

    async def action():
        async with own:
            await asyncio.sleep(0)
    return action


async def aio_convert(session, other, lock):
    assert await lock.acquire()

    async def action():
        await lock.convert(shared=False)
        await lock.convert(shared=True)
    return action


AWAITS = {  # The lock's options, and how many may own it afterwards.
    'acquire': (aio_acquire, {}, 0), 'wait': (aio_wait, {}, 0),
    'limited': (aio_wait, {'hold': 30}, 0), 'turn': (aio_turn, {}, 0),
    'limited turn': (aio_turn, {'hold': 30}, 0),
    'release': (aio_release, {}, 0), 'with': (aio_with, {}, 0),
    'nested': (aio_nested, {'owner': 'me'}, 0),
    'guarded': (aio_guarded, {}, 0),
    'convert': (aio_convert, {'shared': True}, 1)}


async def cancelled(session, other, node, name, number, at, late):
    """None if it has fewer awaits; otherwise what was wrong."""
    prepare, options, owners = AWAITS[name]
    lock = session.lock(f'aio {name}/{number}', **options)
    action = await prepare(session, other, lock)
    told, cut = '', Cut(action(), at, late)
    try:
        await asyncio.wait_for(asyncio.ensure_future(run_cut(cut)), 10)
        if cut.is_cut and cut.count > at + 1 and not late:
            told = 'the cancellation was swallowed'
        owners = 1  # It was done.
    except asyncio.CancelledError:
        pass
    except Exception as error:
        told = repr(error)
    until = time.monotonic() + 3
    await asyncio.gather(*filter(None, [getattr(lock, 'helper', None)]))
    while not told:
        owned = lock.token is not None
        if owned <= owners and owned != is_free(node, lock.name):
            break
        if time.monotonic() > until:
            told = f'held by nobody, token {lock.token}'
        await asyncio.sleep(0.002)
    if owned:
        await lock.release()
    if not told and not await lock.acquire(timeout=3):
        told = 'the object is blocked'
    elif not told:
        await lock.release()
    if await asyncio.wait_for(other.ask('PING'), 5) != 'PONG':
        told = 'no answer'
    return (at, late, told) if cut.is_cut else None


async def run_cut(cut):
    return await cut


@pytest.mark.parametrize('name', AWAITS)
def test_at_each_await(nodes, node, name):
    async def run():
        count, told = 0, []
        async with hasp.aio.Session(nodes, on_event=told.append) as session, \
                hasp.aio.Session(nodes, on_event=told.append) as other:
            for turn in range(int(10 * TIMES)):
                for late in (False, True):
                    for at in range(1000):
                        found = await cancelled(session, other, node, name,
                                                count, at, late)
                        if found is None:
                            break
                        count += 1
                        assert not found[2], found
        assert count >= 10 * TIMES and told == []

    asyncio.run(asyncio.wait_for(run(), 60 * max(TIMES, 1)))


def test_a_session_is_closed_at_each_await(nodes, node):
    async def run():
        for late in (False, True):
            for at in range(1000):
                session = await hasp.aio.Session(nodes, ttl=60).open()
                name = f'closing/{next(NUMBERS)}'
                assert await session.lock(name).acquire(False)
                cut = Cut(session.close(), at, late)
                try:
                    await asyncio.ensure_future(run_cut(cut))
                except asyncio.CancelledError:
                    pass
                until = time.monotonic() + 5
                while not is_free(node, name):
                    assert time.monotonic() < until, (at, late)
                    await asyncio.sleep(0.002)
                if not cut.is_cut:
                    break
            assert at > 0

    asyncio.run(run())


def test_a_session_is_opened_at_each_await(nodes, node):
    """One without end, which no time would end."""
    async def run():
        for late in (False, True):
            for at in range(1000):
                name = f'opening/{next(NUMBERS)}'
                session = hasp.aio.Session(nodes, name=name, durable=True)
                cut = Cut(session.open(), at, late)
                try:
                    await asyncio.ensure_future(run_cut(cut))
                    await session.close()
                except asyncio.CancelledError:
                    pass
                await asyncio.sleep(0.02)
                until = time.monotonic() + 5
                while name in str(node.do('SESSION.LIST')):
                    assert time.monotonic() < until, (at, late)
                    await asyncio.sleep(0.002)
                if not cut.is_cut:
                    break
            assert at > 0

    asyncio.run(run())


# --- the end of a session ---------------------------------------------------


class Passing(hasp.Session):
    def __init__(self, nodes):
        super().__init__(nodes, name='passing', durable=True)


def do_open(room):
    return lambda: hasp.Session(room.nodes, name='passing', ttl=60).close()


def do_close(room):
    session = hasp.Session(room.nodes, name='passing', ttl=60)
    assert session.lock('passing').acquire(False)
    return session.close


def do_block(room):
    def action():
        with Passing(room.nodes) as session:
            session.lock('passing').acquire(False)
    return action


@pytest.mark.parametrize('prepare', [do_open, do_close, do_block])
def test_a_session_is_closed_at_each_line(nodes, node, prepare):
    """Interrupts a session's calls at each line: the session is closed."""
    room, at, faults = Room(nodes, node), 0, []
    while True:
        steps = Steps(at)
        try:
            bounded(10, lambda: steps(prepare(room)))
            break
        except Stop:
            pass
        except Hung:
            faults.append((steps.where, 'hangs'))
        until = time.monotonic() + 5
        while 'passing' in str(node.do('SESSION.LIST')):
            if time.monotonic() > until:
                faults.append((steps.where, 'it is open'))
                break
            time.sleep(0.002)
        at += 1
    assert at > 5 and faults == []
    assert bounded(5, lambda: room.other.ask('PING')) == 'PONG'
    room.close()
    wait_until(lambda: not [one for one in threading.enumerate()
                            if one.name == 'hasp'], 10, 'no loop is left')


def test_between_a_session_and_its_block(nodes, node):
    """Each bytecode of the code that enters the block: nothing owns the result
    of Session() before the block has begun."""
    def block():
        with hasp.Session(nodes, name='gap', durable=True) as session:
            session.lock('gap').acquire(False)

    at, faults = 0, []
    while True:
        steps = Steps(at, fine=True, traced=block.__code__.co_filename,
                      only='block')
        try:
            bounded(10, lambda: steps(block))
            break
        except Stop:
            pass
        until = time.monotonic() + 5
        while 'gap' in str(node.do('SESSION.LIST')):
            if time.monotonic() > until:
                faults.append((steps.where, 'it is open'))
                break
            time.sleep(0.002)
        at += 1
    assert at > 10 and faults == []


def test_a_session_that_the_program_has_lost_is_closed(nodes, node):
    """But not while it holds something, or a lock of it is known."""
    def is_open(name):
        gc.collect()
        return name in str(node.do('SESSION.LIST'))

    hasp.Session(nodes, name='dropped', durable=True)
    wait_until(lambda: not is_open('dropped'), 10, 'it is closed')
    lock = hasp.Session(nodes, name='known', durable=True).lock('known')
    watch = hasp.Session(nodes, name='watches', ttl=1).watch('known')
    held = hasp.Session(nodes, name='holds', ttl=1).lock('holds')
    assert held.acquire(False)
    held = weakref.ref(held)
    time.sleep(1.5)
    assert is_open('watches') and holders(node, 'holds')
    with lock:
        other = lock.session.lock('other')
        assert other.session.ask('PING') == 'PONG'
    del lock
    watch.close()
    del watch
    wait_until(lambda: not is_open('watches'), 10, 'it is closed')
    assert is_open('known') and is_open('holds')
    del other
    held().release()
    wait_until(lambda: not is_open('known'), 10, 'it is closed')
    wait_until(lambda: not is_open('holds'), 10, 'it is closed')


def test_calls_in_other_threads_end_with_the_session(nodes):
    """Each with an error of ours, whenever close() comes."""
    told = []

    def work(session):
        lock = session.lock('ends')
        try:
            while True:
                with lock:
                    lock.guard()
                session.ask('PING')
                session.lock('shared', shared=True).acquire(False)
        except BaseException as error:
            told.append(error)

    count = int(40 * TIMES)
    for _ in range(count):
        session = hasp.Session(nodes)
        threads = [threading.Thread(target=work, args=(session,), daemon=True)
                   for _ in range(3)]
        for one in threads:
            one.start()
        time.sleep(0.01 * random.random())
        bounded(10, session.close)
        for one in threads:
            one.join(10)
            assert not one.is_alive()
    assert len(told) == 3 * count
    assert [one for one in told if not isinstance(one, hasp.HaspError)] == []


def test_the_loop_waits_for_no_mutex_of_the_program(nodes):
    """Ctrl-C can leave one of the logging module locked for ever."""
    mutex, told = threading.Lock(), []

    class Blocked(logging.Handler):
        def emit(self, _):
            with mutex:
                told.append('logged')

    handler, logger = Blocked(), logging.getLogger('hasp')
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        with hasp.Session(nodes, ttl=1, on_event=told.append) as session:
            with mutex:
                lock = session.lock('logs')
                assert lock.acquire(False)
                time.sleep(1.5)
                lock.guard(0.3)
                lock.release()
                assert told == ['logged'] * len(told)
            wait_until(lambda: told, 5, 'it is logged')
    finally:
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)
    assert set(told) == {'logged'}
