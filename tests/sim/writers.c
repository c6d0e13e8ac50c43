/* SPDX-License-Identifier: MIT */
/* Other applications: transactions of their own around one or two INSERTs into the outbox, which
 * lock a row that orders their events, commit late, hang, conflict and roll back. */
#include "consumer/apply/date.h"
#include "outbox/lanes.h"
#include "tests/sim/roles.h"
#include "tests/sim/tables.h"

#include <stdio.h>
#include <string.h>

#define EVENTS_MAX 4
#define AGE_MAX 30
#define AGE_STEP_MS 64
#define AGE_DAYS 2 /* where months pass */

struct writer_process {
    struct proc *proc;
    size_t number;
    struct link link;
};

static size_t lane_of(const struct sim *sim, int64_t key)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)key);
    return outbox_lane_of(text, sim->plan.lanes);
}

static enum rc key_lock(struct writer_process *writer, int64_t key, struct err *err)
{
    struct sim *sim = writer->proc->sim;
    enum rc rc = link_call(&writer->link, err);

    if (rc == RC_OK)
        rc = link_lock(&writer->link, &sim->tables->keys[key], err);
    if (rc == RC_OK && sim_chance(sim, 500))
        link_writes(&writer->link); /* an UPDATE, not a SELECT FOR UPDATE */
    return rc == RC_OK ? link_answer(&writer->link, err) : rc;
}

static size_t event_make(struct sim *sim, int64_t key)
{
    bool poison = sim_chance(sim, sim->plan.poison);
    size_t number = sim_event_make(sim, poison ? EVENT_POISON : EVENT_STEP, key);
    struct event *event = &sim->events[number];
    int len = snprintf(event->value, sizeof(event->value), "{\"n\":%zu}", number);

    event->value_len = (size_t)len;
    return number;
}

/* A vote of another application, which knows nothing of the voter's last one: it may repeat that,
 * or be of an earlier time, which no two votes share. */
static size_t vote_make(struct sim *sim, int64_t content)
{
    size_t number = sim_event_make(sim, EVENT_VOTE, content);
    struct event *event = &sim->events[number];
    int64_t back = sim_chance(sim, 500) ? sim_between(sim, 0, AGE_MAX) : 0;
    int len;

    event->voter_id = sim_between(sim, 1, SIM_VOTERS);
    event->voting = sim_chance(sim, 600);
    if (sim->plan.housekeepers > 0)
        event->occurred_ms =
            db_calendar_ms(sim->main_db) - back * AGE_DAYS * MS_PER_DAY + (int64_t)number;
    else
        event->occurred_ms =
            SIM_WALL_MS + AGE_STEP_MS * ((int64_t)number - back) + (int64_t)number % AGE_STEP_MS;
    len = snprintf(event->value, sizeof(event->value),
                   "{\"eventId\":\"%s\",\"voterId\":%lld,\"contentId\":%lld,\"voting\":%d,"
                   "\"votes\":0,\"occurredAt\":%lld}",
                   event->id, (long long)event->voter_id, (long long)content, event->voting,
                   (long long)event->occurred_ms);
    event->value_len = (size_t)len;
    return number;
}

/* The application deletes the content: its tombstone, though others go on voting. */
static size_t end_make(struct sim *sim, int64_t content)
{
    return sim_event_make(sim, EVENT_END, content);
}

/* The rng is asked only where tombstones are planned: the stories of other seeds stay as they were.
 */
static bool is_end(struct sim *sim)
{
    return sim->plan.ends > 0 && sim_chance(sim, sim->plan.ends);
}

/* One INSERT of several rows: their seqs are reserved before the first is written. */
static enum rc insert(struct writer_process *writer, int64_t key, size_t count, struct err *err)
{
    struct sim *sim = writer->proc->sim;
    size_t lane = lane_of(sim, key);
    enum rc rc = link_call(&writer->link, err);
    int64_t seq;

    if (rc != RC_OK)
        return rc;
    seq = tables_reserve(&writer->link, lane, count);
    for (size_t i = 0; i < count; i++) {
        if (sim_chance(sim, sim->plan.reserve_slowly))
            sched_pause_aside(&sim->sched, sim_between(sim, 0, i == 0 ? 300 : 900));
        if (!writer->link.session)
            return err_fail(err, RC_RETRY, 2006, "server has gone away");
        tables_insert(&writer->link, lane, seq + (int64_t)i,
                      key > SIM_CONTENTS ? event_make(sim, key)
                      : is_end(sim)      ? end_make(sim, key)
                                         : vote_make(sim, key));
    }
    return link_answer(&writer->link, err);
}

static enum rc transaction(struct writer_process *writer, struct err *err)
{
    struct sim *sim = writer->proc->sim;
    size_t keys = sim_chance(sim, 250) ? 2 : 1;
    enum rc rc = link_begin(&writer->link, err);

    for (size_t i = 0; rc == RC_OK && i < keys; i++) {
        int64_t key = sim->plan.anyone && sim_chance(sim, 700)
                          ? sim_between(sim, 1, SIM_CONTENTS)
                          : sim_between(sim, SIM_CONTENTS + 1, SIM_KEYS);

        rc = key_lock(writer, key, err);
        if (rc == RC_OK)
            rc = insert(writer, key, (size_t)sim_between(sim, 1, EVENTS_MAX), err);
        if (rc == RC_OK && sim_chance(sim, sim->plan.hold))
            sched_pause(&sim->sched, sim_between(sim, 1, 4000));
    }
    if (rc != RC_OK)
        return rc;
    if (sim_chance(sim, sim->plan.roll_back)) {
        link_rollback(&writer->link);
        return RC_OK;
    }
    return link_commit(&writer->link, err);
}

static void thread(void *arg)
{
    struct writer_process *writer = arg;
    struct sim *sim = writer->proc->sim;
    struct err err;

    while (sim->writing && !writer->proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 1, 120));
        if (transaction(writer, &err) != RC_OK)
            link_rollback(&writer->link);
    }
    proc_exit(writer->proc);
}

static void start(struct proc *proc)
{
    struct writer_process *writer = proc->role;

    proc_start(proc, "writer", writer->number);
    link_init(&writer->link, proc, proc->sim->main_db);
    proc_thread(proc, thread, writer);
}

static void end(struct proc *proc)
{
    struct writer_process *writer = proc->role;

    link_close(&writer->link);
}

size_t writer_bytes(void)
{
    return sizeof(struct writer_process);
}

void writer_add(void *memory, struct sim *sim, size_t number)
{
    struct writer_process *writer = memory;

    writer->number = number;
    writer->proc = proc_add(sim, writer, start, end);
}
