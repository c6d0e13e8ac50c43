/* SPDX-License-Identifier: MIT */
#include "outbox/relay/shared/joining.h"

#include <string.h>

/* How often a lane asks to join the shared stream. */
#define ASK_MS 100
/* After it could not follow the shared stream, or that one did not come. */
#define ASK_AGAIN_MS 5000
/* A lane that is ahead of the shared stream waits so long for it. */
#define WAIT_MS 1000
/* A lane that is fed has to reach the place from which it is within this time. */
#define READ_ON_MS 10000
/* A lane that has had so many heartbeats in a row has read the log to its end. */
#define BEATS_AT_END 2

void joining_init(struct joining *joining, struct shared_member *member)
{
    memset(joining, 0, sizeof(*joining));
    joining->member = member;
}

static void forget(struct joining *joining)
{
    joining->asks = false;
    joining->wait_since_ms = joining->read_on_ms = 0;
}

void joining_leave(struct joining *joining)
{
    forget(joining);
    shared_member_leave(joining->member);
}

void joining_begin(struct joining *joining)
{
    joining_leave(joining);
    joining->beats = 0;
}

static void stop_asking(struct joining *joining, int64_t until_ms)
{
    joining_leave(joining);
    joining->ask_ms = until_ms;
}

void joining_hold_off(struct joining *joining, int64_t now_ms)
{
    joining->ask_ms = now_ms + ASK_AGAIN_MS;
}

/* Where reading began is no place of a transaction. */
bool joining_is_due(const struct joining *joining, const struct change_stream *changes,
                    int64_t now_ms)
{
    return changes->state == CHANGE_OUTSIDE && changes->has_last && changes->skip == 0 &&
           (joining->asks || now_ms >= joining->ask_ms);
}

void joining_note_heartbeat(struct joining *joining, const struct change_stream *changes)
{
    if (joining->beat_at != changes->counts.transactions)
        joining->beats = 0;
    joining->beat_at = changes->counts.transactions;
    joining->beats++;
}

static bool is_at_end(const struct joining *joining, const struct change_stream *changes)
{
    return joining->beats >= BEATS_AT_END && joining->beat_at == changes->counts.transactions;
}

/* The lane has not reached the place from which it is fed. If there is none in the log, the shared
 * stream reads one that the server has deleted. */
static void end_reading_on(struct joining *joining, const struct change_stream *changes,
                           int64_t now_ms)
{
    if (is_at_end(joining, changes))
        shared_member_report_gone(joining->member);
    stop_asking(joining, now_ms + ASK_AGAIN_MS);
}

enum joining_answer joining_ask(struct joining *joining, struct change_stream *changes,
                                uint64_t server, int64_t now_ms)
{
    struct shared_place own = {0};

    shared_place_set(&own, changes);
    switch (shared_member_join(joining->member, server, &own)) {
    case SHARED_REFUSED:
        /* One that was fed could not follow. One that has waited only is too far away by now. */
        stop_asking(joining, now_ms + (joining->read_on_ms > 0 ? ASK_AGAIN_MS : ASK_MS));
        return JOINING_REFUSED;
    case SHARED_READ_ON:
        joining->asks = true;
        joining->wait_since_ms = 0;
        if (joining->read_on_ms == 0) {
            joining->read_on_ms = now_ms;
            joining->beats = 0;
        }
        if (now_ms - joining->read_on_ms >= READ_ON_MS)
            end_reading_on(joining, changes, now_ms);
        return JOINING_READ_ON;
    case SHARED_JOINED:
        change_stream_move(changes, own.file, own.offset);
        forget(joining);
        return JOINING_JOINED;
    case SHARED_WAIT:
        break;
    }
    if (joining->wait_since_ms == 0)
        joining->wait_since_ms = now_ms;
    joining->asks = true;
    if (now_ms - joining->wait_since_ms < WAIT_MS)
        return JOINING_WAIT;
    stop_asking(joining, now_ms + ASK_AGAIN_MS);
    return JOINING_READ_ON;
}
