/* SPDX-License-Identifier: MIT */
/* The watcher and the builder on a store in memory, each of whose calls is made to fail. */
#include "producer/remark/recommended_builder.h"

#include "producer/serve_metrics.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define RETRY_MS 2000
#define SILENT_MS 5000
#define NOW 1000000
#define ITEM 7

enum op { NONE, READ_STATE, NEWEST, ANNOUNCE, READ_CHANGES, BUILD };

struct fake {
    struct recommended_store store;
    struct recommended_state state;
    enum op failing;
    enum rc failure;
    int builds;
    int news;              /* states that the next builds see as other ones */
    int64_t newest_window; /* of each item */
    int64_t changed_item;  /* the last one that was announced; 0: none */
    size_t announced;      /* items */
    int64_t changed_ms;
    int64_t within_ms;
};

static int64_t now_ms = NOW;

static int64_t read_clock_us(void)
{
    return now_ms * 1000;
}

static enum rc answer(const struct fake *fake, enum op op, struct err *err)
{
    return fake->failing == op ? err_fail(err, fake->failure, 0, "op %d fails", op) : RC_OK;
}

static enum rc read_state(void *ctx, struct recommended_state *state, struct err *err)
{
    struct fake *fake = ctx;

    *state = fake->state;
    return answer(fake, READ_STATE, err);
}

static enum rc newest(void *ctx, const int64_t *items, size_t count, int64_t *windows,
                      struct err *err)
{
    struct fake *fake = ctx;

    (void)items;
    for (size_t i = 0; i < count; i++)
        windows[i] = fake->newest_window;
    return answer(fake, NEWEST, err);
}

static enum rc announce(void *ctx, const int64_t *items, size_t count, struct err *err)
{
    struct fake *fake = ctx;
    enum rc rc = answer(fake, ANNOUNCE, err);

    if (rc == RC_OK) {
        fake->changed_item = items[count - 1];
        fake->changed_ms = fake->state.now_ms;
        fake->announced += count;
    }
    return rc;
}

static enum rc read_changes(void *ctx, int64_t within_ms, recommended_on_change on_change,
                            void *change_ctx, struct err *err)
{
    struct fake *fake = ctx;

    fake->within_ms = within_ms;
    if (fake->changed_item > 0)
        on_change(change_ctx, fake->changed_item, fake->changed_ms);
    return answer(fake, READ_CHANGES, err);
}

static enum rc build(void *ctx, int64_t item_id, const struct recommended_state *with, size_t max,
                     int64_t *ids, size_t *count, struct recommended_state *seen, struct err *err)
{
    struct fake *fake = ctx;

    (void)with;
    assert_true(max >= 2);
    fake->builds++;
    if (fake->news > 0) {
        fake->news--;
        fake->state.weights.votes++;
        fake->state.now_ms++;
    }
    ids[0] = item_id * 10;
    ids[1] = fake->state.weights.votes;
    *count = 2;
    *seen = fake->state;
    return answer(fake, BUILD, err);
}

struct fixture {
    struct fake fake;
    struct recommended *lists;
    struct recommended_watcher watcher;
    struct recommended_builder builder;
    struct stop stop;
};

static struct fixture fixture;

static int open_fixture(void **state)
{
    const struct recommended_config config = {
        .items_max = 100,
        .empty_max = 100,
        .bytes_max = 1 << 20,
        .refresh_ms = 3600000,
        .retry_ms = RETRY_MS,
        .retry_max_ms = 300000,
        .silent_ms = SILENT_MS,
        .stale_ms = 60000,
    };
    struct fake *fake = &fixture.fake;
    struct err err;

    (void)state;
    now_ms = NOW;
    *fake = (struct fake){
        .store = {fake, read_state, newest, announce, read_changes, build},
        .state = {.now_ms = 5000, .finished = 1, .started = 1, .weights = {.votes = 1}},
        .failure = RC_RETRY,
        .newest_window = 1,
    };
    assert_int_equal(recommended_open(&fixture.lists, &config, now_ms, &err), RC_OK);
    assert_int_equal(stop_init(&fixture.stop, &err), RC_OK);
    recommended_watcher_init(&fixture.watcher, fixture.lists, &fake->store);
    recommended_builder_init(&fixture.builder, fixture.lists, &fake->store, 1000, read_clock_us,
                             &fixture.stop);
    return 0;
}

