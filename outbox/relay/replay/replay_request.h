/* SPDX-License-Identifier: MIT */
/* What the command line of `tallybox relay replay` asks for. Pure; any thread. */
#ifndef OUTBOX_RELAY_REPLAY_REPLAY_REQUEST_H
#define OUTBOX_RELAY_REPLAY_REPLAY_REQUEST_H

#include "common/err.h"
#include "outbox/relay/replay/replay_ops.h"
#include "outbox/relay/replay/replay_table.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_RATE 1000 /* rows a second, without --rate */
#define REPLAY_RATE_MAX 1000000

/* The words of the command line; NULL: not given. */
struct replay_words {
    const char *from;
    const char *to;
    const char *key;
    const char *type;
    const char *topic;
    const char *after;
    int64_t rate;
    bool from_log;
    bool dry_run;
    bool json;
};

struct replay_request {
    const struct replay_words *words;
    const char *lane;
    struct replay_place after; /* zeroed: none */
    struct replay_log_place log_after;
    bool from_log;   /* by --from-log, or by a place in the log */
    bool from_table; /* by a place in the table */
    int64_t from_ms; /* of replay_request_times() */
    int64_t to_ms;
};

/* Reads the words and the arguments; borrows them as long as the request. RC_REJECT: err names what
 * is wrong and what was expected. */
enum rc replay_request_read(struct replay_request *request, const struct replay_words *words,
                            char *const *arguments, size_t count, struct err *err);

/* Sets the times; now_ms is the clock of the database. RC_REJECT: the range is empty. */
enum rc replay_request_times(struct replay_request *request, int64_t now_ms, struct err *err);

#endif
