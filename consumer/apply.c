/* SPDX-License-Identifier: MIT */
#include "consumer/apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define ANOTHER_WRITER "another writer logs events of this batch just now"

enum rc apply_init(struct apply *apply, const struct sink *sink, const char *owner,
                   size_t batch_rows_max, struct err *err)
{
    enum rc rc;

    memset(apply, 0, sizeof(*apply));
    apply->sink = sink;
    apply->owner = owner;
    rc = tally_init(&apply->tally, batch_rows_max, err);
    if (rc == RC_OK)
        rc = event_set_init(&apply->events, batch_rows_max, err);
    if (rc != RC_OK)
        apply_done(apply);
    return rc;
}

void apply_done(struct apply *apply)
{
    tally_done(&apply->tally);
    event_set_done(&apply->events);
    lasts_done(&apply->lasts);
    held_done(&apply->held);
}

enum rc apply_keep_lasts(struct apply *apply, size_t batch_rows_max, struct err *err)
{
    enum rc rc = lasts_init(&apply->lasts, batch_rows_max, err);

    apply->keeps_lasts = rc == RC_OK;
    return rc;
}

void apply_limit_dead(struct apply *apply, const _Atomic int64_t *dead_max)
{
    apply->dead_max = dead_max;
}

static enum rc claim_write(struct apply *apply, const struct place *place,
                           struct progress_row *progress, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct progress_row row = {0};
    enum rc rc = sink->make_progress(sink->ctx, place, &row, err);

    if (rc != RC_OK)
        return rc;
    row.epoch++;
    snprintf(row.owner, sizeof(row.owner), "%s", apply->owner);
    if (row.topic_id[0] == '\0')
        memcpy(row.topic_id, progress->topic_id, sizeof(row.topic_id));
    rc = sink->own_progress(sink->ctx, place, &row, err);
    if (rc == RC_OK)
        rc = held_read(&apply->held, sink, place, err);
    row.holds = apply->held.count > 0;
    if (rc == RC_OK)
        rc = sink->commit(sink->ctx, err);
    if (rc == RC_OK)
        *progress = row;
    return rc;
}

enum rc apply_claim(struct apply *apply, const struct place *place, struct progress_row *progress,
                    struct err *err)
{
    const struct sink *sink = apply->sink;
    enum rc rc = sink->begin(sink->ctx, err);

    if (rc != RC_OK)
        return rc;
    rc = claim_write(apply, place, progress, err);
    if (rc != RC_OK)
        sink->rollback(sink->ctx);
    return rc;
}

enum progress_fit { FIT_BEGINS, FIT_APPLIED, FIT_FENCED };

/* Where the batch stands against the locked row. A batch must begin where the row ends, or before
 * it: one that begins behind it would skip what lies between. */
static enum progress_fit progress_fit(const struct batch *batch, const char *owner, int64_t epoch,
                                      const struct progress_row *progress)
{
    /* A database that lost its last transactions gives an epoch out twice. */
    if (progress->epoch != epoch || strcmp(progress->owner, owner) != 0)
        return FIT_FENCED;
    if (progress->next_offset >= batch->next_offset)
        return FIT_APPLIED;
    return batch->from_offset > progress->next_offset ? FIT_FENCED : FIT_BEGINS;
}

static void skip_before(struct batch *batch, int64_t next_offset)
{
    for (size_t i = 0; i < batch->row_count; i++)
        batch->rows[i].skip = batch->rows[i].offset < next_offset;
}

