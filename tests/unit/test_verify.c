/* SPDX-License-Identifier: MIT */
#include "consumer/verify/verify.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* Two sides in memory; a call number that fails, counted from 1. */
struct fake {
    const struct verify_total *side[2];
    size_t count[2];
    const struct verify_total *voters[2];
    size_t voter_count;
    const struct verify_total *deleted[2];
    size_t deleted_count[2];
    bool others_end;
    size_t check_count;
    size_t bad_check;
    unsigned calls;
    unsigned fail_at;
    size_t page_max;
};

static bool fails(struct fake *fake)
{
    return ++fake->calls == fake->fail_at;
}

static enum rc fake_check(void *ctx, size_t index, struct verify_result *result, bool *more,
                          struct err *err)
{
    struct fake *fake = ctx;

    if (fails(fake))
        return err_fail(err, RC_RETRY, 0, "away");
    *more = index < fake->check_count;
    if (!*more)
        return RC_OK;
    result->name = "some_check";
    result->rows = 7;
    if (index + 1 == fake->bad_check)
        for (int i = 0; i < VERIFY_OFFENDERS_MAX + 2; i++)
            verify_found(result, "row %d", i);
    return RC_OK;
}

static enum rc fake_groups(void *ctx, enum verify_side side, int64_t sums[VERIFY_GROUPS],
                           uint64_t *rows, struct err *err)
{
    struct fake *fake = ctx;

    if (fails(fake))
        return err_fail(err, RC_RETRY, 0, "away");
    *rows = fake->voter_count;
    memset(sums, 0, VERIFY_GROUPS * sizeof(sums[0]));
    for (size_t i = 0; i < fake->voter_count; i++)
        sums[fake->voters[side][i].content_id % VERIFY_GROUPS] += fake->voters[side][i].value;
    return RC_OK;
}

/* The next page of one side. */
static size_t take_page(const struct verify_total *side, size_t side_count, int64_t after,
                        struct verify_total *totals, size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < side_count && count < max; i++)
        if (side[i].content_id > after)
            totals[count++] = side[i];
    return count;
}

static enum rc fake_contents(void *ctx, enum verify_side side, int group, int64_t after,
                             struct verify_total *totals, size_t max, size_t *count,
                             struct err *err)
{
    struct fake *fake = ctx;

    if (fails(fake))
        return err_fail(err, RC_RETRY, 0, "away");
    if (group >= 0) {
        *count = 0;
        for (size_t i = 0; i < fake->voter_count && *count < max; i++)
            if (fake->voters[side][i].content_id > after &&
                fake->voters[side][i].content_id % VERIFY_GROUPS == group)
                totals[(*count)++] = fake->voters[side][i];
        return RC_OK;
    }
    if (fake->page_max && fake->page_max < max)
        max = fake->page_max;
    if (group == VERIFY_TOTALS)
        *count = take_page(fake->side[side], fake->count[side], after, totals, max);
    else
        *count = take_page(fake->deleted[side], fake->deleted_count[side], after, totals, max);
    return RC_OK;
}

struct seen {
    size_t results;
    struct verify_result totals;
    struct verify_result voters;
    struct verify_result deleted;
    struct verify_result worst;
};

static void see(void *ctx, const struct verify_result *result)
{
    struct seen *seen = ctx;

    seen->results++;
    if (strcmp(result->name, "log_matches_writers") == 0)
        seen->totals = *result;
    if (strcmp(result->name, "voters_match") == 0)
        seen->voters = *result;
    if (strcmp(result->name, "deleted_match") == 0)
        seen->deleted = *result;
    if (result->violations > seen->worst.violations)
        seen->worst = *result;
}

static enum rc run(struct fake *fake, struct seen *seen, uint64_t *violations, struct err *err)
{
    struct verify_source source = {.ctx = fake,
                                   .others_end = fake->others_end,
                                   .check = fake_check,
                                   .groups = fake_groups,
                                   .contents = fake_contents};

    memset(seen, 0, sizeof(*seen));
    return verify_run(&source, see, seen, violations, err);
}

