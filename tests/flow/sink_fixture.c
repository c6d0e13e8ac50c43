/* SPDX-License-Identifier: MIT */
#include "tests/flow/sink_fixture.h"

#include "consumer/apply/date.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tables */

/* A place that has no row is at the end. */
static struct fake_vote *find_vote(void *ctx, const struct id *event_id)
{
    struct sink_db *db = ctx;
    struct fake_vote *vote = db->votes;

    for (; vote->now_found; vote++) {
        if (memcmp(vote->vote.event.event_id.bytes, event_id->bytes, ID_BYTES) == 0)
            return vote;
        assert_true(vote < &db->votes[SINK_VOTES_MAX - 1]);
    }
    return vote;
}

static struct fake_last *find_last(void *ctx, int64_t content_id, int64_t voter_id)
{
    struct sink_db *db = ctx;
    struct fake_last *last = db->lasts;

    for (; last->now.found; last++) {
        if (last->now.content_id == content_id && last->now.voter_id == voter_id)
            return last;
        assert_true(last < &db->lasts[SINK_LASTS_MAX - 1]);
    }
    return last;
}

static struct fake_dead_row *find_dead(void *ctx, int32_t partition, int64_t offset)
{
    struct sink_db *db = ctx;
    struct fake_dead_row *place;
    size_t at = 0;

    for (; db->dead[at].base.now.found || db->dead[at].now.decision[0]; at++) {
        place = &db->dead[at].base;
        if (place->partition == partition && place->offset == offset)
            return place;
        assert_true(at + 1 < SINK_DEAD_MAX);
    }
    place = &db->dead[at].base;
    place->id = (int64_t)at + 1;
    place->partition = partition;
    place->offset = offset;
    return place;
}

static struct fake_dead_row *next_dead(void *ctx, int32_t partition, int64_t after_offset)
{
    struct sink_db *db = ctx;
    struct fake_dead_row *next = NULL;

    for (size_t i = 0; i < SINK_DEAD_MAX && db->dead[i].base.id > 0; i++) {
        struct fake_dead_row *dead = &db->dead[i].base;

        if (dead->partition == partition && dead->offset > after_offset &&
            (!next || dead->offset < next->offset))
            next = dead;
    }
    return next;
}

static int64_t dead_content(void *ctx, const struct fake_dead_row *dead)
{
    (void)ctx;
    return atoll(((const struct sink_dead *)dead)->key);
}

static void count_vote(void *ctx, const struct fake_vote *vote)
{
    struct sink_db *db = ctx;

    db->vote_count += !vote->old_found;
}

static void settle_dead(void *ctx, struct fake_dead_row *base, bool commit)
{
    struct sink_db *db = ctx;
    struct sink_dead *dead = (struct sink_dead *)base;

    if (commit) {
        db->dead_count += base->now.found && !base->old.found;
        dead->old = dead->now;
        return;
    }
    dead->now = dead->old;
}

static void tables_init(struct sink_db *db)
{
    db->tables = (struct fake_sink_tables){
        .progress = db->progress,
        .partition_count = SINK_PARTITIONS,
        .tallies = db->tallies,
        .vote_id_next = (int64_t)db->vote_count + 1,
        .ctx = db,
        .vote_of = find_vote,
        .last_of = find_last,
        .dead_of = find_dead,
        .next_dead = next_dead,
        .dead_content = dead_content,
        .on_vote = count_vote,
        .on_dead = settle_dead,
    };
}

/* A connection */

static enum rc count_call(void *ctx, struct err *err)
{
    struct sink_connection *connection = ctx;
    struct sink_faults *faults = &connection->db->faults;
    bool fails = ++faults->calls == faults->fail_at;

    connection->db->searches += connection->fake.op == FAKE_SINK_FIND_EVENTS;
    if (fails && faults->lost && connection->fake.op == FAKE_SINK_COMMIT) {
        connection->answer_lost = true;
        return RC_OK;
    }
    if (!fails && !faults->away)
        return RC_OK;
    return err_fail(err, fails ? faults->rc : RC_RETRY, 0, "call %d fails", faults->calls);
}

