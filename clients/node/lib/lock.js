// SPDX-License-Identifier: MIT
//
// A lock, or several at once: its requests to the cluster, and what the client
// can trust meanwhile.
'use strict';

const { HaspError, Wait, checkOptions } = require('./request');
const { toMs } = require('./core');
const { GRANTED, Grant, OVER, STALE, isPart, judgeTold, limitOf, partsOf,
  toldAll } = require('./hold');
const { MS, holdRemaining, trusted } = require('./lease');
const { UNREPORTED } = require('./hooks');
const { retryPause, sleep } = require('./link');
const { seal } = require('./seal');
const { Turn } = require('./turn');

const OPTIONS = ['owner', 'shared', 'slots', 'value', 'trace', 'delay', 'hold',
  'barge', 'timeout', 'onGrant', 'sealTime'];
const BEHIND_MS = 50; // Between checks for other requests of an owner.
const TIMER_MAX_MS = 2 ** 31 - 1;
const CANCELLED = new Error('cancelled');
const ENDED = new Error('the session has ended');

/** A lock by name, or several. Two Lock objects exclude each other, and so do
 * two tasks that share one; it is not reentrant unless it has an 'owner'.
 * Durations are in milliseconds. Trust in a hold ends when its release is
 * sent. */
class Lock {
  constructor(session, names, options = {}) {
    checkOptions('lock', options, OPTIONS);
    this.session = session;
    this.names = [names].flat();
    if (!(options.slots === undefined || options.slots >= 1)) {
      throw new RangeError(`slots: ${options.slots}: expected 1 or more; ` +
        'omit slots for an exclusive lock');
    }
    if (!this.names.length ||
        this.names.some((name) => typeof name !== 'string' || !name)) {
      throw new TypeError('a lock needs a name, or a list of names');
    }
    if (typeof (options.onGrant ?? seal) !== 'function') {
      throw new TypeError('onGrant: expected a function of the name and the ' +
        'token');
    }
    this.options = options;
    this.signal = null; // Aborted when the hold can no longer be trusted.
    this.grants = []; // Not released; the newest one is trusted.
    this.tag = null; // The owner tag, while it is in use.
    // A change with unknown outcome: { verb, words, number }.
    this.doubt = null;
    this.owed = []; // Releases that must still be sent: { parts }.
    this.changes = new Turn(); // One change at a time.
    this.gate = new Turn(); // From acquire() to release(), if it is shared.
    this.waits = new Set();
    this.conversions = new Set(); // Waiting conversions; a release ends them.
    this.wait = null; // The wait of the newest change.
    this.reported = UNREPORTED; // The newest acquisition.
  }

  /** Acquisitions that were not released. */
  get count() {
    return this.grants.length;
  }

  /** The acquisition that is trusted. */
  get grant() {
    return this.grants.at(-1);
  }

  /** True if the lock is, or will be, held shared; convert() changes it. */
  get shared() {
    return this.grant?.shared ?? Boolean(this.options.shared);
  }

  /** The fencing tokens by lock name. */
  get tokens() {
    return Object.fromEntries((this.grant?.parts ?? []).map(
      ({ name, token }) => [name, token]));
  }

  get name() {
    return this.names.join(', ');
  }

  /** The fencing token, larger at each grant; null: not held. For several locks,
   * the token of the first one; 'tokens' has all by name. */
  get token() {
    return this.grant?.parts[0].token ?? null;
  }

  /** Waits in line for up to 'wait' ms (Infinity: without limit, 0: only tries).
   * Resolves with true or false; rejects with the signal's reason if it is
   * aborted. */
  async acquire(how = {}) {
    const { wait = this.options.timeout ?? Infinity, signal } = howOf(how);
    const until = waitUntil(wait);
    try {
      return await this.stoppable(this.waits, signal, async (stop) => {
        const grant = await this.acquireOnce(until, stop);
        if (grant && this.options.onGrant) {
          await seal(this, grant, stop);
        }
        return Boolean(grant);
      });
    } catch (error) {
      if (error !== CANCELLED) {
        throw error;
      }
      return false;
    }
  }

