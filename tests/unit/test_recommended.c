/* SPDX-License-Identifier: MIT */
#include "producer/remark/recommended.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define RETRY_MS 2000
#define RETRY_MAX_MS 300000
#define REFRESH_MS 3600000
#define SILENT_MS 5000
#define STALE_MS 60000
#define NOW 100000

static const struct recommended_config usual = {
    .items_max = 100,
    .empty_max = 100,
    .bytes_max = 1 << 20,
    .refresh_ms = REFRESH_MS,
    .retry_ms = RETRY_MS,
    .retry_max_ms = RETRY_MAX_MS,
    .silent_ms = SILENT_MS,
    .stale_ms = STALE_MS,
};

static const struct recommended_state first_state = {
    .now_ms = 1000, .finished = 1, .started = 1, .weights = {.votes = 1}};

/* As a read that no other one overlaps. */
static void set_state(struct recommended *lists, const struct recommended_state *state)
{
    assert_true(recommended_set_state(lists, state, recommended_begin_read(lists)));
}

static struct recommended *open_lists(const struct recommended_config *config)
{
    struct recommended *lists;
    struct err err;

    assert_int_equal(recommended_open(&lists, config, NOW, &err), RC_OK);
    set_state(lists, &first_state);
    recommended_seen(lists, NOW);
    return lists;
}

/* The number of remarks in the list of an item, or -1 while it is built, or -2 without an answer.
 */
static int64_t find_count(struct recommended *lists, int64_t item_id, int64_t now_ms)
{
    struct recommended_list *list;
    int64_t count = -1;
    bool stale;

    switch (recommended_find(lists, item_id, now_ms, &list, &stale)) {
    case RECOMMENDED_LIST:
        count = (int64_t)list->count;
        assert_int_equal(list->item_id, item_id);
        recommended_list_release(list);
        break;
    case RECOMMENDED_BUILDING:
        assert_false(stale);
        break;
    case RECOMMENDED_AWAY:
        count = -2;
        break;
    }
    return count;
}

static int64_t take(struct recommended *lists, int64_t now_ms)
{
    int64_t wait_ms = 0;
    int64_t item_id;

    return recommended_take(lists, now_ms, &item_id, &wait_ms) ? item_id : -wait_ms;
}

static void end_build(struct recommended *lists, int64_t item_id, size_t count,
                      const struct recommended_state *state, int64_t now_ms)
{
    int64_t ids[RECOMMENDED_MAX];
    struct recommended_list *list;

    for (size_t i = 0; i < count; i++)
        ids[i] = item_id * 1000 + (int64_t)i;
    list = recommended_list_new(item_id, state, ids, count);
    assert_non_null(list);
    recommended_built(lists, list, state->now_ms, now_ms);
}

/* An item is asked for and gets a list. */
static void build(struct recommended *lists, int64_t item_id, size_t count, int64_t now_ms)
{
    assert_int_equal(find_count(lists, item_id, now_ms), -1);
    assert_int_equal(take(lists, now_ms), item_id);
    end_build(lists, item_id, count, &first_state, now_ms);
    assert_int_equal(find_count(lists, item_id, now_ms), count);
}

static void an_item_is_queued_once_however_often_it_is_asked_for(void **state)
{
    struct recommended *lists = open_lists(&usual);

    (void)state;
    for (int i = 0; i < 1000; i++)
        assert_int_equal(find_count(lists, 7, NOW), -1);
    assert_int_equal(recommended_queued(lists), 1);
    assert_int_equal(take(lists, NOW), 7);
    assert_int_equal(find_count(lists, 7, NOW), -1);
    assert_true(take(lists, NOW) < 0);
    end_build(lists, 7, 3, &first_state, NOW);
    assert_int_equal(find_count(lists, 7, NOW), 3);
    assert_true(take(lists, NOW) < 0);
    recommended_free(lists);
}

static void a_failed_build_is_tried_again_after_two_seconds(void **state)
{
    struct recommended *lists = open_lists(&usual);

    (void)state;
    assert_int_equal(find_count(lists, 7, NOW), -1);
    assert_int_equal(take(lists, NOW), 7);
    recommended_failed(lists, 7, NOW + 500);
    assert_int_equal(find_count(lists, 7, NOW + 600), -1);
    assert_int_equal(take(lists, NOW + 600), -(RETRY_MS - 100));
    assert_true(take(lists, NOW + 500 + RETRY_MS - 1) < 0);
    assert_int_equal(take(lists, NOW + 500 + RETRY_MS), 7);
    recommended_free(lists);
}

