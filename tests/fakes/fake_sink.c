/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_sink.h"

#include "consumer/apply/date.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void undo(struct fake_sink *fake)
{
    fake->open = false;
}

enum rc fake_sink_called(struct fake_sink *fake, struct err *err)
{
    struct sink_faults *faults = &fake->db->faults;
    bool fails = ++faults->calls == faults->fail_at;

    if (!fails && !faults->away)
        return RC_OK;
    if (!fails || faults->rc != RC_REJECT)
        undo(fake);
    return err_fail(err, fails ? faults->rc : RC_RETRY, 0, "call %d fails", faults->calls);
}

static enum rc fake_ping(void *ctx, struct err *err)
{
    return fake_sink_called(ctx, err);
}

static enum rc fake_begin(void *ctx, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = fake_sink_called(fake, err);

    assert_false(fake->open);
    if (rc != RC_OK)
        return rc;
    fake->open = true;
    fake->data = fake->db->data;
    return RC_OK;
}

static enum rc inside(struct fake_sink *fake, struct err *err)
{
    assert_true(fake->open);
    return fake_sink_called(fake, err);
}

static enum rc fake_lock_progress(void *ctx, const struct place *places, struct progress_row *rows,
                                  size_t count, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    for (size_t i = 0; i < count; i++) {
        int32_t partition = places[i].partition;

        rows[i].found = rc == RC_OK && fake->data.has_progress[partition];
        if (!rows[i].found)
            continue;
        rows[i] = fake->data.progress[partition];
        rows[i].found = true;
        rows[i].begin_day = fake->data.begin_day;
    }
    return rc;
}

static enum rc fake_make_progress(void *ctx, const struct place *place,
                                  struct progress_row *progress, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    if (rc != RC_OK)
        return rc;
    if (!fake->data.has_progress[place->partition])
        fake->data.progress[place->partition] =
            (struct progress_row){.next_offset = OFFSET_BEGINNING, .leader_epoch = -1};
    fake->data.has_progress[place->partition] = true;
    *progress = fake->data.progress[place->partition];
    progress->begin_day = fake->data.begin_day;
    return RC_OK;
}

static enum rc fake_lock_log_begin(void *ctx, int64_t *begin_day, struct err *err)
{
    struct fake_sink *fake = ctx;

    *begin_day = fake->data.begin_day;
    return inside(fake, err);
}

static enum rc fake_own_progress(void *ctx, const struct place *place,
                                 const struct progress_row *progress, struct err *err)
{
    struct fake_sink *fake = ctx;
    struct progress_row *row = &fake->data.progress[place->partition];
    enum rc rc = inside(fake, err);

    if (rc != RC_OK)
        return rc;
    assert_true(fake->data.has_progress[place->partition]);
    row->epoch = progress->epoch;
    memcpy(row->owner, progress->owner, sizeof(row->owner));
    memcpy(row->topic_id, progress->topic_id, sizeof(row->topic_id));
    return RC_OK;
}

static enum rc fake_move_progress(void *ctx, const struct place *places,
                                  const struct progress_row *rows, size_t count, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct progress_row *row = &fake->data.progress[places[i].partition];

        assert_true(rows[i].next_offset > row->next_offset);
        row->next_offset = rows[i].next_offset;
        row->leader_epoch = rows[i].leader_epoch;
    }
    return rc;
}

static struct tally_row *tally_at(struct sink_data *data, int64_t content_id)
{
    assert_in_range(content_id, 1, SINK_CONTENTS - 1);
    return &data->tallies[content_id];
}

static enum rc fake_lock_tallies(void *ctx, struct tally_row *tallies, size_t count,
                                 struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct tally_row *row = tally_at(&fake->data, tallies[i].content_id);

        assert_true(i == 0 || tallies[i - 1].content_id < tallies[i].content_id);
        tallies[i].found = row->found;
        if (row->found) {
            tallies[i].votes = row->votes;
            tallies[i].seq = row->seq;
        }
    }
    return rc;
}

static enum rc fake_make_tallies(void *ctx, const struct tally_row *tallies, size_t count,
                                 struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++)
        tally_at(&fake->data, tallies[i].content_id)->found = true;
    return rc;
}

