/* SPDX-License-Identifier: MIT */
#include "outbox/relay/replay/replay_mysql.h"

#include "common/db/db.h"
#include "common/utc.h"
#include "outbox/relay/relay_row.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void note_change(void *ctx, const struct err *why)
{
    struct replay_mysql *replay = ctx;

    replay->lost = *why;
    replay->origin_lost = true;
}

enum rc replay_mysql_open(struct replay_mysql *replay, const struct lane_settings *lane,
                          const struct settings *settings, struct err *err)
{
    enum rc rc;

    memset(replay, 0, sizeof(*replay));
    replay->lane = lane;
    replay->keys_max = (size_t)settings->relay.diverted_keys_max;
    replay->keys = calloc(replay->keys_max + 1, sizeof(*replay->keys));
    origin_mysql_init(&replay->origin, note_change, replay);
    if (!replay->keys)
        return err_fail(err, RC_FATAL, 0, "out of memory for keys");
    rc = source_mysql_open(&replay->source, lane->table, &replay->origin, NULL, settings, err);
    if (rc == RC_OK)
        rc = deleter_mysql_open(&replay->deletes, lane, "", &replay->origin, settings, err);
    diverter_mysql_open(&replay->diverts, lane, &replay->deletes, settings);
    return rc;
}

void replay_mysql_close(struct replay_mysql *replay)
{
    if (!replay->lane)
        return;
    diverter_mysql_close(&replay->diverts);
    deleter_mysql_close(&replay->deletes);
    source_mysql_close(&replay->source);
    origin_mysql_done(&replay->origin);
    free(replay->keys);
    memset(replay, 0, sizeof(*replay));
}

static void put_table_text(struct replay_mysql *replay)
{
    struct source_mysql *source = &replay->source;

    db_put_text(source->db, &source->sql, source->table, strlen(source->table));
}

static enum rc take_columns(void *ctx, const struct db_row *row, struct err *err)
{
    int64_t *counts = ctx;

    (void)err;
    for (size_t i = 0; i < 3; i++)
        counts[i] = db_column_i64(row, i);
    return RC_OK;
}

static enum rc check_columns(struct replay_mysql *replay, struct err *why, struct err *err)
{
    struct source_mysql *source = &replay->source;
    const char *table = source->table;
    int64_t counts[3] = {0};
    enum rc rc;

    buf_reset(&source->sql);
    buf_text_put(&source->sql,
                 "SELECT COUNT(*), SUM(column_key = 'PRI') = 1 AND SUM(column_key = 'PRI' AND "
                 "column_name = 'seq') = 1, SUM(column_name = 'created_at' AND data_type IN "
                 "('datetime', 'timestamp')) FROM information_schema.columns WHERE table_schema = "
                 "DATABASE() AND table_name = ");
    put_table_text(replay);
    rc = db_query_buf(source->db, &source->sql, take_columns, counts, err);
    if (rc != RC_OK)
        return rc;
    if (counts[0] == 0)
        return err_fail(err, RC_REJECT, 0,
                        "there is no table %s, or the account lacks SELECT on it", table);
    if (counts[1] == 0)
        err_set(why,
                "the primary key of table %s is not the column seq, so it is not recorded which of "
                "its rows are published",
                table);
    else if (counts[2] == 0)
        err_set(why,
                "table %s has no column created_at of the type DATETIME or TIMESTAMP, so its rows "
                "cannot be selected by time",
                table);
    return RC_OK;
}

static enum rc check_lane(const struct lane_settings *lane, struct err *why, struct err *err)
{
    const char *name = lane->name;

    if (strcmp(lane->source, LANE_SOURCE_BINLOG) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "lane %s reads its table, and deletes rows as soon as they are published: "
                        "there is nothing to replay. A lane with source = binlog keeps them for "
                        "lane.%s.keep_ms, and can be replayed from the binary log, too",
                        name, name);
    if (lane->columns[0])
        err_set(why, "lane.%s.columns names columns of another program's table", name);
    else if (lane->header_columns[0] || strcmp(lane->empty_payload, LANE_EMPTY_VALUE) != 0)
        err_set(why, "lane.%s.header_columns and lane.%s.empty_payload count for the log only",
                name, name);
    else if (lane->keep_ms < 0)
        err_set(why, "with lane.%s.keep_ms = -1 it is not recorded which rows are published", name);
    return RC_OK;
}

enum rc replay_mysql_check(struct replay_mysql *replay, struct err *why, struct err *err)
{
    struct err own = {0};
    enum rc rc = check_lane(replay->lane, why, err);