/* The item is taken at *at_ms, and its build fails at once. */
static void fail_build(struct recommended *lists, int64_t item_id, int64_t *at_ms, int64_t wait_ms)
{
    assert_int_equal(find_count(lists, item_id, NOW), -1);
    assert_int_equal(take(lists, *at_ms), item_id);
    assert_int_equal(find_count(lists, item_id, NOW), -1);
    recommended_failed(lists, item_id, *at_ms);
    assert_int_equal(take(lists, *at_ms), -wait_ms);
    assert_true(take(lists, *at_ms + wait_ms - 1) < 0);
    *at_ms += wait_ms;
}

static void repeated_failures_of_an_item_are_tried_again_ever_later(void **state)
{
    struct recommended *lists = open_lists(&usual);
    int64_t at_ms = NOW;

    (void)state;
    for (int64_t wait_ms = RETRY_MS; wait_ms < RETRY_MAX_MS; wait_ms *= 2)
        fail_build(lists, 7, &at_ms, wait_ms);
    for (int i = 0; i < 100; i++)
        fail_build(lists, 7, &at_ms, RETRY_MAX_MS);
    assert_int_equal(take(lists, at_ms), 7);
    end_build(lists, 7, 3, &first_state, at_ms);
    at_ms += REFRESH_MS;
    assert_int_equal(take(lists, at_ms), 7);
    recommended_failed(lists, 7, at_ms);
    assert_int_equal(take(lists, at_ms), -RETRY_MS); /* a success ends the row of failures */
    recommended_free(lists);
}

/* Each build of items 1 and 2 ends after 10 s, by the time limit. */
static void builds_that_fail_do_not_keep_others_waiting(void **state)
{
    struct recommended_state second = first_state;
    struct recommended *lists = open_lists(&usual);
    int64_t at_ms = NOW;
    int others = 0;

    (void)state;
    for (int64_t item = 11; item <= 14; item++)
        build(lists, item, 3, NOW);
    second.weights.votes = 2;
    for (int64_t item = 1; item <= 5; item++)
        assert_int_equal(find_count(lists, item, NOW), -1);
    for (int i = 0; i < 20; i++) {
        int64_t item;

        recommended_seen(lists, at_ms);
        find_count(lists, 1, at_ms); /* is asked for all the time */
        find_count(lists, 2, at_ms);
        item = take(lists, at_ms);
        if (i == 4)
            set_state(lists, &second);
        if (item == 1 || item == 2) {
            at_ms += 10000;
            recommended_failed(lists, item, at_ms);
        } else if (item > 0) {
            others++;
            end_build(lists, item, 3, i <= 4 ? &first_state : &second, at_ms);
        } else {
            at_ms -= item;
        }
    }
    assert_true(others >= 7); /* first ones, and repeated ones */
    for (int64_t item = 3; item <= 5; item++)
        assert_int_equal(find_count(lists, item, at_ms), 3);
    recommended_free(lists);
}

static void items_that_are_written_all_the_time_do_not_keep_others_waiting(void **state)
{
    struct recommended *lists = open_lists(&usual);
    int64_t at_ms = NOW;

    (void)state;
    for (int64_t item = 1; item <= 5; item++)
        build(lists, item, 3, NOW);
    for (int64_t item = 6; item <= 8; item++)
        assert_int_equal(find_count(lists, item, NOW), -1);
    for (int i = 0; i < 6; i++) {
        struct recommended_state seen = first_state;
        int64_t taken;

        recommended_seen(lists, at_ms);
        for (int64_t item = 1; item <= 5; item++)
            recommended_changed(lists, item, first_state.now_ms + at_ms, at_ms);
        taken = take(lists, at_ms);
        assert_true(taken > 0);
        seen.now_ms += at_ms;
        end_build(lists, taken, 3, &seen, at_ms);
        at_ms += 1000;
    }
    for (int64_t item = 6; item <= 8; item++)
        assert_int_equal(find_count(lists, item, at_ms), 3);
    recommended_free(lists);
}

