#!/usr/bin/env node
// SPDX-License-Identifier: MIT
//
// Leader election: start it on every machine, one of them works.
//
//   election.js [NAME]     NAME is what the others see of the leader
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');
const { Election, Session } = require('hasp');

const value = process.argv[2] ?? `process ${process.pid}`;

async function lead(leader) {
  console.log('leading with token', leader.token);
  for (;;) {
    leader.guard(500); // Throws LOST: then another may lead.
    console.log('step with token', leader.token);
    await sleep(200);
  }
}

async function main() {
  for (;;) {
    let session;
    try {
      // A leader that dies is followed 2 s after its connection closes; so a
      // step of up to 0.8 * 2 s fits into the lease.
      session = await Session.open({ ttl: 5000, linger: 2000 });
      await new Election(session, 'scheduler', { value }).run(lead);
    } catch (error) {
      console.log('not leading:', error.message);
    }
    await session?.close();
    await sleep(500);
  }
}

main();
