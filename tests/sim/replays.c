/* SPDX-License-Identifier: MIT */
#include "tests/sim/replays.h"

#include "tests/sim/roles.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC "vote-events"

struct replay_process {
    struct proc *proc;
    size_t number;
    struct sink_adapter adapter;
    struct link writers;
    struct fake_dead fake;
    struct dead_store store;
    struct dead dead;
    char key[24]; /* of the record that was shown last */
    bool opened;
    size_t stays; /* records of the current replay */
};

void replays_begin_run(struct replay_tables *tables, struct sim *sim)
{
    (void)sim;
    memset(tables, 0, sizeof(*tables));
}

size_t replays_left(const struct sim *sim)
{
    size_t left = 0;

    for (int32_t partition = 0; partition < BROKER_PARTITIONS_MAX; partition++)
        for (int64_t content = 1; content <= SIM_CONTENTS; content++)
            left += sim->replays->tasks[partition][content].old_active;
    return left;
}

static void task_settle(void *ctx, struct fake_row *row, bool commit)
{
    struct replay_task *task = (struct replay_task *)row;

    (void)ctx;
    if (commit)
        task->old_active = task->now_active;
    else
        task->now_active = task->old_active;
}

/* The consumer's side */

static enum rc held_read_keys(void *ctx, int64_t after, size_t rows_max,
                              void (*on_key)(void *key_ctx, const struct held_key *key),
                              void *key_ctx, struct err *err)
{
    struct held_adapter *adapter = ctx;
    const struct sim *sim = adapter->sink.db->sim;
    size_t rows = 0;
    enum rc rc = link_call(&adapter->sink, err);

    for (int32_t n = 0; rc == RC_OK && n < BROKER_PARTITIONS_MAX; n++) {
        for (int64_t offset = 0; offset < sim->sink->dead_ends[n] && rows < rows_max; offset++) {
            const struct sink_dead *dead = &sim->sink->dead[n][offset];
            struct held_key key = {.id = dead->base.id, .partition = n};

            if (!fake_dead_is_held(&dead->base.old) || key.id <= after)
                continue;
            snprintf(key.topic, sizeof(key.topic), TOPIC);
            snprintf(key.key, sizeof(key.key), "%lld", (long long)sim->events[dead->event].key);
            on_key(key_ctx, &key);
            rows++;
        }
    }
    return rc == RC_OK ? link_answer(&adapter->sink, err) : rc;
}

static struct replay_task *task_of(const struct sim *sim, const char *ordering_key)
{
    int partition = -1;
    long long content = -1;
    int read = sscanf(ordering_key, TOPIC "/%d/%lld", &partition, &content);

    assert(read == 2);
    (void)read;
    return &sim->replays->tasks[partition][content];
}

static enum rc held_submit(void *ctx, const struct retry_new_task *tasks, size_t count,
                           size_t *made, struct err *err)
{
    struct held_adapter *adapter = ctx;
    struct sim *sim = adapter->writers.db->sim;
    enum rc rc = link_begin(&adapter->writers, err);

    *made = 0;
    if (rc == RC_OK)
        rc = link_call(&adapter->writers, err);
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct replay_task *task = task_of(sim, tasks[i].ordering_key);

        rc = link_lock(&adapter->writers, &task->row, err);
        if (rc != RC_OK || task->now_active)
            continue;
        link_writes(&adapter->writers);
        link_wrote(&adapter->writers, &task->row, task_settle);
        task->now_active = true;
        ++*made;
    }
    if (rc == RC_OK)
        rc = link_answer(&adapter->writers, err);
    if (rc == RC_OK)
        rc = link_commit(&adapter->writers, err);
    if (rc != RC_OK)
        link_rollback(&adapter->writers);
    return rc;
}

void held_adapter_init(struct held_adapter *adapter, struct proc *proc)
{
    link_init(&adapter->sink, proc, proc->sim->sink_db);
    link_init(&adapter->writers, proc, proc->sim->main_db);
    adapter->store =
        (struct held_store){.ctx = adapter, .read_keys = held_read_keys, .submit = held_submit};
}

void held_adapter_close(struct held_adapter *adapter)
{
    link_close(&adapter->sink);
    link_close(&adapter->writers);
}

/* The replaying side */

static struct sim *sim_of(const struct replay_process *replay)
{
    return replay->proc->sim;
}

static struct fake_dead_row *find_dead(void *ctx, int64_t id)
{
    return &sink_dead_at(sim_of(ctx), id)->base;
}

