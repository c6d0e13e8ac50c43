/* SPDX-License-Identifier: MIT */
/* Lists of remarks against a model: between any two statements remarks are added, votes change, and
 * roll-ups begin, write some remarks, are interrupted, and end. */
#include "producer/remark/remark_worker.h"

#include "common/hash.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define REMARKS_MAX 60
#define ITEM 7
#define ROUNDS 3000

struct model_remark {
    int64_t votes;
    int64_t votes_before;
    int64_t votes_window;
};

struct model {
    struct remark_store store;
    uint64_t rng;
    size_t count; /* remarks, with the ids 1..count */
    struct model_remark remarks[REMARKS_MAX + 1];
    struct remark_windows windows;
    int changes; /* of 100 statements, how many follow a change */
    int calls;
};

static uint64_t draw(struct model *model, uint64_t below)
{
    return rng_next(&model->rng) % below;
}

/* One step of the world. A roll-up at work writes a remark, also one that it wrote before it was
 * interrupted. */
static void change_something(struct model *model)
{
    struct model_remark *remark = &model->remarks[1 + draw(model, model->count)];
    bool at_work = model->windows.started > model->windows.finished;

    switch (draw(model, 4)) {
    case 0:
        if (model->count < REMARKS_MAX)
            model->remarks[++model->count] = (struct model_remark){0};
        break;
    case 1:
        model->windows.started = model->windows.finished + 1;
        break;
    case 2:
        if (at_work)
            model->windows.finished = model->windows.started;
        break;
    default:
        if (!at_work)
            break;
        if (remark->votes_window != model->windows.started)
            remark->votes_before = remark->votes;
        remark->votes_window = model->windows.started;
        remark->votes = (int64_t)draw(model, 6);
        break;
    }
}

static int64_t listed_votes(const struct model_remark *remark, const struct remark_query *query)
{
    return query->as_of && remark->votes_window > query->window ? remark->votes_before
                                                                : remark->votes;
}

struct found {
    int64_t id;
    int64_t votes;
};

static int compare_found(const void *a, const void *b)
{
    const struct found *one = a;
    const struct found *two = b;

    if (one->votes != two->votes)
        return one->votes > two->votes ? -1 : 1;
    return (one->id < two->id) - (one->id > two->id);
}

static enum rc read_page(void *ctx, const struct remark_query *query, remark_on_row on_row,
                         void *row_ctx, struct remark_windows *windows, struct err *err)
{
    struct model *model = ctx;
    const struct remark_place *place = &query->place;
    struct found found[REMARKS_MAX];
    const struct found after = {place->id, place->sort == REMARK_VOTES ? place->votes : 0};
    size_t count = 0;
    enum rc rc = RC_OK;

    model->calls++;
    if ((int)draw(model, 100) < model->changes)
        change_something(model);
    for (size_t id = 1; id <= model->count; id++) {
        struct found one = {(int64_t)id, 0};

        if (place->sort == REMARK_VOTES)
            one.votes = listed_votes(&model->remarks[id], query);
        if (!place->after || compare_found(&after, &one) < 0)
            found[count++] = one;
    }
    qsort(found, count, sizeof(found[0]), compare_found);
    for (size_t i = 0; rc == RC_OK && i < count && i < query->rows_max; i++) {
        struct remark_row row = {.id = found[i].id,
                                 .item_id = ITEM,
                                 .votes = found[i].votes,
                                 .header = "",
                                 .user_name = "",
                                 .user_face = ""};

        rc = on_row(row_ctx, &row, err);
    }
    *windows = model->windows;
    return rc;
}

static void model_init(struct model *model, uint64_t seed, int changes)
{
    *model = (struct model){.rng = seed, .count = 1, .changes = changes};
    model->store = (struct remark_store){.ctx = model, .read_page = read_page};
    while (model->count < 1 + seed % 40)
        model->remarks[++model->count] = (struct model_remark){0};
    for (int i = 0; i < 200; i++)
        change_something(model);
}

/* Votes as of the finished roll-up, before the list is read. */
static void copy_listed(const struct model *model, int64_t votes[REMARKS_MAX + 1])
{
    const struct remark_query query = {.as_of = true, .window = model->windows.finished};

    for (size_t id = 1; id <= model->count; id++)
        votes[id] = listed_votes(&model->remarks[id], &query);
}