static void an_item_whose_builds_fail_is_forgotten_unless_it_is_asked_for(void **state)
{
    struct recommended *lists = open_lists(&usual);
    int64_t at_ms = NOW;

    (void)state;
    for (int64_t item = 1; item <= RECOMMENDED_WAITING_MAX; item++)
        assert_int_equal(find_count(lists, item, NOW), -1);
    for (int failures = 0; failures < 2; failures++) {
        for (int64_t item = 1; item <= RECOMMENDED_WAITING_MAX; item++) {
            assert_int_equal(take(lists, at_ms), item);
            recommended_failed(lists, item, at_ms);
        }
        at_ms += RETRY_MS << failures;
    }
    recommended_seen(lists, at_ms);
    assert_int_equal(find_count(lists, 5, at_ms), -1);
    assert_int_equal(find_count(lists, 5000, at_ms), -1);
    assert_int_equal(take(lists, at_ms), 5); /* the others are forgotten */
    assert_int_equal(find_count(lists, 5000, at_ms), -1);
    assert_int_equal(take(lists, at_ms), 5000);
    assert_int_equal(take(lists, at_ms), -REFRESH_MS);
    recommended_free(lists);
}

static void a_failed_build_leaves_the_list_that_there_was(void **state)
{
    struct recommended *lists = open_lists(&usual);
    int64_t later_ms = NOW + REFRESH_MS;

    (void)state;
    build(lists, 7, 3, NOW);
    assert_int_equal(take(lists, later_ms), 7);
    recommended_failed(lists, 7, later_ms);
    recommended_seen(lists, later_ms);
    assert_int_equal(find_count(lists, 7, later_ms), 3);
    assert_int_equal(take(lists, later_ms + RETRY_MS), 7);
    recommended_free(lists);
}

static void a_list_is_built_again_after_an_hour(void **state)
{
    struct recommended *lists = open_lists(&usual);

    (void)state;
    build(lists, 7, 3, NOW);
    assert_int_equal(take(lists, NOW + 1000), -(REFRESH_MS - 1000));
    assert_int_equal(take(lists, NOW + REFRESH_MS), 7);
    recommended_free(lists);
}

static void count_wake(void *ctx)
{
    ++*(int *)ctx;
}

/* A builder that looks during the check does not count the list in its wait. */
static void a_check_wakes_a_builder_that_waits_for_longer(void **state)
{
    struct recommended_state second = first_state;
    struct recommended_config config = usual;
    int64_t items[RECOMMENDED_BATCH_MAX];
    struct recommended *lists;
    int64_t window = 1;
    int wakes = 0;

    (void)state;
    config.wake_builder = count_wake;
    config.wake_ctx = &wakes;
    lists = open_lists(&config);
    build(lists, 7, 3, NOW);
    second.finished = second.started = 2;
    set_state(lists, &second);
    assert_int_equal(recommended_take_checks(lists, items), 1);
    assert_int_equal(take(lists, NOW + 1), -REFRESH_MS);
    wakes = 0;
    recommended_end_checks(lists, items, &window, 1);
    assert_int_equal(wakes, 1);
    assert_int_equal(take(lists, NOW + 1), 1 - REFRESH_MS);
    second.finished = second.started = 3;
    set_state(lists, &second);
    assert_int_equal(recommended_take_checks(lists, items), 1);
    recommended_end_checks(lists, items, &window, 1);
    assert_int_equal(wakes, 1); /* it waits for no longer */
    recommended_free(lists);
}

static void a_roll_up_has_only_changed_items_built_again(void **state)
{
    struct recommended_state second = first_state;
    struct recommended *lists = open_lists(&usual);
    int64_t items[RECOMMENDED_BATCH_MAX];
    const int64_t windows[] = {1, 2};

    (void)state;
    build(lists, 7, 3, NOW);
    build(lists, 8, 3, NOW);
    assert_int_equal(recommended_take_checks(lists, items), 0);
    second.finished = second.started = 2;
    set_state(lists, &second);
    assert_int_equal(recommended_take_checks(lists, items), 2);
    assert_int_equal(items[0], 7);
    recommended_end_checks(lists, items, NULL, 2); /* the database was away */
    assert_int_equal(recommended_take_checks(lists, items), 2);
    recommended_end_checks(lists, items, windows, 2);
    assert_int_equal(take(lists, NOW), 8);
    end_build(lists, 8, 4, &second, NOW);
    assert_true(take(lists, NOW) < 0);
    assert_int_equal(recommended_take_checks(lists, items), 0);
    recommended_free(lists);
}

