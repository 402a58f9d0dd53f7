// SPDX-License-Identifier: MIT
//
// Sessions: heartbeats, and the events that a session reports.
'use strict';

const crypto = require('node:crypto');
const path = require('node:path');
const { alarm } = require('./connection');
const { ReplyError } = require('./resp');
const { Core, STRANGE, debug, toMs } = require('./core');
const { isPart } = require('./hold');
const { Reporter } = require('./hooks');
const { Link, between } = require('./link');
const { MS, readClock, since } = require('./lease');
const { Lock } = require('./lock');
const { LEAVES, OF_ASKER, checkOptions, isLease, isOpened } = require('./request');
const { TIED_TTL_MS, Tie, checkTie, isTied } = require('./tie');
const { Watch } = require('./watch');

const PATIENCE_MIN_MS = 50; // Minimum wait for an answer, for any lease.
const LOOK_MIN_MS = 20; // Minimum interval between checks of a lease.
// Pause after a heartbeat that a node could not answer.
const AGAIN_MS = [20, 200];
const TIMER_MAX_MS = 2 ** 31 - 1;
const FULL = 'LIMIT sessions of a connection';
const OPTIONS = ['endpoints', 'name', 'ttl', 'linger', 'timeout', 'alive',
  'tls', 'secretFile', 'durable', 'reason', 'ownConnection', 'tie', 'agent',
  'hooks'];

const unanswered = (node, why) =>
  `no heartbeat was answered in time, last: ${node}: ${why}`;

function confirms(told, part) {
  const is = isPart(told, part);
  if (is) {
    part.asOf = Math.max(part.asOf, told.as_of);
  }
  return is;
}

/** A lease-backed identity that owns locks. Emits 'jeopardy', 'safe', 'lost'
 * 'please' and 'notice' (nothing is lost, but people should know), each with {
 * name, token, text }. Times are in milliseconds. */
class Session extends Core {
  static async open(options = {}) {
    for (;;) {
      const session = new Session(options);
      if (session.linkKey) {
        session.link = Link.join(session.link, session.linkKey);
      }
      session.hasJoined = true;
      try {
        await session.begin();
      } catch (error) {
        const isFull = error.message.startsWith(FULL) && session.link.filled();
        session.closeOpened(); // In the background.
        if (!isFull) {
          throw error;
        }
        continue;
      }
      await session.beTied();
      return session;
    }
  }

  /** Waits until the session is tied, if it must be. */
  async beTied() {
    if (this.options.tie === 'must') {
      try {
        await this.tie.wait();
      } catch (error) {
        await this.close();
        throw error;
      }
    }
  }

  async begin() {
    const { name, ttl, linger, durable, reason } = this.options;
    // The nodes are shown the hash of the secret alone.
    const secret = crypto.randomBytes(16).toString('hex');
    const proof = crypto.createHash('sha256').update(secret).digest('hex');
    const { reply, sent, line } = await this.request(['SESSION.OPEN',
      'TTL', durable ? 'NONE' : ttl, 'NAME', name,
      ...(linger && !durable ? ['LINGER', linger] : []), 'PROOF', proof,
      ...(reason ? ['LABEL', 'reason', reason] : []),
      ...this.tie?.words() ?? []],
    { fits: isOpened, asked: this.opening });
    this.id = String(reply.id);
    this.proof = secret;
    this.reported = readClock();
    this.prolong(reply, sent);
    this.link.patience = Math.min(this.link.patience, this.patience());
    this.schedule(this.interval());
    this.link.known.sessions.add(this);
    this.link.adopt(this, line);
    this.tie?.begin(this.id);
  }

  /** Closes sessions whose OPEN was answered after the caller had left, since
   * only this process knows them, then leaves the connection. */
  async closeOpened() {
    for (const { line, answer } of this.opening) {
      const reply = await answer.catch(() => null); // Or it fails (ANSWER_MS).
      if (isOpened(reply)) {
        await line.ask(['SESSION.CLOSE', 'SESSION', reply.id]).catch(() => {});
      }
    }
    this.quit();
  }

