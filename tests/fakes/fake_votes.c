/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_votes.h"

#include <assert.h>

enum {
    LOCK_WAIT_CODE = 1205,
    DEADLOCK_CODE = 1213,
    REFUSED_CODE = 1644, /* a trigger's SIGNAL */
};

static enum rc fake_ping(void *ctx, struct err *err)
{
    struct fake_votes *fake = ctx;

    fake->op = FAKE_VOTES_PING;
    return fake_call(&fake->session, err);
}

static enum rc begin_transaction(void *ctx, struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc;

    fake->op = FAKE_VOTES_BEGIN;
    rc = fake_begin(&fake->session, err);
    fake->op = FAKE_VOTES_OTHER;
    return rc;
}

static enum rc commit_transaction(void *ctx, struct err *err)
{
    struct fake_votes *fake = ctx;

    fake->op = FAKE_VOTES_COMMIT;
    return fake_commit(&fake->session, err);
}

static void roll_back(void *ctx)
{
    struct fake_votes *fake = ctx;

    fake_rollback(&fake->session);
}

static void settle_count(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_count *count = (struct fake_count *)row;

    (void)ctx;
    if (commit)
        count->old = count->now;
    else
        count->now = count->old;
}

static void write_count(struct fake_votes *fake, struct fake_count *row, int64_t votes)
{
    fake_wrote(&fake->session, &row->row, settle_count, NULL);
    row->now = (struct fake_count_version){.found = true, .votes = votes};
}

/* A row that is not there is not locked: another transaction may make it. */
static enum rc fake_lock_counts(void *ctx, struct vote_count_row *counts, size_t count,
                                struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_count *row = fake->count_of(fake->ctx, counts[i].content_id);

        assert(i == 0 || counts[i - 1].content_id < counts[i].content_id);
        if (!row->now.found)
            continue;
        rc = fake_lock(&fake->session, &row->row, err);
        if (rc != RC_OK || !row->now.found)
            continue;
        counts[i].found = true;
        counts[i].votes = row->now.votes;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_make_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_count *row = fake->count_of(fake->ctx, counts[i].content_id);

        if (!counts[i].wanted && !counts[i].found)
            continue;
        rc = fake_lock(&fake->session, &row->row, err);
        if (rc == RC_OK && !row->now.found)
            write_count(fake, row, counts[i].votes);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static bool is_deleted(const struct fake_votes *fake, int64_t content_id)
{
    return fake->deletion_of && fake->deletion_of(fake->ctx, content_id)->old.found;
}

static enum rc fake_read_deleted(void *ctx, struct vote_count_row *counts, size_t count,
                                 struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc;

    fake->op = FAKE_VOTES_OTHER;
    rc = fake_call(&fake->session, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        counts[i].deleted = is_deleted(fake, counts[i].content_id);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

/* A consistent read: committed rows. */
static enum rc fake_read_states(void *ctx, struct vote_state_row *states, size_t count,
                                int64_t *now_ms, struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct fake_state *row =
            fake->state_of(fake->ctx, states[i].voter_id, states[i].content_id);

        if (row->old.found)
            states[i] = row->old;
        states[i].deleted = is_deleted(fake, states[i].content_id);
    }
    *now_ms = fake_now_ms(&fake->session);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static void settle_state(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_state *state = (struct fake_state *)row;

    (void)ctx;
    if (commit)
        state->old = state->now;
    else
        state->now = state->old;
}

/* A statement that is refused has written nothing. */
static enum rc fake_write_states(void *ctx, const struct vote_state_row *states, size_t count,
                                 struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && fake->refuses_state && i < count; i++)
        if (states[i].changed && fake->refuses_state(fake->ctx, &states[i]))
            return err_fail(err, RC_REJECT, REFUSED_CODE, "voter %lld is refused",
                            (long long)states[i].voter_id);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_state *row =
            fake->state_of(fake->ctx, states[i].voter_id, states[i].content_id);

        if (!states[i].changed)
            continue;
        rc = fake_lock(&fake->session, &row->row, err);
        if (rc != RC_OK)
            break;
        fake_wrote(&fake->session, &row->row, settle_state, NULL);
        row->now = states[i];
        row->now.found = true;
        row->now.changed = false;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_write_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                 struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_count *row = fake->count_of(fake->ctx, counts[i].content_id);

        if (!counts[i].changed)
            continue;
        rc = fake_lock(&fake->session, &row->row, err);
        if (rc == RC_OK)
            write_count(fake, row, counts[i].votes);
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_append(void *ctx, const char *lane, const struct outbox_event *events,
                           size_t count, struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    fake->append(fake->ctx, lane, events, count);
    return fake_answer(&fake->session, err);
}

static void settle_deletion(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_votes *fake = ctx;
    struct fake_deletion *deletion = (struct fake_deletion *)row;

    if (!commit) {
        deletion->now = deletion->old;
        return;
    }
    if (fake->on_deletion)
        fake->on_deletion(fake->ctx, deletion);
    deletion->old = deletion->now;
}

void fake_votes_write_deletion(struct fake_votes *fake, struct fake_deletion *deletion)
{
    fake_wrote(&fake->session, &deletion->row, settle_deletion, fake);
}

static enum rc fake_mark_closed(void *ctx, int64_t content_id, bool *marked, int64_t *now_ms,
                                struct err *err)
{
    struct fake_votes *fake = ctx;
    struct fake_deletion *deletion = fake->deletion_of(fake->ctx, content_id);
    enum rc rc = fake_call(&fake->session, err);

    if (rc == RC_OK && fake->on_close)
        fake->on_close(fake->ctx, content_id);
    if (rc == RC_OK)
        rc = fake_lock(&fake->session, &deletion->row, err);
    if (rc != RC_OK)
        return rc;
    *marked = !deletion->now.closed;
    *now_ms = fake_now_ms(&fake->session);
    if (*marked)
        fake_votes_write_deletion(fake, deletion);
    deletion->now = (struct fake_deletion_version){.found = true, .closed = true};
    return fake_answer(&fake->session, err);
}

static enum rc fake_delete_states(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                                  struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc;

    fake->op = FAKE_VOTES_OTHER;
    *count = 0;
    rc = fake_call(&fake->session, err);
    if (rc == RC_OK)
        rc = fake->delete_states(fake->ctx, content_id, rows_max, count, err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static enum rc fake_delete_count(void *ctx, int64_t content_id, struct err *err)
{
    struct fake_votes *fake = ctx;
    enum rc rc;

    fake->op = FAKE_VOTES_OTHER;
    rc = fake_call(&fake->session, err);
    if (rc == RC_OK)
        rc = fake->delete_count(fake->ctx, content_id, err);
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static bool fake_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DEADLOCK_CODE || err->code == LOCK_WAIT_CODE;
}

struct vote_store fake_votes_ops(struct fake_votes *fake)
{
    return (struct vote_store){
        .ctx = fake,
        .ping = fake_ping,
        .begin = begin_transaction,
        .lock_counts = fake_lock_counts,
        .make_counts = fake_make_counts,
        .read_deleted = fake_read_deleted,
        .read_states = fake_read_states,
        .write_states = fake_write_states,
        .write_counts = fake_write_counts,
        .append = fake_append,
        .mark_closed = fake_mark_closed,
        .delete_states = fake_delete_states,
        .delete_count = fake_delete_count,
        .commit = commit_transaction,
        .rollback = roll_back,
        .collided = fake_collided,
    };
}
