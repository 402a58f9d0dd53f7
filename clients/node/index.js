// SPDX-License-Identifier: MIT
//
// A client of the hasp lock service; no dependencies.
//
//   const session = await Session.open({ name: 'billing' });
//   const lock = session.lock('orders');
//   await lock.acquire();
//   try {
//     lock.guard(2000);                  // may a step of 2 s begin?
//     await store.write(row, lock.token);
//   } finally {
//     await lock.release();
//   }
'use strict';

const { EventEmitter } = require('node:events');
const path = require('node:path');
const { Connection, ReplyError } = require('./lib/connection');
const { Lease, readClock } = require('./lib/lease');

const DEFAULT_ENDPOINTS = '127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440';
const CONNECT_MS = 1000;
const AGAIN = ['NOLEADER', 'BUSY', 'MOVED', 'UNKNOWN'];
const ENDED = ['EXPIRED', 'NOSESSION'];

/** 'code' says what can be done about it: UNREACHABLE (nothing was done), UNKNOWN
 * (the outcome is not known), LOST (the lease cannot be trusted), or the server's
 * own word: NOTHELD, LIMIT, DEADLOCK, BLACKLISTED, BADARG ... */
class HaspError extends Error {
  constructor(code, text) {
    super(text);
    this.name = 'HaspError';
    this.code = code;
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const between = (low, high) => low + Math.random() * (high - low);

function parseEndpoints(endpoints) {
  const list = Array.isArray(endpoints) ? endpoints :
    (endpoints ?? process.env.HASP_ENDPOINTS ?? DEFAULT_ENDPOINTS).split(',');
  return list.map((part) => {
    const at = part.lastIndexOf(':');
    return { host: part.slice(0, at).trim().replace(/^\[|\]$/g, ''),
      port: Number(part.slice(at + 1)) };
  });
}

/** A lease-backed identity that owns locks. Emits 'jeopardy', 'safe', 'lost' and
 * 'please' (with the message). Times are in milliseconds. */
class Session extends EventEmitter {
  static async open(options = {}) {
    const session = new Session(options);
    const words = ['SESSION.OPEN', 'TTL', session.options.ttl,
      'NAME', session.options.name];
    if (session.options.linger) {
      words.push('LINGER', session.options.linger);
    }
    const { reply, sent } = await session.request(words);
    session.drop(); // Connections from before it do not act for it.
    session.id = String(reply.id);
    session.secret = reply.secret;
    session.times = [reply.ttl_ms, reply.linger_ms ?? 0];
    session.lease.answered(sent, ...session.times);
    session.schedule(session.lease.beatInterval());
    return session;
  }

  constructor(options) {
    super();
    this.options = { ttl: 10000, linger: 0, timeout: 10000,
      name: `${path.basename(process.argv[1] ?? 'node')}:${process.pid}`,
      ...options };
    this.endpoints = parseEndpoints(this.options.endpoints);
    this.lease = new Lease();
    this.idle = [];
    this.owners = 0;
    this.doubts = new Set(); // Locks whose last outcome is not known.
    this.turn = 0;
    this.told = 'held';
  }

  lock(name, options = {}) {
    return new Lock(this, name, options);
  }

  state() {
    return this.lease.state();
  }

  /** Milliseconds for which the session's holds may be trusted. */
  remaining() {
    return this.lease.remaining();
  }

  /** Ends the session; its locks go to the next in line. */
  async close() {
    clearTimeout(this.timer);
    this.isClosed = true;
    if (this.state() !== 'lost') {
      await this.request(['SESSION.CLOSE']).catch(() => {});
    }
    this.lease.refuse();
    this.keeper?.close();
    this.drop();
  }

  drop() {
    this.idle.splice(0).forEach((connection) => connection.close());
  }

  async connect(turn) {
    const connection = await Connection.open(
      this.endpoints[turn % this.endpoints.length], CONNECT_MS);
    if (this.id) {
      const reply = await connection.ask(CONNECT_MS,
        ['SESSION.ATTACH', this.id, this.secret]);
      if (reply instanceof ReplyError) {
        connection.close();
        throw reply;
      }
    }
    return connection;
  }

  /** Asks until there is an answer. 'wait' is how long the server itself may take
   * beyond the time-out. Gives the reply and the clock before it was asked. */
  async request(words, wait = 0) {
    const timeout = this.options.timeout;
    let deadline = performance.now() + timeout;
    const first = Math.floor(Math.random() * this.endpoints.length);
    let doubt; // An earlier attempt may have been done.
    for (let attempt = 0; ; attempt++) {
      let connection = this.idle.pop();
      let isSent = connection !== undefined;
      let failure;
      try {
        connection ??= await this.connect(first + attempt);
        isSent = true;
        const sent = readClock();
        const reply = await connection.ask(timeout + wait, words);
        this.idle.push(connection);
        if (!(reply instanceof ReplyError)) {
          return { reply, sent };
        }
        failure = this.refused(reply);
      } catch (error) {
        if (error instanceof HaspError) {
          throw error;
        }
        failure = error instanceof ReplyError ? this.refused(error) :
          new HaspError(isSent ? 'UNKNOWN' : 'UNREACHABLE', error.message);
      }
      if (wait === Infinity && this.id && this.state() !== 'lost') {
        deadline = Math.max(deadline, performance.now() + 1000);
      }
      doubt = failure.code === 'UNKNOWN' ? failure : doubt;
      if (performance.now() >= deadline) {
        throw doubt ?? failure;
      }
      await sleep(between(20, 100) * Math.min(attempt + 1, 5));
    }
  }

  /** Throws for a final refusal; gives what to throw if asking again does not help
   * in time. */
  refused(error) {
    if (AGAIN.includes(error.code)) {
      return new HaspError(error.code === 'UNKNOWN' ? 'UNKNOWN' : 'UNREACHABLE',
        error.message);
    }
    if (ENDED.includes(error.code)) {
      this.lease.refuse();
      throw new HaspError('LOST', error.message);
    }
    throw new HaspError(error.code, error.message);
  }

  // --- the keeper -----------------------------------------------------------

  schedule(ms) {
    if (!this.isClosed) {
      this.timer = setTimeout(() => this.beat(), ms);
      this.timer.unref?.();
    }
  }

  async beat() {
    let next = between(20, 200);
    try {
      if (!this.keeper || this.keeper.isClosed) {
        this.keeper = await this.connect(this.turn);
        this.keeper.onPush = ([, kind, map]) => {
          if (kind === 'please') {
            this.emit('please', map?.message ?? '');
          }
        };
      }
      const sent = readClock();
      const reply = await this.keeper.ask(
        Math.max(50, this.lease.beatInterval()), ['SESSION.KEEP']);
      if (reply instanceof ReplyError) {
        throw reply;
      }
      this.lease.answered(sent, ...this.times);
      next = this.lease.beatInterval();
      this.doubts.forEach((lock) => lock.settle());
    } catch (error) {
      this.turn++;
      if (ENDED.includes(error.code)) {
        this.lease.refuse();
      }
      this.keeper?.close();
    }
    const state = this.state();
    if (state !== this.told) {
      this.told = state;
      this.emit(state === 'held' ? 'safe' : state);
    }
    if (state !== 'lost') {
      this.schedule(next);
    }
  }
}

/** A lock by name, owned by this object: two objects exclude each other, the same
 * one may acquire again. Options: owner, shared, slots, value, delay, hold (ms),
 * barge. Belief ends when the release is sent. */
class Lock {
  constructor(session, name, options) {
    this.session = session;
    this.name = name;
    this.options = options;
    this.owner = options.owner ?? `${process.pid}-${++session.owners}`;
    this.token = null;
    this.count = 0;
    this.req = 0;
    this.holdSince = null; // Of a limited hold.
    this.doubt = null;
    this.tail = Promise.resolve();
  }

  /** One change after the other, each numbered, so that asking again never does it
   * twice. 'after' gets the reply and the clock before it was asked for the first
   * time: an attempt whose answer was lost may be the one that had its effect. */
  change(words, wait, after) {
    return this.inTurn(async () => {
      await this.clearUp();
      return after(await this.numbered(words, wait));
    });
  }

  inTurn(run) {
    const result = this.tail.then(run);
    this.tail = result.catch(() => {});
    return result;
  }

  async numbered(words, wait) {
    const req = ++this.req;
    const all = [...words, 'REQ', req, 'ACKED', req - 1];
    const first = readClock();
    try {
      return { reply: (await this.session.request(all, wait)).reply, first };
    } catch (error) {
      if (error.code === 'UNKNOWN') {
        const at = words[0] === 'LOCK.ACQUIRE' ? all.indexOf('WAIT', 4) : -1;
        this.doubt = at < 0 ? all : [...all.slice(0, at), ...all.slice(at + 2)];
        this.session.doubts.add(this);
      }
      throw error;
    }
  }

  /** Called by the keeper after a heartbeat. */
  settle() {
    this.inTurn(() => this.clearUp()).catch(() => {}); // Again after the next.
  }

  /** Clears up a change whose outcome is not known: asked again under its number,
   * and not waiting, it tells what became of it. A lock that was granted meanwhile
   * is given back: nobody waits for it any more. */
  async clearUp() {
    if (!this.doubt) {
      return;
    }
    const words = this.doubt;
    let reply = null;
    try {
      ({ reply } = await this.session.request(words));
    } catch (error) {
      if (['UNKNOWN', 'UNREACHABLE', 'LOST'].includes(error.code)) {
        throw error;
      }
    }
    this.doubt = null;
    this.session.doubts.delete(this);
    if (words[0] === 'LOCK.ACQUIRE' && reply !== null) {
      await this.numbered(['LOCK.RELEASE', this.name, 'OWNER', this.owner], 0);
    }
  }

  /** Waits up to 'wait' ms (Infinity: for ever, 0: not at all). Resolves with true
   * or false. */
  acquire(wait = Infinity) {
    const { shared, slots, value, delay, hold, barge } = this.options;
    const words = ['LOCK.ACQUIRE', this.name, 'OWNER', this.owner,
      ...(shared ? ['SHARED'] : []), ...(slots ? ['SLOTS', slots] : []),
      ...(wait === Infinity ? ['WAIT', 'FOREVER'] :
        wait > 0 ? ['WAIT', Math.ceil(wait)] : []),
      ...(value ? ['VALUE', value] : []), ...(delay ? ['DELAY', delay] : []),
      ...(hold ? ['HOLD', hold] : []), ...(barge ? ['BARGE'] : [])];
    return this.change(words, wait, ({ reply, first }) => {
      if (reply === null) {
        return false;
      }
      this.token = reply;
      if (++this.count === 1 && hold) {
        this.holdSince = first;
      }
      return true;
    });
  }

  /** Gives one acquisition back; rejects with NOTHELD if there is none. */
  release() {
    this.count = Math.max(0, this.count - 1);
    if (this.count === 0) {
      this.token = null;
      this.holdSince = null;
    }
    return this.change(['LOCK.RELEASE', this.name, 'OWNER', this.owner], 0,
      ({ reply }) => reply);
  }

  /** Leaves the queue; a waiting acquire() then resolves with false. */
  async cancel() {
    const { reply } = await this.session.request(
      ['LOCK.CANCEL', this.name, 'OWNER', this.owner]);
    return reply === 1;
  }

  /** Milliseconds for which the hold may be trusted; 0 if it is not held. */
  remaining() {
    if (this.count === 0) {
      return 0;
    }
    const left = this.session.remaining();
    if (!this.holdSince) {
      return left;
    }
    const now = readClock();
    const age = Math.max(now.monotonic - this.holdSince.monotonic,
      now.boottime - this.holdSince.boottime);
    return Math.max(0, Math.min(left, 0.8 * this.options.hold - age));
  }

  /** Throws unless a step of 'need' ms ends inside the lease. */
  guard(need) {
    const left = this.remaining();
    if (left < need) {
      throw new HaspError('LOST', `"${this.name}": ${left.toFixed(0)} ms left ` +
        `of the lease, ${need} ms needed`);
    }
  }
}

module.exports = { Session, Lock, HaspError };
