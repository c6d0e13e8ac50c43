/* SPDX-License-Identifier: MIT */
#include "tests/sim/promises.h"

#include "tests/sim/broker.h"
#include "tests/sim/months.h"
#include "tests/sim/rankings.h"
#include "tests/sim/removals.h"
#include "tests/sim/replays.h"
#include "tests/sim/retry_queue.h"
#include "tests/sim/roles.h"
#include "tests/sim/sink.h"
#include "tests/sim/task_promises.h"
#include "tests/sim/votes.h"

#include <stdio.h>
#include <string.h>

static bool is_applied(const struct sim *sim, int32_t number)
{
    const struct broker_partition *partition = &sim->broker->partitions[BROKER_VOTES][number];
    int64_t last = partition->end;

    while (last > 0 && partition->records[last - 1].event == BROKER_HOLE)
        last--;
    return last == 0 || sim->sink->progress[number].old.row.next_offset >= last;
}

static bool is_rolled_up(const struct sim *sim, int64_t content)
{
    const struct fake_remark *remark = &sim->sink->remarks[content];
    const struct fake_tally *total = &sim->sink->totals[content];

    return !remark->found || !total->old.found || remark->votes_seq == total->old.seq;
}

/* The first row that is still in the table. */
static bool rows_left(const struct sim *sim, const struct outbox_table *table,
                      struct waiting *waiting)
{
    int64_t seq = 1;

    if (table->left == 0)
        return false;
    while (table->rows[seq].state != OUTBOX_COMMITTED)
        seq++;
    waiting->key = sim->events[table->rows[seq].event].key;
    snprintf(waiting->text, sizeof(waiting->text),
             "%s holds %lld rows, the first is seq %lld (event %zu, key %lld)", table->name,
             (long long)table->left, (long long)seq, table->rows[seq].event,
             (long long)waiting->key);
    return true;
}

/* Whether votes are dead for a cause that has passed. */
static bool is_held(const struct sim *sim, struct waiting *waiting)
{
    for (int32_t n = 0; n < BROKER_PARTITIONS_MAX; n++) {
        for (int64_t offset = 0; offset < sim->sink->dead_ends[n]; offset++) {
            const struct sink_dead *dead = &sim->sink->dead[n][offset];

            if (!fake_dead_is_held(&dead->base.old))
                continue;
            waiting->key = sim->events[dead->event].key;
            snprintf(waiting->text, sizeof(waiting->text),
                     "event %zu of content %lld is dead, though the log would take it", dead->event,
                     (long long)waiting->key);
            return true;
        }
    }
    return false;
}

bool promises_rest(const struct sim *sim, struct waiting *waiting)
{
    char *text = waiting->text;
    size_t size = sizeof(waiting->text);

    waiting->key = STORY_ALL;
    for (size_t i = 0; i < sim->proc_count; i++)
        if (sim->procs[i].ends && !sim->procs[i].finished)
            return snprintf(text, size, "%s has not ended", sim->procs[i].name) < 0;
    if (sim->broker->ghost_count > 0)
        return snprintf(text, size, "requests are under way") < 0;
    for (size_t lane = 0; lane < sim->plan.lanes; lane++)
        if (rows_left(sim, &sim->tables->lanes[lane], waiting))
            return false;
    if (retry_left(sim) > 0)
        return snprintf(text, size, "the retry queue has %zu tasks", retry_left(sim)) < 0;
    if (relays_diverted_keys(sim) > 0)
        return snprintf(text, size, "%zu keys are not on the fast path, and have no task",
                        relays_diverted_keys(sim)) < 0;
    for (int32_t i = 0; i < sim->plan.partitions; i++)
        if (!is_applied(sim, i))
            return snprintf(text, size, "partition %d is applied up to %lld of %lld", (int)i,
                            (long long)sim->sink->progress[i].old.row.next_offset,
                            (long long)sim->broker->partitions[BROKER_VOTES][i].end) < 0;
    if (is_held(sim, waiting))
        return false;
    if (replays_left(sim) > 0)
        return snprintf(text, size, "%zu tasks of held contents are left", replays_left(sim)) < 0;
    for (int64_t content = 1; content <= SIM_CONTENTS; content++) {
        waiting->key = content;
        if (!is_rolled_up(sim, content))
            return snprintf(text, size,
                            "the remark of content %lld is of seq %lld, its total of seq %lld",
                            (long long)content, (long long)sim->sink->remarks[content].votes_seq,
                            (long long)sim->sink->totals[content].old.seq) < 0;
    }
    waiting->key = STORY_ALL;
    if (!months_rest(sim, waiting) || !removals_rest(sim, waiting) || !rankings_rest(sim, waiting))
        return false;
    return task_promises_rest(sim, waiting);
}

