// SPDX-License-Identifier: MIT
// redlock 5 on ioredis, unmodified: node redlock.js PORT NAME
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import Redis from 'ioredis'
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock'

const [port, name] = process.argv.slice(2)
const one = new Redis(Number(port), '127.0.0.1')
const two = new Redis(Number(port), '127.0.0.1', { protocol: 2 })
const mine = new Redlock([one], { retryCount: 0, automaticExtensionThreshold: 300 })
const other = new Redlock([two], { retryCount: 0 })
const patient = new Redlock([two], { retryCount: 100, retryDelay: 50, retryJitter: 10 })
for (const client of [mine, other, patient]) {
  client.on('error', (error) => assert(error instanceof ResourceLockedError, error))
}

// Acquire, contention, release.
let lock = await mine.acquire([name], 5000)
assert.equal(await two.get(name), lock.value)
await assert.rejects(other.acquire([name], 5000), ExecutionError)
await lock.release()
assert.equal(await two.get(name), null)

// Extend: the time is replaced and the old lock object is spent.
lock = await mine.acquire([name], 500)
lock = await lock.extend(5000)
assert((await one.pttl(name)) > 3000)
await sleep(800)
await assert.rejects(other.acquire([name], 100), ExecutionError)
await lock.release()
await assert.rejects(lock.release(), ExecutionError)

// Several at once: all or nothing.
const names = [`${name}-a`, `${name}-b`, `${name}-c`]
const middle = await other.acquire([names[1]], 5000)
await assert.rejects(mine.acquire(names, 5000), ExecutionError)
assert.equal(await one.exists(...names), 1)
await middle.release()
const all = await mine.acquire(names, 5000)
assert.equal(await one.exists(...names), 3)
await all.release()
assert.equal(await one.exists(...names), 0)

// It ends by itself, and the waiting client gets it.
await mine.acquire([name], 400)
const begun = Date.now()
const next = await patient.acquire([name], 1000)
assert(Date.now() - begun >= 380)
await next.release()

// using() extends by itself while its work continues. (redlock counts a lock's
// time from its first try, so a client that waits long has to ask for a longer
// time.)
let working = 0
async function work (redlock, duration, ms) {
  await redlock.using([name], duration, async (signal) => {
    assert.equal(++working, 1)
    await sleep(ms)
    assert(!signal.aborted, signal.error)
    working--
  })
}
const long = work(mine, 1000, 1800)
await sleep(50)
await Promise.all([long, work(patient, 10000, 50), work(patient, 10000, 50)])

// The token that a storage can check is in LOCK.SHOW.
lock = await mine.acquire([name], 1000)
const shown = await one.call('LOCK.SHOW', name)
assert(JSON.stringify(shown).includes(lock.value))
await lock.release()
await Promise.all([one.quit(), two.quit()])
console.log('ok')
