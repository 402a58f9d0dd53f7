// SPDX-License-Identifier: MIT
//
// A RunCoordinator for the package node-cron: of all processes that schedule a
// task, one runs each fire of it.
//
//   const cron = require('node-cron');
//   const { RunCoordinator } = require('hasp/node-cron');
//   cron.schedule('0 3 * * *', report,
//     { name: 'report', distributed: true, runCoordinator: new RunCoordinator() });
'use strict';

const { randomUUID } = require('node:crypto');

const { Session } = require('./lib/session');

const WINDOW_MS = 60000;

/** A fire is a lock 'node-cron/TASK:TIME' that is left to its time to live. It is
 * not released when the task is done: a process with a late clock would run the
 * same fire again. */
class RunCoordinator {
  /** 'window', in ms, is longer than the clocks of the processes differ; the
   * other options are those of Session.open(). */
  constructor({ window = WINDOW_MS, ...options } = {}) {
    Object.assign(this, { window, options, opening: null });
  }

  /** Resolves with whether this process is to run that fire. It fails if the
   * outcome is not known; node-cron then skips the fire. */
  async shouldRun(key, ttlMs) {
    // With a random value the request can be repeated: AGAIN says that the same
    // value is the same hold.
    const words = ['SET', `node-cron/${key}`, randomUUID(), 'NX', 'AGAIN', 'PX',
      Math.ceil(Math.max(ttlMs || 0, this.window))];
    for (let attempt = 1; ; attempt++) {
      const session = await this.session();
      try {
        return await session.ask(...words) === 'OK';
      } catch (error) {
        if (error.code !== 'LOST' || attempt > 1) {
          throw error;
        }
        // The session, which only has the connection, was cut off for too long.
        this.opening = null;
        session.close().catch(() => {});
      }
    }
  }

  /** The session, which is opened at the first fire. */
  session() {
    const opening = this.opening ?? Session.open({ name: 'node-cron', ...this.options });
    this.opening = opening;
    opening.catch(() => {
      this.opening = this.opening === opening ? null : this.opening;
    });
    return opening;
  }

  /** Closes the connection, so that the process can end. */
  async close() {
    const opening = this.opening;
    this.opening = null;
    await (await opening?.catch(() => null))?.close();
  }
}

module.exports = { RunCoordinator };