/* By a build, which has read the next roll-up before the watcher got the answer for this one. */
static void a_roll_up_during_a_check_is_checked_as_well(void **state)
{
    struct recommended_state second = first_state;
    struct recommended *lists = open_lists(&usual);
    int64_t items[RECOMMENDED_BATCH_MAX];
    int64_t window = 1;

    (void)state;
    build(lists, 7, 3, NOW);
    second.finished = second.started = 2;
    set_state(lists, &second);
    assert_int_equal(recommended_take_checks(lists, items), 1);
    second.finished = second.started = 3;
    set_state(lists, &second);
    recommended_end_checks(lists, items, &window, 1);
    assert_true(take(lists, NOW) < 0);
    assert_int_equal(recommended_take_checks(lists, items), 1);
    window = 3;
    recommended_end_checks(lists, items, &window, 1);
    assert_int_equal(take(lists, NOW), 7);
    recommended_free(lists);
}

/* The sink was replaced by a copy that lacks the last roll-up, while a list of it was built. */
static void a_list_of_a_roll_up_that_was_lost_is_built_again(void **state)
{
    struct recommended_state later = first_state;
    struct recommended *lists = open_lists(&usual);

    (void)state;
    assert_int_equal(find_count(lists, 7, NOW), -1);
    assert_int_equal(take(lists, NOW), 7);
    later.finished = later.started = 2;
    set_state(lists, &later);
    set_state(lists, &first_state);
    end_build(lists, 7, 3, &later, NOW);
    assert_int_equal(find_count(lists, 7, NOW), 3);
    assert_int_equal(take(lists, NOW), 7);
    end_build(lists, 7, 2, &first_state, NOW);
    assert_int_equal(find_count(lists, 7, NOW), 2);
    assert_true(take(lists, NOW) < 0);
    recommended_free(lists);
}

static void new_weights_have_all_items_built_again(void **state)
{
    struct recommended_state second = first_state;
    struct recommended *lists = open_lists(&usual);

    (void)state;
    build(lists, 7, 3, NOW);
    build(lists, 8, 0, NOW);
    second.weights.score = 4;
    second.now_ms++;
    set_state(lists, &second); /* by a build */
    set_state(lists, &second); /* and then by the watcher */
    assert_int_equal(take(lists, NOW), 7);
    end_build(lists, 7, 3, &second, NOW);
    assert_int_equal(take(lists, NOW), 8);
    end_build(lists, 8, 0, &second, NOW);
    assert_true(take(lists, NOW) < 0);
    recommended_free(lists);
}

static void a_list_of_old_weights_is_built_again_at_once(void **state)
{
    struct recommended_state second = first_state;
    struct recommended *lists = open_lists(&usual);

    (void)state;
    assert_int_equal(find_count(lists, 7, NOW), -1);
    assert_int_equal(take(lists, NOW), 7);
    second.weights.age = 1;
    set_state(lists, &second);
    end_build(lists, 7, 3, &first_state, NOW);
    assert_int_equal(take(lists, NOW), 7);
    recommended_free(lists);
}

static void a_written_item_is_built_again_but_not_at_each_write(void **state)
{
    struct recommended *lists = open_lists(&usual);

    (void)state;
    build(lists, 7, 3, NOW);
    recommended_changed(lists, 9, 5000, NOW);               /* without a list */
    recommended_changed(lists, 7, first_state.now_ms, NOW); /* that is in the list */
    assert_true(take(lists, NOW + RETRY_MS) < 0);
    recommended_changed(lists, 7, 5000, NOW + 10000);
    assert_int_equal(take(lists, NOW + 10000), 7);
    recommended_changed(lists, 7, 5001, NOW + 10000); /* while it is built */
    end_build(lists, 7, 4, &first_state, NOW + 10000);
    assert_int_equal(take(lists, NOW + 10001), -(RETRY_MS - 1));
    assert_int_equal(take(lists, NOW + 10000 + RETRY_MS), 7);
    recommended_free(lists);
}

