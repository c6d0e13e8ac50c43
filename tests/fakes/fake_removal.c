/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_removal.h"

#include <assert.h>

enum {
    LOCK_WAIT_CODE = 1205,
    DEADLOCK_CODE = 1213,
    REFUSED_CODE = 1451, /* a foreign key */
};

static enum rc fake_ping(void *ctx, struct err *err)
{
    struct fake_removal *fake = ctx;

    return fake_call(&fake->session, err);
}

static void settle_row(void *ctx, struct fake_row *base, bool commit)
{
    struct fake_removal *fake = ctx;
    struct fake_removal_row *row = (struct fake_removal_row *)base;

    if (!commit) {
        row->now = row->old;
        return;
    }
    if (fake->on_row)
        fake->on_row(fake->ctx, row);
    row->old = row->now;
}

void fake_removal_write(struct fake_removal *fake, struct fake_removal_row *row)
{
    fake_wrote(&fake->session, &row->row, settle_row, fake);
}

static struct fake_removal_row *find_row(const struct fake_removal *fake, int64_t id)
{
    assert(id >= 1 && id <= fake->id_max);
    return &fake->rows[id];
}

/* RC_OK: a transaction is open, and has the row locked. */
static enum rc begin_row(struct fake_removal *fake, struct fake_removal_row *row, struct err *err)
{
    enum rc rc = fake_begin(&fake->session, err);

    return rc == RC_OK ? fake_lock(&fake->session, &row->row, err) : rc;
}

static enum rc fake_mark(void *ctx, int64_t id, bool *found, int64_t *item_id, struct err *err)
{
    struct fake_removal *fake = ctx;
    struct fake_removal_row *row = find_row(fake, id);
    enum rc rc = begin_row(fake, row, err);

    *found = false;
    if (rc == RC_OK && row->now.found && !row->now.deleted) {
        fake_removal_write(fake, row);
        row->now.deleted = true;
        row->now.deleted_ms = row->now.remove_ms = fake_now_ms(&fake->session);
    }
    if (rc == RC_OK)
        rc = fake_commit(&fake->session, err);
    if (rc == RC_OK)
        rc = fake_call(&fake->session, err);
    if (rc != RC_OK)
        return rc;
    *found = row->old.found;
    *item_id = fake->item_of(fake->ctx, id);
    return fake_answer(&fake->session, err);
}

/* The committed row whose remove_after passed first; NULL: there is none. */
static struct fake_removal_row *find_due(const struct fake_removal *fake, int64_t now_ms)
{
    struct fake_removal_row *first = NULL;

    for (int64_t id = 1; id <= fake->id_max; id++) {
        struct fake_removal_row *row = &fake->rows[id];

        if (row->old.found && row->old.deleted && row->old.remove_ms <= now_ms &&
            (!first || row->old.remove_ms < first->old.remove_ms))
            first = row;
    }
    return first;
}

static enum rc read_due(struct fake_removal *fake, struct fake_removal_row **row,
                        struct fake_removal_version *seen, struct err *err)
{
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    *row = find_due(fake, fake_now_ms(&fake->session));
    if (*row)
        *seen = (*row)->old;
    return fake_answer(&fake->session, err);
}

static enum rc fake_claim(void *ctx, int64_t claim_ms, struct removal *removal, bool *found,
                          struct err *err)
{
    struct fake_removal *fake = ctx;
    struct fake_removal_row *row = NULL;
    struct fake_removal_version seen = {0};
    enum rc rc = read_due(fake, &row, &seen, err);
    bool taken;

    *found = false;
    if (rc != RC_OK || !row)
        return rc;
    *removal = (struct removal){.content_id = row - fake->rows,
                                .age_ms = fake_now_ms(&fake->session) - seen.deleted_ms};
    rc = begin_row(fake, row, err);
    if (rc != RC_OK)
        return rc;
    taken = row->now.found && row->now.remove_ms == seen.remove_ms;
    if (taken) {
        fake_removal_write(fake, row);
        row->now.remove_ms = fake_now_ms(&fake->session) + claim_ms;
    }
    rc = fake_commit(&fake->session, err);
    *found = rc == RC_OK && taken;
    return rc;
}

static enum rc fake_put_off(void *ctx, int64_t id, int64_t wait_ms, struct err *err)
{
    struct fake_removal *fake = ctx;
    struct fake_removal_row *row = find_row(fake, id);
    enum rc rc = begin_row(fake, row, err);

    if (rc != RC_OK)
        return rc;
    if (row->now.found && row->now.deleted) {
        fake_removal_write(fake, row);
        row->now.remove_ms = fake_now_ms(&fake->session) + wait_ms;
    }
    return fake_commit(&fake->session, err);
}

static enum rc fake_is_ended(void *ctx, int64_t content_id, bool *ended, struct err *err)
{
    struct fake_removal *fake = ctx;
    enum rc rc = fake_call(&fake->session, err);

    if (rc != RC_OK)
        return rc;
    *ended = fake->is_ended(fake->ctx, content_id);
    return fake_answer(&fake->session, err);
}

static enum rc fake_delete_lasts(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                                 struct err *err)
{
    struct fake_removal *fake = ctx;
    enum rc rc = fake_begin(&fake->session, err);

    *count = 0;
    if (rc == RC_OK)
        rc = fake->delete_lasts(fake->ctx, content_id, rows_max, count, err);
    return rc == RC_OK ? fake_commit(&fake->session, err) : rc;
}

static enum rc fake_finish(void *ctx, int64_t id, struct err *err)
{
    struct fake_removal *fake = ctx;
    struct fake_removal_row *row = find_row(fake, id);
    enum rc rc = begin_row(fake, row, err);

    if (rc != RC_OK)
        return rc;
    if (fake->refuses_remark && fake->refuses_remark(fake->ctx, id)) {
        fake_rollback(&fake->session);
        return err_fail(err, RC_REJECT, REFUSED_CODE, "remark %lld is refused", (long long)id);
    }
    if (row->now.found && row->now.deleted) {
        fake_removal_write(fake, row);
        row->now = (struct fake_removal_version){.found = false};
    }
    return fake_commit(&fake->session, err);
}

static enum rc fake_oldest(void *ctx, int64_t *age_ms, struct err *err)
{
    struct fake_removal *fake = ctx;
    int64_t now_ms = fake_now_ms(&fake->session);
    enum rc rc = fake_call(&fake->session, err);

    *age_ms = 0;
    for (int64_t id = 1; rc == RC_OK && id <= fake->id_max; id++) {
        const struct fake_removal_version *row = &fake->rows[id].old;

        if (row->found && row->deleted && now_ms - row->deleted_ms > *age_ms)
            *age_ms = now_ms - row->deleted_ms;
    }
    return rc == RC_OK ? fake_answer(&fake->session, err) : rc;
}

static bool fake_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DEADLOCK_CODE || err->code == LOCK_WAIT_CODE;
}

struct removal_store fake_removal_ops(struct fake_removal *fake)
{
    return (struct removal_store){
        .ctx = fake,
        .ping = fake_ping,
        .mark = fake_mark,
        .is_ended = fake_is_ended,
        .delete_lasts = fake_delete_lasts,
        .collided = fake_collided,
    };
}

struct removal_marks fake_removal_marks(struct fake_removal *fake)
{
    return (struct removal_marks){
        .ctx = fake,
        .claim = fake_claim,
        .put_off = fake_put_off,
        .finish = fake_finish,
        .oldest = fake_oldest,
    };
}
