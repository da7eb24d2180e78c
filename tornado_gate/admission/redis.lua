-- Counters as in counters.py, in hashes. KEYS: one for each bound.
-- ARGV: what, lease, milliseconds of a lease, seconds after which the ledger is read again, day and month of a change, then
-- (only for "change") the clock of what is changed; then for each bound: kind (w, o, p), field of a period, amount, limit.
-- Returns {admitted, clock, wall clock, {{index, used, wait, reset}...}, {indexes that need the ledger}}, and for an admitted
-- reservation whether the lease was still there.
local what, lease, lease_ms, unread_seconds = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local moved_day, moved_month = tonumber(ARGV[5]), tonumber(ARGV[6])
local first = 7
local then_ms = 0
if what == "change" then
  then_ms = tonumber(ARGV[7])
  first = 8
end
local time = redis.call("TIME")
local seconds = tonumber(time[1])
local now = seconds * 1000 + math.floor(tonumber(time[2]) / 1000)
local BUCKET, WINDOW = 500, 60000
local prefix = "{tornado-gate}:limits:lease:"

local function begin_of_month(day)  -- days since 1970; Howard Hinnant's civil calendar
  local z = day + 719468
  local era = math.floor(z / 146097)
  local doe = z - era * 146097
  local yoe = math.floor((doe - math.floor(doe / 1460) + math.floor(doe / 36524) - math.floor(doe / 146096)) / 365)
  local doy = doe - (365 * yoe + math.floor(yoe / 4) - math.floor(yoe / 100))
  local mp = math.floor((5 * doy + 2) / 153)
  return day - (doy - math.floor((153 * mp + 2) / 5))
end

local day = math.floor(seconds / 86400) * 86400
local month = begin_of_month(math.floor(seconds / 86400)) * 86400

