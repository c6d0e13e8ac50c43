/* SPDX-License-Identifier: MIT */
#include "tests/sim/promises.h"

#include "tests/sim/broker.h"
#include "tests/sim/months.h"
#include "tests/sim/replays.h"
#include "tests/sim/retry_queue.h"
#include "tests/sim/roles.h"
#include "tests/sim/sink.h"
#include "tests/sim/task_promises.h"

#include <stdio.h>
#include <string.h>

static bool is_applied(const struct world *world, int32_t number)
{
    const struct broker_partition *partition = &world->broker->partitions[BROKER_VOTES][number];
    int64_t last = partition->end;

    while (last > 0 && partition->records[last - 1].event == BROKER_HOLE)
        last--;
    return last == 0 || world->sink->progress[number].old.next_offset >= last;
}

static bool is_rolled_up(const struct world *world, int64_t content)
{
    const struct fake_remark *remark = &world->sink->remarks[content];
    const struct sink_total *total = &world->sink->totals[content];

    return !remark->found || !total->old_found || remark->votes_seq == total->old_seq;
}

/* The first row that is still in the table. */
static bool rows_left(const struct world *world, const struct outbox_table *table,
                      struct waiting *waiting)
{
    int64_t seq = 1;

    if (table->left == 0)
        return false;
    while (table->rows[seq].state != OUTBOX_COMMITTED)
        seq++;
    waiting->key = world->events[table->rows[seq].event].key;
    snprintf(waiting->text, sizeof(waiting->text),
             "%s holds %lld rows, the first is seq %lld (event %zu, key %lld)", table->name,
             (long long)table->left, (long long)seq, table->rows[seq].event,
             (long long)waiting->key);
    return true;
}

/* Whether votes are dead for a cause that has passed. */
static bool is_held(const struct world *world, struct waiting *waiting)
{
    for (int32_t n = 0; n < BROKER_PARTITIONS_MAX; n++) {
        for (int64_t offset = 0; offset < world->sink->held_ends[n]; offset++) {
            const struct sink_dead *dead = &world->sink->dead[n][offset];

            if (!dead->old_found || !sink_is_held(dead->old_class))
                continue;
            waiting->key = world->events[dead->event].key;
            snprintf(waiting->text, sizeof(waiting->text),
                     "event %zu of content %lld is dead, though the log would take it", dead->event,
                     (long long)waiting->key);
            return true;
        }
    }
    return false;
}

bool promises_rest(const struct world *world, struct waiting *waiting)
{
    char *text = waiting->text;
    size_t size = sizeof(waiting->text);

    waiting->key = STORY_ALL;
    for (size_t i = 0; i < world->proc_count; i++)
        if (world->procs[i].ends && !world->procs[i].finished)
            return snprintf(text, size, "%s has not ended", world->procs[i].name) < 0;
    if (world->broker->ghost_count > 0)
        return snprintf(text, size, "requests are under way") < 0;
    for (size_t lane = 0; lane < world->plan.lanes; lane++)
        if (rows_left(world, &world->tables->lanes[lane], waiting))
            return false;
    if (retry_left(world) > 0)
        return snprintf(text, size, "the retry queue has %zu tasks", retry_left(world)) < 0;
    if (relays_diverted_keys(world) > 0)
        return snprintf(text, size, "%zu keys are not on the fast path, and have no task",
                        relays_diverted_keys(world)) < 0;
    for (int32_t i = 0; i < world->plan.partitions; i++)
        if (!is_applied(world, i))
            return snprintf(text, size, "partition %d is applied up to %lld of %lld", (int)i,
                            (long long)world->sink->progress[i].old.next_offset,
                            (long long)world->broker->partitions[BROKER_VOTES][i].end) < 0;
    if (is_held(world, waiting))
        return false;
    if (replays_left(world) > 0)
        return snprintf(text, size, "%zu tasks of held contents are left", replays_left(world)) < 0;
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        waiting->key = content;
        if (!is_rolled_up(world, content))
            return snprintf(text, size,
                            "the remark of content %lld is of seq %lld, its total of seq %lld",
                            (long long)content, (long long)world->sink->remarks[content].votes_seq,
                            (long long)world->sink->totals[content].old_seq) < 0;
    }
    waiting->key = STORY_ALL;
    if (!months_rest(world, waiting))
        return false;
    return task_promises_rest(world, waiting);
}

