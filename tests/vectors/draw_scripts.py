#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws scripts of key commands for tests/vectors/scripts_drawn.txt, each with
what one command, or one option, may be given: places and counts at both ends and
beyond, members that are there and not, values of other types. The answers are
written by REWRITE=1 (tests/unit/test_script_vectors.c), and a real Redis is asked
the same (tests/cluster/test_redis_scripts.py).

    tests/vectors/draw_scripts.py > tests/vectors/scripts_drawn.txt
    REWRITE=1 build/check/unit/test_script_vectors
"""

import random

SEED = 1
SCRIPTS = 260
HEAD = '''\
# Scripts drawn by tests/vectors/draw_scripts.py, to be read as scripts.txt is: what
# each key command answers, one after the other, on what those before have left.
'''
TYPES = ('text', 'hash', 'list', 'set', 'zset')


class Draw:
    def __init__(self, rng):
        self.rng = rng

    def one(self, *items):
        return self.rng.choice(items)

    def some(self, draw, least, most):
        return [word for _ in range(self.rng.randint(least, most))
                for word in draw()]

    def member(self):
        return [self.one('a', 'b', 'c', 'd', '', 'x=y', '%41', '7')]

    def place(self):
        return [self.one('0', '1', '2', '-1', '-2', '5', '-9')]

    def number(self):
        return [self.one('1', '2', '-3', '0', '10', 'x')]

    def score(self):
        return [self.one('1', '2', '2.5', '-1', '0', '10')]

    def end(self):
        return [self.one('1', '(1', '2', '(2', '2.5', '-inf', '+inf', '(-1')]

    def pair(self):
        return self.member() + self.member()

    def scored(self):
        return self.score() + self.member()

    def time(self):
        return self.one(['PX', '100000'], ['PX', '900'], ['EX', '100'])

    # --- Commands, behind the key -----------------------------------------

    def text(self):
        d = self
        value = d.one('v', '5', '-2', 'abc', '99')
        return d.one(
            ['GET'], ['STRLEN'], ['INCR'], ['DECR'], ['INCRBY', *d.number()],
            ['DECRBY', *d.number()],
            # A last place in front of the first is the first one to Redis 7.
            ['GETRANGE', *d.place(), d.one('0', '1', '2', '5', '-1')],
            ['GETRANGE', *d.place(), d.one('0', '1', '2', '5', '-1')],
            ['SET', value, *d.time()], ['SET', value, 'NX', *d.time()],
            ['SET', value, 'XX', *d.time()], ['SET', value, 'GET', *d.time()],
            ['SET', value, 'KEEPTTL'], ['SETNX', value], ['GETSET', value],
            ['GETDEL'], ['SETEX', d.one('100', '0'), value],
            ['PSETEX', d.one('100000', '0'), value],
            ['GETBIT', d.one('0', '1', '6', '7', '8', '100', '-1')],
            ['SETBIT', d.one('0', '1', '7', '9', '17'), d.one('0', '1', '2')],
            ['MGET', 'a', 'none'], ['MSET', value, 'c', 'w'],
            ['MSETNX', value, 'c', 'w'])

    def hash(self):
        d = self
        return d.one(
            ['HSET', *d.some(d.pair, 1, 3)], ['HMSET', *d.some(d.pair, 1, 3)],
            ['HSET', *d.some(d.pair, 1, 3)], ['HSET', 'a'],
            ['HSETNX', *d.pair()], ['HGET', *d.member()],
            ['HMGET', *d.some(d.member, 1, 3)], ['HGETALL'], ['HKEYS'],
            ['HLEN'],
            ['HEXISTS', *d.member()], ['HINCRBY', *d.member(), *d.number()],
            ['HINCRBY', d.one('n', 'm'), *d.number()],
            ['HDEL', *d.some(d.member, 1, 3)])

    def list(self):
        d = self
        return d.one(
            ['LPUSH', *d.some(d.member, 1, 3)],
            ['RPUSH', *d.some(d.member, 1, 4)],
            ['LPOP'], ['LPOP', d.one('0', '1', '2', '9', '-1')], ['LLEN'],
            ['LINDEX', *d.place()], ['LSET', *d.place(), *d.member()],
            ['LRANGE', *d.place(), *d.place()],
            ['LRANGE', *d.place(), *d.place()],
            ['LTRIM', *d.place(), *d.place()],
            ['LREM', d.one('0', '1', '-1', '2', '-2'), *d.member()],
            ['LMOVE', 'c', d.one('LEFT', 'RIGHT'), d.one('LEFT', 'RIGHT')])

    def set(self):
        d = self
        return d.one(
            ['SADD', *d.some(d.member, 1, 4)], ['SREM', *d.some(d.member, 1, 3)],
            ['SCARD'], ['SISMEMBER', *d.member()],
            ['SADD', *d.some(d.member, 1, 4)])

    def zset(self):
        d = self
        limit = d.one([], [], ['LIMIT', *d.place(), *d.place()])
        scores = d.one([], [], ['WITHSCORES'])
        flags = d.one([], ['NX'], ['XX'], ['GT'], ['LT'], ['CH'], ['XX', 'CH'],
                      ['GT', 'CH'], ['XX', 'GT'], ['INCR'], ['NX', 'XX'])
        pairs = d.scored() if 'INCR' in flags else d.some(d.scored, 1, 4)
        store = d.one(['1', KEY], ['2', KEY, 'c'], ['2', 'c', KEY])
        return d.one(
            ['ZADD', *flags, *pairs], ['ZADD', *d.some(d.scored, 1, 4)],
            ['ZINCRBY', *d.scored()], ['ZREM', *d.some(d.member, 1, 3)],
            ['ZSCORE', *d.member()], ['ZRANK', *d.member()],
            ['ZCARD'],
            ['ZCOUNT', *d.end(), *d.end()],
            ['ZRANGE', *d.place(), *d.place(), *scores],
            ['ZRANGE', *d.place(), *d.place(), 'REV', *scores],
            ['ZRANGE', *d.end(), *d.end(), 'BYSCORE', *limit, *scores],
            ['ZRANGE', *d.end(), *d.end(), 'BYSCORE', 'REV', *limit],
            ['ZREVRANGE', *d.place(), *d.place(), *scores],
            ['ZRANGEBYSCORE', *d.end(), *d.end(), *limit],
            ['ZRANGEBYSCORE', *d.end(), *d.end(), *scores, *limit],
            ['ZREMRANGEBYSCORE', *d.end(), *d.end()],
            ['ZINTERSTORE', *store],
            ['ZINTERSTORE', *store, 'WEIGHTS', *('2',) * int(store[0])])

    def any(self):
        d = self
        return d.one(
            ['EXISTS'], ['TYPE'], ['EXISTS', 'c'], ['PERSIST'],
            ['PEXPIRE', '90000'], ['EXPIRE', '90', d.one('NX', 'XX')],
            ['PEXPIRE', d.one('100', '90000'), d.one('GT', 'LT')],
            ['RENAME', 'c'], ['DEL'], ['UNLINK', 'c'])


KEY = '\0'


def quoted(word):
    return 'KEYS[2]' if word == KEY else f"'{word}'"


def script_of(rng):
    draw = Draw(rng)
    kind = rng.choice(TYPES)
    other = rng.choice(TYPES)
    fill = {'text': ['SET', 'abc', 'PX', '100000'], 'hash': ['HSET', 'a', '1'],
            'list': ['RPUSH', 'a', 'b', 'a', 'c'], 'set': ['SADD', 'a', 'b'],
            'zset': ['ZADD', '1', 'a', '2', 'b', '2', 'c', '3', 'd']}
    calls = [(other if rng.random() < .1 else kind) for _ in range(7)]
    calls = [getattr(draw, kind)() for kind in calls]
    calls.insert(rng.randint(0, 7), draw.any())
    # hasp deletes only what the script has looked at.
    lines = ["redis.pcall('GET', KEYS[2]) redis.pcall('GET', 'c')",
             "redis.call('DEL', KEYS[2], 'c')"]
    if rng.random() < .7:
        lines.append(call('redis.call', fill[kind]))
    if rng.random() < .4:
        lines.append(call('redis.call', fill[kind], 'c'))
    lines.append('local r = {}')
    lines += [f'r[{i}] = ' + call('redis.pcall', words)
              for i, words in enumerate(calls, 1)]
    lines += ["redis.call('PEXPIRE', KEYS[2], 100000)",
              "redis.call('PEXPIRE', 'c', 100000)", 'return r']
    return ' '.join(lines)


def call(function, words, key=KEY):
    words = [words[0]] + ([] if words[0] == 'MGET' else [key]) + words[1:]
    if words[0] == 'ZINTERSTORE':
        words[1] = 'c'
    return f'{function}({", ".join(map(quoted, words))})'


def main():
    rng = random.Random(SEED)
    print(HEAD)
    for _ in range(SCRIPTS):
        print(f'{script_of(rng)}\n----\n')


if __name__ == '__main__':
    main()
