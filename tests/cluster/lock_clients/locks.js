// SPDX-License-Identifier: MIT
// Lock libraries, unmodified: node locks.js NAME COUNT PORT... Each of them takes
// a lock of its own at each of these nodes, until it has had it COUNT times in all
// at each. Prints the name of each that has, and "overlap NAME" for two holders.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisStateAdapter } from '@chat-adapter/state-redis'
import medusa from '@medusajs/locking-redis/dist/services/redis-lock.js'
import { createLock as microfleet } from '@microfleet/ioredis-lock'
import upstash from '@upstash/lock'
import Ioredis from 'ioredis'
import ioredisLock from 'ioredis-lock'
import murlock from 'murlock'
import warlock from 'node-redis-warlock'
import redis3 from 'redis3'
import redislock from 'redislock'
import Redlock from 'redlock'
import { createLock as universal, IoredisAdapter } from 'redlock-universal'

const [name, count, ...ports] = process.argv.slice(2)
const TTL = 4000

const logger = Object.fromEntries(['debug', 'info', 'warn', 'error', 'child'].map(
  (name) => [name, () => logger]))
const quiet = (client) => client.on('error', () => {}) // It connects again.
const io = (port) => quiet(new Ioredis(Number(port), '127.0.0.1', {
  retryStrategy: () => 100, maxRetriesPerRequest: 1
}))
const old = (port) => quiet(redis3.createClient(Number(port), '127.0.0.1', {
  retry_strategy: () => 100
}))

// By library: what takes the lock, and gives a function that releases it; it
// throws, or gives nothing, if it is held.
const libraries = {
  redlock: (port) => {
    const one = new Redlock([io(port)], { retryCount: 0 })
    return async (key) => {
      const lock = await one.lock(key, TTL)
      return () => lock.unlock()
    }
  },
  'node-redis-warlock': (port) => {
    const one = warlock(old(port))
    return (key) => new Promise((resolve, reject) => one.lock(key, TTL,
      (error, unlock) => error ? reject(error) : resolve(unlock &&
        (() => new Promise((done) => unlock(done))))))
  },
  'redlock-universal': (port) => {
    const adapter = new IoredisAdapter(io(port))
    return async (key) => {
      const lock = universal({ adapter, key, ttl: TTL, retryAttempts: 0 })
      const handle = await lock.acquire()
      return () => lock.release(handle)
    }
  },
  redislock: (port) => held(redislock.createLock, old(port)),
  'ioredis-lock': (port) => held(ioredisLock.createLock, io(port)),
  '@microfleet/ioredis-lock': (port) => held(microfleet, io(port)),
  '@medusajs/locking-redis': (port) => {
    const one = new medusa.RedisLockingProvider({ redisClient: io(port) }, {})
    return async (key) => {
      const ownerId = randomUUID()
      await one.acquire(key, { ownerId, expire: TTL / 1000 })
      return () => one.release(key, { ownerId })
    }
  },
  '@chat-adapter/state-redis': (port) => {
    const one = new RedisStateAdapter({ url: `redis://127.0.0.1:${port}`, logger })
    return async (key) => {
      await one.connect()
      const lock = await one.acquireLock(key, TTL)
      return lock && (() => one.releaseLock(lock))
    }
  },
  // Its own Redis client speaks HTTP, so it is given one of another package.
  '@upstash/lock': (port) => {
    const one = io(port)
    const redis = {
      set: (key, value, { px }) => one.set(key, value, 'PX', px, 'NX'),
      eval: (script, keys, values) => one.eval(script, keys.length, ...keys, ...values)
    }
    return async (key) => {
      const lock = new upstash.Lock({ id: key, redis, lease: TTL, retry: { attempts: 1 } })
      return await lock.acquire() && (() => lock.release())
    }
  },
  murlock: (port) => {
    const one = new murlock.MurLockService({
      redisOptions: { url: `redis://127.0.0.1:${port}` },
      maxAttempts: 1,
      wait: 1,
      logLevel: 'none'
    }, null)
    const ready = one.onModuleInit()
    return async (key) => {
      const owner = randomUUID()
      await ready
      await one.lock(key, TTL, owner)
      return () => one.unlock(key, owner)
    }
  }
}

function held (createLock, client) {
  return async (key) => {
    const lock = createLock(client, { timeout: TTL, retries: 0, delay: 10 })
    await lock.acquire(key)
    return () => lock.release()
  }
}

const inside = {}
let refused = 0

async function work (library, port) {
  const acquire = libraries[library](port)
  const key = `${name}-${library}`
  for (let had = 0; had < count;) {
    const release = await acquire(key).catch(() => null)
    if (!release) {
      refused++
      await sleep(20 + 30 * Math.random())
      continue
    }
    inside[library] = (inside[library] ?? 0) + 1
    if (inside[library] > 1) {
      console.log(`overlap ${library}`)
    }
    await sleep(10)
    inside[library]--
    had++
    await Promise.resolve(release()).catch(() => {}) // Or its time ends it.
    await sleep(10 * Math.random())
  }
}

await Promise.all(Object.keys(libraries).map(async (library) => {
  await Promise.all(ports.map((port) => work(library, port)))
  console.log(library)
}))
console.log(refused > 0 ? 'ok' : 'nothing was refused')
process.exit(0)
