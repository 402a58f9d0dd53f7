// SPDX-License-Identifier: MIT
//
// The lease of a session, its connections and its requests.
'use strict';

const { EventEmitter } = require('node:events');
const { debuglog } = require('node:util');
const { Connection } = require('./connection');
const { ReplyError } = require('./resp');
const { ENDLESS, Lease, MS, readClock } = require('./lease');
const { greetingOf } = require('./secret');
const { tlsOptions } = require('./tls');
const { HaspError, Owners, judge, parseEndpoints, waitWords } =
  require('./request');

const CONNECT_MS = 1000;
const IDLE_MAX = 8; // Connections kept for later requests.

const debug = debuglog('hasp'); // NODE_DEBUG=hasp tells each request.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Between two numbers, by chance: many clients must not come at once. */
const between = (low, high) => low + Math.random() * (high - low);

/** Of nanoseconds. */
const toMs = (ns) => (ns === ENDLESS ? Infinity : Number(ns) / Number(MS));

/** A session as its locks see it. */
class Core extends EventEmitter {
  constructor({ endpoints, timeout, tls, secretFile, durable }) {
    super();
    this.endpoints = parseEndpoints(endpoints);
    this.tls = tlsOptions(tls);
    this.user = greetingOf(secretFile);
    this.timeout = timeout;
    this.durable = Boolean(durable);
    this.turn = Math.floor(Math.random() * this.endpoints.length);
    this.lease = new Lease();
    this.why = 'the lease has run out';
    this.idle = [];
    this.busy = new Set();
    this.owners = new Owners();
    this.held = new Set();
    this.doubts = new Set(); // Locks whose last outcome is not known.
  }

  state() {
    return this.lease.state();
  }

  /** Milliseconds for which the session's holds may be trusted; Infinity of a
   * durable one. */
  remaining() {
    return toMs(this.lease.remaining());
  }

  check() {
    if (this.id && this.state() === 'lost') {
      throw new HaspError('LOST',
        `the session is lost, open another one: ${this.why}`);
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

  /** Asks until there is an answer. 'until' is the end of a wait for a lock,
   * the time-out counts from there. 'isDoubtful': an attempt may have been done,
   * if only because it was sent before, under this number. Gives the reply and
   * the clock before the answered request was sent. */
  async request(words, { until = null, timeout = this.timeout, signal,
    isDoubtful = false } = {}) {
    const limit = (until ?? performance.now()) + timeout;
    const last = new Map(); // What each node ended with.
    for (let attempt = 1; ; attempt++) {
      this.check();
      signal?.throwIfAborted();
      let { text } = this.endpoints[this.turn % this.endpoints.length];
      let line;
      const abort = () => line.close();
      try {
        line = await this.take();
        text = line.endpoint.text;
        signal?.addEventListener('abort', abort);
        signal?.throwIfAborted();
        const { more, patience } = waitWords(until, this.durable);
        const sent = readClock();
        const reply = await line.ask(
          Math.max(1, Math.min(patience, limit - performance.now())),
          [...words, ...more]);
        debug('%s: %j: %j', text, words, reply);
        if (!(reply instanceof ReplyError)) {
          this.put(line);
          return { reply, sent };
        }
        const error = this.refusal(reply, isDoubtful);
        if (error.isForgotten ||
            !['UNREACHABLE', 'UNKNOWN'].includes(error.code)) {
          this.put(line);
          throw error;
        }
        isDoubtful ||= error.code === 'UNKNOWN';
        last.set(text, error.message);
      } catch (error) {
        if (error instanceof HaspError) {
          throw error;
        }
        debug('%s: %j: %s', text, words, error.message);
        isDoubtful ||= line !== undefined;
        // Silence is no word against what was told before.
        if (error.message !== 'no answer' || !last.has(text)) {
          last.set(text, error.message);
        }
      } finally {
        signal?.removeEventListener('abort', abort);
      }
      this.fail(line);
      const pause = between(20, 100) * Math.min(attempt, 5);
      if (performance.now() + pause >= limit) {
        this.check();
        const told = [...last].map((pair) => pair.join(': ')).join('; ');
        throw isDoubtful ?
          new HaspError('UNKNOWN',
            `no answer in time, it may be done (${told})`) :
          new HaspError('UNREACHABLE', `no node could do it (${told})`);
      }
      if (attempt % this.endpoints.length === 0) {
        await sleep(pause);
      }
    }
  }

  async take() {
    let line = this.idle.pop();
    while (line?.isClosed) {
      line = this.idle.pop();
    }
    line ??= await this.connect(CONNECT_MS);
    this.busy.add(line);
    return line;
  }

  put(line) {
    this.busy.delete(line);
    if (this.idle.length < IDLE_MAX) {
      this.idle.push(line);
    } else {
      line.close();
    }
  }

  /** The next connection goes to another node. */
  fail(line) {
    if (line) {
      this.busy.delete(line);
      line.close();
      this.turnFrom(line.turn);
    }
  }

  turnFrom(turn) {
    this.turn += this.turn === turn ? 1 : 0;
  }

  /** Closes what is idle; requests under way fail. */
  drop() {
    [...this.idle.splice(0), ...this.busy].forEach((line) => line.close());
  }

  /** Greets, and tells the node whose connection it is. */
  async connect(timeout, attaches = true) {
    const { turn } = this;
    const line = new Connection(this.endpoints[turn % this.endpoints.length],
      this.tls);
    line.turn = turn;
    try {
      for (const words of [['HELLO', 3, ...this.user],
        ...(this.id && attaches ? [['SESSION.ATTACH', this.id, this.secret]] : [])]) {
        const reply = await line.ask(timeout, words);
        if (reply instanceof ReplyError) {
          const error = this.refusal(reply);
          // Else another node may know us.
          throw error.code === 'LOST' ? error : new Error(error.message);
        }
      }
      return line;
    } catch (error) {
      line.close();
      this.turnFrom(turn);
      throw error;
    }
  }
}

module.exports = { CONNECT_MS, Core, between, debug, sleep, toMs };