/* An item that was forgotten is asked for again. */
static void a_write_before_a_build_is_in_its_list(void **state)
{
    int64_t items[RECOMMENDED_BATCH_MAX];
    struct recommended *lists = open_lists(&usual);

    (void)state;
    assert_int_equal(find_count(lists, 7, NOW), -1);
    assert_int_equal(take(lists, NOW), 7);
    recommended_changed(lists, 7, first_state.now_ms - 900, NOW); /* was announced long ago */
    end_build(lists, 7, 3, &first_state, NOW);
    assert_int_equal(take(lists, NOW), -REFRESH_MS);
    assert_int_equal(take(lists, NOW + REFRESH_MS), 7);
    recommended_written(lists, 7, NOW + REFRESH_MS);
    assert_int_equal(recommended_take_written(lists, items), 1);
    recommended_end_written(lists, false, NOW + REFRESH_MS);
    end_build(lists, 7, 3, &first_state, NOW + REFRESH_MS);
    assert_int_equal(take(lists, NOW + REFRESH_MS), -RETRY_MS);
    recommended_free(lists);
}

static void written_items_are_told_to_the_watcher_once(void **state)
{
    struct recommended *lists = open_lists(&usual);
    int64_t items[RECOMMENDED_BATCH_MAX];
    size_t count = 0;
    size_t taken;

    (void)state;
    recommended_written(lists, 7, NOW);
    recommended_written(lists, 7, NOW);
    assert_int_equal(recommended_take_written(lists, items), 1);
    assert_int_equal(items[0], 7);
    for (int64_t item = 1; item <= RECOMMENDED_WRITTEN_MAX + 10; item++)
        recommended_written(lists, item, NOW);
    while ((taken = recommended_take_written(lists, items)) > 0)
        count += taken;
    assert_int_equal(count, RECOMMENDED_WRITTEN_MAX);
    recommended_free(lists);
}

static void items_that_were_used_longest_ago_are_forgotten(void **state)
{
    struct recommended_config config = usual;
    struct recommended *lists;

    (void)state;
    config.items_max = 2;
    config.empty_max = 1;
    lists = open_lists(&config);
    build(lists, 1, 3, NOW);
    build(lists, 2, 3, NOW);
    assert_int_equal(find_count(lists, 1, NOW), 3);
    build(lists, 3, 3, NOW);
    build(lists, 4, 0, NOW);
    build(lists, 5, 0, NOW);
    assert_int_equal(find_count(lists, 1, NOW), 3);
    assert_int_equal(find_count(lists, 3, NOW), 3);
    assert_int_equal(find_count(lists, 5, NOW), 0);
    assert_int_equal(find_count(lists, 2, NOW), -1);
    assert_int_equal(find_count(lists, 4, NOW), -1);
    recommended_free(lists);
}

static void a_list_that_is_only_built_again_is_not_used(void **state)
{
    struct recommended_config config = usual;
    struct recommended *lists;

    (void)state;
    config.items_max = 2;
    lists = open_lists(&config);
    build(lists, 1, 3, NOW);
    build(lists, 2, 3, NOW);
    assert_int_equal(take(lists, NOW + REFRESH_MS), 1);
    end_build(lists, 1, 4, &first_state, NOW + REFRESH_MS);
    build(lists, 3, 3, NOW);
    assert_int_equal(find_count(lists, 2, NOW), 3);
    assert_int_equal(find_count(lists, 1, NOW), -1);
    recommended_free(lists);
}

/* The list that has grown stays, though it was used longest ago: its reader may come. */
static void a_list_that_grows_has_others_forgotten(void **state)
{
    struct recommended_config config = usual;
    struct recommended *lists;

    (void)state;
    config.bytes_max = 10000;
    lists = open_lists(&config);
    build(lists, 1, 10, NOW);
    build(lists, 2, 400, NOW);
    build(lists, 3, 0, NOW);
    assert_int_equal(take(lists, NOW + REFRESH_MS), 1);
    end_build(lists, 1, 1000, &first_state, NOW + REFRESH_MS);
    assert_true(recommended_bytes(lists) <= config.bytes_max);
    assert_int_equal(find_count(lists, 1, NOW), 1000);
    assert_int_equal(find_count(lists, 2, NOW), -1);
    recommended_free(lists);
}