/* Reads the list to its end. False: a cursor expired. */
static bool read_list(struct model *model, struct remark_place place, int64_t *ids, int64_t *votes,
                      size_t *count)
{
    bool more = true;

    *count = 0;
    while (more) {
        struct remark_page *page = remark_page_new(&place, 1 + draw(model, 5));
        struct err err;

        assert_non_null(page);
        assert_int_equal(remark_worker_load(&model->store, page, &err), RC_OK);
        if (page->expired) {
            remark_page_release(page);
            return false;
        }
        for (size_t i = 0; i < page->count; i++) {
            ids[*count] = page->rows[i].id;
            votes[(*count)++] = page->rows[i].votes;
        }
        more = page->has_next;
        place = page->next;
        remark_page_release(page);
    }
    return true;
}

static void check_list(const struct model *model, enum remark_sort sort, size_t first_count,
                       const int64_t *ids, const int64_t *votes, size_t count)
{
    bool seen[REMARKS_MAX + 1] = {false};

    for (size_t i = 0; i < count; i++) {
        assert_in_range(ids[i], 1, model->count);
        assert_false(seen[ids[i]]);
        seen[ids[i]] = true;
        if (i > 0 && sort == REMARK_NEWEST)
            assert_true(ids[i - 1] > ids[i]);
        if (i > 0 && sort == REMARK_VOTES)
            assert_true(votes[i - 1] > votes[i] ||
                        (votes[i - 1] == votes[i] && ids[i - 1] > ids[i]));
    }
    for (size_t id = 1; id <= first_count; id++)
        assert_true(seen[id]);
}

static void no_remark_is_twice_in_a_list_or_missing(void **state)
{
    int expired = 0;
    int whole = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        enum remark_sort sort = seed % 3 == 0 ? REMARK_NEWEST : REMARK_VOTES;
        struct remark_place place = {.item_id = ITEM, .sort = sort};
        int64_t ids[REMARKS_MAX];
        int64_t votes[REMARKS_MAX];
        struct model model;
        size_t first_count;
        size_t count;

        model_init(&model, seed, (int)(seed % 7) * 5);
        first_count = model.count;
        if (!read_list(&model, place, ids, votes, &count)) {
            assert_int_equal(sort, REMARK_VOTES);
            expired++;
            continue;
        }
        whole++;
        check_list(&model, sort, first_count, ids, votes, count);
    }
    assert_true(expired > ROUNDS / 100);
    assert_true(whole > ROUNDS / 2);
}

static void a_list_shows_the_votes_of_one_finished_roll_up(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= ROUNDS; seed++) {
        struct remark_place place = {.item_id = ITEM, .sort = REMARK_VOTES};
        int64_t listed[REMARKS_MAX + 1] = {0};
        int64_t ids[REMARKS_MAX];
        int64_t votes[REMARKS_MAX];
        struct model model;
        size_t count;

        model_init(&model, seed, 0);
        copy_listed(&model, listed);
        assert_true(read_list(&model, place, ids, votes, &count));
        assert_int_equal(count, model.count);
        for (size_t i = 0; i < count; i++)
            assert_int_equal(votes[i], listed[ids[i]]);
    }
}

static void numbers_that_no_roll_up_leaves_are_an_error_and_no_crash(void **state)
{
    struct remark_place place = {.item_id = ITEM, .sort = REMARK_VOTES};
    struct remark_page *page = remark_page_new(&place, 5);
    struct model model;
    struct err err;

    (void)state;
    model_init(&model, 39, 0);
    model.windows.started = model.windows.finished + 2;
    assert_int_equal(remark_worker_load(&model.store, page, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "rollup_state.started_window"));
    model.windows.started = model.windows.finished - 1;
    assert_int_equal(remark_worker_load(&model.store, page, &err), RC_REJECT);
    remark_page_release(page);
}

static void a_page_needs_one_statement_while_no_roll_up_is_at_work(void **state)
{
    struct remark_place place = {.item_id = ITEM, .sort = REMARK_VOTES};
    struct remark_page *page = remark_page_new(&place, 5);
    struct model model;
    struct err err;

    (void)state;
    model_init(&model, 39, 0);
    model.windows.finished = model.windows.started;
    model.calls = 0;
    assert_int_equal(remark_worker_load(&model.store, page, &err), RC_OK);
    assert_int_equal(model.calls, 1);
    model.windows.started++;
    assert_int_equal(remark_worker_load(&model.store, page, &err), RC_OK);
    assert_int_equal(model.calls, 3);
    remark_page_release(page);
}

/* A table that loses the answer to the first COMMIT. */
struct table {
    struct remark_store store;
    int64_t ids[8];
    int64_t items[8];
    size_t count;
    bool deleted; /* all rows */
    int losses;   /* answers that are still to be lost */
    int inserts;
};

static enum rc insert_row(void *ctx, const struct remark_values *values, int64_t *id,
                          struct remark_insertion *end, struct err *err)
{
    struct table *table = ctx;

