// SPDX-License-Identifier: MIT
//
// The hook onGrant: it seals the resource at the token before the program learns
// that it has the lock.
'use strict';

const { HaspError } = require('./request');
const { readClock } = require('./clock');
const { since } = require('./lease');
const { toMs } = require('./core');

const TIMER_MAX_MS = 2 ** 31 - 1;

/** Runs the hook for a grant of the lock. Rejects unless the lock is sealed and
 * held; otherwise it was given back. 'stop' aborts it. */
async function seal(lock, grant, stop) {
  const { onGrant, sealTime = Infinity } = lock.options;
  const { signal } = lock;
  const began = readClock();
  // Renewals of the lease while the hook runs do not prolong it.
  const limit = Math.min(sealTime, lock.remaining());
  const left = () => limit - toMs(since(began, readClock()));
  const cut = cutOff(left, signal, stop);
  let failure = null;
  try {
    const hook = (async () => {
      for (const { name, token } of grant.parts.filter((one) => one.isFirst)) {
        await onGrant(name, token, { signal });
      }
    })().catch((error) => {
      failure = { error };
    });
    await Promise.race([hook, cut.promise]);
  } finally {
    cut.clear();
  }
  const isLate = left() <= 0;
  const isLost = grant.isOver || !lock.grants.includes(grant) ||
    !lock.session.isAlive();
  if (failure || isLate || isLost || stop.aborted) {
    await lock.giveBack(grant);
    stop.throwIfAborted();
    lock.session.check();
    throw errorOf(lock, { isLost, isLate, limit, failure });
  }
}

/** A promise that resolves at the limit, or when the hold or the wish for it
 * ends. */
function cutOff(left, ...signals) {
  let timer;
  let resolve;
  const promise = new Promise((found) => {
    resolve = found;
  });
  const look = () => {
    if (left() <= 0) {
      resolve();
    } else {
      timer = setTimeout(look, Math.min(Math.ceil(left()), TIMER_MAX_MS));
    }
  };
  look();
  for (const signal of signals) {
    signal.addEventListener('abort', resolve);
    if (signal.aborted) {
      resolve();
    }
  }
  return { promise,
    clear() {
      clearTimeout(timer);
      signals.forEach((one) => one.removeEventListener('abort', resolve));
    } };
}

function errorOf({ name }, { isLost, isLate, limit, failure }) {
  if (isLost) {
    return new HaspError('LOST', `"${name}" was taken away while onGrant ran`);
  }
  const error = new HaspError('SEAL', isLate
    ? `onGrant of "${name}" took longer than ${limit.toFixed(0)} ms; the lock ` +
      'was given back'
    : `onGrant of "${name}" failed, and the lock was given back: ` +
      `${failure.error?.message ?? failure.error}`);
  error.cause = failure?.error;
  return error;
}

module.exports = { seal };
