/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_housekeep.h"

#include "consumer/apply/date.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static enum rc trouble(struct fake_housekeep *fake, enum fake_housekeep_call call, bool after,
                       struct err *err)
{
    if (!after)
        fake->calls++;
    if (fake->calls != fake->fail_call && (int)call != fake->fail_kind)
        return RC_OK;
    if (after != fake->fail_after)
        return RC_OK;
    return err_fail(err, fake->fail_rc, 1, "call %d failed", fake->calls);
}

static bool is_held(const struct fake_housekeep *fake, const struct singleton_lease *lease)
{
    return fake->state.epoch == lease->epoch;
}

static void renew(struct fake_housekeep *fake, const struct singleton_lease *lease)
{
    fake->state.lease_until_ms = fake->state.now_ms + lease->lease_ms;
}

static enum rc fake_look(void *ctx, struct housekeep_state *state, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc = trouble(fake, FAKE_LOOK, false, err);

    if (rc != RC_OK)
        return rc;
    *state = fake->state;
    state->newest_day = INT64_MIN;
    for (size_t i = 0; i < fake->row_count; i++)
        if (!fake->rows[i].dropped)
            state->newest_day = fake->rows[i].day;
    return trouble(fake, FAKE_LOOK, true, err);
}

static enum rc fake_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                         struct err *err)
{
    struct fake_housekeep *fake = ctx;
    struct housekeep_state *state = &fake->state;
    enum rc rc = trouble(fake, FAKE_TAKE, false, err);

    if (rc != RC_OK)
        return rc;
    *taken = state->epoch == lease->epoch - 1 &&
             !singleton_lease_is_anothers(state->owner, state->lease_until_ms, state->now_ms,
                                          lease->lease_ms, lease->owner);
    if (*taken) {
        snprintf(state->owner, sizeof(state->owner), "%s", lease->owner);
        state->epoch = lease->epoch;
        renew(fake, lease);
    }
    return trouble(fake, FAKE_TAKE, true, err);
}

static enum rc fake_renew(void *ctx, const struct singleton_lease *lease, bool *held,
                          struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc = trouble(fake, FAKE_RENEW, false, err);

    if (rc != RC_OK)
        return rc;
    *held = is_held(fake, lease);
    if (*held)
        renew(fake, lease);
    return trouble(fake, FAKE_RENEW, true, err);
}

static enum rc fake_read_parts(void *ctx, struct housekeep_part *parts, size_t max, size_t *count,
                               struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc = trouble(fake, FAKE_READ, false, err);

    *count = 0;
    for (size_t i = 0; rc == RC_OK && i < fake->part_count; i++) {
        if (fake->gone[i])
            continue;
        assert_true(*count < max);
        parts[(*count)++] = fake->parts[i];
    }
    return rc == RC_OK ? trouble(fake, FAKE_READ, true, err) : rc;
}

static size_t part_find(const struct fake_housekeep *fake, const char *name)
{
    for (size_t i = 0; i < fake->part_count; i++)
        if (!fake->gone[i] && strcmp(fake->parts[i].name, name) == 0)
            return i;
    return fake->part_count;
}

static enum rc fake_count_rows(void *ctx, const struct housekeep_part *part, uint64_t max,
                               uint64_t *rows, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    size_t index = part_find(fake, part->name);
    enum rc rc = trouble(fake, FAKE_COUNT, false, err);

    *rows = 0;
    for (size_t i = 0; rc == RC_OK && i < fake->row_count && *rows < max; i++)
        *rows += fake->rows[i].part == index && !fake->rows[i].dropped;
    return rc;
}

/* Rows move into the first partition that takes their day. */
static void rows_place(struct fake_housekeep *fake)
{
    for (size_t i = 0; i < fake->row_count; i++) {
        size_t part = 0;

        if (fake->rows[i].dropped)
            continue;
        while (fake->gone[part] || fake->rows[i].day >= fake->parts[part].limit_day)
            part++;
        assert_true(part < fake->part_count);
        fake->rows[i].part = part;
    }
}

