// SPDX-License-Identifier: MIT
//
// A process with a task of node-cron that fires each second, in a file:
//
//     fires.js CLIENT FILE ENDPOINTS AHEAD_MS
//
// AHEAD_MS: how far the clock of this process is ahead.
'use strict';

const [client, file, endpoints, ahead] = process.argv.slice(2);

const Real = Date;
globalThis.Date = class extends Real {
  constructor(...given) {
    super(...(given.length ? given : [Real.now() + Number(ahead)]));
  }

  static now() {
    return Real.now() + Number(ahead);
  }
};

const fs = require('node:fs');
const cron = require('node-cron');
const { RunCoordinator } = require(`${client}/node-cron`);

const runCoordinator = new RunCoordinator({ endpoints });
cron.schedule('* * * * * *', ({ date }) => {
  fs.appendFileSync(file, `${date.toISOString()} ${ahead}\n`);
}, { name: 'job', distributed: true, runCoordinator });