    table->inserts++;
    for (size_t i = 0; i < table->count; i++) {
        if (*id == 0 || table->ids[i] != *id)
            continue;
        end->existed = !table->deleted;
        end->deleted = table->deleted;
        end->item_id = table->items[i];
        return RC_OK;
    }
    table->items[table->count] = values->numbers[REMARK_ITEM_ID];
    table->ids[table->count] = *id > 0 ? *id : 101 + (int64_t)table->count;
    table->count++;
    end->unknown = table->losses > 0;
    if (table->losses-- > 0)
        return err_fail(err, RC_RETRY, 2013, "Lost connection to MySQL server during query");
    *id = table->ids[table->count - 1];
    return RC_OK;
}

static bool collides_never(void *ctx, const struct err *err)
{
    (void)ctx;
    (void)err;
    return false;
}

static int answers;

static void on_answer(struct queue_entry *entry, enum queue_end end)
{
    (void)entry;
    assert_int_equal(end, QUEUE_DONE);
    answers++;
}

static void on_release(struct queue_entry *entry)
{
    (void)entry;
}

static int64_t clock_ms(void)
{
    return 1000;
}

static uint64_t no_rng(void)
{
    return 0;
}

static void write_remark(struct table *table, struct remark_write *write)
{
    const struct queue_config queue = {.shards = 1,
                                       .weight_max = 10,
                                       .timeout_ms = 60000,
                                       .breaker_base_ms = 1,
                                       .breaker_cap_ms = 1,
                                       .name = "remarks",
                                       .dep = "sink"};
    const struct page_cache_config cache = {
        .bytes_max = 1 << 20,
        .fresh_ms = 1000,
        .stale_ms = 1000,
    };
    struct remark_request request = {
        .entry = {.weight = 1, .answer = on_answer, .release = on_release}, .write = write};
    struct remark_worker_config config = {
        .store = &table->store, .clock_ms = clock_ms, .rng = no_rng};
    struct remark_worker *worker;
    struct err err;
    int64_t wait_ms;

    table->store =
        (struct remark_store){.ctx = table, .insert = insert_row, .collided = collides_never};
    assert_int_equal(queue_open(&config.queue, &queue, &err), RC_OK);
    assert_int_equal(page_cache_open(&config.pages, &cache, &err), RC_OK);
    assert_int_equal(remark_worker_open(&worker, &config, &err), RC_OK);
    queue_worked(config.queue, 0);
    answers = 0;
    assert_int_equal(queue_put(config.queue, 0, &request.entry, 0, &wait_ms), QUEUE_TAKEN);
    for (int64_t now_ms = 0; answers == 0 && now_ms < 1000; now_ms += 10)
        remark_worker_step(worker, now_ms);
    assert_int_equal(answers, 1);
    remark_worker_close(worker);
    page_cache_free(config.pages);
    queue_free(config.queue);
}

static void a_lost_commit_is_repeated_only_for_a_remark_with_an_id(void **state)
{
    struct remark_write chosen = {.values.numbers[REMARK_ITEM_ID] = ITEM, .id = 5};
    struct remark_write other = {.values.numbers[REMARK_ITEM_ID] = ITEM + 1, .id = 5};
    struct remark_write unnamed = {.values.numbers[REMARK_ITEM_ID] = ITEM};
    struct table table = {.losses = 1};

    (void)state;
    write_remark(&table, &chosen);
    assert_int_equal(chosen.end, REMARK_EXISTED);
    assert_int_equal(table.inserts, 2);
    assert_int_equal(table.count, 1);
    write_remark(&table, &other);
    assert_int_equal(other.end, REMARK_TAKEN);
    table.deleted = true;
    write_remark(&table, &chosen);
    assert_int_equal(chosen.end, REMARK_DELETED);
    table.deleted = false;
    table.losses = 1;
    table.inserts = 0;
    write_remark(&table, &unnamed);
    assert_int_equal(unnamed.end, REMARK_UNKNOWN);
    assert_int_equal(table.inserts, 1);
    assert_int_equal(table.count, 2);
    write_remark(&table, &unnamed);
    assert_int_equal(unnamed.end, REMARK_WRITTEN);
    assert_int_equal(unnamed.id, table.ids[2]);
}

/* A database whose list by votes cannot be read. */
struct half {
    struct remark_store store;
    enum rc page_rc; /* of a page by votes */
    enum rc ping_rc;
    int reads;
};

