# SPDX-License-Identifier: MIT
"""Lock scripts as public libraries send them, written down by their behaviour.

Each is (library, what it does, script, how many keys, arguments). 'several' keys
are one to three. Arguments are drawn by their kind:

    token   the value of a lock: mostly that which holds it
    ms, s   a time
    others  words that are sent as they are; with '|' one of them
"""

GET_DEL = """
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end
"""
GET_PEXPIRE = """
if redis.call("get", KEYS[1]) == ARGV[1] then
    return redis.call("pexpire", KEYS[1], ARGV[2])
else
    return 0
end
"""
SEVERAL = "several"

# bsm/redislock 0.9.4 and later: several keys, functions.
REDISLOCK_CHECK = """
-- Check all keys values matches provided input.
local values = redis.call("mget", unpack(KEYS))
for i, _ in ipairs(KEYS) do
    if values[i] ~= ARGV[1] then
        return false
    end
end
"""

SCRIPTS = [
    # Python.
    ("redis-py 2.10 to 6", "release", """
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    """, 1, ["token"]),
    ("redis-py 2.10 to 6", "extend", """
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        local expiration = redis.call('pttl', KEYS[1])
        if not expiration then
            expiration = 0
        end
        if expiration < 0 then
            return 0
        end

        local newttl = ARGV[2]
        if ARGV[3] == "0" then
            newttl = ARGV[2] + expiration
        end
        redis.call('pexpire', KEYS[1], newttl)
        return 1
    """, 1, ["token", "ms", "0|1"]),
    ("redis-py 2.10 to 6", "reacquire", """
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('pexpire', KEYS[1], ARGV[2])
        return 1
    """, 1, ["token", "ms"]),
    ("pottery", "acquired", """
        if redis.call('get', KEYS[1]) == ARGV[1] then
            local pttl = redis.call('pttl', KEYS[1])
            return (pttl > 0) and pttl or 0
        else
            return 0
        end
    """, 1, ["token"]),
    ("pottery", "extend", """
        if redis.call('get', KEYS[1]) == ARGV[1] then
            return redis.call('pexpire', KEYS[1], ARGV[2])
        else
            return 0
        end
    """, 1, ["token", "ms"]),
    ("aioredlock", "set", """
    local identifier = redis.call('get', KEYS[1])
    if not identifier or identifier == ARGV[1] then
        return redis.call("set", KEYS[1], ARGV[1], 'PX', ARGV[2])
    else
        return redis.error_reply('ERROR')
    end""", 1, ["token", "ms"]),
    ("aioredlock", "unset", """
    local identifier = redis.call('get', KEYS[1])
    if not identifier then
        return redis.status_reply('OK')
    elseif identifier == ARGV[1] then
        return redis.call("del", KEYS[1])
    else
        return redis.error_reply('ERROR')
    end""", 1, ["token"]),
    ("aioredlock", "get ttl", """
    local identifier = redis.call('get', KEYS[1])
    if not identifier then
        return redis.error_reply('ERROR')
    elseif identifier == ARGV[1] then
        return redis.call("TTL", KEYS[1])
    else
        return redis.error_reply('ERROR')
    end""", 1, ["token"]),
    ("sherlock", "acquire", """
    local result = redis.call('SETNX', KEYS[1], ARGV[1])
    if result == 1 and ARGV[2] ~= -1 then
        redis.call('EXPIRE', KEYS[1], ARGV[2])
    end
    return result
    """, 1, ["token", "s"]),
    ("sherlock", "release", """
    local result = 0
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        redis.call('DEL', KEYS[1])
        result = 1
    end
    return result
    """, 1, ["token"]),
    ("sherlock", "renew", """
    local result = 0
    if redis.call('GET', KEYS[1]) == ARGV[1] then
        if ARGV[2] ~= -1 then
            redis.call('EXPIRE', KEYS[1], ARGV[2])
        end
        result = 1
    end
    return result
    """, 1, ["token", "s"]),
    ("python-redis-lock", "extend", """
    if redis.call("get", KEYS[1]) ~= ARGV[2] then
        return 1
    elseif redis.call("ttl", KEYS[1]) < 0 then
        return 2
    else
        redis.call("expire", KEYS[1], ARGV[1])
        return 0
    end
    """, 1, ["s", "token"]),
    # Node.js.
    ("redlock (Node.js) 2 to 4", "unlock", GET_DEL, 1, ["token"]),
    ("redlock (Node.js) 2 to 4", "extend", GET_PEXPIRE, 1, ["token", "ms"]),
    ("redlock (Node.js) 4", "lock several", """
  -- Return 0 if an entry already exists.
  for i, key in ipairs(KEYS) do
    if redis.call("exists", key) == 1 then
      return 0
    end
  end

  -- Create an entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries added.
  return #KEYS
""", SEVERAL, ["token", "ms"]),
    ("redlock (Node.js) 5", "extend", """
  -- Return 0 if an entry exists with a *different* lock value.
  for i, key in ipairs(KEYS) do
    if redis.call("get", key) ~= ARGV[1] then
      return 0
    end
  end

  -- Update the entry for each provided key.
  for i, key in ipairs(KEYS) do
    redis.call("set", key, ARGV[1], "PX", ARGV[2])
  end

  -- Return the number of entries updated.
  return #KEYS
""", SEVERAL, ["token", "ms"]),
    ("redlock (Node.js) 5", "release", """
  local count = 0
  for i, key in ipairs(KEYS) do
    -- Only remove entries for *this* lock value.
    if redis.call("get", key) == ARGV[1] then
      redis.pcall("del", key)
      count = count + 1
    end
  end

  -- Return the number of entries removed.
  return count
""", SEVERAL, ["token"]),
    ("ioredis-lock", "delifequal", """
local key = KEYS[1]
local val = ARGV[1]

if redis.call('get', key) == val then
  return redis.call('del', key)
end

return 0
""", 1, ["token"]),
    ("ioredis-lock", "pexpireifequal", """
local key = KEYS[1]
local val = ARGV[1]
local ttl = ARGV[2]

if redis.call('get', key) == val then
  return redis.call('pexpire', key, ttl)
end
return 0
""", 1, ["token", "ms"]),
    ("redis-semaphore (mutex)", "release", """
  local key = KEYS[1]
  local identifier = ARGV[1]

  if redis.call('get', key) == identifier then
    return redis.call('del', key)
  end

  return 0
""", 1, ["token"]),
    ("redis-semaphore (mutex)", "refresh", """
  local key = KEYS[1]
  local identifier = ARGV[1]
  local lockTimeout = ARGV[2]

  local value = redis.call('get', key)

  if value == identifier then
    redis.call('pexpire', key, lockTimeout)
    return 1
  end

  return 0
""", 1, ["token", "ms"]),
    ("node-redis-warlock", "parityDel", """
local key     = KEYS[1];
local content = ARGV[1];

local value = redis.call('get', key);

if value == content then
  return redis.call('del', key);
else
  return 0
end""", 1, ["token"]),
    ("node-redis-warlock", "parityRelock", """
local key     = KEYS[1]
local ttl     = ARGV[1]
local content = ARGV[2]
local value = redis.call('get', key)
if value == content then
  return redis.call('pexpire', key, ttl)
else
  return false
end""", 1, ["ms", "token"]),
    ("simple-redis-mutex", "release", """
      if redis.call("GET", KEYS[1]) == ARGV[1]
      then
        return redis.call("DEL", KEYS[1])
      else
        return 0
      end
    """, 1, ["token"]),
    # Go.
    ("go-redsync 4", "release", """
    local val = redis.call("GET", KEYS[1])
    if val == ARGV[1] then
        return redis.call("DEL", KEYS[1])
    elseif val == false then
        return -1
    else
        return 0
    end
""", 1, ["token"]),
    ("go-redsync 4", "touch, set NX", """
    if redis.call("GET", KEYS[1]) == ARGV[1] then
        return redis.call("PEXPIRE", KEYS[1], ARGV[2])
    elseif redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2], "NX") then
        return 1
    else
        return 0
    end
""", 1, ["token", "ms"]),
    ("go-redsync 1 to 4", "touch", GET_PEXPIRE, 1, ["token", "ms"]),
    ("bsm/redislock to 0.7", "pttl", """
if redis.call("get", KEYS[1]) == ARGV[1] then
  return redis.call("pttl", KEYS[1]) else return -3 end
""", 1, ["token"]),
    ("bsm/redislock to 0.7", "release", GET_DEL, 1, ["token"]),
    ("bsm/redislock 0.8 to 0.9.3", "obtain", """
if redis.call("set", KEYS[1], ARGV[1], "NX", "PX", ARGV[3]) then
  return redis.status_reply("OK") end

local offset = tonumber(ARGV[2])
if redis.call("getrange", KEYS[1], 0, offset-1) ==
  string.sub(ARGV[1], 1, offset) then
  return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[3]) end
""", 1, ["token", "3", "ms"]),
    ("bsm/redislock from 0.9.4", "obtain", """
-- obtain.lua: arguments => [value, tokenLen, ttl]
local function pexpire(ttl)
    -- Update keys ttls.
    for _, key in ipairs(KEYS) do
        redis.call("pexpire", key, ttl)
    end
end

-- canOverrideLock check either or not the provided token match
-- previously set lock's tokens.
local function canOverrideKeys()
    local offset = tonumber(ARGV[2])

    for _, key in ipairs(KEYS) do
        if redis.call("getrange", key, 0, offset-1)
            ~= string.sub(ARGV[1], 1, offset) then
            return false
        end
    end
    return true
end

-- Prepare mset arguments.
local setArgs = {}
for _, key in ipairs(KEYS) do
    table.insert(setArgs, key)
    table.insert(setArgs, ARGV[1])
end

if redis.call("msetnx", unpack(setArgs)) ~= 1 then
    if canOverrideKeys() == false then
        return false
    end
    redis.call("mset", unpack(setArgs))
end

pexpire(ARGV[3])
return redis.status_reply("OK")
""", SEVERAL, ["token", "3", "ms"]),
    ("bsm/redislock from 0.9.4", "release", REDISLOCK_CHECK + """
-- Delete keys.
redis.call("del", unpack(KEYS))

return redis.status_reply("OK")
""", SEVERAL, ["token"]),
    ("bsm/redislock from 0.9.4", "refresh", REDISLOCK_CHECK + """
-- Update keys ttls.
for _, key in ipairs(KEYS) do
    redis.call("pexpire", key, ARGV[2])
end

return redis.status_reply("OK")
""", SEVERAL, ["token", "ms"]),
    ("bsm/redislock from 0.9.4", "pttl", REDISLOCK_CHECK + """
-- Find minimum TTL among keys.
local minTTL = 0
for _, key in ipairs(KEYS) do
    local ttl = redis.call("pttl", key)
    -- Note: ttl < 0 probably means the key no longer exists.
    if ttl > 0 and (minTTL == 0 or ttl < minTTL) then
        minTTL = ttl
    end
end
return minTTL
""", SEVERAL, ["token"]),
    ("go-zero", "lock", """
if redis.call("GET", KEYS[1]) == ARGV[1] then
    redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
    return "OK"
else
    return redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2])
end""", 1, ["token", "ms"]),
    # Java.
    ("Spring Integration's RedisLockRegistry", "obtain", """
local lockClientId = redis.call('GET', KEYS[1])
if lockClientId == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return true
elseif not lockClientId then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return true
end
return false
""", 1, ["token", "ms"]),
    ("Spring Integration's RedisLockRegistry", "unlock", """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('UNLINK', KEYS[1])
  return true
end
return false
""", 1, ["token"]),
    ("Spring Integration's RedisLockRegistry", "unlock and publish", """
local lockClientId = redis.call('GET', KEYS[1])
if (lockClientId == ARGV[1] and redis.call('UNLINK', KEYS[1]) == 1) then
  redis.call('PUBLISH', ARGV[2], KEYS[1])
  return true
end
return false
""", 1, ["token", "a-channel"]),
    ("Spring Integration's RedisLockRegistry", "renew", """
if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return true
end
return false
""", 1, ["token", "ms"]),
    ("ShedLock", "unlock", """
if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
else
    return 0
end
""", 1, ["token"]),
    ("ShedLock", "extend", """
if redis.call('get',KEYS[1]) == ARGV[1] then
   return redis.call('pexpire',KEYS[1],ARGV[2])
else
   return 0
end
""", 1, ["token", "ms"]),
    ("Jedis examples", "lock by SETNX", """
if redis.call('setnx',KEYS[1],ARGV[1]) == 1 then
return redis.call('expire',KEYS[1],ARGV[2]) else return 0 end
""", 1, ["token", "s"]),
    ("Jedis examples", "lock by setNx and get", """
if redis.call('setNx',KEYS[1],ARGV[1]) == 1 then
if redis.call('get',KEYS[1])==ARGV[1] then
return redis.call('expire',KEYS[1],ARGV[2]) else return 0 end end
""", 1, ["token", "s"]),
    # .NET.
    ("RedLock.net", "unlock", """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
else
    return 0
end
""", 1, ["token"]),
    ("RedLock.net", "extend", """
local currentVal = redis.call('get', KEYS[1])
if (currentVal == false) then
    return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) and 1 or 0
elseif (currentVal == ARGV[1]) then
    return redis.call('pexpire', KEYS[1], ARGV[2])
else
    return -1
end
""", 1, ["token", "ms"]),
    ("DistributedLock.Redis", "release", """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('del', KEYS[1])
end
return 0""", 1, ["token"]),
    ("DistributedLock.Redis", "extend", """
if redis.call('get', KEYS[1]) == ARGV[1] then
    return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0""", 1, ["token", "ms"]),
    # PHP.
    ("Laravel", "release", GET_DEL, 1, ["token"]),
    ("symfony/lock to 5.1", "save", """
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
elseif redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) then
    return 1
else
    return 0
end
""", 1, ["token", "ms"]),
    ("symfony/lock to 5.1", "put off expiration", """
if redis.call("GET", KEYS[1]) == ARGV[1] then
    return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
    return 0
end
""", 1, ["token", "ms"]),
    ("redlock-php", "unlock", """
            if redis.call("GET", KEYS[1]) == ARGV[1] then
                return redis.call("DEL", KEYS[1])
            else
                return 0
            end
        """, 1, ["token"]),
    ("cheprasov/php-redis-lock", "update", """
            if redis.call('get', KEYS[1]) == ARGV[1] then
                if redis.call('pexpire', KEYS[1], ARGV[2]) == 1 then
                    return true
                end
            end
            return false
        """, 1, ["token", "ms"]),
    # Ruby.
    ("redlock-rb", "lock", """
      if (redis.call("exists", KEYS[1]) == 0 and ARGV[3] == "yes")
          or redis.call("get", KEYS[1]) == ARGV[1] then
        return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2])
      end
    """, 1, ["token", "ms", "yes|no"]),
    ("redlock-rb", "unlock", """
      if redis.call("get",KEYS[1]) == ARGV[1] then
        return redis.call("del",KEYS[1])
      else
        return 0
      end
    """, 1, ["token"]),
    ("redlock-rb", "pttl", """
      return { redis.call("get", KEYS[1]), redis.call("pttl", KEYS[1]) }
    """, 1, []),
    # Rust, Elixir.
    ("rslock", "unlock", """
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end
""", 1, ["token"]),
    ("rslock", "extend", """
if redis.call("get", KEYS[1]) ~= ARGV[1] then
  return 0
else
  if redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) ~= nil then
    return 1
  else
    return 0
  end
end
""", 1, ["token", "ms"]),
    ("redlock (Elixir)", "unlock", """
  if redis.call("get",KEYS[1]) == ARGV[1] then
    return redis.call("del",KEYS[1])
  else
    return 0
  end
""", 1, ["token"]),
    # Nobody's: the notation that others may use.
    ("(notation)", "all of it", """
--[[ a comment
     of two lines ]] --[==[ and ]] another ]==]
local key, mine = KEYS[1], ARGV[1]; local n = 0
local answers = {[1 == 1 and "ok" or 'x'] = nil} and {'a', "b"; [[c]]}
repeat n = n + 1 until n >= 3
while true do n = n - 1 if n == 0 then break end end
for i = 3, 1, -1 do n = n + i * 2 % 3 end
for i, v in pairs(answers) do n = n + #v end
local function owner(of) return redis.call("get", of) or nil end
if not (owner(key) == mine) and mine ~= nil then
  return {n, tostring(n) .. '/' .. #answers, type(owner(key)), -n / 2,
          tonumber("0x10"), tonumber("x") == nil, math.max(1, 2, n),
          math.floor(-2.5), math.ceil(2.1), string.upper('a') .. string.lower("B"),
          string.sub('hello', -3), string.sub("hello", 2, 3), string.len('\\65\\n')}
end
do local key = nil end
return redis.pcall('pexpire', key, ARGV[2] + 0)
""".replace("""{[1 == 1 and "ok" or 'x'] = nil} and """, ""), 1, ["token", "ms"]),
]

# The scripts that hasp refuses by design, and the words that say why.
REFUSED = [
    ("a value of msgpack", """
local held = redis.call('get', KEYS[1])
if held and cmsgpack.unpack(held).owner == ARGV[1] then
    return redis.call('del', KEYS[1])
end
""", "line 3: 'cmsgpack.unpack'"),
    ("a job of a stream", """
local key = KEYS[1]
return redis.call('xadd', key, '*', 'job', ARGV[1])
""", "line 3: redis.call('xadd')"),
    ("keys by a pattern", """
for _, key in ipairs(redis.call('keys', ARGV[1])) do redis.call('del', key) end
""", "line 2: redis.call('keys')"),
    ("a method that strings have not here", """
return redis.call('get', KEYS[1]):reverse()
""", "line 2: the method 'reverse'"),
    ("a lock whose end is drawn by lot", """
local extra = math.random(1, 1000)
return redis.call('pexpire', KEYS[1], ARGV[2] + extra)
""", "line 2: 'math.random'"),
]
