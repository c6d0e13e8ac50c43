/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_mysql.h"

#include "common/buf.h"
#include "common/db/cluster.h"
#include "common/db/db.h"
#include "common/db/error.h"
#include "common/text.h"
#include "consumer/installation_mysql.h"
#include "consumer/singleton_lease.h"
#include "consumer/status/status_log_mysql.h"
#include "outbox/outbox.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define CONNECT_MS_MAX 2000
#define QUERY_MS_MAX 10000

#define TEXT_OF(number) #number
#define DIGITS_OF(number) TEXT_OF(number)
#define COUNT_LIMIT " LIMIT " DIGITS_OF(STATUS_COUNT_MAX)

/* Expressions in ms for a time of the database: its age, and the time since 1970. */
#define AGE_OF(time) "TIMESTAMPDIFF(MICROSECOND, " time ", UTC_TIMESTAMP(3)) DIV 1000"
/* What status_instance_is_dead() denies, of a row of instance. */
#define IS_LIVE                                                                    \
    "seen_at BETWEEN UTC_TIMESTAMP(3) - INTERVAL lease_ms * 1000 MICROSECOND AND " \
    "UTC_TIMESTAMP(3) + INTERVAL lease_ms * 2000 MICROSECOND"
#define MS_OF(time) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " time ") DIV 1000"

struct side {
    struct mysql_settings settings; /* with shorter time-outs */
    struct db *db;
    bool has_schema; /* all its migrations were finished, so a missing table is a fault */
    struct buf sql;
};

static void copy_text(char *text, size_t size, const struct db_row *row, size_t column)
{
    snprintf(text, size, "%s", row->columns[column] ? row->columns[column] : "");
}

static int64_t number_or_unknown(const struct db_row *row, size_t column)
{
    return row->columns[column] ? db_column_i64(row, column) : STATUS_UNKNOWN;
}

/* The account may be that of another role, so the text of the error alone is no remedy. */
static const char status_grants[] = "`tallybox migrate grants --role status` those of this command";

void status_mysql_set_fault(struct status_fault *fault, bool has_schema, enum rc rc,
                            const struct err *err)
{
    if (rc == RC_OK)
        return;
    status_fail(fault, rc, err);
    fault->no_schema = fault->err.code == DB_NO_SUCH_TABLE && !has_schema;
    fault->no_table = fault->err.code == DB_NO_SUCH_TABLE && has_schema;
    if (db_error_lacks_privilege((unsigned)fault->err.code) &&
        !strstr(fault->err.text, status_grants))
        err_fail(&fault->err, rc, fault->err.code, "%s, %s", fault->err.text, status_grants);
}

static void set_fault(const struct side *side, struct status_fault *fault, enum rc rc,
                      const struct err *err)
{
    status_mysql_set_fault(fault, side->has_schema, rc, err);
}

/* Runs side->sql unless the part has failed before. */
static void query_part(struct side *side, struct status_fault *fault, db_on_row on_row, void *ctx)
{
    struct err err = {0};

    if (fault->rc == RC_OK)
        set_fault(side, fault, db_query_buf(side->db, &side->sql, on_row, ctx, &err), &err);
}

static void set_sql(struct side *side, const char *text)
{
    buf_reset(&side->sql);
    buf_text_put(&side->sql, text);
}

static enum rc schema_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_schema *schema = ctx;

    (void)err;
    if (row->columns[1] && strcmp(row->columns[1], "applied") == 0)
        schema->version = db_column_i64(row, 0);
    else if (row->columns[1] && strcmp(row->columns[1], "left_out") == 0)
        schema->outbox_only =
            schema->outbox_only || (row->columns[3] && strcmp(row->columns[3], "votes") == 0);
    else
        copy_text(schema->unfinished, sizeof(schema->unfinished), row, 2);
    return RC_OK;
}

