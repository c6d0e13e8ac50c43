/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_rollup.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool fake_singleton_lease_is_free(const char *owner, int64_t lease_until_ms, int64_t now_ms,
                                  const struct singleton_lease *lease)
{
    return owner[0] == '\0' || lease_until_ms <= now_ms ||
           singleton_lease_is_implausible(lease_until_ms, now_ms, lease->lease_ms) ||
           strcmp(owner, lease->owner) == 0;
}

static enum rc send_call(struct fake_rollup *fake, enum rc (*call)(void *ctx, struct err *err),
                         struct err *err)
{
    return call ? call(fake->hooks.ctx, err) : fake->hooks.call(fake->hooks.ctx, err);
}

static enum rc get_answer(struct fake_rollup *fake, struct err *err)
{
    return fake->hooks.answer(fake->hooks.ctx, err);
}

static int64_t read_clock(const struct fake_rollup *fake)
{
    return fake->hooks.now_ms(fake->hooks.ctx);
}

/* RC_OK: the transaction has the row of rollup_state locked, and its COMMIT has reached the server.
 * The caller writes what is committed: no other transaction reads it before the row is free. */
static enum rc begin_commit(struct fake_rollup *fake, struct err *err)
{
    enum rc rc = send_call(fake, fake->begin, err);

    return rc == RC_OK && fake->commit ? fake->commit(fake->hooks.ctx, err) : rc;
}

static enum rc end_commit(struct fake_rollup *fake, struct err *err)
{
    if (fake->unlock)
        fake->unlock(fake->hooks.ctx);
    return get_answer(fake, err);
}

static enum rc fake_look(void *ctx, struct rollup_state *state, struct err *err)
{
    struct fake_rollup *fake = ctx;
    enum rc rc = send_call(fake, fake->call_look, err);

    if (rc != RC_OK)
        return rc;
    *state = *fake->state;
    state->now_ms = read_clock(fake);
    return get_answer(fake, err);
}

static uint64_t count_connects(const struct fake_rollup *fake)
{
    return fake->connects ? fake->connects(fake->hooks.ctx) : 0;
}

static enum rc fake_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                         struct err *err)
{
    struct fake_rollup *fake = ctx;
    struct rollup_state *state = fake->state;
    enum rc rc = begin_commit(fake, err);

    *taken = false;
    if (rc != RC_OK)
        return rc;
    *taken =
        state->epoch == lease->epoch - 1 &&
        fake_singleton_lease_is_free(state->owner, state->lease_until_ms, read_clock(fake), lease);
    if (*taken) {
        snprintf(state->owner, sizeof(state->owner), "%s", lease->owner);
        state->epoch = lease->epoch;
        state->lease_until_ms = read_clock(fake) + lease->lease_ms;
        fake->lease_connects = count_connects(fake);
        if (fake->on_take)
            fake->on_take(fake->hooks.ctx, lease);
    }
    return end_commit(fake, err);
}

static bool is_behind(const struct rollup_place *a, const struct rollup_place *b)
{
    return a->changed_ms > b->changed_ms ||
           (a->changed_ms == b->changed_ms && a->content_id > b->content_id);
}

/* False: no total has changed behind the place, up to until_ms. */
static bool find_next(struct fake_rollup *fake, const struct rollup_place *last, int64_t until_ms,
                      struct rollup_place *next, struct fake_total *next_total)
{
    *next = (struct rollup_place){INT64_MAX, INT64_MAX};
    for (int64_t content = 1; content <= fake->content_id_max; content++) {
        struct fake_total total;
        struct rollup_place place;

        fake->read_total(fake->hooks.ctx, content, &total);
        place = (struct rollup_place){total.changed_ms, content};
        if (!total.found || place.changed_ms > until_ms || !is_behind(&place, last) ||
            !is_behind(next, &place))
            continue;
        *next = place;
        *next_total = total;
    }
    return next->content_id != INT64_MAX;
}

static enum rc fake_read(void *ctx, const struct rollup_place *after, int64_t until_ms,
                         struct rollup_row *rows, size_t max, size_t *count, struct err *err)
{
    struct fake_rollup *fake = ctx;
    struct rollup_place last = *after;
    struct rollup_place next;
    struct fake_total total;
    enum rc rc = send_call(fake, fake->call_read, err);

    *count = 0;
    while (rc == RC_OK && *count < max && find_next(fake, &last, until_ms, &next, &total)) {
        const struct fake_remark *remark = &fake->remarks[next.content_id];

        last = next;
        rows[(*count)++] = (struct rollup_row){
            .place = next,
            .votes = total.votes,
            .seq = total.seq,
            .remark_seq = remark->found ? remark->votes_seq : ROLLUP_NO_REMARK,
        };
    }
    return rc == RC_OK ? get_answer(fake, err) : rc;
}

