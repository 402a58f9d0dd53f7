#!/usr/bin/env node
// SPDX-License-Identifier: MIT
//
// A semaphore: however many are started, five work at a time.
//
//   workers.js SECONDS
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');
const { Semaphore, Session } = require('hasp');

async function main(ms) {
  const session = await Session.open();
  await new Semaphore(session, 'render', 5).slot().run(async (slot) => {
    console.log('begin');
    slot.guard(ms);
    await sleep(ms, null, { signal: slot.signal });
    console.log('end');
  });
  await session.close();
}

main(1000 * process.argv[2]);
