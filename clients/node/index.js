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

const crypto = require('node:crypto');
const path = require('node:path');
const { ReplyError } = require('./lib/connection');
const { CONNECT_MS, Core, between, toMs } = require('./lib/core');
const { readClock } = require('./lib/lease');
const { Lock } = require('./lib/lock');
const { HaspError, checkOptions } = require('./lib/request');

const PATIENCE_MIN_MS = 50; // For an answer, however short the lease.
const AGAIN_MS = [20, 200]; // After a heartbeat without an answer.
const OPTIONS = ['endpoints', 'name', 'ttl', 'linger', 'timeout'];

/** A lease-backed identity that owns locks. Emits 'jeopardy', 'safe', 'lost'
 * and 'please', each with { name, token, text }. Times are in milliseconds. */
class Session extends Core {
  static async open(options = {}) {
    const session = new Session(options);
    const { name, ttl, linger } = session.options;
    try {
      // The nodes are shown the hash of the secret alone.
      const secret = crypto.randomBytes(16).toString('hex');
      const proof = crypto.createHash('sha256').update(secret).digest('hex');
      const { reply, sent } = await session.request(['SESSION.OPEN', 'TTL', ttl,
        'NAME', name, ...(linger ? ['LINGER', linger] : []), 'PROOF', proof]);
      session.id = String(reply.id);
      session.secret = secret;
      session.lease.answered(sent, reply.ttl_ms, reply.linger_ms ?? 0);
    } catch (error) {
      session.drop();
      throw error;
    }
    session.schedule(session.interval() / 5);
    return session;
  }

  constructor(options) {
    checkOptions('session', options, OPTIONS);
    const all = { ttl: 10000, linger: 0, timeout: 10000,
      name: `${path.basename(process.argv[1] ?? 'node')}:${process.pid}`,
      ...options };
    super(all);
    this.options = all;
    this.told = 'held';
  }

  /** A lock by this name; see Lock for the options. */
  lock(name, options = {}) {
    return new Lock(this, name, options);
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

  // --- the keeper ------------------------------------------------------------

  schedule(ms) {
    clearTimeout(this.timer);
    if (!this.isClosed && this.told !== 'lost') {
      this.timer = setTimeout(() => this.beat(), ms);
    }
  }

  /** Milliseconds between heartbeats. */
  interval() {
    return toMs(this.lease.period());
  }

  async beat() {
    let next = Math.min(between(...AGAIN_MS), this.interval());
    try {
      const patience = Math.max(PATIENCE_MIN_MS, this.interval());
      await this.hail(patience);
      const sent = readClock();
      const reply = await this.keeper.ask(patience, ['SESSION.KEEP', 'FULL']);
      if (reply instanceof ReplyError) {
        throw this.refusal(reply);
      }
      this.lease.answered(sent, reply.ttl_ms, reply.linger_ms ?? 0);
      next = this.interval();
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
