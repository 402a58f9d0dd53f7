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
const { Lock } = require('./lib/lock');
const { HaspError, Owners, checkOptions, judge, parseEndpoints, waitWords } =
  require('./lib/request');

const CONNECT_MS = 1000;
const IDLE_MAX = 8; // Connections kept for later requests.
const OPTIONS = ['endpoints', 'name', 'ttl', 'linger', 'timeout'];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const between = (low, high) => low + Math.random() * (high - low);

/** A lease-backed identity that owns locks. Emits 'jeopardy', 'safe', 'lost'
 * and 'please', each with { name, token, text }. Times are in milliseconds. */
class Session extends EventEmitter {
  static async open(options = {}) {
    const session = new Session(options);
    const { name, ttl, linger } = session.options;
    try {
      const { reply, sent } = await session.request(['SESSION.OPEN', 'TTL', ttl,
        'NAME', name, ...(linger ? ['LINGER', linger] : [])]);
      session.id = String(reply.id);
      session.secret = reply.secret;
      session.lease.answered(sent, reply.ttl_ms, reply.linger_ms ?? 0);
    } catch (error) {
      session.drop();
      throw error;
    }
    session.schedule(session.lease.beatInterval() / 5);
    return session;
  }

  constructor(options) {
    super();
    checkOptions('session', options, OPTIONS);
    this.options = { ttl: 10000, linger: 0, timeout: 10000,
      name: `${path.basename(process.argv[1] ?? 'node')}:${process.pid}`,
      ...options };
    this.endpoints = parseEndpoints(this.options.endpoints);
    this.turn = Math.floor(Math.random() * this.endpoints.length);
    this.lease = new Lease();
    this.why = 'the lease has run out';
    this.told = 'held';
    this.idle = [];
    this.busy = new Set();
    this.owners = new Owners();
    this.held = new Set();
    this.doubts = new Set(); // Locks whose last outcome is not known.
  }

  /** A lock by this name; see Lock for the options. */
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

  /** Ends the session; its locks go to the next in line. Takes up to 'timeout'
   * if no node can be reached: then its lease must run out. */
  async close() {
    clearTimeout(this.timer);
    this.isClosed = true;
    if (this.state() !== 'lost') {
      await this.request(['SESSION.CLOSE']).catch(() => {});
    }
    this.refuse('it has been closed');
    this.keeper?.close();
    this.drop();
  }

  check() {
    if (this.id && this.state() === 'lost') {
      throw new HaspError('LOST',
        `the session is lost, open another one: ${this.why}`);
    }
  }

  refuse(why) {
    this.why = why;
    this.lease.refuse();
  }

  refusal(reply) {
    const error = judge(reply);
    if (error.code === 'LOST') {
      this.refuse(error.message);
    }
    return error;
  }

  // --- requests --------------------------------------------------------------

  /** Asks until there is an answer. 'until' is the end of a wait for a lock,
   * the time-out counts from there. Gives the reply and the clock before the
   * answered request was sent. */
  async request(words, until = null, timeout = this.options.timeout) {
    const limit = (until ?? performance.now()) + timeout;
    const last = new Map(); // What each node ended with.
    let isDoubtful = false; // An attempt may have been done.
    for (let attempt = 1; ; attempt++) {
      this.check();
      let { text } = this.endpoints[this.turn % this.endpoints.length];
      let line;
      try {
        line = await this.take();
        text = line.endpoint.text;
        const { more, patience } = waitWords(until);
        const sent = readClock();
        const reply = await line.ask(
          Math.max(1, Math.min(patience, limit - performance.now())),
          [...words, ...more]);
        if (!(reply instanceof ReplyError)) {
          this.put(line);
          return { reply, sent };
        }
        const error = this.refusal(reply);
        if (!['UNREACHABLE', 'UNKNOWN'].includes(error.code)) {
          this.put(line);
          throw error;
        }
        isDoubtful ||= error.code === 'UNKNOWN';
        last.set(text, error.message);
      } catch (error) {
        if (error instanceof HaspError) {
          throw error;
        }
        isDoubtful ||= line !== undefined;
        last.set(text, error.message);
      }
      this.fail(line);
      const pause = between(20, 100) * Math.min(attempt, 5);
      if (performance.now() + pause >= limit) {
        this.check();
        const told = [...last].map((pair) => pair.join(': ')).join('; ');
        throw isDoubtful ?
          new HaspError('UNKNOWN',
            `no answer in time, it may be done (${told})`) :
          new HaspError('UNREACHABLE', `no node could do it (${told})`);
      }
      if (attempt % this.endpoints.length === 0) {
        await sleep(pause);
      }
    }
  }

