/* SPDX-License-Identifier: MIT */
#include "consumer/verify/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* One side of the merge: the current page of contents and the position in it. */
struct side {
    enum verify_side side;
    struct verify_total *totals; /* VERIFY_PAGE_ROWS of them */
    size_t count;
    size_t at;
    int64_t after;
    bool ended;
};

struct merge {
    const struct verify_source *source;
    struct side sides[2]; /* index: enum verify_side */
    int group;            /* of contents, VERIFY_TOTALS or VERIFY_DELETED */
    struct verify_result *result;
};

static void free_merge(struct merge *merge)
{
    for (size_t i = 0; i < 2; i++)
        free(merge->sides[i].totals);
}

static enum rc init_merge(struct merge *merge, const struct verify_source *source,
                          struct verify_result *result, struct err *err)
{
    *merge = (struct merge){.source = source, .result = result};
    for (size_t i = 0; i < 2; i++) {
        merge->sides[i].totals = calloc(VERIFY_PAGE_ROWS, sizeof(*merge->sides[i].totals));
        if (!merge->sides[i].totals) {
            free_merge(merge);
            return err_fail(err, RC_FATAL, 0, "out of memory");
        }
    }
    return RC_OK;
}

static void start_merge(struct merge *merge, int group)
{
    merge->group = group;
    for (int i = 0; i < 2; i++) {
        struct side *side = &merge->sides[i];

        *side =
            (struct side){.side = (enum verify_side)i, .totals = side->totals, .after = INT64_MIN};
    }
}

/* Reads the next page if needed: afterwards totals[at] is valid or the side has ended. */
static enum rc fill_side(struct merge *merge, struct side *side, struct err *err)
{
    enum rc rc;

    if (side->ended || side->at < side->count)
        return RC_OK;
    rc = merge->source->contents(merge->source->ctx, side->side, merge->group, side->after,
                                 side->totals, VERIFY_PAGE_ROWS, &side->count, err);
    if (rc != RC_OK)
        return rc;
    side->at = 0;
    side->ended = side->count == 0;
    if (!side->ended)
        side->after = side->totals[side->count - 1].content_id;
    return RC_OK;
}

/* Returns what the side has of the content and moves on; zeros if it has nothing. */
static struct verify_total take_total(struct side *side, int64_t content_id)
{
    if (side->ended || side->totals[side->at].content_id != content_id)
        return (struct verify_total){.content_id = content_id};
    return side->totals[side->at++];
}

static int64_t next_content(const struct side *a, const struct side *b)
{
    if (a->ended)
        return b->totals[b->at].content_id;
    if (b->ended || a->totals[a->at].content_id < b->totals[b->at].content_id)
        return a->totals[a->at].content_id;
    return b->totals[b->at].content_id;
}

static void compare_content(struct merge *merge, int64_t content_id, int64_t written,
                            int64_t logged)
{
    if (written == logged)
        return;
    if (merge->group == VERIFY_TOTALS)
        verify_found(merge->result, "content %lld: vote_count has %lld votes, vote_tally %lld",
                     (long long)content_id, (long long)written, (long long)logged);
    else
        verify_found(merge->result,
                     "content %lld: the voters in vote_state are not those in vote_document",
                     (long long)content_id);
}

/* A content that an application deleted may be in deleted_content without being closed, also if the
 * application has ended its tally with a tombstone of its own. */
static void compare_deleted(struct merge *merge, int64_t content_id,
                            const struct verify_total *written, const struct verify_total *logged)
{
    if (written->ended && !logged->ended)
        verify_found(merge->result,
                     "content %lld: closed in deleted_content, but its tally in vote_tally has not "
                     "ended",
                     (long long)content_id);
    else if (logged->ended && written->value == 0 && !merge->source->others_end)
        verify_found(merge->result,
                     "content %lld: its tally in vote_tally has ended, but deleted_content has no "
                     "row of it",
                     (long long)content_id);
}

static enum rc run_merge(struct merge *merge, uint64_t *rows, struct err *err)
{
    struct side *writers = &merge->sides[VERIFY_WRITERS];
    struct side *log = &merge->sides[VERIFY_LOG];

    for (;;) {
        enum rc rc = fill_side(merge, writers, err);
        int64_t content_id;
        struct verify_total written;
        struct verify_total logged;

        if (rc == RC_OK)
            rc = fill_side(merge, log, err);
        if (rc != RC_OK || (writers->ended && log->ended))
            return rc;
        content_id = next_content(writers, log);
        written = take_total(writers, content_id);
        logged = take_total(log, content_id);
        if (merge->group == VERIFY_DELETED)
            compare_deleted(merge, content_id, &written, &logged);
        else if (!logged.ended)
            compare_content(merge, content_id, written.value, logged.value);
        (*rows)++;
    }
}

static enum rc merge_contents(const struct verify_source *source, int group,
                              struct verify_result *result, struct err *err)
{
    struct merge merge;
    enum rc rc = init_merge(&merge, source, result, err);

    if (rc != RC_OK)
        return rc;
    start_merge(&merge, group);
    rc = run_merge(&merge, &result->rows, err);
    free_merge(&merge);
    return rc;
}