  /** Returns the result of work(signal). The signal is aborted with the caller's
   * signal, by any code that finds it in 'among', and with the session. */
  async stoppable(among, signal, work) {
    const { ends } = this.session;
    const stop = new AbortController();
    const abort = () => stop.abort(signal.reason);
    const end = () => stop.abort(ENDED);
    signal?.throwIfAborted();
    signal?.addEventListener('abort', abort);
    among.add(stop);
    ends.add(end);
    try {
      return await work(stop.signal);
    } catch (error) {
      if (error === ENDED) {
        this.session.check();
      }
      throw error;
    } finally {
      among.delete(stop);
      ends.delete(end);
      signal?.removeEventListener('abort', abort);
    }
  }

  /** Makes waiting acquire()s resolve with false; returns whether there was
   * one. */
  cancel() {
    this.waits.forEach((stop) => stop.abort(CANCELLED));
    return this.waits.size > 0;
  }

  /** Acquires it, or rejects with TIMEDOUT. For
   * `await using lock = await session.lock('orders').enter()`. */
  async enter(how = {}) {
    if (!await this.acquire(how)) {
      throw new HaspError('TIMEDOUT', `"${this.name}" was not granted in ` +
        'time');
    }
    return this;
  }

  /** Acquires it, awaits work(this), then releases it in any case. */
  async run(work, how = {}) {
    await this.enter(how);
    let result;
    try {
      result = await work(this);
    } catch (error) {
      await this.release().catch(() => {}); // The error of the work matters more.
      throw error;
    }
    await this.release();
    return result;
  }

  /** Releases the newest hold. If it rejects, the session keeps trying in the
   * background. NOTHELD: the cluster had already ended that hold; holds of the
   * owner with other tokens stay. */
  async release() {
    if (this.count === 0) {
      throw new HaspError('NOTHELD', `"${this.name}" is not held`);
    }
    await this.releaseGrant(this.grant);
  }

  async releaseGrant(grant) {
    this.forget(grant);
    const owed = { parts: grant.kept() };
    const isLast = this.count === 0;
    try {
      this.session.check();
      if (!owed.parts.length) {
        throw new HaspError('NOTHELD', `"${this.name}" is no longer held: it ` +
          'was taken away earlier');
      }
      this.owed.push(owed); // The owner tag stays in use until the release begins.
      this.conversions.forEach((stop) => stop.abort(
        new HaspError('NOTHELD', `"${this.name}" was released`)));
      await this.changes.run(() => this.pay(owed));
    } finally {
      if (this.owed.includes(owed)) { // It was not begun yet.
        this.session.doubts.add(this);
      }
      if (isLast && !this.options.owner) {
        this.gate.leave();
      }
    }
  }

  /** Releases an acquisition that no caller received. If that gets no answer, it
   * continues in the background. */
  async giveBack(grant) {
    if (this.grants.includes(grant)) {
      await this.releaseGrant(grant).catch(() => {});
    }
  }

  /** Sends a release once all earlier changes are settled. */
  async pay(owed) {
    await this.settle(owed);
    if (!this.owed.includes(owed)) {
      return; // Another release has sent it.
    }
    const { parts } = owed;
    this.owed.splice(this.owed.indexOf(owed), 1);
    const answer = await this.change('RELEASE', parts);
    const released = parts.length > 1 ? answer : 1;
    if (released < parts.length || parts.length < this.names.length) {
      throw new HaspError('NOTHELD', `only ${released} of the locks ` +
        `"${this.name}" were still held`);
    }
  }

