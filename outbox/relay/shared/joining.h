/* SPDX-License-Identifier: MIT */
/* How a lane that reads a stream of its own joins the shared stream: when it asks, how long it
 * waits for a shared stream that is behind it, how long it reads on to the place from which it is
 * fed, and when it asks again after that has failed. A lane that is fed from behind the end of the
 * log finds in this way that the shared stream reads a log which is gone, and ends that. No I/O and
 * no clock. The lane's thread. */
#ifndef OUTBOX_RELAY_SHARED_JOINING_H
#define OUTBOX_RELAY_SHARED_JOINING_H

#include "outbox/relay/binlog/change_stream.h"
#include "outbox/relay/shared/shared_stream.h"

#include <stdbool.h>
#include <stdint.h>

/* All times are those of os_now_ms(). */
struct joining {
    struct shared_member *member;
    bool asks;             /* it has asked, and was not refused */
    int64_t ask_ms;        /* it does not ask before this time */
    int64_t wait_since_ms; /* it waits for the shared stream since then; 0: it does not */
    int64_t read_on_ms;    /* it reads on to where it is fed since then; 0: it does not */
    uint64_t beat_at;      /* transactions that the own stream had read at its last heartbeat */
    unsigned beats;        /* heartbeats since the last transaction, and since it is fed */
};

enum joining_answer {
    JOINING_READ_ON, /* the lane reads on with its own stream */
    JOINING_REFUSED, /* the same, and the shared stream may have to be opened */
    JOINING_WAIT,    /* ask again soon, before the lane reads on */
    JOINING_JOINED,  /* it takes from its queue now; changes are moved to where that goes on */
};

/* Borrows the member, which the lane leaves through joining_leave() from now on. */
void joining_init(struct joining *joining, struct shared_member *member);

/* Whether to call joining_ask() before the own stream reads its next event. */
bool joining_is_due(const struct joining *joining, const struct change_stream *changes,
                    int64_t now_ms);

/* The own stream has had a heartbeat: the server has nothing more for it at present. */
void joining_note_heartbeat(struct joining *joining, const struct change_stream *changes);

/* Asks, after joining_is_due(). changes: of the own stream. server: as shared_member_join(). */
enum joining_answer joining_ask(struct joining *joining, struct change_stream *changes,
                                uint64_t server, int64_t now_ms);

/* The own stream begins at another place. */
void joining_begin(struct joining *joining);

/* Leaves the shared stream, whether it has joined or not. */
void joining_leave(struct joining *joining);

/* The lane could not follow the shared stream, and does not ask again at once. */
void joining_hold_off(struct joining *joining, int64_t now_ms);

#endif