static void memory_stays_below_its_bound(void **state)
{
    struct recommended_config config = usual;
    struct recommended *lists;

    (void)state;
    config.bytes_max = 100000;
    lists = open_lists(&config);
    for (int64_t item = 1; item <= 50; item++) {
        build(lists, item, 1000, NOW);
        assert_true(recommended_bytes(lists) <= config.bytes_max);
    }
    assert_int_equal(find_count(lists, 1, NOW), -1);
    for (int64_t item = 1000; item < 3000; item++)
        find_count(lists, item, NOW);
    assert_int_equal(recommended_queued(lists), RECOMMENDED_WAITING_MAX);
    recommended_free(lists);
}

static void lists_are_stale_and_then_refused_while_the_database_is_away(void **state)
{
    struct recommended *lists = open_lists(&usual);
    struct recommended_list *list;
    bool stale;

    (void)state;
    build(lists, 7, 3, NOW);
    recommended_lost(lists);
    assert_int_equal(recommended_find(lists, 7, NOW + 1, &list, &stale), RECOMMENDED_LIST);
    assert_true(stale);
    recommended_list_release(list);
    assert_int_equal(find_count(lists, 8, NOW + 1), -2);
    assert_int_equal(find_count(lists, 7, NOW + STALE_MS), 3);
    assert_int_equal(find_count(lists, 7, NOW + STALE_MS + 1), -2);
    recommended_seen(lists, NOW + STALE_MS + 2);
    assert_int_equal(find_count(lists, 7, NOW + STALE_MS + 3), 3);
    /* A watcher that hangs is as good as a database that is away. */
    assert_int_equal(find_count(lists, 8, NOW + STALE_MS + 3 + SILENT_MS), -2);
    recommended_free(lists);
}

static void first_builds_and_repeated_ones_take_turns(void **state)
{
    struct recommended_state second = first_state;
    struct recommended *lists = open_lists(&usual);
    int firsts = 0;

    (void)state;
    for (int64_t item = 1; item <= 10; item++)
        build(lists, item, 1, NOW);
    second.weights.votes = 2;
    set_state(lists, &second);
    for (int64_t item = 11; item <= 20; item++)
        find_count(lists, item, NOW);
    for (int i = 0; i < 10; i++)
        firsts += take(lists, NOW) > 10;
    assert_int_equal(firsts, 5);
    recommended_free(lists);
}

#define SWAPS 20000

struct swapping {
    struct recommended *lists;
    atomic_bool ended;
    atomic_int mixtures;
};

static void *read_lists(void *arg)
{
    struct swapping *swapping = arg;

    while (!atomic_load(&swapping->ended)) {
        struct recommended_list *list;
        bool stale;

        if (recommended_find(swapping->lists, 7, NOW, &list, &stale) != RECOMMENDED_LIST)
            continue;
        for (size_t i = 0; i < list->count; i++)
            if (list->ids[i] != list->window)
                atomic_fetch_add(&swapping->mixtures, 1);
        recommended_list_release(list);
    }
    return NULL;
}

static void readers_get_whole_lists_while_they_are_replaced(void **state)
{
    struct swapping swapping = {.lists = open_lists(&usual)};
    struct recommended_state seen = first_state;
    int64_t ids[64];
    pthread_t threads[3];

    (void)state;
    find_count(swapping.lists, 7, NOW);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_lists, &swapping), 0);
    for (int64_t swap = 1; swap <= SWAPS; swap++) {
        seen.finished = swap;
        for (size_t i = 0; i < 64; i++)
            ids[i] = swap;
        recommended_built(swapping.lists,
                          recommended_list_new(7, &seen, ids, 1 + (size_t)(swap % 64)), 0, NOW);
    }
    atomic_store(&swapping.ended, true);
    for (size_t i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&swapping.mixtures), 0);
    recommended_free(swapping.lists);
}

/* A build has read the end of a roll-up, and the answer to an earlier read of the watcher comes
 * late: the roll-ups did not go back. The database's clock does not tell. */