  /** Converts the hold. To shared: at once. To exclusive ('shared' is false): when
   * the other readers have released it, ahead of the queue, with a new token;
   * false: it is still shared. */
  async convert({ shared, ...how }) {
    const { wait = Infinity, signal } = howOf(how);
    const until = shared ? null : waitUntil(wait);
    this.checkConvertible();
    const { grant } = this;
    return this.stoppable(this.conversions, signal, (stop) => this.change1(
      until, stop, async () => {
        if (this.grant !== grant) { // It was released meanwhile.
          throw new HaspError('NOTHELD', `"${this.name}" was released`);
        }
        // Trust in the exclusive hold ends first.
        this.grant.shared ||= Boolean(shared);
        return await this.change('CONVERT', [shared ? 'SHARED' : 'EXCLUSIVE',
          'TOKEN', this.token, 'FULL'], until, stop) !== null;
      }));
  }

  checkConvertible() {
    if (this.count === 0) {
      throw new HaspError('NOTHELD', `"${this.name}" is not held`);
    }
    if (this.names.length > 1) {
      throw new HaspError('NOTHELD', 'cannot convert several locks at once: ' +
        this.name);
    }
  }

  /** Runs the only change of this object at a time, once earlier ones are
   * settled; the wait for that can be aborted, too. */
  async change1(until, signal, work) {
    const { timeout } = this.session;
    if (!await this.changes.enter((until ?? performance.now()) + timeout,
      signal)) {
      throw this.notKnown();
    }
    try {
      await this.settle(null, signal);
      return await work();
    } finally {
      this.changes.leave();
    }
  }

  notKnown() {
    return new HaspError('UNREACHABLE', 'the outcome of an earlier request ' +
      `for "${this.name}" is not known yet`);
  }

  /** Place in the queue of a waiting acquire(): 1 is the next. null: not in the
   * queue. */
  async place() {
    const { queue } = await this.session.ask('LOCK.SHOW', this.names[0]);
    return queue.findIndex((one) => this.isMine(one)) + 1 || null;
  }

  /** Stores up to 4096 bytes with the lock for later holders: 'note' of LOCK.SHOW.
   * NOTHELD: the lock is not held. */
  async note(text) {
    if (!this.token) {
      throw new HaspError('NOTHELD', `"${this.name}" is not held`);
    }
    await this.session.ask('LOCK.NOTE', this.names[0], this.token, text,
      'OWNER', this.tag.tag);
  }

  /** True if the hold can be trusted now. */
  locked() {
    return this.left() > 0n;
  }

  /** Milliseconds for which the hold can be trusted; 0 if it is not held. */
  remaining() {
    return toMs(this.left());
  }

  /** The same in nanoseconds. */
  left() {
    const left = this.session.lease.remaining();
    if (this.count === 0 || this.grant.isOver) {
      return 0n;
    }
    const { limit } = this.grant;
    const ofHold = limit ? holdRemaining(limit.from, limit.ms) : left;
    return ofHold < left ? ofHold : left;
  }

  /** Throws LOST or SHORT unless a step of 'need' ms ends within the lease. */
  guard(need = 0) {
    const ns = this.left();
    if (ns > 0n && ns >= need * Number(MS)) {
      return;
    }
    if (this.count === 0) {
      throw new HaspError('LOST', `"${this.name}" is not held`);
    }
    this.session.check();
    if (this.grant.isOver) {
      throw new HaspError('LOST', `"${this.name}" was taken away, or its ` +
        'hold time is over');
    }
    const most = Math.min(toMs(trusted(this.session.lease.promised())),
      0.8 * (this.options.hold ?? Infinity));
    const never = `; it is never more than ${most.toFixed(0)} ms, 0.8 of the ` +
      'smallest of ttl, linger and hold';
    throw new HaspError('SHORT', `"${this.name}": ${toMs(ns).toFixed(0)} ms ` +
      `left of the lease, ${need} ms needed${need > most ? never : ''}`);
  }

  // --- belief ----------------------------------------------------------------

