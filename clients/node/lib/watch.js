// SPDX-License-Identifier: MIT
//
// Changes of locks as they happen.
'use strict';

const { ReplyError } = require('./resp');
const { alarm } = require('./connection');
const { CONNECT_MS, retryPause, sleep } = require('./link');
const { HaspError, OF_ASKER } = require('./request');

const BACKLOG_MAX = 10000; // Unread changes; beyond that there is a gap.

/** `for await (const change of session.watch('jobs/'))`: { kind, name, session,
 * token, index, text }. The connection is opened for the first change and, if it
 * fails, again at another node; 'gap' then reports that changes might have been
 * missed. Rejects with LOST if the session is lost. */
class Watch {
  constructor(session, prefix) {
    this.session = session;
    this.link = session.link.another(); // A connection of its own.
    this.prefix = prefix;
    this.found = [];
    this.isClosed = false;
  }

  /** Ends the iteration. */
  close() {
    this.isClosed = true;
    this.line?.close();
    this.news?.();
  }

  async next() {
    for (let attempt = 1; !this.found.length && !this.isClosed;) {
      if (this.line && !this.line.error) {
        await new Promise((resolve) => {
          this.news = resolve;
        });
        continue;
      }
      try {
        await this.begin();
      } catch (error) {
        if (error instanceof HaspError && error.code !== 'UNREACHABLE') {
          throw error;
        }
        await sleep(retryPause(attempt++));
      }
    }
    return this.isClosed ? { done: true, value: undefined }
      : { done: false, value: this.found.shift() };
  }

  /** Watches from now on. */
  async begin() {
    const isAgain = this.line !== undefined;
    this.session.check();
    const line = await this.link.connect();
    if (line.error) {
      this.link.skip();
      throw line.error;
    }
    line.onPush = (push) => this.take(push);
    line.onClose = () => this.news?.();
    const quiet = alarm(CONNECT_MS, () => line.fail(new Error('no answer')));
    const reply = await line.ask(['LOCK.WATCH', this.prefix]).finally(quiet);
    if (reply instanceof ReplyError) {
      line.close();
      if (OF_ASKER.includes(reply.code) &&
          this.link.denied(line, reply.message)) {
        throw new Error(reply.message); // Again, by another connection.
      }
      throw this.session.refusal(reply);
    }
    this.line = line;
    if (isAgain) {
      this.found.unshift({ kind: 'gap', name: '', session: 0, token: 0,
        index: 0, text: '' });
    }
  }

  take([, kind, { lock, session, token, index, message }]) {
    this.found.push({ kind, name: lock, session, token, index, text: message });
    if (this.found.length > BACKLOG_MAX) {
      this.line.close();
    }
    this.news?.();
  }

  async return() {
    this.close();
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

module.exports = { Watch };
