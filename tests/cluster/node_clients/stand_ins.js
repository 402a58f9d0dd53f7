// SPDX-License-Identifier: MIT The parts of ioredis, node-redis and redlock 5
// that the tests beside this file use, written from their behaviour on the
// wire: for machines on which npm has no registry to install them from
// (tests/cluster/test_redis_clients.py).
import { createHash, randomBytes } from 'node:crypto'
import { EventEmitter } from 'node:events'
import net from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

// --- The wire

class ReplyError extends Error {}

// [value, place after it], or undefined if more has to come.
function parse (text, at) {
  const end = text.indexOf('\r\n', at)
  if (end < 0) return undefined
  const kind = text[at]
  const line = text.slice(at + 1, end)
  const next = end + 2
  if ('$='.includes(kind)) {
    const size = Number(line)
    if (size < 0) return [null, next]
    return text.length < next + size + 2 ? undefined : [text.slice(next, next + size), next + size + 2]
  }
  if ('*~>%'.includes(kind)) {
    const items = []
    let place = next
    if (line === '-1') return [null, next]
    for (let i = Number(line) * (kind === '%' ? 2 : 1); i > 0; i--) {
      const item = parse(text, place)
      if (item === undefined) return undefined
      items.push(item[0])
      place = item[1]
    }
    return [kind === '>' ? { told: items } : items, place]
  }
  if (kind === '-') return [new ReplyError(line), next]
  if (kind === '_') return [null, next]
  if (kind === '#') return [line === 't', next]
  return [':,('.includes(kind) ? Number(line) : line, next]
}

class Wire extends EventEmitter {
  constructor (port) {
    super()
    this.text = ''
    this.waiting = []
    this.isSubscribed = false
    this.socket = net.connect(port, '127.0.0.1')
    this.socket.setEncoding('latin1')
    this.socket.on('data', (text) => this.take(text))
    this.socket.on('error', (error) => this.waiting.splice(0).forEach(([, no]) => no(error)))
  }

  take (text) {
    this.text += text
    for (let one; (one = parse(this.text, 0)) !== undefined; this.text = this.text.slice(one[1])) {
      const told = one[0]?.told ?? (this.isSubscribed && Array.isArray(one[0]) ? one[0] : null)
      if (told?.[0] === 'pmessage') {
        this.emit('message', told[3])
        continue
      }
      const [yes, no] = this.waiting.shift()
      if (one[0] instanceof ReplyError) no(one[0])
      else yes(told ?? one[0])
    }
  }

  do (...words) {
    const parts = words.map((word) => Buffer.from(String(word)))
    const texts = parts.map((part) => `$${part.length}\r\n${part.toString('latin1')}\r\n`)
    this.socket.write(`*${parts.length}\r\n${texts.join('')}`, 'latin1')
    return new Promise((resolve, reject) => this.waiting.push([resolve, reject]))
  }

  end () { this.socket.end() }
}

// The ports of the masters, by any of them.
async function masters (wire) {
  return (await wire.do('CLUSTER', 'SLOTS')).map((slots) => slots[2][1])
}

// --- ioredis

const PORT_MOVED = /^MOVED \d+ [^ ]*:(\d+)$/

export default class Redis {
  constructor (port, host, options = {}) {
    this.options = { port }
    this.wire = new Wire(port)
    // Its greeting; it waits until the server has loaded its data.
    const first = [['CLIENT', 'SETINFO', 'LIB-NAME', 'ioredis'], ['INFO']]
    if (options.connectionName) first.push(['CLIENT', 'SETNAME', options.connectionName])
    this.isReady = Promise.all(first.map((words) => this.wire.do(...words))).then(([, info]) => {
      if (!/redis_version:/.test(info) || /loading:1/.test(info)) throw new Error('not ready')
    })
    this.isReady.catch(() => {})
  }

  async call (...words) {
    await this.isReady
    return this.wire.do(...words)
  }

  ping () { return this.call('PING') }
  get (key) { return this.call('GET', key) }
  set (...words) { return this.call('SET', ...words) }
  pttl (key) { return this.call('PTTL', key) }
  exists (...keys) { return this.call('EXISTS', ...keys) }
  eval (text, count, words) { return this.call('EVAL', text, count, ...words) }
  evalsha (sha, count, words) { return this.call('EVALSHA', sha, count, ...words) }
  disconnect () { this.wire.end() }
  async quit () {
    await this.call('QUIT')
    this.wire.end()
  }
}

// It asks one node for all, and follows redirections.
Redis.Cluster = class {
  constructor ([{ port }]) {
    this.all = new Map()
    this.root = this.at(port)
    this.home = this.root.call('CLUSTER', 'SLOTS').then((slots) => this.at(slots[0][2][1]))
  }

  at (port) {
    if (!this.all.has(port)) this.all.set(port, new Redis(port, '127.0.0.1'))
    return this.all.get(port)
  }

  async call (...words) {
    try {
      return await (await this.home).call(...words)
    } catch (error) {
      const moved = PORT_MOVED.exec(error.message)
      if (moved === null) throw error
      this.home = Promise.resolve(this.at(Number(moved[1])))
      return (await this.home).call(...words)
    }
  }

  get (key) { return this.call('GET', key) }
  set (...words) { return this.call('SET', ...words) }
  nodes () { return [...this.all.values()] }
  async quit () { await Promise.all(this.nodes().map((one) => one.quit())) }
}

