// SPDX-License-Identifier: MIT
//
// Run by clients/python/tests/test_faults.py, which starts a cluster and
// freezes the node that its input names.
'use strict';

const assert = require('node:assert');
const { Session } = require('..');
const { Owners, parseEndpoints } = require('../lib/request');
const { sleep, tell } = require('./nodes');

function addresses() {
  const { host, port } = parseEndpoints('10.0.0.1')[0];
  assert.deepEqual([host, port], ['10.0.0.1', 7420]);
  assert.equal(parseEndpoints('[::1]:5')[0].host, '::1');
  assert.equal(parseEndpoints('::1')[0].port, 7420);
  for (const text of ['a:b', ':7', 'a:0', 'a:70000', '', 'a,']) {
    assert.throws(() => parseEndpoints(text), /host:port/, text);
  }
}

async function refusals(session) {
  await assert.rejects(Session.open({ tll: 5 }), /'tll'.*ttl/);
  assert.throws(() => session.lock('a', { slot: 5 }), /'slot'.*slots/);
  await assert.rejects(session.lock('a').acquire(-1), /no limit/);
}

async function owners(session, other) {
  const first = session.lock('owner', { owner: 'me' });
  const second = session.lock('owner', { owner: 'me' });
  assert.ok(await first.acquire(0) && await second.acquire(0));
  await first.release();
  assert.equal(await other.lock('owner').acquire(0), false);
  await second.release();
  const before = session.owners.count;
  for (let i = 0; i < 10; i++) {
    const lock = session.lock('again');
    await lock.acquire();
    await lock.release();
  }
  assert.ok(session.owners.count <= before + 1, 'owners are used again');
  const mine = new Owners();
  const tag = mine.take('x');
  const acked = () => mine.begin(tag).words.at(-1);
  assert.deepEqual([acked(), acked(), acked()], ['0', '0', '0']);
  mine.end(2);
  assert.equal(acked(), '0,2-2');
  mine.end(1);
  mine.end(4);
  assert.equal(acked(), '2,4-4');
}

async function limits(session, other) {
  const first = session.lock('limit');
  const second = other.lock('limit', { hold: 1000 });
  await first.acquire();
  setTimeout(() => first.release(), 1200);
  assert.ok(await second.acquire(5000));
  assert.ok(second.remaining() > 300 && second.remaining() <= 800);
  assert.throws(() => second.guard(900), { code: 'SHORT',
    message: /never more than 800 ms/ });
  await second.release();
  assert.throws(() => second.guard(0), { code: 'LOST', message: /not held/ });
}

async function events(session, other) {
  const lock = session.lock('taken');
  await lock.acquire();
  const told = [];
  for (const kind of ['please', 'lost']) {
    session.on(kind, (event) => told.push([kind, event]));
  }
  await sleep(500);
  await other.request(['LOCK.PLEASE', 'taken', 'MESSAGE', 'deploy']);
  await other.request(['LOCK.RELEASEIF', 'taken', 'OWNER', lock.tag.tag]);
  const { token } = lock;
  await sleep(700);
  assert.equal(lock.remaining(), 0);
  assert.deepEqual(told[0],
    ['please', { name: 'taken', token, text: 'deploy' }]);
  assert.deepEqual([told[1][0], told[1][1].name, told[1][1].token],
    ['lost', 'taken', token]);
  await assert.rejects(lock.release(), { code: 'NOTHELD' });
  assert.equal(session.state(), 'held');
}

async function refused() {
  const session = await Session.open({ ttl: 1500 });
  const lock = session.lock('refused');
  await lock.acquire();
  await session.request(
    ['BLACKLIST.ADD', 'SESSION', session.id, 'REASON', 'me']);
  const lost = await new Promise((resolve) => session.on('lost', resolve));
  assert.match(lost.text, /BLACKLISTED me/);
  assert.equal(lock.remaining(), 0);
  await assert.rejects(session.lock('b').acquire(0), { code: 'LOST' });
}

async function frozen(session, other) {
  const first = session.lock('frozen');
  const second = other.lock('frozen');
  await first.acquire();
  const waiting = second.acquire();
  await sleep(500);
  await tell(`freeze ${other.link.line.endpoint.port}`);
  await first.release();
  const result = await Promise.race([waiting, sleep(8000)]);
  await tell('thaw');
  assert.equal(result, true);
  await second.release();
}

async function main() {
  addresses();
  const session = await Session.open({ ttl: 2000 });
  const other = await Session.open({ ttl: 3000 });
  for (const test of [refusals, owners, limits, events, refused, frozen]) {
    await test(session, other);
  }
  await session.close();
  await other.close();
  console.log('ok');
}

main().then(() => process.exit(0), (error) => {
  console.log(error.stack);
  process.exit(1);
});
