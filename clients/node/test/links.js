// SPDX-License-Identifier: MIT
//
// The sessions of a process share a connection, and nothing else. Run by
// clients/python/tests/test_node_links.py, which starts a cluster and kills and
// freezes the nodes that its input names.
'use strict';

const assert = require('node:assert');
const net = require('node:net');
const { HaspError, Session } = require('..');
const { Connection } = require('../lib/connection');
const { INCOMPLETE, Parser } = require('../lib/resp');
const { sleep, tell } = require('./nodes');

const COUNT = 50;
const connections = () => process.getActiveResourcesInfo()
  .filter((name) => name === 'TCPSocketWrap').length;
const many = (count, options = {}) =>
  Promise.all(Array.from({ length: count }, () => Session.open(options)));
const closeAll = (sessions) =>
  Promise.all(sessions.map((session) => session.close()));

async function until(condition, what) {
  for (let i = 0; !await condition(); i++) {
    assert.ok(i < 1000, `not in time: ${what}`);
    await sleep(10);
  }
}

async function cycles(session, number, end, holders) {
  const name = `hot/${number % 10}`;
  let count = 0;
  for (; performance.now() < end; count++) {
    await session.lock(name).run(async (lock) => {
      lock.guard(100);
      assert.ok(!holders[name]?.isInside, `${name} is held twice`);
      assert.ok(lock.token > (holders[name]?.token ?? 0), 'tokens grow');
      holders[name] = { isInside: true, token: lock.token };
      await sleep(2);
      holders[name].isInside = false;
    });
  }
  return count;
}

const queue = async (session, name) =>
  (await session.ask('LOCK.SHOW', name)).queue.length;

