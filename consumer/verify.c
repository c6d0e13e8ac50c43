/* SPDX-License-Identifier: MIT */
#include "consumer/verify.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

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

/* One side of the merge: a page of totals and how far it is read. */
struct side {
    enum verify_side side;
    struct verify_total *totals;
    size_t count;
    size_t at;
    int64_t after;
    bool ended;
};

/* Makes sure that totals[at] is the next one, or that the side has ended. */
static enum rc side_fill(struct side *side, const struct verify_source *source, struct err *err)
{
    enum rc rc;

    if (side->ended || side->at < side->count)
        return RC_OK;
    rc = source->totals(source->ctx, side->side, side->after, side->totals, VERIFY_PAGE_ROWS,
                        &side->count, err);
    if (rc != RC_OK)
        return rc;
    side->at = 0;
    side->ended = side->count == 0;
    if (!side->ended)
        side->after = side->totals[side->count - 1].content_id;
    return RC_OK;
}

/* Takes the side's total of the content, 0 when it has none. */
static int64_t side_take(struct side *side, int64_t content_id)
{
    if (side->ended || side->totals[side->at].content_id != content_id)
        return 0;
    return side->totals[side->at++].votes;
}

static int64_t next_content(const struct side *a, const struct side *b)
{
    if (a->ended)
        return b->totals[b->at].content_id;
    if (b->ended || a->totals[a->at].content_id < b->totals[b->at].content_id)
        return a->totals[a->at].content_id;
    return b->totals[b->at].content_id;
}

static enum rc sides_merge(const struct verify_source *source, struct side *writers,
                           struct side *log, struct verify_result *result, struct err *err)
{
    for (;;) {
        enum rc rc = side_fill(writers, source, err);
        int64_t content_id;
        int64_t written;
        int64_t logged;

        if (rc == RC_OK)
            rc = side_fill(log, source, err);
        if (rc != RC_OK || (writers->ended && log->ended))
            return rc;
        content_id = next_content(writers, log);
        written = side_take(writers, content_id);
        logged = side_take(log, content_id);
        result->rows++;
        if (written != logged)
            verify_found(result, "content %lld: vote_count has %lld votes, vote_tally %lld",
                         (long long)content_id, (long long)written, (long long)logged);
    }
}

static enum rc check_totals(const struct verify_source *source, struct verify_result *result,
                            struct err *err)
{
    struct side writers = {.side = VERIFY_WRITERS, .after = INT64_MIN};
    struct side log = {.side = VERIFY_LOG, .after = INT64_MIN};
    enum rc rc;

    *result = (struct verify_result){
        .name = "log_matches_writers",
        .holds = "each content has the same total in vote_count and in vote_tally",
    };
    writers.totals = calloc(VERIFY_PAGE_ROWS, sizeof(*writers.totals));
    log.totals = calloc(VERIFY_PAGE_ROWS, sizeof(*log.totals));
    if (writers.totals && log.totals)
        rc = sides_merge(source, &writers, &log, result, err);
    else
        rc = err_fail(err, RC_FATAL, 0, "out of memory");
    free(writers.totals);
    free(log.totals);
    return rc;
}

enum rc verify_run(const struct verify_source *source, verify_on_result on_result, void *ctx,
                   uint64_t *violations, struct err *err)
{
    struct verify_result result;
    enum rc rc;

    *violations = 0;
    for (size_t i = 0;; i++) {
        bool more = true;

        result = (struct verify_result){0};
        rc = source->check(source->ctx, i, &result, &more, err);
        if (rc == RC_OK && !more)
            break;
        if (rc != RC_OK) {
            err_wrap(err, "%s could not be checked", result.name ? result.name : "the data");
            return rc;
        }
        *violations += result.violations;
        on_result(ctx, &result);
    }
    rc = check_totals(source, &result, err);
    if (rc != RC_OK) {
        err_wrap(err, "%s could not be checked", result.name);
        return rc;
    }
    *violations += result.violations;
    on_result(ctx, &result);
    return RC_OK;
}