// --- node-redis

class Client extends EventEmitter {
  constructor (options) {
    super()
    this.options = options
    this.RESP = options.RESP ?? 2
  }

  async connect (port = Number(new URL(this.options.url).port)) {
    this.wire = new Wire(port)
    this.wire.on('message', (text) => this.told?.(text))
    if (this.RESP === 3) await this.wire.do('HELLO', 3)
    if (this.options.name) await this.wire.do('CLIENT', 'SETNAME', this.options.name)
    await this.wire.do('CLIENT', 'SETINFO', 'LIB-NAME', 'node-redis')
    return this
  }

  duplicate () { return new Client(this.options) }
  sendCommand (words) { return this.wire.do(...words) }
  ping () { return this.wire.do('PING') }
  async pSubscribe (pattern, told) {
    this.told = told
    this.wire.isSubscribed = this.RESP === 2
    await this.wire.do('PSUBSCRIBE', pattern)
  }

  async close () { this.wire.end() }
}

export function createClient (options) { return new Client(options) }

class ClusterClient extends Client {
  async connect () {
    const root = await new Client(this.options).connect(Number(new URL(this.options.rootNodes[0].url).port))
    const [port] = await masters(root.wire)
    await root.close()
    return super.connect(port)
  }

  set (key, value, { condition, expiration }) {
    return this.sendCommand(['SET', key, value, expiration.type, expiration.value, condition])
  }

  pTTL (key) { return this.sendCommand(['PTTL', key]) }
}

export function createCluster (options) { return new ClusterClient(options) }

// --- redlock 5

export class ResourceLockedError extends Error {}
export class ExecutionError extends Error {}

const TAKE = `
for _, key in ipairs(KEYS) do
  if redis.call("exists", key) == 1 then return 0 end
end
for _, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
return #KEYS`
const PROLONG = `
for _, key in ipairs(KEYS) do
  if redis.call("get", key) ~= ARGV[1] then return 0 end
end
for _, key in ipairs(KEYS) do redis.call("set", key, ARGV[1], "PX", ARGV[2]) end
return #KEYS`
const GIVE_BACK = `
local count = 0
for _, key in ipairs(KEYS) do
  if redis.call("get", key) == ARGV[1] then
    redis.pcall("del", key)
    count = count + 1
  end
end
return count`

class Lock {
  constructor (redlock, resources, value, expiration) {
    Object.assign(this, { redlock, resources, value, expiration })
  }

  release () {
    this.expiration = 0
    return this.redlock.execute(GIVE_BACK, this.resources, [this.value])
  }

  extend (duration) {
    if (this.expiration < Date.now()) throw new ExecutionError('the lock has already expired')
    this.expiration = 0
    return this.redlock.take(PROLONG, this.resources, this.value, duration)
  }
}

export class Redlock extends EventEmitter {
  constructor (clients, settings = {}) {
    super()
    this.clients = clients
    this.settings = {
      driftFactor: 0.01, retryCount: 10, retryDelay: 200, retryJitter: 100, automaticExtensionThreshold: 500, ...settings
    }
  }

  acquire (resources, duration) {
    return this.take(TAKE, resources, randomBytes(16).toString('hex'), duration)
  }

  // A lock's time counts from before the first try.
  async take (script, resources, value, duration) {
    const begun = Date.now()
    await this.execute(script, resources, [value, duration])
    const drift = Math.round(this.settings.driftFactor * duration) + 2
    return new Lock(this, resources, value, begun + duration - drift)
  }

  async execute (script, keys, words) {
    for (let tries = 0; ; tries++) {
      const votes = await Promise.all(this.clients.map((client) => this.vote(client, script, keys, words)))
      if (votes.filter(Boolean).length > this.clients.length / 2) return
      if (tries >= this.settings.retryCount) throw new ExecutionError('no quorum')
      const jitter = this.settings.retryJitter * (2 * Math.random() - 1)
      await sleep(Math.max(0, this.settings.retryDelay + jitter))
    }
  }

  async vote (client, script, keys, words) {
    const sha = createHash('sha1').update(script).digest('hex')
    const all = [keys.length, [...keys, ...words]]
    try {
      const count = await client.evalsha(sha, ...all).catch((error) => {
        if (!error.message.startsWith('NOSCRIPT')) throw error
        return client.eval(script, ...all)
      })
      if (count !== keys.length) throw new ResourceLockedError(`${count} of ${keys.length}`)
      return true
    } catch (error) {
      this.emit('error', error)
      return false
    }
  }

  // Extends by itself while the routine runs.
  async using (resources, duration, routine) {
    const stop = new AbortController()
    let lock = await this.acquire(resources, duration)
    let timer
    let extension = Promise.resolve()
    const wind = () => {
      const left = lock.expiration - Date.now() - this.settings.automaticExtensionThreshold
      timer = setTimeout(() => {
        extension = lock.extend(duration).then((longer) => {
          lock = longer
          wind()
        }, (error) => { stop.signal.error = error; stop.abort(error) })
      }, left)
    }
    wind()
    try {
      return await routine(stop.signal)
    } finally {
      clearTimeout(timer)
      await extension
      clearTimeout(timer)
      await lock.release()
    }
  }
}
