// SPDX-License-Identifier: MIT
//
// Until when may a lease be trusted? The clock rules, without I/O.
//
// A lease of T is valid until S0 + 0.8 T, where S0 is the clock when the newest
// heartbeat that was answered OK was *sent*. The leader counts T from its
// receipt, so with clocks up to 10 % off on either side the client ends first.
// With a linger, the lease is in jeopardy (not held, though an answer restores
// it) from S0 + 0.8 min(T, linger) on. From S0 + 0.8 T on it is lost, and a
// lost lease stays lost. Among the two clocks, the one on which more time has
// passed counts.
//
// All times are whole nanoseconds, as BigInt, since a float would be rounded.
// The clients in other languages follow the same rules;
// tests/vectors/lease.json checks all of them.
'use strict';

const { readClock } = require('./clock');

const MS = 1000000n;
const ENDLESS = 2n ** 63n - 1n; // Remaining time of a durable session.
const LOOK = 5000n * MS; // How often a durable session checks its holds.

/** The part of a promised time that can be trusted: 0.8. */
const trusted = (promised) => promised * 4n / 5n;

const larger = (a, b) => (a > b ? a : b);

/** Nanoseconds from 'then' to 'now', on the clock on which more have passed. */
function since(then, now) {
  return larger(0n, larger(now.monotonic - then.monotonic,
    now.boottime - then.boottime));
}

function isBefore(a, b) {
  return a.monotonic === b.monotonic ? a.boottime < b.boottime
    : a.monotonic < b.monotonic;
}

/** Nanoseconds for which a limited hold can be trusted. The answer to the
 * request sent then said that 'leftMs' of it were left. */
function holdRemaining(sent, leftMs, now = readClock()) {
  return larger(0n, trusted(BigInt(leftMs) * MS) - since(sent, now));
}

class Lease {
  constructor() {
    this.ttl = 0n;
    this.linger = 0n;
    this.sent = null;
    this.isLost = false;
    this.isEndless = false; // Only the cluster ends it, no time does.
  }

  /** Like answered(), for a durable session. */
  answeredEndless(sent) {
    Object.assign(this, { sent, isEndless: true });
  }

  /** A heartbeat sent at 'sent' was answered OK, with these times in
   * milliseconds. A lease that was lost by then stays lost, even if no check
   * has noticed the loss. An older heartbeat than the newest changes
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

  /** Nanoseconds for which the lease can be trusted; 0 unless it is held. */
  remaining(now = readClock()) {
    const state = this.state(now);
    if (this.isEndless) {
      return state === 'held' ? ENDLESS : 0n;
    }
    return state === 'held'
      ? trusted(this.promised()) - since(this.sent, now) : 0n;
  }

  /** The time that each answer promises until the next one. */
  promised() {
    if (this.isEndless) {
      return ENDLESS;
    }
    return this.linger && this.linger < this.ttl ? this.linger : this.ttl;
  }

  /** Time between heartbeats: a session is never silent for a quarter of its
   * lease. */
  period() {
    return this.isEndless ? LOOK : this.promised() / 5n;
  }
}

module.exports = { ENDLESS, Lease, MS, holdRemaining, readClock, since, trusted };
