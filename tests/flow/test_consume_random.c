/* SPDX-License-Identifier: MIT */
/* Several consumers of one group on fakes, in a seeded order of steps, while partitions move,
 * processes freeze and are killed between any two steps, database calls fail and COMMITs lose their
 * answer. In the end every vote is in the log once, in the order of its key. With some seeds the
 * database refuses votes for a while, and the held votes are replayed meanwhile. */
#include "tests/flow/consume_fixture.h"

#include "common/log.h"
#include "consumer/held/vote_task.h"

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
/* One thread runs all steps: TSan finds little here, and makes a seed thirty times as slow. */
#ifdef __SANITIZE_THREAD__
#define SEEDS 3
#else
#define SEEDS 60
#endif

static struct topic topic;
static struct sink_db sink;
static struct consume_fixture fixtures[MEMBERS];
static uint64_t rng_state;
static int64_t now_ms;
static int events;  /* votes made so far: their ids are 1 ... */
static int poisons; /* dead records to come */
static int born;    /* processes started so far */
static int refused; /* the byte that the events end with which the database refuses; 0: none */
static bool refuses;
static struct sink_connection lane_sink;
static struct sink_dead_store lane_dead;

static unsigned random_below(unsigned below)
{
    rng_state = rng_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(rng_state >> 33) % below;
}

static void start_member(int member)
{
    const struct fixture_limits limits = {.rows_max = 1 + random_below(12),
                                          .batches_max = 1 + random_below(6),
                                          .wait_ms = random_below(20)};
    char owner[16];

    snprintf(owner, sizeof(owner), "p%d", ++born);
    consume_fixture_open(&fixtures[member], &topic, &sink, member, owner, &limits);
}