static void fill_schema(struct side *side, struct status_schema *schema, const char *section,
                        const struct status_fault *unreachable)
{
    const struct mysql_settings *settings = &side->settings;

    schema->section = section;
    schema->fault = *unreachable;
    if (settings->socket[0])
        snprintf(schema->place, sizeof(schema->place), "%.64s at %.180s", settings->database,
                 settings->socket);
    else
        snprintf(schema->place, sizeof(schema->place), "%.64s at %.160s:%" PRId64,
                 settings->database, settings->host, settings->port);
    set_sql(side,
            "SELECT version, state, name, side FROM schema_history ORDER BY version LIMIT 10000");
    query_part(side, &schema->fault, schema_on_row, schema);
    side->has_schema = schema->version > 0 && !schema->unfinished[0];
}

static enum rc lane_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_lane *lane = ctx;

    (void)err;
    lane->rows = db_column_i64(row, 0);
    lane->oldest_ms = number_or_unknown(row, 1);
    return RC_OK;
}

static enum rc lease_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_lane *lane = ctx;

    (void)err;
    copy_text(lane->owner, sizeof(lane->owner), row, 0);
    lane->epoch = db_column_i64(row, 1);
    lane->lease_left_ms = db_column_i64(row, 2);
    lane->diverted_keys = db_column_i64(row, 3);
    lane->lease_ms = db_column_i64(row, 4);
    return RC_OK;
}

static enum rc diverted_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_lane *lane = ctx;

    (void)err;
    lane->diverted_task = db_column_i64(row, 0);
    lane->block_ms = row->columns[1] ? db_column_i64(row, 1) : 0;
    copy_text(lane->diverted_key, sizeof(lane->diverted_key), row, 2);
    copy_text(lane->diverted_reason, sizeof(lane->diverted_reason), row, 3);
    return RC_OK;
}

/* Reads which diverted row blocks its key first, or has done so. The tasks of a lane's rows have
 * its table as their group and the scene publish; those behind the first one of a key are queued.
 */
static void fill_diverted(struct side *side, struct status_lane *lane)
{
    struct buf *sql = &side->sql;

    set_sql(side,
            "SELECT id, " MS_OF(
                "exhausts_at") ", ordering_key, reason FROM (SELECT id, exhausts_at, ordering_key, "
                               "reason FROM retry_task FORCE INDEX (ix_retry_task_age) WHERE "
                               "task_group = ");
    db_put_text(side->db, sql, lane->table, strlen(lane->table));
    buf_text_put(sql, " AND scene = 'publish' AND age_state IN (1, 3) AND origin = "
                      "'relay'" COUNT_LIMIT
                      ") diverted ORDER BY exhausts_at IS NULL, exhausts_at, id LIMIT 1");
    query_part(side, &lane->fault, diverted_on_row, lane);
}

static void fill_lane(struct side *side, struct status_lane *lane)
{
    struct buf *sql = &side->sql;
    struct err err = {0};
    bool has_age = false;

    lane->oldest_ms = STATUS_UNKNOWN;
    set_fault(side, &lane->fault,
              db_has_column(side->db, lane->table, "created_at", &has_age, &err), &err);
    lane->age_unknown = !has_age && !lane->is_stream;
    has_age = has_age && !lane->is_stream;
    set_sql(side, "SELECT COUNT(*), (SELECT ");
    buf_text_put(sql, has_age ? AGE_OF("created_at") : "NULL");
    buf_text_put(sql, " FROM ");
    db_put_name(sql, lane->table);
    buf_text_put(sql, " ORDER BY seq LIMIT 1) FROM (SELECT 1 FROM ");
    db_put_name(sql, lane->table);
    buf_text_put(sql, COUNT_LIMIT ") waiting");
    query_part(side, &lane->fault, lane_on_row, lane);
    lane->no_table = lane->fault.no_schema || lane->fault.no_table;
    outbox_explain_table(lane->table, lane->fault.rc, &lane->fault.err);
    set_sql(side, "SELECT owner, epoch, -(" AGE_OF(
                      "lease_until") "), diverted_keys, "
                                     "lease_ms FROM relay_lease WHERE lane = ");
    db_put_text(side->db, sql, lane->table, strlen(lane->table));
    query_part(side, &lane->fault, lease_on_row, lane);
    if (lane->diverted_keys > 0)
        fill_diverted(side, lane);
}

