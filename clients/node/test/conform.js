// SPDX-License-Identifier: MIT
//
// Carries out the commands on stdin: tests/conformance/README.md.
'use strict';

const readline = require('node:readline');
const { HaspError, Session } = require('..');

const FEATURES = ['several', 'convert', 'alive', 'place', 'cancel', 'owner',
  'linger', 'hold', 'freeze', 'note', 'please', 'watch', 'durable',
  'late', 'tie', 'seal', 'hooks', 'throw'];
const OPEN = ['endpoints', 'name', 'ttl', 'linger', 'timeout', 'alive',
  'durable', 'reason', 'tie', 'agent'];
const LOCK = ['shared', 'slots', 'owner', 'value', 'trace', 'hold', 'delay', 'barge'];

let session = null;
let beside; // Shares its connection.
let locks = {};
let unseal; // Ends the hooks that hang.
const unsealed = new Promise((resolve) => {
  unseal = resolve;
});

const say = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
const now = () => Number(process.hrtime.bigint());
/** JSON has no infinity. */
const ns = (ms) => Math.min(Math.floor(1e6 * ms), Number.MAX_SAFE_INTEGER);
const pick = (told, names) => Object.fromEntries(
  names.filter((name) => name in told).map((name) => [name, told[name]]));
const wait = ({ wait: ms = Infinity }) => ms ?? Infinity;

/** A hook for onGrant. */
const hook = (kind) => async (name, token) => {
  if (kind === 'hang') {
    say({ event: 'seal', name, token, text: '' });
    await unsealed;
  } else if (await session.ask('FENCE.ADMIT', name, token) !== 1) {
    throw new Error('stale');
  }
};

/** Hooks that say each event of an acquisition. */
const hooks = (fails) => Object.fromEntries(['acquire', 'wait', 'granted',
  'failed', 'released', 'lost'].map((kind) => [kind, ({ at, elapsed, ...told }) => {
  say({ event: 'hook', ...told, elapsed_ns: ns(elapsed) });
  if (fails) {
    throw new Error('a hook that fails');
  }
}]));

/** The lock object by that name; the first command makes it. */
function lock(told) {
  locks[told.as] ??= session.lock(told.names, { ...pick(told, LOCK),
    ...('seal' in told ? { onGrant: hook(told.seal) } : {}),
    ...('seal_time' in told ? { sealTime: told.seal_time } : {}) });
  return locks[told.as];
}

const commands = {
  can: () => ({ features: FEATURES }),

  async open(told) {
    if (told.beside) {
      beside = await Session.open(pick(told, OPEN));
    }
    session = await Session.open({ ...pick(told, OPEN),
      ...('hooks' in told ? { hooks: hooks(told.hooks === 'fail') } : {}) });
    locks = {};
    for (const kind of ['jeopardy', 'safe', 'lost', 'please', 'notice']) {
      session.on(kind, (event) => say({ event: kind, ...event }));
    }
    return {};
  },

  async close() {
    await session.close();
    await beside?.close();
    beside = undefined;
    return {};
  },

  beside: () => ({ state: beside.state() }),

  state() {
    const at = now();
    return { left_ns: ns(session.remaining()),
      state: session.state(), at_ns: at };
  },

  async lock(told) {
    const held = await lock(told).acquire(wait(told));
    return { held, tokens: lock(told).tokens };
  },

  unseal() {
    unseal();
    return {};
  },

  async release(told) {
    await lock(told).release();
    return {};
  },

  guard(told) {
    const at = now();
    lock(told).guard(told.need ?? 0);
    return { at_ns: at };
  },

  remaining(told) {
    const at = now();
    return { left_ns: ns(lock(told).remaining()), at_ns: at };
  },

  async convert(told) {
    const held = await lock(told).convert(
      { shared: told.shared, wait: wait(told) });
    return { held, tokens: lock(told).tokens };
  },

  cancel(told) {
    lock(told).cancel();
    return {};
  },

  place: async (told) => ({ place: await lock(told).place() }),

  async note(told) {
    await lock(told).note(told.text);
    return {};
  },

  watch({ prefix }) {
    (async () => {
      for await (const { kind, ...change } of session.watch(prefix)) {
        say({ event: kind, ...change });
      }
    })().catch(() => {}); // The session is lost.
    return {};
  },

  tied: () => ({ tied: session.isTied() }),

  async credentials({ tied }) {
    if (!tied) {
      await session.untie();
    }
    return { session: Number(session.id), secret: session.secret };
  },

  alive() {
    session.alive();
    return {};
  },

  ask: async ({ words }) => ({ reply: await session.ask(...words) }),

  freeze({ ms }) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
    return {};
  },
};

readline.createInterface({ input: process.stdin }).on('line', async (line) => {
  const told = JSON.parse(line);
  try {
    say({ id: told.id, ok: await commands[told.do](told) });
  } catch (error) {
    const isOurs = error instanceof HaspError || error instanceof TypeError ||
      error instanceof RangeError;
    say({ id: told.id, text: isOurs ? error.message : error.stack,
      error: error instanceof HaspError ? error.code
        : isOurs ? 'MISUSE' : 'BROKEN' });
  }
}).on('close', () => process.exit(0));
