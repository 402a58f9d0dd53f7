// SPDX-License-Identifier: MIT
//
// One connection to one node.
'use strict';

const net = require('node:net');
const tls = require('node:tls');
const { INCOMPLETE, Parser, Push, encode } = require('./resp');
const { explained } = require('./tls');

const ANSWER_MS = 4000; // Limit for an answer; then another node is asked.
const TIMER_MAX_MS = 2 ** 31 - 1;
// A node handles no later request of a connection until these are answered. The
// number in flight is limited, so that a heartbeat never waits for those of a
// thousand sessions.
const BLOCKING = ['SESSION.OPEN', 'SESSION.ATTACH', 'SESSION.CLOSE'];
const BLOCKING_MAX = 8;

/** Like setTimeout(), but reads pending input first, in case the event loop was
 * blocked. Returns a function that cancels it. */
function alarm(ms, action) {
  let isOver = false;
  const timer = setTimeout(() => setImmediate(() => isOver || action()),
    Math.min(Math.max(ms, 0), TIMER_MAX_MS));
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** A connection to one node. Answers come in the order of the requests, and the
 * requests of one turn of the event loop are written together. A node that does
 * not answer in time has failed. A failed connection ('error' is set) cannot be
 * used again: open another one. */
class Connection {
  /** 'secure': the options of tls.connect(); null: not encrypted, as for a
   * socket of this machine. */
  constructor(endpoint, secure) {
    const { host, port, path } = endpoint;
    this.endpoint = endpoint;
    this.attached = new Set(); // Ids of the attached sessions.
    // Ids being attached, with the requests that wait.
    this.attaching = new Map();
    this.parser = new Parser();
    this.urgent = []; // Not written yet, sent first: { take, words }.
    this.later = []; // Not written yet, sent after the urgent ones.
    this.waiting = []; // Written, not answered: { take, at }.
    this.blocking = 0; // Blocking requests in flight.
    this.blocked = []; // Blocking requests to send next: { take, words }.
    this.idle = []; // Actions to run when none is in flight.
    this.endWatch = () => {};
    this.isWatched = false;
    this.isRetired = false;
    this.error = null;
    this.onPush = null;
    this.onClose = null;
    const how = path ? { path } : { host, port, noDelay: true,
      keepAlive: true, keepAliveInitialDelay: 2000 };
    try {
      this.socket = secure && !path ? tls.connect({ ...how, ...secure })
        : net.connect(how);
    } catch (error) { // Invalid options.
      this.error = explained(error);
      return;
    }
    this.socket.on('data', (data) => this.received(data));
    this.socket.on('error', (error) => this.fail(explained(error)));
    this.socket.on('close',
      () => this.fail(new Error('closed the connection')));
  }

  /** Sends a request. 'take' is called once, with null and the reply (which can
   * be a ReplyError), or with the error of the connection. An urgent request is
   * sent before all others that are not yet written. */
  post(take, words, isUrgent = false) {
    if (this.error) {
      take(this.error);
    } else if (BLOCKING.includes(String(words[0]).toUpperCase())) {
      this.blocked.push({ take, words });
      this.unblock();
    } else {
      this.put({ take, words }, isUrgent);
    }
  }

  /** Calls 'action', which posts a blocking request, when none is in flight. */
  whenIdle(action) {
    this.idle.push(action);
    this.unblock();
  }

  put(posted, isUrgent) {
    if (!this.urgent.length && !this.later.length) {
      setImmediate(() => this.write());
    }
    (isUrgent ? this.urgent : this.later).push(posted);
  }

  unblock() {
    while (this.blocking < BLOCKING_MAX && !this.error &&
        this.blocked.length + this.idle.length) {
      if (this.blocked.length) {
        const { take, words } = this.blocked.shift();
        this.blocking++;
        this.put({ words, take: (...told) => {
          this.blocking--;
          take(...told);
          this.unblock();
        } }, false);
      } else {
        this.idle.shift()();
      }
    }
  }

  /** Resolves with the reply, a ReplyError included; rejects if the connection
   * fails. */
  ask(words) {
    return new Promise((resolve, reject) => {
      this.post((error, reply) => (error ? reject(error) : resolve(reply)),
        words);
    });
  }

  /** True if a request is not answered yet. */
  isBusy() {
    return this.waiting.length + this.urgent.length + this.later.length +
      this.blocked.length > 0;
  }

  write() {
    if (this.error) {
      return;
    }
    const at = performance.now();
    const posted = [...this.urgent.splice(0), ...this.later.splice(0)];
    for (const { take } of posted) {
      this.waiting.push({ take, at });
    }
    this.socket.write(posted.map(({ words }) => encode(words)).join(''));
    if (!this.isWatched) {
      this.watch();
    }
  }

  /** How long the oldest request has waited for its answer. */
  watch() {
    this.isWatched = this.waiting.length > 0 && !this.error;
    if (this.isWatched) {
      const left = this.waiting[0].at + ANSWER_MS - performance.now();
      this.endWatch = left > 0 ? alarm(left, () => this.watch()) : () => {};
      if (left <= 0) {
        this.fail(new Error('no answer'));
      }
    }
  }

  received(data) {
    this.parser.feed(data);
    try {
      while (!this.error) {
        const reply = this.parser.next();
        if (reply === INCOMPLETE) {
          break;
        }
        if (reply instanceof Push) {
          this.onPush?.(reply);
        } else if (this.waiting.length) {
          this.waiting.shift().take(null, reply);
        } else {
          throw new Error('the peer is not a hasp node: an answer ' +
            'without a request');
        }
      }
    } catch (error) {
      this.fail(error);
    }
    if (this.isRetired) {
      this.retire();
    }
  }

  /** Closes the connection; requests without an answer get the error. */
  fail(error) {
    if (this.error) {
      return;
    }
    this.error = error;
    this.socket.destroy();
    this.endWatch();
    for (const { take } of [...this.waiting, ...this.urgent, ...this.later,
      ...this.blocked]) {
      take(error);
    }
    this.onClose?.();
  }

  close() {
    this.fail(new Error('connection closed'));
  }

  /** Closes the connection as soon as all requests are answered. */
  retire() {
    this.onClose = null;
    this.isRetired = true;
    if (!this.isBusy()) {
      this.close();
    }
  }
}

module.exports = { Connection, TIMER_MAX_MS, alarm };
