// SPDX-License-Identifier: MIT
//
// The lease of a session, and its requests.
'use strict';

const { EventEmitter } = require('node:events');
const { debuglog } = require('node:util');
const { alarm } = require('./connection');
const { credentialsOf } = require('./credentials');
const { ReplyError } = require('./resp');
const { ENDLESS, Lease, MS, readClock } = require('./lease');
const { Link, denial, retryPause, sleep } = require('./link');
const { HaspError, LEAVES, OF_ASKER, Owners, checkDurations, closesSession,
  goesAlone, isActing, isOfOther, judge, parseEndpoints } = require('./request');

const ATTEMPT_MIN_MS = 250; // For the answer to the last attempt.

const STRANGE = 'the peer is not a hasp node: an unexpected answer';
const debug = debuglog('hasp'); // NODE_DEBUG=hasp logs each request.

/** Milliseconds of nanoseconds. */
const toMs = (ns) => (ns === ENDLESS ? Infinity : Number(ns) / Number(MS));

const isOpenStill = ({ code, isForgotten }) => !isForgotten &&
  ['UNREACHABLE', 'UNKNOWN'].includes(code);

const isEndOfSession = ({ code }) =>
  ['EXPIRED', 'NOSESSION', 'BLACKLISTED'].includes(code);

/** The errors of a request's attempts, and the deadline for more of them. */
class Trouble {
  constructor(limit, isDoubtful) {
    this.isDoubtful = isDoubtful; // An attempt might have been done.
    this.limit = limit;
    this.margin = Math.min(ATTEMPT_MIN_MS, (limit - performance.now()) / 4);
    this.last = new Map();
  }

  /** The last moment to begin an attempt. A later one that gets no answer would
   * turn a certain outcome, nothing was done, into an unknown one. */
  latest() {
    return this.isDoubtful ? this.limit : this.limit - this.margin;
  }

  note(text, { message }, isSent) {
    this.isDoubtful ||= isSent;
    // A missing answer does not replace an error that was reported before.
    if (message !== 'no answer' || !this.last.has(text)) {
      this.last.set(text, message);
    }
  }

  error() {
    const told = [...this.last].map((pair) => pair.join(': ')).join('; ');
    return this.isDoubtful ?
      new HaspError('UNKNOWN', `no answer in time, it may have been done (${told})`) :
      new HaspError('UNREACHABLE', `no node could do it (${told})`);
  }
}

/** The part of a session that its locks use. */
class Core extends EventEmitter {
  constructor({ endpoints, timeout, tls, secretFile, durable, ttl, linger,
    alive, ownConnection }) {
    super();
    checkDurations({ ttl, timeout, linger, alive });
    this.endpoints = parseEndpoints(endpoints);
    const credentials = credentialsOf(tls, secretFile);
    this.link = new Link(this.endpoints, credentials);
    // Sessions with equal keys share a connection. The lease is part of the key
    // because the heartbeat interval is one for the whole connection.
    this.linkKey = ownConnection ? null : JSON.stringify([this.endpoints,
      credentials.id, durable ? 'durable' : [ttl, linger]]);
    this.hasJoined = false;
    this.tie = null; // Or the Tie of the session.
    this.timeout = timeout;
    this.durable = Boolean(durable);
    this.lease = new Lease();
    this.why = 'the lease has run out';
    this.owners = new Owners();
    this.newest = 0; // The newest notice of an end that was sent or dropped.
    this.seen = 0; // The newest notice that was handled.
    this.held = new Set();
    this.doubts = new Set(); // Locks with an unknown outcome.
    this.acquiring = new Set(); // Locks being requested.
    this.waits = new Set();
    this.ends = new Set(); // Callbacks that end requests with the session.
  }

  state() {
    return this.lease.state();
  }

  /** Milliseconds for which the session's holds can be trusted; Infinity for a
   * durable session. Sends no request. */
  remaining() {
    return toMs(this.lease.remaining());
  }

  /** With the id, it lets another process act for the session. Throws while the
   * session is, or can be, tied to this process: see untie(). */
  get secret() {
    if (this.tie && !this.tie.mayBeHandedOver()) {
      throw new TypeError('the session is tied to this process, and ends with ' +
        'it: call untie() before you hand it over');
    }
    return this.proof;
  }

