// SPDX-License-Identifier: MIT
//
// A hold is identified by its token, since the same session and owner can acquire
// and lose a lock repeatedly. It begins with one token, and each upgrade gives it
// a newer one; all tokens in between belong to this hold only. The client believes
// in a hold because of the answer that granted it and the notices since then.
'use strict';

const { holdRemaining } = require('./lease');

// The result of a request for a lock. STALE: the request must be sent
// again, under its number.
const GRANTED = 'granted';
const OVER = 'over';
const STALE = 'stale';

const isCount = (value) => Number.isInteger(value) && value >= 0;

const isTold = (told) => told !== null && typeof told === 'object' &&
  isCount(told.token) && isCount(told.first) && told.first > 0 &&
  told.first <= told.token && isCount(told.count) && isCount(told.as_of) &&
  (told.hold_left_ms === null || isCount(told.hold_left_ms));

/** The cluster's report on holds, as a list; null: it is malformed. */
function toldAll(reply) {
  const all = [reply].flat();
  return all.every(isTold) ? all : null;
}

/** True if the part is the hold that the message describes. */
const isPart = ({ lock, first, token }, part) => part.name === lock &&
  first <= part.token && part.token <= token;

/** Judges a grant by its answer alone. 'isAgain': an earlier answer also had a
 * time limit that was over. */
function judgeTold(all, sent, isAgain) {
  const isLate = all.some(({ count, hold_left_ms: left }) => count > 0 &&
    left !== null && holdRemaining(sent, left) === 0n);
  return !isLate ? GRANTED : isAgain ? OVER : STALE;
}

/** The smallest time limit of several holds; null: none has a limit. */
function limitOf(all, from) {
  const limits = all.map((told) => told.hold_left_ms)
    .filter((left) => left !== null);
  return limits.length ? { ms: Math.min(...limits), from } : null;
}

/** The parts of a grant. 'asOf' is the newest state known to contain the hold;
 * 'isFirst': its owner did not hold it before; 'isOver': the cluster has ended
 * it. */
const partsOf = (names, all) => all.map((told, i) => ({ name: names[i],
  token: told.token, first: told.first, asOf: told.as_of,
  isFirst: told.count === 1, isOver: told.count === 0 }));

/** The result of one acquisition. */
class Grant {
  constructor(names, all, sent, reported) {
    this.reported = reported; // To hooks.
    this.parts = partsOf(names, all);
    this.shared = all.some(({ mode }) => mode === 'shared');
    this.limit = limitOf(all, sent);
    // A part is over, or the limit is over by the clock.
    this.isOver = this.parts.some(({ isOver }) => isOver);
  }

  /** The parts that the cluster might still hold. */
  kept() {
    return this.parts.filter(({ isOver }) => !isOver);
  }

  /** Ends those parts; returns the tokens that were trusted until now. */
  end(which, reason) {
    const tokens = [];
    for (const part of this.parts) {
      if (!part.isOver && which(part)) {
        tokens.push(...(this.isOver ? [] : [part.token]));
        part.isOver = true;
        this.isOver = true;
        this.reported.lost(reason);
      }
    }
    return tokens;
  }
}

module.exports = { GRANTED, Grant, OVER, STALE, isPart, judgeTold, limitOf,
  partsOf, toldAll };
