/* SPDX-License-Identifier: MIT */
/* Lists of remarks against a model: between any two statements remarks are added, votes change, and
 * roll-ups begin, write some remarks, are interrupted, and end. */
#include "producer/remark/remark_reader.h"

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
        assert_int_equal(remark_reader_load(&model->store, page, &err), RC_OK);
        if (page->expired) {
            remark_page_release(page);
            return false;
        }
        for (size_t i = 0; i < page->count; i++) {
            ids[*count] = page->ids[i];
            votes[(*count)++] = page->votes[i];
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
    assert_int_equal(remark_reader_load(&model.store, page, &err), RC_OK);
    assert_int_equal(model.calls, 1);
    model.windows.started++;
    assert_int_equal(remark_reader_load(&model.store, page, &err), RC_OK);
    assert_int_equal(model.calls, 3);
    remark_page_release(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_remark_is_twice_in_a_list_or_missing),
        cmocka_unit_test(a_list_shows_the_votes_of_one_finished_roll_up),
        cmocka_unit_test(a_page_needs_one_statement_while_no_roll_up_is_at_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
