/* SPDX-License-Identifier: MIT */
/* The shared fake of the store on a simulated connection, and promises about what it writes. */
#include "outbox/retry/retry.h"
#include "tests/sim/tables.h"
#include "tests/sim/task_promises.h"
#include "tests/sim/task_work.h"
#include "tests/sim/tasks.h"

#include <stdio.h>
#include <string.h>

static struct sim *sim_of(const struct task_adapter *adapter)
{
    return adapter->link.db->sim;
}

static void show_task(void *ctx, const struct fake_task *base, struct task_row *row)
{
    struct task_adapter *adapter = ctx;
    struct sim_task *task = sim_task_of(sim_of(adapter)->tasks, base);

    task_key_text(base, adapter->key);
    task_idempotency_text(task, adapter->idempotency);
    snprintf(adapter->hash, sizeof(adapter->hash), "%064lld", (long long)base->id);
    row->ordering_key = base->key > 0 ? adapter->key : NULL;
    row->idempotency_key = adapter->idempotency;
    row->task_hash = adapter->hash;
    row->params = "{}";
    row->params_len = 2;
    row->params_type = "application/json";
    row->step_result = row->step > 0 ? "{}" : NULL;
    row->step_result_len = row->step > 0 ? 2 : 0;
    row->duplicate_of =
        row->waited ? 0 : task_duplicate_of(sim_of(adapter)->tasks, task, INT64_MAX);
    task->scene_version = row->scene_version;
}

static void note_lease(void *ctx, struct fake_task *task)
{
    const struct task_adapter *adapter = ctx;

    task->now.believed_ms =
        sim_now(sim_of(adapter)) + task->now.lease_until_ms - db_clock(adapter->link.db);
}

/* The end that the scene asks for when a task is exhausted; a task without a key stops no other. */
static enum task_end end_wanted(const struct sim *sim, const struct sim_task *task)
{
    static const enum task_end ends[] = {[POLICY_BLOCK] = TASK_END_BLOCK,
                                         [POLICY_PARK] = TASK_END_PARK,
                                         [POLICY_SKIP] = TASK_END_SKIP};
    const struct sim_scene_row *scene = &sim->tasks->scenes[task->scene];

    return task->base.key > 0 ? ends[scene->policy.exhausted] : TASK_END_SKIP;
}

/* The engine must count and decide as policy_decide() does. */
static void check_update(void *ctx, struct fake_task *base, const struct task_update *update)
{
    const struct task_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);
    const struct sim_task *task = sim_task_of(sim->tasks, base);
    bool counts = update->outcome && (strcmp(update->outcome, "failed") == 0 ||
                                      strcmp(update->outcome, "rejected") == 0);

    if (update->end != TASK_END_DONE && update->end != TASK_END_STEP &&
        update->attempts != base->now.attempts + counts)
        sim_fail(sim, STORY_ALL, "attempts: task %lld had %lld, and has %lld after '%s'",
                 (long long)base->id, (long long)base->now.attempts, (long long)update->attempts,
                 update->outcome ? update->outcome : "nothing");
    if (task_end_exhausts(update->end) && update->end != end_wanted(sim, task))
        sim_fail(sim, STORY_ALL, "policy: task %lld is exhausted and ends as %d instead of %d",
                 (long long)base->id, (int)update->end, (int)end_wanted(sim, task));
    if (task_end_exhausts(update->end) && update->scene_version != task->scene_version)
        sim_fail(sim, STORY_ALL,
                 "task %lld is exhausted by version %lld of its scene, and was claimed under %lld",
                 (long long)base->id, (long long)update->scene_version,
                 (long long)task->scene_version);
    if (update->ordered != (base->key > 0))
        sim_fail(sim, STORY_ALL, "task %lld has a key, and its result says otherwise",
                 (long long)base->id);
}

static enum rc make_callback(void *ctx, struct fake_task *task, const struct task_update *update,
                             struct err *err)
{
    struct task_adapter *adapter = ctx;