  async take() {
    let line = this.idle.pop();
    while (line?.isClosed) {
      line = this.idle.pop();
    }
    line ??= await this.connect(CONNECT_MS);
    this.busy.add(line);
    return line;
  }

  put(line) {
    this.busy.delete(line);
    if (this.idle.length < IDLE_MAX) {
      this.idle.push(line);
    } else {
      line.close();
    }
  }

  /** The next connection goes to another node. */
  fail(line) {
    if (line) {
      this.busy.delete(line);
      line.close();
      this.turnFrom(line.turn);
    }
  }

  turnFrom(turn) {
    this.turn += this.turn === turn ? 1 : 0;
  }

  /** Closes what is idle; requests under way fail. */
  drop() {
    [...this.idle.splice(0), ...this.busy].forEach((line) => line.close());
  }

  /** Greets, and tells the node whose connection it is. */
  async connect(timeout) {
    const { turn } = this;
    const line = new Connection(this.endpoints[turn % this.endpoints.length]);
    line.turn = turn;
    try {
      for (const words of [['HELLO', 3],
        ...(this.id ? [['SESSION.ATTACH', this.id, this.secret]] : [])]) {
        const reply = await line.ask(timeout, words);
        if (reply instanceof ReplyError) {
          const error = this.refusal(reply);
          // Else another node may know us.
          throw error.code === 'LOST' ? error : new Error(error.message);
        }
      }
      return line;
    } catch (error) {
      line.close();
      this.turnFrom(turn);
      throw error;
    }
  }

  // --- the keeper ------------------------------------------------------------

  schedule(ms) {
    clearTimeout(this.timer);
    if (!this.isClosed && this.told !== 'lost') {
      this.timer = setTimeout(() => this.beat(), ms);
    }
  }

  async beat() {
    let next = Math.min(between(20, 200), this.lease.beatInterval());
    try {
      const patience = Math.max(50, this.lease.beatInterval());
      await this.hail(patience);
      const sent = readClock();
      const reply = await this.keeper.ask(patience, ['SESSION.KEEP', 'FULL']);
      if (reply instanceof ReplyError) {
        throw this.refusal(reply);
      }
      this.lease.answered(sent, reply.ttl_ms, reply.linger_ms ?? 0);
      next = this.lease.beatInterval();
      this.tellEnded(reply.ended ?? []);
      this.doubts.forEach((lock) => {
        // Again after the next heartbeat.
        lock.inTurn(() => lock.settle()).catch(() => {});
      });
    } catch (error) {
      this.missed(error);
    }
    this.tell();
    this.schedule(next);
  }

  /** Sees to it that the keeper has a connection. */
  async hail(patience) {
    if (this.keeper && !this.keeper.isClosed) {
      return;
    }
    this.hailed = this.endpoints[this.turn % this.endpoints.length].text;
    const keeper = await this.connect(Math.min(patience, CONNECT_MS));
    this.keeper = keeper;
    if (this.isClosed) {
      keeper.close();
    }
    keeper.onPush = ([name, kind, told]) => {
      if (kind === 'please') {
        this.emit('please', { name: told?.lock ?? name, token: told?.token ?? 0,
          text: told?.message ?? '' });
      }
    };
    keeper.onClose = () => {
      this.turnFrom(keeper.turn);
      this.schedule(0); // Another node should know us soon.
    };
  }

  /** A node that does not answer the keeper leaves those who wait for a lock in
   * the dark, too: they go on at another one. */
  missed(error) {
    if (error.code === 'LOST') {
      return;
    }
    const node = this.hailed;
    this.why = 'no heartbeat was answered in time, last: ' +
      `${node}: ${error.message}`;
    this.busy.forEach((line) => {
      if (line.endpoint.text === node && error.message === 'no answer') {
        line.close();
      }
    });
    if (this.keeper) {
      this.keeper.onClose = null;
      this.fail(this.keeper);
      this.keeper = undefined;
    }
  }

  tellEnded(list) {
    for (const ended of list) {
      for (const lock of this.held) {
        if (lock.endedBy(ended)) {
          this.say('lost', { name: lock.name, token: ended.token,
            text: ended.reason ?? '' });
        }
      }
    }
  }

  tell() {
    const state = this.state();
    if (state !== this.told && !this.isClosed) {
      this.told = state;
      this.say(state === 'held' ? 'safe' : state,
        { name: '', token: 0, text: state === 'held' ? '' : this.why });
      if (state === 'lost') {
        this.keeper?.close();
        this.drop();
      }
    }
  }

  /** What a listener throws is the program's business, not the keeper's. */
  say(kind, event) {
    queueMicrotask(() => this.emit(kind, event));
  }
}

module.exports = { Session, Lock, HaspError };
