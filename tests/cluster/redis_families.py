# SPDX-License-Identifier: MIT
"""Lock scripts that work together on hashes, lists, sets, sorted sets and
counters, as public libraries send them, written from their behaviour.

Each family is (library, {name: script}, keys, arguments, a peculiarity). All of
its scripts get the same keys, and arguments drawn by their kind:

    owner     one of three competitors
    ms, s     a time to live
    now       a client's clock, in milliseconds, which advances from call to call
    others    words that are sent as they are; with '|' one of them

The peculiarity is 'TIME' if its scripts ask the server, whose scores then are
its own, and 'no time to live' if they leave keys without one; then the nodes
need redis.no_ttl = durable.
"""

SEMAPHORE_TAKE = """
local now = tonumber(ARGV[4])
redis.call('zremrangebyscore', KEYS[1], '-inf', now - tonumber(ARGV[3]))
local others = redis.call('zcard', KEYS[1])
if others < tonumber(ARGV[2]) then
    redis.call('zadd', KEYS[1], now, ARGV[1])
    redis.call('pexpire', KEYS[1], ARGV[3])
    return 1
end
return 0
"""

TIME = """
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
"""

FAMILIES = [
    ("redis-semaphore (Node.js)", {
        "acquire": SEMAPHORE_TAKE,
        "refresh": """
local limit, lease, now = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('zremrangebyscore', KEYS[1], '-inf', now - lease)
if redis.call('zscore', KEYS[1], ARGV[1]) then
    redis.call('zadd', KEYS[1], now, ARGV[1])
    redis.call('pexpire', KEYS[1], lease)
    return 1
end
return 0
""",
        "release": "return redis.call('zrem', KEYS[1], ARGV[1])",
    }, 1, ["owner", "2", "ms", "now"], None),
    ("redis-semaphore (Node.js), several permits", {
        "acquire": """
local limit, permits, lease = tonumber(ARGV[2]), tonumber(ARGV[5]), ARGV[3]
local now = tonumber(ARGV[4])
redis.call('zremrangebyscore', KEYS[1], '-inf', now - lease)
if redis.call('zcard', KEYS[1]) + permits > limit then return 0 end
local pairs_of = {}
for i = 0, permits - 1 do
    table.insert(pairs_of, now)
    table.insert(pairs_of, ARGV[1] .. '_' .. i)
end
redis.call('zadd', KEYS[1], unpack(pairs_of))
redis.call('pexpire', KEYS[1], lease)
return 1
""",
        "release": """
local names = {}
for i = 0, ARGV[5] - 1 do names[#names + 1] = ARGV[1] .. '_' .. i end
return redis.call('zrem', KEYS[1], unpack(names))
""",
    }, 1, ["owner", "3", "ms", "now", "1|2"], None),
    ("symfony/lock from 5.2", {
        "save": TIME + """
local key, mine, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
if redis.call("TYPE", key).ok == "string" then return false end
redis.call("ZREMRANGEBYSCORE", key, "-inf", now)
if redis.call("ZSCORE", key, mine) then
    if not redis.call("ZSCORE", key, "__write__")
        and redis.call("ZCOUNT", key, "-inf", "+inf") > 1 then
        return false
    end
elseif redis.call("ZCOUNT", key, "-inf", "+inf") > 0 then
    return false
end
redis.call("ZADD", key, now + ttl, mine)
redis.call("ZADD", key, now + ttl, "__write__")
local last = redis.call("ZREVRANGE", key, 0, 0, "WITHSCORES")[2]
redis.call("PEXPIREAT", key, last)
return true
""",
        "save for reading": TIME + """
local key, mine, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
redis.call("ZREMRANGEBYSCORE", key, "-inf", now)
if redis.call("ZSCORE", key, "__write__")
    and not redis.call("ZSCORE", key, mine) then
    return false
end
redis.call("ZREM", key, "__write__")
redis.call("ZADD", key, now + ttl, mine)
redis.call("PEXPIREAT", key, redis.call("ZREVRANGE", key, 0, 0, "WITHSCORES")[2])
return true
""",
        "put off expiration": TIME + """
local key, mine, ttl = KEYS[1], ARGV[1], tonumber(ARGV[2])
redis.call("ZREMRANGEBYSCORE", key, "-inf", now)
if not redis.call("ZSCORE", key, mine) then return false end
redis.call("ZADD", key, now + ttl, mine)
if redis.call("ZSCORE", key, "__write__") then
    redis.call("ZADD", key, now + ttl, "__write__")
end
redis.call("PEXPIREAT", key, redis.call("ZREVRANGE", key, 0, 0, "WITHSCORES")[2])
return true
""",
        "exists": TIME + """
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
if redis.call("ZSCORE", KEYS[1], ARGV[1]) then return true end
return false
""",
        "delete": """
local key, mine = KEYS[1], ARGV[1]
if redis.call("TYPE", key).ok == "string" then return 0 end
if not redis.call("ZSCORE", key, mine) then return false end
redis.call("ZREM", key, mine)
if redis.call("ZSCORE", key, "__write__") then redis.call("ZREM", key, "__write__") end
if redis.call("ZCARD", key) == 0 then redis.call("DEL", key) end
return true
""",
    }, 1, ["owner", "ms"], "TIME"),
    ("DistributedLock.Redis (semaphore)", {
        "acquire": """
redis.replicate_commands()
local t = redis.call('time')
local now = (tonumber(t[1]) * 1000.0) + math.floor(tonumber(t[2]) / 1000.0)
redis.call('zremrangebyscore', KEYS[1], '-inf', now)
if redis.call('zcard', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('zadd', KEYS[1], now + tonumber(ARGV[2]), ARGV[1])
    local left = redis.call('pttl', KEYS[1])
    if left < tonumber(ARGV[2]) then
        redis.call('pexpire', KEYS[1], ARGV[2])
    end
    return 1
end
return 0
""",
        "extend": """
local t = redis.call('time')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local done = redis.call('zadd', KEYS[1], 'XX', 'CH', now + ARGV[2] + 1, ARGV[1])
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return redis.call('zscore', KEYS[1], ARGV[1]) ~= false and 1 or 0
""",
        "release": "return redis.call('zrem', KEYS[1], ARGV[1])",
    }, 1, ["owner", "ms", "2"], "TIME"),
    ("DistributedLock.Redis (readers and a writer)", {
        "read": """
if redis.call('exists', KEYS[2]) == 1 then return 0 end
local left = redis.call('pttl', KEYS[1])
redis.call('sadd', KEYS[1], ARGV[1])
if left < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
return 1
""",
        "stop reading": "return redis.call('srem', KEYS[1], ARGV[1])",
        "extend reading": """
if redis.call('sismember', KEYS[1], ARGV[1]) == 0 then return 0 end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('pexpire', KEYS[1], ARGV[2])
end
return 1
""",
        "write": """
local writer = redis.call('get', KEYS[2])
if writer == false or writer == ARGV[1] .. '_waits' then
    if redis.call('scard', KEYS[1]) == 0 then
        redis.call('set', KEYS[2], ARGV[1], 'px', ARGV[2])
        return 1
    end
    redis.call('set', KEYS[2], ARGV[1] .. '_waits', 'px', ARGV[2])
end
return 0
""",
        "stop writing": """
local writer = redis.call('get', KEYS[2])
if writer == ARGV[1] or writer == ARGV[1] .. '_waits' then
    return redis.call('del', KEYS[2])
end
return 0
""",
    }, 2, ["owner", "ms"], None),
    ("python-redis-lock", {
        "acquire": "return redis.call('set', KEYS[1], ARGV[1], 'NX', 'EX', ARGV[2])",
        "release": """
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 1
end
redis.call('del', KEYS[2])
redis.call('lpush', KEYS[2], 1)
redis.call('pexpire', KEYS[2], ARGV[3])
redis.call('del', KEYS[1])
return 0
""",
        "extend": """
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return 1
elseif redis.call('ttl', KEYS[1]) < 0 then
    return 2
end
redis.call('expire', KEYS[1], ARGV[2])
return 0
""",
        "reset": """
redis.call('get', KEYS[1])
redis.call('del', KEYS[2])
redis.call('lpush', KEYS[2], 1)
redis.call('pexpire', KEYS[2], ARGV[3])
return redis.call('del', KEYS[1])
""",
    }, 2, ["owner", "s", "ms"], None),
    ("Redisson's RReadWriteLock", {
        "read": """
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then
    redis.call('hset', KEYS[1], 'mode', 'read')
    redis.call('hset', KEYS[1], ARGV[1], 1)
    redis.call('set', KEYS[2] .. ':' .. ARGV[1] .. ':1', 1, 'px', ARGV[2])
    redis.call('pexpire', KEYS[1], ARGV[2])
    return nil
end
if mode == 'read' or
   (mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 1) then
    local count = redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('set', KEYS[2] .. ':' .. ARGV[1] .. ':' .. count, 1, 'px', ARGV[2])
    local left = redis.call('pttl', KEYS[1])
    redis.call('pexpire', KEYS[1], math.max(left, ARGV[2]))
    return nil
end
return redis.call('pttl', KEYS[1])
""",
        "stop reading": """
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then return 1 end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if count == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
local note = KEYS[2] .. ':' .. ARGV[1] .. ':' .. (count + 1)
redis.call('get', note)
redis.call('del', note)
if redis.call('hlen', KEYS[1]) > 1 then
    local longest = -3
    for _, owner in ipairs(redis.call('hkeys', KEYS[1])) do
        count = tonumber(redis.call('hget', KEYS[1], owner))
        if type(count) == 'number' then
            for i = count, 1, -1 do
                local left = redis.call('pttl', KEYS[2] .. ':' .. owner .. ':' .. i)
                longest = math.max(left, longest)
            end
        end
    end
    if longest > 0 then
        redis.call('pexpire', KEYS[1], longest)
        return 0
    end
    if mode == 'write' then return 0 end
end
redis.call('del', KEYS[1])
return 1
""",
        "write": """
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then
    redis.call('hset', KEYS[1], 'mode', 'write')
    redis.call('hset', KEYS[1], ARGV[1] .. ':write', 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return nil
end
if mode == 'write' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 1 then
    redis.call('hincrby', KEYS[1], ARGV[1] .. ':write', 1)
    redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[2])
    return nil
end
return redis.call('pttl', KEYS[1])
""",
        "stop writing": """
local mode = redis.call('hget', KEYS[1], 'mode')
if mode == false then return 1 end
if mode ~= 'write' then return nil end
local me = ARGV[1] .. ':write'
if redis.call('hexists', KEYS[1], me) == 0 then return nil end
if redis.call('hincrby', KEYS[1], me, -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 0
end
redis.call('hdel', KEYS[1], me)
if redis.call('hlen', KEYS[1]) == 1 then
    redis.call('del', KEYS[1])
else
    redis.call('hset', KEYS[1], 'mode', 'read')
end
return 1
""",
    }, 2, ["owner", "ms"], None),
    ("Redisson's fair lock", {
        "lock": """
local now = tonumber(ARGV[3])
while true do
    local first = redis.call('lindex', KEYS[2], 0)
    if first == false then break end
    local until_then = redis.call('zscore', KEYS[3], first)
    if until_then == false or tonumber(until_then) <= now then
        redis.call('zrem', KEYS[3], first)
        redis.call('lpop', KEYS[2])
    else
        break
    end
end
if redis.call('exists', KEYS[1]) == 0 and
   (redis.call('exists', KEYS[2]) == 0 or
    redis.call('lindex', KEYS[2], 0) == ARGV[1]) then
    redis.call('lpop', KEYS[2])
    redis.call('zrem', KEYS[3], ARGV[1])
    for _, who in ipairs(redis.call('zrange', KEYS[3], 0, -1)) do
        redis.call('zincrby', KEYS[3], -tonumber(ARGV[2]), who)
    end
    redis.call('hset', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return nil
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return nil
end
local then_at = redis.call('zscore', KEYS[3], ARGV[1])
if then_at ~= false then return tonumber(then_at) - now end
local last = redis.call('lindex', KEYS[2], -1)
local left
local theirs = last ~= false and redis.call('zscore', KEYS[3], last)
if last ~= ARGV[1] and theirs then
    left = tonumber(theirs) - now
else
    left = redis.call('pttl', KEYS[1])
end
if redis.call('zadd', KEYS[3], left + ARGV[2] + now, ARGV[1]) == 1 then
    redis.call('rpush', KEYS[2], ARGV[1])
end
return left > 0 and 1 or 0
""",
        "unlock": """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 0
end
redis.call('del', KEYS[1])
local next_one = redis.call('lindex', KEYS[2], 0)
if next_one ~= false then
    redis.call('publish', KEYS[1] .. ':' .. next_one, 'free')
end
return 1
""",
        "give up": """
redis.call('zrem', KEYS[3], ARGV[1])
return redis.call('lrem', KEYS[2], 0, ARGV[1])
""",
    }, 3, ["owner", "ms", "now"], "no time to live"),
    ("Redisson's RSemaphore", {
        "acquire": """
local left = redis.call('get', KEYS[1])
if left ~= false and tonumber(left) >= tonumber(ARGV[1]) then
    redis.call('decrby', KEYS[1], ARGV[1])
    return 1
end
return 0
""",
        "release": """
local now_there = redis.call('incrby', KEYS[1], ARGV[1])
redis.call('publish', KEYS[1] .. ':released', now_there)
return now_there
""",
        "fill": """
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('set', KEYS[1], ARGV[1])
return 1
""",
    }, 1, ["1|2|3", "ms"], "no time to live"),
    ("SETNX and GETSET, as of old", {
        "lock": """
if redis.call('setnx', KEYS[1], ARGV[1]) == 1 then
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1
end
local before = redis.call('get', KEYS[1])
if tonumber(before) < tonumber(ARGV[1]) - 50 then
    local got = redis.call('getset', KEYS[1], ARGV[1])
    redis.call('pexpire', KEYS[1], ARGV[2])
    return got
end
return 0
""",
        "unlock": """
if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end
return 0
""",
    }, 1, ["now", "ms"], None),
    ("reentrant locks of many a tutorial", {
        "lock": """
local key, me, lease = KEYS[1], ARGV[1], ARGV[2]
if (redis.call('exists', key) == 0 or redis.call('hexists', key, me) == 1) then
    redis.call('hincrby', key, me, '1')
    redis.call('expire', key, lease)
    return 1
end
return 0
""",
        "unlock": """
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
    return nil
elseif redis.call('hincrby', KEYS[1], ARGV[1], -1) == 0 then
    return redis.call('del', KEYS[1])
else
    return 0
end
""",
        "lock with a counter beside it": """
local held, count = KEYS[1] .. ':owner', KEYS[1] .. ':count:' .. ARGV[1]
local owner = redis.call('get', held)
if owner == false or owner == ARGV[1] then
    redis.call('set', held, ARGV[1], 'ex', ARGV[2])
    local n = redis.call('incr', count)
    redis.call('expire', count, ARGV[2])
    return n
end
return 0
""",
        "unlock with a counter beside it": """
local held, count = KEYS[1] .. ':owner', KEYS[1] .. ':count:' .. ARGV[1]
local n = tonumber(redis.call('get', count) or '0')
if n > 1 then return redis.call('decr', count) end
redis.call('del', count)
if redis.call('get', held) == ARGV[1] then return redis.call('del', held) end
return 0
""",
    }, 1, ["owner", "s"], None),
    ("a semaphore whose places are counted, by an intersection", {
        "acquire": """
local times, places, counter, me = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
local now, lease = tonumber(ARGV[2]), 9000
redis.call('zremrangebyscore', times, '-inf', now - lease)
redis.call('zinterstore', places, 2, places, times, 'weights', 1, 0)
redis.call('zadd', times, now, me)
redis.call('zadd', places, redis.call('incr', counter), me)
if redis.call('zrank', places, me) < tonumber(ARGV[3]) then return 'yours' end
redis.call('zrem', times, me)
redis.call('zrem', places, me)
return 'full'
""",
        "release": """
redis.call('zrem', KEYS[2], ARGV[1])
return redis.call('zrem', KEYS[1], ARGV[1])
""",
    }, 3, ["owner", "now", "2"], "no time to live"),
    ("waiters of several queues in one", {
        "wait": """
redis.call('zadd', KEYS[tonumber(ARGV[2])], ARGV[3], ARGV[1])
return redis.call('sadd', KEYS[3], ARGV[1])
""",
        "leave": "return redis.call('zrem', KEYS[tonumber(ARGV[2])], ARGV[1])",
        "forget": "return redis.call('srem', KEYS[3], ARGV[1])",
        "all": """
return redis.call('zinterstore', KEYS[4], 3, KEYS[1], KEYS[2], KEYS[3],
                  'weights', 2, ARGV[4], 0.5)
""",
        "both": "return redis.call('zinterstore', KEYS[4], 2, KEYS[2], KEYS[1])",
        "in place": """
return redis.call('zinterstore', KEYS[1], 2, KEYS[1], KEYS[1], 'weights', 1, -1)
""",
        "of a time": """
local count = redis.call('zinterstore', KEYS[4], 1, KEYS[1])
if count > 0 then redis.call('expire', KEYS[4], 20) end
return count
""",
        "first": """
local _, first = next(redis.call('zrange', KEYS[4], 0, -1))
return first or 'nobody'
""",
    }, 4, ["owner", "1|2", "-3|0|7.5|inf", "-1|0|3"],
     "no time to live"),
]
