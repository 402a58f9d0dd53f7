// SPDX-License-Identifier: MIT
//
// Locks: what is asked of the cluster for them, and what is believed meanwhile.
'use strict';

const { HaspError, checkOptions } = require('./request');
const { toMs } = require('./core');
const { MS, holdRemaining, readClock, trusted } = require('./lease');

const OPTIONS = ['owner', 'shared', 'slots', 'value', 'delay', 'hold', 'barge'];
const SHOW_MS = 1000;

/** A lock by name, owned by this object: two objects exclude each other, the
 * same one may acquire again, so it is for one thread of control. Durations are
 * in milliseconds. Belief ends when the release is sent. */
class Lock {
  constructor(session, name, options) {
    checkOptions('lock', options, OPTIONS);
    this.session = session;
    this.name = name;
    this.options = options;
    this.token = null;
    this.count = 0;
    this.tag = null; // The owner, while there is something to own.
    this.limit = null; // Of a limited hold: { ms, from }.
    this.hasEnded = false;
    this.doubt = null; // A change of unknown outcome: { words, number }.
    this.tail = Promise.resolve();
  }

  /** Waits up to 'wait' ms (Infinity: for ever, 0: not at all). Resolves with
   * true or false. */
  async acquire(wait = Infinity) {
    if (!(wait >= 0)) {
      throw new RangeError('a wait is Infinity (for ever), 0 (not at all) or ' +
        'a number of milliseconds');
    }
    const { shared, slots, value, delay, hold, barge } = this.options;
    const words = [...(shared ? ['SHARED'] : []),
      ...(slots ? ['SLOTS', slots] : []), ...(value ? ['VALUE', value] : []),
      ...(delay ? ['DELAY', delay] : []), ...(hold ? ['HOLD', hold] : []),
      ...(barge ? ['BARGE'] : [])];
    return this.inTurn(async () => {
      const until = wait === 0 ? null : performance.now() + wait;
      await this.settle();
      if (await this.change('LOCK.ACQUIRE', words, until) === null) {
        return false;
      }
      if (this.limit && until !== null) {
        await this.askLimit();
      }
      this.session.check();
      return true;
    });
  }

  /** Gives one acquisition back, whatever it rejects with: the session goes on
   * trying. NOTHELD: the cluster had ended the hold before. */
  async release() {
    this.count = Math.max(0, this.count - 1);
    if (this.count === 0) {
      this.token = null;
      this.session.held.delete(this);
    }
    return this.inTurn(async () => {
      await this.settle();
      return this.change('LOCK.RELEASE', [], null);
    });
  }

  /** Leaves the queue; a waiting acquire() then resolves with false. True if
   * there was one in the queue. */
  async cancel() {
    if (!this.tag) {
      return false;
    }
    const { reply } = await this.session.request(
      ['LOCK.CANCEL', this.name, 'OWNER', this.tag.tag]);
    return reply === 1;
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
  guard(need) {
    const ns = this.left();
    if (ns > 0n && ns >= need * Number(MS)) {
      return;
    }
    const left = toMs(ns);
    if (this.count === 0) {
      throw new HaspError('LOST', `"${this.name}" is not held`);
    }
    this.session.check();
    if (this.hasEnded) {
      throw new HaspError('LOST', `"${this.name}" has been taken away`);
    }
    const most = Math.min(toMs(trusted(this.session.lease.promised())),
      0.8 * (this.options.hold ?? Infinity));
    const never = `; it is never more than ${most.toFixed(0)} ms, 0.8 of the ` +
      'smallest of ttl, linger and hold';
    throw new HaspError('SHORT', `"${this.name}": ${left.toFixed(0)} ms left ` +
      `of the lease, ${need} ms needed${need > most ? never : ''}`);
  }

  // --- changes: one after the other, each numbered ---------------------------

  inTurn(run) {
    const result = this.tail.then(run);
    this.tail = result.catch(() => {});
    return result;
  }

  begin(verb, more) {
    this.tag ??= this.session.owners.take(this.options.owner);
    const { number, words } = this.session.owners.begin(this.tag);
    this.doubt = { words: [verb, this.name, ...more, ...words], number };
  }

  /** The outcome is known. What holds nothing needs no owner. */
  end(isOver = true) {
    this.session.owners.end(this.doubt.number);
    this.doubt = null;
    this.session.doubts.delete(this);
    if (isOver && this.count === 0) {
      this.session.owners.put(this.tag);
      this.tag = null;
    }
  }

  /** A limited hold counts from before it was asked for the first time: an
   * attempt whose answer was lost may be the one that was granted. */
  async change(verb, more, until) {
    const isAcquire = verb === 'LOCK.ACQUIRE';
    const from = readClock();
    this.begin(verb, more);
    try {
      const { reply } = await this.session.request(this.doubt.words, until);
      this.granted(isAcquire && reply, from);
      this.end();
      return reply;
    } catch (error) {
      if (error.code === 'UNKNOWN' ||
          (error.code === 'UNREACHABLE' && !isAcquire)) {
        this.session.doubts.add(this);
      } else {
        this.end();
      }
      throw error;
    }
  }

  granted(token, from) {
    if (token && ++this.count === 1) {
      this.hasEnded = false;
      this.limit = this.options.hold ? { ms: this.options.hold, from } : null;
      this.session.held.add(this);
    }
    this.token = token || this.token;
  }

  /** Clears up a change whose outcome is not known: asked again under its
   * number, and not waiting, it tells what became of it. A lock that was
   * granted meanwhile is given back: nobody waits for it any more. */
  async settle() {
    while (this.doubt) {
      let reply = null;
      try {
        ({ reply } = await this.session.request(this.doubt.words));
      } catch (error) {
        if (!error.isForgotten &&
            ['UNKNOWN', 'UNREACHABLE'].includes(error.code)) {
          throw error;
        }
        // A named owner may have other holds of it.
        reply = error.isForgotten && this.tag.isPrivate ? 0 : null;
      }
      const isGranted = reply !== null &&
        this.doubt.words[0] === 'LOCK.ACQUIRE';
      this.end(!isGranted);
      if (isGranted) {
        this.begin('LOCK.RELEASE', []);
        this.session.doubts.add(this);
      }
    }
  }

  /** How much of a limited hold is left: the wait may have taken longer. */
  async askLimit() {
    try {
      const { reply, sent } = await this.session.request(
        ['LOCK.SHOW', this.name], null, SHOW_MS);
      const mine = reply.holders.find((holder) =>
        holder.owner === this.tag.tag &&
        String(holder.session) === this.session.id);
      if (mine?.hold_left_ms) {
        this.limit = { ms: Math.min(this.limit.ms, mine.hold_left_ms),
          from: sent };
      }
    } catch {
      // It is counted from before the wait.
    }
  }

  /** Is it this hold that the cluster has ended? True once. */
  endedBy({ lock, owner, token }) {
    if (this.hasEnded || lock !== this.name || owner !== this.tag?.tag ||
        token !== this.token) {
      return false;
    }
    this.hasEnded = true;
    return true;
  }
}

module.exports = { Lock };
