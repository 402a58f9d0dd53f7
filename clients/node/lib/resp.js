// SPDX-License-Identifier: MIT
//
// The subset of RESP3 that hasp uses: requests out, replies in. No I/O.
'use strict';

const LINE_MAX = 64 << 10;
const REPLY_MAX = 64 << 20; // Bytes of one reply, and the parts of a list.
const DEPTH_MAX = 16;
const NUMBER = /^[+-]?[0-9]{1,19}$/;
const SINGLE = new Map([['_', null], ['$-1', null], ['*-1', null],
  ['#t', true], ['#f', false]]);

/** The server refused. 'code' is the first word: NOTHELD, LIMIT, ... */
class ReplyError extends Error {
  constructor(text) {
    super(text);
    this.code = text.split(' ', 1)[0];
  }
}

/** A message that no request asked for: [name, kind, map]. */
class Push extends Array {}

const INCOMPLETE = Symbol('incomplete');

function encode(words) {
  return `*${words.length}\r\n` + words.map((word) => {
    const text = String(word);
    return `$${Buffer.byteLength(text)}\r\n${text}\r\n`;
  }).join('');
}

const broken = (what) => new Error(`the peer is not a hasp node: ${what}`);

/** Makes a value from the parts of a list of this kind, its first character. */
function whole(kind, parts) {
  if (kind === '>') {
    return Push.from(parts);
  }
  if (kind === '*') {
    return parts;
  }
  const map = {};
  for (let i = 0; i < parts.length; i += 2) {
    map[parts[i]] = parts[i + 1];
  }
  return map;
}

/** Feed it bytes; next() returns one value. The parsed part of an incomplete
 * value is kept, so each byte is parsed once. */
class Parser {
  constructor() {
    this.data = Buffer.alloc(0);
    this.at = 0; // Everything before this offset has been parsed.
    this.pieces = []; // Chunks received after 'data'.
    this.more = 0; // Bytes in 'pieces'.
    this.wanted = 1; // Bytes needed before the next attempt to parse.
    this.begin();
  }

  begin() {
    this.size = 0; // Parsed bytes of the current value.
    // Incomplete lists, outermost first.
    this.open = [{ kind: '', count: 1, parts: [] }];
  }

  feed(piece) {
    this.pieces.push(piece);
    this.more += piece.length;
  }

  /** The next value. INCOMPLETE: feed more bytes. If it throws, the connection
   * must be closed. */
  next() {
    const isEnough = this.data.length - this.at + this.more >= this.wanted;
    if (isEnough && this.more) {
      this.data = Buffer.concat([this.data.subarray(this.at), ...this.pieces]);
      [this.at, this.pieces, this.more] = [0, [], 0];
    }
    while (isEnough) {
      const { kind, count, parts } = this.open.at(-1);
      if (parts.length < count) {
        if (!this.element(parts)) {
          break;
        }
      } else if (this.open.length > 1) {
        this.open.pop();
        this.open.at(-1).parts.push(whole(kind, parts));
      } else {
        this.begin();
        return parts[0];
      }
    }
    if (this.size + this.data.length - this.at + this.more > REPLY_MAX) {
      throw broken(`a reply of more than ${REPLY_MAX >> 20} MiB`);
    }
    return INCOMPLETE;
  }

  /** Adds the next value, or opens a list; false: more input is needed. */
  element(parts) {
    const { data, at } = this;
    const end = data.indexOf('\r\n', at);
    if ((end < 0 ? data.length : end) - at > LINE_MAX) {
      throw broken('a line without CR LF');
    }
    if (end < 0) {
      this.wanted = data.length - at + 1;
      return false;
    }
    const line = data.toString('utf8', at, end);
    const kind = line[0];
    const rest = line.slice(1);
    let next = end + 2;
    if (kind === '+' || kind === '-') {
      parts.push(kind === '+' ? rest : new ReplyError(rest));
    } else if (SINGLE.has(line)) {
      parts.push(SINGLE.get(line));
    } else if (!NUMBER.test(rest)) {
      throw broken(`a reply that begins with '${line.slice(0, 20)}'`);
    } else if (kind === ':') {
      parts.push(Number(rest)); // Tokens stay below 2^53.
    } else {
      next = this.sized(parts, kind, Number(rest), next);
    }
    if (next > data.length) {
      this.wanted = next - at;
      return false;
    }
    this.wanted = 1;
    this.size += next - at;
    this.at = next;
    return true;
  }

  /** Reads a value that begins with its size; returns its end, which might not
   * have arrived yet. */
  sized(parts, kind, size, at) {
    if (size < 0 || size > REPLY_MAX || this.open.length > DEPTH_MAX) {
      throw broken(`a size of ${size}`);
    }
    if (kind === '$') {
      const end = at + size;
      if (end + 2 <= this.data.length) {
        if (this.data[end] !== 0x0d || this.data[end + 1] !== 0x0a) {
          throw broken('a string longer than its size');
        }
        parts.push(this.data.toString('utf8', at, end));
      }
      return end + 2;
    }
    if (!'*>%'.includes(kind)) {
      throw broken(`a reply that begins with ${kind}`);
    }
    this.open.push({ kind, count: kind === '%' ? 2 * size : size, parts: [] });
    return at;
  }
}

module.exports = { INCOMPLETE, Parser, Push, ReplyError, encode };