  /** True while the session is tied to this process (the option 'tie'). */
  isTied() {
    return this.tie?.isTied ?? false;
  }

  /** Ends the tie to this process, for good, so that another process can take
   * over the session. UNREACHABLE: the agent has not confirmed it. */
  async untie() {
    this.check();
    await this.tie?.undo();
  }

  check() {
    if (this.id && this.state() === 'lost') {
      throw new HaspError('LOST',
        `the session is lost: ${this.why}; open another one`);
    }
  }

  refuse(why) {
    this.why = why;
    this.lease.refuse();
  }

  refusal(reply, isDoubtful) {
    const error = judge(reply, isDoubtful);
    if (this.lease.isEndless && error.code === 'BLACKLISTED') {
      error.code = 'LOST'; // There is no lease to wait for.
    }
    if (error.code === 'LOST') {
      this.refuse(error.message);
    }
    return error;
  }

  /** Leaves the connection; requests in flight fail. */
  quit() {
    this.ends.forEach((end) => end(new Error('given up')));
    this.tie?.end();
    if (this.hasJoined) {
      this.hasJoined = false;
      this.link.quit(this);
    }
  }

  // --- requests --------------------------------------------------------------

  /** Sends any repeatable command of docs/protocol.md and returns its answer. The
   * command is sent again if a connection fails. */
  async ask(...words) {
    if (!words.length) {
      throw new TypeError("ask() needs a command, as in ask('LOCK.SHOW', 'a')");
    }
    if (closesSession(words)) {
      throw new TypeError('ask() does not close its own session: use close()');
    }
    const isOther = isOfOther(words);
    if (!goesAlone(words)) {
      return (await this.request(words, { isOther })).reply;
    }
    const link = this.link.another();
    try {
      return (await this.request(words, { link, isOther })).reply;
    } finally {
      link.close();
    }
  }

  /** Sends the request until an answer fits. For a lock, the timeout counts from
   * the end of the wait. 'isDoubtful': the request was sent before under this
   * number, so it might have been done. 'isOther': a refusal can concern another
   * session. Each attempt is added to 'asked', with
   * its connection. Resolves with the reply, the time just before the answered
   * request was sent, and the connection. */
  async request(words, { wait = null, timeout = this.timeout, signal,
    isDoubtful = false, link = null, fits = () => true, asked = [],
    isOther = false } = {}) {
    const limit = (wait?.until ?? performance.now()) + timeout;
    const trouble = new Trouble(limit, isDoubtful);
    const all = link === null && isActing(words)
      ? [...words, 'SESSION', this.id] : words;
    if (wait) {
      this.waits.add(wait);
    }
    try {
      for (let attempt = 1; ; attempt++) {
        this.check();
        signal?.throwIfAborted();
        const { refused, ...answer } = await this.attempt(link ?? this.link,
          all, { wait, signal, limit, trouble, fits, asked, isOther });
        if ('reply' in answer) {
          return answer;
        }
        const pause = refused && (!LEAVES.includes(refused) ||
          attempt % this.endpoints.length === 0) ? retryPause(attempt) : 0;
        if (performance.now() + pause >= trouble.latest()) {
          this.check();
          throw trouble.error();
        }
        await sleep(pause);
      }
    } finally {
      this.waits.delete(wait);
    }
  }

