-- Takes one request from each bucket, or from none when one of them is empty (GCRA, as governor has it).
-- KEYS: the buckets. ARGV, two for each: the microseconds after which one request is there again, and how many a full
-- bucket holds. A bucket is kept as the time, by the clock of this server, at which it is full again.
-- Answers two for each: how many are left, and the microseconds until there is one again (0: it was taken).
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local answer, full_at, refused = {}, {}, false
for i, bucket in ipairs(KEYS) do
    local cost, quota = tonumber(ARGV[2 * i - 1]), tonumber(ARGV[2 * i])
    local before = tonumber(redis.call('GET', bucket) or now)
    -- A clock that was put back must not keep a bucket empty for longer than it takes to fill.
    full_at[i] = math.min(math.max(before, now), now + quota * cost) + cost
    local wait = full_at[i] - now - quota * cost
    refused = refused or wait > 0
    answer[2 * i - 1] = math.max(0, math.floor((quota * cost - (full_at[i] - now)) / cost + 0.001))
    answer[2 * i] = math.max(0, math.ceil(wait))
end
if not refused then
    for i, bucket in ipairs(KEYS) do
        local left_ms = math.ceil((full_at[i] - now) / 1000) + 1
        redis.call('SET', bucket, string.format('%.1f', full_at[i]), 'PX', string.format('%d', left_ms))
    end
end
return answer