static int close_fixture(void **state)
{
    (void)state;
    recommended_watcher_done(&fixture.watcher);
    recommended_free(fixture.lists);
    stop_done(&fixture.stop);
    return 0;
}

static int64_t watch(void)
{
    return recommended_watcher_step(&fixture.watcher, now_ms);
}

static int64_t build_next(void)
{
    return recommended_builder_step(&fixture.builder, now_ms);
}

static enum recommended_found find(bool *stale)
{
    struct recommended_list *list;
    enum recommended_found found = recommended_find(fixture.lists, ITEM, now_ms, &list, stale);

    recommended_list_release(list);
    return found;
}

static bool is_listed(void)
{
    bool stale;

    return find(&stale) == RECOMMENDED_LIST && !stale;
}

static void list_item(void)
{
    watch();
    assert_false(is_listed());
    assert_int_equal(build_next(), 0);
    assert_true(is_listed());
}

static void an_item_is_built_when_it_is_asked_for(void **state)
{
    (void)state;
    assert_int_equal(build_next(), 100); /* the watcher has not read yet */
    assert_int_equal(watch(), RECOMMENDED_WATCH_MS);
    assert_true(build_next() > 1000);
    list_item();
    assert_int_equal(fixture.fake.builds, 1);
}

static void a_list_is_of_one_state(void **state)
{
    (void)state;
    fixture.fake.news = 2;
    list_item();
    assert_int_equal(fixture.fake.builds, 3);
    /* The watcher reads what the build has seen: the list is as it should be. */
    watch();
    assert_true(build_next() > 1000);
    fixture.fake.state.weights.votes++;
    fixture.fake.state.now_ms++;
    fixture.fake.news = 100;
    watch();
    build_next();
    assert_int_equal(fixture.fake.builds, 3 + 4); /* the last one has failed */
    assert_true(is_listed());
    fixture.fake.news = 0;
    now_ms += RETRY_MS;
    watch();
    assert_int_equal(build_next(), 0);
    assert_int_equal(fixture.fake.builds, 3 + 4 + 1);
}

static void new_weights_in_the_millisecond_of_a_read_build_a_list_once(void **state)
{
    (void)state;
    list_item();
    now_ms += RETRY_MS;
    fixture.fake.changed_item = ITEM;
    fixture.fake.changed_ms = fixture.fake.state.now_ms;
    watch();
    fixture.fake.state.weights.votes++; /* the clock of the database stays */
    assert_int_equal(build_next(), 0);
    assert_int_equal(fixture.fake.builds, 1 + 2);
    assert_true(build_next() > 1000);
    watch();
    assert_true(build_next() > 1000);
    assert_int_equal(fixture.fake.builds, 1 + 2);
}

/* While the watcher reads, the builder works. */
static enum rc read_state_slowly(void *ctx, struct recommended_state *state, struct err *err)
{
    struct fake *fake = ctx;

    fake->store.read_state = read_state;
    *state = fake->state;
    fake->news = 1;
    assert_int_equal(build_next(), 0);
    return answer(fake, READ_STATE, err);
}

static void a_state_that_a_build_has_overtaken_is_read_again_at_once(void **state)
{
    (void)state;
    watch();
    assert_false(is_listed());
    fixture.fake.store.read_state = read_state_slowly;
    assert_int_equal(watch(), 0);
    assert_int_equal(fixture.fake.builds, 2);
    assert_true(build_next() > 1000);
    assert_int_equal(watch(), RECOMMENDED_WATCH_MS);
    assert_true(build_next() > 1000);
}

