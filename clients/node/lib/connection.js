// SPDX-License-Identifier: MIT
//
// One connection to one node.
'use strict';

const net = require('node:net');
const tls = require('node:tls');
const { INCOMPLETE, Push, encode, parse } = require('./resp');
const { explained } = require('./tls');

class Connection {
  /** 'secure': the options of tls.connect(); null: plain, as is what does not
   * leave the machine. */
  constructor(endpoint, secure) {
    const { host, port, path } = endpoint;
    this.endpoint = endpoint;
    this.data = Buffer.alloc(0);
    this.waiting = [];
    this.onPush = null;
    this.onClose = null;
    this.isClosed = false;
    const how = path ? { path } : { host, port, noDelay: true,
      keepAlive: true, keepAliveInitialDelay: 2000 };
    this.socket = secure && !path ? tls.connect({ ...how, ...secure })
      : net.connect(how);
    this.socket.on('data', (data) => this.received(data));
    this.socket.on('error', (error) => this.failed(explained(error)));
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

module.exports = { Connection };
