// SPDX-License-Identifier: MIT
//
// Requests, without I/O: endpoints, request numbers, and the meaning of errors.
'use strict';

const { toldAll } = require('./hold');

const DEFAULT_ENDPOINTS = '127.0.0.1:7420,127.0.0.1:7430,127.0.0.1:7440';
const GRACE_MS = 1000; // Extra time for the push that ends a wait.
const ACKED_RANGES = 16; // Most ranges that a node accepts in ACKED.
// Limit of one wait request of a durable session.
const ENDLESS_WAIT_MS = 60000;
// A wait is then requested again: its push might be lost.
const SILENCE_MS = 15000;
const LEAVES = ['NOLEADER', 'MOVED', 'UNKNOWN']; // Another node is asked.
const OF_ASKER = ['NOAUTH', 'WRONGPASS', 'NOTLS'];

// Commands that act for a session, or are numbered in it, and others that
// neither wait nor change anything.
const ACTING = ['SESSION.CLOSE', 'LOCK.ACQUIRE', 'LOCK.MACQUIRE',
  'LOCK.CONVERT', 'LOCK.RELEASE', 'LOCK.MRELEASE', 'LOCK.CANCEL', 'LOCK.NOTE',
  'LOCK.OBJECT', 'LOCK.PLEASE', 'FENCE.ADMIT', 'FENCE.REMOVE', 'SESSION.HOLDS'];
const READING = ['SESSION.SHOW', 'SESSION.LIST', 'LOCK.SHOW', 'LOCK.LIST',
  'LOCK.WHY', 'LOCK.TOP', 'LOCK.GRAPH', 'LOCK.CHECK', 'LOCK.HISTORY',
  'FENCE.SHOW', 'FENCE.LIST'];
const ALONE = ['WAIT', 'FOREVER'];

/** 'code' says what the caller can do: UNREACHABLE (nothing was done), UNKNOWN
 * (the outcome is not known), LOST (the lease cannot be trusted), SHORT (the
 * step does not fit into the lease now), SEAL (onGrant failed or was late, and
 * the lock was given back), or the cluster's error word: NOTHELD, LIMIT ... */
class HaspError extends Error {
  constructor(code, text) {
    super(text);
    this.name = 'HaspError';
    this.code = code;
  }
}

/** Refuses unknown options: a misspelt one would silently mean the default. */
function checkOptions(what, options, known) {
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown) {
    throw new TypeError(`a ${what} has no option '${unknown}'; use one of ` +
      known.join(', '));
  }
}

// [host] or host, with or without a port; or an IPv6 address alone. Characters
// that no host name has are refused: they mean a URL, or a list with other
// commas.
const ADDRESS = new RegExp('^(?:\\[([^\\][\\s,/;@]+)\\]|([^\\][\\s,/;@:]+))' +
  '(?::(\\d{1,5}))?$|^([^\\][\\s,/;@:]*:[^\\][\\s,/;@:]*:[^\\][\\s,/;@]*)$');

/** 'host:port,...' or a list of them. The default port is 7420; 'unix:/path' is
 * a socket of this machine. */
function parseEndpoints(endpoints) {
  const given = endpoints ?? process.env.HASP_ENDPOINTS ?? DEFAULT_ENDPOINTS;
  const list = typeof given === 'string' ? given.split(',') : given;
  if (!Array.isArray(list) || !list.length ||
      list.some((part) => typeof part !== 'string')) {
    throw new TypeError(`${JSON.stringify(given)} names no node; write ` +
      'host:port, as in 127.0.0.1:7420, or a list of such texts');
  }
  return list.map((part) => parseEndpoint(part.trim()));
}

function parseEndpoint(text) {
  if (text.startsWith('unix:/')) {
    return { path: text.slice('unix:'.length), text };
  }
  const [, inBrackets, name, number, ipv6] = ADDRESS.exec(text) ?? [];
  const host = inBrackets ?? name ?? ipv6;
  const port = Number(number ?? 7420);
  if (!host || port < 1 || port > 65535) {
    throw new TypeError(`'${text}' is not an address of a node; write ` +
      'host:port, as in 127.0.0.1:7420');
  }
  return { host, port,
    text: host.includes(':') ? `[${host}]:${port}` : `${host}:${port}` };
}

/** The durations of a session, in milliseconds; 0 means none, except for 'ttl'
 * and 'timeout'. */
function checkDurations({ ttl, timeout, linger = 0, alive = 0 }) {
  const all = { ttl, timeout, linger, alive };
  for (const [name, value] of Object.entries(all)) {
    const mayBeNone = value === 0 && name !== 'ttl' && name !== 'timeout';
    if (!mayBeNone && !(Number.isFinite(value) && value > 0)) {
      throw new RangeError(`${name}: ${value}: a number of milliseconds is ` +
        'expected, above 0');
    }
  }
}