static void a_failed_build_is_tried_again_after_two_seconds(void **state)
{
    int64_t retry_ms = RETRY_MS;

    (void)state;
    watch();
    fixture.fake.failing = BUILD;
    for (int i = 1; i <= 3; i++) {
        assert_false(is_listed());
        fixture.fake.failure = i == 2 ? RC_FATAL : RC_RETRY;
        assert_int_equal(build_next(), 0);
        assert_false(is_listed());
        assert_int_equal(build_next(), retry_ms);
        assert_int_equal(fixture.fake.builds, i);
        now_ms += retry_ms;
        retry_ms *= 2;
        watch();
    }
    fixture.fake.failing = NONE;
    assert_int_equal(build_next(), 0);
    assert_true(is_listed());
}

static void only_a_build_that_a_stop_interrupts_is_no_failure(void **state)
{
    int64_t before = metric_value(&serve_recommended_failed);

    (void)state;
    watch();
    is_listed();
    fixture.fake.failing = BUILD;
    build_next();
    assert_int_equal(metric_value(&serve_recommended_failed), before + 1);
    now_ms += RETRY_MS;
    stop_request(&fixture.stop);
    assert_int_equal(build_next(), 0);
    assert_int_equal(fixture.fake.builds, 2);
    assert_int_equal(metric_value(&serve_recommended_failed), before + 1);
}

static void each_read_of_the_watcher_that_fails_makes_lists_stale(void **state)
{
    const enum op ops[] = {READ_STATE, READ_CHANGES, NEWEST};
    bool stale;

    (void)state;
    list_item();
    for (size_t i = 0; i < 3; i++) {
        fixture.fake.state.finished++;
        fixture.fake.state.started++;
        fixture.fake.failing = ops[i];
        fixture.fake.failure = i == 1 ? RC_FATAL : RC_RETRY;
        assert_int_equal(watch(), RECOMMENDED_WATCH_MS);
        assert_int_equal(find(&stale), RECOMMENDED_LIST);
        assert_true(stale);
        assert_int_equal(build_next(), 100);
        fixture.fake.failing = NONE;
        fixture.fake.newest_window = fixture.fake.state.finished;
        watch();
        assert_true(is_listed());
        assert_int_equal(build_next(), 0); /* the roll-up is not forgotten */
    }
    assert_int_equal(fixture.fake.builds, 1 + 3);
}

static void an_impossible_state_of_roll_ups_is_waited_for(void **state)
{
    bool stale;

    (void)state;
    list_item();
    fixture.fake.state.started += 2;
    watch();
    assert_int_equal(find(&stale), RECOMMENDED_LIST);
    assert_true(stale);
    fixture.fake.state.finished += 2;
    watch();
    assert_true(is_listed());
}

static void a_written_item_is_announced_and_built_again(void **state)
{
    (void)state;
    list_item();
    now_ms += RETRY_MS;
    fixture.fake.state.now_ms += RETRY_MS;
    recommended_written(fixture.lists, ITEM, now_ms);
    watch();
    assert_int_equal(fixture.fake.changed_item, ITEM);
    assert_int_equal(build_next(), 0);
    assert_int_equal(fixture.fake.builds, 2);
    now_ms += RETRY_MS;
    fixture.fake.state.now_ms += RETRY_MS;
    watch(); /* reads the announcement once more */
    assert_int_equal(fixture.fake.within_ms, RETRY_MS + 10000);
    build_next();
    assert_int_equal(fixture.fake.builds, 2);
}

static void an_item_is_built_again_if_it_cannot_be_announced(void **state)
{
    (void)state;
    list_item();
    now_ms += RETRY_MS;
    recommended_written(fixture.lists, ITEM, now_ms);
    fixture.fake.failing = ANNOUNCE;
    watch();
    assert_int_equal(fixture.fake.changed_item, 0);
    assert_int_equal(build_next(), 0);
    assert_int_equal(fixture.fake.builds, 2);
}