static void fill_lanes(struct side *side, struct status *status, const struct settings *settings)
{
    for (size_t i = 0; i < settings->lane_count; i++) {
        struct status_lane *lane = &status->lanes[status->lane_count++];

        snprintf(lane->name, sizeof(lane->name), "%s", settings->lanes[i].name);
        snprintf(lane->table, sizeof(lane->table), "%s", settings->lanes[i].table);
        lane->is_stream = strcmp(settings->lanes[i].source, LANE_SOURCE_BINLOG) == 0;
        fill_lane(side, lane);
    }
    status_log_mysql_fill(status, side->db, side->has_schema);
}

static void fill_written(struct side *side, struct status *status)
{
    struct err err = {0};
    enum rc rc = lanes_read(side->db, &status->written, &err);

    if (rc == RC_OK)
        rc = lanes_served(side->db, status->relay_lease_ms, status->served, &err);
    set_fault(side, &status->written_fault, rc, &err);
}

static enum rc instance_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status *status = ctx;
    struct status_instance *one = &status->instances[status->instance_count++];

    (void)err;
    copy_text(one->name, sizeof(one->name), row, 0);
    copy_text(one->role, sizeof(one->role), row, 1);
    one->up_ms = db_column_i64(row, 2);
    one->seen_ms = db_column_i64(row, 3);
    one->lease_ms = db_column_i64(row, 4);
    copy_text(one->admin, sizeof(one->admin), row, 5);
    return RC_OK;
}

/* The newest row of a role is read whatever its age, and before all others: otherwise a role that
 * died would be forgotten after a day, or because other roles have many dead instances. */
static void fill_instances(struct side *side, struct status *status)
{
    set_sql(side,
            "SELECT name, role, TIMESTAMPDIFF(MICROSECOND, started_at, seen_at) DIV 1000, " AGE_OF(
                "seen_at") ", lease_ms, admin FROM (SELECT i.* FROM instance i JOIN (SELECT role, "
                           "MAX(seen_at) AS seen_at FROM instance GROUP BY role) newest ON "
                           "newest.role = i.role WHERE i.role NOT LIKE '%:%' AND (i.seen_at = "
                           "newest.seen_at OR i.seen_at > UTC_TIMESTAMP(3) - INTERVAL 1 DAY) "
                           "ORDER BY i.seen_at = newest.seen_at DESC, i.seen_at DESC "
                           "LIMIT " DIGITS_OF(STATUS_INSTANCES_MAX) ") shown "
                                                                    "ORDER BY seen_at DESC, name");
    query_part(side, &status->instances_fault, instance_on_row, status);
}

static enum rc tasks_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;

    (void)err;
    for (size_t i = 0; i < STATUS_TASK_STATES; i++)
        retry->tasks[i] = db_column_i64(row, i);
    retry->due_ms = number_or_unknown(row, STATUS_TASK_STATES);
    retry->instances = db_column_i64(row, STATUS_TASK_STATES + 1);
    return RC_OK;
}

static enum rc paused_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;

    (void)err;
    copy_text(retry->paused[retry->paused_count], sizeof(retry->paused[0]), row, 0);
    retry->paused_count++;
    return RC_OK;
}

static enum rc unserved_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;

    (void)err;
    copy_text(retry->unserved[retry->unserved_count].handler, sizeof(retry->unserved[0].handler),
              row, 0);
    retry->unserved[retry->unserved_count++].tasks = db_column_i64(row, 1);
    return RC_OK;
}

/* A process that runs a handler has the role "retry:HANDLER", possibly with "*WEIGHT" behind it, or
 * "retry-fixed:HANDLER". */
