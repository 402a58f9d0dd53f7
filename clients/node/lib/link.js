// SPDX-License-Identifier: MIT
//
// The connections of a process, which its sessions share.
'use strict';

const { Connection, alarm } = require('./connection');
const { Known } = require('./known');
const { OF_ASKER } = require('./request');
const { ReplyError } = require('./resp');

const CONNECT_MS = 1000;
const DENIED_MS = [100, 1000]; // Pause between attempts after a refusal.
const SESSIONS_MAX = 1000; // On one connection; a node accepts 4,096.

const shared = new Map(); // Links that more sessions can join, by key.

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A random number between two, so that clients do not retry at the same
 * moment. */
const between = (low, high) => low + Math.random() * (high - low);

/** The pause before all nodes are asked again; it grows with each round. */
const retryPause = (attempt) => between(20, 100) * Math.min(attempt, 5);

/** The reason why a node refuses this client: unknown credentials, or TLS is
 * required. */
function denial(refusal) {
  const error = new Error(refusal.message);
  error.refusal = refusal;
  return error;
}

/** One connection to one node at a time, shared by all sessions that would open
 * the same one. If it is lost, or its node is not usable, the link connects to
 * the next node, as long as a session or a waiting request needs it; the
 * heartbeats of the sessions are sent first then. The last session that leaves
 * closes it. */
class Link {
  constructor(endpoints, credentials) {
    Object.assign(this, { endpoints, credentials });
    this.known = Known.at(endpoints);
    this.isDenied = false; // The last node refused this client.
    this.turn = Math.floor(Math.random() * endpoints.length);
    this.failed = 0; // Failed attempts in a row.
    this.patience = CONNECT_MS; // Limit for a new connection.
    this.count = 1; // Users of the link.
    this.sessions = new Map(); // The open sessions among them, by id.
    this.line = null; // The open connection.
    this.newest = null; // The open connection, or the one being opened.
    this.waiting = [];
    this.isOpening = false;
    this.isClosed = false;
  }

  /** The link with this key, or 'made', which others can join from now on. */
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

  /** The last user closes the connection. Otherwise the node is notified that
   * this session has left, as if its connection had ended. */
  quit(session) {
    this.known.sessions.delete(session);
    this.sessions.delete(session.id);
    if (--this.count === 0) {
      this.close();
    } else if (this.line?.attached.delete(session.id)) {
      this.line.post(() => {}, ['SESSION.DETACH', 'SESSION', session.id]);
    }
  }

  /** The node accepts no more sessions on this connection. Returns whether the
   * connection had others. */
  filled() {
    if (shared.get(this.key) === this) {
      shared.delete(this.key);
    }
    return this.count > 1;
  }

  /** The node has confirmed that the session is closed. */
  closed(session) {
    this.line?.attached.delete(session.id);
  }

  close() {
    this.filled(); // No other session can join it.
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

  /** Adds a session that was opened on this connection, and so is attached. */
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

  /** Records that a node has done a request. */
  worked(line) {
    this.known.learn(line.cluster);
    this.failed = 0;
    this.credentials.isKnown = true;
  }

  /** Records that a node refused the credentials, or requires TLS. True: ask
   * again on another connection, for which the files are read again.
   * Credentials that were accepted before are retried until the files are
   * right; others get one more attempt if the files have changed. */
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

  /** Reads the certificates and the secret again. Returns whether they
   * changed. */
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

  /** Moves to the next node; earlier requests can still be answered on the old
   * one. */
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
        // At most the time a heartbeat may wait for a connection.
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

  /** Opens a new connection, with no state from the old one. If 'error' is set
   * it has failed. */
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
        // Send a secret only to a node of the known cluster.
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
        : new Error(reply.message)); // Another node may accept it.
    }
    return reply;
  }

  isDenial(error) {
    return Boolean(error.refusal) ||
      (Boolean(error.isTrust) && this.credentials.isKnown);
  }

  /** Makes the next connection go to another node. */
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

  /** Handles a push, which names its session. */
  pushed([name, kind, told]) {
    if (told !== null && typeof told === 'object') {
      this.sessions.get(String(told.session))?.pushed(name, kind, told);
    }
  }
}

module.exports = { CONNECT_MS, Link, between, denial, retryPause, sleep };
