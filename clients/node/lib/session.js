// SPDX-License-Identifier: MIT
//
// Sessions: what keeps one alive, and tells what happens to it.
'use strict';

const crypto = require('node:crypto');
const path = require('node:path');
const { ReplyError } = require('./resp');
const { CONNECT_MS, Core, between, debug, toMs } = require('./core');
const { MS, readClock, since } = require('./lease');
const { Lock } = require('./lock');
const { checkOptions } = require('./request');
const { Watch } = require('./watch');

const PATIENCE_MIN_MS = 50; // For an answer, however short the lease.
const LOOK_MIN_MS = 20; // Between two looks at a lease that runs out.
const AGAIN_MS = [20, 200]; // After a heartbeat without an answer.
const TIMER_MAX_MS = 2 ** 31 - 1;
const OPTIONS = ['endpoints', 'name', 'ttl', 'linger', 'timeout', 'alive',
  'tls', 'secretFile', 'durable', 'reason'];

/** A lease-backed identity that owns locks. Emits 'jeopardy', 'safe', 'lost'
 * and 'please', each with { name, token, text }. Times are in milliseconds. */
class Session extends Core {
  static async open(options = {}) {
    const session = new Session(options);
    const { name, ttl, linger, durable, reason } = session.options;
    try {
      // The nodes are shown the hash of the secret alone.
      const secret = crypto.randomBytes(16).toString('hex');
      const proof = crypto.createHash('sha256').update(secret).digest('hex');
      const { reply, sent } = await session.request(['SESSION.OPEN',
        'TTL', durable ? 'NONE' : ttl, 'NAME', name,
        ...(linger && !durable ? ['LINGER', linger] : []), 'PROOF', proof,
        ...(reason ? ['LABEL', 'reason', reason] : [])]);
      session.id = String(reply.id);
      session.secret = secret;
      session.reported = readClock();
      session.prolong(reply, sent);
    } catch (error) {
      session.drop();
      throw error;
    }
    // The first one comes early: only then the node knows where to send what is
    // for this session.
    session.schedule(session.interval() / 5);
    return session;
  }

  constructor(options) {
    checkOptions('session', options, OPTIONS);
    const all = { ttl: 10000, linger: 0, timeout: 10000, alive: 0,
      name: `${path.basename(process.argv[1] ?? 'node')}:${process.pid}`,
      ...options };
    super(all);
    this.options = all;
    this.told = 'held';
  }

  /** A lock by this name, or several at once by a list; see Lock. */
  lock(names, options = {}) {
    return new Lock(this, names, options);
  }

  /** What happens to the locks whose names begin so, from now on. */
  watch(prefix = '') {
    return new Watch(this, prefix);
  }

  /** The answer to any command of docs/protocol.md that may be repeated, as it
   * is where a connection fails. */
  async ask(...words) {
    return (await this.request(words)).reply;
  }

  /** Reports progress, where 'alive' was asked for: without it the lease is
   * renewed no more. Call it where the work is done, not from a timer. */
  alive() {
    this.reported = readClock();
    this.check();
  }

  /** Ends the session; its locks go to the next in line. Takes up to 'timeout'
   * if no node can be reached: then its lease must run out. */
  async close() {
    this.look(); // A loss that came just now is told, too.
    this.isClosed = true;
    clearTimeout(this.timer);
    clearTimeout(this.looker);
    if (this.state() !== 'lost') {
      await this.request(['SESSION.CLOSE']).catch(() => {});
    }
    this.refuse('it has been closed');
    this.keeper?.close();
    this.drop();
  }

  // --- looking ---------------------------------------------------------------

  prolong({ ttl_ms: ttl, linger_ms: linger }, sent) {
    if (ttl === null) {
      this.lease.answeredEndless(sent);
    } else {
      this.lease.answered(sent, ttl, linger ?? 0);
    }
    this.look();
  }

  /** Tells what the clock, or an answer, has changed; looks again in time. */
  look() {
    clearTimeout(this.looker);
    const state = this.state();
    if (this.isClosed || this.told === 'lost') {
      return;
    }
    if (state !== this.told) {
      this.told = state;
      this.say(state === 'held' ? 'safe' : state,
        { name: '', token: 0, text: state === 'held' ? '' : this.why });
      this.held.forEach((lock) => lock.look());
    }
    if (state === 'lost') {
      clearTimeout(this.timer);
      this.keeper?.close();
      this.drop();
    } else {
      this.looker = setTimeout(() => this.look(), Math.min(TIMER_MAX_MS,
        Math.max(LOOK_MIN_MS, Math.ceil(this.remaining()))));
    }
  }

  refuse(why) {
    super.refuse(this.isClosed ? 'it has been closed' : why);
    if (this.id) {
      this.look();
    }
    this.held.forEach((lock) => lock.look());
  }

  /** What a listener throws is the program's business, not ours. */
  say(kind, event) {
    debug('%s: %s %j', this.id, kind, event);
    queueMicrotask(() => this.emit(kind, event));
  }

  // --- heartbeats ------------------------------------------------------------

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

  /** Has the program failed to report progress? */
  isStuck() {
    const { alive } = this.options;
    return alive > 0 &&
      since(this.reported, readClock()) >= BigInt(Math.round(alive)) * MS;
  }

  async beat() {
    let next = Math.min(between(...AGAIN_MS), this.interval());
    try {
      if (this.isStuck()) {
        this.why =
          `no progress was reported for ${this.options.alive} ms (alive)`;
        this.schedule(next);
        return;
      }
      const patience = Math.max(PATIENCE_MIN_MS, this.interval());
      await this.hail(patience);
      const sent = readClock();
      const reply = await this.keeper.ask(patience, ['SESSION.KEEP', 'FULL']);
      if (reply instanceof ReplyError) {
        throw this.refusal(reply);
      }
      this.prolong(reply, sent);
      next = this.interval();
      this.tellEnded(reply.ended ?? []);
      this.settle();
    } catch (error) {
      this.missed(error);
    }
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
      if (kind === 'please' || kind === 'breaking') { // A durable hold is.
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
          this.say('lost', { name: ended.lock, token: ended.token,
            text: ended.reason ?? '' });
          lock.look();
        }
      }
    }
  }

  /** Clears up changes of unknown outcome, in the background; else again after
   * the next heartbeat. */
  settle() {
    for (const lock of this.doubts) {
      if (!lock.changes.isTaken) { // Who uses it does it first.
        lock.changes.run(() => lock.settle()).catch(() => {});
      }
    }
  }
}

if (Symbol.asyncDispose) { // For `await using`.
  Session.prototype[Symbol.asyncDispose] = Session.prototype.close;
}

module.exports = { Session };