/** True if the refusal concerns only this attempt: the client's credentials, or a
 * full disk of the leader. An earlier attempt might still be in flight. */
function isOpenStill({ code, message }) {
  return OF_ASKER.includes(code) ||
    message.startsWith('LIMIT disk');
}

/** The error of a refusal. UNREACHABLE and UNKNOWN: ask again, unless the cluster
 * no longer has the result of that request number (isForgotten). 'isDoubtful':
 * an earlier attempt might have been done. */
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

/** True if the reply has the form of an answer to KEEP. */
const isLease = (reply) => reply !== null && typeof reply === 'object' &&
  (reply.ttl_ms === null || (Number.isInteger(reply.ttl_ms) &&
    reply.ttl_ms > 0 && Number.isInteger(reply.linger_ms ?? 0)));

const isOpened = (reply) => isLease(reply) && Number.isInteger(reply.id) &&
  reply.id > 0;

/** True if the command acts for the session that it names. */
const isActing = ([verb]) => ACTING.includes(String(verb).toUpperCase());

/** True if the command names the session for which it acts. Its first argument
 * is a name, except that of SESSION.CLOSE. */
function namesSession(words) {
  const [verb, ...rest] = words.map((word) => String(word).toUpperCase());
  return rest.includes('SESSION', verb === 'SESSION.CLOSE' ? 0 : 1);
}

/** True if the command would end this session without its object's
 * knowledge. */
const closesSession = (words) => !namesSession(words) &&
  String(words[0]).toUpperCase() === 'SESSION.CLOSE';

/** True if a refusal of the command can concern another session. */
const isOfOther = (words) => !isActing(words) || namesSession(words);

/** True if the command needs a connection of its own, because it waits, changes
 * the connection, or names a session itself. */
function goesAlone(words) {
  const [verb, , ...rest] = words.map((word) => String(word).toUpperCase());
  return !(ACTING.includes(verb) || READING.includes(verb)) ||
    namesSession(words) || rest.some((word) => ALONE.includes(word));
}

/** A wait of one owner for locks. A request that must wait is answered QUEUED
 * and its place in the queue; a push reports the end. The push can come before
 * that answer, twice or never, so the wait is requested again from time to time,
 * under the same request number. */
class Wait {
  constructor(until, owner, count, isDurable, queued) {
    Object.assign(this, { until, owner, count, isDurable, queued });
    this.words(); // Nothing has been requested yet.
  }

  /** The WAIT words; none if the wait is over, which asks for the outcome and
   * leaves the queue. A durable session waits with a limit, since the unlimited
   * wait of a dead client would never end. */
  words() {
    this.place = null;
    this.told = {};
    this.wake = () => {}; // Wakes the parked request.
    const left = this.until - performance.now();
    const forever = this.isDurable ? ENDLESS_WAIT_MS : 'FOREVER';
    return left <= 0 ? [] :
      ['WAIT', left === Infinity ? forever : Math.ceil(left), 'PUSH'];
  }

  /** When the wait must be requested again, at most 'limit'. */
  look(limit) {
    return Math.min(this.until + GRACE_MS, (this.until + limit) / 2,
      performance.now() + SILENCE_MS);
  }

  isQueued(reply) {
    const found = /^QUEUED (\d+)$/.exec(typeof reply === 'string' ? reply : '');
    this.place = found && Number(found[1]);
    if (found) {
      this.queued();
    }
    return found !== null;
  }

  isOver() {
    return this.place !== null && this.told.wait === this.place;
  }

  pushed(told) {
    if (told.owner === this.owner) {
      this.told = told;
      if (this.isOver()) {
        this.wake();
      }
    }
  }

  /** The grant in the form of the answer; null if it must be requested, as for a
   * hold with a time limit: a push does not say when the limit began. */
  granted() {
    const { grants } = this.told;
    return this.isOver() && Array.isArray(grants) &&
      toldAll(grants)?.length === this.count &&
      grants.every((told) => told.hold_left_ms === null) ? grants : null;
  }
}

/** The owner tags of a session and its request numbers. A number is used for one
 * request, which takes effect once however often it is sent. Each request lists
 * the finished numbers, so that the cluster can forget their results. Private
 * tags are reused. */
class Owners {
  constructor() {
    this.free = [];
    this.count = 0;
    this.newest = 0;
    this.open = []; // Unfinished numbers, ascending.
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

  /** '4,6-9': all numbers up to the first one, and the ranges between open
   * numbers. If there are too many ranges, the next request sends the others. */
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

module.exports = { HaspError, LEAVES, OF_ASKER, Owners, Wait, checkDurations,
  checkOptions, closesSession, goesAlone, isActing, isLease, isOfOther, isOpened, judge,
  parseEndpoints };