  /** Begins the trust in a grant, by the answer to the request sent then. */
  granted(all, sent, isAgain) {
    const verdict = this.judge(all, sent, isAgain);
    if (verdict === STALE) {
      return verdict;
    }
    const { held } = this.session;
    const grant = new Grant(this.names, all, sent, this.reported);
    grant.isOver ||= verdict === OVER;
    for (const own of grant.parts) {
      for (const lock of [...held]) {
        lock.endWhere(this.tag.tag, (part) => part.name === own.name &&
          part.token < own.first).forEach((token) => this.session.say('lost',
          { name: own.name, token, text: 'ended' }));
      }
    }
    this.grants.push(grant);
    held.add(this);
    this.reported.granted(all[0].token);
    if (!this.stop || this.stop.signal.aborted) {
      this.renew();
    }
    for (const own of grant.parts) {
      if ([...held].some((lock) => lock.hasNewer(this.tag.tag, own))) {
        Object.assign(own, { isOver: true });
        grant.isOver = true;
      }
    }
    if (grant.isOver) { // It was held, and is already lost.
      const { name, token } = grant.parts.find(({ isOver }) => isOver) ??
        grant.parts[0];
      this.session.say('lost', { name, token, text: 'ended' });
      grant.reported.lost('ended');
    }
    return GRANTED;
  }

  /** An answer older than a notice might describe a hold that has ended. */
  judge(all, sent, isAgain) {
    const isOld = all.some((told) => told.as_of < this.session.newest);
    return isOld ? STALE : judgeTold(all, sent, isAgain);
  }

  /** Like granted(), for a conversion: an owner has one hold, shared by all its
   * grants and lock objects. */
  converted([told], sent, isAgain) {
    const verdict = told.count ? this.judge([told], sent, isAgain) : OVER;
    if (verdict === GRANTED) {
      this.session.held.forEach((lock) => lock.convertedBy(told));
      if (this.grant && isPart(told, this.grant.parts[0]) &&
          told.mode !== 'shared') { // An upgrade restarts the limit.
        this.grant.limit = limitOf([told], sent);
        this.look();
      }
    } else if (verdict === OVER) {
      this.session.held.forEach((lock) => lock.endWhere(this.tag.tag,
        (part) => isPart(told, part)));
    }
    return verdict;
  }

  convertedBy(told) {
    for (const grant of this.tag?.tag === told.owner ? this.grants : []) {
      for (const part of grant.parts) {
        if (isPart(told, part) && !part.isOver) {
          part.token = told.token;
          part.asOf = Math.max(part.asOf, told.as_of);
          grant.shared = told.mode === 'shared';
        }
      }
    }
  }

  hasNewer(owner, { name, token }) {
    return this.tag?.tag === owner && this.grants.some(({ parts }) =>
      parts.some((part) => part.name === name && part.first > token));
  }

  /** Ends those parts of that owner; returns the tokens that were trusted. */
  endWhere(owner, which, reason = 'ended') {
    if (this.tag?.tag !== owner) {
      return [];
    }
    const tokens = this.grants.flatMap((grant) => grant.end(which, reason));
    if (this.grant?.isOver) {
      this.look();
    }
    return [...new Set(tokens)];
  }

  /** Ends the trust in one acquisition. */
  forget(grant) {
    grant.reported.released();
    this.grants.splice(this.grants.indexOf(grant), 1);
    if (this.count === 0) {
      this.session.held.delete(this);
    } else if (this.stop.signal.aborted && this.remaining() > 0) {
      this.renew();
    }
    this.look();
  }

  renew() {
    this.stop = new AbortController();
    this.signal = this.stop.signal;
  }

  /** Aborts the signal in time. */
  look() {
    clearTimeout(this.timer);
    const left = this.remaining();
    if (left > 0) {
      this.timer = setTimeout(() => this.look(),
        Math.min(Math.ceil(left), TIMER_MAX_MS));
    } else {
      this.tellLimit();
      this.stop?.abort(new HaspError('LOST',
        `the hold of "${this.name}" can no longer be trusted`));
    }
  }

