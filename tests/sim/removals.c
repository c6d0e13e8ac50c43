/* SPDX-License-Identifier: MIT */
/* The shared fakes of the remover's stores on simulated connections, and a model of deletions that
 * knows only which events and rows were committed. */
#include "tests/sim/removals.h"

#include "tests/sim/rankings.h"
#include "tests/sim/sink.h"
#include "tests/sim/tables.h"
#include "tests/sim/votes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct sim *sim_of(const struct removal_adapter *adapter)
{
    return adapter->votes_link.db->sim;
}

static const char *name_of(const struct removal_adapter *adapter)
{
    return adapter->votes_link.proc->name;
}

void removals_begin_run(struct removal_tables *tables, struct sim *sim)
{
    memset(tables, 0, sizeof(*tables));
    tables->tick = 1;
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        struct removal_history *history = &tables->histories[content];

        history->deleted_order = history->closed_order = -1;
        tables->remarks[content].old.found = sim->sink->remarks[content].found;
        tables->remarks[content].now = tables->remarks[content].old;
        /* Rows of vote_last, as a consumer that compared votes has left them. */
        for (int64_t voter = 1; sim->plan.serves > 0 && !sim->plan.anyone && voter <= SIM_VOTERS;
             voter++) {
            struct fake_last *last = &sim->sink->lasts[content][voter];

            history->lasts[voter] = sim_chance(sim, 500);
            last->now = (struct last_row){.content_id = content,
                                          .voter_id = voter,
                                          .voting = 1,
                                          .found = history->lasts[voter]};
            last->old = last->now;
        }
    }
}

void removals_add_remark(struct sim *sim, int64_t content)
{
    struct fake_removal_row *row = &sim->removals->remarks[content];

    row->now.found = row->old.found = true;
}

bool removals_was_removed(const struct sim *sim, int64_t content)
{
    return sim->removals->histories[content].removed;
}

/* The number of tombstones of a content that removers have committed. */
static size_t count_tombstones(const struct sim *sim, int64_t content)
{
    size_t count = 0;

    for (size_t i = 0; i < sim->event_count; i++)
        count += sim->events[i].closes && sim->events[i].key == content && sim->events[i].order > 0;
    return count;
}

/* vote_state, vote_count and deleted_content */

static struct fake_deletion *deletion_of(void *ctx, int64_t content_id)
{
    return &sim_of(ctx)->removals->deletions[content_id];
}

static void append(void *ctx, const char *lane_name, const struct outbox_event *events,
                   size_t count)
{
    struct removal_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    size_t lane = votes_lane_number(sim, lane_name);
    size_t number = sim_event_find(sim, events[0].id.bytes);
    struct event *event = &sim->events[number];
    int64_t seq = tables_reserve(&adapter->votes_link, lane, 1);

    assert(count == 1 && !events[0].payload);
    sscanf(events[0].aggregate_id, "%" SCNd64, &event->key);
    id_format(&events[0].id, event->id);
    event->closes = true;
    tables_insert(&adapter->votes_link, lane, seq, number);
}

static void note_deletion(void *ctx, const struct fake_deletion *deletion)
{
    const struct removal_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    int64_t content = deletion - sim->removals->deletions;
    struct removal_history *history = &sim->removals->histories[content];
    int64_t order = sim->order_next[content];

    if (deletion->now.found && !deletion->old.found) {
        history->deleted_tick = ++sim->removals->tick;
        history->deleted_order = adapter->total_locked ? order : -1;
        sim_tell(sim, name_of(adapter), content, "deletes content %lld, total locked %lld", content,
                 adapter->total_locked, 0);
    }
    if (deletion->now.closed && !deletion->old.closed) {
        history->closed_order = order;
        sim_tell(sim, name_of(adapter), content, "closes content %lld after %lld events", content,
                 order, 0);
    }
}

