// SPDX-License-Identifier: MIT
//
// Which cluster a process works with, so that it does not lock at another one which
// happens to answer at one of its endpoints.
'use strict';

const all = new Map(); // By the endpoints.

/** Each node says in its answer to HELLO to which life of a cluster it belongs,
 * and from which lives that was restored. The first life at which something was
 * done becomes the known one. A node of another life is a stranger, unless its
 * life was restored from the known one, or every endpoint showed that same life
 * when it was reached last, and no session of the process is believed any longer.
 * It is never stored. */
class Known {
  constructor(endpoints) {
    this.endpoints = endpoints.map(({ text }) => text);
    this.id = '';
    this.shown = new Map(); // Other lives, by endpoint.
    this.sessions = new Set(); // Those that may be believed.
  }

  /** The same for all connections of the process to these endpoints. */
  static at(endpoints) {
    const key = JSON.stringify(endpoints);
    if (!all.has(key)) {
      all.set(key, new Known(endpoints));
    }
    return all.get(key);
  }

  /** By the answer to HELLO: why the node is to be left, and what people should
   * be told of it; both may be ''. */
  judge({ text }, greeting) {
    const { cluster, former } = greeting ?? {};
    if (typeof cluster !== 'string') {
      return { why: '', notice: '' };
    }
    if (cluster === '') {
      return { why: 'belongs to no cluster yet', notice: '' };
    }
    if (this.id === '' || this.id === cluster) {
      this.shown.delete(text);
      return { why: '', notice: '' };
    }
    const wasShown = this.shown.get(text) === cluster;
    this.shown.set(text, cluster);
    if ((Array.isArray(former) && former.includes(this.id)) ||
        this.isAllThereIs(cluster)) {
      this.id = cluster;
      this.shown.clear();
      return { why: '', notice: '' };
    }
    const why = `is a node of another cluster (${cluster}, not ${this.id})`;
    return { why,
      notice: wasShown ? '' : `${text} ${why}; it is asked nothing` };
  }

  isAllThereIs(cluster) {
    return this.endpoints.every((text) => this.shown.get(text) === cluster) &&
      ![...this.sessions].some((session) => session.state() !== 'lost');
  }

  /** It was not reached. */
  missed({ text }) {
    this.shown.delete(text);
  }

  /** A node of that life has done something. */
  learn(cluster) {
    this.id ||= cluster;
  }
}

module.exports = { Known };
