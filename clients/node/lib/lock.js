// SPDX-License-Identifier: MIT
//
// A lock, or several at once: what is asked of the cluster for them, and what is
// believed meanwhile.
'use strict';

const { HaspError, Wait, checkOptions } = require('./request');
const { toMs } = require('./core');
const { MS, holdRemaining, readClock, trusted } = require('./lease');
const { sleep } = require('./link');
const { Turn } = require('./turn');

const OPTIONS = ['owner', 'shared', 'slots', 'value', 'delay', 'hold', 'barge',
  'timeout'];
const SHOW_MS = 1000;
const BEHIND_MS = 50; // Between two looks at other requests of an owner.
const TIMER_MAX_MS = 2 ** 31 - 1;
const CANCELLED = new Error('cancelled');
// What takes a change back whose outcome came when nobody waited for it.
const UNDO = { ACQUIRE: ['RELEASE'], EXCLUSIVE: ['CONVERT', 'SHARED'] };

/** A lock by name, or several. Two Lock objects exclude each other, and so do
 * two tasks that share one; it is not re-entrant unless it has an 'owner'.
 * Durations are in milliseconds. Belief ends when the release is sent. */
class Lock {
  constructor(session, names, options = {}) {
    checkOptions('lock', options, OPTIONS);
    this.session = session;
    this.names = [names].flat();
    if (!(options.slots === undefined || options.slots >= 1)) {
      throw new RangeError(`slots: ${options.slots}: at least one holds the ` +
        'lock; an exclusive one has no slots');
    }
    if (!this.names.length ||
        this.names.some((name) => typeof name !== 'string' || !name)) {
      throw new TypeError('a lock has a name, or a list of them');
    }
    this.options = options;
    this.shared = Boolean(options.shared); // convert() changes it.
    this.tokens = {};
    this.signal = null; // Aborted when the hold cannot be trusted any more.
    this.count = 0;
    this.tag = null; // The owner, while there is something to own.
    this.limit = null; // Of a limited hold: { ms, from }.
    this.hasEnded = false;
    this.doubt = null; // A change of unknown outcome: { verb, words, number }.
    this.owed = 0; // Releases that are still to be begun.
    this.changes = new Turn(); // One change at a time.
    this.gate = new Turn(); // From acquire() to release(), where it is shared.
    this.waits = new Set();
    this.wait = null; // Of the newest change.
  }

  get name() {
    return this.names.join(', ');
  }

  /** The fencing token, larger at each grant; null: not held. Of several: the
   * first one's, 'tokens' has all by their names. */
  get token() {
    return this.tokens[this.names[0]] ?? null;
  }