static enum rc tallies_lock(struct apply *apply, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct tally *tally = &apply->tally;
    bool all = true;
    enum rc rc = sink->lock_tallies(sink->ctx, tally->rows, tally->count, err);

    for (size_t i = 0; i < tally->count; i++)
        all = all && tally->rows[i].found;
    if (rc != RC_OK || all)
        return rc;
    /* Another writer may make the same rows at the same time: make, then lock what is there. */
    rc = sink->make_tallies(sink->ctx, tally->rows, tally->count, err);
    if (rc == RC_OK)
        rc = sink->lock_tallies(sink->ctx, tally->rows, tally->count, err);
    for (size_t i = 0; rc == RC_OK && i < tally->count; i++)
        if (!tally->rows[i].found)
            rc =
                err_fail(err, RC_RETRY, 0, "the total of content %" PRId64 " was deleted meanwhile",
                         tally->rows[i].content_id);
    return rc;
}

struct search {
    struct event_set *events;
    size_t skipped;
};

static void event_found(void *ctx, const struct id *event_id)
{
    struct search *search = ctx;

    search->skipped += event_set_skip(search->events, event_id);
}

static enum rc duplicates_skip(struct apply *apply, struct vote_row *rows, size_t count,
                               size_t *skipped, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct search search = {.events = &apply->events};
    enum rc rc;

    search.skipped = event_set_collect(&apply->events, rows, count);
    rc = sink->find_events(sink->ctx, rows, count, event_found, &search, err);
    *skipped = search.skipped;
    return rc;
}

static enum rc repeats_skip(struct apply *apply, struct vote_row *rows, size_t count, size_t *aside,
                            struct err *err)
{
    const struct sink *sink = apply->sink;
    struct lasts *lasts = &apply->lasts;
    enum rc rc;

    lasts_collect(lasts, rows, count);
    rc = sink->read_lasts(sink->ctx, lasts->rows, lasts->count, err);
    if (rc == RC_OK)
        *aside = lasts_judge(lasts, rows, count);
    return rc;
}

static size_t votes_left(const struct vote_row *rows, size_t count)
{
    size_t left = 0;

    for (size_t i = 0; i < count; i++)
        left += !rows[i].skip;
    return left;
}

/* Invariant: the tallies are locked before the log is searched for duplicates and the last votes
 * are read, so that two writers of one content cannot both find an event missing. */
static enum rc votes_write(struct apply *apply, struct vote_row *rows, size_t count,
                           struct apply_result *reckon, bool *duplicate, struct err *err)
{
    const struct sink *sink = apply->sink;
    struct tally *tally = &apply->tally;
    enum rc rc;

    tally_collect(tally, rows, count);
    if (tally->count == 0)
        return RC_OK;
    rc = tallies_lock(apply, err);
    if (rc == RC_OK && apply->careful)
        rc = duplicates_skip(apply, rows, count, &reckon->duplicates, err);
    if (rc == RC_OK && apply->keeps_lasts)
        rc = repeats_skip(apply, rows, count, &reckon->aside, err);
    if (rc != RC_OK)
        return rc;
    if (apply->keeps_lasts)
        rc = sink->write_lasts(sink->ctx, apply->lasts.rows, apply->lasts.count, err);
    reckon->applied = votes_left(rows, count);
    if (rc != RC_OK || reckon->applied == 0)
        return rc;
    tally_count(tally, rows, count);
    rc = sink->insert_votes(sink->ctx, rows, count, duplicate, err);
    apply->refused = rc == RC_REJECT;
    if (rc != RC_OK || *duplicate)
        return rc;
    return sink->write_tallies(sink->ctx, tally->rows, tally->count, err);
}

/* A topic that is not ours would otherwise be poured into dead_record as a whole. The batch that
 * goes past the limit is still kept, so that there is something to look at. */
static enum rc dead_limit(struct apply *apply, const struct place *place, struct err *err)
{
    const struct sink *sink = apply->sink;
    int64_t max = apply->dead_max ? *apply->dead_max : 0;
    int64_t count = 0;
    enum rc rc;

