// SPDX-License-Identifier: MIT
//
// What is built from locks.
'use strict';

const { Lock } = require('./lock');
const { Watch } = require('./watch');

/** Held by 'slots' at once, cluster-wide; all must say the same number. */
class Semaphore {
  constructor(session, name, slots, options = {}) {
    Object.assign(this, { session, name, options: { ...options, slots } });
  }

  /** A lock of its own, for one of the slots. */
  slot() {
    return this.session.lock(this.name, this.options);
  }
}

/** Readers together, a writer alone, in the order of their arrival: readers
 * that come later do not starve a writer. */
class ReadWriteLock {
  constructor(session, name, options = {}) {
    Object.assign(this, { session, name, options });
  }

  /** A lock of its own, that readers hold together. */
  read() {
    return this.session.lock(this.name, { ...this.options, shared: true });
  }

  /** A lock of its own, that nobody else holds. */
  write() {
    return this.session.lock(this.name, this.options);
  }
}

/** A lock whose holder leads, and whose 'value' is what it tells the others: its
 * address, for example. acquire() campaigns, release() resigns. */
class Election extends Lock {
  /** Who leads now, { value, token, client }; null: nobody. */
  async leader() {
    const { holders: [one] } =
      await this.session.ask('LOCK.SHOW', this.names[0]);
    return one
      ? { value: one.value, token: one.token, client: one.client } : null;
  }

  /** Who leads, now and whenever it is another one. */
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
