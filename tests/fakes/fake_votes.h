/* SPDX-License-Identifier: MIT */
/* A fake of the vote engine's database: the statements of producer_mysql.c on vote_count,
 * vote_state and deleted_content. The user finds the rows and keeps the events of the
 * outbox. */
#ifndef TESTS_FAKES_FAKE_VOTES_H
#define TESTS_FAKES_FAKE_VOTES_H

#include "producer/producer_ops.h"
#include "tests/fakes/fake_session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of vote_count. */
struct fake_count_version {
    bool found;
    int64_t votes;
};

struct fake_count {
    struct fake_row row; /* first */
    struct fake_count_version now;
    struct fake_count_version old;
    int64_t content_id;
};

/* A row of vote_state. */
struct fake_state {
    struct fake_row row; /* first */
    struct vote_state_row now;
    struct vote_state_row old;
};

/* A row of deleted_content. */
struct fake_deletion_version {
    bool found;
    bool closed;
};

struct fake_deletion {
    struct fake_row row; /* first */
    struct fake_deletion_version now;
    struct fake_deletion_version old;
};

/* The op that runs, for the hooks of a session. */
enum fake_votes_op { FAKE_VOTES_OTHER, FAKE_VOTES_PING, FAKE_VOTES_BEGIN, FAKE_VOTES_COMMIT };

/* One connection. The user fills all fields but op. */
struct fake_votes {
    struct fake_session session;
    enum fake_votes_op op;
    void *ctx;
    /* The place of a row, which it has or will have: never NULL. */
    struct fake_count *(*count_of)(void *ctx, int64_t content_id);
    struct fake_state *(*state_of)(void *ctx, int64_t voter_id, int64_t content_id);
    /* The transaction writes events into an outbox table. */
    void (*append)(void *ctx, const char *lane, const struct outbox_event *events, size_t count);
    /* The place of a row of deleted_content, which it has or will have. NULL: no content is
     * deleted, and the ops that delete are not used. */
    struct fake_deletion *(*deletion_of)(void *ctx, int64_t content_id);
    /* Each of these two may be NULL. A content is about to be closed, in the open transaction; a
     * transaction that has written the row has committed: `old` is still what it was before. */
    void (*on_close)(void *ctx, int64_t content_id);
    void (*on_deletion)(void *ctx, const struct fake_deletion *deletion);
    /* Each a transaction of its own, behind fake_call(): deletes at most rows_max rows of
     * vote_state, and tells how many; deletes the row of vote_count. */
    enum rc (*delete_states)(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                             struct err *err);
    enum rc (*delete_count)(void *ctx, int64_t content_id, struct err *err);
    /* May be NULL. True: the database refuses the row. */
    bool (*refuses_state)(void *ctx, const struct vote_state_row *state);
};

/* In an open transaction: writes the row, which it has locked. */
void fake_votes_write_deletion(struct fake_votes *fake, struct fake_deletion *deletion);

/* The ops of the connection, which must not move; their ctx is the struct fake_votes. */
struct vote_store fake_votes_ops(struct fake_votes *fake);

#endif