  /** Resolves with the answer. If the request must be sent again, resolves with
   * the error word of the refusal, or nothing. */
  async attempt(link, words,
    { wait, signal, limit, trouble, fits, asked, isOther }) {
    let { text } = link.endpoint();
    let isSent = false;
    let line;
    let sent;
    let reply;
    try {
      line = link.line ??
        await this.until(trouble.latest(), signal, link.opened());
      ({ text } = line.endpoint);
      if (performance.now() > trouble.latest()) {
        throw new Error('no answer');
      }
      await this.ready(line, limit, signal);
      isSent = line.error === null;
      sent = readClock();
      const answer = line.ask([...words, ...wait?.words() ?? []]);
      asked.push({ line, answer });
      reply = await this.until(limit, signal, answer);
    } catch (error) {
      signal?.throwIfAborted();
      debug('%s: %j: %s', text, words, error.message);
      if (error.refusal && !trouble.isDoubtful &&
          !link.denied(line, error.message)) {
        throw this.refusal(error.refusal);
      }
      trouble.note(text, error, isSent);
      return {};
    }
    debug('%s: %j: %j', text, words, reply);
    if (wait?.isQueued(reply)) {
      trouble.isDoubtful = true;
      if (line === link.line) {
        await this.park(wait, limit, signal);
      }
      reply = wait.granted();
      if (reply === null) {
        return {};
      }
    }
    if (!(reply instanceof ReplyError)) {
      if (!fits(reply)) {
        line.fail(new Error(STRANGE));
        trouble.note(text, line.error, true);
        return {};
      }
      link.worked(line);
      return { reply, sent, line };
    }
    if (OF_ASKER.includes(reply.code) && link.denied(line, reply.message)) {
      trouble.note(text, reply, false);
      return {};
    }
    const error = isOther && isEndOfSession(reply)
      ? new HaspError(reply.code, reply.message)
      : this.refusal(reply, trouble.isDoubtful);
    if (!isOpenStill(error)) {
      if (!OF_ASKER.includes(reply.code)) {
        link.worked(line);
      }
      throw error;
    }
    trouble.note(text, error, reply.code === 'UNKNOWN');
    if (LEAVES.includes(reply.code)) {
      link.leave(line, error.message);
    }
    return { refused: reply.code };
  }

  /** Waits until a push ends the wait, or the wait must be requested again. */
  async park(wait, limit, signal) {
    if (wait.isOver()) {
      return;
    }
    try {
      await this.until(wait.look(limit), signal, new Promise((resolve) => {
        wait.wake = resolve;
      }));
    } catch {
      signal?.throwIfAborted();
    }
  }

  /** Resolves with the promise's result; rejects at 'limit', when the signal is
   * aborted, or when the session ends. */
  async until(limit, signal, promise) {
    let end;
    const ended = new Promise((_, reject) => {
      end = reject;
    });
    const abort = () => end(signal.reason);
    const quiet = alarm(limit - performance.now(),
      () => end(new Error('no answer')));
    signal?.addEventListener('abort', abort);
    this.ends.add(end);
    try {
      return await Promise.race([promise, ended]);
    } finally {
      this.ends.delete(end);
      signal?.removeEventListener('abort', abort);
      quiet();
    }
  }

  /** Attaches the session to the connection, if the session is open. */
  async ready(line, limit, signal) {
    this.attach(line);
    const waiting = line.attaching.get(this.id);
    if (waiting) {
      await this.until(limit, signal, new Promise((resolve, reject) => {
        waiting.push((error) => (error ? reject(error) : resolve()));
      }));
    }
  }

  /** Attaches the session, unless it is attached, being attached, or has
   * ended. */
  attach(line) {
    if (!this.id || line.attached.has(this.id) ||
        line.attaching.has(this.id) || !this.hasJoined) {
      return;
    }
    line.attaching.set(this.id, []);
    line.post((failed, reply) => this.attached(line, failed, reply),
      ['SESSION.ATTACH', this.id, this.proof]);
  }

  /** Handles the answer to ATTACH. If ATTACH failed, the answers to the requests
   * sent after it mean nothing. */
  attached(line, failed, reply) {
    let outcome = failed;
    if (!failed && reply instanceof ReplyError) {
      outcome = new Error(reply.message);
      const error = this.refusal(reply);
      if (OF_ASKER.includes(reply.code)) {
        line.fail(denial(reply));
      } else if (isOpenStill(error)) {
        // Another node might know the session.
        line.fail(new Error(error.message));
      } else {
        this.refuse(error.message);
      }
    } else if (!failed) {
      line.attached.add(this.id);
    }
    const waiting = line.attaching.get(this.id) ?? [];
    line.attaching.delete(this.id);
    waiting.forEach((told) => told(outcome));
  }

  // --- called by the link ----------------------------------------------------

  /** Called when there is a new connection; urgent requests are sent first. */
  connected() {
    const { line } = this.link;
    line.whenIdle(() => this.attach(line));
  }

  /** Called when the connection was lost or could not be opened. */
  disconnected() {
    this.waits.forEach((wait) => wait.wake());
  }

  pushed(name, kind, told) {
    if (kind === 'answer') {
      this.waits.forEach((wait) => wait.pushed(told));
    }
  }
}

module.exports = { Core, STRANGE, debug, toMs };
