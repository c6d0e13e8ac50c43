/* SPDX-License-Identifier: MIT */
#include "outbox/relay/replay/replay_request.h"

#include "common/utc.h"
#include "outbox/relay/replay/replay_log.h"
#include "outbox/relay/topics.h"

#include <inttypes.h>
#include <string.h>

static enum rc check_time(const char *option, const char *text, struct err *err)
{
    int64_t ms;

    if (!text)
        return err_fail(err, RC_REJECT, 0, "%s TIME is missing", option);
    if (when_read(text, INT64_MAX / 2, &ms))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "%s %.64s: expected a time, as 2h (ago), 7d or 2026-11-21T17:05:00Z", option,
                    text);
}

static enum rc read_after(struct replay_request *request, const char *after, struct err *err)
{
    request->from_table = replay_place_read(&request->after, after);
    if (request->from_table && request->from_log)
        return err_fail(err, RC_REJECT, 0,
                        "--after %.64s is a place of a replay from the table: leave out --from-log",
                        after);
    if (!request->from_table && !replay_log_place_read(&request->log_after, after))
        return err_fail(err, RC_REJECT, 0,
                        "--after %.64s: expected ENTRY/SEQ or FILE/OFFSET/ROWS@SERVER, as an "
                        "earlier replay printed it",
                        after);
    request->from_log = !request->from_table;
    return RC_OK;
}

enum rc replay_request_read(struct replay_request *request, const struct replay_words *words,
                            char *const *arguments, size_t count, struct err *err)
{
    enum rc rc;

    memset(request, 0, sizeof(*request));
    request->words = words;
    if (count != 1)
        return err_fail(err, RC_REJECT, 0, "expected the name of one lane, but got %zu arguments",
                        count);
    request->lane = arguments[0];
    request->from_log = words->from_log;
    rc = check_time("--from", words->from, err);
    if (rc == RC_OK)
        rc = check_time("--to", words->to, err);
    if (rc != RC_OK)
        return rc;
    if (words->rate < 0 || words->rate > REPLAY_RATE_MAX)
        return err_fail(err, RC_REJECT, 0,
                        "--rate %" PRId64 ": expected 0 (without a limit) to %d rows a second",
                        words->rate, REPLAY_RATE_MAX);
    if (words->topic && !topic_name_is(words->topic))
        return err_fail(err, RC_REJECT, 0, "--topic %.250s: Kafka accepts no such name of a topic",
                        words->topic);
    return words->after ? read_after(request, words->after, err) : RC_OK;
}

enum rc replay_request_times(struct replay_request *request, int64_t now_ms, struct err *err)
{
    const struct replay_words *words = request->words;

    when_read(words->from, now_ms, &request->from_ms);
    when_read(words->to, now_ms, &request->to_ms);
    if (request->from_ms < request->to_ms)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "--from %.64s is not before --to %.64s", words->from,
                    words->to);
}
