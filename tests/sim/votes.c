/* SPDX-License-Identifier: MIT */
/* The producer: the vote engine on a fake of its tables, and clients that send votes and check the
 * answers. */
#include "producer/vote/vote.h"

#include "outbox/outbox.h"
#include "tests/sim/roles.h"
#include "tests/sim/tables.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 8
#define TRIES_MAX 40

struct count_row {
    struct fake_row row; /* first */
    bool now_found;
    bool old_found;
    int64_t now_votes;
    int64_t old_votes;
};

struct state_row {
    struct fake_row row; /* first */
    struct vote_state_row now;
    struct vote_state_row old;
};

static struct {
    struct count_row counts[SIM_CONTENTS + 1];
    struct state_row states[SIM_VOTERS + 1][SIM_CONTENTS + 1];
} votes;

struct voter_process {
    struct proc *proc;
    size_t number;
    struct link link;
    struct vote_store store;
    struct vote_engine *engine;
    struct vote_item items[ITEMS_MAX];
    struct vote_item *list[ITEMS_MAX];
};

void votes_begin_run(struct sim *sim)
{
    (void)sim;
    memset(&votes, 0, sizeof(votes));
}

int64_t votes_count(const struct sim *sim, int64_t content_id)
{
    int64_t count = 0;

    (void)sim;
    for (size_t voter = 1; voter <= SIM_VOTERS; voter++)
        count += votes.states[voter][content_id].old.found &&
                 votes.states[voter][content_id].old.voting == 1;
    return count;
}

static void count_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct count_row *count = (struct count_row *)row;

    (void)ctx;
    if (commit) {
        count->old_found = count->now_found;
        count->old_votes = count->now_votes;
    } else {
        count->now_found = count->old_found;
        count->now_votes = count->old_votes;
    }
}

static void state_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct state_row *state = (struct state_row *)row;

    (void)ctx;
    if (commit)
        state->old = state->now;
    else
        state->now = state->old;
}

static enum rc store_ping(void *ctx, struct err *err)
{
    struct voter_process *voter = ctx;

    return link_ping(&voter->link, err);
}

static enum rc store_begin(void *ctx, struct err *err)
{
    struct voter_process *voter = ctx;

    return link_begin(&voter->link, err);
}

static enum rc store_lock_counts(void *ctx, struct vote_count_row *counts, size_t count,
                                 struct err *err)
{
    struct voter_process *voter = ctx;
    enum rc rc = link_call(&voter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct count_row *row = &votes.counts[counts[i].content_id];

        if (!row->now_found)
            continue;
        rc = link_lock(&voter->link, &row->row, err);
        if (rc != RC_OK || !row->now_found)
            continue;
        counts[i].found = true;
        counts[i].votes = row->now_votes;
    }
    return rc == RC_OK ? link_answer(&voter->link, err) : rc;
}

static enum rc store_make_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                 struct err *err)
{
    struct voter_process *voter = ctx;
    enum rc rc = link_call(&voter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct count_row *row = &votes.counts[counts[i].content_id];

        if (!counts[i].wanted && !counts[i].found)
            continue;
        rc = link_lock(&voter->link, &row->row, err);
        if (rc != RC_OK || row->now_found)
            continue;
        link_writes(&voter->link);
        link_wrote(&voter->link, &row->row, count_settle);
        row->now_found = true;
        row->now_votes = 0;
    }
    return rc == RC_OK ? link_answer(&voter->link, err) : rc;
}

static enum rc store_read_states(void *ctx, struct vote_state_row *states, size_t count,
                                 int64_t *now_ms, struct err *err)
{
    struct voter_process *voter = ctx;
    enum rc rc = link_call(&voter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct vote_state_row *old =
            &votes.states[states[i].voter_id][states[i].content_id].old;

        if (old->found)
            states[i] = *old;
    }
    *now_ms = db_calendar_ms(voter->link.db);
    return rc == RC_OK ? link_answer(&voter->link, err) : rc;
}

static enum rc store_write_states(void *ctx, const struct vote_state_row *states, size_t count,
                                  struct err *err)
{
    struct voter_process *voter = ctx;
    enum rc rc = link_call(&voter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct state_row *row = &votes.states[states[i].voter_id][states[i].content_id];

        if (!states[i].changed)
            continue;
        rc = link_lock(&voter->link, &row->row, err);
        if (rc != RC_OK)
            break;
        link_writes(&voter->link);
        link_wrote(&voter->link, &row->row, state_settle);
        row->now = states[i];
        row->now.changed = false;
    }
    return rc == RC_OK ? link_answer(&voter->link, err) : rc;
}

static enum rc store_write_counts(void *ctx, const struct vote_count_row *counts, size_t count,
                                  struct err *err)
{
    struct voter_process *voter = ctx;
    enum rc rc = link_call(&voter->link, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct count_row *row = &votes.counts[counts[i].content_id];

        if (!counts[i].changed)
            continue;
        rc = link_lock(&voter->link, &row->row, err);
        if (rc != RC_OK)
            break;
        link_writes(&voter->link);
        link_wrote(&voter->link, &row->row, count_settle);
        row->now_found = true;
        row->now_votes = counts[i].votes;
    }
    return rc == RC_OK ? link_answer(&voter->link, err) : rc;
}

static size_t lane_number(const struct sim *sim, const char *name)
{
    size_t lane = 0;

    while (strcmp(sim->tables->lanes[lane].name, name) != 0)
        lane++;
    return lane;
}