static enum rc fake_write_tallies(void *ctx, const struct tally_row *tallies, size_t count,
                                  struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    if (rc == RC_OK && fake->db->faults.refused_totals)
        return err_fail(err, RC_REJECT, 0, "totals refused");
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct tally_row *row = tally_at(&fake->data, tallies[i].content_id);

        if (!tallies[i].changed)
            continue;
        assert_true(row->found);
        assert_true(tallies[i].seq > row->seq);
        row->votes = tallies[i].votes;
        row->seq = tallies[i].seq;
    }
    return rc;
}

static struct last_row *last_find(struct sink_data *data, const struct last_row *key)
{
    for (size_t i = 0; i < data->last_count; i++)
        if (data->lasts[i].content_id == key->content_id &&
            data->lasts[i].voter_id == key->voter_id)
            return &data->lasts[i];
    return NULL;
}

static enum rc fake_read_lasts(void *ctx, struct last_row *lasts, size_t count, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        const struct last_row *row = last_find(&fake->data, &lasts[i]);

        if (row)
            lasts[i] = *row;
    }
    return rc;
}

static enum rc fake_write_lasts(void *ctx, const struct last_row *lasts, size_t count,
                                struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct last_row *row = last_find(&fake->data, &lasts[i]);

        if (!lasts[i].changed)
            continue;
        if (!row) {
            assert_true(fake->data.last_count < SINK_LASTS_MAX);
            row = &fake->data.lasts[fake->data.last_count++];
        }
        *row = lasts[i];
        row->found = true;
        row->changed = false;
    }
    return rc;
}

static bool has_event(const struct sink_data *data, const struct id *event_id)
{
    for (size_t i = 0; i < data->vote_count; i++)
        if (memcmp(data->votes[i].event.event_id.bytes, event_id->bytes, ID_BYTES) == 0)
            return true;
    return false;
}

static enum rc fake_insert_votes(void *ctx, const struct vote_row *rows, size_t count,
                                 bool *duplicate, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    *duplicate = false;
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        if (rows[i].skip)
            continue;
        if (rows[i].event.content_id == fake->db->faults.refused)
            return err_fail(err, RC_REJECT, 0, "content refused");
        if (fake->db->faults.refused_event > 0 &&
            rows[i].event.event_id.bytes[ID_BYTES - 1] == fake->db->faults.refused_event)
            return err_fail(err, RC_REJECT, 0, "event refused");
        if (has_event(&fake->data, &rows[i].event.event_id)) {
            *duplicate = true;
            return RC_OK;
        }
        assert_true(rows[i].event.occurred_ms / MS_PER_DAY >= fake->data.begin_day);
        assert_true(fake->data.vote_count < SINK_VOTES_MAX);
        fake->data.votes[fake->data.vote_count++] = rows[i];
    }
    return rc;
}

static enum rc fake_find_events(void *ctx, const struct vote_row *rows, size_t count,
                                void (*on_found)(void *found_ctx, const struct id *event_id),
                                void *found_ctx, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    fake->db->searches++;
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        if (!rows[i].skip && has_event(&fake->data, &rows[i].event.event_id))
            on_found(found_ctx, &rows[i].event.event_id);
    return rc;
}

static enum rc fake_insert_dead(void *ctx, const struct place *place, const struct dead_row *dead,
                                int64_t *id, struct err *err)
{
    struct fake_sink *fake = ctx;
    struct sink_dead *row = &fake->data.dead[fake->data.dead_count];
    enum rc rc = inside(fake, err);

    if (rc != RC_OK)
        return rc;
    assert_true(fake->data.dead_count < SINK_DEAD_MAX);
    for (size_t i = 0; i < fake->data.dead_count; i++)
        assert_false(fake->data.dead[i].partition == place->partition &&
                     fake->data.dead[i].offset == dead->offset);
    if (id)
        *id = (int64_t)fake->data.dead_count + 1;
    *row = (struct sink_dead){.partition = place->partition, .offset = dead->offset};
    row->has_key = dead->key != NULL;
    row->has_value = dead->value != NULL;
    snprintf(row->key, sizeof(row->key), "%.*s", (int)dead->key_len,
             dead->key ? (const char *)dead->key : "");
    snprintf(row->reason_class, sizeof(row->reason_class), "%s", dead->reason_class);
    snprintf(row->reason, sizeof(row->reason), "%.*s", (int)dead->reason_len, dead->reason);
    snprintf(row->value, sizeof(row->value), "%.*s", (int)dead->value_len,
             dead->value ? (const char *)dead->value : "");
    row->id = (int64_t)++fake->data.dead_count;
    return RC_OK;
}

