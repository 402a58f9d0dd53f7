// SPDX-License-Identifier: MIT
//
// Run by clients/python/tests/test_clients.py, which starts a cluster and kills
// its leader when asked to.
'use strict';

const assert = require('node:assert');
const { Session, HaspError } = require('..');
const { Lease } = require('../lib/lease');

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const clock = (ms) => ({ monotonic: ms, boottime: ms });

function leaseRules() {
  const lease = new Lease();
  assert.equal(lease.remaining(clock(0)), 0);
  lease.answered(clock(1000), 1000, 500);
  assert.equal(lease.state(clock(1399)), 'held');
  assert.equal(lease.state(clock(1401)), 'jeopardy');
  lease.answered(clock(1300), 1000, 500);
  assert.equal(lease.state(clock(1401)), 'held');
  // A suspended machine: only the other clock went on.
  assert.equal(lease.state({ monotonic: 1310, boottime: 2130 }), 'lost');
  lease.answered(clock(2000), 1000, 500);
  assert.equal(lease.state(clock(2001)), 'lost');
  const unseen = new Lease(); // Lost before anybody looked.
  unseen.answered(clock(1000), 1000, 0);
  unseen.answered(clock(1900), 1000, 0);
  assert.equal(unseen.state(clock(1901)), 'lost');
}

async function main() {
  leaseRules();
  const one = await Session.open({ ttl: 3000 });
  const two = await Session.open({ ttl: 3000 });
  const events = [];
  one.on('jeopardy', () => events.push('jeopardy'));
  one.on('lost', () => events.push('lost'));
  const first = one.lock('n');
  const second = two.lock('n');
  assert.equal(await first.acquire(0), true);
  assert.equal(await first.acquire(0), true);
  assert.equal(await second.acquire(0), false);
  assert.equal(await second.acquire(100), false);
  assert.equal(await first.release(), 1);
  assert.ok(first.remaining() > 1000 && first.remaining() <= 2400);
  first.guard(500);
  assert.throws(() => first.guard(60000), HaspError);
  const { token } = first;
  const waiting = second.acquire();
  await sleep(200);
  console.log('kill the leader');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  await sleep(3500);
  assert.ok(first.remaining() > 0, 'the lease was kept over the failover');
  assert.equal(await first.release(), 0);
  assert.equal(first.remaining(), 0);
  assert.equal(await waiting, true);
  assert.ok(second.token > token);
  await assert.rejects(first.release(), { code: 'NOTHELD' });
  await second.release();
  assert.deepEqual(events, []);
  await one.close();
  await two.close();
  console.log('ok');
}

main().then(() => process.exit(0), (error) => {
  console.log(error.stack);
  process.exit(1);
});