  constructor(options) {
    checkOptions('session', options, OPTIONS);
    const said = Object.entries(options).filter((one) => one[1] !== undefined);
    checkTie(options);
    const all = { ttl: isTied(options.tie) ? TIED_TTL_MS : 10000, linger: 0, timeout: 10000, alive: 0,
      name: `${path.basename(process.argv[1] ?? 'node')}:${process.pid}`,
      ...Object.fromEntries(said) };
    super(all);
    this.options = all;
    this.reporter = new Reporter(all.hooks, (text) => this.noticed(text));
    if (isTied(all.tie)) {
      // Later, when the program listens.
      this.tie = new Tie(all.agent, all.ttl,
        (text) => setImmediate(() => this.noticed(text)));
    }
    this.told = 'held';
    this.isListing = false; // The holds are being listed: notices were missed.
    this.opening = []; // OPENs that were sent.
  }

  /** A lock by name, or several that are acquired together by a list; see Lock. */
  lock(names, options = {}) {
    return new Lock(this, names, options);
  }

  /** Changes of the locks whose names begin with 'prefix', from now on. */
  watch(prefix = '') {
    return new Watch(this, prefix);
  }

  /** Reports progress, if the option 'alive' is set: without it the lease is no
   * longer renewed. Call it where the work is done, not from a timer. */
  alive() {
    this.reported = readClock();
    this.check();
  }

  /** Ends the session; its locks go to the next in line. If no node can be
   * reached this takes up to 'timeout', and the lease must expire. */
  async close() {
    this.look(); // Reports a loss that happened just now, too.
    this.isClosed = true;
    this.endHolds((reported) => reported.released());
    clearTimeout(this.timer);
    clearTimeout(this.looker);
    if (this.state() !== 'lost') {
      await this.request(['SESSION.CLOSE'])
        .then(() => this.link.closed(this), () => {});
    }
    this.refuse('it was closed');
    this.endHolds((reported) => reported.released());
    this.quit();
  }

  /** All holds of the session have ended; reports that to hooks. */
  endHolds(end) {
    this.held.forEach(({ grants }) => grants.forEach(
      ({ reported }) => end(reported)));
  }