static void equal_sides_pass_with_any_page_size(void **state)
{
    const struct verify_total totals[] = {
        {1, 5, false}, {2, 0, false}, {9, 3, false}, {12, 1, false}};
    const struct verify_total logged[] = {{1, 5, false}, {9, 3, false}, {12, 1, false}};
    struct seen seen;
    struct err err;
    uint64_t violations;

    (void)state;
    for (size_t page = 0; page < 5; page++) {
        struct fake fake = {.side = {totals, logged}, .count = {4, 3}, .page_max = page};

        assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
        assert_int_equal(violations, 0);
        assert_int_equal(seen.totals.rows, 4);
    }
}

/* The writers may have more votes of it, or none any more. */
static void a_content_whose_tally_has_ended_is_not_compared(void **state)
{
    const struct verify_total written[] = {{1, 5, false}, {2, 7, false}, {4, 1, false}};
    const struct verify_total logged[] = {{1, 4, true}, {3, 2, true}, {4, 2, false}};
    struct fake fake = {
        .side = {written, logged}, .count = {3, 3}, .voters = {written, logged}, .voter_count = 3};
    struct seen seen;
    struct err err;
    uint64_t violations;

    (void)state;
    assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
    /* Content 2 is not in the log at all, and content 4 differs. */
    assert_int_equal(seen.totals.violations, 2);
    assert_non_null(strstr(seen.totals.offenders[0], "content 2:"));
    assert_non_null(strstr(seen.totals.offenders[1], "content 4:"));
    assert_int_equal(seen.voters.violations, 2);
    assert_non_null(strstr(seen.voters.offenders[0], "content 2:"));
    assert_non_null(strstr(seen.voters.offenders[1], "content 4:"));
}

static void a_difference_on_either_side_is_named(void **state)
{
    const struct verify_total written[] = {{1, 5, false}, {2, 7, false}, {4, 1, false}};
    const struct verify_total logged[] = {{1, 4, false}, {3, 2, false}, {4, 1, false}};
    struct fake fake = {.side = {written, logged}, .count = {3, 3}, .page_max = 1};
    struct seen seen;
    struct err err;
    uint64_t violations;

    (void)state;
    assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
    assert_int_equal(violations, 3);
    assert_int_equal(seen.totals.rows, 4);
    assert_string_equal(seen.totals.offenders[0],
                        "content 1: vote_count has 5 votes, vote_tally 4");
    assert_string_equal(seen.totals.offenders[1],
                        "content 2: vote_count has 7 votes, vote_tally 0");
    assert_string_equal(seen.totals.offenders[2],
                        "content 3: vote_count has 0 votes, vote_tally 2");
}

static void voters_that_differ_are_found_although_the_totals_agree(void **state)
{
    const struct verify_total written[] = {
        {7, 100, false}, {8, 50, false}, {7 + VERIFY_GROUPS, 3, false}};
    const struct verify_total logged[] = {
        {7, 100, false}, {8, 51, false}, {7 + VERIFY_GROUPS, 4, false}};
    struct fake fake = {.voters = {written, logged}, .voter_count = 3};
    struct seen seen;
    struct err err;
    uint64_t violations;

    (void)state;
    assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
    assert_int_equal(seen.totals.violations, 0);
    assert_int_equal(seen.voters.violations, 2);
    assert_int_equal(seen.voters.rows, 3);
    assert_string_equal(seen.voters.offenders[0],
                        "content 1031: the voters in vote_state are not those in vote_document");
    assert_string_equal(seen.voters.offenders[1],
                        "content 8: the voters in vote_state are not those in vote_document");
}

static void a_deleted_content_and_its_tally_are_compared(void **state)
{
    /* 1 and 6 are closed, an application has deleted 2 and 3 and ended the tally of 3. */
    const struct verify_total written[] = {
        {1, 1, true}, {2, 1, false}, {3, 1, false}, {6, 1, true}};
    const struct verify_total logged[] = {{1, 1, true}, {3, 1, true}, {4, 1, true}};
    struct fake fake = {.deleted = {written, logged}, .deleted_count = {4, 3}, .page_max = 1};
    struct seen seen;
    struct err err;
    uint64_t violations;

    (void)state;
    assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
    assert_int_equal(violations, 2);
    assert_int_equal(seen.deleted.violations, 2);
    assert_int_equal(seen.deleted.rows, 5);
    assert_string_equal(seen.deleted.offenders[0],
                        "content 4: its tally in vote_tally has ended, but deleted_content has no "
                        "row of it");
    assert_string_equal(seen.deleted.offenders[1],
                        "content 6: closed in deleted_content, but its tally in vote_tally has not "
                        "ended");
    fake.others_end = true;
    assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
    assert_int_equal(violations, 1);
    assert_non_null(strstr(seen.deleted.offenders[0], "content 6:"));
}