const onCluster = {
  async 'many sessions have one connection and survive its nodes'() {
    const sessions = await many(COUNT, { ttl: 6000 });
    const events = [];
    for (const session of sessions) {
      ['jeopardy', 'lost'].forEach((kind) => session.on(kind,
        (event) => events.push(event)));
    }
    assert.equal(connections(), 1);
    const end = performance.now() + 8000;
    const holders = {};
    const done = Promise.all(sessions.map((session, number) =>
      cycles(session, number, end, holders)));
    const port = () => sessions[0].link.endpoint().port;
    await sleep(1000);
    await tell(`kill ${port()}`);
    await sleep(1500);
    await tell('start');
    await tell(`freeze ${port()}`);
    await sleep(3000);
    await tell('thaw');
    assert.ok(Math.min(...await done) > 1);
    assert.deepEqual(events, []);
    await until(() => connections() === 1, 'one connection');
    await closeAll(sessions);
    await until(() => connections() === 0, 'no connection');
  },

  async 'waits keep their places when the connection is lost'() {
    const holder = await Session.open({ ownConnection: true });
    const sessions = await many(8);
    await holder.lock('places').acquire();
    const order = [];
    const waits = [];
    for (const session of sessions) {
      waits.push(session.lock('places').run(
        () => order.push(sessions.indexOf(session))));
      await until(async () => await queue(holder, 'places') === waits.length,
        'it waits');
    }
    const { line } = sessions[0].link;
    line.close();
    await until(() => ![null, line].includes(sessions[0].link.line),
      'another connection');
    await holder.close();
    await Promise.race([Promise.all(waits), sleep(8000)]); // Not after 15 s.
    assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7]);
    await closeAll(sessions);
  },

  async 'the end of one is not felt by its neighbours'() {
    const [one, two] = await many(2, { ttl: 2000 });
    assert.equal(one.link, two.link);
    two.on('lost', () => assert.fail('it is not about this one'));
    const theirs = two.lock('end/2');
    await theirs.acquire();
    const waiting = one.lock('end/2').acquire();
    await two.ask('BLACKLIST.ADD', 'SESSION', one.id, 'REASON', 'told');
    await assert.rejects(waiting);
    await until(() => one.state() === 'lost', 'it is lost');
    two.link.line.close();
    await theirs.release();
    assert.ok(await theirs.acquire());
    await closeAll([one, two]);
  },

  async 'what waits or names a session has a connection of its own'() {
    const [one, two] = await many(2);
    const lock = one.lock('alone');
    await lock.acquire();
    const waiting = two.ask('LOCK.ACQUIRE', 'alone', 'OWNER', 'me', 'WAIT',
      3000);
    await until(async () => await queue(one, 'alone') === 1, 'it waits');
    assert.equal(connections(), 2);
    const { token } = lock;
    await lock.release();
    assert.ok(await waiting > token);
    await until(() => connections() === 1, 'it is closed');
    const [held] = (await one.ask('LOCK.SHOW', 'alone')).holders;
    assert.equal(String(held.session), two.id);
    assert.equal(await two.ask('LOCK.RELEASE', 'alone', 'OWNER', 'me'), 0);
    assert.ok(await one.ask('LOCK.ACQUIRE', 'alone', 'SESSION', one.id));
    assert.equal(await one.ask('LOCK.RELEASE', 'alone'), 0);
    assert.equal(await one.ask('PING'), 'PONG');
    await closeAll([one, two]);
  },

  async 'a hold without a notice is not believed in for longer'() {
    const other = await Session.open({ ownConnection: true });
    const take = (name) => other.ask('LOCK.RELEASEIF', name, 'OWNER', 'me');
    for (const durable of [false, true]) {
      const session = await Session.open({ ttl: 4000, durable });
      const lost = [];
      session.on('lost', (event) => lost.push(event));
      const locks = Array.from({ length: 300 }, (_, i) =>
        session.lock(`many${durable}${i}`, { owner: 'me' }));
      await Promise.all(locks.map((lock) => lock.acquire()));
      const taken = locks.filter((_, i) => i % 10);
      await Promise.all(taken.map(({ name }) => take(name)));
      await until(() => lost.length === taken.length, 'all are reported');
      for (const lock of locks) {
        assert.equal(lock.locked(), !taken.includes(lock));
        await (taken.includes(lock) ? assert.rejects(lock.release(),
          { code: 'NOTHELD' }) : lock.release());
      }
      await session.close();
    }
    await other.close();
  },

  async 'releasing a hold that is over releases nothing else'() {
    const [one, other] = await many(2, { ttl: 20000 });
    const take = (name) => other.ask('LOCK.RELEASEIF', name, 'OWNER', 'me');
    for (const names of [['again'], ['again one', 'again two']]) {
      const [first, second] = [1, 2].map(() => one.lock(names,
        { owner: 'me' }));
      await first.acquire();
      await Promise.all(names.map(take));
      await second.acquire(); // Under other tokens.
      assert.ok(!first.locked() && first.signal.aborted);
      await assert.rejects(first.release(), { code: 'NOTHELD' });
      second.guard();
      const theirs = other.lock(names);
      assert.equal(await theirs.acquire(0), false);
      await take(names[0]);
      await second.acquire(); // The same object, which had lost it.
      assert.ok(second.locked() && !second.signal.aborted);
      await second.release();
      await assert.rejects(second.release(), { code: 'NOTHELD' });
      assert.ok(await theirs.acquire());
      await theirs.release();
    }
    const limits = [one.lock('limit b', { owner: 'me', hold: 3000 }),
      one.lock('limit b', { owner: 'me' }),
      one.lock(['limit a', 'limit b'], { owner: 'me', hold: 15000 })];
    for (const lock of limits) {
      await lock.acquire();
      assert.ok(lock.remaining() > 0 && lock.remaining() <= 2400);
    }
    await until(() => !limits.some((lock) => lock.locked()), 'it is over');
    await closeAll([one, other]);
  },

  async 'sessions share a connection by default, not if it is their own'() {
    const kept = await many(2);
    for (const options of [{ ownConnection: true }, { ttl: 3000 },
      { linger: 2000 }, { durable: true },
      { endpoints: process.env.HASP_ENDPOINTS.split(',').reverse() }]) {
      const session = await Session.open(options);
      assert.equal(connections(), 2, JSON.stringify(options));
      await session.close();
    }
    await kept.pop().close();
    assert.equal(connections(), 1);
    await kept.pop().close();
    await until(() => connections() === 0, 'none is left');
  },

  async 'one is closed while others wait; sessions come and go'() {
    const [holder, stays, goes] = await many(3);
    await holder.lock('closing').acquire();
    const kept = stays.lock('closing').acquire();
    const ended = goes.lock('closing').acquire();
    await until(async () => await queue(holder, 'closing') === 2, 'both wait');
    const refused = assert.rejects(ended, { code: 'LOST' });
    await goes.close();
    await refused;
    await Promise.all(Array.from({ length: 16 }, async (_, number) => {
      for (let i = 0; i < 6; i++) {
        const session = await Session.open();
        await session.lock(`storm/${number % 3}`).run(() => {});
        await session.close();
      }
    }));
    assert.equal(connections(), 1);
    await holder.close();
    assert.equal(await kept, true);
    await stays.close();
    await until(() => connections() === 0, 'none is left');
  },
};

