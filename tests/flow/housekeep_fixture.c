/* SPDX-License-Identifier: MIT */
#include "tests/flow/housekeep_fixture.h"

#include "consumer/apply/date.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static enum rc fail_call(const struct housekeep_fixture *fixture, bool after, struct err *err)
{
    if (fixture->calls != fixture->fail_call &&
        (fixture->fail_kind == 0 || fixture->fake.op != fixture->fail_kind))
        return RC_OK;
    if (after != fixture->fail_after)
        return RC_OK;
    return err_fail(err, fixture->fail_rc, 1, "call %d failed", fixture->calls);
}

static enum rc count_call(void *ctx, struct err *err)
{
    struct housekeep_fixture *fixture = ctx;

    fixture->calls++;
    return fail_call(fixture, false, err);
}

static enum rc lose_answer(void *ctx, struct err *err)
{
    return fail_call(ctx, true, err);
}

static int64_t read_clock(void *ctx)
{
    const struct housekeep_fixture *fixture = ctx;

    return fixture->now_ms;
}

static size_t row_count(void *ctx)
{
    const struct housekeep_fixture *fixture = ctx;

    return fixture->row_count;
}

/* The seq of a row is its id; vote_base is compared by its sums only. */
static bool read_row(void *ctx, size_t n, struct fake_log_row *out)
{
    const struct housekeep_fixture *fixture = ctx;
    const struct fixture_row *row = &fixture->rows[n];

    *out = (struct fake_log_row){.id = row->id,
                                 .day = row->day,
                                 .content_id = FIXTURE_CONTENT,
                                 .seq = row->id,
                                 .voting = row->vote > 0};
    return !row->dropped;
}

static void note_parts(void *ctx, const struct fake_days *dropped)
{
    struct housekeep_fixture *fixture = ctx;

    fixture->changes++;
    for (size_t i = 0; dropped && i < fixture->row_count; i++) {
        struct fixture_row *row = &fixture->rows[i];

        row->dropped = row->dropped || (row->day >= dropped->from && row->day < dropped->until);
    }
}

static void part_add(struct fake_parts *parts, const char *name, int64_t limit_day)
{
    struct housekeep_part *part = &parts->parts[parts->count++];

    snprintf(part->name, sizeof(part->name), "%s", name);
    part->limit_day = limit_day;
}

static void parts_init(struct fake_parts *parts, int64_t today)
{
    part_add(parts, "p_before", date_month_begin(today, -4));
    for (int64_t month = -4; month <= 1; month++) {
        struct date date = date_of(date_month_begin(today, month));
        char name[16];

        snprintf(name, sizeof(name), "p%04d%02d", date.year, date.month);
        part_add(parts, name, date_month_begin(today, month + 1));
    }
    part_add(parts, "p_after", HOUSEKEEP_NO_LIMIT);
}

static void tables_init(struct housekeep_fixture *fixture, int64_t today)
{
    struct fake_housekeep_tables *tables = &fixture->tables;

    *tables = (struct fake_housekeep_tables){
        .made_count = {5, 3, 7},
        .ctx = fixture,
        .row_count = row_count,
        .read_row = read_row,
        .on_parts = note_parts,
    };
    parts_init(&tables->parts_now, today);
    tables->parts_old = tables->parts_now;
}

void housekeep_fixture_init(struct housekeep_fixture *fixture)
{
    int64_t today = 0;

    *fixture = (struct housekeep_fixture){.fail_rc = RC_RETRY};
    assert_true(date_parse("2026-11-21", &today));
    fixture->now_ms = today * MS_PER_DAY + MS_PER_DAY / 2;
    tables_init(fixture, today);
    fixture->connection.hooks = (struct fake_hooks){fixture, count_call, lose_answer, read_clock};
    fixture->fake = (struct fake_housekeep){.session = fake_alone_session(&fixture->connection),
                                            .tables = &fixture->tables};
    fixture->store = fake_housekeep_ops(&fixture->fake);
    /* Ids follow one another across the months, as events that come in any order make them. */
    for (int64_t id = 1; id <= 60; id++)
        fixture->rows[fixture->row_count++] = (struct fixture_row){
            .id = id,
            .day = id == 60 ? today : date_month_begin(today, -(id * 7 % 6)) + id % 20,
            .vote = id % 3 == 0 ? -1 : 1,
        };
}

void housekeep_fixture_add(struct housekeep_fixture *fixture, int64_t day, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int64_t id = (int64_t)fixture->row_count + 1;

        assert_true(fixture->row_count < FIXTURE_ROWS_MAX);
        fixture->rows[fixture->row_count++] = (struct fixture_row){.id = id, .day = day, .vote = 1};
    }
}

void housekeep_fixture_check(const struct housekeep_fixture *fixture)
{
    const struct fake_housekeep_rows *data = &fixture->tables.old;
    const struct fake_base *base = &data->bases[FIXTURE_CONTENT];
    const struct fake_parts *parts = &fixture->tables.parts_old;
    int64_t rows = base->row_count;
    int64_t votes = base->vote_sum;
    int64_t votes_first = 0;

    for (size_t i = 0; i < fixture->row_count; i++) {
        const struct fixture_row *row = &fixture->rows[i];

        votes_first += row->vote;
        if (row->dropped || (row->day < data->state.begin_day && row->id <= data->folded_id))
            continue;
        assert_true(row->day < parts->parts[parts->count - 1].limit_day);
        rows++;
        votes += row->vote;
    }
    assert_int_equal(rows, fixture->row_count);
    assert_int_equal(votes, votes_first);
}

bool housekeep_fixture_has(const struct housekeep_fixture *fixture, const char *name)
{
    struct fake_days days;
    size_t at;

    return fake_parts_find(&fixture->tables.parts_old, name, &at, &days);
}

void housekeep_fixture_restore(struct housekeep_fixture *fixture,
                               const struct housekeep_fixture *copy)
{
    fixture->tables = copy->tables;
    memcpy(fixture->rows, copy->rows, sizeof(fixture->rows));
}