static void fill_unserved(struct side *side, struct status_retry *retry)
{
    set_sql(side,
            "SELECT handler, COUNT(*) FROM (SELECT handler FROM retry_task FORCE INDEX "
            "(ix_retry_task_due) WHERE state = 0" COUNT_LIMIT ") waiting WHERE CAST(handler AS "
            "BINARY) NOT IN (SELECT CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(role, ':', -1), '*', 1) "
            "AS BINARY) FROM instance WHERE "
            "(role LIKE 'retry:%' OR role LIKE 'retry-fixed:%') AND " IS_LIVE
            ") GROUP BY handler ORDER BY 2 DESC, 1 "
            "LIMIT " DIGITS_OF(STATUS_UNSERVED_MAX));
    query_part(side, &retry->fault, unserved_on_row, retry);
}

static enum rc closed_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;
    size_t at = retry->closed_count++;

    (void)err;
    copy_text(retry->closed[at].group, sizeof(retry->closed[0].group), row, 0);
    retry->closed[at].known = db_column_i64(row, 1) != 0;
    retry->closed[at].tasks = db_column_i64(row, 2);
    return RC_OK;
}

/* As retry_group_decide() decides: a client's task needs its group's row, a role's own does not. */
static void fill_closed(struct side *side, struct status_retry *retry)
{
    set_sql(side,
            "SELECT w.task_group, g.name IS NOT NULL, COUNT(*) FROM (SELECT task_group, origin "
            "FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE state = 0" COUNT_LIMIT
            ") w LEFT JOIN retry_group g ON g.name = w.task_group WHERE (g.name IS NULL AND "
            "w.origin = 'client') OR (g.enabled = 0 AND g.owner = w.origin) GROUP BY w.task_group, "
            "g.name ORDER BY 3 DESC, 1 LIMIT " DIGITS_OF(STATUS_CLOSED_MAX));
    query_part(side, &retry->fault, closed_on_row, retry);
}

static enum rc unconfigured_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;
    size_t at = retry->unconfigured_count++;

    (void)err;
    copy_text(retry->unconfigured[at].scene, sizeof(retry->unconfigured[0].scene), row, 0);
    retry->unconfigured[at].tasks = db_column_i64(row, 1);
    return RC_OK;
}

/* The same of scenes without a row, in groups that refuse them. */
static void fill_unconfigured(struct side *side, struct status_retry *retry)
{
    set_sql(
        side,
        "SELECT CONCAT(w.task_group, '/', w.scene), COUNT(*) FROM (SELECT task_group, scene "
        "FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE state = 0 AND origin = "
        "'client'" COUNT_LIMIT ") w JOIN retry_group g ON g.name = w.task_group LEFT JOIN "
        "retry_scene s ON s.task_group = w.task_group AND s.scene = w.scene WHERE g.enabled = 1 "
        "AND g.owner = 'client' AND g.init_scene = 'refuse' AND s.scene IS NULL GROUP BY "
        "w.task_group, w.scene ORDER BY 2 DESC, 1 LIMIT " DIGITS_OF(STATUS_CLOSED_MAX));
    query_part(side, &retry->fault, unconfigured_on_row, retry);
}

static enum rc ours_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;
    size_t at = retry->ours_count++;

    (void)err;
    copy_text(retry->ours[at].handler, sizeof(retry->ours[0].handler), row, 0);
    copy_text(retry->ours[at].reason, sizeof(retry->ours[0].reason), row, 1);
    utf8_clean(retry->ours[at].reason);
    retry->ours[at].tasks = db_column_i64(row, 2);
    return RC_OK;
}

static enum rc exhausted_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;

    (void)err;
    retry->exhausted = db_column_i64(row, 0);
    return RC_OK;
}

/* Counts among the newest of the day that ended. An operator has decided about a task that was
 * requeued. */
