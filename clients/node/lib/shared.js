// SPDX-License-Identifier: MIT
//
// Election, ReadWriteLock and Semaphore.
'use strict';

const { Lock } = require('./lock');
const { Watch } = require('./watch');

/** At most 'slots' holders in the cluster; all must give the same number. */
class Semaphore {
  constructor(session, name, slots, options = {}) {
    Object.assign(this, { session, name, options: { ...options, slots } });
  }

  /** A new lock for one of the slots. */
  slot() {
    return this.session.lock(this.name, this.options);
  }
}

/** Many readers or one writer, in order of arrival: later readers do not starve
 * a writer. */
class ReadWriteLock {
  constructor(session, name, options = {}) {
    Object.assign(this, { session, name, options });
  }

  /** A new lock that readers hold together. */
  read() {
    return this.session.lock(this.name, { ...this.options, shared: true });
  }

  /** A new lock that is held exclusively. */
  write() {
    return this.session.lock(this.name, this.options);
  }
}

/** A lock whose holder is the leader. Its 'value', such as an address, is shown to
 * the other candidates. acquire() campaigns, release() resigns. */
class Election extends Lock {
  /** The current leader, { value, token, client }; null: there is none. */
  async leader() {
    const { holders: [one] } =
      await this.session.ask('LOCK.SHOW', this.names[0]);
    return one
      ? { value: one.value, token: one.token, client: one.client } : null;
  }

  /** Yields the current leader, then each new one. */
  async* observe() {
    const watch = new Watch(this.session, this.names[0]);
    try {
      await watch.begin();
      let last;
      for (let change = { value: { name: '' } }; !change.done;) {
        const leader = ['', this.names[0]].includes(change.value.name)
          ? await this.leader() : last;
        if (last === undefined || leader?.token !== last?.token) {
          last = leader;
          yield leader;
        }
        change = await watch.next();
      }
    } finally {
      watch.close();
    }
  }
}

module.exports = { Election, ReadWriteLock, Semaphore };
