// SPDX-License-Identifier: MIT
//
// Calls that are aborted at any tick leave nothing open or held. Run by
// clients/python/tests/test_node_links.py, which starts a cluster.
// HASP_INTERRUPTS is how many cycles each of 12 tasks makes: 200 unless it says
// more.
'use strict';

const assert = require('node:assert');
const { HaspError, Session } = require('..');
const { sleep } = require('./nodes');

const COUNT = Number(process.env.HASP_INTERRUPTS ?? 200);
const MINUTE = 60000;
const MOST = 20; // That are wrong; then it ends.
const REASON = new Error('aborted by the test');
const drawn = (below) => Math.floor(Math.random() * below);
const wrong = [];
let mayEnd = false; // Sessions are closed meanwhile.
let calls = 0;
let aborted = 0;

/** A signal that is aborted after a number of microtasks, turns of the event
 * loop or milliseconds, or from the start. */
function interrupter() {
  const controller = new AbortController();
  const abort = () => controller.abort(REASON);
  let left = drawn(20);
  const kind = drawn(4);
  let isOver = false;
  const step = () => {
    if (isOver) {
      return;
    }
    if (left-- <= 0) {
      abort();
    } else if (kind === 1) {
      queueMicrotask(step);
    } else {
      setImmediate(step);
    }
  };
  const timer = kind === 3 ? setTimeout(abort, drawn(8)) : null;
  if (kind === 0) {
    left = 1000; // Never, if it does not take long.
  }
  if (kind < 3) {
    step();
  }
  return { signal: controller.signal, end: () => {
    clearTimeout(timer);
    isOver = true;
  } };
}

/** The result of a call, which ends when it is aborted; undefined: it failed. */
async function call(what, isLong, action) {
  const { signal, end } = interrupter();
  calls++;
  let result;
  let late;
  const hangs = new Promise((resolve) => {
    const watch = () => {
      late = setTimeout(() => {
        wrong.push(`${what} continues after its abort`);
        resolve();
      }, 3000);
    };
    if (isLong || !signal.aborted) {
      signal.addEventListener('abort', watch);
    }
    if (signal.aborted) {
      watch();
    }
  });
  const running = action(signal).then((value) => {
    result = value;
  }, (error) => {
    if (error === REASON) {
      aborted++;
    } else if (!(error instanceof HaspError) ||
        (error.code === 'LOST' && !mayEnd) ||
        /another mode/.test(error.message)) {
      wrong.push(`${what}: ${error.stack}`);
    }
  });
  await Promise.race([running, hangs]);
  end();
  await running;
  clearTimeout(late);
  return result;
}

async function cycle(lock) {
  const is = await call('acquire', true, (signal) => lock.acquire(
    drawn(3) ? { signal } : { signal, wait: drawn(50) }));
  if (Boolean(is) !== (lock.token !== null)) {
    wrong.push(`acquire gave ${is}, its token is ${lock.token}`);
  }
  if (!is) {
    return;
  }
  if (lock.shared && lock.names.length === 1) {
    const isUpgraded = await call('convert', true, (signal) => lock.convert(
      { shared: false, signal, wait: drawn(2) ? Infinity : drawn(50) }));
    if (Boolean(isUpgraded) === lock.shared) {
      wrong.push(`convert gave ${isUpgraded}, shared: ${lock.shared}`);
    }
  }
  if (drawn(4) === 0) { // While a conversion waits, too.
    lock.convert({ shared: true }).catch(() => {});
  }
  await call('release', false, () => lock.release());
  if (lock.token !== null) {
    wrong.push('not given back');
  }
}

/** Whatever becomes of run(), its work is done under the lock, or not at all. */
async function runCycle(lock) {
  let inside = 0;
  await call('run', true, (signal) => lock.run(async () => {
    inside++;
    assert.ok(lock.locked());
    await null;
  }, { signal }));
  if (inside > 1 || (lock.token !== null && !mayEnd)) {
    wrong.push(`run: ${inside}, ${lock.token}`);
  }
}