static enum rc fake_make_part(void *ctx, const struct housekeep_part *part,
                              const struct housekeep_part *last, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc = trouble(fake, FAKE_MAKE, false, err);
    size_t end = fake->part_count - 1;

    if (rc != RC_OK)
        return rc;
    /* As the servers: a name or a limit that is there already is refused. */
    if (part_find(fake, part->name) < fake->part_count)
        return err_fail(err, RC_RETRY, 1517, "duplicate partition");
    assert_non_null(last);
    assert_string_equal(last->name, fake->parts[end].name);
    assert_true(end == 0 || fake->parts[end - 1].limit_day < part->limit_day);
    assert_true(fake->part_count < FAKE_PARTS_MAX);
    fake->parts[end + 1] = fake->parts[end];
    fake->parts[end] = *part;
    fake->part_count++;
    fake->changes++;
    rows_place(fake);
    return trouble(fake, FAKE_MAKE, true, err);
}

static enum rc fake_move_begin(void *ctx, const struct singleton_lease *lease, int64_t begin_day,
                               bool *held, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc = trouble(fake, FAKE_BEGIN, false, err);

    if (rc != RC_OK)
        return rc;
    *held = is_held(fake, lease);
    for (size_t i = 0; *held && i < fake->part_count; i++)
        if (!fake->gone[i] && fake->parts[i].limit_day < begin_day)
            return err_fail(err, RC_RETRY, 0, "an earlier partition is there");
    if (*held && fake->state.begin_day < begin_day) {
        fake->state.begin_day = begin_day;
        fake->folded_id = 0;
    }
    if (*held)
        renew(fake, lease);
    return trouble(fake, FAKE_BEGIN, true, err);
}

/* The row with the lowest id behind the last one that is folded in, or NULL. */
static struct fake_housekeep_row *next_row(struct fake_housekeep *fake, size_t part)
{
    struct fake_housekeep_row *next = NULL;

    for (size_t i = 0; i < fake->row_count; i++) {
        struct fake_housekeep_row *row = &fake->rows[i];

        if (row->part == part && !row->dropped && row->id > fake->folded_id &&
            (!next || row->id < next->id))
            next = row;
    }
    return next;
}

static enum rc fake_fold(void *ctx, const struct singleton_lease *lease,
                         const struct housekeep_part *part, size_t rows_max, uint64_t *rows,
                         bool *held, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    size_t index = part_find(fake, part->name);
    enum rc rc = trouble(fake, FAKE_FOLD, false, err);

    if (rc != RC_OK)
        return rc;
    *rows = 0;
    *held = is_held(fake, lease);
    if (*held && index == fake->part_count)
        return err_fail(err, RC_RETRY, 1735, "unknown partition");
    if (*held && fake->state.begin_day < part->limit_day)
        return err_fail(err, RC_RETRY, 0, "the log begins before the end of the partition");
    for (; *held && *rows < rows_max; ++*rows) {
        struct fake_housekeep_row *row = next_row(fake, index);

        if (!row)
            break;
        fake->base_rows++;
        fake->base_votes += row->vote;
        fake->folded_id = row->id;
    }
    if (*held)
        renew(fake, lease);
    return trouble(fake, FAKE_FOLD, true, err);
}

static enum rc fake_drop_part(void *ctx, const struct housekeep_part *part, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    size_t index = part_find(fake, part->name);
    enum rc rc = trouble(fake, FAKE_DROP, false, err);

    if (rc != RC_OK)
        return rc;
    if (index == fake->part_count)
        return RC_OK;
    assert_int_equal(index, part_find(fake, fake->parts[index].name));
    if (fake->state.begin_day < part->limit_day || next_row(fake, index))
        return err_fail(err, RC_REJECT, 0, "rows that are not folded in");
    for (size_t i = 0; i < fake->row_count; i++)
        fake->rows[i].dropped = fake->rows[i].dropped || fake->rows[i].part == index;
    fake->gone[index] = true;
    fake->changes++;
    return trouble(fake, FAKE_DROP, true, err);
}

static enum rc fake_delete_old(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                               uint64_t *rows, struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc = trouble(fake, FAKE_DELETE, false, err);

    *rows = 0;
    assert_true(days > 0);
    if (rc != RC_OK)
        return rc;
    *rows = fake->old[kind] < rows_max ? fake->old[kind] : rows_max;
    fake->old[kind] -= *rows;
    return trouble(fake, FAKE_DELETE, true, err);
}

