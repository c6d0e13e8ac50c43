/* SPDX-License-Identifier: MIT */
/* A fake of the sink's database for the consumer's engines: the statements of sink_mysql.c on
 * consumer_progress, vote_tally, vote_last, vote_document and dead_record. The user finds the rows;
 * those of one partition of one topic are meant by its number. fake_dead.h has the statements of
 * the dead records' own store. */
#ifndef TESTS_FAKES_FAKE_SINK_H
#define TESTS_FAKES_FAKE_SINK_H

#include "consumer/apply/sink_ops.h"
#include "tests/fakes/fake_session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of consumer_progress. */
struct fake_progress_version {
    struct progress_row row;
    const void *claimer; /* for the user: what has written the owner, */
    int claimer_life;    /* in this life */
};

struct fake_progress {
    struct fake_row row; /* first */
    struct fake_progress_version now;
    struct fake_progress_version old;
};

/* A row of vote_tally. */
struct fake_tally_version {
    bool found;
    int64_t votes;
    int64_t seq;
    int64_t changed_ms;
    bool ended;
    int64_t ended_ms;
};

struct fake_tally {
    struct fake_row row; /* first */
    struct fake_tally_version now;
    struct fake_tally_version old;
};

/* A row of vote_last. */
struct fake_last {
    struct fake_row row; /* first */
    struct last_row now;
    struct last_row old;
};

/* A row of vote_document. */
struct fake_vote {
    struct fake_row row; /* first */
    bool now_found;
    bool old_found;
    int64_t id;
    int64_t day; /* create_date */
    struct vote_row vote;
};

/* A row of dead_record; its texts are the user's. */
enum fake_dead_class { FAKE_DEAD_NEVER, FAKE_DEAD_TOO_OLD, FAKE_DEAD_REFUSED, FAKE_DEAD_BEHIND };

struct fake_dead_version {
    bool found; /* not decided */
    enum fake_dead_class class;
};

struct fake_dead_row {
    struct fake_row row; /* first */
    struct fake_dead_version now;
    struct fake_dead_version old;
    int64_t id;
    int32_t partition;
    int64_t offset;
};

struct fake_sink_tables {
    struct fake_progress *progress; /* by partition */
    int32_t partition_count;
    struct fake_tally *tallies; /* by content id */
    int64_t vote_id_next;

    void *ctx;
    /* The place of a row, which it has or will have: never NULL. */
    struct fake_vote *(*vote_of)(void *ctx, const struct id *event_id);
    struct fake_last *(*last_of)(void *ctx, int64_t content_id, int64_t voter_id);
    struct fake_dead_row *(*dead_of)(void *ctx, int32_t partition, int64_t offset);
    /* The dead record behind an offset, or a place of one, in the order of the offsets; NULL: there
     * is none. */
    struct fake_dead_row *(*next_dead)(void *ctx, int32_t partition, int64_t after_offset);
    /* The content of its key. */
    int64_t (*dead_content)(void *ctx, const struct fake_dead_row *dead);

    /* Each of these may be NULL. A transaction that has written the row ends: `old` is still what
     * it was before. */
    void (*on_progress)(void *ctx, const struct fake_progress *progress);
    void (*on_tally)(void *ctx, const struct fake_tally *tally);
    void (*on_vote)(void *ctx, const struct fake_vote *vote);
    void (*on_dead)(void *ctx, struct fake_dead_row *dead, bool commit);
};

/* The op that runs, for the hooks of a session. */
enum fake_sink_op { FAKE_SINK_OTHER, FAKE_SINK_FIND_EVENTS, FAKE_SINK_COMMIT };

/* One connection. The user fills all fields but op. */
struct fake_sink {
    struct fake_session session;
    struct fake_sink_tables *tables;
    enum fake_sink_op op;
    bool progress_unlocked; /* the fault: the progress is read without a lock */
    bool duplicates_taken;  /* the fault: the log takes an event as often as it comes */
    void *ctx;
    /* log_begin stays until the end of the transaction. */
    enum rc (*lock_begin)(void *ctx, int64_t *begin_day, struct err *err);

    /* Each of these may be NULL. */

    /* No partition of vote_document changes until the end of the transaction. */
    enum rc (*use_log)(void *ctx, struct err *err);
    /* True: the database refuses the row. */
    bool (*refuses_vote)(void *ctx, const struct vote_row *vote);
    bool (*refuses_tally)(void *ctx, const struct tally_row *tally);
    /* The transaction writes the owner, or the position. */
    void (*on_own)(void *ctx, struct fake_progress *progress);
    void (*on_move)(void *ctx, struct fake_progress *progress, const struct progress_row *row);
    /* The transaction has made the row: the texts of its record. */
    void (*on_dead)(void *ctx, struct fake_dead_row *row, const struct dead_row *dead);
};

enum fake_dead_class fake_dead_class_of(const char *reason_class);
/* Its cause may pass; see held.h. */
bool fake_dead_is_held(const struct fake_dead_version *dead);

/* A transaction of the session changes a dead record that it has locked. */
void fake_dead_write(struct fake_sink_tables *tables, const struct fake_session *session,
                     struct fake_dead_row *dead);

/* The ops of the connection, which must not move; their ctx is the struct fake_sink. */
struct sink fake_sink_ops(struct fake_sink *fake);

#endif
