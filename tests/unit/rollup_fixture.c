/* SPDX-License-Identifier: MIT */
#include "tests/unit/rollup_fixture.h"

#include "common/loop.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static enum rc fail_call(struct rollup_fixture *fixture, bool after, struct err *err)
{
    if (fixture->calls != fixture->fail_call || after != fixture->fail_after)
        return RC_OK;
    return err_fail(err, fixture->fail_rc, 1, "call %d failed", (int)fixture->calls);
}

static enum rc count_call(void *ctx, struct err *err)
{
    struct rollup_fixture *fixture = ctx;

    fixture->calls++;
    return fail_call(fixture, false, err);
}

static enum rc lose_answer(void *ctx, struct err *err)
{
    return fail_call(ctx, true, err);
}

static int64_t read_clock(void *ctx)
{
    const struct rollup_fixture *fixture = ctx;

    return fixture->state.now_ms;
}

static void read_total(void *ctx, int64_t content_id, struct fake_total *total)
{
    const struct rollup_fixture *fixture = ctx;
    const struct content *content = &fixture->contents[content_id];

    *total =
        (struct fake_total){content->exists, content->votes, content->seq, content->changed_ms};
}

static enum rc count_write(void *ctx, const struct rollup_row *rows, size_t count, struct err *err)
{
    struct rollup_fixture *fixture = ctx;

    for (size_t i = 0; i < count; i++)
        if (rows[i].place.content_id == fixture->refused_id)
            return err_fail(err, RC_REJECT, 4025, "CHECK constraint");
    fixture->writes++;
    fixture->rows_offered += (int64_t)count;
    return RC_OK;
}

static uint64_t count_connects(void *ctx)
{
    const struct rollup_fixture *fixture = ctx;

    return fixture->connects;
}

static enum rc count_read(void *ctx, const struct rollup_place *after, int64_t until_ms,
                          struct rollup_row *rows, size_t max, size_t *count, struct err *err)
{
    struct rollup_fixture *fixture = ((struct fake_rollup *)ctx)->hooks.ctx;
    enum rc rc = fake_rollup_ops(ctx).read(ctx, after, until_ms, rows, max, count, err);

    fixture->rows_read += (int64_t)*count;
    return rc;
}

void rollup_fixture_init(struct rollup_fixture *fixture)
{
    *fixture = (struct rollup_fixture){
        .state = {.now_ms = NOON_MS},
        .fail_rc = RC_RETRY,
        .fake =
            {
                .hooks = {fixture, count_call, lose_answer, read_clock},
                .state = &fixture->state,
                .remarks = fixture->remarks,
                .content_id_max = CONTENTS,
                .read_total = read_total,
                .connects = count_connects,
                .on_write = count_write,
            },
    };
    fixture->store = fake_rollup_ops(&fixture->fake);
    fixture->store.read = count_read;
    for (int64_t id = 1; id <= CONTENTS; id++) {
        fixture->contents[id] = (struct content){
            .exists = true,
            .changed_ms = NOON_MS - 1 - id % 4, /* many share their time */
            .votes = id * 2,
            .seq = id,
        };
        fixture->remarks[id].found = true;
    }
}

static uint64_t no_rng(void)
{
    return 0;
}

void engine_start(struct rollup *rollup, const struct rollup_fixture *fixture, const char *owner,
                  bool once)
{
    const struct rollup_config config = {
        .store = &fixture->store,
        .owner = owner,
        .interval_ms = HOUR_MS,
        .overlap_ms = OVERLAP_MS,
        .lease_ms = LEASE_MS,
        .batch_rows_max = BATCH_ROWS,
        .once = once,
        .rng = no_rng,
    };

    assert_int_equal(rollup_init(rollup, &config, NULL), RC_OK);
}

void run_window(struct rollup *rollup)
{
    int64_t windows = rollup->windows;

    for (int i = 0; i < 200 && rollup->windows == windows; i++)
        if (rollup_step(rollup, 0) == LOOP_END)
            break;
    assert_int_equal(rollup->windows, windows + 1);
}

void assert_rolled_up(const struct rollup_fixture *fixture)
{
    for (int64_t id = 1; id <= CONTENTS; id++) {
        const struct content *content = &fixture->contents[id];

        if (!content->exists || !fixture->remarks[id].found)
            continue;
        assert_int_equal(fixture->remarks[id].votes_seq, content->seq);
        assert_int_equal(fixture->remarks[id].votes, content->votes);
    }
}

void rollup_fixture_change(struct rollup_fixture *fixture, int64_t id, int64_t changed_ms)
{
    struct content *content = &fixture->contents[id];

    content->exists = true;
    content->changed_ms = changed_ms;
    content->votes++;
    content->seq++;
}
