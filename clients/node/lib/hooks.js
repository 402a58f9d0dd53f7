// SPDX-License-Identifier: MIT
//
// Hooks: what a program learns about each acquisition, for traces and metrics.
// docs/clients.md has the rules that all clients share.
'use strict';

/** One acquisition that is reported. Its methods may be called in any order:
 * those that do not fit the state do nothing, so each has exactly one end. */
class Acquisition {
  constructor(reporter, id, name, trace) {
    Object.assign(this, { reporter, id, name, trace, token: 0 });
    this.since = performance.now();
    this.report('acquire');
  }

  report(kind, text = '') {
    this.state = kind;
    const { id, name, token, trace } = this;
    this.reporter.send({ kind, id, name, token, trace, at: Date.now(),
      elapsed: performance.now() - this.since, text });
  }

  isPending() {
    return this.state === 'acquire' || this.state === 'wait';
  }

  waits() {
    if (this.state === 'acquire') {
      this.report('wait');
    }
  }

  granted(token) {
    if (this.isPending()) {
      this.token = token;
      this.report('granted');
      this.since = performance.now();
    }
  }

  failed(why) {
    if (this.isPending()) {
      this.report('failed', why);
    }
  }

  released() {
    if (this.state === 'granted') {
      this.report('released');
    }
  }

  lost(why) {
    if (this.state === 'granted') {
      this.report('lost', why);
    }
  }
}

const nothing = () => {};

/** An acquisition without hooks. */
const UNREPORTED = Object.freeze({ waits: nothing, granted: nothing,
  failed: nothing, released: nothing, lost: nothing });

/** The hooks of a session. 'notice' reports the first one that fails. */
class Reporter {
  constructor(hooks, notice) {
    Object.assign(this, { hooks, notice, count: 0, hasFailed: false });
  }

  begin(name, trace = '') {
    if (!this.hooks) {
      return UNREPORTED;
    }
    this.count += 1;
    return new Acquisition(this, this.count, name, trace);
  }

  /** Calls the hook between steps of the client, in order. */
  send(event) {
    queueMicrotask(() => {
      try {
        Promise.resolve(this.hooks[event.kind]?.(event))
          .catch((error) => this.failed(event, error));
      } catch (error) {
        this.failed(event, error);
      }
    });
  }

  failed({ kind }, error) {
    if (!this.hasFailed) {
      this.hasFailed = true;
      this.notice(`the hook '${kind}' has failed: ${error?.message ?? error}`);
    }
  }
}

module.exports = { Reporter, UNREPORTED };
