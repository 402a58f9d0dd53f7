// SPDX-License-Identifier: MIT
// The cluster clients find the leader through any node (redirect = moved):
// node clusters.js PORT-OF-A-FOLLOWER LEADER-PORT NAME
import assert from 'node:assert/strict'
import Redis from 'ioredis'
import { createCluster } from 'redis'

const [follower, leader, name] = process.argv.slice(2)
const port = Number(follower)

// A plain client of the follower gets a redirection.
const plain = new Redis(port, '127.0.0.1')
await assert.rejects(plain.set(name, 'v', 'PX', 5000, 'NX'), new RegExp(`MOVED \\d+ 127.0.0.1:${leader}`))
plain.disconnect()

const io = new Redis.Cluster([{ host: '127.0.0.1', port }])
assert.equal(await io.set(name, 'v1', 'PX', 5000, 'NX'), 'OK')
assert.equal(await io.get(name), 'v1')
assert(io.nodes('master').some((node) => node.options.port === Number(leader)))

for (const RESP of [2, 3]) {
  const node = createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }], RESP })
  node.on('error', (error) => { throw error })
  await node.connect()
  const set = (key, value) => node.set(key, value, {
    condition: 'NX', expiration: { type: 'PX', value: 5000 }
  })
  assert.equal(await set(name, 'v2'), null)
  assert.equal(await set(name, 'v1'), null)
  assert.equal(await set(`${name}-${RESP}`, 'v'), 'OK')
  assert((await node.pTTL(name)) > 3000)
  await node.close()
}
await io.quit()
console.log('ok')
