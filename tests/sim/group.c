/* SPDX-License-Identifier: MIT */
#include "tests/sim/group.h"

#include <assert.h>
#include <string.h>

#define TOPIC_ID "0b5f3c5e-topic-of-votes"

void group_begin_run(struct fake_group *group, struct sim *sim)
{
    memset(group, 0, sizeof(*group));
    group->sim = sim;
    group->session_ms = 1200;
    for (int32_t i = 0; i < BROKER_PARTITIONS_MAX; i++)
        group->owner[i] = GROUP_NOBODY;
}

static void ring(struct fake_group *group, int owner)
{
    if (owner != GROUP_NOBODY && group->members[owner] && group->members[owner]->fetch)
        sched_wake(&group->sim->sched, group->members[owner]->fetch);
}

void group_news(struct sim *sim, int topic, int32_t partition)
{
    if (topic == BROKER_VOTES)
        ring(sim->group, sim->group->owner[partition]);
}

static void own(struct fake_group *group, int32_t partition, int owner)
{
    ring(group, group->owner[partition]);
    group->owner[partition] = owner;
    group->generation[partition]++;
    ring(group, owner);
    sim_tell(group->sim, "group", STORY_ALL, "gives partition %lld to consumer %lld", partition,
             owner, 0);
}

void group_rebalance(struct sim *sim)
{
    struct fake_group *group = sim->group;

    if (group->assign_ms != 0)
        return;
    group->assign_ms = sim_now(sim) + sim_between(sim, 0, 200);
    for (int32_t i = 0; sim->plan.eager && i < sim->plan.partitions; i++)
        if (group->owner[i] != GROUP_NOBODY)
            own(group, i, GROUP_NOBODY);
}

static int some_member(struct fake_group *group)
{
    int chosen = GROUP_NOBODY;
    size_t seen = 0;

    for (int i = 0; i < SIM_CONSUMERS_MAX; i++)
        if (group->joined[i] && sim_below(group->sim, ++seen) == 0)
            chosen = i;
    return chosen;
}

static void assign(struct fake_group *group)
{
    struct sim *sim = group->sim;

    group->assign_ms = 0;
    for (int32_t i = 0; i < sim->plan.partitions; i++) {
        int owner = group->owner[i];

        if (owner != GROUP_NOBODY && group->joined[owner] && !sim_chance(sim, 300))
            continue;
        owner = some_member(group);
        if (owner != group->owner[i] || sim_chance(sim, 500))
            own(group, i, owner);
    }
}

/* Heartbeats have a thread of their own: only a process that is frozen or cut off is silent. */
void group_tend(struct fake_group *group)
{
    struct sim *sim = group->sim;
    int64_t now_ms = sim_now(sim);

    for (int i = 0; i < SIM_CONSUMERS_MAX; i++) {
        const struct member *member = group->members[i];

        if (member && now_ms >= member->proc->frozen_until_ms &&
            now_ms >= member->proc->cut_until_ms) {
            group->heard_ms[i] = now_ms;
            if (!group->joined[i]) {
                group->joined[i] = true;
                group_rebalance(sim);
            }
        }
        if (group->joined[i] && now_ms - group->heard_ms[i] > group->session_ms) {
            group->joined[i] = false;
            sim_tell(sim, "group", STORY_ALL, "has not heard of consumer %lld", i, 0, 0);
            group_rebalance(sim);
        }
    }
    if (group->assign_ms != 0 && now_ms >= group->assign_ms)
        assign(group);
}

/* A member: hooks of the shared fake of its stream */

static struct broker_partition *partition_of(const struct member *member, int32_t number)
{
    return &member->proc->sim->broker->partitions[BROKER_VOTES][number];
}

static bool hear(void *ctx, struct stream_event *event)
{
    const struct member *member = ctx;
    struct sim *sim = member->proc->sim;

    proc_pass(member->proc);
    if (sim_now(sim) < member->proc->cut_until_ms)
        return false;
    if (sim->healed || !sim_chance(sim, sim->plan.broker_fails / 8))
        return true;
    event->kind = STREAM_FAILURE;
    event->rc = sim_chance(sim, 30) ? RC_FATAL : RC_RETRY;
    err_set(&event->err, "kafka: all brokers are down");
    return false;
}

static int64_t assignment(void *ctx, int32_t number, bool *owned)
{
    const struct member *member = ctx;
    const struct fake_group *group = member->proc->sim->group;

    *owned = group->owner[number] != GROUP_NOBODY;
    return group->owner[number] == member->number ? group->generation[number] : -1;
}

