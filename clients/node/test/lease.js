// SPDX-License-Identifier: MIT
//
// The pure parts: the clock rules by the vectors that the other clients keep to
// the nanosecond, too (tests/unit/test_lease_vectors.c makes them, and has what
// the steps mean), and what /proc/uptime shows of a suspended machine.
'use strict';

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { Clocks } = require('../lib/clock');
const { Lease, holdRemaining } = require('../lib/lease');
const { INCOMPLETE, Parser, Push, ReplyError, encode } =
  require('../lib/resp');

const VECTORS = path.join(__dirname, '..', '..', '..', 'tests', 'vectors',
  'lease.json');
const MS = 1000000n;

const clock = ([monotonic, boottime]) => ({ monotonic: BigInt(monotonic),
  boottime: BigInt(boottime) });

const steps = {
  answered: (lease, args) => lease.answered(clock(args), args[2], args[3]),
  refused: (lease) => lease.refuse(),
  period: (lease, [period]) => assert.equal(lease.period(), BigInt(period)),
  hold: (lease, args) => assert.equal(BigInt(args[5]),
    holdRemaining(clock(args), args[2], clock(args.slice(3)))),
  check: (lease, args) => {
    assert.equal(lease.state(clock(args)), args[2]);
    assert.equal(lease.remaining(clock(args)), BigInt(args[3]));
  },
};

function vectors() {
  const cases = JSON.parse(fs.readFileSync(VECTORS, 'utf8'));
  for (const { says, steps: done } of cases) {
    const lease = new Lease();
    for (const [step, ...args] of done) {
      try {
        steps[step](lease, args);
      } catch (error) {
        error.message = `${says}: ${step} ${args}: ${error.message}`;
        throw error;
      }
    }
  }
  return cases.length;
}

/** A machine with an uptime in steps of 10 ms, and that can be suspended. */
class Machine {
  constructor() {
    this.time = 1234567n * MS + 891n;
    this.slept = 0n;
    this.late = 0n; // Between the two readings.
    this.clocks = new Clocks(() => this.time, () => {
      this.time += this.late;
      const true_ = this.time + this.slept;
      return true_ - true_ % (10n * MS);
    });
  }

  boottime() {
    return this.time + this.slept;
  }
}

function suspended() {
  for (let drawn = 0n; drawn < 2000n; drawn++) {
    const machine = new Machine();
    const random = (bound) => (drawn * 7919n + BigInt(bound) * 104729n) *
      2654435761n % (BigInt(bound) * MS);
    machine.time += random(13);
    machine.clocks.read();
    machine.time += random(997);
    machine.late = drawn % 5n === 0n ? random(3) : 0n;
    const sent = { ...machine.clocks.read(), true_: machine.boottime() };
    machine.time += random(5003);
    const sleep = drawn % 3n === 0n ? 0n : 60n * MS + random(90001);
    machine.slept += sleep;
    const now = machine.clocks.read();
    const age = now.boottime - sent.boottime;
    const passed = machine.boottime() - sent.true_ - machine.late;
    assert.ok(sleep === 0n ? age === now.monotonic - sent.monotonic
      : age >= passed && age < passed + 30n * MS, `${drawn}: ${age} ${passed}`);
    machine.time += random(11);
    assert.equal(machine.clocks.read().boottime - now.boottime,
      machine.time - now.monotonic - machine.late, 'counted once');
  }
}

function without() {
  const clocks = new Clocks(() => 5n, () => null);
  assert.deepEqual(clocks.read(), { monotonic: 5n, boottime: 5n });
}

/** As tests/unit/test_wire_vectors.c writes it. */
function asVector(value) {
  if (value instanceof Push) {
    return { push: Array.from(value, asVector) };
  }
  if (value instanceof ReplyError) {
    return { error: value.message };
  }
  if (Array.isArray(value)) {
    return value.map(asVector);
  }
  return value !== null && typeof value === 'object'
    ? { map: Object.entries(value).flat().map(asVector) } : value;
}

function parse(data) {
  const parser = new Parser();
  parser.feed(data);
  return parser.next();
}

/** A reply that comes in pieces is read once, not from its beginning with each
 * of them; one without an end ends the connection. */
function pieces() {
  const data = Buffer.from(`*3000\r\n${'*2\r\n:1\r\n+text\r\n'.repeat(3000)}` +
    '$20\r\n12345678901234567890\r\n');
  const parser = new Parser();
  const { element } = Parser.prototype;
  let looked = 0;
  parser.element = function count(parts) {
    looked++;
    return element.call(this, parts);
  };
  const found = [];
  for (let at = 0; at < data.length; at += 5) {
    parser.feed(data.subarray(at, at + 5));
    for (let one; (one = parser.next()) !== INCOMPLETE;) {
      found.push(one);
    }
  }
  assert.deepEqual(found, [Array(3000).fill([1, 'text']),
    '12345678901234567890']);
  assert.ok(looked <= 3 * 3000 + 2 + data.length / 5);
  const text = `$1048576\r\n${'x'.repeat(1048576)}\r\n`;
  for (const piece of [text, '%1\r\n'.repeat(50000)].map((one) =>
    Buffer.from(one))) {
    const endless = new Parser();
    endless.feed(Buffer.from('*1000000\r\n'));
    assert.throws(() => {
      for (let i = 0; i < 70; i++) {
        endless.feed(piece);
        assert.equal(endless.next(), INCOMPLETE);
      }
    }, /not a hasp node: (a reply of more than 64 MiB|a size of 1)/);
  }
}

/** The replies that libhasp understands; any other reply ends a connection. */
function wire() {
  const { requests, replies, broken } = JSON.parse(fs.readFileSync(
    path.join(path.dirname(VECTORS), 'wire.json'), 'utf8'));
  for (const { words, bytes } of requests) {
    assert.equal(Buffer.from(encode(words)).toString('hex'), bytes, words);
  }
  for (const { says, bytes, value } of replies) {
    const data = Buffer.from(bytes, 'hex');
    assert.deepEqual(asVector(parse(data)), value, says);
    for (let cut = 0; cut < data.length; cut++) {
      assert.equal(parse(data.subarray(0, cut)), INCOMPLETE, says);
    }
  }
  for (const { says, bytes } of broken) {
    assert.throws(() => parse(Buffer.from(bytes, 'hex')), /not a hasp node/, says);
  }
  return requests.length + replies.length + broken.length;
}

suspended();
without();
pieces();
console.log(`${vectors() + wire()} vectors`);
