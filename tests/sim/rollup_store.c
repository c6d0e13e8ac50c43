/* SPDX-License-Identifier: MIT */
#include "tests/sim/sink.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static struct world *world_of(const struct rollup_edge *edge)
{
    return edge->link.db->world;
}

/* Each call is its own transaction; the state's row is the lock of all that write. */
static enum rc state_begin(struct rollup_edge *edge, struct err *err)
{
    enum rc rc = link_begin(&edge->link, err);

    if (rc == RC_OK)
        rc = link_call(&edge->link, err);
    if (rc == RC_OK)
        rc = link_lock(&edge->link, &world_of(edge)->sink->state_row, err);
    if (rc == RC_OK)
        rc = link_answer(&edge->link, err);
    if (rc != RC_OK)
        link_rollback(&edge->link);
    return rc;
}

/* The COMMIT reaches the database. What it commits is written by the caller then: nobody else reads
 * it before, for it is locked. */
static enum rc state_commit(struct rollup_edge *edge, struct err *err)
{
    enum rc rc = link_call(&edge->link, err);

    if (rc == RC_OK && !edge->link.session->open)
        rc = err_fail(err, RC_RETRY, 2006, "server has gone away");
    if (rc != RC_OK)
        link_rollback(&edge->link);
    return rc;
}

/* An application inserts remarks of contents that may long have votes. */
static void remarks_appear(struct world *world)
{
    for (int64_t content = 1; content <= SIM_CONTENTS && !world->healed; content++) {
        struct sink_remark *remark = &world->sink->remarks[content];

        if (remark->found || !world_chance(world, 20))
            continue;
        remark->found = true;
        remark->due = true;
        world_tell(world, "application", content, "inserts the remark of content %lld", content, 0,
                   0);
    }
}

static enum rc store_look(void *ctx, struct rollup_state *state, struct err *err)
{
    struct rollup_edge *edge = ctx;
    enum rc rc = link_call(&edge->link, err);

    if (rc != RC_OK)
        return rc;
    remarks_appear(world_of(edge));
    *state = world_of(edge)->sink->state;
    state->now_ms = db_clock(edge->link.db);
    return link_answer(&edge->link, err);
}

bool sink_lease_is_free(const char *owner, int64_t lease_until_ms, int64_t now_ms,
                        const struct singleton_lease *lease)
{
    return owner[0] == '\0' || lease_until_ms <= now_ms ||
           singleton_lease_is_implausible(lease_until_ms, now_ms, lease->lease_ms) ||
           strcmp(owner, lease->owner) == 0;
}

static enum rc store_take(void *ctx, const struct singleton_lease *lease, bool *taken,
                          struct err *err)
{
    struct rollup_edge *edge = ctx;
    struct rollup_state *state = &world_of(edge)->sink->state;
    enum rc rc = state_begin(edge, err);

    *taken = false;
    if (rc == RC_OK)
        rc = state_commit(edge, err);
    if (rc != RC_OK)
        return rc;
    if (state->epoch == lease->epoch - 1 &&
        sink_lease_is_free(state->owner, state->lease_until_ms, db_clock(edge->link.db), lease)) {
        snprintf(state->owner, sizeof(state->owner), "%s", lease->owner);
        state->epoch = lease->epoch;
        state->lease_until_ms = db_clock(edge->link.db) + lease->lease_ms;
        *taken = true;
        world_tell(world_of(edge), edge->link.proc->name, STORY_DETAIL,
                   "takes the roll-up with epoch %lld", lease->epoch, 0, 0);
    }
    link_rollback(&edge->link);
    return link_answer(&edge->link, err);
}

static bool is_behind(const struct rollup_place *a, const struct rollup_place *b)
{
    return a->changed_ms > b->changed_ms ||
           (a->changed_ms == b->changed_ms && a->content_id > b->content_id);
}

static enum rc store_read(void *ctx, const struct rollup_place *after, int64_t until_ms,
                          struct rollup_row *rows, size_t max, size_t *count, struct err *err)
{
    struct rollup_edge *edge = ctx;
    const struct sink_tables *tables = world_of(edge)->sink;
    struct rollup_place last = *after;
    enum rc rc = link_call(&edge->link, err);

    remarks_appear(world_of(edge));
    *count = 0;
    while (rc == RC_OK && *count < max) {
        struct rollup_place best = {INT64_MAX, INT64_MAX};

        for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
            const struct sink_total *total = &tables->totals[content];
            const struct rollup_place place = {total->old_changed_ms, content};

            if (total->old_found && place.changed_ms <= until_ms && is_behind(&place, &last) &&
                is_behind(&best, &place))
                best = place;
        }
        if (best.content_id == INT64_MAX)
            break;
        last = best;
        rows[(*count)++] = (struct rollup_row){
            .place = best,
            .votes = tables->totals[best.content_id].old_votes,
            .seq = tables->totals[best.content_id].old_seq,
            .remark_seq = tables->remarks[best.content_id].found
                              ? tables->remarks[best.content_id].votes_seq
                              : ROLLUP_NO_REMARK,
        };
    }
    return rc == RC_OK ? link_answer(&edge->link, err) : rc;
}

