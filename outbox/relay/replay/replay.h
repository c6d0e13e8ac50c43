/* SPDX-License-Identifier: MIT */
/* Publishes rows of a lane again that it has published, beside the live lane: needs no lease, and
 * changes neither table nor position. The rows come from its table (replay_table.h) or from the
 * binary log (replay_log.h), in batches. A batch is read when all rows of the one before are
 * acknowledged or refused, so nothing is allocated per row.
 *
 * Invariant R15: the place of a replay, which its source keeps, is never behind a row that is
 * neither acknowledged nor refused nor left out (test_replay, test_replay_log). A replay that goes
 * on there publishes every selected row.
 *
 * A broker may refuse a whole request because of one record. So after a refusal the refused rows
 * are sent again, each alone, and only a row that is refused alone counts as refused. One thread.
 */
#ifndef OUTBOX_RELAY_REPLAY_REPLAY_H
#define OUTBOX_RELAY_REPLAY_REPLAY_H

#include "common/backoff.h"
#include "common/err.h"
#include "outbox/relay/relay_ops.h"
#include "outbox/relay/relay_row.h"
#include "outbox/relay/replay/replay_ops.h"
#include "outbox/relay/topics.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_ROWS_MAX 2000 /* of a batch, so also of what is in flight */

/* A replay ends when nothing has worked for so long. */
#define REPLAY_GIVE_UP_MS 60000

struct replay_options {
    const char *map;    /* as topics_init() has them */
    const char *prefix; /* of topics */
    const char *rule;   /* lane.NAME.topic and topic_regex, as topics_set_rule() has them */
    const char *regex;
    const char *topic; /* of all records; NULL: those of the lane */
    int64_t rate;      /* rows a second; 0: without a limit */
    int64_t row_bytes_max;
    int64_t batch_bytes_max;
    int64_t send_timeout_ms;
    bool dry_run;               /* publishes nothing */
    const uint64_t *tasks_keys; /* ordering_key_hash_of_row() of keys with tasks, ascending */
    size_t tasks_key_count;
    /* Tells of a row that is refused, or is left out because its key has tasks. */
    void (*on_refused)(void *ctx, const struct relay_row *row, const struct err *why);
    void *ctx;
};

struct replay_counts {
    int64_t read;
    int64_t published;
    int64_t refused;
    int64_t left; /* of keys that have tasks in the retry queue */
};

struct replay_edge {
    bool known;
    int64_t seq;          /* of the table; 0: it has none */
    int64_t created_ms;   /* since 1970, or ROW_CREATED_UNKNOWN */
    int64_t committed_ms; /* since 1970; from the log only */
};

enum replay_state {
    REPLAY_WAITS,   /* to be sent */
    REPLAY_SUSPECT, /* it was refused with others: to be sent alone */
    REPLAY_SENT,
    REPLAY_FAILED,
    REPLAY_REFUSED, /* with the records in flight; see above */
    REPLAY_DONE,
};

struct replay {
    struct replay_options options;
    struct replay_source source;
    struct broker broker;
    struct topics topics;
    struct topic *other; /* of options.topic */

    struct replay_counts counts;
    struct replay_edge first; /* rows that were read */
    struct replay_edge last;
    bool ended;    /* all is done, or it was stopped and nothing is in flight */
    bool stopping; /* replay_stop() was called */
    bool complete; /* all is done */

    struct relay_batch batch; /* rows before batch.next are done */
    enum replay_state *states;
    size_t in_flight;
    bool alone; /* the record in flight is a suspect */
    size_t failed;
    size_t refused;
    struct err why; /* of the first failure or refusal */
    bool draining;
    int64_t drain_until_ms;

    int64_t tokens; /* thousandths of rows that may be sent */
    int64_t tokens_ms;
    int64_t report_ms;  /* of the last report, or when the first record was sent after a pause */
    int64_t trouble_ms; /* since when nothing works; 0: all works */
    int64_t wait_until_ms;
    struct backoff backoff;
    uint64_t rng;
};

/* Bytes of a batch with these settings (relay.row_bytes_max, relay.read_bytes_max). Any row that a
 * source gives fits into an empty one. */
size_t replay_batch_bytes(int64_t row_bytes_max, int64_t batch_bytes_max);

/* Borrows the texts of options and its keys until replay_done(). RC_FATAL: no memory; the replay is
 * then done. */
enum rc replay_init(struct replay *replay, const struct replay_options *options,
                    const struct replay_source *source, const struct broker *broker, int64_t now_ms,
                    uint64_t seed, struct err *err);

/* Accepts a zeroed one. */
void replay_done(struct replay *replay);

/* Does a part of the work. *wait_ms: until the next call. RC_OK also for failures that are tried
 * again. RC_RETRY: nothing worked for REPLAY_GIVE_UP_MS. RC_FATAL: an operator has to act. The
 * replay has ended after both, and can be gone on with behind its place. */
enum rc replay_step(struct replay *replay, int64_t now_ms, int64_t *wait_ms, struct err *err);

/* Sends no further row: the replay ends when nothing is in flight. */
void replay_stop(struct replay *replay);

#endif
