// SPDX-License-Identifier: MIT
// ioredis and node-redis as they greet, in RESP2 and RESP3: node plain.js PORT NAME
import assert from 'node:assert/strict'
import Redis from 'ioredis'
import { createClient } from 'redis'

const [port, name] = process.argv.slice(2)

const io = new Redis(Number(port), '127.0.0.1', { connectionName: 'io' })
assert.equal(await io.ping(), 'PONG')
const opened = await io.call('SESSION.OPEN', 'TTL', '5000')
assert(JSON.stringify(opened).includes('ttl_ms'))
assert((await io.call('LOCK.ACQUIRE', name)) > 0)
assert.equal(await io.call('LOCK.RELEASE', name), 0)
await io.quit()

for (const RESP of [2, 3]) {
  const client = createClient({ url: `redis://127.0.0.1:${port}`, RESP, name: 'nr' })
  client.on('error', (error) => { throw error })
  await client.connect()
  await client.sendCommand(['SESSION.OPEN', 'TTL', '5000'])
  const token = await client.sendCommand(['LOCK.ACQUIRE', name])
  assert(Number(token) > 0)
  assert.equal(await client.sendCommand(['LOCK.ACQUIRE', name, 'OWNER', 'x']), null)
  const shown = await client.sendCommand(['LOCK.SHOW', name])
  assert(JSON.stringify(shown).includes(String(token)))

  // Events by subscription, on a connection of their own. A follower may still
  // have to apply what was answered before.
  const events = client.duplicate()
  await events.connect()
  const told = new Promise((resolve) => {
    events.pSubscribe(`lock:${name}*`, (message) => {
      const event = JSON.parse(message)
      if (event.kind === 'released' && String(event.token) === String(token)) resolve(event)
    })
  })
  await events.ping()
  assert.equal(Number(await client.sendCommand(['LOCK.RELEASE', name])), 0)
  const event = await told
  assert.equal(event.lock, name)
  await events.close()
  await client.close()
}
console.log('ok')
