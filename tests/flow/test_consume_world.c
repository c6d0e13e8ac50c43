/* SPDX-License-Identifier: MIT */
/* Several consumers of one group on models, in a seeded order of steps, while partitions move,
 * processes freeze and are killed between any two steps, database calls fail and COMMITs lose their
 * answer. Whatever happens, in the end every vote is in the log once, in its key's order. */
#include "tests/flow/consume_rig.h"

#include "common/log.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 3
#define STEPS 12000
#define EVENTS_MAX 900
#define CONTENTS 11
#define SEEDS 60

static struct topic_world topic;
static struct sink_world sink;
static struct consume_rig rigs[MEMBERS];
static uint64_t state_of_dice;
static int64_t now_ms;
static int events;  /* votes made so far: their ids are 1 ... */
static int poisons; /* dead records to come */
static int born;    /* processes started so far */

static unsigned dice(unsigned below)
{
    state_of_dice = state_of_dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(state_of_dice >> 33) % below;
}

static void start_member(int member)
{
    const struct rig_limits limits = {
        .rows_max = 1 + dice(12), .batches_max = 1 + dice(6), .wait_ms = dice(20)};
    char owner[16];

    snprintf(owner, sizeof(owner), "p%d", ++born);
    consume_rig_open(&rigs[member], &topic, &sink, member, owner, &limits);
}

static void produce(void)
{
    int content = 1 + (int)dice(CONTENTS);

    switch (dice(12)) {
    case 0:
        topic_put(&topic, topic_partition_of(content), "1", "poison");
        poisons++;
        break;
    case 1:
        topic_put_hole(&topic, topic_partition_of(content));
        break;
    case 2: /* the relay sends an event again; its key and so its partition are the same */
        if (events > 0)
            topic_put_vote(&topic, events, 1 + events % CONTENTS, 1);
        break;
    default:
        events++;
        topic_put_vote(&topic, events, 1 + events % CONTENTS, 1);
    }
}

static bool room_to_produce(void)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        if (topic.partitions[i].end >= TOPIC_RECORDS_MAX - 1)
            return false;
    return events < EVENTS_MAX;
}

static void rebalance(void)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        if (dice(3) == 0)
            topic.partitions[i].owner = (int)dice(MEMBERS + 1) - 1;
}

static void break_database(void)
{
    if (sink.faults.calls < sink.faults.fail_at)
        return;
    sink.faults =
        (struct sink_faults){.fail_at = 1 + (int)dice(25), .rc = RC_RETRY, .lost = dice(2) == 0};
}

static void happen(void)
{
    int member = (int)dice(MEMBERS);

    switch (dice(40)) {
    case 0:
        rebalance();
        break;
    case 1:
        consume_rig_kill(&rigs[member]);
        start_member(member);
        break;
    case 2:
        rigs[member].stream.deaf = !rigs[member].stream.deaf;
        break;
    case 3:
        sink.faults.away = dice(4) == 0;
        break;
    case 4:
        rigs[member].stream.seeks_lost = (int)dice(2);
        rigs[member].stream.seek_lost_ends = dice(2) == 0;
        break;
    default:
        break_database();
    }
}

/* One live member's step, or time goes on. */
static void step(void)
{
    if (dice(3) == 0)
        now_ms += dice(40);
    consume_rig_step(&rigs[dice(MEMBERS)], (int)dice(RIG_APPLIERS + 1), now_ms);
}

static bool all_applied(void)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++) {
        const struct topic_partition *from = &topic.partitions[i];
        int64_t last = from->end;

        while (last > 0 && from->records[last - 1].hole)
            last--;
        if (last > 0 && sink.data.progress[i].next_offset < last)
            return false;
    }
    return true;
}

/* The group comes to rest: everybody hears, nothing fails, one member has it all. */
static void settle(void)
{
    memset(&sink.faults, 0, sizeof(sink.faults));
    for (int i = 0; i < MEMBERS; i++) {
        rigs[i].stream.deaf = false;
        rigs[i].stream.seeks_lost = 0;
    }
    for (int i = 0; i < TOPIC_PARTITIONS; i++)
        topic.partitions[i].owner = 1;
    for (int i = 0; i < 200000 && !all_applied(); i++)
        step();
    assert_true(all_applied());
}

/* The log holds the events of each content in the order of their making. */
static void check_order(void)
{
    int64_t last[SINK_CONTENTS] = {0};

    for (size_t i = 0; i < sink.data.vote_count; i++) {
        const struct vote_event *event = &sink.data.votes[i].event;
        char text[ID_TEXT_SIZE];
        int64_t number;

        id_format(&event->event_id, text);
        number = strtoll(text + 24, NULL, 10);
        assert_true(number > last[event->content_id]);
        last[event->content_id] = number;
    }
}

static void live(uint64_t seed)
{
    state_of_dice = seed * 7919 + 1;
    now_ms = 1000;
    events = poisons = born = 0;
    topic_world_init(&topic);
    memset(&sink, 0, sizeof(sink));
    for (int i = 0; i < MEMBERS; i++)
        start_member(i);
    rebalance();
    for (int i = 0; i < STEPS; i++) {
        if (dice(8) == 0 && room_to_produce())
            produce();
        if (dice(10) == 0)
            happen();
        step();
    }
    settle();
    sink_world_check(&sink);
    check_order();
    assert_int_equal(sink.data.vote_count, events);
    assert_int_equal(sink.data.dead_count, poisons);
    for (int i = 0; i < MEMBERS; i++)
        consume_rig_kill(&rigs[i]);
}

static void whatever_happens_every_vote_is_logged_once_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        live(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whatever_happens_every_vote_is_logged_once_in_order),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
