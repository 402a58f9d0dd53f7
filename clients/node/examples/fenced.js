#!/usr/bin/env node
// SPDX-License-Identifier: MIT
//
// Writes that an old holder cannot do: what is written is called FILE.TOKEN, and
// readers take the one with the highest token. So what comes late, from a holder
// that was stopped between its last look and its write, changes nothing.
//
//   fenced.js FILE TEXT [PAUSE]    writes TEXT, PAUSE seconds after its last look
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { setTimeout: sleep } = require('node:timers/promises');
const { Session } = require('hasp');

/** The highest token of those that have written; 0: none. */
function newest(file) {
  const name = `${path.basename(file)}.`;
  return Math.max(0, ...fs.readdirSync(path.dirname(file))
    .filter((one) => one.startsWith(name) && /\.\d+$/.test(one))
    .map((one) => Number(one.slice(name.length))));
}

function write(file, text, token) {
  const fd = fs.openSync(`${file}.${token}.new`, 'w');
  fs.writeSync(fd, text);
  fs.fsyncSync(fd);
  fs.closeSync(fd);
  fs.renameSync(`${file}.${token}.new`, `${file}.${token}`);
  const seen = newest(file);
  if (token < seen) {
    fs.unlinkSync(`${file}.${token}`);
    throw new Error(`refused: token ${token} is below ${seen}`);
  }
}

async function main([file, text, pause = 0]) {
  const session = await Session.open({ ttl: 2000 });
  await session.lock('file').run(async (lock) => {
    lock.guard(500);
    const { token } = lock;
    console.log('holds token', token);
    await sleep(1000 * pause);
    write(file, text, token);
    console.log('written with token', token);
  });
  await session.close();
}

main(process.argv.slice(2)).then(process.exit, (error) => {
  console.error(error.message);
  process.exit(1);
});