static enum rc get_answer(void *ctx, struct err *err)
{
    struct sink_connection *connection = ctx;
    const struct sink_faults *faults = &connection->db->faults;
    bool lost = connection->answer_lost;

    connection->answer_lost = false;
    connection->db->commits += connection->fake.op == FAKE_SINK_COMMIT;
    return lost ? err_fail(err, faults->rc, 0, "call %d fails", faults->calls) : RC_OK;
}

static int64_t no_time(void *ctx)
{
    (void)ctx;
    return 0;
}

static uint64_t read_session(void *ctx)
{
    const struct sink_connection *connection = ((struct fake_sink *)ctx)->ctx;

    return connection->db->faults.session;
}

static enum rc read_begin(void *ctx, int64_t *begin_day, struct err *err)
{
    const struct sink_connection *connection = ctx;

    (void)err;
    *begin_day = connection->db->begin_day;
    return RC_OK;
}

static bool is_refused(void *ctx, const struct vote_row *vote)
{
    const struct sink_connection *connection = ctx;
    const struct sink_db *db = connection->db;

    assert_true(vote->event.occurred_ms / MS_PER_DAY >= db->begin_day);
    return vote->event.content_id == db->faults.refused ||
           (db->faults.refused_event > 0 &&
            vote->event.event_id.bytes[ID_BYTES - 1] == db->faults.refused_event);
}

static bool is_refused_total(void *ctx, const struct tally_row *tally)
{
    const struct sink_connection *connection = ctx;
    const struct sink_db *db = connection->db;

    assert_in_range(tally->content_id, 1, SINK_CONTENTS - 1);
    assert_true(tally->seq > db->tallies[tally->content_id].now.seq);
    return db->faults.refused_totals;
}

static void check_move(void *ctx, struct fake_progress *progress, const struct progress_row *row)
{
    (void)ctx;
    assert_true(row->next_offset > progress->now.row.next_offset);
}

static void keep_texts(void *ctx, struct fake_dead_row *base, const struct dead_row *row)
{
    struct sink_dead *dead = (struct sink_dead *)base;

    (void)ctx;
    dead->has_key = row->key != NULL;
    dead->has_value = row->value != NULL;
    snprintf(dead->key, sizeof(dead->key), "%.*s", (int)row->key_len,
             row->key ? (const char *)row->key : "");
    snprintf(dead->value, sizeof(dead->value), "%.*s", (int)row->value_len,
             row->value ? (const char *)row->value : "");
    snprintf(dead->now.reason_class, sizeof(dead->now.reason_class), "%s", row->reason_class);
    snprintf(dead->now.reason, sizeof(dead->now.reason), "%.*s", (int)row->reason_len, row->reason);
}

void sink_connection_init(struct sink_connection *connection, struct sink_db *db)
{
    if (!db->tables.ctx)
        tables_init(db);
    *connection = (struct sink_connection){
        .db = db, .alone = {.hooks = {connection, count_call, get_answer, no_time}}};
    connection->fake = (struct fake_sink){
        .session = fake_alone_session(&connection->alone),
        .tables = &db->tables,
        .ctx = connection,
        .lock_begin = read_begin,
        .refuses_vote = is_refused,
        .refuses_tally = is_refused_total,
        .on_move = check_move,
        .on_dead = keep_texts,
    };
    connection->ops = fake_sink_ops(&connection->fake);
    connection->ops.session = read_session;
}

/* The store of dead records */

static struct fake_dead_row *find_by_id(void *ctx, int64_t id)
{
    struct sink_db *db = ctx;

    assert_in_range(id, 1, db->dead_count);
    return &db->dead[id - 1].base;
}

static void show_dead(void *ctx, const struct fake_dead_row *base, struct dead_item *item)
{
    const struct sink_dead *dead = (const struct sink_dead *)base;

    (void)ctx;
    item->key = dead->has_key ? dead->key : NULL;
    item->key_len = strlen(dead->key);
    item->value = dead->has_value ? dead->value : NULL;
    item->value_len = strlen(dead->value);
    item->reason_class = dead->now.reason_class;
    item->reason = dead->now.reason;
}

