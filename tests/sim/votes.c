/* SPDX-License-Identifier: MIT */
/* The producer: the vote engine on a fake of its tables, and clients that send votes and check the
 * answers. */
#include "producer/vote/vote.h"

#include "outbox/outbox.h"
#include "tests/fakes/fake_votes.h"
#include "tests/sim/removals.h"
#include "tests/sim/roles.h"
#include "tests/sim/tables.h"
#include "tests/sim/votes.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MAX 8
#define TRIES_MAX 40

static struct {
    struct fake_count counts[SIM_CONTENTS + 1];
    struct fake_state states[SIM_VOTERS + 1][SIM_CONTENTS + 1];
} votes;

struct voter_process {
    struct proc *proc;
    int64_t begin_tick; /* before its transaction */
    size_t number;
    struct link link;
    struct fake_votes fake;
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

struct fake_count *votes_count_of(void *ctx, int64_t content_id)
{
    (void)ctx;
    return &votes.counts[content_id];
}

struct fake_state *votes_state_of(void *ctx, int64_t voter_id, int64_t content_id)
{
    (void)ctx;
    return &votes.states[voter_id][content_id];
}

static struct fake_deletion *deletion_of(void *ctx, int64_t content_id)
{
    const struct voter_process *voter = ctx;

    return &voter->proc->sim->removals->deletions[content_id];
}

size_t votes_lane_number(const struct sim *sim, const char *name)
{
    size_t lane = 0;

    while (strcmp(sim->tables->lanes[lane].name, name) != 0)
        lane++;
    return lane;
}

static void append(void *ctx, const char *lane_name, const struct outbox_event *events,
                   size_t count)
{
    struct voter_process *voter = ctx;
    struct sim *sim = voter->proc->sim;
    size_t lane = votes_lane_number(sim, lane_name);
    int64_t seq = tables_reserve(&voter->link, lane, count);

    for (size_t i = 0; i < count; i++) {
        size_t number = sim_event_find(sim, events[i].id.bytes);
        struct event *event = &sim->events[number];

        sscanf(events[i].aggregate_id, "%" SCNd64, &event->key);
        assert(events[i].payload_len < sizeof(event->value));
        memcpy(event->value, events[i].payload, events[i].payload_len);
        event->value[events[i].payload_len] = '\0';
        event->value_len = events[i].payload_len;
        event->begin_tick = voter->begin_tick;
        id_format(&events[i].id, event->id);
        event->voting = strstr(event->value, "\"voting\":1") != NULL;
        sscanf(strstr(event->value, "\"occurredAt\""), "\"occurredAt\":%" SCNd64,
               &event->occurred_ms);
        tables_insert(&voter->link, lane, seq + (int64_t)i, number);
    }
}

/* Of the session: ctx is the link. */
static int64_t read_calendar(void *ctx)
{
    const struct link *link = ctx;

    return db_calendar_ms(link->db);
}

static void store_init(struct voter_process *voter)
{
    voter->fake = (struct fake_votes){.session = link_session(&voter->link),
                                      .ctx = voter,
                                      .count_of = votes_count_of,
                                      .state_of = votes_state_of,
                                      .deletion_of = deletion_of,
                                      .append = append};
    voter->fake.session.hooks.now_ms = read_calendar;
    voter->store = fake_votes_ops(&voter->fake);
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

    if (item->outcome == VOTE_DELETED && !sim->removals->deletions[item->content_id].old.found)
        sim_fail(sim, item->content_id,
                 "accepted: %s answered that content %lld is deleted, which it is not",
                 voter->proc->name, (long long)item->content_id);
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
        voter->begin_tick = sim->removals->tick;
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
    store_init(voter);
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