static void an_announcement_that_fails_is_made_again(void **state)
{
    (void)state;
    list_item();
    fixture.fake.failing = ANNOUNCE;
    for (int64_t item = 1; item <= RECOMMENDED_WRITTEN_MAX; item++)
        recommended_written(fixture.lists, item, now_ms);
    for (int i = 0; i < 5; i++) {
        fixture.fake.failure = i == 2 ? RC_FATAL : RC_RETRY;
        now_ms += RETRY_MS;
        fixture.fake.state.now_ms += RETRY_MS;
        assert_int_equal(watch(), RECOMMENDED_WATCH_MS);
        if (i == 2)
            recommended_written(fixture.lists, ITEM, now_ms);
        build_next();
    }
    assert_int_equal(fixture.fake.builds, 1 + 2); /* for the first failure, and for the write */
    fixture.fake.failing = NONE;
    for (int i = 0; i < 5; i++)
        watch();
    assert_int_equal(fixture.fake.announced, RECOMMENDED_WRITTEN_MAX);
}

static void a_list_of_an_item_too_many_is_built_again_here(void **state)
{
    (void)state;
    list_item();
    now_ms += RETRY_MS;
    for (int64_t item = 1; item <= RECOMMENDED_WRITTEN_MAX; item++)
        recommended_written(fixture.lists, 100 + item, now_ms);
    recommended_written(fixture.lists, ITEM, now_ms);
    assert_int_equal(build_next(), 0);
    assert_int_equal(fixture.fake.builds, 2);
}

static void a_write_during_an_announcement_that_fails_is_kept(void **state)
{
    int64_t items[RECOMMENDED_BATCH_MAX];

    (void)state;
    list_item();
    recommended_written(fixture.lists, 1, now_ms);
    recommended_written(fixture.lists, 2, now_ms);
    assert_int_equal(recommended_take_written(fixture.lists, items), 2);
    recommended_written(fixture.lists, 2, now_ms);
    for (int64_t item = 3; item <= RECOMMENDED_WRITTEN_MAX; item++)
        recommended_written(fixture.lists, item, now_ms);
    recommended_end_written(fixture.lists, false, now_ms);
    for (int i = 0; i < 5; i++)
        watch();
    assert_int_equal(fixture.fake.announced, RECOMMENDED_WRITTEN_MAX);
}

static void a_stop_announces_what_was_written(void **state)
{
    (void)state;
    recommended_watcher_end(&fixture.watcher, now_ms);
    for (int64_t item = 1; item <= RECOMMENDED_WRITTEN_MAX; item++)
        recommended_written(fixture.lists, item, now_ms);
    fixture.fake.failing = ANNOUNCE;
    recommended_watcher_end(&fixture.watcher, now_ms); /* ends, though it fails */
    assert_int_equal(fixture.fake.announced, 0);
    fixture.fake.failing = NONE;
    recommended_watcher_end(&fixture.watcher, now_ms);
    assert_int_equal(fixture.fake.announced, RECOMMENDED_WRITTEN_MAX);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_fixture, close_fixture)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_item_is_built_when_it_is_asked_for),
        TEST(a_list_is_of_one_state),
        TEST(new_weights_in_the_millisecond_of_a_read_build_a_list_once),
        TEST(a_state_that_a_build_has_overtaken_is_read_again_at_once),
        TEST(a_failed_build_is_tried_again_after_two_seconds),
        TEST(only_a_build_that_a_stop_interrupts_is_no_failure),
        TEST(each_read_of_the_watcher_that_fails_makes_lists_stale),
        TEST(an_impossible_state_of_roll_ups_is_waited_for),
        TEST(a_written_item_is_announced_and_built_again),
        TEST(an_item_is_built_again_if_it_cannot_be_announced),
        TEST(an_announcement_that_fails_is_made_again),
        TEST(a_stop_announces_what_was_written),
        TEST(a_list_of_an_item_too_many_is_built_again_here),
        TEST(a_write_during_an_announcement_that_fails_is_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