-- A window is a hash of buckets: "sum:last", with a total "t" and the oldest bucket "o".
local function read_window(key)
  local all = redis.call("HGETALL", key)
  local buckets, total = {}, 0
  local expired = {}
  for i = 1, #all, 2 do
    local bucket = tonumber(all[i])
    local sum, last = string.match(all[i + 1], "^(%-?%d+):(%d+)$")
    sum, last = tonumber(sum), tonumber(last)
    if now - last > WINDOW or last - now > WINDOW then  -- or counted by a clock that was wrong
      expired[#expired + 1] = all[i]
    else
      buckets[#buckets + 1] = {bucket, sum, last}
      total = total + sum
    end
  end
  if #expired > 0 then
    redis.call("HDEL", key, unpack(expired))
  end
  return buckets, total
end

local function describe_window(buckets, excess)
  table.sort(buckets, function(a, b) return a[1] < b[1] end)
  local wait, reset = WINDOW, 0
  local found = false
  for _, bucket in ipairs(buckets) do
    reset = math.min(WINDOW, bucket[3] + WINDOW + 1 - now)
    excess = excess - bucket[2]
    if excess <= 0 and not found then
      wait = reset
      found = true
    end
  end
  return wait, reset
end

local function add_window(key, moment, amount)
  local bucket = math.floor(moment / BUCKET)
  local value = redis.call("HGET", key, bucket)
  local sum, last = 0, moment
  if value then
    local s, l = string.match(value, "^(%-?%d+):(%d+)$")
    sum, last = tonumber(s), math.max(tonumber(l), amount > 0 and moment or 0)
  elseif amount < 0 then
    return
  end
  sum = math.max(0, sum + amount)
  if sum == 0 then
    redis.call("HDEL", key, bucket)
  else
    redis.call("HSET", key, bucket, string.format("%.0f:%.0f", sum, last))
    redis.call("PEXPIRE", key, WINDOW + 2 * BUCKET)
  end
end

local function count_open(key, checked)
  local all = redis.call("HGETALL", key)
  local total = 0
  for i = 1, #all, 2 do
    if checked and all[i] ~= lease and redis.call("EXISTS", prefix .. all[i]) == 0 then
      redis.call("HDEL", key, all[i])
    else
      total = total + tonumber(all[i + 1])
    end
  end
  return total
end

local function add_open(key, amount)
  if redis.call("HINCRBY", key, lease, amount) <= 0 then
    redis.call("HDEL", key, lease)
  else
    redis.call("EXPIRE", key, 86400)
  end
end

local function begin_period(key)
  local kept = redis.call("HMGET", key, "day", "month", "read")
  if (tonumber(kept[1]) or 0) > day + 86400 then  -- counted by a clock that was wrong, see counters.py
    kept = {}
  end
  if (tonumber(kept[2]) or 0) < month then
    redis.call("HSET", key, "month", string.format("%.0f", month), "um", 0, "tm", 0)
  end
  if (tonumber(kept[1]) or 0) < day then
    redis.call("HSET", key, "day", string.format("%.0f", day), "ud", 0, "td", 0)
  end
  redis.call("EXPIRE", key, 40 * 86400)
  return tonumber(kept[3]) or 0
end

-- First of all, because a server without memory refuses only the first write of a script, and only one that needs memory:
-- a reservation would succeed that can never be returned.
local had_lease = 0
if what == "reserve" then
  had_lease = redis.call("EXISTS", prefix .. lease)
  redis.call("SET", prefix .. lease, "1", "PX", lease_ms)
end

local refused, levels, unread = {}, {}, {}
for i, key in ipairs(KEYS) do
  local at = first + (i - 1) * 4
  local kind, field, limit = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 3])
  if what == "raise" then
    begin_period(key)
    local kept = redis.call("HMGET", key, "day", "month", "ud", "um", "td", "tm")
    if tonumber(kept[1]) == moved_day and tonumber(kept[2]) == moved_month then
      local names = {"ud", "um", "td", "tm"}
      local j = 0
      for sum in string.gmatch(ARGV[at + 2], "%d+") do
        j = j + 1
        if tonumber(sum) > (tonumber(kept[j + 2]) or 0) then
          redis.call("HSET", key, names[j], sum)
        end
      end
    end
    redis.call("HSET", key, "read", seconds)
  elseif what == "change" then
    local amount = tonumber(ARGV[at + 2])
    if amount ~= 0 then
      if kind == "w" then
        add_window(key, amount > 0 and now or then_ms, amount)
      elseif kind == "o" then
        add_open(key, amount)
      else
        begin_period(key)
        local ends = string.sub(field, 2) == "d" and "day" or "month"
        local moved = ends == "day" and moved_day or moved_month
        if amount > 0 or tonumber(redis.call("HGET", key, ends)) == moved then
          if redis.call("HINCRBY", key, field, string.format("%.0f", amount)) < 0 then
            redis.call("HSET", key, field, 0)
          end
        end
      end
    end
  else
    local amount = tonumber(ARGV[at + 2])
    local used, wait, reset = 0, 0, 0
    if kind == "w" then
      local buckets, total = read_window(key)
      used = total
      wait, reset = describe_window(buckets, used + amount - limit)
    elseif kind == "o" then
      used = count_open(key, false)
      if used + amount > limit then
        used = count_open(key, true)
      end
    else
      local read = begin_period(key)
      used = tonumber(redis.call("HGET", key, field)) or 0
      if seconds - read > unread_seconds then
        unread[#unread + 1] = i
      end
    end
    local level = {i, string.format("%.0f", used), string.format("%.0f", wait), string.format("%.0f", reset)}
    levels[i] = level
    if used + amount > limit then
      refused[#refused + 1] = level
    end
  end
end

local wall = string.format("%.0f", now)
if what == "read" then
  return {1, wall, wall, levels, {}}
end
if what ~= "reserve" then
  return {1, wall, wall, {}, {}}
end
if #refused > 0 or #unread > 0 then
  return {0, wall, wall, refused, unread}
end
for i, key in ipairs(KEYS) do
  local at = first + (i - 1) * 4
  local amount = tonumber(ARGV[at + 2])
  if amount ~= 0 then
    if ARGV[at] == "w" then
      add_window(key, now, amount)
    elseif ARGV[at] == "o" then
      add_open(key, amount)
    else
      redis.call("HINCRBY", key, ARGV[at + 1], string.format("%.0f", amount))
    end
    levels[i][2] = string.format("%.0f", tonumber(levels[i][2]) + amount)
    if ARGV[at] == "w" then
      levels[i][4] = string.format("%.0f", WINDOW)
    end
  end
end
return {1, wall, wall, levels, {}, had_lease}