static enum rc store_append(void *ctx, const char *lane_name, const struct outbox_event *events,
                            size_t count, struct err *err)
{
    struct voter_process *voter = ctx;
    struct sim *sim = voter->proc->sim;
    size_t lane = lane_number(sim, lane_name);
    enum rc rc = link_call(&voter->link, err);
    int64_t seq;

    if (rc != RC_OK)
        return rc;
    seq = tables_reserve(&voter->link, lane, count);
    for (size_t i = 0; i < count; i++) {
        size_t number = sim_event_find(sim, events[i].id.bytes);
        struct event *event = &sim->events[number];

        sscanf(events[i].aggregate_id, "%" SCNd64, &event->key);
        assert(events[i].payload_len < sizeof(event->value));
        memcpy(event->value, events[i].payload, events[i].payload_len);
        event->value[events[i].payload_len] = '\0';
        event->value_len = events[i].payload_len;
        id_format(&events[i].id, event->id);
        event->voting = strstr(event->value, "\"voting\":1") != NULL;
        sscanf(strstr(event->value, "\"occurredAt\""), "\"occurredAt\":%" SCNd64,
               &event->occurred_ms);
        tables_insert(&voter->link, lane, seq + (int64_t)i, number);
    }
    return link_answer(&voter->link, err);
}

static enum rc store_commit(void *ctx, struct err *err)
{
    struct voter_process *voter = ctx;

    return link_commit(&voter->link, err);
}

static void store_rollback(void *ctx)
{
    struct voter_process *voter = ctx;

    link_rollback(&voter->link);
}

static bool store_collided(void *ctx, const struct err *err)
{
    (void)ctx;
    return err->code == DB_DEADLOCK_CODE || err->code == DB_LOCK_WAIT_CODE;
}

static struct vote_store store_of(struct voter_process *voter)
{
    return (struct vote_store){
        .ctx = voter,
        .ping = store_ping,
        .begin = store_begin,
        .lock_counts = store_lock_counts,
        .make_counts = store_make_counts,
        .read_states = store_read_states,
        .write_states = store_write_states,
        .write_counts = store_write_counts,
        .append = store_append,
        .commit = store_commit,
        .rollback = store_rollback,
        .collided = store_collided,
    };
}

/* Event ids hold the number of an event that we keep. */
static void event_rng_bytes(void *bytes, size_t len)
{
    uint8_t *at = bytes;

    for (size_t i = 0; i + 10 <= len; i += 10) {
        size_t number = sim_event_make(sim_running, EVENT_VOTE, 1) + 1;

        memset(at + i, 0, 6);
        for (int n = 0; n < 4; n++)
            at[i + 6 + (size_t)n] = (uint8_t)(number >> (24 - 8 * n));
    }
}

/* The promise: an answered vote is committed. */
static void check_answer(struct voter_process *voter, const struct vote_item *item)
{
    struct sim *sim = voter->proc->sim;
    size_t number;

    if (item->outcome != VOTE_DONE || !item->has_event)
        return;
    number = sim_event_find(sim, item->event_id.bytes);
    if (sim->events[number].order == 0)
        sim_fail(sim, item->content_id,
                 "accepted: %s answered voter %lld's vote for content %lld with event %zu, which "
                 "is not committed",
                 voter->proc->name, (long long)item->voter_id, (long long)item->content_id, number);
}

static void batch(struct voter_process *voter)
{
    struct sim *sim = voter->proc->sim;
    size_t count = (size_t)sim_between(sim, 1, ITEMS_MAX);
    struct vote_batch work;
    struct err err;

    for (size_t i = 0; i < count; i++) {
        voter->items[i] = (struct vote_item){
            .voter_id = sim_between(sim, 1, SIM_VOTERS),
            .content_id = sim_between(sim, 1, SIM_CONTENTS),
            .voting = sim_chance(sim, 600),
        };
        voter->list[i] = &voter->items[i];
    }
    vote_batch_start(&work, voter->list, count);
    for (int tries = 0; tries < TRIES_MAX && !vote_batch_finished(&work); tries++) {
        if (vote_engine_step(voter->engine, &work, &err) != RC_OK)
            sched_pause(&sim->sched, sim_between(sim, 5, 200));
    }
    for (size_t i = 0; i < count; i++)
        check_answer(voter, &voter->items[i]);
}

static void thread(void *arg)
{
    struct voter_process *voter = arg;
    struct sim *sim = voter->proc->sim;

    while (sim->writing && !voter->proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 5, 250));
        batch(voter);
    }
    proc_exit(voter->proc);
}

static void start(struct proc *proc)
{
    struct voter_process *voter = proc->role;
    struct vote_engine_config config = {
        .store = &voter->store,
        .items_max = ITEMS_MAX,
        .lane_count = proc->sim->plan.lanes,
        .rng_bytes = event_rng_bytes,
    };

    proc_start(proc, "voter", voter->number);
    link_init(&voter->link, proc, proc->sim->main_db);
    voter->store = store_of(voter);
    if (vote_engine_open(&voter->engine, &config, NULL) != RC_OK)
        abort(); /* no memory */
    proc_thread(proc, thread, voter);
}

static void end(struct proc *proc)
{
    struct voter_process *voter = proc->role;

    link_close(&voter->link);
    vote_engine_close(voter->engine);
}

size_t voter_bytes(void)
{
    return sizeof(struct voter_process);
}

void voter_add(void *memory, struct sim *sim, size_t number)
{
    struct voter_process *voter = memory;

    voter->number = number;
    voter->proc = proc_add(sim, voter, start, end);
}
