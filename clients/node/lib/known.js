// SPDX-License-Identifier: MIT
//
// The cluster that a process works with. It prevents the process from locking
// in another cluster that happens to answer at one of its endpoints.
'use strict';

const all = new Map(); // Known, by endpoints.

/** In its answer to HELLO each node names the life of its cluster, and the lives
 * from which that one was restored. The first life in which a request was done
 * becomes the known one. A node of another life is rejected, unless that life
 * was restored from the known one, or every endpoint showed that same life when
 * it was last reached and the process has no trusted session left. Nothing is
 * stored. */
class Known {
  constructor(endpoints) {
    this.endpoints = endpoints.map(({ text }) => text);
    this.id = '';
    this.shown = new Map(); // Other lives, by endpoint.
    this.sessions = new Set(); // Sessions that might be trusted.
  }

  /** Returns the same object for all connections of the process to these
   * endpoints. */
  static at(endpoints) {
    const key = JSON.stringify(endpoints);
    if (!all.has(key)) {
      all.set(key, new Known(endpoints));
    }
    return all.get(key);
  }

  /** Judges the answer to HELLO. Returns why the node must be left, and what
   * people should know about it; both can be ''. */
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

  /** The endpoint could not be reached. */
  missed({ text }) {
    this.shown.delete(text);
  }

  /** A node of that life has done a request. */
  learn(cluster) {
    this.id ||= cluster;
  }
}

module.exports = { Known };
