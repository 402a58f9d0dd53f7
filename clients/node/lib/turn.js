// SPDX-License-Identifier: MIT
//
// One at a time, in the order of arrival.
'use strict';

const TIMER_MAX_MS = 2 ** 31 - 1;

class Turn {
  constructor() {
    this.isTaken = false;
    this.waiting = new Set();
  }

  /** Waits until 'until' (performance.now(); null: does not wait). True: call
   * leave() afterwards. Rejects with the signal's reason if it is aborted. */
  async enter(until = Infinity, signal = undefined) {
    while (this.isTaken) {
      const left = until === null ? 0 : until - performance.now();
      if (left <= 0) {
        return false;
      }
      signal?.throwIfAborted();
      let wake;
      let timer;
      await new Promise((resolve) => {
        wake = resolve;
        timer = setTimeout(wake, Math.min(left, TIMER_MAX_MS));
        signal?.addEventListener('abort', wake);
        this.waiting.add(wake);
      });
      clearTimeout(timer);
      signal?.removeEventListener('abort', wake);
      this.waiting.delete(wake);
    }
    signal?.throwIfAborted();
    this.isTaken = true;
    return true;
  }

  /** Wakes all waiters, in the order of arrival. */
  leave() {
    this.isTaken = false;
    this.waiting.forEach((wake) => wake());
  }

  async run(work) {
    await this.enter();
    try {
      return await work();
    } finally {
      this.leave();
    }
  }
}

module.exports = { Turn };
