// SPDX-License-Identifier: MIT
//
// Requests, without I/O: where they go, under which numbers, what an error
// means.
'use strict';

const DEFAULT_ENDPOINTS = '127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440';
const ANSWER_MS = 4000; // For an answer; after it another node is asked.
const GRACE_MS = 2000; // For the answer to a wait, beyond the wait.
const ACKED_RANGES = 16; // That a node takes in ACKED.
const ENDLESS_WAIT_MS = 60000; // Of a session without end, each time it asks.
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

/** 'host:port,...' or a list of them; a port that is missing is 7420, and
 * 'unix:/path' is a socket of this machine. */
function parseEndpoints(endpoints) {
  const list = Array.isArray(endpoints) ? endpoints :
    (endpoints ?? process.env.HASP_ENDPOINTS ?? DEFAULT_ENDPOINTS).split(',');
  return list.map((part) => {
    const text = part.trim();
    if (text.startsWith('unix:/')) {
      return { path: text.slice('unix:'.length), text };
    }
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

/** What is told of who asks, or that the leader has no room on its disk, is no
 * result: it says nothing of an earlier sending, which may be on its way
 * still. */
function isOpenStill({ code, message }) {
  return ['NOAUTH', 'WRONGPASS', 'NOTLS'].includes(code) ||
    message.startsWith('LIMIT disk');
}

/** The error of a refusal. UNREACHABLE and UNKNOWN: ask again; but not where the
 * cluster knows nothing of that number any more (isForgotten). 'isDoubtful': an
 * earlier sending may be done. */
function judge(reply, isDoubtful = false) {
  const { code, message } = reply;
  const kinds = { NOLEADER: 'UNREACHABLE', BUSY: 'UNREACHABLE',
    MOVED: 'UNREACHABLE', EXPIRED: 'LOST', NOSESSION: 'LOST',
    FORGOTTEN: 'UNKNOWN' };
  const error = new HaspError(isDoubtful && isOpenStill(reply) ?
    'UNREACHABLE' : kinds[code] ?? code, message);
  error.isForgotten = code === 'FORGOTTEN';
  return error;
}

/** WAIT, and how long this attempt listens. Where the wait is over there is
 * none: that asks for the outcome and gives the place in the queue up. A durable
 * session may not wait for ever: nothing would end that of a client that has
 * died. */
function waitWords(until, durable) {
  const left = until === null ? 0 : until - performance.now();
  if (left <= 0) {
    return { more: [], patience: ANSWER_MS };
  }
  const forever = durable ? ENDLESS_WAIT_MS : 'FOREVER';
  return { more: ['WAIT', left === Infinity ? forever : Math.ceil(left)],
    patience: Math.min(left + GRACE_MS, SILENCE_MS) };
}

/** The owners' tags of a session, and the numbers of its requests. No two
 * requests have the same one, and one that is sent again does nothing again.
 * Each request tells which ones are over, so that the cluster may forget them.
 * A private tag is used again. */
class Owners {
  constructor() {
    this.free = [];
    this.count = 0;
    this.newest = 0;
    this.open = []; // Numbers that are not over; ascending.
    this.turn = 0; // Where the next ranges begin.
  }

  take(tag) {
    if (tag) {
      return { tag, isPrivate: false };
    }
    return this.free.pop() ??
      { tag: `${process.pid}-${++this.count}`, isPrivate: true };
  }

  put(owner) {
    if (owner.isPrivate) {
      this.free.push(owner);
    }
  }

  begin({ tag }) {
    const number = ++this.newest;
    this.open.push(number);
    return { number,
      words: ['OWNER', tag, 'REQ', number, 'ACKED', this.acked()] };
  }

  end(number) {
    this.open.splice(this.open.indexOf(number), 1);
  }

  /** '4,6-9': all up to the first one, and the ranges between open numbers; of
   * very many some, and others with the next request. */
  acked() {
    const { open, turn } = this;
    const words = [open[0] - 1];
    for (let i = 0; i < open.length; i++) {
      const at = (turn + i) % open.length;
      const end = open[at + 1] ?? this.newest + 1;
      if (open[at] + 1 < end) {
        words.push(`${open[at] + 1}-${end - 1}`);
      }
      if (words.length > ACKED_RANGES) {
        this.turn = at + 1;
        break;
      }
    }
    return words.join(',');
  }
}

module.exports = { HaspError, Owners, checkOptions, judge, parseEndpoints,
  waitWords };