static enum rc read_half(void *ctx, const struct remark_query *query, remark_on_row on_row,
                         void *row_ctx, struct remark_windows *windows, struct err *err)
{
    struct half *half = ctx;

    (void)on_row;
    (void)row_ctx;
    half->reads++;
    if (query->place.sort == REMARK_NEWEST)
        return RC_OK;
    *windows = (struct remark_windows){.finished = 1, .started = 4};
    return half->page_rc == RC_OK ? RC_OK : err_fail(err, half->page_rc, 2013, "timed out");
}

static enum rc ping_half(void *ctx, struct err *err)
{
    struct half *half = ctx;

    return half->ping_rc == RC_OK ? RC_OK : err_fail(err, half->ping_rc, 2003, "away");
}

/* Returns how the queue takes a request for newest remarks afterwards. *answered, *not_read: of the
 * one for the page by votes. */
static enum queue_verdict read_both(struct half *half, bool *answered, bool *not_read)
{
    const struct queue_config queue = {.shards = 1,
                                       .weight_max = 10,
                                       .timeout_ms = 60000,
                                       .breaker_base_ms = 100000,
                                       .breaker_cap_ms = 100000,
                                       .name = "remarks",
                                       .dep = "sink"};
    struct remark_request requests[2] = {
        {.entry = {.weight = 1, .answer = on_answer, .release = on_release}},
        {.entry = {.weight = 1, .answer = on_answer, .release = on_release}},
    };
    struct remark_worker_config config = {
        .store = &half->store, .clock_ms = clock_ms, .rng = no_rng};
    struct remark_place by_votes = {.item_id = ITEM, .sort = REMARK_VOTES};
    struct remark_place newest = {.item_id = ITEM};
    struct remark_worker *worker;
    enum queue_verdict verdict;
    struct err err;
    int64_t wait_ms;

    half->store = (struct remark_store){
        .ctx = half, .read_page = read_half, .ping = ping_half, .collided = collides_never};
    requests[0].page = remark_page_new(&by_votes, 1);
    requests[1].page = remark_page_new(&newest, 1);
    assert_int_equal(queue_open(&config.queue, &queue, &err), RC_OK);
    assert_int_equal(remark_worker_open(&worker, &config, &err), RC_OK);
    queue_worked(config.queue, 0);
    answers = 0;
    assert_int_equal(queue_put(config.queue, 0, &requests[0].entry, 0, &wait_ms), QUEUE_TAKEN);
    for (int64_t now_ms = 0; now_ms < 100; now_ms += 10)
        remark_worker_step(worker, now_ms);
    *answered = answers == 1;
    *not_read = requests[0].not_read;
    verdict = queue_put(config.queue, 0, &requests[1].entry, 100, &wait_ms);
    if (verdict == QUEUE_TAKEN) {
        remark_worker_step(worker, 100);
        assert_int_equal(answers, 2);
        assert_false(requests[1].not_read);
    } else {
        half->page_rc = RC_OK;
        for (int64_t now_ms = 200000; answers == 0; now_ms += 10)
            remark_worker_step(worker, now_ms);
    }
    remark_worker_close(worker);
    queue_free(config.queue);
    remark_page_release(requests[0].page);
    remark_page_release(requests[1].page);
    return verdict;
}

static void a_page_that_cannot_be_read_does_not_refuse_the_others(void **state)
{
    struct half wrong_row = {.page_rc = RC_OK};
    struct half slow = {.page_rc = RC_RETRY};
    struct half refused = {.page_rc = RC_REJECT};
    struct half away = {.page_rc = RC_RETRY, .ping_rc = RC_RETRY};
    bool answered;
    bool not_read;

    (void)state;
    assert_int_equal(read_both(&wrong_row, &answered, &not_read), QUEUE_TAKEN);
    assert_true(answered && not_read);
    assert_int_equal(wrong_row.reads, 2);
    assert_int_equal(read_both(&slow, &answered, &not_read), QUEUE_TAKEN);
    assert_true(answered && not_read);
    assert_int_equal(slow.reads, 3);
    assert_int_equal(read_both(&refused, &answered, &not_read), QUEUE_TAKEN);
    assert_true(answered && not_read);
    assert_int_equal(read_both(&away, &answered, &not_read), QUEUE_UNAVAILABLE);
    assert_false(answered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_remark_is_twice_in_a_list_or_missing),
        cmocka_unit_test(a_list_shows_the_votes_of_one_finished_roll_up),
        cmocka_unit_test(numbers_that_no_roll_up_leaves_are_an_error_and_no_crash),
        cmocka_unit_test(a_page_needs_one_statement_while_no_roll_up_is_at_work),
        cmocka_unit_test(a_page_that_cannot_be_read_does_not_refuse_the_others),
        cmocka_unit_test(a_lost_commit_is_repeated_only_for_a_remark_with_an_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
