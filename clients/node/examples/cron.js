#!/usr/bin/env node
// SPDX-License-Identifier: MIT
//
// A cron job once per cluster: the same line in every machine's crontab.
//
//   cron.js NAME PERIOD COMMAND...
//
//   0 2 * * *  cron.js nightly "$(date -u +\%F)" /usr/local/bin/nightly
//
// The lock NAME/PERIOD is never released but left to its lease of a minute, so
// a machine with a clock that is slow by less than that finds it taken, even if
// the job has ended. A machine that dies in the midst does not repeat the job.
'use strict';

const { once } = require('node:events');
const { spawn } = require('node:child_process');
const { Session } = require('hasp');

async function main([job, period, command, ...words]) {
  const tonight = await Session.open({ ttl: 60000, name: `cron ${job}` });
  if (!await tonight.lock(`${job}/${period}`).acquire(0)) {
    await tonight.close();
    return 0; // Another machine has it.
  }
  const session = await Session.open({ name: `cron ${job}` });
  // Tonight's run waits for last night's.
  const status = await session.lock(job).run(async () =>
    (await once(spawn(command, words, { stdio: 'inherit' }), 'exit'))[0]);
  await session.close();
  return status ?? 1; // 'tonight' is not closed: its lock stays for a minute.
}

main(process.argv.slice(2)).then(process.exit, (error) => {
  console.error(error.message);
  process.exit(1);
});