static void groups_are_not_looked_at_closer_once_enough_offenders_are_known(void **state)
{
    enum { DIFFERENT = 20 };
    static struct verify_total written[DIFFERENT];
    static struct verify_total logged[DIFFERENT];
    struct fake fake = {.voters = {written, logged}, .voter_count = DIFFERENT};
    struct seen seen;
    struct err err;
    uint64_t violations;

    (void)state;
    for (int i = 0; i < DIFFERENT; i++) {
        written[i] = (struct verify_total){i + 1, 1, false};
        logged[i] = (struct verify_total){i + 1, 2, false};
    }
    assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
    assert_int_equal(seen.voters.violations, DIFFERENT);
    assert_int_equal(seen.voters.offender_count, VERIFY_OFFENDERS_MAX);
    /* The list of checks, both ends of the totals and of the deleted contents, the groups, and two
     * pages and two ends each. */
    assert_true(fake.calls <= 1 + 2 + 2 + 2 + 4 * VERIFY_OFFENDERS_MAX);
}

static void only_the_first_offenders_are_kept_but_all_are_counted(void **state)
{
    struct fake fake = {.check_count = 3, .bad_check = 2};
    struct seen seen;
    struct err err;
    uint64_t violations;

    (void)state;
    assert_int_equal(run(&fake, &seen, &violations, &err), RC_OK);
    assert_int_equal(seen.results, 6);
    assert_int_equal(violations, VERIFY_OFFENDERS_MAX + 2);
    assert_int_equal(seen.worst.offender_count, VERIFY_OFFENDERS_MAX);
    assert_string_equal(seen.worst.offenders[0], "row 0");
}

static void a_check_that_cannot_be_made_is_an_error_not_a_pass(void **state)
{
    const struct verify_total totals[] = {{1, 5, false}};
    struct seen seen;
    struct err err;
    uint64_t violations;
    unsigned at = 1;

    (void)state;
    for (;; at++) {
        struct fake fake = {
            .side = {totals, totals}, .count = {1, 1}, .check_count = 2, .fail_at = at};
        enum rc rc = run(&fake, &seen, &violations, &err);

        if (fake.calls < at) {
            assert_int_equal(rc, RC_OK);
            break;
        }
        assert_int_equal(rc, RC_RETRY);
        assert_non_null(strstr(err.text, "could not be checked: away"));
    }
    /* Three looks at the list of checks, a page and an end of each side, the voters' groups, the
     * end of each side of the deleted contents. */
    assert_int_equal(at, 3 + 4 + 2 + 2 + 1);
}

static void what_is_not_checked_depends_on_the_installation(void **state)
{
    const struct verify_limit *limit;
    size_t all = 0;
    size_t outbox = 0;

    (void)state;
    while ((limit = verify_limit_at(all, false))) {
        assert_string_not_equal(limit->name, "votes");
        all++;
    }
    assert_string_equal(verify_limit_at(0, true)->name, "votes");
    while ((limit = verify_limit_at(outbox, true))) {
        assert_string_not_equal(limit->name, "dead_records");
        outbox++;
    }
    assert_int_equal(all, 5);
    assert_int_equal(outbox, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_sides_pass_with_any_page_size),
        cmocka_unit_test(a_content_whose_tally_has_ended_is_not_compared),
        cmocka_unit_test(a_difference_on_either_side_is_named),
        cmocka_unit_test(voters_that_differ_are_found_although_the_totals_agree),
        cmocka_unit_test(a_deleted_content_and_its_tally_are_compared),
        cmocka_unit_test(groups_are_not_looked_at_closer_once_enough_offenders_are_known),
        cmocka_unit_test(only_the_first_offenders_are_kept_but_all_are_counted),
        cmocka_unit_test(a_check_that_cannot_be_made_is_an_error_not_a_pass),
        cmocka_unit_test(what_is_not_checked_depends_on_the_installation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