static void write_reason(void *ctx, struct fake_dead_row *base, const char *reason_class,
                         const char *reason, size_t reason_len)
{
    struct sink_dead_texts *texts = &((struct sink_dead *)base)->now;

    (void)ctx;
    snprintf(texts->reason_class, sizeof(texts->reason_class), "%s", reason_class);
    snprintf(texts->reason, sizeof(texts->reason), "%.*s", (int)reason_len, reason);
}

static void write_decision(void *ctx, struct fake_dead_row *base, enum dead_decision decision,
                           const void *value, size_t value_len)
{
    static const char *const words[] = {[DEAD_DECISION_APPLIED] = "applied",
                                        [DEAD_DECISION_DUPLICATE] = "duplicate",
                                        [DEAD_DECISION_STALE] = "stale",
                                        [DEAD_DECISION_DROPPED] = "dropped"};
    struct sink_dead_texts *texts = &((struct sink_dead *)base)->now;

    (void)ctx;
    snprintf(texts->decision, sizeof(texts->decision), "%s", words[decision]);
    snprintf(texts->mended_value, sizeof(texts->mended_value), "%.*s", value ? (int)value_len : 0,
             value ? (const char *)value : "");
}

void sink_dead_store_init(struct sink_dead_store *store, struct sink_connection *connection)
{
    store->fake = (struct fake_dead){.sink = &connection->fake,
                                     .topic = "votes",
                                     .ctx = connection->db,
                                     .find = find_by_id,
                                     .show = show_dead,
                                     .on_reason = write_reason,
                                     .on_decide = write_decision};
    store->ops = fake_dead_ops(&store->fake);
}

void sink_db_save(struct sink_db *db)
{
    for (size_t i = 0; i < SINK_PARTITIONS; i++)
        db->progress[i].old = db->progress[i].now;
    for (size_t i = 0; i < SINK_DEAD_MAX; i++) {
        db->dead[i].base.old = db->dead[i].base.now;
        db->dead[i].old = db->dead[i].now;
    }
}

void sink_db_drop_votes(struct sink_db *db)
{
    memset(db->votes, 0, sizeof(db->votes));
    db->vote_count = 0;
}

struct sink_dead *sink_db_add_dead(struct sink_db *db, int32_t partition, int64_t offset,
                                   const char *key, const char *value, const char *reason_class)
{
    struct sink_dead *dead = (struct sink_dead *)find_dead(db, partition, offset);

    assert_false(dead->base.now.found);
    dead->base.now = (struct fake_dead_version){true, fake_dead_class_of(reason_class)};
    dead->has_key = key != NULL;
    dead->has_value = value != NULL;
    snprintf(dead->key, sizeof(dead->key), "%s", key ? key : "");
    snprintf(dead->value, sizeof(dead->value), "%s", value ? value : "");
    snprintf(dead->now.reason_class, sizeof(dead->now.reason_class), "%s", reason_class);
    db->dead_count++;
    sink_db_save(db);
    return dead;
}

void sink_db_decide(struct sink_db *db, size_t index, const char *decision)
{
    struct sink_dead *dead = &db->dead[index];

    dead->base.now.found = false;
    snprintf(dead->now.decision, sizeof(dead->now.decision), "%s", decision);
    sink_db_save(db);
}

void sink_db_check(const struct sink_db *db)
{
    int64_t seqs[SINK_CONTENTS] = {0};
    int64_t sums[SINK_CONTENTS] = {0};

    for (size_t i = 0; i < db->vote_count; i++) {
        const struct vote_row *row = &db->votes[i].vote;
        int64_t content_id = row->event.content_id;

        sums[content_id] += row->event.voting ? 1 : -1;
        assert_int_equal(row->content_seq, ++seqs[content_id]);
        assert_int_equal(row->votes, sums[content_id]);
        for (size_t j = 0; j < i; j++)
            assert_memory_not_equal(row->event.event_id.bytes,
                                    db->votes[j].vote.event.event_id.bytes, ID_BYTES);
    }
    for (size_t i = 1; i < SINK_CONTENTS; i++) {
        assert_int_equal(db->tallies[i].old.seq, seqs[i]);
        assert_int_equal(db->tallies[i].old.votes, sums[i]);
    }
}
