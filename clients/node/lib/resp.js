// SPDX-License-Identifier: MIT
//
// RESP3, as much of it as hasp speaks: requests out, replies in. No I/O.
'use strict';

const LINE_MAX = 64 << 10;
const SIZE_MAX = 64 << 20;
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

const broken = (what) => new Error(`no RESP: ${what}`);

/** Parses one value of 'data' at 'at': [value, next position] or INCOMPLETE.
 * What is thrown means that the connection is of no use any more. */
function parse(data, at, depth = 0) {
  const end = data.indexOf('\r\n', at);
  if (end < 0 ? data.length - at > LINE_MAX : end - at > LINE_MAX) {
    throw broken('a line without an end');
  }
  if (end < 0) {
    return INCOMPLETE;
  }
  const line = data.toString('utf8', at, end);
  const kind = line[0];
  const rest = line.slice(1);
  const next = end + 2;
  if (kind === '+' || kind === '-') {
    return [kind === '+' ? rest : new ReplyError(rest), next];
  }
  if (SINGLE.has(line)) {
    return [SINGLE.get(line), next];
  }
  if (!NUMBER.test(rest)) {
    throw broken(line.slice(0, 20));
  }
  const number = Number(rest); // Tokens stay below 2^53.
  if (kind === ':') {
    return [number, next];
  }
  if (number < 0 || number > SIZE_MAX || depth === DEPTH_MAX) {
    throw broken(`a size of ${number}`);
  }
  switch (kind) {
    case '$': return parseText(data, next, number);
    case '*': return parseAll([], data, next, number, depth);
    case '>': return parseAll(new Push(), data, next, number, depth);
    case '%': return parseMap(data, next, number, depth);
    default: throw broken(line.slice(0, 20));
  }
}

function parseText(data, at, size) {
  const end = at + size;
  if (data.length < end + 2) {
    return INCOMPLETE;
  }
  if (data[end] !== 0x0d || data[end + 1] !== 0x0a) {
    throw broken('a text that does not end where it said');
  }
  return [data.toString('utf8', at, end), end + 2];
}

function parseAll(values, data, at, count, depth) {
  for (let i = 0; i < count; i++) {
    const found = parse(data, at, depth + 1);
    if (found === INCOMPLETE) {
      return INCOMPLETE;
    }
    values.push(found[0]);
    at = found[1];
  }
  return [values, at];
}

function parseMap(data, at, count, depth) {
  const found = parseAll([], data, at, 2 * count, depth);
  if (found === INCOMPLETE) {
    return INCOMPLETE;
  }
  const [values, next] = found;
  const map = {};
  for (let i = 0; i < values.length; i += 2) {
    map[values[i]] = values[i + 1];
  }
  return [map, next];
}

module.exports = { INCOMPLETE, Push, ReplyError, encode, parse };