static const char *kind_name(const struct event *event)
{
    switch (event->kind) {
    case EVENT_VOTE:
        return "vote";
    case EVENT_STEP:
        return "event";
    case EVENT_POISON:
        break;
    }
    return "poison";
}

static bool is_too_old(const struct world *world, int32_t partition, int64_t offset)
{
    const struct sink_dead *dead = &world->sink->dead[partition][offset];

    return dead->old_found && dead->old_class == SINK_DEAD_TOO_OLD;
}

/* A record that comes again when its month may be dropped is dead: no table tells whether it is in
 * the log. */
static void count_too_old(struct world *world)
{
    for (size_t i = 0; i < world->event_count; i++)
        world->events[i].too_old = 0;
    for (int32_t n = 0; n < world->plan.partitions; n++)
        for (int64_t offset = 0; offset < world->broker->partitions[BROKER_VOTES][n].end; offset++)
            if (is_too_old(world, n, offset))
                world->events[world->sink->dead[n][offset].event].too_old++;
}

/* What vote_last makes of the votes of applications in the order of their topic, by the first
 * record of each: which are stale, as repeats or for their age, and how many voters vote for each
 * content in the end. */
static void judge_anyone(struct world *world)
{
    struct last {
        int voting;
        int64_t occurred_ms;
    } lasts[SIM_CONTENTS + 1][SIM_VOTERS + 1] = {0};

    memset(world->expected_votes, 0, sizeof(world->expected_votes));
    for (size_t i = 0; i < world->event_count; i++)
        world->events[i].stale = false;
    for (int32_t n = 0; n < world->plan.partitions; n++) {
        const struct broker_partition *partition = &world->broker->partitions[BROKER_VOTES][n];

        for (int64_t offset = 0; offset < partition->end; offset++) {
            size_t number = partition->records[offset].event;
            struct event *event = number == BROKER_HOLE ? NULL : &world->events[number];
            struct last *last;

            if (!event || event->kind != EVENT_VOTE || event->judged ||
                is_too_old(world, n, offset))
                continue;
            event->judged = true;
            last = &lasts[event->key][event->voter_id];
            event->stale = event->occurred_ms < last->occurred_ms || event->voting == last->voting;
            if (event->occurred_ms < last->occurred_ms)
                continue;
            world->expected_votes[event->key] += event->voting - last->voting;
            *last = (struct last){event->voting, event->occurred_ms};
        }
    }
}

static void check_events(struct world *world)
{
    for (size_t i = 0; i < world->event_count && !world->failed; i++) {
        const struct event *event = &world->events[i];
        const char *kind = kind_name(event);

        if (event->undone && event->published == 0)
            continue;
        if (event->order == 0 && event->published + event->logged > 0)
            world_fail(world, event->key, "phantom: event %zu (%s %s) was never committed", i, kind,
                       event->id);
        else if (event->order > 0 && event->published == 0 && !event->skipped)
            world_fail(world, event->key, "lost: event %zu (%s %s, key %lld) is not in the topic",
                       i, kind, event->id, (long long)event->key);
        else if (event->stale && event->logged > event->too_old && !world->grown)
            world_fail(world, event->key,
                       "stale: event %zu (%s %s, key %lld) repeats its voter's last vote or is "
                       "older, and is logged",
                       i, kind, event->id, (long long)event->key);
        else if (event->order > 0 && event->kind != EVENT_STEP && event->logged == 0 &&
                 !event->stale && !(world->plan.anyone && world->grown))
            world_fail(world, event->key,
                       "lost: event %zu (%s %s, key %lld) is neither logged nor kept as dead", i,
                       kind, event->id, (long long)event->key);
        else if (event->kind == EVENT_VOTE && event->logged - event->too_old > 1)
            world_fail(world, event->key, "twice: event %zu (%s %s, key %lld) is logged %lld times",
                       i, kind, event->id, (long long)event->key, (long long)event->logged);
        if (world->failed)
            world_focus(world, i, i);
    }
}