    if (max == 0)
        return RC_OK;
    rc = sink->count_dead(sink->ctx, place, max, &count, err);
    if (rc != RC_OK || count < max)
        return rc;
    return err_fail(err, RC_REJECT, 0,
                    "%s/%" PRId32 " has %" PRId64 " dead records already (consumer.dead_max) and "
                    "would get more: look at them with `tallybox dead list`; then replay or drop "
                    "them, correct consumer.topics, or raise the limit; it goes on by itself",
                    place->topic, place->partition, count);
}

static enum rc dead_write(struct apply *apply, const struct place *place, const struct batch *batch,
                          int64_t next_offset, size_t kept, struct apply_result *reckon,
                          struct err *err)
{
    const struct sink *sink = apply->sink;
    struct dead_row dead;
    enum rc rc = batch->dead_count + kept > 0 ? dead_limit(apply, place, err) : RC_OK;

    for (size_t i = 0; rc == RC_OK && i < batch->dead_count; i++) {
        batch_dead_view(batch, i, &dead);
        if (dead.offset < next_offset)
            continue;
        rc = sink->insert_dead(sink->ctx, place, &dead, err);
        reckon->dead[judge_class_index(dead.reason_class)]++;
    }
    for (size_t i = 0; rc == RC_OK && kept > 0 && i < batch->row_count; i++) {
        const struct vote_row *row = &batch->rows[i];

        if (row->offset < next_offset || row->keep == VOTE_NOT_KEPT)
            continue;
        batch_vote_view(batch, i, held_class(row), held_reason(&apply->held, row), &dead);
        rc = sink->insert_dead(sink->ctx, place, &dead, err);
        reckon->dead[judge_class_index(dead.reason_class)]++;
    }
    return rc;
}

/* Of a whole batch: which votes are kept. */
static enum rc votes_hold(struct apply *apply, const struct place *place, struct batch *batch,
                          size_t *kept, struct err *err)
{
    enum rc rc = held_read(&apply->held, apply->sink, place, err);

    return rc == RC_OK ? held_mark(&apply->held, batch->rows, batch->row_count, kept, err) : rc;
}

/* Inside the transaction, up to and with its COMMIT. RC_OK without a commit: *duplicate, or
 * result->end says why there was nothing to write. */
static enum rc batch_write(struct apply *apply, const struct place *place, int64_t epoch,
                           struct batch *batch, bool *duplicate, struct apply_result *result,
                           struct err *err)
{
    const struct sink *sink = apply->sink;
    struct apply_result reckon = {.end = APPLY_DONE};
    struct progress_row progress = {0};
    enum progress_fit fit = FIT_FENCED;
    bool found = false;
    size_t kept = 0;
    enum rc rc = sink->lock_progress(sink->ctx, place, &progress, &found, err);

    if (rc != RC_OK)
        return rc;
    if (found)
        fit = progress_fit(batch, apply->owner, epoch, &progress);
    /* Months were dropped since the claim: their votes must be judged again, and kept whole. */
    if (fit == FIT_BEGINS && progress.begin_day > batch->begin_day &&
        batch_has_older(batch, progress.begin_day, progress.next_offset))
        fit = FIT_FENCED;
    if (fit != FIT_BEGINS) {
        /* What was applied by a COMMIT whose answer was lost still counts. */
        if (fit == FIT_APPLIED && apply->unsure == batch)
            reckon = apply->reckon;
        reckon.end = fit == FIT_APPLIED ? APPLY_DONE : APPLY_FENCED;
        *result = reckon;
        return RC_OK;
    }
    skip_before(batch, progress.next_offset);
    rc = batch->whole ? votes_hold(apply, place, batch, &kept, err) : RC_OK;
    reckon.clear = batch->whole && apply->held.count == 0;
    if (rc != RC_OK)
        return rc;
    rc = votes_write(apply, batch->rows, batch->row_count, &reckon, duplicate, err);
    if (rc != RC_OK || *duplicate)
        return rc;
    rc = dead_write(apply, place, batch, progress.next_offset, kept, &reckon, err);
    progress.next_offset = batch->next_offset;
    progress.leader_epoch = batch->leader_epoch;
    if (rc == RC_OK)
        rc = sink->move_progress(sink->ctx, place, &progress, err);
    if (rc != RC_OK)
        return rc;
    apply->reckon = reckon;
    apply->unsure = batch;
    rc = sink->commit(sink->ctx, err);
    if (rc == RC_OK)
        *result = reckon;
    return rc;
}