static void fill_failures(struct side *side, struct status_retry *retry)
{
    set_sql(side,
            "SELECT handler, MIN(reason), COUNT(*) FROM (SELECT handler, reason, reason_class "
            "FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE state = 0" COUNT_LIMIT
            ") w WHERE reason_class = 'ours' GROUP BY handler ORDER BY 3 DESC, 1 "
            "LIMIT " DIGITS_OF(STATUS_OURS_MAX));
    query_part(side, &retry->fault, ours_on_row, retry);
    set_sql(side,
            "SELECT COUNT(*) FROM (SELECT outcome, requeued_as FROM retry_task_history FORCE INDEX "
            "(ix_retry_task_history_ended) WHERE ended_at > UTC_TIMESTAMP(3) - INTERVAL 1 DAY "
            "ORDER BY ended_at DESC" COUNT_LIMIT
            ") ended WHERE outcome = 'exhausted' AND requeued_as IS NULL");
    query_part(side, &retry->fault, exhausted_on_row, retry);
}

static enum rc overdue_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_retry *retry = ctx;

    (void)err;
    retry->overdue_ms = number_or_unknown(row, 0);
    return RC_OK;
}

/* An operator knows of tasks that wait because their scene is paused. Closed groups are reported by
 * name. */
static void fill_overdue(struct side *side, struct status_retry *retry)
{
    retry->overdue_ms = STATUS_UNKNOWN;
    set_sql(
        side,
        "SELECT " AGE_OF(
            "MIN(next_at)") " FROM (SELECT t.next_at FROM retry_task t FORCE "
                            "INDEX (ix_retry_task_due) LEFT JOIN retry_scene s ON s.task_group = "
                            "t.task_group AND "
                            "s.scene = t.scene LEFT JOIN retry_group g ON g.name = t.task_group "
                            "WHERE t.state = 0 "
                            "AND COALESCE(s.paused, 0) = 0 AND NOT (g.name IS NULL AND t.origin = "
                            "'client') AND "
                            "NOT (COALESCE(g.enabled, 1) = 0 AND g.owner = t.origin) AND NOT "
                            "(g.init_scene = 'refuse' AND s.scene IS NULL AND g.owner = 'client' "
                            "AND t.origin = 'client' AND g.name IS NOT NULL)" COUNT_LIMIT ") due");
    query_part(side, &retry->fault, overdue_on_row, retry);
}

/* Searches the oldest task only among as many as are counted. */
static void fill_retry(struct side *side, struct status_retry *retry)
{
    struct buf *sql = &side->sql;

    retry->due_ms = STATUS_UNKNOWN;
    set_sql(side, "SELECT ");
    for (int state = 0; state < STATUS_TASK_STATES; state++)
        buf_print(sql,
                  "(SELECT COUNT(*) FROM (SELECT 1 FROM retry_task FORCE INDEX (ix_retry_task_due) "
                  "WHERE state = %d" COUNT_LIMIT ") t%d), ",
                  state, state);
    buf_text_put(
        sql,
        "(SELECT " AGE_OF(
            "MIN(next_at)") " FROM (SELECT next_at FROM retry_task FORCE "
                            "INDEX (ix_retry_task_due) WHERE state = 0" COUNT_LIMIT ") due), "
                            "(SELECT COUNT(DISTINCT name) FROM instance WHERE (role = 'retry' OR "
                            "role "
                            "LIKE 'retry:%') AND " IS_LIVE ")");
    query_part(side, &retry->fault, tasks_on_row, retry);
    set_sql(side, "SELECT CONCAT(task_group, '/', scene) FROM retry_scene WHERE paused <> 0 ORDER "
                  "BY 1 LIMIT " DIGITS_OF(STATUS_PAUSED_MAX));
    query_part(side, &retry->fault, paused_on_row, retry);
    fill_overdue(side, retry);
    fill_unserved(side, retry);
    fill_closed(side, retry);
    fill_unconfigured(side, retry);
    fill_failures(side, retry);
}