    return task_call_back(&adapter->link, task,
                          task_end_exhausts(update->end) ? FAKE_TASK_EXHAUSTED : FAKE_TASK_DONE,
                          err);
}

/* A server may answer late: others claim and cancel tasks of the key before the COMMIT. */
static void delay_commit(void *ctx)
{
    const struct task_adapter *adapter = ctx;
    struct sim *sim = sim_of(adapter);

    if (sim_chance(sim, sim->plan.hold))
        sched_pause(&sim->sched, sim_between(sim, 1, 500));
}

static void tell_rescue(void *ctx, struct fake_task *task)
{
    const struct task_adapter *adapter = ctx;

    sim_tell(sim_of(adapter), adapter->link.proc->name, STORY_ALL, "rescues task %lld, epoch %lld",
             task->id, task->now.epoch, 0);
}

static void each_handler(void *ctx, int64_t lease_ms, retry_on_handler on_handler,
                         void *on_handler_ctx)
{
    const struct task_adapter *adapter = ctx;
    const struct fake_instances *tables = sim_of(adapter)->tables->retries;

    for (size_t i = 0; i < TASK_HANDLERS; i++)
        for (size_t j = 0; j < tables[i].count; j++)
            if (tables[i].rows[j].seen_ms > db_clock(adapter->link.db) - lease_ms)
                on_handler(on_handler_ctx, task_handlers[i]->name);
}

static enum rc claim_heard(void *ctx, const struct task_class *class, size_t rows_max,
                           int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                           struct err *err)
{
    struct fake_task_store *fake = ctx;

    task_promise_recorded(fake->ctx, class->scene);
    group_shards_check(fake->ctx, class);
    return fake_task_store_ops(fake).claim(ctx, class, rows_max, lease_ms, on_task, on_task_ctx,
                                           full, err);
}

/* The group of all tasks here; the dispatcher reads it together with the scenes, whose call may
 * fail. */
static enum rc store_groups(void *ctx, retry_on_group on_group, void *on_group_ctx, struct err *err)
{
    struct fake_task_store *fake = ctx;
    struct task_adapter *adapter = fake->ctx;
    const struct group_shards *shards = &sim_of(adapter)->tasks->shards;
    struct retry_group group = {.name = RETRY_GROUP_DEFAULT,
                                .owner = OWNER_CLIENT,
                                .enabled = true,
                                .handlers = "*",
                                .scenes = "*"};

    adapter->list_read = shards->newest;
    memcpy(group.shards, shards->lists[shards->newest].text, sizeof(group.shards));
    return on_group(on_group_ctx, &group, err);
}

/* The classes of a look take over the list that was read last. */
static enum rc look_with_list(void *ctx, retry_on_class on_class, void *on_class_ctx,
                              struct err *err)
{
    struct fake_task_store *fake = ctx;
    struct task_adapter *adapter = fake->ctx;

    adapter->list_looked = adapter->list_read;
    return fake_task_store_ops(fake).look(ctx, on_class, on_class_ctx, err);
}

void task_adapter_init(struct task_adapter *adapter, struct proc *proc)
{
    link_init(&adapter->link, proc, proc->sim->main_db);
    adapter->recorded = 0;
    adapter->pool = NULL;
    adapter->list_read = adapter->list_looked = 0;
    adapter->fake = (struct fake_task_store){
        .session = link_session(&adapter->link),
        .tables = &proc->sim->tasks->fake,
        .owner = proc,
        .recorded = &adapter->recorded,
        .ctx = adapter,
        .show = show_task,
        .each_handler = each_handler,
        .on_lease = note_lease,
        .on_update = check_update,
        .make_callback = make_callback,
        .on_finish = delay_commit,
        .on_rescue = tell_rescue,
    };
    adapter->ops = fake_task_store_ops(&adapter->fake);
    adapter->ops.claim = claim_heard;
    adapter->ops.groups = store_groups;
    adapter->ops.look = look_with_list;
}