static enum rc batch_try(struct apply *apply, const struct place *place, int64_t epoch,
                         struct batch *batch, bool *duplicate, struct apply_result *result,
                         struct err *err)
{
    const struct sink *sink = apply->sink;
    enum rc rc = sink->begin(sink->ctx, err);

    if (rc != RC_OK)
        return rc;
    apply->refused = false;
    *duplicate = false;
    rc = batch_write(apply, place, epoch, batch, duplicate, result, err);
    sink->rollback(sink->ctx); /* where it was not committed */
    return rc;
}

/* As batch_try(). The usual batch has no duplicate and pays for no search; this one starts over with
 * it. */
static enum rc batch_try_twice(struct apply *apply, const struct place *place, int64_t epoch,
                               struct batch *batch, bool *duplicate, struct apply_result *result,
                               struct err *err)
{
    enum rc rc = batch_try(apply, place, epoch, batch, duplicate, result, err);

    if (rc != RC_OK || !*duplicate || apply->careful)
        return rc;
    apply->careful = true;
    return batch_try(apply, place, epoch, batch, duplicate, result, err);
}

/* After a try: marks the votes that the log does not take. *found 0: it was not their fault. */
static enum rc refused_find(struct apply *apply, struct batch *batch, size_t *found,
                            struct err *err)
{
    const struct sink *sink = apply->sink;
    enum rc rc = sink->begin(sink->ctx, err);

    if (rc != RC_OK)
        return rc;
    rc = held_probe(&apply->held, sink, batch->rows, batch->row_count, found, err);
    sink->rollback(sink->ctx);
    return rc;
}

static void keep_none(struct batch *batch)
{
    for (size_t i = 0; batch->whole && i < batch->row_count; i++)
        batch->rows[i].keep = VOTE_NOT_KEPT;
}

enum rc apply_batch(struct apply *apply, const struct place *place, int64_t epoch,
                    struct batch *batch, struct apply_result *result, struct err *err)
{
    bool duplicate = false;
    size_t found = 0;
    enum rc rc;

    keep_none(batch);
    rc = batch_try_twice(apply, place, epoch, batch, &duplicate, result, err);
    if (rc == RC_REJECT && apply->refused && !batch->whole) {
        *result = (struct apply_result){.end = APPLY_AGAIN};
        apply->unsure = NULL;
        return RC_OK;
    }
    if (rc == RC_REJECT && apply->refused) {
        struct err why = {0};
        enum rc probed = refused_find(apply, batch, &found, &why);

        if (probed != RC_OK) {
            *err = why;
            return probed;
        }
        if (found > 0)
            rc = batch_try_twice(apply, place, epoch, batch, &duplicate, result, err);
    }
    if (rc == RC_OK && duplicate)
        return err_fail(err, RC_RETRY, 0, ANOTHER_WRITER);
    if (rc != RC_OK)
        return rc;
    apply->unsure = NULL;
    apply->careful = result->duplicates > 0;
    return RC_OK;
}

enum rc apply_votes(struct apply *apply, struct vote_row *rows, size_t count,
                    struct apply_result *result, struct err *err)
{
    bool duplicate = false;
    enum rc rc;

    *result = (struct apply_result){.end = APPLY_DONE};
    apply->careful = true;
    rc = votes_write(apply, rows, count, result, &duplicate, err);
    if (rc == RC_OK && duplicate)
        return err_fail(err, RC_RETRY, 0, ANOTHER_WRITER);
    return rc;
}