static enum rc progress_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_partition *one = status_partition_at(ctx, row->columns[0] ? row->columns[0] : "",
                                                       (int32_t)db_column_i64(row, 1));

    (void)err;
    if (!one)
        return RC_OK;
    one->held = true;
    one->next_offset = db_column_i64(row, 2);
    copy_text(one->owner, sizeof(one->owner), row, 3);
    one->epoch = db_column_i64(row, 4);
    one->updated_ms = db_column_i64(row, 5);
    return RC_OK;
}

static void fill_progress(struct side *side, struct status *status)
{
    set_sql(side, "SELECT topic, partition_id, next_offset, owner, epoch, " AGE_OF(
                      "updated_at") " FROM consumer_progress WHERE consumer_group = ");
    db_put_text(side->db, &side->sql, status->group, strlen(status->group));
    buf_text_put(&side->sql,
                 " ORDER BY topic, partition_id LIMIT " DIGITS_OF(STATUS_PARTITIONS_MAX));
    query_part(side, &status->progress_fault, progress_on_row, status);
}

static enum rc class_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status *status = ctx;
    struct status_class *one = &status->classes[status->class_count++];

    (void)err;
    copy_text(one->name, sizeof(one->name), row, 0);
    one->records = db_column_i64(row, 1);
    one->newest_ms = db_column_i64(row, 2);
    return RC_OK;
}

static void fill_dead(struct side *side, struct status *status)
{
    set_sql(side, "SELECT reason_class, COUNT(*), " AGE_OF(
                      "MAX(created_at)") " FROM (SELECT reason_class, created_at FROM dead_record "
                                         "WHERE consumer_group = ");
    db_put_text(side->db, &side->sql, status->group, strlen(status->group));
    buf_text_put(&side->sql,
                 " ORDER BY id DESC" COUNT_LIMIT ") newest GROUP BY reason_class "
                 "ORDER BY COUNT(*) DESC, reason_class LIMIT " DIGITS_OF(STATUS_CLASSES_MAX));
    query_part(side, &status->dead_fault, class_on_row, status);
}

static enum rc rollup_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_rollup *rollup = ctx;

    (void)err;
    rollup->rolled_until_ms = db_column_i64(row, 0);
    rollup->finished_ms = db_column_i64(row, 1);
    copy_text(rollup->owner, sizeof(rollup->owner), row, 2);
    return RC_OK;
}

/* The owner, or '' if the lease has expired or is implausible as by
 * singleton_lease_is_implausible(). The argument is the longest plausible rest of a lease in
 * microseconds. */
#define OWNER_OF(owner, until)                                                       \
    "IF(" until " BETWEEN UTC_TIMESTAMP(3) AND UTC_TIMESTAMP(3) + INTERVAL %" PRId64 \
    " MICROSECOND, " owner ", '')"

static enum rc waiting_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_rollup *rollup = ctx;

    (void)err;
    rollup->waiting = db_column_i64(row, 0);
    return RC_OK;
}

static void fill_rollup(struct side *side, struct status *status, int64_t overlap_ms)
{
    struct status_rollup *rollup = &status->rollup;

    set_sql(side, "");
    buf_print(&side->sql,
              "SELECT " MS_OF("rolled_until") ", COALESCE(" MS_OF("finished_at") ", 0), " OWNER_OF(
                  "owner", "lease_until") " FROM rollup_state WHERE name = 'remark'",
              status->rollup_lease_ms * SINGLETON_LEASE_LENGTHS_MAX * 1000);
    query_part(side, &rollup->fault, rollup_on_row, rollup);
    set_sql(side, "SELECT COUNT(*) FROM (SELECT 1 FROM vote_tally t JOIN remark r "
                  "ON r.id = t.content_id WHERE t.changed_at >= TIMESTAMP'1970-01-01 00:00:00' + "
                  "INTERVAL ");
    buf_i64(&side->sql,
            (rollup->rolled_until_ms > overlap_ms ? rollup->rolled_until_ms - overlap_ms : 0) *
                1000);
    buf_text_put(&side->sql, " MICROSECOND AND r.votes_seq < t.seq" COUNT_LIMIT ") waiting");
    query_part(side, &rollup->fault, waiting_on_row, rollup);
}

