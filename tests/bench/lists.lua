-- SPDX-License-Identifier: MIT
-- What wrk asks GET /v1/remarks for: the lines of a file, one path each, over and over. Arguments are
-- the file, a number that is another one each time: where in the file a thread begins, and how many
-- requests a second each thread sends at most, 0: as many as there can be.
dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "pace.lua")

local requests, at, thread_count = {}, 0, 0

function setup(thread)
  thread_count = thread_count + 1
  thread:set("number", thread_count)
end

function init(arguments)
  for path in io.lines(arguments[1]) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
  -- Apart by a part of the file that no small number of runs and threads brings together again.
  at = math.floor((tonumber(arguments[2]) * 64 + number) * 0.6180339887 * #requests) % #requests
  if tonumber(arguments[3]) > 0 then
    pace(tonumber(arguments[3]))
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end

-- One line for the bench: microseconds.
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'bench {"requests":%d,"seconds":%.3f,"errors":%d,"p50_us":%d,"p99_us":%d,"p999_us":%d}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout,
    latency:percentile(50), latency:percentile(99), latency:percentile(99.9)))
end
