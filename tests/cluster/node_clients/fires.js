// SPDX-License-Identifier: MIT
//
// A process with a task of node-cron that fires each second, in a file:
//
//     fires.js CLIENT FILE ENDPOINTS AHEAD_S
//
// Each fire that it runs is a line: its time, AHEAD_S.
'use strict';

const fs = require('node:fs');

const [client, file, endpoints, ahead] = process.argv.slice(2);

const cron = require('node-cron');
const { RunCoordinator } = require(`${client}/node-cron`);

const runCoordinator = new RunCoordinator({ endpoints });
cron.schedule('* * * * * *', ({ date }) => {
  fs.appendFileSync(file, `${date.toISOString()} ${ahead}\n`);
}, { name: 'job', distributed: true, runCoordinator });