static enum rc fake_count_old(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                              uint64_t *rows, struct err *err)
{
    struct fake_housekeep *fake = ctx;

    (void)days;
    *rows = fake->old[kind] < max ? fake->old[kind] : max;
    return trouble(fake, FAKE_COUNT, false, err);
}

static enum rc fake_finish(void *ctx, const struct singleton_lease *lease, bool *held,
                           struct err *err)
{
    struct fake_housekeep *fake = ctx;
    enum rc rc = trouble(fake, FAKE_FINISH, false, err);

    if (rc != RC_OK)
        return rc;
    *held = is_held(fake, lease);
    if (*held) {
        fake->state.finished_ms = fake->state.now_ms;
        fake->state.lease_until_ms = fake->state.now_ms;
        fake->state.owner[0] = '\0';
    }
    return trouble(fake, FAKE_FINISH, true, err);
}

static void fake_release(void *ctx, const struct singleton_lease *lease)
{
    struct fake_housekeep *fake = ctx;

    if (is_held(fake, lease))
        fake->state.owner[0] = '\0';
}

static void part_add(struct fake_housekeep *fake, const char *name, int64_t limit_day)
{
    struct housekeep_part *part = &fake->parts[fake->part_count++];

    snprintf(part->name, sizeof(part->name), "%s", name);
    part->limit_day = limit_day;
}

static void parts_init(struct fake_housekeep *fake, int64_t today)
{
    part_add(fake, "p_before", date_month_begin(today, -4));
    for (int64_t month = -4; month <= 1; month++) {
        struct date date = date_of(date_month_begin(today, month));
        char name[16];

        snprintf(name, sizeof(name), "p%04d%02d", date.year, date.month);
        part_add(fake, name, date_month_begin(today, month + 1));
    }
    part_add(fake, "p_after", HOUSEKEEP_NO_LIMIT);
}

void fake_housekeep_init(struct fake_housekeep *fake)
{
    int64_t today = 0;

    *fake = (struct fake_housekeep){
        .store =
            {
                .ctx = fake,
                .read_state = fake_look,
                .take = fake_take,
                .renew = fake_renew,
                .read_parts = fake_read_parts,
                .count_rows = fake_count_rows,
                .make_part = fake_make_part,
                .move_begin = fake_move_begin,
                .fold = fake_fold,
                .drop_part = fake_drop_part,
                .delete_old = fake_delete_old,
                .count_old = fake_count_old,
                .finish = fake_finish,
                .release = fake_release,
            },
        .fail_rc = RC_RETRY,
        .old = {5, 3, 7},
    };
    assert_true(date_parse("2026-11-21", &today));
    fake->state.now_ms = today * MS_PER_DAY + MS_PER_DAY / 2;
    parts_init(fake, today);
    /* Ids follow one another across the months, as events that come in any order make them. */
    for (int64_t id = 1; id <= 60; id++)
        fake->rows[fake->row_count++] = (struct fake_housekeep_row){
            .id = id,
            .day = id == 60 ? today : date_month_begin(today, -(id * 7 % 6)) + id % 20,
            .vote = id % 3 == 0 ? -1 : 1,
        };
    rows_place(fake);
}

void fake_housekeep_check(const struct fake_housekeep *fake)
{
    int64_t rows = fake->base_rows;
    int64_t votes = fake->base_votes;
    int64_t votes_first = 0;

    for (size_t i = 0; i < fake->row_count; i++) {
        const struct fake_housekeep_row *row = &fake->rows[i];

        votes_first += row->vote;
        assert_int_equal(row->dropped, fake->gone[row->part]);
        if (row->dropped || (row->day < fake->state.begin_day && row->id <= fake->folded_id))
            continue;
        rows++;
        votes += row->vote;
    }
    assert_int_equal(rows, fake->row_count);
    assert_int_equal(votes, votes_first);
}

bool fake_housekeep_has(const struct fake_housekeep *fake, const char *name)
{
    return part_find(fake, name) < fake->part_count;
}