  /** Reports, once, that the time limit is over by the local clock: the cluster
   * reports that too late. */
  tellLimit() {
    const { session, grant } = this;
    if (grant?.limit && !grant.isOver && session.isAlive() &&
        holdRemaining(grant.limit.from, grant.limit.ms) === 0n) {
      // The cluster might still hold it: it will be released.
      grant.isOver = true;
      session.say('lost', { name: this.names[0], token: this.token,
        text: 'max hold' });
      grant.reported.lost('max hold');
    }
  }

  isMine({ session, owner }) {
    return owner === this.tag?.tag && String(session) === this.session.id;
  }

  // --- changes: numbered, and in doubt until the outcome is known ------------

  /** Resolves with the grant, or false. */
  async acquireOnce(until, signal) {
    const reported = this.session.reporter.begin(this.names[0],
      this.options.trace);
    try {
      const grant = await this.acquireAs(reported, until, signal);
      reported.failed('not granted in time'); // Unless it was granted.
      return grant;
    } catch (error) {
      reported.failed(error?.message ?? String(error));
      throw error;
    }
  }

  async acquireAs(reported, until, signal) {
    this.session.check();
    if (!await this.gate.enter(until, signal)) {
      return false;
    }
    try {
      return await this.change1(until, signal, async () => {
        this.reported = reported;
        if (await this.change('ACQUIRE', this.words(), until, signal) ===
            null) {
          return false;
        }
        return this.confirm();
      });
    } finally {
      if (this.count === 0 || this.options.owner) {
        this.gate.leave();
      }
    }
  }

  /** Returns the grant; throws if the session has been lost meanwhile. */
  confirm() {
    try {
      this.session.check();
    } catch (error) {
      this.forget(this.grant);
      throw error;
    }
    this.look();
    return this.grant;
  }

  words() {
    const { shared, slots, value, trace, delay, hold, barge } = this.options;
    return [...(shared ? ['SHARED'] : []),
      ...(slots ? ['SLOTS', slots] : []), ...(value ? ['VALUE', value] : []),
      ...(trace ? ['TRACE', trace] : []),
      ...(delay ? ['DELAY', delay] : []), ...(hold ? ['HOLD', hold] : []),
      ...(barge ? ['BARGE'] : []), 'FULL'];
  }

  /** 'more': further words of the request, or the parts to release; null: all
   * holds of the owner. */
  begin(verb, more) {
    this.tag ??= this.session.owners.take(this.options.owner);
    const { number, words } = this.session.owners.begin(this.tag);
    const parts = verb === 'RELEASE' ? more : null;
    const which = parts?.map(({ name }) => name) ?? this.names;
    const tokens = parts?.map(({ token }) => token) ?? [];
    const isMany = which.length > 1;
    this.doubt = { verb: verb === 'CONVERT' ? more[0] : verb, number, parts,
      token: verb === 'CONVERT' ? more[2] : tokens[0],
      words: [...(isMany ? [`LOCK.M${verb}`, which.length]
        : [`LOCK.${verb}`]), ...which,
      ...(parts ? [isMany ? 'TOKENS' : 'TOKEN', ...tokens]
        : verb === 'RELEASE' ? [] : more), ...words] };
  }

  /** Ends a change whose outcome is known. An object that holds nothing needs
   * no owner. */
  end(isOver = true) {
    this.session.owners.end(this.doubt.number);
    this.doubt = null;
    this.session.doubts.delete(this);
    if (this.owed.length) {
      this.session.doubts.add(this);
    }
    if (isOver && this.count === 0 && !this.owed.length) {
      this.session.owners.put(this.tag);
      this.tag = null;
    }
  }

  /** Returns the answer; null: nothing was granted. If the answer is older than
   * the known state, it is requested again under its number. */
  async change(verb, more, until = null, signal = undefined) {
    if ((verb === 'ACQUIRE' || more.includes('EXCLUSIVE')) &&
        !await this.takeTurn(until, signal)) {
      return null;
    }
    this.begin(verb, more);
    try {
      this.wait = until === null ? null : new Wait(until, this.tag.tag,
        this.names.length, this.session.durable,
        () => this.reported.waits());
      const reply = await this.asked(verb, signal);
      this.end();
      return reply;
    } catch (error) {
      this.failed(error, signal);
      throw error;
    } finally {
      this.session.acquiring.delete(this);
    }
  }

