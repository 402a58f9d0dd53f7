// SPDX-License-Identifier: MIT
//
// Ties of this process's sessions to itself, at the agent of this host
// (docs/agent.md). When the process dies, the agent ends them in the cluster.
'use strict';

const crypto = require('node:crypto');
const fs = require('node:fs');
const net = require('node:net');
const { alarm } = require('./connection');
const { HaspError } = require('./request');

const KINDS = ['none', 'try', 'must'];
const SOCKET = '/run/hasp-agent/agent.sock';
const TIED_TTL_MS = 60000; // The default with a tie.
const ANSWER_MS = 1000; // For an answer of the agent.
// Pause after a failure, and after the agent's end, which many programs notice
// at once: a random part of JITTER_MS is added.
const RETRY_MS = 100;
const RETRY_MAX_MS = 5000;
const JITTER_MS = 900;
const ASKED_MAX = 64; // Lines that are sent and not answered.
const LINE_MAX = 1024;

const isTied = (kind) => kind !== undefined && kind !== 'none';

function checkTie({ tie, durable, linger }) {
  if (tie !== undefined && !KINDS.includes(tie)) {
    throw new TypeError(`tie: '${tie}': use one of ${KINDS.join(', ')}`);
  }
  if (isTied(tie) && (durable || linger)) {
    throw new TypeError('a session that is tied needs a ttl, and neither ' +
      'linger nor durable');
  }
}

/** When this process was started, field 22 of /proc/self/stat; 0 if it cannot be
 * read. The name, in parentheses, can contain any characters. */
function startOfProcess() {
  try {
    const text = fs.readFileSync('/proc/self/stat', 'latin1');
    return text.slice(text.lastIndexOf(')') + 1).trim().split(' ')[19] ?? '0';
  } catch {
    return '0';
  }
}

/** The tie of one session. 'changed' is called with the reason when the session
 * is not, or no longer, tied: once until it is tied again. */
class Tie {
  constructor(path, ttl, changed) {
    this.path = path || process.env.HASP_AGENT || SOCKET;
    this.ttl = ttl;
    this.changed = changed;
    this.word = crypto.randomBytes(16).toString('hex'); // The death word.
    this.session = '';
    this.agent = null;
    this.isTied = false;
    this.isWanted = true; // False: to be untied, or untied.
    this.isRefused = false; // Not asked again on this connection.
    this.isAsked = false; // A line is sent and not answered.
    this.isQueued = false;
    this.isOver = false; // The session is gone.
    // TIE was sent since the last UNTIE was answered. The agent keeps a tie when
    // a connection ends.
    this.mayBeTied = false;
    this.why = '';
    this.isTold = false;
    this.waiting = new Set();
  }

  /** For SESSION.OPEN. */
  words() {
    return ['WILL', crypto.createHash('sha256').update(this.word).digest('hex')];
  }

  begin(session) {
    this.session = session;
    this.agent = Agent.join(this.path);
    this.agent.add(this);
  }

  /** Waits until the session is tied. */
  async wait() {
    await this.until(() => this.isTied || this.why);
    if (!this.isTied) {
      throw new HaspError('UNREACHABLE',
        `the session cannot be tied: ${this.reason()}`);
    }
  }

  /** Unties the session for good, and waits for the answer. If that fails, it may
   * still be tied, and stays so. */
  async undo() {
    // Lines are answered in order: the answer to a TIE comes first.
    await this.until(() => !this.isAsked);
    if (this.mayBeTied && !this.isAsked && this.agent) {
      Object.assign(this, { isWanted: false, isRefused: false, why: '' });
      this.agent.hurry();
      this.agent.enqueue(this);
      await this.until(() => this.isWanted || !this.mayBeTied);
    }
    this.isWanted = this.mayBeTied;
    if (this.mayBeTied) {
      throw new HaspError('UNREACHABLE', 'the session is tied to this process, ' +
        `and nothing was handed over: ${this.reason()}`);
    }
    this.agent?.remove(this);
  }

  /** The session is gone. UNTIE is sent, and not waited for. */
  end() {
    if (this.agent && !this.isOver) {
      Object.assign(this, { changed: null, isOver: true, isWanted: false });
      this.agent.remove(this);
    }
  }

  mayBeHandedOver() {
    return !this.isWanted && !this.mayBeTied;
  }

  reason() {
    return this.why || 'the agent does not answer';
  }

  /** Waits for it, for a limited time. */
  async until(isSo) {
    let isLate = false;
    let wake = () => {};
    const quiet = alarm(2 * ANSWER_MS, () => {
      isLate = true;
      wake();
    });
    while (!isSo() && !isLate) {
      await new Promise((resolve) => {
        wake = resolve;
        this.waiting.add(resolve);
      });
    }
    quiet();
  }

  // --- called by the agent's connection --------------------------------------

  /** The next line, without its end; '': there is nothing to ask for. */
  line(start) {
    const text = `${this.session} ${this.word} START ${start}`;
    if (this.isAsked && !this.isOver) {
      return '';
    }
    if (this.isWanted && !this.isTied && !this.isRefused) {
      return `TIE ${text} TTL ${Math.trunc(this.ttl)}`;
    }
    return !this.isWanted && this.mayBeTied ? `UNTIE ${text}` : '';
  }

  /** Handles an answer; 'why' is '' if it was OK. */
  answered(isTie, why) {
    this.isAsked = false;
    this.isTied = isTie && !why;
    this.isRefused = Boolean(why);
    if (isTie || !why) {
      this.mayBeTied = this.isTied;
    } else {
      this.isWanted = true; // undo() has failed.
    }
    this.tell(why);
  }