static enum rc check_totals(const struct verify_source *source, struct verify_result *result,
                            struct err *err)
{
    return merge_contents(source, VERIFY_TOTALS, result, err);
}

static enum rc check_deleted(const struct verify_source *source, struct verify_result *result,
                             struct err *err)
{
    return merge_contents(source, VERIFY_DELETED, result, err);
}

/* Counts the voters of vote_state. Compares single contents only in groups that differ, so that a
 * correct log costs one scan on each side. */
static enum rc check_voters(const struct verify_source *source, struct verify_result *result,
                            struct err *err)
{
    int64_t written[VERIFY_GROUPS];
    int64_t logged[VERIFY_GROUPS];
    uint64_t contents = 0;
    uint64_t logged_rows = 0;
    struct merge merge;
    enum rc rc = source->groups(source->ctx, VERIFY_WRITERS, written, &result->rows, err);

    if (rc == RC_OK)
        rc = source->groups(source->ctx, VERIFY_LOG, logged, &logged_rows, err);
    if (rc == RC_OK)
        rc = init_merge(&merge, source, result, err);
    if (rc != RC_OK)
        return rc;
    for (int group = 0; group < VERIFY_GROUPS && rc == RC_OK; group++) {
        if (written[group] == logged[group])
            continue;
        /* Comparing a group costs a scan: with enough examples, further groups are only counted. */
        if (result->offender_count == VERIFY_OFFENDERS_MAX) {
            result->violations++;
            continue;
        }
        start_merge(&merge, group);
        rc = run_merge(&merge, &contents, err);
    }
    free_merge(&merge);
    return rc;
}

struct cross_check {
    const char *name;
    const char *holds;
    enum rc (*run)(const struct verify_source *source, struct verify_result *result,
                   struct err *err);
};

/* The checks that need both servers. */
static const struct cross_check cross_check[] = {
    {"log_matches_writers",
     "each content has the same total in vote_count and in vote_tally, unless its tally has ended",
     check_totals},
    {"voters_match",
     "each voter's last vote is the same in vote_state and in vote_document, unless the tally has "
     "ended",
     check_voters},
    {"deleted_match",
     "the tally of each closed content has ended, and each content whose tally has ended is in "
     "deleted_content",
     check_deleted},
};

#define CROSS_CHECK_COUNT (sizeof(cross_check) / sizeof(cross_check[0]))

/* Runs the checks of the source first and then the cross checks. *more is false after the last
 * one. */
static enum rc run_check_at(const struct verify_source *source, size_t *local, size_t index,
                            struct verify_result *result, bool *more, struct err *err)
{
    enum rc rc = RC_OK;

    *more = *local == index;
    if (*more) {
        rc = source->check(source->ctx, index, result, more, err);
        if (rc != RC_OK || *more) {
            (*local)++;
            return rc;
        }
    }
    index -= *local;
    *more = !source->outbox_only && index < CROSS_CHECK_COUNT;
    if (!*more)
        return RC_OK;
    result->name = cross_check[index].name;
    result->holds = cross_check[index].holds;
    return cross_check[index].run(source, result, err);
}

void verify_found(struct verify_result *result, const char *format, ...)
{
    va_list args;

    result->violations++;
    if (result->offender_count == VERIFY_OFFENDERS_MAX)
        return;
    va_start(args, format);
    vsnprintf(result->offenders[result->offender_count++], VERIFY_PLACE_SIZE, format, args);
    va_end(args);
}

const struct verify_limit *verify_limit_at(size_t index, bool outbox_only)
{
    static const struct {
        struct verify_limit limit;
        enum { EVERYWHERE, WITH_VOTES, OUTBOX_ONLY } where;
    } limits[] = {
        {{"votes", "this installation has no vote tables: migrate up --with votes adds them"},
         OUTBOX_ONLY},
        {{"kafka_records",
          "what Kafka holds: a row that the broker acknowledged counts as published, "
          "also if the topic has lost it since"},
         EVERYWHERE},
        {{"other_readers", "what applications did with the records that they read from Kafka"},
         EVERYWHERE},
        {{"retry_tasks",
          "tasks that wait, and the effects of those that ran: tallybox retry list and "
          "history"},
         EVERYWHERE},
        {{"dead_records", "why a vote is missing in the log: it may be dead, tallybox dead list"},
         WITH_VOTES},
        {{"dropped_months", "single votes of dropped months: only their sums are left"},
         WITH_VOTES},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (limits[i].where == (outbox_only ? WITH_VOTES : OUTBOX_ONLY))
            continue;
        if (index-- == 0)
            return &limits[i].limit;
    }
    return NULL;
}

enum rc verify_run(const struct verify_source *source, verify_on_result on_result, void *ctx,
                   uint64_t *violations, struct err *err)
{
    size_t local = 0; /* number of checks of the source */

    *violations = 0;
    for (size_t i = 0;; i++) {
        struct verify_result result = {0};
        bool more;
        enum rc rc = run_check_at(source, &local, i, &result, &more, err);

        if (rc != RC_OK) {
            err_wrap(err, "%s could not be checked", result.name ? result.name : "the data");
            return rc;
        }
        if (!more)
            return RC_OK;
        *violations += result.violations;
        on_result(ctx, &result);
    }
}
