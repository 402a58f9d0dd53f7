// SPDX-License-Identifier: MIT
//
// Until when may a lease be trusted? The clock rules, without I/O.
//
// A lease of T is valid until S0 + 0.8 T, S0 being the clock when the newest
// heartbeat that was answered OK was *sent*. The leader counts T from its
// receipt, so with clocks up to 10 % off on either side the client ends first.
// With a linger, the lease is in jeopardy (not held, though an answer mends it)
// from S0 + 0.8 min(T, linger) on; from S0 + 0.8 T it is lost, and nothing
// leaves lost. Of the two clocks that counts on which more has passed.
//
// All in whole nanoseconds, as BigInt: a float would round at the very end. The
// clients in other languages do the same, tests/vectors/lease.json holds them
// to it.
'use strict';

const { readClock } = require('./clock');

const MS = 1000000n;
const ENDLESS = 2n ** 63n - 1n; // What remains of the lease of a session without end.
const LOOK = 5000n * MS; // It asks so often whether something was taken.

/** The part of a promise that may be trusted: 0.8. */
const trusted = (promised) => promised * 4n / 5n;

const larger = (a, b) => (a > b ? a : b);

/** Nanoseconds from 'then' to 'now'. */
function since(then, now) {
  return larger(0n, larger(now.monotonic - then.monotonic,
    now.boottime - then.boottime));
}

function isBefore(a, b) {
  return a.monotonic === b.monotonic ? a.boottime < b.boottime
    : a.monotonic < b.monotonic;
}

/** Nanoseconds for which a limited hold may be trusted, 'leftMs' of it having
 * been left by the answer to what was sent then. */
function holdRemaining(sent, leftMs, now = readClock()) {
  return larger(0n, trusted(BigInt(leftMs) * MS) - since(sent, now));
}

class Lease {
  constructor() {
    this.ttl = 0n;
    this.linger = 0n;
    this.sent = null;
    this.isLost = false;
    this.isEndless = false; // No time ends belief, only what is told.
  }

  /** As answered(), of a session without end. */
  answeredEndless(sent) {
    Object.assign(this, { sent, isEndless: true });
  }

  /** A heartbeat sent at 'sent' was answered OK, with these times in
   * milliseconds. Nothing revives a lease that was lost by then, whether or not
   * anybody had looked, and an older heartbeat than the newest changes
   * nothing. */
  answered(sent, ttlMs, lingerMs) {
    if (this.state(sent) === 'lost' ||
        (this.sent && isBefore(sent, this.sent))) {
      return;
    }
    Object.assign(this, { sent, ttl: BigInt(ttlMs) * MS,
      linger: BigInt(lingerMs) * MS });
  }

  /** The server said that the session has ended. */
  refuse() {
    this.isLost = true;
  }

  /** 'held', 'jeopardy' (also before the first answer) or 'lost'. */
  state(now = readClock()) {
    if (this.isLost || !this.sent) {
      return this.isLost ? 'lost' : 'jeopardy';
    }
    if (this.isEndless) {
      return 'held';
    }
    const age = since(this.sent, now);
    this.isLost = age >= trusted(this.ttl);
    if (this.isLost) {
      return 'lost';
    }
    return age < trusted(this.promised()) ? 'held' : 'jeopardy';
  }

  /** Nanoseconds for which it may still be trusted; 0 unless held. */
  remaining(now = readClock()) {
    const state = this.state(now);
    if (this.isEndless) {
      return state === 'held' ? ENDLESS : 0n;
    }
    return state === 'held'
      ? trusted(this.promised()) - since(this.sent, now) : 0n;
  }

  /** What each answer promises until the next one. */
  promised() {
    if (this.isEndless) {
      return ENDLESS;
    }
    return this.linger && this.linger < this.ttl ? this.linger : this.ttl;
  }

  /** Between heartbeats: a session is never quiet for a quarter of its
   * lease. */
  period() {
    return this.isEndless ? LOOK : this.promised() / 5n;
  }
}

module.exports = { ENDLESS, Lease, MS, holdRemaining, readClock, since, trusted };