static void check_topic_order(struct world *world, const struct broker_partition *partition)
{
    static bool seen[SIM_EVENTS_MAX];
    int64_t order[SIM_KEYS + 1] = {0};
    size_t last[SIM_KEYS + 1] = {0};

    memset(seen, 0, sizeof(seen));
    for (int64_t offset = 0; offset < partition->end && !world->failed; offset++) {
        size_t number = partition->records[offset].event;
        const struct event *event = &world->events[number];

        if (number == BROKER_HOLE || seen[number] || event->skipped || event->undone)
            continue;
        seen[number] = true;
        if (event->order < order[event->key] && !world->grown)
            world_fail(world, event->key,
                       "order: event %zu (seq %lld of lane %zu) of key %lld came into the topic "
                       "after its successor %zu (seq %lld)",
                       number, (long long)event->seq, event->lane, (long long)event->key,
                       last[event->key], (long long)world->events[last[event->key]].seq);
        if (world->failed)
            world_focus(world, number, last[event->key]);
        order[event->key] = event->order;
        last[event->key] = number;
    }
}

static bool is_logged(const struct world *world, size_t event)
{
    return world->sink->votes[event].old_found || world->sink->votes[event].dropped;
}

/* The events of a content in the order of content_seq: no hole, no event before its predecessor,
 * totals that follow from the votes. */
static void check_log(struct world *world, int64_t content)
{
    const struct sink_total *total = &world->sink->totals[content];
    int64_t order = 0;
    int64_t sum = 0;

    for (int64_t seq = 1; seq <= total->old_seq && !world->failed; seq++) {
        size_t at = 0;
        const struct event *event;

        while (at < world->event_count &&
               (world->events[at].kind != EVENT_VOTE || world->events[at].key != content ||
                !is_logged(world, at) || world->sink->votes[at].seq != seq))
            at++;
        if (at == world->event_count) {
            world_fail(world, content, "totals: content %lld has no row with content_seq %lld",
                       (long long)content, (long long)seq);
            return;
        }
        event = &world->events[at];
        sum += event->voting ? 1 : -1;
        if (event->order < order && !event->undone && !world->grown)
            world_fail(world, content,
                       "order: event %zu of content %lld is logged behind a successor, with "
                       "content_seq %lld",
                       at, (long long)content, (long long)seq);
        else if (world->sink->votes[at].votes != sum)
            world_fail(world, content,
                       "totals: event %zu of content %lld is logged with votes %lld instead of "
                       "%lld",
                       at, (long long)content, (long long)world->sink->votes[at].votes,
                       (long long)sum);
        if (!event->undone)
            order = event->order;
    }
}

static void check_totals(struct world *world, int64_t content)
{
    const struct sink_total *total = &world->sink->totals[content];
    const struct fake_remark *remark = &world->sink->remarks[content];
    int64_t votes = world->plan.anyone
                        ? world->expected_votes[content]
                        : votes_count(world, content) - months_refused_votes(world, content);

    if (world->plan.anyone && world->grown)
        return;
    if (total->old_votes != votes)
        world_fail(world, content, "totals: content %lld has votes %lld, %lld voters vote for it",
                   (long long)content, (long long)total->old_votes, (long long)votes);
    else if (remark->found && total->old_found && remark->votes != votes)
        world_fail(world, content, "roll-up: the remark of content %lld says %lld votes, not %lld",
                   (long long)content, (long long)remark->votes, (long long)votes);
}

void promises_check(struct world *world)
{
    count_too_old(world);
    if (world->plan.anyone)
        judge_anyone(world);
    check_events(world);
    for (int topic = 0; topic < BROKER_TOPICS; topic++)
        for (int32_t i = 0; i < world->plan.partitions; i++)
            check_topic_order(world, &world->broker->partitions[topic][i]);
    for (int64_t content = 1; content <= SIM_CONTENTS && !world->failed; content++) {
        check_log(world, content);
        check_totals(world, content);
    }
    if (world->plan.housekeepers > 0 && !world->failed)
        months_check_totals(world);
    task_promises_check(world);
}
