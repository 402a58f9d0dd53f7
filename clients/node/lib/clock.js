// SPDX-License-Identifier: MIT
//
// Two clocks, in nanoseconds (BigInt): 'monotonic' stops while the machine is
// suspended, 'boottime' does not.
//
// Node.js has only the first. On Linux /proc/uptime includes suspended time, but
// in steps of 10 ms, rounded down, and it is read a moment later. So boottime is
// the monotonic clock plus the time that the machine has slept: if uptime has
// gained more than 30 ms on the monotonic clock, the machine has slept for that
// long and up to 10 ms more. Errors are on the safe side: a delay of the process
// between the two readings counts as sleep.
'use strict';

const fs = require('node:fs');

const STEP = 10000000n;
const NOISE = 30000000n;

class Clocks {
  /** Both in nanoseconds; 'uptime' returns null if the system has none. */
  constructor(monotonic, uptime) {
    this.monotonic = monotonic;
    this.uptime = uptime;
    this.slept = 0n;
    this.gap = null; // Least uptime - monotonic since the last sleep.
  }

  read() {
    const monotonic = this.monotonic(); // First: see above.
    const uptime = this.uptime();
    if (uptime !== null) {
      const gap = uptime - monotonic;
      if (this.gap !== null && gap - this.gap > NOISE) {
        this.slept += gap - this.gap + STEP;
        this.gap = gap;
      } else if (this.gap === null || gap < this.gap) {
        this.gap = gap;
      }
    }
    return { monotonic, boottime: monotonic + this.slept };
  }
}

const text = Buffer.alloc(64);
let file; // Is kept open: each request reads the clocks several times.

/** "12345.67 ..." in nanoseconds, to the hundredth exactly. */
function uptime() {
  try {
    file ??= fs.openSync('/proc/uptime');
    const size = fs.readSync(file, text, 0, text.length, 0);
    const [, seconds, hundredths] = /^(\d+)\.(\d\d)/.exec(
      text.latin1Slice(0, size));
    return BigInt(seconds) * 1000000000n + BigInt(hundredths) * STEP;
  } catch {
    return null; // Not Linux: the monotonic clock alone.
  }
}

const clocks = new Clocks(() => process.hrtime.bigint(), uptime);
clocks.read();

/** Reads both clocks. */
function readClock() {
  return clocks.read();
}

module.exports = { Clocks, readClock };