static enum rc housekeep_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_housekeep *housekeep = ctx;

    (void)err;
    housekeep->finished_ms = db_column_i64(row, 0);
    copy_text(housekeep->owner, sizeof(housekeep->owner), row, 1);
    copy_text(housekeep->begin_date, sizeof(housekeep->begin_date), row, 2);
    return RC_OK;
}

static enum rc partitions_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct status_housekeep *housekeep = ctx;

    (void)err;
    housekeep->partitions = db_column_i64(row, 0);
    copy_text(housekeep->until_date, sizeof(housekeep->until_date), row, 1);
    return RC_OK;
}

static void fill_housekeep(struct side *side, struct status *status)
{
    struct status_housekeep *housekeep = &status->housekeep;

    set_sql(side, "");
    buf_print(&side->sql,
              "SELECT COALESCE(" MS_OF("s.finished_at") ", 0), " OWNER_OF(
                  "s.owner", "s.lease_until") ", IF(b.begin_date > '1970-01-01', b.begin_date, '') "
                                              "FROM housekeep_state s JOIN log_begin b ON b.name = "
                                              "s.name WHERE s.name = 'vote_document'",
              status->housekeep_lease_ms * SINGLETON_LEASE_LENGTHS_MAX * 1000);
    query_part(side, &housekeep->fault, housekeep_on_row, housekeep);
    set_sql(side, "SELECT COUNT(*), COALESCE(MAX(IF(partition_description = 'MAXVALUE', NULL, "
                  "SUBSTRING(partition_description, 2, 10))), '') FROM "
                  "information_schema.partitions WHERE table_schema = DATABASE() AND table_name = "
                  "'vote_document'");
    query_part(side, &housekeep->fault, partitions_on_row, housekeep);
}

static enum rc open_side(struct side *side, const struct mysql_settings *settings, struct err *err)
{
    side->settings = *settings;
    if (side->settings.connect_timeout_ms > CONNECT_MS_MAX)
        side->settings.connect_timeout_ms = CONNECT_MS_MAX;
    if (side->settings.query_timeout_ms > QUERY_MS_MAX)
        side->settings.query_timeout_ms = QUERY_MS_MAX;
    return db_open(&side->db, &side->settings, err);
}

static void close_side(struct side *side)
{
    db_close(side->db);
    buf_done(&side->sql);
}

static void fill_writers(struct side *side, struct status *status, const struct settings *settings)
{
    struct status_fault unreachable = {0};
    struct db_cluster cluster;
    struct err err = {0};

    set_fault(side, &unreachable, db_connect(side->db, &err), &err);
    fill_schema(side, &status->schemas[status->schema_count++], "mysql", &unreachable);
    status->outbox_fault = unreachable;
    status->instances_fault = unreachable;
    status->retry.fault = unreachable;
    status->written_fault = unreachable;
    if (unreachable.rc == RC_OK) {
        fill_lanes(side, status, settings);
        fill_written(side, status);
    }
    if (unreachable.rc == RC_OK && db_cluster_ask(side->db, &cluster, &err) == RC_OK)
        snprintf(status->cluster, sizeof(status->cluster), "%s", db_cluster_text(&cluster));
    fill_instances(side, status);
    fill_retry(side, &status->retry);
}

static enum rc read_clock(struct side *side, int64_t *now_ms, struct err *err)
{
    return db_number(side->db, "SELECT " MS_OF("UTC_TIMESTAMP(3)"), now_ms, NULL, err);
}

static void fill_group(struct side *side, struct status *status, const struct settings *settings)
{
    char id[INSTALLATION_ID_SIZE] = "";
    struct err err = {0};

    if (status->progress_fault.rc == RC_OK)
        set_fault(side, &status->progress_fault, installation_read(side->db, id, &err), &err);
    installation_name_group(status->group, settings, id);
}