    if (rc == RC_OK)
        rc = db_connect(replay->source.db, err);
    if (rc == RC_OK)
        rc = check_columns(replay, &own, err);
    if (rc == RC_OK && !why->text[0])
        *why = own;
    return rc;
}

static enum rc take_facts(void *ctx, const struct db_row *row, struct err *err)
{
    struct replay_facts *facts = ctx;

    (void)err;
    facts->now_ms = utc_parse_ms(row->columns[0], row->lengths[0]);
    facts->last_entry = db_column_i64(row, 1);
    facts->oldest_ms =
        row->columns[2] ? utc_parse_ms(row->columns[2], row->lengths[2]) : UTC_UNKNOWN_MS;
    return RC_OK;
}

enum rc replay_mysql_look(struct replay_mysql *replay, struct replay_facts *facts, struct err *err)
{
    struct source_mysql *source = &replay->source;

    memset(facts, 0, sizeof(*facts));
    buf_reset(&source->sql);
    buf_text_put(&source->sql,
                 "SELECT UTC_TIMESTAMP(3), COALESCE((SELECT MAX(number) FROM relay_published WHERE "
                 "lane = ");
    put_table_text(replay);
    buf_text_put(&source->sql, "), 0), (SELECT created_at FROM ");
    db_put_name(&source->sql, source->table);
    buf_text_put(&source->sql, " FORCE INDEX (PRIMARY) ORDER BY seq LIMIT 1)");
    return db_query_buf(source->db, &source->sql, take_facts, facts, err);
}

static enum rc add_key(void *ctx, const char *ordering_key, struct err *err)
{
    struct replay_mysql *replay = ctx;

    if (replay->key_count > replay->keys_max)
        return err_fail(err, RC_REJECT, 0,
                        "more than relay.diverted_keys_max = %zu keys of lane %s have tasks in the "
                        "retry queue: let them be done first",
                        replay->keys_max, replay->lane->name);
    replay->keys[replay->key_count++] = ordering_key_hash_of_text(ordering_key);
    return RC_OK;
}

static int compare_keys(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

enum rc replay_mysql_load_keys(struct replay_mysql *replay, struct err *err)
{
    const struct diverter_ops ops = diverter_mysql_ops(&replay->diverts);
    enum rc rc;

    replay->key_count = 0;
    rc = ops.load_keys(ops.ctx, replay->keys_max + 2, add_key, replay, err);
    if (rc == RC_OK)
        qsort(replay->keys, replay->key_count, sizeof(*replay->keys), compare_keys);
    return rc;
}

struct finding {
    struct replay_entry *entry;
    bool found;
};

static enum rc take_entry(void *ctx, const struct db_row *row, struct err *err)
{
    struct finding *finding = ctx;

    (void)err;
    finding->found = true;
    finding->entry->number = db_column_i64(row, 0);
    buf_reset(&finding->entry->seqs);
    buf_put(&finding->entry->seqs, row->columns[1], row->lengths[1]);
    return RC_OK;
}

static enum rc read_entry(void *ctx, int64_t from, int64_t to, struct replay_entry *entry,
                          bool *found, struct err *err)
{
    struct replay_mysql *replay = ctx;
    struct source_mysql *source = &replay->source;
    struct finding finding = {.entry = entry};
    enum rc rc = db_connect(source->db, err);

    buf_reset(&source->sql);
    buf_text_put(&source->sql, "SELECT number, seqs FROM relay_published WHERE lane = ");
    put_table_text(replay);
    buf_print(&source->sql,
              " AND number >= %" PRId64 " AND number <= %" PRId64 " ORDER BY number LIMIT 1", from,
              to);
    if (rc == RC_OK)
        rc = db_query_buf(source->db, &source->sql, take_entry, &finding, err);
    *found = rc == RC_OK && finding.found;
    if (rc != RC_OK)
        err_wrap(err, "reading which rows of %s are published", source->table);
    return rc;
}

static enum rc read_rows(void *ctx, const struct seq_range *ranges, size_t count, size_t rows_max,
                         source_on_row on_row, void *on_row_ctx, struct err *err)
{
    struct replay_mysql *replay = ctx;

    return source_mysql_read_filtered(&replay->source, ranges, count, &replay->filter, rows_max,
                                      on_row, on_row_ctx, err);
}

struct replay_table_ops replay_mysql_ops(struct replay_mysql *replay)
{
    return (struct replay_table_ops){.ctx = replay, .entry = read_entry, .rows = read_rows};
}
