// SPDX-License-Identifier: MIT
//
// Two clocks, in nanoseconds (BigInt): 'monotonic' stands still while the
// machine is suspended, 'boottime' does not.
//
// Node has the first alone. On Linux /proc/uptime counts suspended time, but is
// told in steps of 10 ms, rounded down, and read a moment later. So boottime is
// the monotonic clock and what the machine has slept: where uptime has gained
// more than 30 ms on the monotonic clock, it has slept for that and up to 10 ms
// longer. What errs, errs to the side of caution: a process that was held up
// between the two readings takes that for sleep.
'use strict';

const fs = require('node:fs');

const STEP = 10000000n;
const NOISE = 30000000n;

class Clocks {
  /** Both in nanoseconds; 'uptime' gives null where there is none. */
  constructor(monotonic, uptime) {
    this.monotonic = monotonic;
    this.uptime = uptime;
    this.slept = 0n;
    this.gap = null; // Of uptime to monotonic: the least since the last sleep.
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