  /** Waits in line for up to 'wait' ms (Infinity: for ever, 0: only tries).
   * True or false; rejects with the signal's reason if that is aborted. */
  async acquire(how = {}) {
    const { wait = this.options.timeout ?? Infinity, signal } = howOf(how);
    const until = waitUntil(wait);
    const stop = new AbortController();
    const abort = () => stop.abort(signal.reason);
    signal?.throwIfAborted();
    signal?.addEventListener('abort', abort);
    this.waits.add(stop);
    try {
      return await this.acquireOnce(until, stop.signal);
    } catch (error) {
      if (error !== CANCELLED) {
        throw error;
      }
      return false;
    } finally {
      this.waits.delete(stop);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Makes acquire() elsewhere resolve with false; was there one? */
  cancel() {
    this.waits.forEach((stop) => stop.abort(CANCELLED));
    return this.waits.size > 0;
  }

  /** Acquires it, or rejects with TIMEDOUT. For
   * `await using lock = await session.lock('orders').enter()`. */
  async enter(how = {}) {
    if (!await this.acquire(how)) {
      throw new HaspError('TIMEDOUT', `"${this.name}" was not to be had in ` +
        'the time that was given');
    }
    return this;
  }

  /** Acquires it, awaits work(this), gives it back whatever that does. */
  async run(work, how = {}) {
    await this.enter(how);
    let result;
    try {
      result = await work(this);
    } catch (error) {
      await this.release().catch(() => {}); // What went wrong is the news.
      throw error;
    }
    await this.release();
    return result;
  }

  /** Gives it back, whatever it rejects with: the session goes on trying.
   * NOTHELD: the cluster had ended the hold before. */
  async release() {
    if (this.count === 0) {
      throw new HaspError('NOTHELD', `"${this.name}" is not held`);
    }
    const isLast = this.forget();
    let isBegun = false;
    let released;
    try {
      released = await this.changes.run(async () => {
        await this.settle();
        isBegun = true;
        return this.change('RELEASE', []);
      });
    } finally {
      if (!isBegun) {
        this.owed++;
        this.session.doubts.add(this);
      }
      if (isLast && !this.options.owner) {
        this.gate.leave();
      }
    }
    if (this.names.length > 1 && released < this.names.length) {
      throw new HaspError('NOTHELD', `only ${released} of ${this.name} were ` +
        'held');
    }
  }

  /** To shared: at once. To exclusive ('shared' is false): when the other
   * readers have gone, ahead of the queue, with a new token; false: it is still
   * shared. */
  async convert({ shared, ...how }) {
    const { wait = Infinity, signal } = howOf(how);
    const until = shared ? null : waitUntil(wait);
    if (this.count === 0 || this.names.length > 1) {
      throw new HaspError('NOTHELD', 'one lock that is held can be ' +
        `converted, not "${this.name}"`);
    }
    return this.changes.run(async () => {
      await this.settle();
      this.shared ||= shared; // Belief ends first.
      return await this.change('CONVERT', [shared ? 'SHARED' : 'EXCLUSIVE'],
        until, signal) !== null;
    });
  }

  /** Of an acquire() that waits: 1 is the next. null: in no queue. */
  async place() {
    const { queue } = await this.session.ask('LOCK.SHOW', this.names[0]);
    return queue.findIndex((one) => this.isMine(one)) + 1 || null;
  }

  /** Leaves up to 4096 bytes at the lock for whoever comes next, who finds them
   * as 'note' of LOCK.SHOW. NOTHELD: only a holder may. */
  async note(text) {
    if (!this.token) {
      throw new HaspError('NOTHELD', `"${this.name}" is not held`);
    }
    await this.session.ask('LOCK.NOTE', this.names[0], this.token, text,
      'OWNER', this.tag.tag);
  }

  /** True if the hold may be trusted now. */
  locked() {
    return this.left() > 0n;
  }

  /** Milliseconds for which the hold may be trusted; 0 if it is not held. */
  remaining() {
    return toMs(this.left());
  }

  /** The same in nanoseconds. */
  left() {
    const left = this.session.lease.remaining();
    if (this.count === 0 || this.hasEnded) {
      return 0n;
    }
    const ofHold = this.limit
      ? holdRemaining(this.limit.from, this.limit.ms) : left;
    return ofHold < left ? ofHold : left;
  }

  /** Throws LOST or SHORT unless a step of so many ms ends in time. */
  guard(need = 0) {
    const ns = this.left();
    if (ns > 0n && ns >= need * Number(MS)) {
      return;
    }
    if (this.count === 0) {
      throw new HaspError('LOST', `"${this.name}" is not held`);
    }
    this.session.check();
    if (this.hasEnded) {
      throw new HaspError('LOST', `"${this.name}" has been taken away, or ` +
        'its hold is over');
    }
    const most = Math.min(toMs(trusted(this.session.lease.promised())),
      0.8 * (this.options.hold ?? Infinity));
    const never = `; it is never more than ${most.toFixed(0)} ms, 0.8 of the ` +
      'smallest of ttl, linger and hold';
    throw new HaspError('SHORT', `"${this.name}": ${toMs(ns).toFixed(0)} ms ` +
      `left of the lease, ${need} ms needed${need > most ? never : ''}`);
  }

  // --- belief ----------------------------------------------------------------

  granted(reply, from, verb) {
    if (verb !== 'ACQUIRE') {
      // Its owner has one hold, however many locks of his tell of it.
      for (const lock of this.session.held) {
        if (lock.tag.tag === this.tag.tag && lock.tokens[this.name]) {
          lock.tokens[this.name] = reply;
          lock.shared = verb !== 'EXCLUSIVE';
        }
      }
      return;
    }
    this.tokens = Object.fromEntries(this.names.map(
      (name, i) => [name, [reply].flat()[i]]));
    if (++this.count === 1) {
      this.hasEnded = false;
      this.limit = this.options.hold ? { ms: this.options.hold, from } : null;
      this.session.held.add(this);
      this.stop = new AbortController();
      this.signal = this.stop.signal;
    }
  }

  /** Ends the trust in one acquisition; true if it was the last one. */
  forget() {
    if (--this.count === 0) {
      this.tokens = {};
      this.shared = Boolean(this.options.shared);
      this.session.held.delete(this);
      this.look();
    }
    return this.count === 0;
  }

  /** Aborts the signal in time. */
  look() {
    clearTimeout(this.timer);
    const left = this.remaining();
    if (left > 0) {
      this.timer = setTimeout(() => this.look(),
        Math.min(Math.ceil(left), TIMER_MAX_MS));
    } else {
      this.tellLimit();
      this.stop?.abort(new HaspError('LOST',
        `"${this.name}" cannot be trusted any more`));
    }
  }

  /** Tells, once, that its limit is over by the clock: nobody else says so in
   * time. */
  tellLimit() {
    const { session, limit } = this;
    if (this.count > 0 && limit && !this.hasEnded && session.isAlive() &&
        holdRemaining(limit.from, limit.ms) === 0n) {
      this.hasEnded = true;
      session.say('lost', { name: this.names[0], token: this.token,
        text: 'max hold' });
    }
  }

  /** True, once, if the cluster has ended this very hold. */
  endedBy({ lock, owner, token }) {
    if (this.hasEnded || owner !== this.tag?.tag ||
        token !== this.tokens[lock]) {
      return false;
    }
    this.hasEnded = true;
    return true;
  }

  isMine({ session, owner }) {
    return owner === this.tag?.tag && String(session) === this.session.id;
  }

  // --- changes: numbered, and in doubt until the outcome is known ------------

  async acquireOnce(until, signal) {
    this.session.check();
    if (!await this.gate.enter(until, signal)) {
      return false;
    }
    try {
      return await this.changes.run(async () => {
        await this.settle();
        if (await this.change('ACQUIRE', this.words(), until, signal) ===
            null) {
          return false;
        }
        if (this.limit && until !== null) {
          await this.askLimit();
        }
        this.confirm();
        return true;
      });
    } finally {
      if (this.count === 0 || this.options.owner) {
        this.gate.leave();
      }
    }
  }

  /** Throws if the session has been lost meanwhile. */
  confirm() {
    try {
      this.session.check();
    } catch (error) {
      this.forget();
      throw error;
    }
    this.look();
  }

  words() {
    const { shared, slots, value, delay, hold, barge } = this.options;
    return [...(shared ? ['SHARED'] : []),
      ...(slots ? ['SLOTS', slots] : []), ...(value ? ['VALUE', value] : []),
      ...(delay ? ['DELAY', delay] : []), ...(hold ? ['HOLD', hold] : []),
      ...(barge ? ['BARGE'] : [])];
  }

  begin(verb, more) {
    this.tag ??= this.session.owners.take(this.options.owner);
    const { number, words } = this.session.owners.begin(this.tag);
    const names = this.names.length > 1
      ? [`LOCK.M${verb}`, this.names.length, ...this.names]
      : [`LOCK.${verb}`, this.names[0]];
    this.doubt = { verb: more.includes('EXCLUSIVE') ? 'EXCLUSIVE' : verb,
      words: [...names, ...more, ...words], number };
  }

  /** Ends a change whose outcome is known. An object that holds nothing needs
   * no owner. */
  end(isOver = true) {
    this.session.owners.end(this.doubt.number);
    this.doubt = null;
    this.session.doubts.delete(this);
    if (isOver && this.count === 0 && !this.owed) {
      this.session.owners.put(this.tag);
      this.tag = null;
    }
  }

  /** A limited hold counts from before it was asked for the first time: an
   * attempt whose answer was lost may be the one that was granted. */
  async change(verb, more, until = null, signal = undefined) {
    const from = readClock();
    if ((verb === 'ACQUIRE' || more.includes('EXCLUSIVE')) &&
        !await this.takeTurn(until, signal)) {
      return null;
    }
    this.begin(verb, more);
    try {
      this.wait = until === null ? null : new Wait(until, this.tag.tag,
        this.names.length, this.session.durable);
      const { reply } = await this.session.request(this.doubt.words,
        { wait: this.wait, signal, fits: (one) => this.fits(one) });
      if (verb !== 'RELEASE' && reply !== null) {
        this.granted(reply, from, this.doubt.verb);
      }
      this.end();
      return reply;
    } catch (error) {
      const isAborted = signal?.aborted && error === signal.reason;
      if (isAborted || error.code === 'UNKNOWN' ||
          (error.code === 'UNREACHABLE' && verb === 'RELEASE')) {
        this.session.doubts.add(this);
      } else {
        this.end();
      }
      if (isAborted) {
        setImmediate(() => this.session.settle());
      }
      throw error;
    } finally {
      this.session.acquiring.delete(this);
    }
  }

  /** Is it what such a change is answered? Whatever else a node that is none says
   * is no grant. */
  fits(reply) {
    if (this.doubt.verb === 'RELEASE') {
      return Number.isInteger(reply);
    }
    const tokens = [reply].flat();
    return reply === null || (tokens.length === this.names.length &&
      tokens.every((token) => Number.isInteger(token) && token > 0));
  }

  isRivalOf({ names, options }) {
    return options.owner && options.owner === this.options.owner &&
      this.names.some((name) => names.includes(name));
  }

  /** The cluster takes two waits of one owner for one, with one grant. So an
   * owner asks once at a time for a lock, and not before it is known what came
   * of what nobody waits for any more: that will be given back. */
  async takeTurn(until, signal) {
    const { acquiring, doubts, timeout } = this.session;
    const limit = (until ?? performance.now()) + timeout;
    const hasRivals = (locks) => [...locks].some(
      (lock) => lock !== this && lock.isRivalOf(this));
    while (hasRivals(acquiring) || hasRivals(doubts)) {
      if (performance.now() >= (until ?? 0) && hasRivals(
        [...acquiring].filter(({ wait }) => (wait?.place ?? null) !== null))) {
        return false;
      }
      if (performance.now() >= limit) {
        throw new HaspError('UNREACHABLE', 'it is not known what came of an ' +
          `earlier request of '${this.options.owner}'`);
      }
      this.session.settle();
      await sleep(BEHIND_MS);
      this.session.check();
      signal?.throwIfAborted();
    }
    acquiring.add(this);
    return true;
  }

  /** Clears up a change whose outcome is not known: asked again under its
   * number, and not waiting, it tells what became of it. What was granted
   * meanwhile is taken back: nobody waits for it any more. */
  async settle() {
    while (this.doubt || this.owed) {
      if (!this.doubt) {
        this.owed--;
        this.begin('RELEASE', []);
        this.session.doubts.add(this);
      }
      const { verb, words } = this.doubt;
      let reply = null;
      try {
        ({ reply } = await this.session.request(words,
          { isDoubtful: true, fits: (one) => this.fits(one) }));
      } catch (error) {
        if (!error.isForgotten &&
            ['UNKNOWN', 'UNREACHABLE'].includes(error.code)) {
          throw error;
        }
        // A named owner may have other holds of it.
        reply = error.isForgotten && this.tag.isPrivate ? 0 : null;
      }
      const undo = reply === null ? undefined : UNDO[verb];
      if (reply && this.count && verb === 'EXCLUSIVE') {
        this.tokens[this.names[0]] = reply;
      }
      this.end(!undo);
      if (undo) {
        this.begin(undo[0], undo.slice(1));
        this.session.doubts.add(this);
      }
    }
  }

  /** How much of a limited hold is left: the wait may have taken longer. */
  async askLimit() {
    try {
      const { reply, sent } = await this.session.request(
        ['LOCK.SHOW', this.names[0]], { timeout: SHOW_MS });
      const mine = reply.holders.find((holder) => this.isMine(holder));
      if (mine?.hold_left_ms) {
        this.limit = { ms: Math.min(this.limit.ms, mine.hold_left_ms),
          from: sent };
      }
    } catch {
      // It is counted from before the wait.
    }
  }
}

if (Symbol.asyncDispose) { // For `await using`.
  Lock.prototype[Symbol.asyncDispose] = Lock.prototype.release;
}

/** Of a number, or { wait, signal }. What is misspelt would wait for ever. */
function howOf(how) {
  if (typeof how === 'number') {
    return { wait: how };
  }
  if (how === null || typeof how !== 'object' || how instanceof AbortSignal) {
    throw new TypeError('how to wait is told by a number of milliseconds, or ' +
      'by { wait, signal }');
  }
  checkOptions('wait', how, ['wait', 'signal']);
  return how;
}

function waitUntil(wait) {
  if (!(wait >= 0)) {
    throw new RangeError('a wait is Infinity (for ever), 0 (not at all) or a ' +
      'number of milliseconds');
  }
  return wait === 0 ? null : performance.now() + wait;
}

module.exports = { Lock };