static enum rc seek(void *ctx, int32_t number, int64_t *position, struct err *err)
{
    const struct member *member = ctx;
    struct sim *sim = member->proc->sim;

    proc_pass(member->proc);
    if (!sim->healed && sim_chance(sim, sim->plan.broker_fails))
        return err_fail(err, RC_RETRY, 0, "kafka: not yet");
    /* A late answer to an older question may undo it. */
    if (!sim->healed && sim_chance(sim, sim->plan.seeks_lost))
        *position = sim_chance(sim, 500) ? partition_of(member, number)->end : 0;
    return RC_OK;
}

static enum rc fetch_records(void *ctx, int32_t number, bool *answers, struct err *err)
{
    const struct member *member = ctx;
    struct sim *sim = member->proc->sim;

    proc_pass(member->proc);
    *answers = sim_now(sim) >= member->proc->cut_until_ms &&
               sim_now(sim) >= partition_of(member, number)->down_until_ms &&
               sim_now(sim) >= sim->group->away_until_ms;
    if (*answers && !sim->healed && sim_chance(sim, sim->plan.broker_fails))
        return err_fail(err, RC_RETRY, 0, "kafka: the fetch failed");
    return RC_OK;
}

static int64_t begin(void *ctx, int32_t number)
{
    (void)ctx;
    (void)number;
    return 0;
}

static int64_t end(void *ctx, int32_t number)
{
    return partition_of(ctx, number)->end;
}

static bool show(void *ctx, int32_t number, int64_t offset, size_t n, struct record *out)
{
    struct member *member = ctx;
    const struct broker_record *record = &partition_of(member, number)->records[offset];
    const struct event *event;
    int64_t key;
    size_t at = sizeof(member->keys[0]) - 1;

    if (record->event == BROKER_HOLE)
        return false;
    assert(n < GROUP_READ_RECORDS_MAX);
    event = &member->proc->sim->events[record->event];
    member->keys[n][at] = '\0';
    for (key = event->key; key > 0; key /= 10)
        member->keys[n][--at] = (char)('0' + key % 10);
    *out = (struct record){
        .time_ms = SIM_WALL_MS,
        .leader_epoch = record->leader_epoch,
        .key = &member->keys[n][at],
        .key_len = sizeof(member->keys[0]) - 1 - at,
        .value = event->kind == EVENT_END ? NULL : event->value,
        .value_len = event->value_len,
    };
    return true;
}

static void store_offset(void *ctx, void *handle, int64_t next_offset)
{
    (void)ctx;
    (void)handle;
    (void)next_offset;
}

static enum rc read_topic_id(void *ctx, const char *topic, char id[TOPIC_ID_SIZE])
{
    const struct member *member = ((struct fake_stream *)ctx)->ctx;
    struct sim *sim = member->proc->sim;

    (void)topic;
    if (!sim->healed && sim_chance(sim, sim->plan.broker_fails))
        return RC_RETRY;
    memcpy(id, TOPIC_ID, sizeof(TOPIC_ID));
    return RC_OK;
}

static enum rc check_topics(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

static enum rc probe(void *ctx, struct err *err)
{
    const struct member *member = ((struct fake_stream *)ctx)->ctx;
    const struct sim *sim = member->proc->sim;

    proc_pass(member->proc);
    if (sim_now(sim) < member->proc->cut_until_ms)
        return err_fail(err, RC_RETRY, 0, "kafka: no broker answers");
    return RC_OK;
}

void member_init(struct member *member, struct proc *proc, int number)
{
    memset(member, 0, sizeof(*member));
    member->proc = proc;
    member->number = number;
    member->fake = (struct fake_stream){
        .topic = GROUP_TOPIC,
        .partition_count = &proc->sim->plan.partitions,
        .ctx = member,
        .hear = hear,
        .assignment = assignment,
        .seek = seek,
        .fetch = fetch_records,
        .begin = begin,
        .end = end,
        .show = show,
    };
    member->ops = fake_stream_ops(&member->fake);
    member->ops.store_offset = store_offset;
    member->ops.topic_id = read_topic_id;
    member->ops.check_topics = check_topics;
    member->ops.probe = probe;
    proc->sim->group->members[number] = member;
}

void member_leave(struct member *member)
{
    struct fake_group *group = member->proc->sim->group;

    member_gone(member);
    group->joined[member->number] = false;
    group_rebalance(group->sim);
}

void member_gone(struct member *member)
{
    member->fetch = NULL;
    member->proc->sim->group->members[member->number] = NULL;
}
