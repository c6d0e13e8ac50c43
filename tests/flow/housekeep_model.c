/* SPDX-License-Identifier: MIT */
#include "tests/flow/housekeep_model.h"

#include "consumer/apply/date.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static enum rc trouble(struct housekeep_model *model, enum model_call call, bool after,
                       struct err *err)
{
    if (!after)
        model->calls++;
    if (model->calls != model->fail_call && (int)call != model->fail_kind)
        return RC_OK;
    if (after != model->fail_after)
        return RC_OK;
    return err_fail(err, model->fail_rc, 1, "call %d failed", model->calls);
}

static bool is_held(const struct housekeep_model *model, const struct singleton_lease *lease)
{
    return model->state.epoch == lease->epoch;
}

static void renew(struct housekeep_model *model, const struct singleton_lease *lease)
{
    model->state.lease_until_ms = model->state.now_ms + lease->lease_ms;
}

static enum rc model_look(void *ctx, struct housekeep_state *state, struct err *err)
{
    struct housekeep_model *model = ctx;
    enum rc rc = trouble(model, MODEL_LOOK, false, err);

    if (rc != RC_OK)
        return rc;
    *state = model->state;
    state->newest_day = INT64_MIN;
    for (size_t i = 0; i < model->row_count; i++)
        if (!model->rows[i].dropped)
            state->newest_day = model->rows[i].day;
    return trouble(model, MODEL_LOOK, true, err);
}

static enum rc model_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                          struct err *err)
{
    struct housekeep_model *model = ctx;
    struct housekeep_state *state = &model->state;
    enum rc rc = trouble(model, MODEL_TAKE, false, err);

    if (rc != RC_OK)
        return rc;
    *taken = state->epoch == lease->epoch - 1 &&
             !singleton_lease_is_anothers(state->owner, state->lease_until_ms, state->now_ms,
                                          lease->lease_ms, lease->owner);
    if (*taken) {
        snprintf(state->owner, sizeof(state->owner), "%s", lease->owner);
        state->epoch = lease->epoch;
        renew(model, lease);
    }
    return trouble(model, MODEL_TAKE, true, err);
}

static enum rc model_renew(void *ctx, const struct singleton_lease *lease, bool *held,
                           struct err *err)
{
    struct housekeep_model *model = ctx;
    enum rc rc = trouble(model, MODEL_RENEW, false, err);

    if (rc != RC_OK)
        return rc;
    *held = is_held(model, lease);
    if (*held)
        renew(model, lease);
    return trouble(model, MODEL_RENEW, true, err);
}

static enum rc model_read_parts(void *ctx, struct housekeep_part *parts, size_t max, size_t *count,
                                struct err *err)
{
    struct housekeep_model *model = ctx;
    enum rc rc = trouble(model, MODEL_READ, false, err);

    *count = 0;
    for (size_t i = 0; rc == RC_OK && i < model->part_count; i++) {
        if (model->gone[i])
            continue;
        assert_true(*count < max);
        parts[(*count)++] = model->parts[i];
    }
    return rc == RC_OK ? trouble(model, MODEL_READ, true, err) : rc;
}

static size_t part_find(const struct housekeep_model *model, const char *name)
{
    for (size_t i = 0; i < model->part_count; i++)
        if (!model->gone[i] && strcmp(model->parts[i].name, name) == 0)
            return i;
    return model->part_count;
}

static enum rc model_count_rows(void *ctx, const struct housekeep_part *part, uint64_t max,
                                uint64_t *rows, struct err *err)
{
    struct housekeep_model *model = ctx;
    size_t index = part_find(model, part->name);
    enum rc rc = trouble(model, MODEL_COUNT, false, err);

    *rows = 0;
    for (size_t i = 0; rc == RC_OK && i < model->row_count && *rows < max; i++)
        *rows += model->rows[i].part == index && !model->rows[i].dropped;
    return rc;
}

/* Rows move into the first partition that takes their day. */
static void rows_place(struct housekeep_model *model)
{
    for (size_t i = 0; i < model->row_count; i++) {
        size_t part = 0;

        if (model->rows[i].dropped)
            continue;
        while (model->gone[part] || model->rows[i].day >= model->parts[part].limit_day)
            part++;
        assert_true(part < model->part_count);
        model->rows[i].part = part;
    }
}