static void produce(void)
{
    int content = 1 + (int)random_below(CONTENTS);

    switch (random_below(12)) {
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
        if (random_below(3) == 0)
            topic.partitions[i].owner = (int)random_below(MEMBERS + 1) - 1;
}

static void break_database(void)
{
    if (sink.faults.calls < sink.faults.fail_at)
        return;
    sink.faults = (struct sink_faults){
        .fail_at = 1 + (int)random_below(25), .rc = RC_RETRY, .lost = random_below(2) == 0};
}

static void happen(void)
{
    int member = (int)random_below(MEMBERS);

    switch (random_below(40)) {
    case 0:
        rebalance();
        break;
    case 1:
        consume_fixture_kill(&fixtures[member]);
        start_member(member);
        break;
    case 2:
        fixtures[member].stream.deaf = !fixtures[member].stream.deaf;
        break;
    case 3:
        sink.faults.away = random_below(4) == 0;
        break;
    case 4:
        fixtures[member].stream.seeks_lost = (int)random_below(2);
        fixtures[member].stream.seek_lost_ends = random_below(2) == 0;
        break;
    default:
        break_database();
    }
}

static int64_t lane_now_ms(void)
{
    return now_ms;
}

static atomic_llong far_lease = INT64_MAX;

/* Runs the retry queue's handler on the held records of a content. */
static void replay(int content)
{
    const struct vote_work work = {.sink = &lane_sink.ops,
                                   .store = &lane_dead.ops,
                                   .now_ms = lane_now_ms,
                                   .until_ms = INT64_MAX,
                                   .lease_until_ms = &far_lease};
    struct vote_options options = {.has_dead = true, .topic = "votes"};
    struct attempt_result attempt = {0};

    options.partition = topic_partition_of(content);
    snprintf(options.key, sizeof(options.key), "%d", content);
    vote_work_replay(&work, &options, &attempt);
    assert_true(attempt.end == ATTEMPT_DONE || attempt.end == ATTEMPT_FAILED);
}

static void refuse_or_replay(void)
{
    if (random_below(300) == 0)
        refused = random_below(2) == 0 ? 0 : (int)(random_below(10) * 16 + random_below(10));
    sink.faults.refused_event = refused;
    if (random_below(40) == 0)
        replay(1 + (int)random_below(CONTENTS));
}

static size_t count_dead(bool held)
{
    size_t count = 0;

    for (size_t i = 0; i < sink.dead_count; i++) {
        const struct sink_dead *row = &sink.dead[i];
        bool is_held = strcmp(row->old.reason_class, "refused") == 0 ||
                       strcmp(row->old.reason_class, "behind") == 0;

        count += row->old.decision[0] == '\0' && is_held == held;
    }
    return count;
}

/* Calls one step of a live member, or moves the time. */
static void step(void)
{
    if (random_below(3) == 0)
        now_ms += random_below(40);
    consume_fixture_step(&fixtures[random_below(MEMBERS)], (int)random_below(FIXTURE_APPLIERS + 1),
                         now_ms);
}

static bool all_applied(void)
{
    for (int i = 0; i < TOPIC_PARTITIONS; i++) {
        const struct topic_partition *from = &topic.partitions[i];
        int64_t last = from->end;

        while (last > 0 && from->records[last - 1].hole)
            last--;
        if (last > 0 && sink.progress[i].old.row.next_offset < last)
            return false;
    }
    return true;
}

/* Ends the faults: every member learns of the group, no call fails, and one member has all
 * partitions. */
static void settle(void)
{
    memset(&sink.faults, 0, sizeof(sink.faults));
    for (int i = 0; i < MEMBERS; i++) {
        fixtures[i].stream.deaf = false;
        fixtures[i].stream.seeks_lost = 0;
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

    for (size_t i = 0; i < sink.vote_count; i++) {
        const struct vote_event *event = &sink.votes[i].vote.event;
        char text[ID_TEXT_SIZE];
        int64_t number;

        id_format(&event->event_id, text);
        number = strtoll(text + 24, NULL, 10);
        assert_true(number > last[event->content_id]);
        last[event->content_id] = number;
    }
}

/* The cause has ended: held records are applied in order, however many arrive behind them
 * meanwhile. */
static void settle_held(void)
{
    for (int i = 0; i < 1000 && count_dead(true) > 0; i++)
        replay(1 + i % CONTENTS);
    assert_int_equal(count_dead(true), 0);
}

/* Returns how many votes were held. */
static size_t live(uint64_t seed)
{
    size_t held = 0;

    rng_state = seed * 7919 + 1;
    now_ms = 1000;
    events = poisons = born = 0;
    topic_init(&topic);
    memset(&sink, 0, sizeof(sink));
    sink_connection_init(&lane_sink, &sink);
    sink_dead_store_init(&lane_dead, &lane_sink);
    refused = 0;
    for (int i = 0; i < MEMBERS; i++)
        start_member(i);
    rebalance();
    for (int i = 0; i < STEPS; i++) {
        if (random_below(8) == 0 && room_to_produce())
            produce();
        if (random_below(10) == 0)
            happen();
        if (refuses)
            refuse_or_replay();
        step();
    }
    settle();
    settle_held();
    sink_db_check(&sink);
    check_order();
    assert_int_equal(sink.vote_count, events);
    assert_int_equal(count_dead(false), poisons);
    held = sink.dead_count - (size_t)poisons;
    for (int i = 0; i < MEMBERS; i++)
        consume_fixture_kill(&fixtures[i]);
    return held;
}

static void every_vote_is_logged_once_in_order_despite_faults(void **state)
{
    (void)state;
    refuses = false;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        assert_int_equal(live(seed), 0);
}

static void votes_that_are_refused_for_a_while_are_logged_once_in_order(void **state)
{
    size_t held = 0;

    (void)state;
    refuses = true;
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        held += live(seed);
    /* Enough votes were held for the test to mean something. */
    assert_in_range(held, 10 * SEEDS, EVENTS_MAX * SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_vote_is_logged_once_in_order_despite_faults),
        cmocka_unit_test(votes_that_are_refused_for_a_while_are_logged_once_in_order),
    };

    log_init(LOG_ERROR + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
