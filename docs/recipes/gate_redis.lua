-- SPDX-License-Identifier: MIT
-- A gate for data in Redis: SET with a token of hasp. An old token is an error,
-- and nothing is written.
--
--     EVAL "$(cat gate_redis.lua)" 2 orders:7 orders:7:token 62379919409158 VALUE
--
-- KEYS: the data, and the highest token that has written it. In a cluster give
-- both one hash tag: {orders:7}, {orders:7}:token.
local seen = redis.call('get', KEYS[2])
-- Tokens are below 2^53, so a number of Lua has all their digits.
local token = tonumber(ARGV[1])
if not token then
    return redis.error_reply('STALE no token')
end
if seen and token < tonumber(seen) then
    return redis.error_reply('STALE token ' .. ARGV[1] .. ' is below ' .. seen)
end
redis.call('set', KEYS[2], ARGV[1])
return redis.call('set', KEYS[1], ARGV[2])