static enum rc model_make_part(void *ctx, const struct housekeep_part *part,
                               const struct housekeep_part *last, struct err *err)
{
    struct housekeep_model *model = ctx;
    enum rc rc = trouble(model, MODEL_MAKE, false, err);
    size_t end = model->part_count - 1;

    if (rc != RC_OK)
        return rc;
    /* As the servers: a name or a limit that is there already is refused. */
    if (part_find(model, part->name) < model->part_count)
        return err_fail(err, RC_RETRY, 1517, "duplicate partition");
    assert_non_null(last);
    assert_string_equal(last->name, model->parts[end].name);
    assert_true(end == 0 || model->parts[end - 1].limit_day < part->limit_day);
    assert_true(model->part_count < MODEL_PARTS_MAX);
    model->parts[end + 1] = model->parts[end];
    model->parts[end] = *part;
    model->part_count++;
    model->changes++;
    rows_place(model);
    return trouble(model, MODEL_MAKE, true, err);
}

static enum rc model_move_begin(void *ctx, const struct singleton_lease *lease, int64_t begin_day,
                                bool *held, struct err *err)
{
    struct housekeep_model *model = ctx;
    enum rc rc = trouble(model, MODEL_BEGIN, false, err);

    if (rc != RC_OK)
        return rc;
    *held = is_held(model, lease);
    for (size_t i = 0; *held && i < model->part_count; i++)
        if (!model->gone[i] && model->parts[i].limit_day < begin_day)
            return err_fail(err, RC_RETRY, 0, "an earlier partition is there");
    if (*held && model->state.begin_day < begin_day) {
        model->state.begin_day = begin_day;
        model->folded_id = 0;
    }
    if (*held)
        renew(model, lease);
    return trouble(model, MODEL_BEGIN, true, err);
}

/* The row with the lowest id behind the last one that is folded in, or NULL. */
static struct model_row *next_row(struct housekeep_model *model, size_t part)
{
    struct model_row *next = NULL;

    for (size_t i = 0; i < model->row_count; i++) {
        struct model_row *row = &model->rows[i];

        if (row->part == part && !row->dropped && row->id > model->folded_id &&
            (!next || row->id < next->id))
            next = row;
    }
    return next;
}

static enum rc model_fold(void *ctx, const struct singleton_lease *lease,
                          const struct housekeep_part *part, size_t rows_max, uint64_t *rows,
                          bool *held, struct err *err)
{
    struct housekeep_model *model = ctx;
    size_t index = part_find(model, part->name);
    enum rc rc = trouble(model, MODEL_FOLD, false, err);

    if (rc != RC_OK)
        return rc;
    *rows = 0;
    *held = is_held(model, lease);
    if (*held && index == model->part_count)
        return err_fail(err, RC_RETRY, 1735, "unknown partition");
    if (*held && model->state.begin_day < part->limit_day)
        return err_fail(err, RC_RETRY, 0, "the log begins before the end of the partition");
    for (; *held && *rows < rows_max; ++*rows) {
        struct model_row *row = next_row(model, index);

        if (!row)
            break;
        model->base_rows++;
        model->base_votes += row->vote;
        model->folded_id = row->id;
    }
    if (*held)
        renew(model, lease);
    return trouble(model, MODEL_FOLD, true, err);
}

static enum rc model_drop_part(void *ctx, const struct housekeep_part *part, struct err *err)
{
    struct housekeep_model *model = ctx;
    size_t index = part_find(model, part->name);
    enum rc rc = trouble(model, MODEL_DROP, false, err);

    if (rc != RC_OK)
        return rc;
    if (index == model->part_count)
        return RC_OK;
    assert_int_equal(index, part_find(model, model->parts[index].name));
    if (model->state.begin_day < part->limit_day || next_row(model, index))
        return err_fail(err, RC_REJECT, 0, "rows that are not folded in");
    for (size_t i = 0; i < model->row_count; i++)
        model->rows[i].dropped = model->rows[i].dropped || model->rows[i].part == index;
    model->gone[index] = true;
    model->changes++;
    return trouble(model, MODEL_DROP, true, err);
}

