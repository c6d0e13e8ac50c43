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

/* A member */

static void place_add(struct member *member, struct stream_event *event, struct hold *hold)
{
    member->places[event->count++] = (struct stream_place){{GROUP_TOPIC, hold->number}, hold};
    event->places = member->places;
}

static bool is_ours(const struct member *member, int32_t number)
{
    const struct fake_group *group = member->proc->sim->group;

    return group->owner[number] == member->number;
}

static void stream_poll(void *ctx, struct stream_event *event)
{
    struct member *member = ctx;
    struct sim *sim = member->proc->sim;
    const struct fake_group *group = sim->group;

    *event = (struct stream_event){.kind = STREAM_NOTHING};
    proc_pass(member->proc);
    if (sim_now(sim) < member->proc->cut_until_ms)
        return;
    if (!sim->healed && sim_chance(sim, sim->plan.broker_fails / 8)) {
        event->kind = STREAM_FAILURE;
        event->rc = sim_chance(sim, 30) ? RC_FATAL : RC_RETRY;
        err_set(&event->err, "kafka: all brokers are down");
        return;
    }
    for (int32_t i = 0; i < sim->plan.partitions; i++) {
        struct hold *hold = &member->holds[i];

        if (!hold->held || (is_ours(member, i) && hold->generation == group->generation[i]))
            continue;
        hold->held = false;
        event->kind = STREAM_REVOKED;
        event->lost = group->owner[i] != GROUP_NOBODY;
        place_add(member, event, hold);
    }
    if (event->kind != STREAM_NOTHING)
        return;
    for (int32_t i = 0; i < sim->plan.partitions; i++) {
        struct hold *hold = &member->holds[i];

        if (hold->held || !is_ours(member, i))
            continue;
        *hold = (struct hold){.number = i, .held = true, .generation = group->generation[i]};
        event->kind = STREAM_ASSIGNED;
        place_add(member, event, hold);
    }
}

static struct broker_partition *partition_of(const struct member *member, const struct hold *hold)
{
    return &member->proc->sim->broker->partitions[BROKER_VOTES][hold->number];
}

static enum rc stream_seek(void *ctx, void *handle, int64_t offset, int32_t leader_epoch,
                           struct err *err)
{
    struct member *member = ctx;
    struct hold *hold = handle;
    struct sim *sim = member->proc->sim;

    (void)leader_epoch;
    assert(hold->held);
    proc_pass(member->proc);
    if (!sim->healed && sim_chance(sim, sim->plan.broker_fails))
        return err_fail(err, RC_RETRY, 0, "kafka: not yet");
    hold->end = -1;
    /* A late answer to an older question may undo it. */
    if (!sim->healed && sim_chance(sim, sim->plan.seeks_lost)) {
        hold->position = sim_chance(sim, 500) ? partition_of(member, hold)->end : 0;
        return RC_OK;
    }
    hold->position = offset == OFFSET_BEGINNING ? 0 : offset;
    return RC_OK;
}

static void record_show(const struct sim *sim, const struct broker_record *record, int64_t offset,
                        char key[24], struct record *out)
{
    const struct event *event = &sim->events[record->event];

    int64_t number = event->key;
    size_t at = 23;

    key[at] = '\0';
    for (; number > 0; number /= 10)
        key[--at] = (char)('0' + number % 10);
    *out = (struct record){
        .offset = offset,
        .time_ms = SIM_WALL_MS,
        .leader_epoch = record->leader_epoch,
        .key = key + at,
        .key_len = 23 - at,
        .value = event->value,
        .value_len = event->value_len,
    };
}

#define READ_RECORDS_MAX 512

static enum rc stream_read(void *ctx, void *handle, struct record *records, size_t records_max,
                           size_t *count, struct err *err)
{
    static char keys[READ_RECORDS_MAX][24];
    struct member *member = ctx;
    struct hold *hold = handle;
    struct sim *sim = member->proc->sim;
    const struct broker_partition *from = partition_of(member, hold);

    *count = 0;
    proc_pass(member->proc);
    assert(hold->held && records_max <= READ_RECORDS_MAX);
    if (sim_now(sim) < member->proc->cut_until_ms || sim_now(sim) < from->down_until_ms ||
        sim_now(sim) < sim->group->away_until_ms)
        return RC_OK;
    if (!sim->healed && sim_chance(sim, sim->plan.broker_fails))
        return err_fail(err, RC_RETRY, 0, "kafka: the fetch failed");
    for (; *count < records_max && hold->position < from->end; hold->position++) {
        const struct broker_record *record = &from->records[hold->position];

        if (record->event != BROKER_HOLE) {
            record_show(sim, record, hold->position, keys[*count], &records[*count]);
            ++*count;
        }
    }
    hold->end = hold->position == from->end ? from->end : -1;
    return RC_OK;
}

static void stream_headers(void *ctx, const struct record *record, struct buf *out)
{
    (void)ctx;
    (void)record;
    buf_text_put(out, "[]");
}

static void stream_store_offset(void *ctx, void *handle, int64_t next_offset)
{
    (void)ctx;
    (void)handle;
    (void)next_offset;
}

static int64_t stream_high_watermark(void *ctx, void *handle)
{
    return partition_of(ctx, handle)->end;
}

static int64_t stream_end(void *ctx, void *handle)
{
    const struct hold *hold = handle;

    (void)ctx;
    return hold->end;
}

static enum rc stream_topic_id(void *ctx, const char *topic, char id[TOPIC_ID_SIZE])
{
    struct member *member = ctx;
    struct sim *sim = member->proc->sim;

    (void)topic;
    if (!sim->healed && sim_chance(sim, sim->plan.broker_fails))
        return RC_RETRY;
    memcpy(id, TOPIC_ID, sizeof(TOPIC_ID));
    return RC_OK;
}

static enum rc stream_check_topics(void *ctx, struct err *err)
{
    (void)ctx;
    (void)err;
    return RC_OK;
}

static enum rc stream_probe(void *ctx, struct err *err)
{
    struct member *member = ctx;
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
    member->ops = (struct stream){
        .ctx = member,
        .poll = stream_poll,
        .seek = stream_seek,
        .read = stream_read,
        .headers = stream_headers,
        .store_offset = stream_store_offset,
        .high_watermark = stream_high_watermark,
        .end = stream_end,
        .topic_id = stream_topic_id,
        .check_topics = stream_check_topics,
        .probe = stream_probe,
    };
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
