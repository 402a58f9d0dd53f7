// SPDX-License-Identifier: MIT
//
// Until when may a lease be trusted? The clock rules, without I/O.
//
// A lease of T is valid until S0 + 0.8 T, S0 being the clock when the newest
// heartbeat that was answered OK was *sent*. The leader counts T from its
// receipt, so with clocks up to 10 % off on either side the client ends first.
// With a linger, the lease is in jeopardy (not held, though an answer mends it)
// from S0 + 0.8 min(T, linger) on; from S0 + 0.8 T it is lost, and nothing
// leaves lost.
//
// Node has one monotonic clock, which stands still while a machine is
// suspended. /proc/uptime counts suspended time on Linux, to 10 ms: the larger
// age counts.
'use strict';

const fs = require('node:fs');

const TRUST = 0.8;

/** Reads both clocks, in milliseconds. */
function readClock() {
  const monotonic = performance.now();
  let boottime = monotonic;
  try {
    boottime = parseFloat(fs.readFileSync('/proc/uptime', 'latin1')) * 1000;
  } catch {
    // Not Linux: the monotonic clock alone.
  }
  return { monotonic, boottime };
}

/** Milliseconds from 'then' to 'now', on whichever clock more have passed. 20
 * ms: /proc/uptime is told to 10 ms, and was read twice. */
function since(then, now) {
  return Math.max(now.monotonic - then.monotonic,
    now.boottime - then.boottime - 20);
}

class Lease {
  constructor() {
    this.ttl = 0;
    this.linger = 0;
    this.sent = null;
    this.isLost = false;
  }

  /** A heartbeat sent at 'sent' was answered OK; times in milliseconds. Nothing
   * revives a lease that was lost by then, whether or not anybody had looked,
   * and an older heartbeat than the newest changes nothing. */
  answered(sent, ttl, linger) {
    if (this.sent && (sent.monotonic < this.sent.monotonic ||
        this.state(sent) === 'lost')) {
      return;
    }
    Object.assign(this, { sent, ttl, linger });
  }

  /** The server said that the session has ended. */
  refuse() {
    this.isLost = true;
  }

  age(now) {
    return this.sent ? since(this.sent, now) : Infinity;
  }

  /** 'held', 'jeopardy' or 'lost'. */
  state(now = readClock()) {
    if (this.isLost || this.age(now) >= TRUST * this.ttl) {
      this.isLost = this.isLost || this.sent !== null;
      return 'lost';
    }
    return this.age(now) < TRUST * this.trusted() ? 'held' : 'jeopardy';
  }

  /** Milliseconds for which it may still be trusted; 0 unless held. */
  remaining(now = readClock()) {
    if (this.state(now) !== 'held') {
      return 0;
    }
    return Math.max(0, TRUST * this.trusted() - this.age(now));
  }

  trusted() {
    return this.linger ? Math.min(this.ttl, this.linger) : this.ttl;
  }

  /** A session is never quiet for a quarter of its lease. */
  beatInterval() {
    return this.trusted() / 5;
  }
}

module.exports = { Lease, TRUST, readClock, since };