static enum rc fake_read_due(void *ctx, int64_t after_id, struct rollup_row *rows, size_t max,
                             size_t *count, struct err *err)
{
    struct fake_rollup *fake = ctx;
    enum rc rc = send_call(fake, NULL, err);

    *count = 0;
    for (int64_t content = 1; rc == RC_OK && content <= fake->content_id_max && *count < max;
         content++) {
        const struct fake_remark *remark = &fake->remarks[content];
        struct fake_total total;

        if (content <= after_id || !remark->found || !remark->due)
            continue;
        fake->read_total(fake->hooks.ctx, content, &total);
        rows[(*count)++] = (struct rollup_row){
            .place = {.content_id = content},
            .votes = total.found ? total.votes : 0,
            .seq = total.found ? total.seq : 0,
            .remark_seq = remark->votes_seq,
            .due = true,
        };
    }
    return rc == RC_OK ? get_answer(fake, err) : rc;
}

int64_t fake_remark_listed_votes(const struct fake_remark *remark, const struct rollup_state *state)
{
    return remark->votes_window > state->finished_window ? remark->votes_before : remark->votes;
}

static void write_remark(struct fake_rollup *fake, int64_t window, const struct rollup_row *row,
                         uint64_t *changed)
{
    struct fake_remark *remark = &fake->remarks[row->place.content_id];

    if (!remark->found)
        return;
    remark->due = remark->due && !row->due;
    if (!fake->unfenced && remark->votes_seq >= row->seq)
        return;
    if (fake->on_remark)
        fake->on_remark(fake->hooks.ctx, remark, row);
    if (remark->votes_window != window)
        remark->votes_before = remark->votes;
    remark->votes_window = window;
    remark->votes = row->votes;
    remark->votes_seq = row->seq;
    ++*changed;
}

static bool is_held(const struct fake_rollup *fake, const struct singleton_lease *lease)
{
    return fake->unfenced ||
           (fake->state->epoch == lease->epoch && strcmp(fake->state->owner, lease->owner) == 0);
}

static enum rc fake_write(void *ctx, const struct singleton_lease *lease,
                          const struct rollup_progress *progress, const struct rollup_row *rows,
                          size_t count, uint64_t *changed, bool *held, struct err *err)
{
    struct fake_rollup *fake = ctx;
    struct rollup_state *state = fake->state;
    enum rc rc = begin_commit(fake, err);

    *changed = 0;
    *held = false;
    if (rc != RC_OK)
        return rc;
    *held = is_held(fake, lease) && fake->lease_connects == count_connects(fake);
    if (*held && fake->on_write) {
        rc = fake->on_write(fake->hooks.ctx, rows, count, err);
        if (rc != RC_OK && fake->unlock)
            fake->unlock(fake->hooks.ctx);
        if (rc != RC_OK)
            return rc;
    }
    for (size_t i = 0; *held && i < count; i++) {
        assert(i == 0 || rows[i - 1].place.content_id < rows[i].place.content_id);
        write_remark(fake, progress->window, &rows[i], changed);
    }
    if (*held && state->epoch == lease->epoch) {
        state->rolled_until_ms = progress->rolled_until_ms;
        state->started_window = progress->window;
        state->lease_until_ms = read_clock(fake) + lease->lease_ms;
    }
    return end_commit(fake, err);
}

static enum rc fake_finish(void *ctx, const struct singleton_lease *lease,
                           const struct rollup_progress *progress, bool *held, struct err *err)
{
    struct fake_rollup *fake = ctx;
    struct rollup_state *state = fake->state;
    enum rc rc = begin_commit(fake, err);

    *held = false;
    if (rc != RC_OK)
        return rc;
    /* The COMMIT of an earlier try, whose answer was lost, may have worked. */
    *held = (is_held(fake, lease) || (state->epoch == lease->epoch && state->owner[0] == '\0')) &&
            fake->lease_connects == count_connects(fake);
    if (*held && is_held(fake, lease) && state->epoch == lease->epoch) {
        state->owner[0] = '\0';
        state->lease_until_ms = state->finished_ms = read_clock(fake);
        state->rolled_until_ms = progress->rolled_until_ms;
        state->started_window = state->finished_window = progress->window;
        for (int64_t content = 1; content <= fake->content_id_max; content++)
            fake->remarks[content].listed_votes = fake->remarks[content].votes;
    }
    return end_commit(fake, err);
}

static void fake_release(void *ctx, const struct singleton_lease *lease)
{
    struct fake_rollup *fake = ctx;
    struct rollup_state *state = fake->state;

    if (send_call(fake, NULL, NULL) == RC_OK && state->epoch == lease->epoch &&
        strcmp(state->owner, lease->owner) == 0)
        state->owner[0] = '\0';
}

struct rollup_store fake_rollup_ops(struct fake_rollup *fake)
{
    return (struct rollup_store){
        .ctx = fake,
        .read_state = fake_look,
        .take = fake_take,
        .read = fake_read,
        .read_due = fake_read_due,
        .write = fake_write,
        .finish = fake_finish,
        .release = fake_release,
    };
}
