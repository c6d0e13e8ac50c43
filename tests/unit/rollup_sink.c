/* SPDX-License-Identifier: MIT */
#include "tests/unit/rollup_sink.h"

#include "common/loop.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static enum rc trouble(struct sink *sink, bool after, struct err *err)
{
    if (!after)
        sink->calls++;
    if (sink->calls != sink->fail_call || after != sink->fail_after)
        return RC_OK;
    return err_fail(err, sink->fail_rc, 1, "call %d failed", (int)sink->calls);
}

static enum rc sink_look(void *ctx, struct rollup_state *state, struct err *err)
{
    struct sink *sink = ctx;
    enum rc rc = trouble(sink, false, err);

    if (rc == RC_OK)
        *state = sink->state;
    return rc == RC_OK ? trouble(sink, true, err) : rc;
}

static enum rc sink_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                         struct err *err)
{
    struct sink *sink = ctx;
    struct rollup_state *state = &sink->state;
    enum rc rc = trouble(sink, false, err);

    if (rc != RC_OK)
        return rc;
    *taken =
        state->epoch == lease->epoch - 1 &&
        (!state->owner[0] || state->lease_until_ms <= state->now_ms ||
         singleton_lease_is_implausible(state->lease_until_ms, state->now_ms, lease->lease_ms) ||
         strcmp(state->owner, lease->owner) == 0);
    if (*taken) {
        snprintf(state->owner, sizeof(state->owner), "%s", lease->owner);
        state->epoch = lease->epoch;
        state->lease_until_ms = state->now_ms + lease->lease_ms;
    }
    return trouble(sink, true, err);
}

static bool behind(const struct content *content, int64_t id, const struct rollup_place *place)
{
    if (content->changed_ms != place->changed_ms)
        return content->changed_ms > place->changed_ms;
    return id > place->content_id;
}

/* The first content behind the place, 0 when there is none up to until_ms. */
static int64_t next_content(const struct sink *sink, const struct rollup_place *place,
                            int64_t until_ms)
{
    int64_t best = 0;

    for (int64_t id = 1; id <= CONTENTS; id++) {
        const struct content *content = &sink->contents[id];

        if (!content->exists || content->changed_ms > until_ms || !behind(content, id, place))
            continue;
        if (best == 0 || content->changed_ms < sink->contents[best].changed_ms)
            best = id;
    }
    return best;
}

static enum rc sink_read(void *ctx, const struct rollup_place *after, int64_t until_ms,
                         struct rollup_row *rows, size_t max, size_t *count, struct err *err)
{
    struct sink *sink = ctx;
    struct rollup_place place = *after;
    enum rc rc = trouble(sink, false, err);

    *count = 0;
    while (rc == RC_OK && *count < max) {
        int64_t id = next_content(sink, &place, until_ms);
        const struct content *content = &sink->contents[id];

        if (id == 0)
            break;
        place = (struct rollup_place){content->changed_ms, id};
        rows[(*count)++] = (struct rollup_row){
            .place = place,
            .votes = content->votes,
            .seq = content->seq,
            .remark_seq = content->has_remark ? content->remark_seq : ROLLUP_NO_REMARK,
        };
        sink->rows_read++;
    }
    return rc == RC_OK ? trouble(sink, true, err) : rc;
}

static enum rc sink_read_due(void *ctx, int64_t after_id, struct rollup_row *rows, size_t max,
                             size_t *count, struct err *err)
{
    struct sink *sink = ctx;
    enum rc rc = trouble(sink, false, err);

    *count = 0;
    for (int64_t id = 1; rc == RC_OK && id <= CONTENTS && *count < max; id++) {
        const struct content *content = &sink->contents[id];

        if (id <= after_id || !content->has_remark || !content->due)
            continue;
        rows[(*count)++] = (struct rollup_row){
            .place = {.content_id = id},
            .votes = content->exists ? content->votes : 0,
            .seq = content->exists ? content->seq : 0,
            .remark_seq = content->remark_seq,
            .due = true,
        };
    }
    return rc == RC_OK ? trouble(sink, true, err) : rc;
}

