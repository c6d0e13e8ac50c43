-- SPDX-License-Identifier: MIT
-- pace(RATE), called in init(): how many requests a second this thread of wrk sends.
--
-- Requests become due one after the other in equal steps, whatever connection is free then. What is
-- late by more than a second is given up, so that a stall is not followed by a flood.
function pace(rate)
  local ffi = require("ffi")
  ffi.cdef("typedef struct { long s; long ns; } bench_time; int clock_gettime(int, bench_time *);")
  local time = ffi.new("bench_time")
  local due
  function delay()
    ffi.C.clock_gettime(1, time)
    local now = tonumber(time.s) * 1000 + tonumber(time.ns) / 1e6
    due = due and math.max(due + 1000 / rate, now - 1000) or now
    return math.max(0, math.floor(due - now + 0.5))
  end
end