static uint64_t fake_session(void *ctx)
{
    const struct fake_sink *fake = ctx;

    return fake->db->faults.session;
}

static enum rc fake_read_held(void *ctx, const struct place *place,
                              void (*on_content)(void *content_ctx, int64_t content_id),
                              void *content_ctx, struct err *err)
{
    struct fake_sink *fake = ctx;
    enum rc rc = inside(fake, err);

    for (size_t i = 0; rc == RC_OK && i < fake->data.dead_count; i++) {
        const struct sink_dead *row = &fake->data.dead[i];

        if (row->partition == place->partition && row->decision[0] == '\0' &&
            (strcmp(row->reason_class, "refused") == 0 || strcmp(row->reason_class, "behind") == 0))
            on_content(content_ctx, atoll(row->key));
    }
    return rc;
}

static enum rc fake_count_dead(void *ctx, const struct place *place, int64_t max, int64_t *count,
                               struct err *err)
{
    struct fake_sink *fake = ctx;

    *count = 0;
    for (size_t i = 0; i < fake->data.dead_count && *count < max; i++)
        *count += fake->data.dead[i].partition == place->partition &&
                  fake->data.dead[i].decision[0] == '\0';
    return inside(fake, err);
}

static enum rc fake_commit(void *ctx, struct err *err)
{
    struct fake_sink *fake = ctx;
    const struct sink_faults *faults = &fake->db->faults;
    bool lost = faults->calls + 1 == faults->fail_at && faults->lost;
    enum rc rc = inside(fake, err);

    if (rc == RC_OK || lost) {
        fake->db->data = fake->data;
        fake->db->commits++;
    }
    undo(fake);
    return rc;
}

static void fake_rollback(void *ctx)
{
    undo(ctx);
}

void fake_sink_init(struct fake_sink *fake, struct fake_sink_db *db)
{
    fake->db = db;
    fake->open = false;
    fake->ops = (struct sink){
        .ctx = fake,
        .ping = fake_ping,
        .session = fake_session,
        .begin = fake_begin,
        .make_progress = fake_make_progress,
        .lock_progress = fake_lock_progress,
        .lock_log_begin = fake_lock_log_begin,
        .own_progress = fake_own_progress,
        .move_progress = fake_move_progress,
        .lock_tallies = fake_lock_tallies,
        .make_tallies = fake_make_tallies,
        .write_tallies = fake_write_tallies,
        .read_lasts = fake_read_lasts,
        .write_lasts = fake_write_lasts,
        .insert_votes = fake_insert_votes,
        .find_events = fake_find_events,
        .insert_dead = fake_insert_dead,
        .read_held = fake_read_held,
        .count_dead = fake_count_dead,
        .commit = fake_commit,
        .rollback = fake_rollback,
    };
}

void fake_sink_check(const struct fake_sink_db *db)
{
    int64_t seqs[SINK_CONTENTS] = {0};
    int64_t sums[SINK_CONTENTS] = {0};

    for (size_t i = 0; i < db->data.vote_count; i++) {
        const struct vote_row *row = &db->data.votes[i];
        int64_t content_id = row->event.content_id;

        sums[content_id] += row->event.voting ? 1 : -1;
        assert_int_equal(row->content_seq, ++seqs[content_id]);
        assert_int_equal(row->votes, sums[content_id]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(row->event.event_id.bytes,
                                    db->data.votes[j].event.event_id.bytes, ID_BYTES);
    }
    for (size_t i = 1; i < SINK_CONTENTS; i++) {
        assert_int_equal(db->data.tallies[i].seq, seqs[i]);
        assert_int_equal(db->data.tallies[i].votes, sums[i]);
    }
}