static enum rc store_read_due(void *ctx, int64_t after_id, struct rollup_row *rows, size_t max,
                              size_t *count, struct err *err)
{
    struct rollup_edge *edge = ctx;
    const struct sink_tables *tables = world_of(edge)->sink;
    enum rc rc = link_call(&edge->link, err);

    *count = 0;
    for (int64_t content = 1; rc == RC_OK && content <= SIM_CONTENTS && *count < max; content++) {
        const struct sink_total *total = &tables->totals[content];
        const struct sink_remark *remark = &tables->remarks[content];

        if (content <= after_id || !remark->found || !remark->due)
            continue;
        rows[(*count)++] = (struct rollup_row){
            .place = {.content_id = content},
            .votes = total->old_found ? total->old_votes : 0,
            .seq = total->old_found ? total->old_seq : 0,
            .remark_seq = remark->votes_seq,
            .due = true,
        };
    }
    return rc == RC_OK ? link_answer(&edge->link, err) : rc;
}

static void remark_write(struct rollup_edge *edge, const struct rollup_row *row, uint64_t *changed)
{
    struct world *world = world_of(edge);
    struct sink_remark *remark = &world->sink->remarks[row->place.content_id];

    if (!remark->found)
        return;
    remark->due = remark->due && !row->due;
    if (world->fault != FAULT_ROLLUP_UNFENCED && remark->votes_seq >= row->seq)
        return;
    if (remark->votes_seq > row->seq)
        world_fail(world, row->place.content_id,
                   "roll-up: %s takes the remark of content %lld back from seq %lld to %lld",
                   edge->link.proc->name, (long long)row->place.content_id,
                   (long long)remark->votes_seq, (long long)row->seq);
    remark->votes = row->votes;
    remark->votes_seq = row->seq;
    ++*changed;
    world_tell(world, edge->link.proc->name, row->place.content_id,
               "rolls up content %lld: votes %lld of seq %lld", row->place.content_id, row->votes,
               row->seq);
}

static bool is_held(const struct rollup_edge *edge, const struct singleton_lease *lease)
{
    const struct rollup_state *state = &world_of(edge)->sink->state;

    return world_of(edge)->fault == FAULT_ROLLUP_UNFENCED ||
           (state->epoch == lease->epoch && strcmp(state->owner, lease->owner) == 0);
}

static enum rc store_write(void *ctx, const struct singleton_lease *lease, int64_t rolled_until_ms,
                           const struct rollup_row *rows, size_t count, uint64_t *changed,
                           bool *held, struct err *err)
{
    struct rollup_edge *edge = ctx;
    struct rollup_state *state = &world_of(edge)->sink->state;
    enum rc rc = state_begin(edge, err);

    *changed = 0;
    *held = false;
    if (rc == RC_OK)
        rc = state_commit(edge, err);
    if (rc != RC_OK)
        return rc;
    *held = is_held(edge, lease);
    for (size_t i = 0; *held && i < count; i++)
        remark_write(edge, &rows[i], changed);
    if (*held && state->epoch == lease->epoch) {
        state->rolled_until_ms = rolled_until_ms;
        state->lease_until_ms = db_clock(edge->link.db) + lease->lease_ms;
    }
    link_rollback(&edge->link);
    return link_answer(&edge->link, err);
}

static enum rc store_finish(void *ctx, const struct singleton_lease *lease, int64_t rolled_until_ms,
                            bool *held, struct err *err)
{
    struct rollup_edge *edge = ctx;
    struct rollup_state *state = &world_of(edge)->sink->state;
    enum rc rc = state_begin(edge, err);

    *held = false;
    if (rc == RC_OK)
        rc = state_commit(edge, err);
    if (rc != RC_OK)
        return rc;
    /* As singleton_mysql_check_end(): the COMMIT of the last try may have worked. */
    *held = is_held(edge, lease) || (state->epoch == lease->epoch && state->owner[0] == '\0');
    if (is_held(edge, lease) && state->epoch == lease->epoch) {
        state->owner[0] = '\0';
        state->lease_until_ms = state->finished_ms = db_clock(edge->link.db);
        state->rolled_until_ms = rolled_until_ms;
    }
    link_rollback(&edge->link);
    return link_answer(&edge->link, err);
}

static void store_release(void *ctx, const struct singleton_lease *lease)
{
    struct rollup_edge *edge = ctx;
    struct rollup_state *state = &world_of(edge)->sink->state;

    if (link_call(&edge->link, NULL) == RC_OK && state->epoch == lease->epoch &&
        strcmp(state->owner, lease->owner) == 0)
        state->owner[0] = '\0';
}

void rollup_edge_init(struct rollup_edge *edge, struct proc *proc)
{
    link_init(&edge->link, proc, proc->world->sink_db);
    edge->ops = (struct rollup_store){
        .ctx = edge,
        .look = store_look,
        .take = store_take,
        .read = store_read,
        .read_due = store_read_due,
        .write = store_write,
        .finish = store_finish,
        .release = store_release,
    };
}