static void fill_sink(struct side *side, struct status *status, const struct settings *settings,
                      bool same)
{
    struct status_fault unreachable = {0};
    struct err err = {0};

    /* Do not wait for the same server twice. */
    if (same && status->outbox_fault.rc == RC_RETRY)
        unreachable = status->outbox_fault;
    else
        set_fault(side, &unreachable, read_clock(side, &status->now_ms, &err), &err);
    if (!same)
        fill_schema(side, &status->schemas[status->schema_count++], "sink", &unreachable);
    status->progress_fault = unreachable;
    status->dead_fault = unreachable;
    status->rollup.fault = unreachable;
    status->housekeep.fault = unreachable;
    fill_group(side, status, settings);
    fill_progress(side, status);
    fill_dead(side, status);
    fill_rollup(side, status, settings->rollup.overlap_ms);
    fill_housekeep(side, status);
}

/* The vote tables are not missing but unwanted, and the sink's database may not exist. */
static void leave_out_sink(struct side *writers, struct status *status)
{
    const struct status_fault left_out = {.rc = RC_FATAL, .no_schema = true, .left_out = true};

    status->progress_fault = left_out;
    status->dead_fault = left_out;
    status->rollup.fault = left_out;
    status->housekeep.fault = left_out;
    read_clock(writers, &status->now_ms, NULL);
}

static bool is_same_database(const struct mysql_settings *a, const struct mysql_settings *b)
{
    bool same_server = a->socket[0] || b->socket[0]
                           ? strcmp(a->socket, b->socket) == 0
                           : strcmp(a->host, b->host) == 0 && a->port == b->port;

    return same_server && strcmp(a->database, b->database) == 0;
}

/* A search for tables that are missing. */
struct search {
    struct side *side;
    struct status_schema *schema;
};

/* An account sees only tables to which it has a privilege. The server tells apart a table that is
 * missing and one that the account may not read. */
static void note_missing(void *ctx, const char *table, bool is_whole, bool is_missing,
                         const char *text)
{
    struct search *search = ctx;
    struct err err = {0};

    (void)text;
    if (!is_whole || !is_missing)
        return;
    set_sql(search->side, "SELECT 1 FROM ");
    db_put_name(&search->side->sql, table);
    buf_text_put(&search->side->sql, " LIMIT 0");
    if (db_query_buf(search->side->db, &search->side->sql, NULL, NULL, &err) == RC_OK ||
        err.code != DB_NO_SUCH_TABLE)
        return;
    text_list_add(search->schema->missing, sizeof(search->schema->missing), table);
}

/* The parts read some of the tables only. A server that does not answer now answered them. */
static void find_missing(struct side *side, struct status_schema *schema,
                         const struct settings *settings, status_compare compare)
{
    struct search search = {.side = side, .schema = schema};

    if (side->has_schema)
        compare(settings, schema->section, note_missing, &search, NULL);
}

enum rc status_mysql_fill(struct status *status, const struct settings *settings,
                          status_compare compare, struct err *err)
{
    bool same = is_same_database(&settings->mysql, &settings->sink);
    struct side writers = {0};
    struct side sink = {0};
    enum rc rc = open_side(&writers, &settings->mysql, err);

    if (rc == RC_OK)
        rc = open_side(&sink, &settings->sink, err);
    if (rc == RC_OK) {
        fill_writers(&writers, status, settings);
        sink.has_schema = same && writers.has_schema;
        if (status->schemas[0].outbox_only)
            leave_out_sink(&writers, status);
        else
            fill_sink(&sink, status, settings, same);
        find_missing(&writers, &status->schemas[0], settings, compare);
        if (status->schema_count > 1)
            find_missing(&sink, &status->schemas[1], settings, compare);
    }
    close_side(&writers);
    close_side(&sink);
    return rc;
}
