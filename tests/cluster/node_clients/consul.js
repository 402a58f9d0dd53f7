// SPDX-License-Identifier: MIT
//
// As ../consul_programs.py, with a version of the package consul:
//
//     consul.js 0.40|2 FILE PORT...
//
// 0.40: its Lock; 2: kv, session and watch.
'use strict';

const fs = require('node:fs');
const { setTimeout: sleep } = require('node:timers/promises');
const [kind, file, ...ports] = process.argv.slice(2);
const Consul = require(`consul-${kind}`);

const KEY = 'tooz/locks/x';
const name = `npm-${kind}-${process.pid}`;
const now = () => process.hrtime.bigint();
const say = (...words) => fs.appendFileSync(file, `${words.join(' ')}\n`);

function client() {
  const port = Number(ports[Math.floor(Math.random() * ports.length)]);
  const options = { host: '127.0.0.1', port };
  return kind === '2' ? new Consul(options) : Consul({ ...options, promisify: true });
}

// The first answer, at any node. An answer that is not an error is returned
// also if it is false.
async function until(action) {
  for (;;) {
    try {
      return await action(client());
    } catch {
      await sleep(100);
    }
  }
}

// Version 2 returns undefined if Consul's answer is false.
function isTrue(answer) {
  if (![true, false, kind === '2' ? undefined : true].includes(answer)) {
    say('odd', name, JSON.stringify(answer));
  }
  return answer === true;
}

async function inside(token, isOver = () => false) {
  say('enter', name, token, now());
  for (let i = 0; i < 5 && !isOver(); i++) await sleep(2 * Math.random());
  say('leave', name, token, now());
}

async function plain() {
  const { ID: session } = await until((one) => one.session.create(
    { name, ttl: '10s', lockdelay: '1s' }));
  setInterval(() => until((one) => one.session.renew(session)), 2000);
  for (;;) {
    if (!isTrue(await until((one) => one.kv.set({ key: KEY, value: name, acquire: session })))) {
      await changed();
      continue;
    }
    const held = await until((one) => one.kv.get(KEY));
    if (held.Session !== session) say('odd', name, 'another holds it:', held.Session);
    await inside(held.LockIndex);
    isTrue(await until((one) => one.kv.set({ key: KEY, value: '', release: session })));
  }
}

// Until nobody holds the key, by its Watch.
function changed() {
  return new Promise((resolve) => {
    const one = client();
    const watch = one.watch({ method: one.kv.get, options: { key: KEY, wait: '5s' },
      backoffFactor: 50, backoffMax: 500 });
    const end = () => {
      watch.end();
      resolve();
    };
    watch.on('change', (data) => data || end());
    watch.on('error', end);
  });
}

function lock() {
  return new Promise((resolve) => {
    const one = client().lock({ key: KEY, value: name, lockretrytime: '100ms',
      lockwaittime: '2s', session: { name, ttl: '10s', lockdelay: '1s' } });
    let isOver = false;
    one.on('acquire', async () => {
      const held = await until((other) => other.kv.get(KEY));
      // It may have ended while we asked.
      if (!isOver) await inside(held.LockIndex, () => isOver);
      if (!isOver) one.release();
    });
    one.on('release', () => { isOver = true; });
    one.on('error', () => {});
    one.on('end', () => {
      isOver = true;
      resolve();
    });
    one.acquire();
  });
}

(async () => {
  if (kind === '2') return plain();
  for (;;) await lock();
})();