static enum rc sink_write(void *ctx, const struct singleton_lease *lease, int64_t rolled_until_ms,
                          const struct rollup_row *rows, size_t count, uint64_t *changed,
                          bool *held, struct err *err)
{
    struct sink *sink = ctx;
    enum rc rc = trouble(sink, false, err);

    *changed = 0;
    *held = sink->state.epoch == lease->epoch;
    if (rc != RC_OK || !*held)
        return rc;
    for (size_t i = 0; i < count; i++)
        if (rows[i].place.content_id == sink->refused_id)
            return err_fail(err, RC_REJECT, 4025, "CHECK constraint");
    for (size_t i = 0; i < count; i++) {
        struct content *content = &sink->contents[rows[i].place.content_id];

        assert_true(i == 0 || rows[i - 1].place.content_id < rows[i].place.content_id);
        content->due = content->due && !rows[i].due;
        if (content->remark_seq >= rows[i].seq)
            continue;
        content->remark_seq = rows[i].seq;
        content->remark_votes = rows[i].votes;
        ++*changed;
    }
    sink->writes++;
    sink->rows_offered += (int64_t)count;
    sink->state.rolled_until_ms = rolled_until_ms;
    sink->state.lease_until_ms = sink->state.now_ms + lease->lease_ms;
    return trouble(sink, true, err);
}

static enum rc sink_finish(void *ctx, const struct singleton_lease *lease, int64_t rolled_until_ms,
                           bool *held, struct err *err)
{
    struct sink *sink = ctx;
    enum rc rc = trouble(sink, false, err);

    *held = sink->state.epoch == lease->epoch;
    if (rc != RC_OK || !*held)
        return rc;
    sink->state.rolled_until_ms = rolled_until_ms;
    sink->state.finished_ms = sink->state.now_ms;
    sink->state.lease_until_ms = sink->state.now_ms;
    sink->state.owner[0] = '\0';
    return trouble(sink, true, err);
}

static void sink_release(void *ctx, const struct singleton_lease *lease)
{
    struct sink *sink = ctx;

    if (sink->state.epoch == lease->epoch)
        sink->state.owner[0] = '\0';
}

void sink_init(struct sink *sink)
{
    *sink = (struct sink){
        .store =
            {
                .ctx = sink,
                .look = sink_look,
                .take = sink_take,
                .read = sink_read,
                .read_due = sink_read_due,
                .write = sink_write,
                .finish = sink_finish,
                .release = sink_release,
            },
        .state = {.now_ms = NOON_MS},
        .fail_rc = RC_RETRY,
    };
    for (int64_t id = 1; id <= CONTENTS; id++)
        sink->contents[id] = (struct content){
            .exists = true,
            .changed_ms = NOON_MS - 1 - id % 4, /* many share their time */
            .votes = id * 2,
            .seq = id,
            .has_remark = true,
        };
}

static uint64_t no_rng(void)
{
    return 0;
}

void engine_start(struct rollup *rollup, const struct sink *sink, const char *owner, bool once)
{
    const struct rollup_config config = {
        .store = &sink->store,
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

void assert_rolled_up(const struct sink *sink)
{
    for (int64_t id = 1; id <= CONTENTS; id++) {
        const struct content *content = &sink->contents[id];

        if (!content->exists || !content->has_remark)
            continue;
        assert_int_equal(content->remark_seq, content->seq);
        assert_int_equal(content->remark_votes, content->votes);
    }
}

void sink_change(struct sink *sink, int64_t id, int64_t changed_ms)
{
    struct content *content = &sink->contents[id];

    content->exists = true;
    content->changed_ms = changed_ms;
    content->votes++;
    content->seq++;
}