  async asked(verb, signal) {
    for (let round = 0; ; round++) {
      const { reply, sent } = await this.session.request(this.doubt.words,
        { wait: this.wait, signal, isDoubtful: round > 0,
          fits: (one) => this.fits(one) });
      if (verb === 'RELEASE' || reply === null) {
        return reply;
      }
      const all = toldAll(reply);
      const verdict = verb === 'ACQUIRE'
        ? this.granted(all, sent, round > 0)
        : this.converted(all, sent, round > 0);
      if (verdict === GRANTED) {
        return reply;
      } else if (verdict === OVER) {
        throw new HaspError('LOST', `"${this.name}" was taken away`);
      }
      if (round) {
        await sleep(retryPause(round));
      }
    }
  }

  failed(error, signal) {
    const isAborted = isAbort(error, signal);
    const isBack = ['RELEASE', 'SHARED'].includes(this.doubt.verb);
    if (isAborted || error.code === 'UNKNOWN' ||
        (error.code === 'UNREACHABLE' && isBack)) {
      this.session.doubts.add(this);
    } else {
      this.notHeld(error);
      this.end();
    }
    if (isAborted) {
      setImmediate(() => this.session.settle());
    }
  }

  /** NOTHELD: ends the trust in a hold that the cluster does not have. */
  notHeld({ code }) {
    const { token, words: [verb, name] } = this.doubt;
    if (code === 'NOTHELD' && !verb.startsWith('LOCK.M') && token) {
      [...this.session.held].forEach((lock) => lock.endWhere(this.tag.tag,
        (part) => part.name === name && part.token === token));
    }
  }

  /** True if the reply has the form that this change is answered with. Any other
   * reply, from a peer that is not a node, must not count as a grant. */
  fits(reply) {
    if (this.doubt.verb === 'RELEASE') {
      return Number.isInteger(reply);
    }
    return reply === null || toldAll(reply)?.length === this.names.length;
  }

  isRivalOf({ names, options }) {
    return options.owner && options.owner === this.options.owner &&
      this.names.some((name) => names.includes(name));
  }

  /** Lets an owner send one request for a lock at a time. The cluster merges two
   * waits of one owner into one wait with one grant, so a second request must
   * wait until abandoned ones are settled: their grants are released. */
  async takeTurn(until, signal) {
    const { acquiring, doubts, timeout } = this.session;
    const limit = (until ?? performance.now()) + timeout;
    const hasRivals = (locks) => [...locks].some(
      (lock) => lock !== this && lock.isRivalOf(this));
    while (hasRivals(acquiring) || hasRivals(doubts)) {
      if (performance.now() >= (until ?? 0) && hasRivals(
        [...acquiring].filter(({ wait }) => (wait?.place ?? null) !== null))) {
        return false;
      }
      if (performance.now() >= limit) {
        throw this.notKnown();
      }
      this.session.settle();
      await sleep(BEHIND_MS);
      this.session.check();
      signal?.throwIfAborted();
    }
    acquiring.add(this);
    return true;
  }