static enum rc model_delete_old(void *ctx, enum housekeep_kind kind, int64_t days, size_t rows_max,
                                uint64_t *rows, struct err *err)
{
    struct housekeep_model *model = ctx;
    enum rc rc = trouble(model, MODEL_DELETE, false, err);

    *rows = 0;
    assert_true(days > 0);
    if (rc != RC_OK)
        return rc;
    *rows = model->old[kind] < rows_max ? model->old[kind] : rows_max;
    model->old[kind] -= *rows;
    return trouble(model, MODEL_DELETE, true, err);
}

static enum rc model_count_old(void *ctx, enum housekeep_kind kind, int64_t days, uint64_t max,
                               uint64_t *rows, struct err *err)
{
    struct housekeep_model *model = ctx;

    (void)days;
    *rows = model->old[kind] < max ? model->old[kind] : max;
    return trouble(model, MODEL_COUNT, false, err);
}

static enum rc model_finish(void *ctx, const struct singleton_lease *lease, bool *held,
                            struct err *err)
{
    struct housekeep_model *model = ctx;
    enum rc rc = trouble(model, MODEL_FINISH, false, err);

    if (rc != RC_OK)
        return rc;
    *held = is_held(model, lease);
    if (*held) {
        model->state.finished_ms = model->state.now_ms;
        model->state.lease_until_ms = model->state.now_ms;
        model->state.owner[0] = '\0';
    }
    return trouble(model, MODEL_FINISH, true, err);
}

static void model_release(void *ctx, const struct singleton_lease *lease)
{
    struct housekeep_model *model = ctx;

    if (is_held(model, lease))
        model->state.owner[0] = '\0';
}

static void part_add(struct housekeep_model *model, const char *name, int64_t limit_day)
{
    struct housekeep_part *part = &model->parts[model->part_count++];

    snprintf(part->name, sizeof(part->name), "%s", name);
    part->limit_day = limit_day;
}

static void parts_init(struct housekeep_model *model, int64_t today)
{
    part_add(model, "p_before", date_month(today, -4));
    for (int64_t month = -4; month <= 1; month++) {
        struct date date = date_of(date_month(today, month));
        char name[16];

        snprintf(name, sizeof(name), "p%04d%02d", date.year, date.month);
        part_add(model, name, date_month(today, month + 1));
    }
    part_add(model, "p_after", HOUSEKEEP_NO_LIMIT);
}

void housekeep_model_init(struct housekeep_model *model)
{
    int64_t today = 0;

    *model = (struct housekeep_model){
        .store =
            {
                .ctx = model,
                .look = model_look,
                .take = model_take,
                .renew = model_renew,
                .read_parts = model_read_parts,
                .count_rows = model_count_rows,
                .make_part = model_make_part,
                .move_begin = model_move_begin,
                .fold = model_fold,
                .drop_part = model_drop_part,
                .delete_old = model_delete_old,
                .count_old = model_count_old,
                .finish = model_finish,
                .release = model_release,
            },
        .fail_rc = RC_RETRY,
        .old = {5, 3, 7},
    };
    assert_true(date_parse("2026-11-21", &today));
    model->state.now_ms = today * DATE_MS + DATE_MS / 2;
    parts_init(model, today);
    /* Ids follow one another across the months, as events that come in any order make them. */
    for (int64_t id = 1; id <= 60; id++)
        model->rows[model->row_count++] = (struct model_row){
            .id = id,
            .day = id == 60 ? today : date_month(today, -(id * 7 % 6)) + id % 20,
            .vote = id % 3 == 0 ? -1 : 1,
        };
    rows_place(model);
}

void housekeep_model_check(const struct housekeep_model *model)
{
    int64_t rows = model->base_rows;
    int64_t votes = model->base_votes;
    int64_t votes_first = 0;

    for (size_t i = 0; i < model->row_count; i++) {
        const struct model_row *row = &model->rows[i];

        votes_first += row->vote;
        assert_int_equal(row->dropped, model->gone[row->part]);
        if (row->dropped || (row->day < model->state.begin_day && row->id <= model->folded_id))
            continue;
        rows++;
        votes += row->vote;
    }
    assert_int_equal(rows, model->row_count);
    assert_int_equal(votes, votes_first);
}

bool housekeep_model_has(const struct housekeep_model *model, const char *name)
{
    return part_find(model, name) < model->part_count;
}
