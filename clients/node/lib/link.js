// SPDX-License-Identifier: MIT
//
// The connections of a process, which its sessions share.
'use strict';

const { Connection, alarm } = require('./connection');
const { Known } = require('./known');
const { OF_ASKER } = require('./request');
const { ReplyError } = require('./resp');

const CONNECT_MS = 1000;
const DENIED_MS = [100, 1000]; // Between two attempts of who is not let in.
const SESSIONS_MAX = 1000; // Of a connection; a node takes 4,096.

const shared = new Map(); // Those that more sessions may join, by their keys.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A random number between two: many clients must not come at once. */
const between = (low, high) => low + Math.random() * (high - low);

/** Before the nodes are asked once more: longer each time. */
const retryPause = (attempt) => between(20, 100) * Math.min(attempt, 5);

/** Why a node does not let this one in: it does not know who greets, or wants
 * TLS. */
function denial(refusal) {
  const error = new Error(refusal.message);
  error.refusal = refusal;
  return error;
}

/** One connection to one node at a time, of all sessions that would make the
 * same one. Where it is lost, or its node is of no use, it is made again at the
 * next one, for as long as there is a session or anybody who waits for it: the
 * sessions' heartbeats go first then. The last session that leaves closes it. */
class Link {
  constructor(endpoints, credentials) {
    Object.assign(this, { endpoints, credentials });
    this.known = Known.at(endpoints);
    this.isDenied = false; // The last node did not let it in.
    this.turn = Math.floor(Math.random() * endpoints.length);
    this.failed = 0; // Attempts in a row that came to nothing.
    this.patience = CONNECT_MS; // For a new connection.
    this.count = 1; // Those who use it.
    this.sessions = new Map(); // Of them those that are open, by their ids.
    this.line = null; // The one that is open.
    this.newest = null; // That, or the one that is being made.
    this.waiting = [];
    this.isOpening = false;
    this.isClosed = false;
  }

  /** The one by this key, else 'made', from now on. */
  static join(made, key) {
    const found = shared.get(key);
    if (found && found.count < SESSIONS_MAX) {
      found.count++;
      return found;
    }
    made.key = key;
    shared.set(key, made);
    return made;
  }

  /** The last one closes it. Where others stay the node is told that this one is
   * not there any more, as by the end of a connection. */
  quit(session) {
    this.known.sessions.delete(session);
    this.sessions.delete(session.id);
    if (--this.count === 0) {
      this.close();
    } else if (this.line?.attached.delete(session.id)) {
      this.line.post(() => {}, ['SESSION.DETACH', 'SESSION', session.id]);
    }
  }

  /** A node takes no more sessions on it. Were there others? */
  filled() {
    if (shared.get(this.key) === this) {
      shared.delete(this.key);
    }
    return this.count > 1;
  }

  /** The node has heard that it is. */
  closed(session) {
    this.line?.attached.delete(session.id);
  }

  close() {
    this.filled(); // Nobody joins it any more.
    this.isClosed = true;
    this.newest?.close();
  }

  /** Another link, for a connection that is not shared. */
  another() {
    return new Link(this.endpoints, this.credentials);
  }

  /** The endpoint of the connection, or of the next one. */
  endpoint() {
    return this.endpoints[this.turn % this.endpoints.length];
  }

  /** Takes up a session that was opened, and so is attached, there. */
  adopt(session, line) {
    this.sessions.set(session.id, session);
    line.attached.add(session.id);
    if (!this.line) {
      this.openSoon();
    } else if (this.line !== line) {
      session.connected();
    }
  }

  /** Resolves with the next connection; its 'error' is set if it failed. */
  opened() {
    return new Promise((resolve) => {
      this.waiting.push(resolve);
      this.openSoon();
    });
  }

  /** Takes note that a node has done what was asked. */
  worked(line) {
    this.known.learn(line.cluster);
    this.failed = 0;
    this.credentials.isKnown = true;
  }