static void show_dead(void *ctx, const struct fake_dead_row *dead, struct dead_item *item)
{
    static const char *const classes[] = {[FAKE_DEAD_NEVER] = "decode",
                                          [FAKE_DEAD_TOO_OLD] = "too_old",
                                          [FAKE_DEAD_REFUSED] = REASON_REFUSED,
                                          [FAKE_DEAD_BEHIND] = REASON_BEHIND};
    struct replay_process *replay = ctx;
    const struct event *event = &sim_of(replay)->events[((const struct sink_dead *)dead)->event];

    item->key_len =
        (size_t)snprintf(replay->key, sizeof(replay->key), "%lld", (long long)event->key);
    item->key = replay->key;
    item->value = event->value;
    item->value_len = event->value_len;
    item->reason_class = classes[dead->now.class];
    item->reason = "";
}

static void on_result(void *ctx, const struct dead_result *result)
{
    struct replay_process *replay = ctx;

    replay->stays += result->outcome == DEAD_OUTCOME_STAYS || result->outcome == DEAD_OUTCOME_WAITS;
}

/* True when nothing of the key stays. As vote_work_replay() does it. */
static bool replay_run(struct replay_process *replay, const struct dead_filter *filter)
{
    const struct dead_config config = {
        .sink = &replay->adapter.ops,
        .store = &replay->store,
        .filter = filter,
        .rule = RECORD_KEY,
        .keep_lasts = sim_of(replay)->plan.anyone,
        .on_result = on_result,
        .ctx = replay,
    };
    bool more = true;
    struct err err;
    enum rc rc = dead_init(&replay->dead, &config, &err);

    assert(rc == RC_OK);
    replay->opened = true;
    replay->stays = 0;
    while (rc == RC_OK && more && replay->stays == 0) {
        rc = dead_step(&replay->dead, &more, &err);
        /* An attempt that fails is repeated; so is the step, when it is called again at once. */
        if (rc == RC_RETRY && sim_chance(sim_of(replay), 500))
            rc = RC_OK;
    }
    dead_done(&replay->dead);
    replay->opened = false;
    return rc == RC_OK && replay->stays == 0;
}

static void task_end(struct replay_process *replay, struct replay_task *task)
{
    struct link *link = &replay->writers;
    enum rc rc = link_begin(link, NULL);

    if (rc == RC_OK)
        rc = link_lock(link, &task->row, NULL);
    if (rc == RC_OK)
        rc = link_call(link, NULL);
    if (rc == RC_OK) {
        link_writes(link);
        link_wrote(link, &task->row, task_settle);
        task->now_active = false;
        rc = link_commit(link, NULL);
    }
    if (rc != RC_OK)
        link_rollback(link);
}

static void work(struct replay_process *replay)
{
    struct sim *sim = sim_of(replay);
    int32_t partition = (int32_t)sim_below(sim, BROKER_PARTITIONS_MAX);
    int64_t content = sim_between(sim, 1, SIM_CONTENTS);
    struct dead_filter filter = {.topic = TOPIC, .held = true, .until_ms = INT64_MAX};
    struct replay_task *task = NULL;
    char key[24];

    for (int i = 0; i < BROKER_PARTITIONS_MAX * SIM_CONTENTS && !task; i++) {
        content = content % SIM_CONTENTS + 1;
        partition = content == 1 ? (partition + 1) % BROKER_PARTITIONS_MAX : partition;
        if (sim->replays->tasks[partition][content].old_active)
            task = &sim->replays->tasks[partition][content];
    }
    if (!task)
        return;
    snprintf(key, sizeof(key), "%lld", (long long)content);
    filter.key = key;
    filter.partition = partition;
    sim_tell(sim, replay->proc->name, content, "replays content %lld of partition %lld", content,
             partition, 0);
    if (replay_run(replay, &filter))
        task_end(replay, task);
}

static void thread(void *arg)
{
    struct replay_process *replay = arg;
    struct sim *sim = sim_of(replay);

    while (!replay->proc->stopping) {
        sched_pause(&sim->sched, sim_between(sim, 1, sim->healed ? 50 : 400));
        work(replay);
    }
    proc_exit(replay->proc);
}

static void start(struct proc *proc)
{
    struct replay_process *replay = proc->role;

    proc_start(proc, "replayer", replay->number);
    sink_adapter_init(&replay->adapter, proc);
    link_init(&replay->writers, proc, proc->sim->main_db);
    replay->fake = (struct fake_dead){.sink = &replay->adapter.fake,
                                      .topic = TOPIC,
                                      .ctx = replay,
                                      .find = find_dead,
                                      .show = show_dead};
    replay->store = fake_dead_ops(&replay->fake);
    proc_thread(proc, thread, replay);
}

static void end(struct proc *proc)
{
    struct replay_process *replay = proc->role;

    link_close(&replay->adapter.link);
    link_close(&replay->writers);
    if (replay->opened)
        dead_done(&replay->dead);
    replay->opened = false;
}

size_t replayer_bytes(void)
{
    return sizeof(struct replay_process);
}

void replayer_add(void *memory, struct sim *sim, size_t number)
{
    struct replay_process *replay = memory;

    replay->number = number;
    replay->opened = false;
    replay->proc = proc_add(sim, replay, start, end);
}