/* The promise P6: no vote is removed before its content is closed, and its tombstone committed. */
static void check_votes_go(const struct removal_adapter *adapter, int64_t content)
{
    struct sim *sim = sim_of(adapter);

    if (!sim->removals->deletions[content].old.closed || count_tombstones(sim, content) == 0)
        sim_fail(sim, content, "P6: %s removes the votes of content %lld, which is not closed",
                 name_of(adapter), (long long)content);
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

static enum rc delete_states(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                             struct err *err)
{
    struct removal_adapter *adapter = ctx;
    struct link *link = &adapter->votes_link;
    enum rc rc = link_begin(link, err);

    check_votes_go(adapter, content_id);
    for (int64_t voter = 1; rc == RC_OK && voter <= SIM_VOTERS && *count < rows_max; voter++) {
        struct fake_state *state = votes_state_of(NULL, voter, content_id);

        if (!state->now.found && !state->old.found)
            continue;
        rc = link_lock(link, &state->row, err);
        if (rc != RC_OK || !state->now.found)
            continue;
        fake_wrote(&adapter->votes.session, &state->row, settle_state, NULL);
        state->now.found = false;
        ++*count;
    }
    return rc == RC_OK ? link_commit(link, err) : rc;
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

static enum rc delete_count(void *ctx, int64_t content_id, struct err *err)
{
    struct removal_adapter *adapter = ctx;
    struct link *link = &adapter->votes_link;
    struct fake_count *count = votes_count_of(NULL, content_id);
    enum rc rc = link_begin(link, err);

    check_votes_go(adapter, content_id);
    if (rc == RC_OK)
        rc = link_lock(link, &count->row, err);
    if (rc != RC_OK)
        return rc;
    fake_wrote(&adapter->votes.session, &count->row, settle_count, NULL);
    count->now = (struct fake_count_version){.found = false};
    return link_commit(link, err);
}

/* remark, vote_tally and vote_last */

static int64_t item_of(void *ctx, int64_t id)
{
    (void)ctx;
    return rankings_item_of(id);
}

static bool is_ended(void *ctx, int64_t content_id)
{
    return sim_of(ctx)->sink->totals[content_id].old.ended;
}

static bool is_remark_refused(void *ctx, int64_t id)
{
    struct sim *sim = sim_of(ctx);

    (void)id;
    return !sim->healed && sim_chance(sim, sim->plan.remark_refused);
}

/* The promise P6: vote_last and the remark stay until the tally has ended. */
static void check_ended(const struct removal_adapter *adapter, int64_t content, const char *what)
{
    struct sim *sim = sim_of(adapter);

    if (!sim->sink->totals[content].old.ended)
        sim_fail(sim, content, "P6: %s removes %s of content %lld, whose tally has not ended",
                 name_of(adapter), what, (long long)content);
}

static void settle_last(void *ctx, struct fake_row *row, bool commit)
{
    struct fake_last *last = (struct fake_last *)row;

    (void)ctx;
    if (commit)
        last->old = last->now;
    else
        last->now = last->old;
}

static enum rc delete_lasts(void *ctx, int64_t content_id, size_t rows_max, size_t *count,
                            struct err *err)
{
    struct removal_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    enum rc rc = RC_OK;

    check_ended(adapter, content_id, "vote_last");
    for (int64_t voter = 1; rc == RC_OK && voter <= SIM_VOTERS && *count < rows_max; voter++) {
        struct fake_last *last = &sim->sink->lasts[content_id][voter];

        if (!last->now.found && !last->old.found)
            continue;
        rc = link_lock(&adapter->sink_link, &last->row, err);
        if (rc != RC_OK || !last->now.found)
            continue;
        fake_wrote(&adapter->fake.session, &last->row, settle_last, NULL);
        last->now.found = false;
        ++*count;
    }
    return rc;
}

static void note_remark(void *ctx, const struct fake_removal_row *row)
{
    const struct removal_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    int64_t content = row - sim->removals->remarks;

    if (row->now.deleted && !row->old.deleted)
        sim_tell(sim, name_of(adapter), content, "marks the remark of content %lld", content, 0, 0);
    if (row->now.found || !row->old.found)
        return;
    check_ended(adapter, content, "the remark");
    sim->sink->remarks[content].found = false;
    sim->removals->histories[content].removed = true;
    sim_tell(sim, name_of(adapter), content, "removes the remark of content %lld", content, 0, 0);
}

void removal_adapter_init(struct removal_adapter *adapter, struct proc *proc)
{
    link_init(&adapter->votes_link, proc, proc->sim->main_db);
    link_init(&adapter->sink_link, proc, proc->sim->sink_db);
    adapter->total_locked = true;
    adapter->votes = (struct fake_votes){
        .session = link_session(&adapter->votes_link),
        .ctx = adapter,
        .count_of = votes_count_of,
        .state_of = votes_state_of,
        .append = append,
        .deletion_of = deletion_of,
        .on_deletion = note_deletion,
        .delete_states = delete_states,
        .delete_count = delete_count,
    };
    adapter->votes_ops = fake_votes_ops(&adapter->votes);
    adapter->fake = (struct fake_removal){
        .session = link_session(&adapter->sink_link),
        .rows = proc->sim->removals->remarks,
        .id_max = SIM_CONTENTS,
        .ctx = adapter,
        .item_of = item_of,
        .is_ended = is_ended,
        .delete_lasts = delete_lasts,
        .refuses_remark = is_remark_refused,
        .on_row = note_remark,
    };
    adapter->ops = fake_removal_ops(&adapter->fake);
    adapter->marks = fake_removal_marks(&adapter->fake);
}

void removal_adapter_close(struct removal_adapter *adapter)
{
    link_close(&adapter->votes_link);
    link_close(&adapter->sink_link);
}

/* The id holds the number of an event that we keep. */
void removals_rng_bytes(void *bytes, size_t len)
{
    uint8_t *at = bytes;
    size_t number = sim_event_make(sim_running, EVENT_END, 1) + 1;

    assert(len == 10);
    memset(at, 0, len);
    for (int n = 0; n < 4; n++)
        at[6 + n] = (uint8_t)(number >> (24 - 8 * n));
}

/* The promises at the end */

int64_t removals_count_votes(const struct sim *sim, int64_t content)
{
    int64_t votes = 0;

    for (size_t i = 0; i < sim->event_count; i++) {
        const struct event *event = &sim->events[i];

        if (event->kind == EVENT_VOTE && event->key == content && event->order > 0)
            votes += event->voting ? 1 : -1;
    }
    return votes;
}

bool removals_rest(const struct sim *sim, struct waiting *waiting)
{
    for (int64_t content = 1; sim->plan.serves > 0 && content <= SIM_CONTENTS; content++) {
        const struct fake_removal_version *row = &sim->removals->remarks[content].old;

        waiting->key = content;
        if (row->found && row->deleted)
            return snprintf(waiting->text, sizeof(waiting->text),
                            "the remark of content %lld is marked and not removed",
                            (long long)content) < 0;
    }
    waiting->key = STORY_ALL;
    return true;
}

/* The promises P4 and P5: what a deletion has ordered, no vote follows. */
static void check_order(struct sim *sim, int64_t content)
{
    const struct removal_history *history = &sim->removals->histories[content];

    for (size_t i = 0; i < sim->event_count && !sim->failed; i++) {
        const struct event *event = &sim->events[i];

        if (event->kind != EVENT_VOTE || event->key != content || event->order == 0)
            continue;
        if (history->closed_order >= 0 && event->order > history->closed_order)
            sim_fail(sim, content, "P5: event %zu of content %lld follows its tombstone", i,
                     (long long)content);
        else if (history->deleted_order >= 0 && event->order > history->deleted_order)
            sim_fail(sim, content,
                     "P4: event %zu of content %lld follows a deletion that had its total locked",
                     i, (long long)content);
        else if (history->deleted_tick > 0 && event->begin_tick >= history->deleted_tick)
            sim_fail(sim, content,
                     "P4: event %zu is of a vote that began when content %lld was deleted", i,
                     (long long)content);
        if (sim->failed)
            sim_focus(sim, i, i);
    }
}

/* The vote of a voter by its last committed event; -1: there is none. */
static int find_vote(const struct sim *sim, int64_t content, int64_t voter)
{
    int64_t order = 0;
    int voting = -1;

    for (size_t i = 0; i < sim->event_count; i++) {
        const struct event *event = &sim->events[i];
        int64_t voter_id = 0;

        if (event->kind != EVENT_VOTE || event->key != content || event->order <= order)
            continue;
        sscanf(strstr(event->value, "\"voterId\""), "\"voterId\":%" SCNd64, &voter_id);
        if (voter_id != voter)
            continue;
        order = event->order;
        voting = event->voting;
    }
    return voting;
}

/* The rows of a content that is removed are gone; those of all others are what their events say. */
static void check_rows(struct sim *sim, int64_t content)
{
    const struct removal_history *history = &sim->removals->histories[content];
    const struct fake_count *count = votes_count_of(NULL, content);

    for (int64_t voter = 1; voter <= SIM_VOTERS && !sim->failed; voter++) {
        const struct vote_state_row *state = &votes_state_of(NULL, voter, content)->old;
        const struct last_row *last = &sim->sink->lasts[content][voter].old;
        int vote = history->removed || sim->plan.anyone ? -1 : find_vote(sim, content, voter);

        if (state->found != (vote >= 0) || (vote >= 0 && state->voting != vote))
            sim_fail(sim, content, "P6: voter %lld has vote %d in vote_state, not %d",
                     (long long)voter, state->found ? state->voting : -1, vote);
        else if (history->removed && last->found)
            sim_fail(sim, content, "P6: voter %lld has a row of vote_last for removed content %lld",
                     (long long)voter, (long long)content);
        else if (!history->removed && !sim->plan.anyone && last->found != history->lasts[voter])
            sim_fail(sim, content, "P6: the row of vote_last of voter %lld was removed too",
                     (long long)voter);
    }
    if (history->removed && count->old.found)
        sim_fail(sim, content, "P6: vote_count has a row of removed content %lld",
                 (long long)content);
    else if (!history->removed && !sim->plan.anyone &&
             count->old.votes != removals_count_votes(sim, content))
        sim_fail(sim, content, "P6: vote_count has %lld votes of content %lld, not %lld",
                 (long long)count->old.votes, (long long)content,
                 (long long)removals_count_votes(sim, content));
}

void removals_check(struct sim *sim)
{
    for (int64_t content = 1; content <= SIM_CONTENTS && !sim->failed; content++) {
        const struct fake_deletion_version *deletion = &sim->removals->deletions[content].old;
        size_t tombstones = count_tombstones(sim, content);

        if (tombstones != (deletion->closed ? 1 : 0))
            sim_fail(sim, content, "P5: content %lld is%s closed, and has %zu tombstones",
                     (long long)content, deletion->closed ? "" : " not", tombstones);
        else if (sim->removals->histories[content].removed && !deletion->closed)
            sim_fail(sim, content, "P6: content %lld is removed, and not closed",
                     (long long)content);
        if (!sim->failed && !sim->plan.anyone)
            check_order(sim, content);
        if (!sim->failed)
            check_rows(sim, content);
    }
}