static const char *kind_name(const struct event *event)
{
    switch (event->kind) {
    case EVENT_VOTE:
        return "vote";
    case EVENT_STEP:
        return "event";
    case EVENT_END:
        return "tombstone";
    case EVENT_POISON:
        break;
    }
    return "poison";
}

static bool is_too_old(const struct sim *sim, int32_t partition, int64_t offset)
{
    const struct sink_dead *dead = &sim->sink->dead[partition][offset];

    return dead->base.old.found && dead->base.old.class == FAKE_DEAD_TOO_OLD;
}

/* A record that is delivered again when its month may be dropped is dead: no table shows whether it
 * is in the log. */
static void count_too_old(struct sim *sim)
{
    for (size_t i = 0; i < sim->event_count; i++)
        sim->events[i].too_old = 0;
    for (int32_t n = 0; n < sim->plan.partitions; n++)
        for (int64_t offset = 0; offset < sim->broker->partitions[BROKER_VOTES][n].end; offset++)
            if (is_too_old(sim, n, offset))
                sim->events[sim->sink->dead[n][offset].event].too_old++;
}

/* Applies the rules of vote_last and of tombstones to the votes of applications, in the order of
 * their topic and by the first record of each: marks the votes that are stale, as repeats, for
 * their age or behind a tombstone, and counts the voters of each content. */
static void judge_anyone(struct sim *sim)
{
    struct last {
        int voting;
        int64_t occurred_ms;
    } lasts[SIM_CONTENTS + 1][SIM_VOTERS + 1] = {0};
    bool ended[SIM_CONTENTS + 1] = {false};

    memset(sim->expected_votes, 0, sizeof(sim->expected_votes));
    for (size_t i = 0; i < sim->event_count; i++)
        sim->events[i].stale = false;
    for (int32_t n = 0; n < sim->plan.partitions; n++) {
        const struct broker_partition *partition = &sim->broker->partitions[BROKER_VOTES][n];

        for (int64_t offset = 0; offset < partition->end; offset++) {
            size_t number = partition->records[offset].event;
            struct event *event = number == BROKER_HOLE ? NULL : &sim->events[number];
            struct last *last;

            if (event && event->kind == EVENT_END)
                ended[event->key] = true;
            if (!event || event->kind != EVENT_VOTE || event->judged || is_too_old(sim, n, offset))
                continue;
            event->judged = true;
            event->stale = ended[event->key] || event->overtaken;
            if (event->stale)
                continue;
            last = &lasts[event->key][event->voter_id];
            event->stale = event->occurred_ms < last->occurred_ms || event->voting == last->voting;
            if (event->occurred_ms < last->occurred_ms)
                continue;
            sim->expected_votes[event->key] += event->voting - last->voting;
            *last = (struct last){event->voting, event->occurred_ms};
        }
    }
}

static void check_events(struct sim *sim)
{
    for (size_t i = 0; i < sim->event_count && !sim->failed; i++) {
        const struct event *event = &sim->events[i];
        const char *kind = kind_name(event);

        if (event->undone && event->published == 0)
            continue;
        if (event->order == 0 && event->published + event->logged > 0)
            sim_fail(sim, event->key, "phantom: event %zu (%s %s) was never committed", i, kind,
                     event->id);
        else if (event->order > 0 && event->published == 0 && !event->skipped)
            sim_fail(sim, event->key, "lost: event %zu (%s %s, key %lld) is not in the topic", i,
                     kind, event->id, (long long)event->key);
        else if (event->stale && event->logged > event->too_old && !sim->grown)
            sim_fail(sim, event->key,
                     "stale: event %zu (%s %s, key %lld) repeats its voter's last vote, is "
                     "older or behind a tombstone, and is logged",
                     i, kind, event->id, (long long)event->key);
        else if (event->order > 0 && event->kind != EVENT_STEP && event->kind != EVENT_END &&
                 event->logged == 0 && !event->stale && !(sim->plan.anyone && sim->grown))
            sim_fail(sim, event->key,
                     "lost: event %zu (%s %s, key %lld) is neither logged nor kept as dead", i,
                     kind, event->id, (long long)event->key);
        else if (event->kind == EVENT_VOTE && event->logged - event->too_old > 1)
            sim_fail(sim, event->key, "twice: event %zu (%s %s, key %lld) is logged %lld times", i,
                     kind, event->id, (long long)event->key, (long long)event->logged);
        if (sim->failed)
            sim_focus(sim, i, i);
    }
}

