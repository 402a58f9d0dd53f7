// SPDX-License-Identifier: MIT
//
// A client of the hasp lock service; no dependencies.
//
//   const session = await Session.open({ name: 'billing' });
//   await session.lock('orders').run(async (lock) => {
//     lock.guard(2000);                  // may a step of 2 s begin?
//     await store.write(row, lock.token);
//   });
'use strict';

const { HaspError } = require('./lib/request');
const { Lock } = require('./lib/lock');
const { Session } = require('./lib/session');
const { Election, ReadWriteLock, Semaphore } = require('./lib/shared');
const { Watch } = require('./lib/watch');

module.exports = { Election, HaspError, Lock, ReadWriteLock, Semaphore, Session,
  Watch };
