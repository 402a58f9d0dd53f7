// SPDX-License-Identifier: MIT
//
// Requests, without I/O: where they go, under which numbers, what an error
// means.
'use strict';

const DEFAULT_ENDPOINTS = '127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440';
const ANSWER_MS = 4000; // For an answer; after it another node is asked.
const GRACE_MS = 2000; // For the answer to a wait, beyond the wait.
const SILENCE_MS = 15000; // A wait is asked again then: its node may be frozen.

/** 'code' says what can be done about it: UNREACHABLE (nothing was done),
 * UNKNOWN (the outcome is not known), LOST (the lease cannot be trusted), SHORT
 * (the step does not fit into it now), or the cluster's own word: NOTHELD,
 * LIMIT ... */
class HaspError extends Error {
  constructor(code, text) {
    super(text);
    this.name = 'HaspError';
    this.code = code;
  }
}

/** A name that is misspelt would mean a default. */
function checkOptions(what, options, known) {
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown) {
    throw new TypeError(`a ${what} has no option '${unknown}'; it has ` +
      known.join(', '));
  }
}

/** 'host:port,...' or a list of them; a port that is missing is 7420. */
function parseEndpoints(endpoints) {
  const list = Array.isArray(endpoints) ? endpoints :
    (endpoints ?? process.env.HASP_ENDPOINTS ?? DEFAULT_ENDPOINTS).split(',');
  return list.map((part) => {
    const text = part.trim();
    const found = /^(?:\[([^\]]+)\]|([^:[\]]+))(?::(\d+))?$/.exec(text) ??
      /^([^[\]]*:[^[\]]*:[^[\]]*)()()$/.exec(text); // IPv6 alone.
    const host = found?.[1] ?? found?.[2];
    const port = Number(found?.[3] || 7420);
    if (!host || port < 1 || port > 65535) {
      throw new TypeError(`'${part}' is no address of a node; write ` +
        'host:port, as in 127.0.0.1:7420');
    }
    return { host, port, text: `${host}:${port}` };
  });
}

/** The error of a refusal. UNREACHABLE and UNKNOWN: ask again. */
function judge({ code, message }) {
  const kinds = { NOLEADER: 'UNREACHABLE', BUSY: 'UNREACHABLE',
    MOVED: 'UNREACHABLE', EXPIRED: 'LOST', NOSESSION: 'LOST' };
  return new HaspError(kinds[code] ?? code, message);
}

/** WAIT, and how long this attempt listens. Where the wait is over there is
 * none: that asks for the outcome and gives the place in the queue up. */
function waitWords(until) {
  const left = until === null ? 0 : until - performance.now();
  if (left <= 0) {
    return { more: [], patience: ANSWER_MS };
  }
  return { more: ['WAIT', left === Infinity ? 'FOREVER' : Math.ceil(left)],
    patience: Math.min(left + GRACE_MS, SILENCE_MS) };
}

/** An owner's tag and the numbers of its requests. A number that is sent again
 * does nothing again; all below the oldest open one may be forgotten. */
class Owner {
  constructor(tag) {
    this.tag = tag;
    this.newest = 0;
    this.open = new Set();
  }

  begin() {
    this.open.add(++this.newest);
    return { number: this.newest, words: ['OWNER', this.tag, 'REQ', this.newest,
      'ACKED', Math.min(...this.open) - 1] };
  }

  end(number) {
    this.open.delete(number);
  }
}

/** Of a session. A private owner is used again, so that the cluster need not
 * remember the numbers of ever more of them. */
class Owners {
  constructor() {
    this.named = new Map();
    this.free = [];
    this.count = 0;
  }

  take(tag) {
    if (!tag) {
      return this.free.pop() ?? new Owner(`${process.pid}-${++this.count}`);
    }
    if (!this.named.has(tag)) {
      this.named.set(tag, new Owner(tag));
    }
    return this.named.get(tag);
  }

  put(owner) {
    if (!this.named.has(owner.tag)) {
      this.free.push(owner);
    }
  }
}

module.exports = { HaspError, Owners, checkOptions, judge, parseEndpoints,
  waitWords };