async function free(watcher, names) {
  for (const name of names) {
    let told;
    for (let i = 0; i < 400; i++) {
      told = await watcher.ask('LOCK.SHOW', name);
      if (!told.holders.length && !told.queue.length) {
        told = null;
        break;
      }
      await sleep(20);
    }
    if (told) {
      wrong.push(`no owner of ${name}: ${JSON.stringify(told)}`);
    }
  }
}

const KINDS = [{}, { owner: 'me' }, { hold: MINUTE }, { shared: true },
  { shared: true, owner: 'me' }, { slots: 2 }];

async function locks(watcher) {
  const stands = await Session.open({ ttl: MINUTE });
  stands.on('lost', ({ text }) => wrong.push(`a bystander is lost: ${text}`));
  const held = stands.lock('stands');
  await held.acquire();
  const sessions = [await Session.open({ ttl: MINUTE }),
    await Session.open({ ttl: MINUTE }),
    await Session.open({ durable: true, reason: 'a test' })];
  const names = [];
  const task = async (i) => {
    const kind = { ...KINDS[i % 6] };
    const mine = [`step${i % 6}`, ...(i % 4 === 1 ? [`other${i % 6}`] : [])];
    names.push(...mine);
    if (kind.owner) {
      kind.owner += i;
    }
    const lock = sessions[i % 3].lock(mine, kind);
    for (let j = 0; j < COUNT && wrong.length < MOST; j++) {
      await (j % 5 ? cycle(lock) : runCycle(lock));
    }
    const last = await Promise.race([lock.acquire().catch((error) => error),
      sleep(20000)]);
    if (last !== true) {
      wrong.push(`it never serves again: ${lock.name}: ${last}`);
    } else {
      await lock.release();
    }
  };
  await Promise.all(Array.from({ length: 12 }, (_, i) => task(i)));
  await free(watcher, names);
  held.guard(0);
  for (const session of [...sessions, stands]) {
    await session.close();
  }
}

/** close() is called at each tick of the session's tasks; all of them end. */
async function closes(watcher) {
  const task = async (i) => {
    const name = `close${i}`;
    for (let j = 0; j < COUNT / 10 && wrong.length < MOST; j++) {
      const session = await Session.open({ ttl: MINUTE,
        ...(i % 3 ? {} : { durable: true }), ownConnection: i % 2 === 0 });
      const lock = session.lock(name);
      const doing = Promise.allSettled([cycle(lock), lock.acquire(),
        lock.acquire(), session.lock(name).acquire(), runCycle(lock)]
        .map((one) => one.catch((error) => {
          if (error.code !== 'LOST') {
            wrong.push(`closed meanwhile: ${error.stack}`);
          }
        })));
      await sleep(drawn(15));
      await session.close();
      if (await Promise.race([doing, sleep(5000)]) === undefined) {
        wrong.push('a call of a closed session never ends');
      }
      await free(watcher, [name]);
    }
  };
  await Promise.all(Array.from({ length: 8 }, (_, i) => task(i)));
}

/** Breaks the connections of all sessions now and then. */
function breaking() {
  const links = new Set();
  const { open } = Session;
  Session.open = async function opened(...how) {
    const session = await open.apply(this, how);
    links.add(session.link);
    return session;
  };
  const timer = setInterval(() => {
    const all = [...links];
    all[drawn(all.length)]?.line?.close();
  }, 40);
  return () => {
    clearInterval(timer);
    Session.open = open;
  };
}

function tell(what) {
  console.log(`${what}: ${calls} calls, ${aborted} aborted, ` +
    `${wrong.length} wrong`);
  assert.deepEqual(wrong.slice(0, 10), []);
}

async function main() {
  const watcher = await Session.open({ ttl: MINUTE, ownConnection: true });
  await locks(watcher);
  tell('locks');
  const end = breaking();
  await locks(watcher);
  tell('locks, where connections break');
  end();
  mayEnd = true;
  await closes(watcher);
  tell('closed');
  await watcher.close();
  console.log('ok');
}

main().then(() => process.exit(0), (error) => {
  console.log(error.stack);
  process.exit(1);
});
