-- SPDX-License-Identifier: MIT
-- What wrk sends to POST /v1/votes: arguments are votes per request, contents, a number that is
-- another one each time: from it comes who votes, and a vote that is repeated changes nothing; and,
-- if it is wanted, how many requests a second each thread sends at most.
dofile(debug.getinfo(1, "S").source:match("@(.*/)") .. "pace.lua")

local votes, contents, thread_count = 1, 20000, 0
local voter = 0

function setup(thread)
  thread_count = thread_count + 1
  thread:set("number", thread_count)
end

function init(arguments)
  votes = tonumber(arguments[1]) or votes
  contents = tonumber(arguments[2]) or contents
  voter = (tonumber(arguments[3]) * 64 + number) * 1000000
  math.randomseed(voter)
  wrk.method = "POST"
  wrk.path = "/v1/votes"
  wrk.headers["Content-Type"] = "application/json"
  if tonumber(arguments[4] or 0) > 0 then
    pace(tonumber(arguments[4]))
  end
end

local function vote()
  voter = voter + 1
  return string.format('{"voterId":%d,"contentId":%d,"voting":1}', voter, math.random(1, contents))
end

function request()
  if votes == 1 then
    return wrk.format(nil, nil, nil, vote())
  end
  local list = {}
  for i = 1, votes do
    list[i] = vote()
  end
  return wrk.format(nil, nil, nil, "[" .. table.concat(list, ",") .. "]")
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
