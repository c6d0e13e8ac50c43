/* SPDX-License-Identifier: MIT */
#include "tests/sim/replays.h"

#include "consumer/dead/dead.h"
#include "tests/sim/roles.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOPIC "vote-events"
#define ID_STEP 100000 /* more than a partition has records */

struct replay_process {
    struct proc *proc;
    size_t number;
    struct sink_adapter adapter;
    struct link writers;
    struct dead_store store;
    struct dead dead;
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
        for (int64_t offset = 0; offset < sim->sink->held_ends[n] && rows < rows_max; offset++) {
            const struct sink_dead *dead = &sim->sink->dead[n][offset];
            struct held_key key = {.id = (int64_t)n * ID_STEP + offset + 1, .partition = n};

            if (!dead->old_found || !sink_is_held(dead->old_class) || key.id <= after)
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

static struct sink_dead *dead_at(const struct sim *sim, int64_t id)
{
    return &sim->sink->dead[(id - 1) / ID_STEP][(id - 1) % ID_STEP];
}

static enum rc item_show(const struct sim *sim, int32_t partition, int64_t offset,
                         enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                            struct err *err),
                         void *item_ctx, struct err *err)
{
    const struct sink_dead *dead = &sim->sink->dead[partition][offset];
    const struct event *event = &sim->events[dead->event];
    char key[24];
    int len = snprintf(key, sizeof(key), "%lld", (long long)event->key);
    const struct dead_item item = {
        .id = (int64_t)partition * ID_STEP + offset + 1,
        .topic = TOPIC,
        .partition = partition,
        .offset = offset,
        .selected = true,
        .key = key,
        .key_len = (size_t)len,
        .value = event->value,
        .value_len = event->value_len,
        .reason_class = dead->now_class == SINK_DEAD_REFUSED ? REASON_REFUSED : REASON_BEHIND,
        .reason = "",
    };

    return on_item(item_ctx, &item, err);
}

/* SELECT ... ORDER BY record_offset LIMIT rows_max FOR UPDATE: the held records of one key. */
static enum rc store_lock_page(void *ctx, const struct dead_filter *filter,
                               const struct dead_cursor *after, size_t rows_max, bool others,
                               enum rc (*on_item)(void *item_ctx, const struct dead_item *item,
                                                  struct err *err),
                               void *item_ctx, struct err *err)
{
    struct replay_process *replay = ctx;
    struct sim *sim = sim_of(replay);
    struct link *link = &replay->adapter.link;
    int32_t partition = (int32_t)filter->partition;
    int64_t content = atoll(filter->key);
    int64_t from = after->topic[0] ? after->offset + 1 : 0;
    size_t rows = 0;
    enum rc rc = link_call(link, err);

    (void)others;
    for (int64_t offset = from;
         rc == RC_OK && offset < sim->sink->held_ends[partition] && rows < rows_max; offset++) {
        struct sink_dead *dead = &sim->sink->dead[partition][offset];

        if (!(dead->now_found || dead->old_found) || sim->events[dead->event].key != content)
            continue;
        rc = link_lock(link, &dead->row, err);
        if (rc != RC_OK || !dead->now_found || !sink_is_held(dead->now_class))
            continue;
        rows++;
        rc = item_show(sim, partition, offset, on_item, item_ctx, err);
    }
    return rc == RC_OK ? link_answer(link, err) : rc;
}

static enum rc store_write_reason(void *ctx, int64_t id, const char *reason_class,
                                  const char *reason, size_t reason_len, struct err *err)
{
    struct replay_process *replay = ctx;
    struct sink_dead *dead = dead_at(sim_of(replay), id);
    enum rc rc = link_call(&replay->adapter.link, err);

    (void)reason;
    (void)reason_len;
    if (rc != RC_OK)
        return rc;
    sink_dead_write(&replay->adapter, dead);
    dead->now_class = sink_dead_class(reason_class);
    return link_answer(&replay->adapter.link, err);
}

static enum rc store_decide(void *ctx, const int64_t *ids, size_t count,
                            enum dead_decision decision, const void *value, size_t value_len,
                            struct err *err)
{
    struct replay_process *replay = ctx;
    enum rc rc = link_call(&replay->adapter.link, err);

    (void)decision;
    (void)value;
    (void)value_len;
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct sink_dead *dead = dead_at(sim_of(replay), ids[i]);

        assert(dead->now_found);
        sink_dead_write(&replay->adapter, dead);
        dead->now_found = false;
    }
    return rc == RC_OK ? link_answer(&replay->adapter.link, err) : rc;
}

static enum rc store_count_ids(void *ctx, const int64_t *ids, size_t count, size_t *left,
                               struct err *err)
{
    struct replay_process *replay = ctx;
    enum rc rc = link_call(&replay->adapter.link, err);

    *left = 0;
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        *left += dead_at(sim_of(replay), ids[i])->old_found;
    return rc == RC_OK ? link_answer(&replay->adapter.link, err) : rc;
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
    replay->store = (struct dead_store){
        .ctx = replay,
        .lock_page = store_lock_page,
        .write_reason = store_write_reason,
        .decide = store_decide,
        .count_ids = store_count_ids,
    };
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