static void a_state_whose_read_another_one_overlaps_is_ignored(void **state)
{
    struct recommended *lists = open_lists(&usual);
    struct recommended_state later = first_state;
    struct recommended_state seen;
    uint64_t began = recommended_begin_read(lists);

    (void)state;
    assert_int_equal(find_count(lists, 1, NOW), -1);
    assert_int_equal(take(lists, NOW), 1);
    later.finished = later.started = 2;
    set_state(lists, &later);
    end_build(lists, 1, 3, &later, NOW);
    assert_false(recommended_set_state(lists, &first_state, began));
    assert_int_equal(recommended_queued(lists), 0);
    assert_true(recommended_read_state(lists, &seen));
    assert_int_equal(seen.finished, 2);
    began = recommended_begin_read(lists);
    set_state(lists, &later);                                       /* a read that sees the same */
    assert_true(recommended_set_state(lists, &first_state, began)); /* the roll-ups went back */
    assert_int_equal(recommended_queued(lists), 1);
    recommended_free(lists);
}

/* The list that was built first is due first, also if another one is built while it is checked. */
static void a_list_that_was_checked_is_still_built_again_after_an_hour(void **state)
{
    struct recommended *lists = open_lists(&usual);
    struct recommended_state later = first_state;
    int64_t items[RECOMMENDED_BATCH_MAX];
    const int64_t window = 1;

    (void)state;
    assert_int_equal(find_count(lists, 1, NOW), -1);
    assert_int_equal(take(lists, NOW), 1);
    end_build(lists, 1, 3, &first_state, NOW);
    later.now_ms += 500;
    later.finished = later.started = 2;
    set_state(lists, &later);
    assert_int_equal(recommended_take_checks(lists, items), 1);
    assert_int_equal(find_count(lists, 2, NOW), -1);
    assert_int_equal(take(lists, NOW + 1000), 2);
    end_build(lists, 2, 3, &later, NOW + 1000);
    recommended_end_checks(lists, items, &window, 1);
    assert_int_equal(take(lists, NOW + 1000), -(REFRESH_MS - 1000));
    assert_int_equal(take(lists, NOW + REFRESH_MS), 1);
    recommended_free(lists);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_is_queued_once_however_often_it_is_asked_for),
        cmocka_unit_test(a_failed_build_is_tried_again_after_two_seconds),
        cmocka_unit_test(repeated_failures_of_an_item_are_tried_again_ever_later),
        cmocka_unit_test(builds_that_fail_do_not_keep_others_waiting),
        cmocka_unit_test(items_that_are_written_all_the_time_do_not_keep_others_waiting),
        cmocka_unit_test(an_item_whose_builds_fail_is_forgotten_unless_it_is_asked_for),
        cmocka_unit_test(a_failed_build_leaves_the_list_that_there_was),
        cmocka_unit_test(a_list_is_built_again_after_an_hour),
        cmocka_unit_test(a_list_that_was_checked_is_still_built_again_after_an_hour),
        cmocka_unit_test(a_check_wakes_a_builder_that_waits_for_longer),
        cmocka_unit_test(a_roll_up_has_only_changed_items_built_again),
        cmocka_unit_test(a_roll_up_during_a_check_is_checked_as_well),
        cmocka_unit_test(a_list_of_a_roll_up_that_was_lost_is_built_again),
        cmocka_unit_test(new_weights_have_all_items_built_again),
        cmocka_unit_test(a_list_of_old_weights_is_built_again_at_once),
        cmocka_unit_test(a_state_whose_read_another_one_overlaps_is_ignored),
        cmocka_unit_test(a_written_item_is_built_again_but_not_at_each_write),
        cmocka_unit_test(a_write_before_a_build_is_in_its_list),
        cmocka_unit_test(written_items_are_told_to_the_watcher_once),
        cmocka_unit_test(items_that_were_used_longest_ago_are_forgotten),
        cmocka_unit_test(a_list_that_is_only_built_again_is_not_used),
        cmocka_unit_test(a_list_that_grows_has_others_forgotten),
        cmocka_unit_test(memory_stays_below_its_bound),
        cmocka_unit_test(lists_are_stale_and_then_refused_while_the_database_is_away),
        cmocka_unit_test(first_builds_and_repeated_ones_take_turns),
        cmocka_unit_test(readers_get_whole_lists_while_they_are_replaced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
