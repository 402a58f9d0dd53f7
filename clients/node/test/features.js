// SPDX-License-Identifier: MIT
//
// What the client can do beside a plain lock. Run by
// clients/python/tests/test_clients.py, which starts a cluster.
'use strict';

const assert = require('node:assert');
const { Election, ReadWriteLock, Semaphore, Session } = require('..');

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(condition, what) {
  for (let i = 0; !await condition(); i++) {
    assert.ok(i < 1000, `not in time: ${what}`);
    await sleep(10);
  }
}

async function holds(session, name) {
  return (await session.ask('LOCK.SHOW', name)).queue.length;
}

const tests = {
  async 'a seal is stopped with its acquire()'(session, other) {
    let told;
    let hang = true;
    const lock = session.lock('sealed', { async onGrant(name, token, how) {
      told = { name, token, signal: how.signal };
      return hang && new Promise(() => {});
    } });
    for (const [stop, code] of [[() => lock.cancel(), null],
      [(how) => how.abort(new Error('given up')), 'given up']]) {
      const how = new AbortController();
      told = null;
      const outcome = lock.acquire({ signal: how.signal }).catch(
        (error) => error.message);
      await until(() => told, 'the hook');
      stop(how);
      assert.equal(await outcome, code ?? false);
      assert.ok(told.signal.aborted && told.name === 'sealed');
      await other.lock('sealed').run(() => {}, 0);
    }
    hang = false;
    await lock.run(({ token }) => assert.equal(told.token, token));
    const wrong = session.lock('sealed', { onGrant() {
      throw new RangeError('for the test');
    } });
    await assert.rejects(wrong.run(() => {}), ({ code, cause }) =>
      code === 'SEAL' && cause instanceof RangeError);
  },

  async 'tasks that share a lock exclude each other'(session) {
    const lock = session.lock('shared object');
    let inside = 0;
    const work = async () => {
      for (let i = 0; i < 5; i++) {
        await lock.run(async (held) => {
          assert.equal(held, lock);
          assert.equal(++inside, 1);
          await sleep(5);
          inside--;
        });
      }
    };
    await Promise.all([work(), work(), work()]);
    await lock.acquire();
    assert.ok(lock.locked());
    assert.equal(await lock.acquire(0), false);
    assert.equal(await lock.acquire(30), false);
    const waiting = lock.acquire();
    await sleep(30);
    assert.equal(lock.cancel(), true);
    assert.equal(await waiting, false);
    assert.equal(lock.cancel(), false);
    await lock.release();
    await assert.rejects(lock.release(), { code: 'NOTHELD' });
    const mine = session.lock('again', { owner: 'me' });
    await mine.run(() => mine.run(() => assert.ok(mine.locked())));
    assert.ok(!mine.locked());
    assert.throws(() => session.lock([]), /name/);
  },

  async 'what nothing can mean is refused'(session) {
    const lock = session.lock('misuse');
    for (const how of ['5', null, { timeout: 5 }, AbortSignal.timeout(5)]) {
      await assert.rejects(lock.acquire(how), TypeError);
      await assert.rejects(lock.run(() => {}, how), TypeError);
    }
    await assert.rejects(lock.convert({ shared: false, timeout: 5 }),
      /no option 'timeout'/);
    assert.ok(!lock.locked());
    assert.throws(() => new Semaphore(session, 'none', 0).slot(), /slots: 0/);
    await assert.rejects(session.ask(), /a command/);
    await assert.rejects(session.ask('session.close'), /use close/);
    for (const [wrong, says] of [[{ ttl: 0 }, 'ttl: 0'], [{ ttl: NaN }, 'ttl'],
      [{ ttl: '10000' }, 'ttl'], [{ linger: -1 }, 'linger: -1'],
      [{ timeout: 0 }, 'timeout: 0'], [{ alive: -1 }, 'alive: -1'],
      [{ endpoints: [] }, 'no node'], [{ endpoints: 7420 }, 'no node']]) {
      await assert.rejects(Session.open(wrong), new RegExp(says));
    }
    await assert.rejects(Session.open({ endpoints: ' [::1]:1 ', timeout: 100 }),
      /\[::1\]:1: /);
    const same = await Session.open({ ttl: undefined, linger: undefined });
    assert.ok(same.remaining() > 5000); // It is as if nothing had been said.
    await same.close();
  },

  async 'an aborted wait leaves the queue'(session, other) {
    await session.lock('abort').run(async () => {
      const lock = other.lock('abort');
      const stop = new AbortController();
      const waiting = lock.acquire({ signal: stop.signal });
      await until(async () => await lock.place() === 1, 'it waits');
      stop.abort(new Error('of the program'));
      await assert.rejects(waiting, /of the program/);
      await until(async () => await holds(session, 'abort') === 0, 'it left');
      await assert.rejects(lock.acquire({ signal: stop.signal }),
        /of the program/);
      await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(30) }),
        { name: 'TimeoutError' });
      await assert.rejects(lock.enter(30), { code: 'TIMEDOUT' });
      await assert.rejects(other.lock('abort', { timeout: 30 }).run(() => 0),
        { code: 'TIMEDOUT' });
    });
    await other.lock('abort').run(() => {});
  },

  async 'an owner that waits twice holds twice'(session, other) {
    const [one, two] = [1, 2].map(() => session.lock('twice', { owner: 'me' }));
    const held = other.lock('twice');
    await held.acquire();
    const waits = Promise.all([one.acquire(), two.acquire()]);
    await until(async () => await holds(session, 'twice') === 1, 'it waits');
    assert.equal(await session.lock('twice', { owner: 'me' }).acquire(0), false);
    await sleep(100);
    await held.release();
    assert.deepEqual(await waits, [true, true]);
    await one.release();
    const tries = [1, 2, 3].map(() => session.lock('twice', { owner: 'me' }));
    assert.deepEqual(await Promise.all(tries.map((lock) => lock.acquire(0))),
      [true, true, true]);
    await Promise.all(tries.map((lock) => lock.release()));
    assert.equal(await session.ask('LOCK.CHECK', 'twice', two.token), 1);
    assert.equal(await held.acquire(0), false);
    await two.release();
  },

  async 'a cancelled wait takes nothing from its owner'(session, other) {
    for (let i = 0; i < 20; i++) {
      const [one, two] = [1, 2].map(() => session.lock('taken back',
        { owner: 'me' }));
      const held = other.lock('taken back');
      await held.acquire();
      const first = one.acquire();
      await until(async () => await holds(session, 'taken back') === 1, 'a wait');
      const releasing = held.release();
      await sleep(i / 4);
      one.cancel();
      assert.ok(await two.acquire(5000));
      await releasing;
      await until(() => session.doubts.size === 0, 'all is cleared up');
      assert.equal(await session.ask('LOCK.CHECK', 'taken back', two.token), 1);
      await two.release();
      if (await first) {
        await one.release();
      }
    }
  },

  async 'a grant that comes with the abort is given back'(session, other) {
    for (let i = 0; i < 20; i++) {
      const held = session.lock('race');
      await held.acquire();
      const lock = other.lock('race');
      const stop = new AbortController();
      const waiting = lock.acquire({ signal: stop.signal });
      await until(async () => await lock.place() === 1, 'it waits');
      const releasing = held.release();
      await sleep(i / 4);
      stop.abort(new Error('now'));
      if (await waiting.catch(() => false)) {
        await lock.release();
      }
      await releasing;
      assert.ok(await held.acquire(5000));
      await held.release();
    }
  },

  async 'the signal of a lock that is lost aborts the work'(session) {
    const lock = session.lock('signal', { hold: 300 });
    await assert.rejects(lock.run(() => new Promise((resolve, reject) => {
      lock.signal.addEventListener('abort', () => reject(lock.signal.reason));
    })), { code: 'LOST' });
    const one = await Session.open({ ttl: 60000 });
    const other = one.lock('signal 2');
    await other.acquire();
    const { signal } = other;
    one.refuse('for the test');
    assert.ok(signal.aborted);
    // As a signal for another wait: what it was about is cleared up.
    await assert.rejects(session.lock('signal 3').acquire({ signal }),
      { code: 'LOST' });
    await session.lock('signal 3').run(() => {});
  },

  async 'a loss is reported even if the session is closed at once'() {
    for (let i = 0; i < 5; i++) {
      const session = await Session.open();
      const told = [];
      session.on('lost', (event) => told.push(event.text));
      session.lease.refuse();
      await session.close();
      assert.equal(told.length, 1);
    }
    const session = await Session.open();
    session.on('lost', assert.fail);
    await session.lock('in order').run(() => {});
    await session.close();
    await assert.rejects(session.lock('in order').acquire(),
      { code: 'LOST', message: /closed/ });
  },

  async 'they are disposed of where the engine can'() {
    const name = Symbol.asyncDispose;
    if (name) {
      const session = await Session.open();
      const lock = await session.lock('dispose').enter();
      await lock[name]();
      assert.ok(!lock.locked());
      await session[name]();
      assert.equal(session.state(), 'lost');
    }
  },

  async 'no progress ends the lease'() {
    const session = await Session.open({ ttl: 1000, alive: 500 });
    const lost = new Promise((resolve) => session.on('lost', resolve));
    for (let i = 0; i < 20; i++) {
      session.alive();
      await sleep(100);
    }
    assert.equal(session.state(), 'held');
    assert.match((await lost).text, /no progress/);
    assert.throws(() => session.alive(), { code: 'LOST' });
    await session.close();
  },

  async 'several locks at once'(session, other) {
    await session.lock(['from', 'to']).run(async (both) => {
      assert.deepEqual(Object.keys(both.tokens), ['from', 'to']);
      assert.equal(both.token, both.tokens.from);
      both.guard(1000);
      assert.equal(await other.lock('to').acquire(0), false);
      assert.equal(await other.lock(['free', 'from']).acquire(0), false);
      await other.lock('free').run(() => {});
    });
    const both = other.lock(['to', 'from']);
    await both.acquire();
    assert.equal(await session.ask('LOCK.RELEASEIF', 'to', 'OWNER',
      both.tag.tag, 'TOKEN', both.tokens.to), 1);
    await assert.rejects(both.release(), { code: 'NOTHELD', message: /only 1/ });
    assert.ok(await both.acquire(0));
    await both.release();
  },

  async 'a hold is converted both ways'(session, other) {
    const lock = session.lock('mode');
    const reader = other.lock('mode', { shared: true });
    await assert.rejects(lock.convert({ shared: true }), { code: 'NOTHELD' });
    await lock.acquire();
    const first = lock.token;
    assert.equal(await reader.acquire(0), false);
    assert.ok(await lock.convert({ shared: true }) && lock.shared);
    assert.equal(lock.token, first);
    assert.ok(await reader.acquire(0));
    assert.equal(await lock.convert({ shared: false, wait: 30 }), false);
    const converting = lock.convert({ shared: false });
    await until(async () => await holds(session, 'mode') === 1, 'it waits');
    await assert.rejects(reader.convert({ shared: false }),
      { code: 'DEADLOCK' });
    await reader.release();
    assert.ok(await converting && !lock.shared && lock.token > first);
    await lock.release();
    // Aborted when it waits: what was granted is taken back.
    await lock.acquire();
    await lock.convert({ shared: true });
    await reader.acquire();
    await assert.rejects(lock.convert({ shared: false,
      signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' });
    await until(async () => await holds(session, 'mode') === 0, 'it left');
    assert.ok(lock.shared && lock.locked());
    await lock.release();
    await reader.release();
  },

  async 'readers and writers, and slots'(session, other) {
    const mine = new ReadWriteLock(session, 'rw');
    const theirs = new ReadWriteLock(other, 'rw', { timeout: 30 });
    await mine.read().run(() => theirs.read().run(() =>
      assert.rejects(theirs.write().enter(), { code: 'TIMEDOUT' })));
    await mine.write().run(() =>
      assert.rejects(theirs.read().enter(), { code: 'TIMEDOUT' }));
    const slots = new Semaphore(session, 'slots', 2);
    let inside = 0;
    let most = 0;
    await Promise.all([1, 2, 3, 4, 5].map(() => slots.slot().run(async (slot) => {
      slot.guard(1000);
      most = Math.max(most, ++inside);
      await sleep(30);
      inside--;
    })));
    assert.equal(most, 2);
    await slots.slot().run(() => slots.slot().run(async () =>
      assert.equal(await slots.slot().acquire(0), false)));
  },

  async 'a leader is observed'(session, other) {
    const one = new Election(session, 'lead', { value: 'one' });
    const two = new Election(other, 'lead', { value: 'two' });
    assert.equal(await two.leader(), null);
    const seen = [];
    const observing = (async () => {
      for await (const leader of two.observe()) {
        seen.push(leader?.value ?? null);
        if (leader?.value === 'two') {
          return;
        }
      }
    })();
    await until(() => seen.length === 1, 'nobody leads');
    await one.acquire();
    assert.deepEqual(await two.leader(),
      { value: 'one', token: one.token, client: session.options.name });
    await until(() => seen.at(-1) === 'one', 'it is notified');
    const waiting = two.acquire();
    await one.release();
    await waiting;
    await observing;
    assert.equal(seen[0], null);
    await two.release();
  },

  async 'changes are watched across nodes'(session) {
    const watch = session.watch('w/');
    const seen = [];
    const looking = (async () => {
      for await (const change of watch) {
        seen.push(change);
      }
    })();
    await until(() => watch.line, 'it watches');
    const lock = session.lock('w/1');
    await lock.acquire();
    const { token } = lock;
    await lock.release();
    await session.lock('elsewhere').run(() => {});
    await until(() => seen.length === 2, 'both are notified');
    assert.deepEqual(seen.map((one) => [one.kind, one.name, one.token]),
      [['granted', 'w/1', token], ['released', 'w/1', token]]);
    const { line } = watch;
    line.close();
    await until(() => watch.line !== line, 'it watches again');
    await session.lock('w/2').run(() => {});
    await until(() => seen.length === 5, 'it continues');
    assert.deepEqual(seen.slice(2).map((one) => one.kind),
      ['gap', 'granted', 'released']);
    watch.close();
    await looking;
  },
};

async function main() {
  const session = await Session.open({ ttl: 5000 });
  const other = await Session.open({ ttl: 5000 });
  for (const [name, test] of Object.entries(tests)) {
    await test(session, other).catch((error) => {
      error.message = `${name}: ${error.message}`;
      throw error;
    });
    console.log(name);
  }
  await session.close();
  await other.close();
  console.log('ok'); // Nothing keeps the process: it ends by itself.
}

main().catch((error) => {
  console.log(error.stack);
  process.exit(1);
});