  isAlive() {
    return !this.isClosed && this.state() !== 'lost';
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

  /** Emits the events of a changed lease, and checks it again in time. */
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
      this.endHolds((reported) => reported.lost(this.why));
      clearTimeout(this.timer);
      this.quit();
    } else {
      this.looker = setTimeout(() => this.look(), Math.min(TIMER_MAX_MS,
        Math.max(LOOK_MIN_MS, Math.ceil(this.remaining()))));
    }
  }

  refuse(why) {
    super.refuse(this.isClosed ? 'it was closed' : why);
    if (this.id) {
      this.look();
    }
    this.held.forEach((lock) => lock.look());
  }

  /** Emits an event. An exception of a listener goes to the program. */
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

  /** True if the program has failed to report progress. */
  isStuck() {
    const { alive } = this.options;
    return alive > 0 &&
      since(this.reported, readClock()) >= BigInt(Math.round(alive)) * MS;
  }

  /** Milliseconds for the answer to a heartbeat. */
  patience() {
    return Math.max(PATIENCE_MIN_MS, this.interval());
  }

  connected() {
    super.connected();
    if (!this.isClosed) {
      this.beat();
    }
  }

  disconnected(node, why) {
    super.disconnected();
    this.why = unanswered(node, why);
  }

  noticed(text) {
    this.say('notice', { name: '', token: 0, text });
  }

  pushed(name, kind, told) {
    super.pushed(name, kind, told);
    // The message is about a durable hold.
    if (kind === 'please' || kind === 'breaking') {
      this.say('please', { name: told.lock ?? name, token: told.token ?? 0,
        text: told.message ?? '' });
    }
  }

  /** Sends a heartbeat. The next one is sent after its answer, or on another
   * connection. */
  beat() {
    const { line } = this.link;
    clearTimeout(this.timer);
    if (this.isStuck()) {
      this.why =
        `no progress was reported for ${this.options.alive} ms (alive)`;
      this.schedule(Math.min(this.interval(), AGAIN_MS[1]));
    } else if (line) {
      const quiet = alarm(this.patience() * (line.isBusy() ? 2 : 1),
        () => line.fail(new Error('no answer')));
      const sent = readClock();
      // With its secret, so it need not wait for ATTACH.
      line.post((failed, reply) => {
        quiet();
        if (!failed && !this.isClosed) {
          this.kept(line, reply, sent);
        }
      }, ['SESSION.KEEP', this.id, this.proof, 'FULL', 'AFTER', this.seen],
      true);
    }
  }

  kept(line, reply, sent) {
    if (reply instanceof ReplyError) {
      const error = this.refusal(reply);
      if (error.code !== 'LOST') {
        this.why = unanswered(line.endpoint.text, error.message);
      }
      this.schedule(Math.min(this.interval(), between(...AGAIN_MS)));
      if (OF_ASKER.includes(reply.code)) {
        this.link.denied(line, error.message);
      } else if (LEAVES.includes(reply.code)) {
        this.link.leave(line, error.message);
      }
    } else if (!isLease(reply)) {
      line.fail(new Error(STRANGE));
    } else {
      this.link.worked(line);
      this.prolong(reply, sent);
      this.heard(reply);
      this.settle();
      this.schedule(Math.max(0,
        this.interval() - toMs(since(sent, readClock()))));
    }
  }

  /** Handles notices of ended holds. If the cluster dropped notices before they
   * were read, all holds are listed, and those missing in the list have ended.
   * Until that is done the next heartbeats ask for the same notices. */
  heard({ ended = [], dropped = 0 }) {
    const newest = Math.max(dropped, ...ended.map((one) => one.number ?? 0));
    this.newest = Math.max(this.newest, newest);
    for (const notice of ended) {
      const tokens = new Set([...this.held].flatMap((lock) => lock.endWhere(
        notice.owner, (part) => isPart(notice, part),
        notice.reason || 'ended'))); // As granted.
      tokens.forEach((token) => this.say('lost', { name: notice.lock, token,
        text: notice.reason ?? '' }));
    }
    if (dropped <= this.seen || !this.held.size) {
      this.seen = this.newest;
    } else if (!this.isListing) {
      this.isListing = true;
      this.confirm(dropped, newest).catch((error) => debug('%s: %s', this.id, error))
        .finally(() => {
          this.isListing = false;
        });
    }
  }

  /** Ends the holds that are missing in the list, except those granted after the
   * last dropped notice. 'known' is the newest notice before the list was read. */
  async confirm(dropped, known) {
    const found = new Map();
    for (let cursor = null; cursor !== '0';) {
      const page = await this.ask('SESSION.HOLDS', 'COUNT', 1000,
        ...(cursor === null ? [] : ['CURSOR', cursor]));
      for (const told of page.holds) {
        const key = JSON.stringify([told.lock, told.owner]);
        found.set(key, [...found.get(key) ?? [], told]);
      }
      ({ cursor } = page);
    }
    this.seen = Math.max(this.seen, known);
    const ended = new Map();
    for (const lock of [...this.held]) {
      const owner = lock.tag.tag;
      for (const name of lock.names) {
        const all = found.get(JSON.stringify([name, owner])) ?? [];
        lock.endWhere(owner, (part) => part.name === name &&
          part.asOf < dropped && !all.some((told) => confirms(told, part)))
          .forEach((token) => ended.set(`${token} ${name}`, { name, token,
            text: 'ended' }));
      }
    }
    ended.forEach((event) => this.say('lost', event));
  }

  /** Settles changes with an unknown outcome in the background. If that fails, it
   * is tried again after the next heartbeat. */
  settle() {
    for (const lock of this.doubts) {
      if (!lock.changes.isTaken) { // The user of the lock settles it first.
        lock.changes.run(() => lock.settle()).catch(() => {});
      }
    }
  }
}

if (Symbol.asyncDispose) { // For `await using`.
  Session.prototype[Symbol.asyncDispose] = Session.prototype.close;
}

module.exports = { Session };