static void check_topic_order(struct sim *sim, const struct broker_partition *partition)
{
    static bool seen[SIM_EVENTS_MAX];
    int64_t order[SIM_KEYS + 1] = {0};
    size_t last[SIM_KEYS + 1] = {0};

    memset(seen, 0, sizeof(seen));
    for (int64_t offset = 0; offset < partition->end && !sim->failed; offset++) {
        size_t number = partition->records[offset].event;
        const struct event *event = &sim->events[number];

        if (number == BROKER_HOLE || seen[number] || event->skipped || event->undone)
            continue;
        /* Other applications do not lock the row that orders a close. */
        if (event->closes && sim->plan.anyone)
            continue;
        seen[number] = true;
        if (event->order < order[event->key] && !sim->grown)
            sim_fail(sim, event->key,
                     "order: event %zu (seq %lld of lane %zu) of key %lld came into the topic "
                     "after its successor %zu (seq %lld)",
                     number, (long long)event->seq, event->lane, (long long)event->key,
                     last[event->key], (long long)sim->events[last[event->key]].seq);
        if (sim->failed)
            sim_focus(sim, number, last[event->key]);
        order[event->key] = event->order;
        last[event->key] = number;
    }
}

static bool is_logged(const struct sim *sim, size_t event)
{
    return sim->sink->votes[event].base.old_found || sim->sink->votes[event].dropped;
}

/* The events of a content in the order of content_seq: no hole, no event before its predecessor,
 * totals that follow from the votes. */
static void check_log(struct sim *sim, int64_t content)
{
    const struct fake_tally *total = &sim->sink->totals[content];
    int64_t order = 0;
    int64_t sum = 0;

    for (int64_t seq = 1; seq <= total->old.seq && !sim->failed; seq++) {
        size_t at = 0;
        const struct event *event;

        while (at < sim->event_count &&
               (sim->events[at].kind != EVENT_VOTE || sim->events[at].key != content ||
                !is_logged(sim, at) || sim->sink->votes[at].base.vote.content_seq != seq))
            at++;
        if (at == sim->event_count) {
            sim_fail(sim, content, "totals: content %lld has no row with content_seq %lld",
                     (long long)content, (long long)seq);
            return;
        }
        event = &sim->events[at];
        sum += event->voting ? 1 : -1;
        if (event->order < order && !event->undone && !sim->grown)
            sim_fail(sim, content,
                     "order: event %zu of content %lld is logged behind a successor, with "
                     "content_seq %lld",
                     at, (long long)content, (long long)seq);
        else if (sim->sink->votes[at].base.vote.votes != sum)
            sim_fail(sim, content,
                     "totals: event %zu of content %lld is logged with votes %lld instead of "
                     "%lld",
                     at, (long long)content, (long long)sim->sink->votes[at].base.vote.votes,
                     (long long)sum);
        if (!event->undone)
            order = event->order;
    }
}

static void check_totals(struct sim *sim, int64_t content)
{
    const struct fake_tally *total = &sim->sink->totals[content];
    const struct fake_remark *remark = &sim->sink->remarks[content];
    int64_t votes = sim->plan.anyone ? sim->expected_votes[content]
                    : sim->plan.serves > 0
                        ? removals_count_votes(sim, content)
                        : votes_count(sim, content) - months_refused_votes(sim, content);

    if (sim->plan.anyone && sim->grown)
        return;
    if (total->old.votes != votes)
        sim_fail(sim, content, "totals: content %lld has votes %lld, %lld voters vote for it",
                 (long long)content, (long long)total->old.votes, (long long)votes);
    else if (remark->found && total->old.found && remark->votes != votes)
        sim_fail(sim, content, "roll-up: the remark of content %lld says %lld votes, not %lld",
                 (long long)content, (long long)remark->votes, (long long)votes);
}

/* A tally has ended if the topic has a tombstone of its content, and only then. */
static void check_ends(struct sim *sim)
{
    bool ended[SIM_CONTENTS + 1] = {false};

    for (size_t i = 0; i < sim->event_count; i++)
        if (sim->events[i].kind == EVENT_END && sim->events[i].published > 0)
            ended[sim->events[i].key] = true;
    for (int64_t content = 1; content <= SIM_CONTENTS && !sim->failed; content++)
        if (sim->sink->totals[content].old.ended != ended[content])
            sim_fail(sim, content, "ended: the tally of content %lld has%s ended",
                     (long long)content, ended[content] ? " not" : "");
}

void promises_check(struct sim *sim)
{
    count_too_old(sim);
    if (sim->plan.serves > 0)
        removals_check(sim);
    if (sim->plan.anyone)
        judge_anyone(sim);
    check_events(sim);
    for (int topic = 0; topic < BROKER_TOPICS; topic++)
        for (int32_t i = 0; i < sim->plan.partitions; i++)
            check_topic_order(sim, &sim->broker->partitions[topic][i]);
    check_ends(sim);
    for (int64_t content = 1; content <= SIM_CONTENTS && !sim->failed; content++) {
        check_log(sim, content);
        check_totals(sim, content);
    }
    if (sim->plan.housekeepers > 0 && !sim->failed)
        months_check_totals(sim);
    task_promises_check(sim);
}