/** A node that gives the answers that the test sets; its requests. */
async function fake(answer, work) {
  const sockets = new Set();
  const requests = [];
  const server = net.createServer((socket) => {
    const parser = new Parser();
    sockets.add(socket);
    socket.on('error', () => {});
    let turn = Promise.resolve(); // In the order of the requests.
    socket.on('data', (data) => {
      parser.feed(data);
      for (let words; (words = parser.next()) !== INCOMPLETE;) {
        const asked = words;
        requests.push(asked);
        turn = turn.then(async () => socket.write(
          await answer(asked, requests, socket) ?? '+OK\r\n', 'latin1'));
      }
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    await work(`127.0.0.1:${server.address().port}`, requests);
  } finally {
    sockets.forEach((socket) => socket.destroy());
    server.close();
  }
}

const map = (told) => `%${Object.keys(told).length}\r\n` +
  Object.entries(told).map(([key, value]) => `+${key}\r\n${value}`).join('');
const lease = (id) => map({ id: `:${id}\r\n`, ttl_ms: ':60000\r\n',
  linger_ms: ':0\r\n' });
/** A node's report of a hold. */
const holdOf = (owner, name, token, { first = token, count = 1, left = '_',
  mode = 'exclusive', asOf = token + 100 } = {}) => map({
  lock: `+${name}\r\n`, owner: `+${owner}\r\n`, token: `:${token}\r\n`,
  first: `:${first}\r\n`, mode: `+${mode}\r\n`, count: `:${count}\r\n`,
  hold_left_ms: `${left}\r\n`, delay_ms: ':0\r\n', as_of: `:${asOf}\r\n` });
/** The answer to a granted request for one lock. */
const grantOf = (words, token) => holdOf(words[words.indexOf('OWNER') + 1],
  words[1], token);
const pushed = (told) => `>3\r\n+lock\r\n+answer\r\n${told}`;
const end = (tokens) => pushed(map({ session: ':7\r\n', owner: '+me\r\n',
  wait: ':8\r\n', ...tokens }));
const granted = end({ grants: `*1\r\n${holdOf('me', 'a', 99)}` });
const QUEUED = '+QUEUED 8\r\n';

/** The answers that come with the first answer to a wait, and how often the
 * outcome is requested. */
const hostile = {
  'a push for another session': [QUEUED + pushed(map({ session: ':9\r\n' })) +
    end(), 2],
  'a push of odd parts': [`${QUEUED}${pushed(':7\r\n')}${end()}`, 2],
  'a short push': [`${QUEUED}>1\r\n+lock\r\n${end()}`, 2],
  'a push with tokens that are none': [QUEUED +
    end({ grants: '*1\r\n+x\r\n' }), 2],
  'a push with a token of 0': [QUEUED +
    end({ grants: `*1\r\n${holdOf('me', 'a', 0)}` }), 2],
  'a push that does not say how much is left': [QUEUED +
    end({ grants: `*1\r\n${holdOf('me', 'a', 99, { left: ':0' })}` }), 2],
  'an answer without a request': [`${QUEUED}+OK\r\n`, 2],
  'garbage': [`${QUEUED}\xff\x00garbage\r\n`, 2],
  'the push first': [granted + QUEUED, 1],
  'the push twice': [QUEUED + granted + granted, 1],
};

async function onFakes() {
  for (const [name, [bytes, count]] of Object.entries(hostile)) {
    await fake((words, asked) => {
      const [verb] = words;
      const acquired = asked.filter(([one]) => one === 'LOCK.ACQUIRE');
      return { 'SESSION.OPEN': lease(7), 'SESSION.KEEP': lease(7),
        'LOCK.ACQUIRE': acquired.length > 1 ? grantOf(words, 99)
          : bytes }[verb];
    }, async (endpoints, requests) => {
      const session = await Session.open({ endpoints });
      const lock = session.lock('a', { owner: 'me' });
      assert.ok(await lock.acquire(10000), name);
      assert.equal(lock.token, 99, name);
      await session.close();
      const acquired = requests.filter(([one]) => one === 'LOCK.ACQUIRE');
      assert.equal(acquired.length, count, name);
      assert.equal(new Set(acquired.map((words) =>
        words[words.indexOf('REQ') + 1])).size, 1, name);
    });
  }
}

/** One session is refused when it is attached again, at a new connection. */
async function refusedAlone() {
  let id = 7;
  await fake((words) => ({
    'SESSION.OPEN': lease(words[0] === 'SESSION.OPEN' ? id++ : 0),
    'SESSION.KEEP': lease(0), 'LOCK.ACQUIRE': grantOf(words, 99),
    'SESSION.ATTACH': words[1] === '7' ? '-BLACKLISTED by ann\r\n'
      : '+OK\r\n' }[words[0]]),
  async (endpoints, requests) => {
    const one = await Session.open({ endpoints });
    const two = await Session.open({ endpoints });
    one.link.line.close();
    await until(() => one.state() === 'lost', 'it is lost');
    await assert.rejects(one.lock('a').acquire(0),
      { code: 'LOST', message: /BLACKLISTED by ann/ });
    assert.ok(await two.lock('a').acquire(0));
    assert.deepEqual(requests.filter(([verb]) => verb === 'LOCK.ACQUIRE')
      .map((words) => words.slice(-2)), [['SESSION', '8']]);
    await closeAll([one, two]);
  });
}

async function impatientAlone() {
  await fake(async ([verb, name]) => {
    if (name === 'slow') {
      await sleep(1000);
    }
    return { 'SESSION.OPEN': lease(7), 'LOCK.SHOW': `+${name}\r\n` }[verb];
  }, async (endpoints) => {
    const [one, two] = await many(2, { endpoints });
    const { line } = two.link;
    one.timeout = 200;
    await assert.rejects(one.ask('LOCK.SHOW', 'slow'), { code: 'UNKNOWN' });
    assert.equal(await two.ask('LOCK.SHOW', 'quick'), 'quick');
    assert.equal(two.link.line, line);
    await closeAll([one, two]);
  });
}

/** A node knows no leader for one request; the next one is under way. */
async function answeredThere() {
  let count = 0;
  await fake(async ([verb, name]) => {
    if (verb === 'LOCK.SHOW') {
      await sleep(300);
    }
    return { 'SESSION.OPEN': lease(7), 'SESSION.KEEP': lease(7),
      'LOCK.SHOW': name === 'a' && ++count === 1 ? '-NOLEADER none\r\n'
        : `+${name}\r\n` }[verb];
  }, async (endpoints, requests) => {
    const [one, two] = await many(2, { endpoints });
    const { line } = one.link;
    const asked = await Promise.all([one.ask('LOCK.SHOW', 'a'),
      two.ask('LOCK.SHOW', 'b')]);
    assert.deepEqual(asked, ['a', 'b']);
    assert.deepEqual(requests.filter(([verb]) => verb === 'LOCK.SHOW')
      .map(([, name]) => name).sort(), ['a', 'a', 'b']);
    await until(() => line.error, 'it is closed then');
    assert.ok(![null, line].includes(one.link.line));
    await closeAll([one, two]);
  });
}

async function overtaken() {
  await fake(([verb]) => `+${verb}\r\n`, async (endpoints, requests) => {
    const [host, port] = endpoints.split(':');
    const line = new Connection({ host, port: Number(port) }, null);
    const later = Promise.all([line.ask(['A']), line.ask(['B'])]);
    const urgent = await new Promise((resolve) => line.post(
      (_, reply) => resolve(reply), ['KEEP'], true));
    assert.deepEqual([urgent, ...await later], ['KEEP', 'A', 'B']);
    assert.deepEqual(requests.flat(), ['KEEP', 'A', 'B']);
    line.close();
  });
}

/** A node answers an ATTACH before it does anything else on that connection;
 * heartbeats continue while many sessions are attached again, half of them
 * without haste. */
async function manyAttached() {
  let id = 0;
  const attached = new Set();
  const keep = map({ ttl_ms: ':4000\r\n', linger_ms: ':0\r\n' });
  await fake(async (words) => {
    const [verb, who] = words;
    if (verb === 'SESSION.ATTACH') {
      await sleep(50);
      attached.add(who);
    }
    return { 'SESSION.OPEN': keep.replace('%2', `%3\r\n+id\r\n:${++id}`),
      'SESSION.KEEP': keep, 'LOCK.ACQUIRE': grantOf(words, 99) }[verb];
  }, async (endpoints) => {
    const sessions = await many(60, { endpoints, ttl: 4000, timeout: 20000 });
    sessions.forEach((session) => session.on('lost',
      ({ text }) => assert.fail(text)));
    sessions[0].link.line.close();
    assert.ok((await Promise.all(sessions.slice(0, 30).map((session) =>
      session.lock('a').acquire()))).every((is) => is));
    await until(() => attached.size === 60, 'the others, too');
    await closeAll(sessions);
  });
}

/** An answer of another form grants, opens and keeps nothing. */
async function somethingElse() {
  for (const odd of ['+OK', ':0', '*1\r\n:0', '*0', '#t', '*2\r\n:5\r\n:6',
    '%1\r\n+ttl_ms\r\n:0', '%1\r\n+ttl_ms\r\n+x', '*1\r\n+ttl_ms']) {
    const left = new Set(['SESSION.OPEN', 'SESSION.KEEP', 'LOCK.ACQUIRE']);
    const keep = map({ ttl_ms: ':1000\r\n', linger_ms: ':0\r\n' });
    await fake((words) => (left.delete(words[0]) ? `${odd}\r\n` : {
      'SESSION.OPEN': keep.replace('%2', '%3\r\n+id\r\n:7'),
      'SESSION.KEEP': keep, 'LOCK.ACQUIRE': grantOf(words, 99) }[words[0]]),
    async (endpoints) => {
      const session = await Session.open({ endpoints, ttl: 1000 });
      const lock = session.lock('a');
      assert.ok(await lock.acquire(), odd);
      assert.equal(lock.token, 99, odd);
      await until(() => left.size === 0, 'a heartbeat');
      await sleep(10);
      assert.equal(session.state(), 'held', odd);
      await session.close();
    });
  }
}

/** A connection that takes no more sessions is left to those it has. */
async function filled() {
  const opened = new Map();
  await fake((words, _, socket) => {
    const [verb] = words;
    if (verb !== 'SESSION.OPEN') {
      return { 'SESSION.KEEP': lease(0),
        'LOCK.ACQUIRE': grantOf(words, 99) }[verb];
    }
    const count = (opened.get(socket) ?? 0) + 1;
    if (count > 2) {
      return '-LIMIT sessions of a connection\r\n';
    }
    opened.set(socket, count);
    return lease(100 * opened.size + count);
  }, async (endpoints) => {
    const sessions = [];
    for (let i = 0; i < 5; i++) {
      sessions.push(await Session.open({ endpoints }));
      assert.ok(await sessions[i].lock('a').acquire(0));
    }
    assert.deepEqual([...opened.values()], [2, 2, 1]);
    await closeAll(sessions);
  });
}

/** The outcome of a conversion is unknown: the release that follows it must not
 * be forgotten. */
async function givenBackLater() {
  let isKnown = false;
  const held = new Set();
  const keep = map({ ttl_ms: ':1000\r\n', linger_ms: ':0\r\n' });
  await fake((words) => {
    const owner = words[words.indexOf('OWNER') + 1];
    if (words[0] === 'LOCK.CONVERT' && !isKnown) {
      return '-UNKNOWN it may have been done\r\n';
    }
    if (words[0] === 'LOCK.ACQUIRE') {
      held.add(owner);
    } else if (words[0] === 'LOCK.RELEASE') {
      held.delete(owner);
    }
    return words[0] === 'LOCK.RELEASE' ? ':0\r\n'
      : words[0].startsWith('LOCK') ? grantOf(words, 99)
      : keep.replace('%2', '%3\r\n+id\r\n:7');
  }, async (endpoints) => {
    const session = await Session.open({ endpoints, ttl: 1000, timeout: 300 });
    const lock = session.lock('a', { shared: true });
    await lock.acquire();
    await assert.rejects(lock.convert({ shared: false, wait: 0 }),
      { code: 'UNKNOWN' });
    await assert.rejects(lock.release(), { code: 'UNKNOWN' });
    assert.ok(held.size === 1 && !lock.locked());
    isKnown = true;
    await until(() => held.size === 0, 'it is given back');
    assert.ok(await lock.acquire());
    await session.close();
  });
}

/** An answer that is older than a notice is requested again, under its number,
 * and an answer that says that the hold is over is not a grant. */
async function olderAnswer() {
  for (const count of [1, 0]) {
    const notice = map({ lock: '+a\r\n', owner: '+me\r\n', token: ':5\r\n',
      first: ':5\r\n', number: ':1000\r\n' });
    await fake((words, asked) => ({ 'SESSION.OPEN': lease(7),
      'SESSION.KEEP': map({ ttl_ms: ':1000\r\n', linger_ms: ':0\r\n',
        ended: `*1\r\n${notice}`, dropped: ':0\r\n' }),
      'LOCK.ACQUIRE': asked.filter(([verb]) => verb === 'LOCK.ACQUIRE')
        .length === 1 ? grantOf(words, 7) // Older than that notice.
        : holdOf('me', 'a', 7, { count, asOf: 1000 }) }[words[0]]),
    async (endpoints, requests) => {
      const session = await Session.open({ endpoints, ttl: 1000 });
      session.schedule(0);
      await until(() => session.seen === 1000, 'a notice');
      const lock = session.lock('a', { owner: 'me' });
      assert.ok(await lock.acquire());
      assert.equal(lock.locked(), count > 0);
      if (!count) {
        assert.throws(() => lock.guard(), { code: 'LOST' });
        await assert.rejects(lock.release(), { code: 'NOTHELD' });
      }
      const acquired = requests.filter(([verb]) => verb === 'LOCK.ACQUIRE');
      assert.equal(acquired.length, 2);
      assert.ok(acquired.every((words) =>
        words[words.indexOf('REQ') + 1] === '1'));
      await session.close();
    });
  }
}

/** One of several holds has ended: the others are released. */
async function overInPart() {
  await fake(([verb]) => ({ 'SESSION.OPEN': lease(7), 'SESSION.KEEP': lease(7),
    'LOCK.RELEASE': ':0\r\n', 'LOCK.MACQUIRE': `*2\r\n${holdOf('me', 'a', 7)}` +
      holdOf('me', 'b', 8, { count: 0 }) }[verb]), async (endpoints, requests) => {
    const session = await Session.open({ endpoints });
    const lock = session.lock(['a', 'b']);
    for (let i = 1; i < 3; i++) {
      assert.ok(await lock.acquire());
      assert.ok(!lock.locked() && lock.signal.aborted);
      await assert.rejects(lock.release(), { code: 'NOTHELD' });
      assert.equal(requests.filter((words) => words.join(' ').startsWith(
        'LOCK.RELEASE a TOKEN 7 ')).length, i);
    }
    await session.close();
  });
}

/** A list that lacks a hold ends it; a hold that was granted while the list was
 * read stays. A list that could not be read is requested again. */
async function listed() {
  let fails = 2;
  let dropped = 0;
  await fake((words) => {
    const isLast = words.includes('CURSOR');
    const name = isLast ? 30 : 10;
    return { 'SESSION.OPEN': lease(7), 'LOCK.ACQUIRE': holdOf('me', words[1],
      Number(words[1]), { mode: 'shared', asOf: words[1] === '60' ? 60 : 54 }),
    'SESSION.KEEP': map({ ttl_ms: ':1000\r\n', linger_ms: ':0\r\n',
      ended: '*0\r\n', dropped: `:${dropped}\r\n` }),
    'SESSION.HOLDS': words[0] !== 'SESSION.HOLDS' ? '' : fails-- > 0
      ? '-BADARG not now\r\n' : map({ cursor: isLast ? '+0\r\n' : '+x\r\n',
        as_of: `:${40 + name}\r\n`, holds: `*1\r\n${holdOf('me', name,
          name + 5, { first: name, mode: 'shared' })}` }) }[words[0]];
  }, async (endpoints, requests) => {
    const session = await Session.open({ endpoints, ttl: 1000 });
    const lost = [];
    session.on('lost', (event) => lost.push(event));
    session.schedule(0);
    const locks = ['10', '20', '30', '60'].map((name) =>
      session.lock(name, { owner: 'me' }));
    for (const lock of locks) {
      await lock.acquire();
    }
    dropped = 55;
    await until(() => locks[1].remaining() === 0, 'it is not believed in');
    await until(() => session.seen === 55, 'the newest is known');
    assert.deepEqual(locks.map((lock) => lock.locked()),
      [true, false, true, true]);
    await assert.rejects(locks[1].release(), { code: 'NOTHELD' });
    assert.deepEqual(lost, [{ name: '20', token: 20, text: 'ended' }]);
    assert.equal(requests.filter(([verb]) => verb === 'SESSION.HOLDS').length, 4);
    assert.ok(!requests.some(([verb]) => verb === 'LOCK.RELEASE'));
    await session.close();
  });
}

/** The cluster does not have it: nor does anybody here. */
async function notHeldThere() {
  await fake((words) => ({ 'SESSION.OPEN': lease(7), 'SESSION.KEEP': lease(7),
    'LOCK.RELEASE': '-NOTHELD no\r\n', 'LOCK.ACQUIRE': grantOf(words, 7) }[
    words[0]]), async (endpoints, requests) => {
    const session = await Session.open({ endpoints });
    const [one, two] = [1, 2].map(() => session.lock('a', { owner: 'me' }));
    await one.acquire();
    await two.acquire();
    await assert.rejects(one.release(), { code: 'NOTHELD' });
    assert.throws(() => two.guard(), { code: 'LOST' });
    await assert.rejects(two.release(), { code: 'NOTHELD' });
    assert.equal(requests.filter(([verb]) => verb === 'LOCK.RELEASE').length, 1);
    await session.close();
  });
}

/** A wait of one object for an earlier request with an unknown outcome ends
 * with its signal, and a wait for a task of this process ends with the
 * session. */
async function endsInTime() {
  let isKnown = false;
  await fake((words) => ({ 'SESSION.OPEN': lease(7), 'SESSION.KEEP': lease(7),
    'SESSION.CLOSE': '+OK\r\n', 'LOCK.RELEASE': isKnown ? ':0\r\n'
      : '-UNKNOWN later\r\n', 'LOCK.ACQUIRE': grantOf(words, 7) }[words[0]]),
  async (endpoints, requests) => {
    const session = await Session.open({ endpoints, timeout: 2000 });
    const lock = session.lock('a');
    await lock.acquire();
    const releasing = assert.rejects(lock.release(), { code: 'UNKNOWN' });
    await releasing;
    const began = performance.now();
    await assert.rejects(lock.acquire({ signal: AbortSignal.timeout(100) }),
      { name: 'TimeoutError' });
    setTimeout(() => lock.cancel(), 100);
    assert.equal(await lock.acquire(), false);
    assert.ok(performance.now() - began < 1500);
    // One of ours as the reason says nothing of what was asked.
    const reason = new AbortController();
    setTimeout(() => reason.abort(new HaspError('NOTHELD', 'of another')), 50);
    await assert.rejects(lock.acquire({ signal: reason.signal }),
      { code: 'NOTHELD' });
    isKnown = true;
    assert.ok(await lock.acquire());
    const waiting = assert.rejects(lock.acquire(), { code: 'LOST' });
    await sleep(20);
    await session.close();
    await waiting;
    assert.ok(requests.some(([verb]) => verb === 'SESSION.CLOSE'));
  });
}

/** A release does not wait for a conversion that waits for others. */
async function releasedMeanwhile() {
  await fake((words) => ({ 'SESSION.OPEN': lease(7), 'SESSION.KEEP': lease(7),
    'LOCK.CONVERT': words.includes('WAIT') ? QUEUED : '-NOTHELD no\r\n',
    'LOCK.RELEASE': ':0\r\n', 'LOCK.ACQUIRE': grantOf(words, 7) }[words[0]]),
  async (endpoints, requests) => {
    const session = await Session.open({ endpoints });
    const lock = session.lock('a', { shared: true });
    await lock.acquire();
    const converting = assert.rejects(lock.convert({ shared: false }),
      { code: 'NOTHELD' });
    await until(() => requests.some(([verb]) => verb === 'LOCK.CONVERT'),
      'it waits');
    await lock.release();
    await converting;
    assert.ok(await lock.acquire());
    await session.close();
  });
}

async function main() {
  for (const test of [olderAnswer, overInPart, listed, notHeldThere,
    endsInTime, releasedMeanwhile,
    onFakes, refusedAlone, impatientAlone, answeredThere,
    overtaken, manyAttached, somethingElse, filled,
    givenBackLater]) {
    await test();
  }
  await sleep(50); // Closed connections disappear.
  for (const [name, test] of Object.entries(onCluster)) {
    await test();
    console.log(name);
  }
  console.log('ok');
}

main().then(() => process.exit(0), (error) => {
  console.log(error.stack);
  process.exit(1);
});