  /** Takes note that a node does not know who asks, or wants TLS. True: it is to
   * be asked again, by another connection; what that shows is read anew. Whoever
   * was known before comes back when the files are right; who never was, has one
   * more attempt if they have changed. */
  denied(line, why) {
    if (!this.renewed() && !this.credentials.isKnown) {
      return false;
    }
    this.isDenied = true;
    if (line) {
      this.leave(line, why);
    }
    return true;
  }

  /** Reads the certificates and the secret again: are they others? */
  renewed() {
    const { hasChanged, notice } = this.credentials.renew();
    this.notice(notice);
    return hasChanged;
  }

  notice(text) {
    if (text) {
      this.sessions.forEach((session) => session.noticed(text));
    }
  }

  /** For the next node; what has been asked at that one may still be answered. */
  leave(line, why) {
    if (line === this.line) {
      this.lost(why);
      line.retire();
    }
  }

  async openSoon() {
    if (this.isOpening) {
      return;
    }
    this.isOpening = true;
    while (!this.line && !this.isClosed &&
        (this.sessions.size || this.waiting.length)) {
      if (this.isDenied) {
        // No longer than a heartbeat may wait for a connection.
        await sleep(Math.min(between(...DENIED_MS), this.patience));
      } else if (this.failed && this.failed % this.endpoints.length === 0) {
        await sleep(retryPause(this.failed));
      }
      const line = await this.connect();
      if (line.error) {
        this.lost(line.error.message);
      } else if (this.isClosed) {
        line.close();
      } else {
        this.line = line;
        line.onClose = () => {
          this.isDenied = this.isDenial(line.error);
          this.lost(line.error.message);
        };
        line.onPush = (push) => this.pushed(push);
        this.sessions.forEach((session) => session.connected());
      }
      this.waiting.splice(0).forEach((resolve) => resolve(line));
    }
    this.isOpening = false;
  }

  /** A new one, of which we know nothing more; if 'error' is set it has come to
   * nothing. */
  async connect() {
    this.renewed();
    const line = new Connection(this.endpoint(), this.credentials.secure);
    this.newest = line;
    const end = alarm(this.patience, () => line.fail(new Error('no answer')));
    let isStranger = false;
    try {
      const hello = await this.greet(line, ['HELLO', 3]);
      const { why, notice } = this.known.judge(line.endpoint, hello);
      this.notice(notice);
      isStranger = why !== '';
      if (isStranger) {
        line.fail(new Error(why));
      }
      line.cluster = hello?.cluster ?? '';
      if (this.credentials.user.length) {
        // Only a node of the known cluster is shown a secret.
        await this.greet(line, this.credentials.user);
      }
    } catch {
      // It has failed.
    }
    end();
    if (line.error && !isStranger) {
      this.known.missed(line.endpoint);
    }
    this.isDenied = line.error !== null && this.isDenial(line.error);
    return line;
  }

  /** A refusal fails the connection. */
  async greet(line, words) {
    const reply = await line.ask(words);
    if (reply instanceof ReplyError) {
      line.fail(OF_ASKER.includes(reply.code) ? denial(reply)
        : new Error(reply.message)); // Another node may be better.
    }
    return reply;
  }

  isDenial(error) {
    return Boolean(error.refusal) ||
      (Boolean(error.isTrust) && this.credentials.isKnown);
  }

  /** Has the next connection made to another node. */
  skip() {
    this.turn++;
    this.failed++;
  }

  lost(why) {
    const { text } = this.endpoint();
    this.line = null;
    this.skip();
    this.sessions.forEach((session) => session.disconnected(text, why));
    if (this.sessions.size) {
      this.openSoon();
    }
  }

  /** Takes a push, which tells which session it is for. */
  pushed([name, kind, told]) {
    if (told !== null && typeof told === 'object') {
      this.sessions.get(String(told.session))?.pushed(name, kind, told);
    }
  }
}

module.exports = { CONNECT_MS, Link, between, denial, retryPause, sleep };
