// SPDX-License-Identifier: MIT
//
// For tests that clients/python/tests/node_program.py runs.
'use strict';

const readline = require('node:readline');

const lines = readline.createInterface({ input: process.stdin })[
  Symbol.asyncIterator]();

/** Has it killed, started, frozen or thawed: 'kill PORT', 'start'. */
async function tell(text) {
  console.log(text);
  return (await lines.next()).value;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

module.exports = { sleep, tell };
