// SPDX-License-Identifier: MIT
//
// One connection to one node, speaking RESP3.
'use strict';

const net = require('node:net');

/** The server refused. 'code' is the first word: NOTHELD, LIMIT, ... */
class ReplyError extends Error {
  constructor(text) {
    super(text);
    this.code = text.split(' ', 1)[0];
  }
}

class Push extends Array {}

const INCOMPLETE = Symbol('incomplete');

function encode(words) {
  return `*${words.length}\r\n` + words.map((word) => {
    const text = String(word);
    return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
  }).join('');
}

/** Parses one value of 'data' at 'at': [value, next position] or INCOMPLETE. */
function parse(data, at) {
  const end = data.indexOf('\r\n', at);
  if (end < 0) {
    return INCOMPLETE;
  }
  const rest = data.toString('utf8', at + 1, end);
  let next = end + 2;
  switch (data[at]) {
    case 0x2b: return [rest, next]; // +
    case 0x2d: return [new ReplyError(rest), next]; // -
    case 0x3a: return [Number(rest), next]; // : tokens stay below 2^53
    case 0x23: return [rest === 't', next]; // #
    case 0x2c: return [Number(rest), next]; // ,
    case 0x5f: return [null, next]; // _
    case 0x24: case 0x3d: { // $ =
      const size = Number(rest);
      if (size < 0) {
        return [null, next];
      }
      if (data.length < next + size + 2) {
        return INCOMPLETE;
      }
      const skip = data[at] === 0x3d ? 4 : 0;
      return [data.toString('utf8', next + skip, next + size),
        next + size + 2];
    }
    case 0x2a: case 0x7e: case 0x3e: case 0x25: { // * ~ > %
      const isMap = data[at] === 0x25;
      const count = Number(rest) * (isMap ? 2 : 1);
      if (count < 0) {
        return [null, next];
      }
      const values = data[at] === 0x3e ? new Push() : [];
      for (let i = 0; i < count; i++) {
        const found = parse(data, next);
        if (found === INCOMPLETE) {
          return INCOMPLETE;
        }
        values.push(found[0]);
        next = found[1];
      }
      if (!isMap) {
        return [values, next];
      }
      const map = {};
      for (let i = 0; i < count; i += 2) {
        map[values[i]] = values[i + 1];
      }
      return [map, next];
    }
    default:
      throw new Error(`unexpected reply ${rest}`);
  }
}

class Connection {
  constructor(endpoint) {
    const { host, port } = endpoint;
    this.endpoint = endpoint;
    this.data = Buffer.alloc(0);
    this.waiting = [];
    this.onPush = null;
    this.onClose = null;
    this.isClosed = false;
    this.socket = net.connect({ host, port, noDelay: true, keepAlive: true,
      keepAliveInitialDelay: 2000 });
    this.socket.on('data', (data) => this.received(data));
    this.socket.on('error', (error) => this.failed(error));
    this.socket.on('close',
      () => this.failed(new Error('closed the connection')));
  }

  /** Sends and resolves with the reply, a ReplyError included; rejects if the
   * connection fails, which 'timeout' makes it do, too. */
  ask(timeout, words) {
    if (this.isClosed) {
      return Promise.reject(new Error('connection closed'));
    }
    return new Promise((resolve, reject) => {
      const timer = setTimeout(
        () => this.failed(new Error('no answer')), timeout);
      this.waiting.push({ resolve, reject, timer });
      this.socket.write(encode(words));
    });
  }

  received(data) {
    this.data = this.data.length ? Buffer.concat([this.data, data]) : data;
    let at = 0;
    try {
      for (;;) {
        const found = at < this.data.length ? parse(this.data, at) : INCOMPLETE;
        if (found === INCOMPLETE) {
          break;
        }
        at = found[1];
        if (found[0] instanceof Push) {
          const [push] = found; // What a listener throws is not about us.
          queueMicrotask(() => this.onPush?.(push));
          continue;
        }
        const { resolve, timer } = this.waiting.shift();
        clearTimeout(timer);
        resolve(found[0]);
      }
    } catch (error) {
      this.failed(error);
    }
    this.data = this.data.subarray(at);
  }

  failed(error) {
    this.isClosed = true;
    this.socket.destroy();
    for (const { reject, timer } of this.waiting.splice(0)) {
      clearTimeout(timer);
      reject(error);
    }
    this.onClose?.();
  }

  close() {
    this.failed(new Error('connection closed'));
  }
}

module.exports = { Connection, ReplyError };
