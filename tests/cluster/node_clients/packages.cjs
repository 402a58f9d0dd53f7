// SPDX-License-Identifier: MIT
//
// Lock libraries as npm has them: packages.js PORT NAME
'use strict';

const assert = require('node:assert');
const { default: Redis } = require('ioredis');
const { Mutex, Semaphore } = require('redis-semaphore');
const sesame = require('@sesamecare-oss/redlock');

const [port, name] = process.argv.slice(2);
const FAST = { lockTimeout: 5000, acquireTimeout: 500, retryInterval: 50 };

async function redlock(redis) {
  const one = new sesame.Redlock([redis], { retryCount: 0 });
  const lock = await one.acquire([`${name}/a`], 5000);
  await assert.rejects(one.acquire([`${name}/a`], 5000));
  const longer = await lock.extend(8000);
  await assert.rejects(one.acquire([`${name}/a`], 5000));
  await longer.release();
  await (await one.acquire([`${name}/a`], 5000)).release();
}

async function semaphore(redis) {
  const of = () => new Semaphore(redis, `${name}/s`, 2, FAST);
  const [one, two, three] = [of(), of(), of()];
  await one.acquire();
  await two.acquire();
  await assert.rejects(three.acquire());
  await one.release();
  await three.acquire();
  await two.release();
  await three.release();
  assert.strictEqual(await redis.exists(`semaphore:${name}/s`), 0);
}

async function mutex(redis) {
  const [one, two] = [0, 1].map(() => new Mutex(redis, `${name}/m`, FAST));
  await one.acquire();
  await assert.rejects(two.acquire());
  await one.release();
  await two.acquire();
  await two.release();
}

async function main() {
  const redis = new Redis(Number(port));
  await redlock(redis);
  await semaphore(redis);
  await mutex(redis);
  redis.disconnect();
  console.log('ok');
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