  /** Settles a change with an unknown outcome: sent again under its number, and
   * without a wait, it returns the outcome. A grant is released, since no caller
   * waits for it. Pending releases are sent, too, except 'but', which its caller
   * sends. */
  async settle(but = null, signal = undefined) {
    for (let forgotten = 0; ;) {
      if (!this.doubt) {
        const owed = this.owed.find((one) => one !== but);
        if (!owed) {
          return;
        }
        this.owed.splice(this.owed.indexOf(owed), 1);
        this.begin('RELEASE', owed.parts);
        this.session.doubts.add(this);
      }
      let reply = null;
      let error = {};
      try {
        ({ reply } = await this.session.request(this.doubt.words, {
          isDoubtful: true, signal, fits: (one) => this.fits(one) }));
      } catch (failure) {
        error = failure;
        if (isAbort(error, signal) || !(error instanceof HaspError) || (!error.isForgotten &&
            ['LOST', 'UNKNOWN', 'UNREACHABLE'].includes(error.code))) {
          throw error;
        }
        this.notHeld(error);
      }
      if (error.isForgotten && forgotten++) {
        await sleep(retryPause(forgotten));
      }
      this.undo(reply, error);
    }
  }

  /** The request that undoes the outcome of a settled change. */
  undo(reply, { isForgotten }) {
    const { verb } = this.doubt;
    const all = reply === null ? [] : toldAll(reply) ?? [];
    if (isForgotten) {
      this.undoForgotten();
      return;
    } else if (verb === 'ACQUIRE' && all.some(({ count }) => count > 0)) {
      this.owed.push({ parts: partsOf(this.names, all)
        .filter(({ isOver }) => !isOver) });
    } else if (verb === 'EXCLUSIVE' && all[0]?.count) {
      // It has a new token, and is still shared.
      this.session.held.forEach(
        (lock) => lock.convertedBy({ ...all[0], mode: 'shared' }));
      this.downgrade(all[0].token);
      return;
    } else if (verb === 'SHARED') { // After an upgrade it has a new token.
      this.session.held.forEach((lock) => all.forEach(
        (told) => lock.convertedBy(told)));
    }
    this.end();
  }

  /** Makes sure that nothing is left of a forgotten change. The cluster may have
   * executed it or not: its number is spent unused if too many others overtake
   * it. */
  undoForgotten() {
    const { verb, token, parts } = this.doubt;
    if (verb === 'SHARED' ||
        (verb === 'EXCLUSIVE' && this.grant?.shared !== false)) {
      this.downgrade(token);
      return;
    }
    // A named owner can have other holds of the lock, and a release that was
    // executed must not end another acquisition of the same hold.
    if (parts ? !this.hasOthers(parts)
      : verb !== 'EXCLUSIVE' && this.tag.isPrivate) {
      this.owed.push({ parts });
    }
    this.end();
  }

  /** Asks for a shared hold in place of the change in doubt. */
  downgrade(token) {
    this.end(false);
    this.begin('CONVERT', ['SHARED', 'TOKEN', token, 'FULL']);
    this.session.doubts.add(this);
  }

  /** True if the owner holds one of these locks by another acquisition, or is
   * requesting it. */
  hasOthers(parts) {
    const { held, acquiring } = this.session;
    return [...held, ...acquiring].some((lock) =>
      (lock !== this || this.count > 0) && lock.tag?.tag === this.tag.tag &&
      parts.some(({ name }) => lock.names.includes(name)));
  }
}

if (Symbol.asyncDispose) { // For `await using`.
  Lock.prototype[Symbol.asyncDispose] = Lock.prototype.release;
}

/** A signal's reason can be any error, also one of this package. */
const isAbort = (error, signal) => Boolean(signal?.aborted) &&
  error === signal.reason;

/** Normalizes a number or { wait, signal }. A misspelt option is refused, since
 * it would mean a wait without limit. */
function howOf(how) {
  if (typeof how === 'number') {
    return { wait: how };
  }
  if (how === null || typeof how !== 'object' || how instanceof AbortSignal) {
    throw new TypeError('how to wait: expected a number of milliseconds or ' +
      '{ wait, signal }');
  }
  checkOptions('wait', how, ['wait', 'signal']);
  return how;
}

function waitUntil(wait) {
  if (!(wait >= 0)) {
    throw new RangeError(`wait: ${wait}: expected Infinity (no limit), 0 (do ` +
      'not wait) or a number of milliseconds');
  }
  return wait === 0 ? null : performance.now() + wait;
}

module.exports = { Lock };
