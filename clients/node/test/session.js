// SPDX-License-Identifier: MIT
//
// Run by clients/python/tests/test_clients.py, which starts a cluster and kills
// its leader when asked to.
'use strict';

const assert = require('node:assert');
const { Session, HaspError } = require('..');

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function main() {
  const one = await Session.open({ ttl: 3000 });
  const two = await Session.open({ ttl: 3000 });
  const events = [];
  one.on('jeopardy', () => events.push('jeopardy'));
  one.on('lost', () => events.push('lost'));
  const first = one.lock('n');
  const second = two.lock('n');
  assert.equal(await first.acquire(0), true);
  assert.equal(await first.acquire(0), false);
  assert.equal(await second.acquire(0), false);
  assert.equal(await second.acquire(100), false);
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
  await first.release();
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