  /** The connection to the agent is lost, or cannot be opened. */
  lost(why) {
    Object.assign(this, { isAsked: false, isRefused: false, isTied: false });
    if (this.isWanted || this.mayBeTied) {
      this.isWanted = true; // undo() has failed.
      this.tell(why);
    }
  }

  tell(why) {
    this.why = why;
    if (this.isTied) {
      this.isTold = false;
    } else if (why && !this.isTold && this.changed) {
      this.isTold = true;
      this.changed(why);
    }
    this.waiting.forEach((wake) => wake());
    this.waiting.clear();
  }
}

/** The connection to the agent at one path. It does not keep the program
 * running. */
class Agent {
  static all = new Map();

  static join(path) {
    if (!Agent.all.has(path)) {
      Agent.all.set(path, new Agent(path));
    }
    return Agent.all.get(path);
  }

  constructor(path) {
    this.path = path;
    this.start = startOfProcess();
    this.ties = new Set();
    this.queue = []; // Ties to be asked for.
    this.asked = []; // { tie, isTie }
    this.socket = null;
    this.isOpen = false;
    this.retry = 0;
    this.retrier = null;
    this.quiet = () => {}; // Ends the limit of the oldest unanswered line.
    this.input = '';
  }

  add(tie) {
    this.ties.add(tie);
    this.enqueue(tie);
  }

  remove(tie) {
    this.ties.delete(tie);
    if (this.isOpen) {
      this.enqueue(tie);
    } else if (!this.ties.size) {
      this.close();
    }
  }

  enqueue(tie) {
    if (!tie.isQueued) {
      tie.isQueued = true;
      this.queue.push(tie);
    }
    this.step();
  }

  /** Makes the next attempt now. */
  hurry() {
    clearTimeout(this.retrier);
    this.retrier = null;
  }

  /** Sends what is to be sent, or connects. */
  step() {
    if (!this.isOpen) {
      if (this.ties.size && !this.socket && !this.retrier) {
        this.open();
      }
      return;
    }
    while (this.queue.length && this.asked.length < ASKED_MAX) {
      const tie = this.queue.shift();
      tie.isQueued = false;
      const line = tie.line(this.start);
      if (line) {
        this.send(tie, line);
      }
    }
    if (!this.ties.size && !this.queue.length && !this.asked.length) {
      this.close();
    }
  }

  send(tie, line) {
    const isTie = line.startsWith('TIE');
    tie.isAsked = true;
    tie.mayBeTied ||= isTie;
    this.asked.push({ tie, isTie });
    this.socket.write(`${line}\n`);
    if (this.asked.length === 1) {
      this.watch();
    }
  }

  /** Sets the limit of the oldest unanswered line. */
  watch() {
    this.quiet();
    this.quiet = this.asked.length
      ? alarm(ANSWER_MS, () => this.lose('does not answer')) : () => {};
  }

  open() {
    let socket;
    try {
      socket = net.connect({ path: this.path });
    } catch (error) { // An invalid path.
      this.lose(`cannot be reached: ${error.message}`);
      return;
    }
    this.socket = socket;
    socket.unref();
    const isOurs = (action) => (told) => this.socket === socket && action(told);
    socket.on('connect', isOurs(() => {
      this.isOpen = true;
      this.step();
    }));
    socket.on('data', isOurs((data) => this.received(data)));
    socket.on('error', isOurs((error) => this.lose(this.isOpen
      ? 'has ended the connection' : `cannot be reached: ${error.message}`)));
    socket.on('close', isOurs(() => this.lose('has ended the connection')));
  }

  received(data) {
    const lines = (this.input + data.toString('latin1')).split('\n');
    this.input = lines.pop();
    for (const line of lines) {
      const one = this.asked.shift();
      if (!one) {
        this.lose('does not speak the protocol');
        return;
      }
      this.retry = 0;
      one.tie.answered(one.isTie, line.startsWith('OK') ? ''
        : `the agent at ${this.path}: ${line.slice(0, 300)}`);
      if (!one.tie.isOver && one.tie.line(this.start)) {
        this.enqueue(one.tie);
      }
    }
    if (this.input.length >= LINE_MAX) {
      this.lose('does not speak the protocol');
    } else if (this.socket) {
      this.watch();
      this.step();
    }
  }

  /** The agent cannot be reached, or is gone. */
  lose(why) {
    const wasOpen = this.isOpen;
    this.drop();
    this.queue.forEach((tie) => {
      tie.isQueued = false;
    });
    this.queue = [];
    this.retry = wasOpen ? RETRY_MS
      : Math.min(Math.max(2 * this.retry, RETRY_MS), RETRY_MAX_MS);
    this.hurry();
    this.retrier = setTimeout(() => {
      this.retrier = null;
      this.step();
    }, this.retry + JITTER_MS * Math.random());
    this.retrier.unref();
    for (const tie of [...this.ties]) {
      tie.lost(`the agent at ${this.path} ${why}`);
      if (tie.isWanted && !tie.isQueued) {
        tie.isQueued = true;
        this.queue.push(tie);
      }
    }
    if (!this.ties.size) {
      this.close();
    }
  }

  /** Ends the connection at once. */
  drop() {
    const { socket } = this;
    Object.assign(this, { socket: null, isOpen: false, input: '', asked: [] });
    this.watch();
    socket?.destroy();
  }

  /** No tie is left. */
  close() {
    if (Agent.all.get(this.path) === this) {
      Agent.all.delete(this.path);
    }
    this.hurry();
    const { socket, isOpen } = this;
    if (isOpen) {
      this.socket = null;
      socket.end();
    }
    this.drop();
  }
}

module.exports = { TIED_TTL_MS, Tie, checkTie, isTied };
