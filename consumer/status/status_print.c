/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_print.h"

#include "common/text.h"
#include "common/utc.h"
#include "consumer/singleton_lease.h"
#include "outbox/lanes.h"
#include "tallybox_version.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LINE_COLUMNS 100
#define COLUMNS_MAX 8
#define CELL_SIZE 64
#define GTIDS_SHOWN_BYTES 120
#define NAME_COLUMNS 30 /* longer names are cut at the start: instances differ at the end */

/* A table that is printed row by row. Running the same rows twice first finds the widths of the
 * columns. */
struct table {
    struct buf *out;
    size_t count; /* columns */
    size_t widths[COLUMNS_MAX];
    unsigned right; /* one bit per column: align to the right */
    bool measuring;
};

typedef void (*table_rows)(const struct status *status, struct table *table);

static void put_row(struct table *table, char cells[][CELL_SIZE])
{
    size_t start = table->out->len;

    for (size_t i = 0; i < table->count; i++) {
        int width = (int)table->widths[i];

        if (table->measuring) {
            size_t len = strlen(cells[i]);

            table->widths[i] = len > table->widths[i] ? len : table->widths[i];
        } else {
            buf_print(table->out, "  %*s", table->right & (1U << i) ? width : -width, cells[i]);
        }
    }
    if (table->measuring)
        return;
    while (table->out->len > start && table->out->data[table->out->len - 1] == ' ')
        table->out->len--;
    buf_char(table->out, '\n');
}

static void put_table(const struct status *status, struct buf *out, size_t count, unsigned right,
                      table_rows rows)
{
    struct table table = {.out = out, .count = count, .right = right, .measuring = true};

    assert(count <= COLUMNS_MAX);
    rows(status, &table);
    table.measuring = false;
    rows(status, &table);
}

static void set_text(char cell[CELL_SIZE], const char *text)
{
    size_t len = strlen(text);

    if (len <= NAME_COLUMNS)
        snprintf(cell, CELL_SIZE, "%s", text);
    else
        snprintf(cell, CELL_SIZE, "...%s", text + len - (NAME_COLUMNS - 3));
}

static void set_number(char cell[CELL_SIZE], int64_t number)
{
    if (number == STATUS_UNKNOWN)
        snprintf(cell, CELL_SIZE, "-");
    else
        snprintf(cell, CELL_SIZE, "%" PRId64, number);
}

static const char *plus_if_capped(int64_t count)
{
    return count >= STATUS_COUNT_MAX ? "+" : "";
}

static void set_count(char cell[CELL_SIZE], int64_t count)
{
    snprintf(cell, CELL_SIZE, "%" PRId64 "%s", count, plus_if_capped(count));
}

static void set_age(char cell[CELL_SIZE], int64_t age_ms, const char *end)
{
    char age[WHEN_AGE_SIZE];

    when_age(age, age_ms);
    if (age_ms == STATUS_UNKNOWN)
        snprintf(cell, CELL_SIZE, "-");
    else
        snprintf(cell, CELL_SIZE, "%s%s", age, end);
}

/* Appends the text, indented, with line breaks at blanks. */
static void put_words(struct buf *out, const char *text)
{
    size_t column = 0;

    while (*text) {
        size_t len = strcspn(text, " \n");

        if (column > 0 && column + 1 + len > LINE_COLUMNS) {
            buf_char(out, '\n');
            column = 0;
        }
        buf_text_put(out, column == 0 ? "  " : " ");
        buf_put(out, text, len);
        column += len + (column == 0 ? 2 : 1);
        text += len;
        text += strspn(text, " \n");
    }
    buf_char(out, '\n');
}

__attribute__((format(printf, 2, 3))) static void put_line(struct buf *out, const char *format, ...)
{
    char text[STATUS_DIVERTED_SIZE + 256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    put_words(out, text);
}

/* Prints why the part could not be read. A reason that is shown under schema is not repeated. True
 * if there is a fault. */
static bool put_fault(const struct status *status, struct buf *out,
                      const struct status_fault *fault)
{
    bool shown = false;

    for (size_t i = 0; i < status->schema_count; i++)
        shown = shown || strcmp(fault->err.text, status->schemas[i].fault.err.text) == 0;
    if (fault->left_out)
        put_line(out, "left out: this installation has the outbox only");
    else if (fault->no_schema)
        put_line(out, "no schema: run tallybox migrate up");
    else if (fault->rc != RC_OK && shown)
        put_line(out, "not known, for the same reason");
    else if (fault->rc != RC_OK)
        put_line(out, "not known: %s", fault->err.text);
    return fault->rc != RC_OK;
}

static void put_schemas(const struct status *status, struct buf *out)
{
    buf_text_put(out, "schema\n");
    for (size_t i = 0; i < status->schema_count; i++) {
        const struct status_schema *schema = &status->schemas[i];

        if (schema->fault.rc != RC_OK && !schema->fault.no_schema)
            put_line(out, "[%s] %s: not known: %s", schema->section, schema->place,
                     schema->fault.err.text);
        else if (schema->version == 0 && !schema->unfinished[0])
            put_line(out, "[%s] %s: no schema: run tallybox migrate up", schema->section,
                     schema->place);
        else
            put_line(out, "[%s] %s: version %" PRId64 "%s%s%s%s", schema->section, schema->place,
                     schema->version, schema->outbox_only ? ", with the outbox only" : "",
                     schema->unfinished[0] ? ", and " : "", schema->unfinished,
                     schema->unfinished[0] ? " is not finished: run tallybox migrate up" : "");
        if (schema->missing[0])
            put_line(out, "tables are missing: %s: tallybox migrate verify compares all tables",
                     schema->missing);
    }
}

static void cell_lane(char cell[CELL_SIZE], const struct status_lane *lane)
{
    char text[2 * STATUS_NAME_SIZE + 4];

    if (strcmp(lane->name, lane->table) == 0)
        snprintf(text, sizeof(text), "%s", lane->name);
    else
        snprintf(text, sizeof(text), "%s (%s)", lane->name, lane->table);
    set_text(cell, text);
}

static void put_lane_rows(const struct status *status, struct table *table)
{
    char head[][CELL_SIZE] = {"lane", "rows", "oldest", "held by", "epoch", "lease left"};

    put_row(table, head);
    for (size_t i = 0; i < status->lane_count; i++) {
        const struct status_lane *lane = &status->lanes[i];
        char cells[6][CELL_SIZE];

        if (lane->fault.rc != RC_OK)
            continue;
        cell_lane(cells[0], lane);
        set_count(cells[1], lane->rows);
        set_age(cells[2], lane->oldest_ms, "");
        set_text(cells[3], lane->owner[0] ? lane->owner : "none");
        set_number(cells[4], lane->epoch);
        if (!lane->owner[0])
            set_text(cells[5], "-");
        else if (lane->lease_left_ms <= 0)
            set_text(cells[5], "over");
        else
            set_age(cells[5], lane->lease_left_ms, "");
        put_row(table, cells);
    }
}

static void put_writer_lanes(const struct status *status, struct buf *out)
{
    const struct lanes *written = &status->written;

    if (status->written_fault.no_schema)
        return;
    if (status->written_fault.rc != RC_OK) {
        put_line(out, "number of lanes: not known: %s", status->written_fault.err.text);
        return;
    }
    if (written->next != 0)
        put_line(out,
                 "the number of lanes is being changed from %" PRId64 " to %" PRId64
                 ": no votes are taken (tallybox lanes show)",
                 written->count, written->next);
    for (int64_t i = 0; i < written->count && i < LANES_MAX; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        outbox_lane_name(name, (size_t)i);
        if (!status->served[i])
            put_line(out, "%s: writers use it, but no live relay serves it", name);
    }
}

/* Why an expiry is 0 is told by the settings of the server. */
static void put_log(const struct status *status, struct buf *out, const struct status_lane *lane)
{
    const struct status_position *position = &lane->position;
    char expiry[WHEN_AGE_SIZE];

    when_age(expiry, status->log_expire_ms);
    if (!position->file[0])
        return;
    if (status->log_fault.rc != RC_OK)
        put_line(out,
                 "%s: how much of the log the server keeps is not known; the account needs "
                 "REPLICATION CLIENT, on MariaDB BINLOG MONITOR: %s",
                 lane->name, status->log_fault.err.text);
    else if (position->is_purged)
        put_line(out, "%s: the server has deleted file %s", lane->name, position->file);
    else
        put_line(out,
                 "%s: %" PRId64 " bytes of the log are behind its position, and %" PRId64
                 " are kept before it; %s is %s; files are deleted %s%s",
                 lane->name, position->behind_bytes, position->kept_bytes, position->file,
                 position->is_oldest_file ? "the oldest file" : "not the oldest file",
                 status->log_expire_ms > 0 ? "after " : "by the administrator",
                 status->log_expire_ms > 0 ? expiry : "");
}

static void put_position(const struct status *status, struct buf *out,
                         const struct status_lane *lane)
{
    const struct status_position *position = &lane->position;
    char gtids[GTIDS_SHOWN_BYTES];
    char saved[WHEN_AGE_SIZE];
    char behind[WHEN_AGE_SIZE];

    if (position->fault.rc != RC_OK) {
        put_line(out, "%s: its position in the binary log is not known: %s", lane->name,
                 position->fault.err.text);
        return;
    }
    if (!position->found) {
        put_line(out, "%s: it has no position in the binary log yet", lane->name);
        return;
    }
    snprintf(gtids, sizeof(gtids), "%s", position->gtids);
    text_cut(gtids, sizeof(gtids), strlen(position->gtids));
    when_age(saved, position->saved_ms);
    when_age(behind, position->behind_ms);
    put_line(out, "%s: reads the binary log; position %s%s%s, saved %s ago, %s%s", lane->name,
             position->by_gtid ? "behind the transactions " : "",
             position->by_gtid ? gtids[0] ? gtids : "(none)" : "",
             position->by_gtid ? "" : "by file and offset", saved,
             position->behind_ms == STATUS_UNKNOWN ? "how old is not known"
             : position->behind_ms == 0            ? "at the end of the log"
                                                   : behind,
             position->behind_ms > 0 ? " behind" : "");
    if (position->file[0])
        put_line(out, "%s: file %s, offset %" PRId64, lane->name, position->file, position->offset);
    put_log(status, out, lane);
}

static void put_outbox(const struct status *status, struct buf *out)
{
    size_t known = 0;

    buf_text_put(out, "\noutbox\n");
    if (put_fault(status, out, &status->outbox_fault))
        return;
    if (status->cluster[0])
        put_line(out,
                 "%s: other nodes may write, and the relay cannot see their open transactions; it "
                 "waits relay.gap_wait_multi_ms for missing seqs; write to one node only, and let "
                 "the relay read from it",
                 status->cluster);
    for (size_t i = 0; i < status->lane_count; i++)
        known += status->lanes[i].fault.rc == RC_OK;
    if (known > 0)
        put_table(status, out, 6, 1U << 1 | 1U << 2 | 1U << 4 | 1U << 5, put_lane_rows);
    for (size_t i = 0; i < status->lane_count; i++) {
        const struct status_lane *lane = &status->lanes[i];
        char diverted[STATUS_DIVERTED_SIZE];

        status_diverted_text(diverted, lane);
        if (lane->no_table)
            put_line(out, "%s: there is no such table", lane->name);
        else if (lane->fault.rc != RC_OK)
            put_line(out, "%s: not known: %s", lane->name, lane->fault.err.text);
        else if (lane->lease_ms > 0 &&
                 singleton_lease_is_implausible(lane->lease_left_ms, 0, lane->lease_ms))
            put_line(out,
                     "%s: the database clock was set back: its lease ends too far in the future; "
                     "it counts as expired, and the next relay shortens it",
                     lane->name);
        if (lane->fault.rc == RC_OK && lane->age_unknown)
            put_line(out,
                     "%s: the age of its oldest row is not known: the table has no column "
                     "created_at, or the account may not read it",
                     lane->name);
        if (lane->fault.rc == RC_OK && lane->is_stream)
            put_position(status, out, lane);
        if (lane->diverted_keys > 0)
            put_line(out, "%s: %s", lane->name, diverted);
    }
    put_writer_lanes(status, out);
}

/* A dead instance has no address; its cell tells since when it is dead, by the clock of the
 * database. */
static void set_admin(char cell[CELL_SIZE], const struct status *status,
                      const struct status_instance *one)
{
    time_t seconds = (time_t)((status->now_ms - one->seen_ms) / 1000);
    struct tm tm = {0};

    gmtime_r(&seconds, &tm);
    if (status_instance_is_dead(one))
        strftime(cell, CELL_SIZE, "dead since %Y-%m-%d %H:%M:%S UTC", &tm);
    else
        set_text(cell, one->admin[0] ? one->admin : "-");
}

static void put_instance_rows(const struct status *status, struct table *table)
{
    char head[][CELL_SIZE] = {"instance", "role", "up", "last seen", "admin"};

    put_row(table, head);
    for (size_t i = 0; i < status->instance_count; i++) {
        const struct status_instance *one = &status->instances[i];
        char cells[5][CELL_SIZE];

        set_text(cells[0], one->name);
        set_text(cells[1], one->role);
        set_age(cells[2], one->up_ms, "");
        set_age(cells[3], one->seen_ms, " ago");
        set_admin(cells[4], status, one);
        put_row(table, cells);
    }
}

static void put_instances(const struct status *status, struct buf *out)
{
    buf_text_put(out, "\ninstances\n");
    if (put_fault(status, out, &status->instances_fault))
        return;
    if (status->instance_count == 0)
        put_line(out, "none has left a heartbeat");
    else
        put_table(status, out, 5, 1U << 2 | 1U << 3, put_instance_rows);
}

static void put_retry(const struct status *status, struct buf *out)
{
    const struct status_retry *retry = &status->retry;
    const int64_t *tasks = retry->tasks;
    char age[WHEN_AGE_SIZE];
    bool late = retry->due_ms >= 0 && tasks[0] > 0;

    buf_text_put(out, "\nretry queue\n");
    if (put_fault(status, out, &retry->fault))
        return;
    put_line(out,
             "tasks: %" PRId64 "%s waiting, %" PRId64 "%s running, %" PRId64 "%s queued, %" PRId64
             "%s blocked, %" PRId64 "%s parked",
             tasks[0], plus_if_capped(tasks[0]), tasks[1], plus_if_capped(tasks[1]), tasks[2],
             plus_if_capped(tasks[2]), tasks[3], plus_if_capped(tasks[3]), tasks[4],
             plus_if_capped(tasks[4]));
    when_age(age, retry->due_ms < 0 ? -retry->due_ms : retry->due_ms);
    if (tasks[0] > 0)
        put_line(out, late ? "the oldest is due for %s" : "the next is due in %s", age);
    if (tasks[3] + tasks[4] > 0)
        put_line(out,
                 "%" PRId64
                 " keys wait for an operator: tallybox retry list --state blocked,parked",
                 tasks[3] + tasks[4]);
    for (size_t i = 0; i < retry->paused_count; i++)
        put_line(out, "scene %s is paused", retry->paused[i]);
    for (size_t i = 0; i < retry->unserved_count; i++)
        put_line(out, "%" PRId64 "%s wait for the handler %s, which no live process runs",
                 retry->unserved[i].tasks, plus_if_capped(retry->unserved[i].tasks),
                 retry->unserved[i].handler);
    for (size_t i = 0; i < retry->closed_count; i++)
        put_line(out, "%" PRId64 "%s wait for the group %s, which %s", retry->closed[i].tasks,
                 plus_if_capped(retry->closed[i].tasks), retry->closed[i].group,
                 retry->closed[i].known ? "is disabled: tallybox retry group enable"
                                        : "does not exist: tallybox retry group set");
    for (size_t i = 0; i < retry->unconfigured_count; i++)
        put_line(out,
                 "%" PRId64 "%s wait for a configuration of the scene %s: tallybox retry scene set",
                 retry->unconfigured[i].tasks, plus_if_capped(retry->unconfigured[i].tasks),
                 retry->unconfigured[i].scene);
    for (size_t i = 0; i < retry->ours_count; i++)
        put_line(out,
                 "%" PRId64 "%s of the handler %s " STATUS_OURS
                 ": %s: tallybox retry list --reason-class ours",
                 retry->ours[i].tasks, plus_if_capped(retry->ours[i].tasks), retry->ours[i].handler,
                 retry->ours[i].reason);
    if (retry->exhausted > 0)
        put_line(out,
                 "tasks exhausted within a day: %" PRId64
                 "%s: tallybox retry history --outcome exhausted --since 1d",
                 retry->exhausted, plus_if_capped(retry->exhausted));
    if (retry->instances > 0)
        put_line(out, "processes that run it: %" PRId64, retry->instances);
    else
        put_line(out, "no process runs it");
    if (retry->threads <= 1)
        put_line(out,
                 "isolation of scenes is off: with retry.threads = %" PRId64
                 " a slow scene delays all others",
                 retry->threads);
}

static void put_partition_rows(const struct status *status, struct table *table)
{
    char head[][CELL_SIZE] = {"partition", "next", "end", "lag", "held by", "updated"};
    const char *none = status->progress_fault.rc == RC_OK ? "none" : "-";

    put_row(table, head);
    for (size_t i = 0; i < status->partition_count; i++) {
        const struct status_partition *one = &status->partitions[i];
        char name[STATUS_TOPIC_SIZE + 16];
        char cells[6][CELL_SIZE];

        snprintf(name, sizeof(name), "%s/%" PRId32, one->topic, one->partition);
        set_text(cells[0], name);
        set_number(cells[1], one->next_offset);
        set_number(cells[2], one->high);
        set_number(cells[3], status_lag(status, one));
        set_text(cells[4], one->owner[0] ? one->owner : none);
        set_age(cells[5], one->updated_ms, " ago");
        put_row(table, cells);
    }
}

static void put_partitions(const struct status *status, struct buf *out)
{
    int64_t lag = 0;

    buf_print(out, "\nconsumer group %s\n", status->group[0] ? status->group : "(not known)");
    put_fault(status, out, &status->progress_fault);
    if (status->kafka_fault.rc != RC_OK)
        put_line(out, "the ends of the partitions are not known: %s", status->kafka_fault.err.text);
    if (status->partition_count == 0 && status->kafka_fault.rc == RC_OK &&
        status->progress_fault.rc == RC_OK)
        put_line(out, "no partition: its topics do not exist yet");
    if (status->partition_count == 0)
        return;
    put_table(status, out, 6, 1U << 1 | 1U << 2 | 1U << 3 | 1U << 5, put_partition_rows);
    for (size_t i = 0; i < status->partition_count; i++)
        if (status_lag(status, &status->partitions[i]) != STATUS_UNKNOWN)
            lag += status_lag(status, &status->partitions[i]);
    if (status->kafka_fault.rc == RC_OK && status->progress_fault.rc == RC_OK)
        put_line(out, "records not applied yet: %" PRId64, lag);
}

static void put_class_rows(const struct status *status, struct table *table)
{
    char head[][CELL_SIZE] = {"reason", "records", "newest"};

    put_row(table, head);
    for (size_t i = 0; i < status->class_count; i++) {
        char cells[3][CELL_SIZE];

        set_text(cells[0], status->classes[i].name);
        set_count(cells[1], status->classes[i].records);
        set_age(cells[2], status->classes[i].newest_ms, " ago");
        put_row(table, cells);
    }
}

static void put_dead(const struct status *status, struct buf *out)
{
    buf_text_put(out, "\ndead records\n");
    if (put_fault(status, out, &status->dead_fault))
        return;
    if (status->class_count == 0) {
        put_line(out, "none");
        return;
    }
    put_table(status, out, 3, 1U << 1 | 1U << 2, put_class_rows);
    put_line(out, "tallybox dead list shows them");
}

static void put_rollup(const struct status *status, struct buf *out)
{
    const struct status_rollup *rollup = &status->rollup;
    char last[WHEN_AGE_SIZE];
    char next[WHEN_AGE_SIZE];
    bool due = rollup->due_ms <= status->now_ms;

    buf_text_put(out, "\nroll-up\n");
    if (put_fault(status, out, &rollup->fault))
        return;
    when_age(last, status->now_ms - rollup->finished_ms);
    when_age(next, rollup->due_ms - status->now_ms);
    if (rollup->finished_ms == 0)
        put_line(out, "none was finished yet");
    else
        put_line(out, "the last one ended %s ago", last);
    if (rollup->owner[0])
        put_line(out, "%s is at work", rollup->owner);
    else
        put_line(out, "the next one is due %s%s", due ? "now" : "in ", due ? "" : next);
    put_line(out, "contents changed since their remark: %" PRId64 "%s", rollup->waiting,
             plus_if_capped(rollup->waiting));
}

static void put_housekeep(const struct status *status, struct buf *out)
{
    const struct status_housekeep *one = &status->housekeep;
    char last[WHEN_AGE_SIZE];
    char next[WHEN_AGE_SIZE];
    bool due = one->due_ms <= status->now_ms;

    buf_text_put(out, "\nhousekeeping\n");
    if (put_fault(status, out, &one->fault))
        return;
    when_age(last, status->now_ms - one->finished_ms);
    when_age(next, one->due_ms - status->now_ms);
    if (one->finished_ms == 0)
        put_line(out, "no round was finished yet");
    else
        put_line(out, "the last round ended %s ago", last);
    if (one->owner[0])
        put_line(out, "%s is at work", one->owner);
    else
        put_line(out, "the next one is due %s%s", due ? "now" : "in ", due ? "" : next);
    put_line(out, "vote_document: %" PRId64 " partitions, months made up to %s", one->partitions,
             one->until_date[0] ? one->until_date : "none");
    if (one->begin_date[0])
        put_line(out, "votes from before %s are dropped, and refused", one->begin_date);
}

static void put_head(const struct status *status, struct buf *out)
{
    time_t seconds = (time_t)(status->now_ms / 1000);
    struct tm tm = {0};
    char text[32];

    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
    buf_print(out, "tallybox %s, %s UTC\n\n", TALLYBOX_VERSION, text);
}

/* If memory runs out, a member is NULL, json_pack() fails, and with it the whole object. */

static json_t *number_json(int64_t value)
{
    return value == STATUS_UNKNOWN ? json_null() : json_integer((json_int_t)value);
}

/* An empty text becomes null. */
static json_t *text_json(const char *value)
{
    return value[0] ? json_string(value) : json_null();
}

static json_t *fault_json(const struct status_fault *fault)
{
    if (fault->left_out)
        return json_string("left out: this installation has the outbox only");
    if (fault->no_schema)
        return json_string("no schema: run tallybox migrate up");
    return fault->rc == RC_OK ? json_null() : text_json(fault->err.text);
}

/* If an append fails, the whole list becomes NULL instead of incomplete. */
static void append_json(json_t **list, json_t *one)
{
    if (json_array_append_new(*list, one) == 0)
        return;
    json_decref(*list);
    *list = NULL;
}

static void append_problem(void *ctx, const char *text)
{
    append_json(ctx, json_string(text));
}

static json_t *problems_json(const struct status *status)
{
    json_t *list = json_array();

    status_find_problems(status, append_problem, &list);
    return list;
}

static json_t *schemas_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->schema_count; i++) {
        const struct status_schema *one = &status->schemas[i];

        append_json(&list, json_pack("{s:o, s:s, s:s, s:I, s:o, s:b, s:o}", "error",
                                     fault_json(&one->fault), "section", one->section, "place",
                                     one->place, "version", (json_int_t)one->version, "unfinished",
                                     text_json(one->unfinished), "outbox_only", one->outbox_only,
                                     "missing_tables", text_json(one->missing)));
    }
    return list;
}

/* null for a lane that reads its table. */
static json_t *position_json(const struct status *status, const struct status_lane *lane)
{
    const struct status_position *one = &lane->position;
    bool has_file = one->found && one->file[0];
    bool is_known = one->behind_bytes != STATUS_UNKNOWN;

    if (!lane->is_stream)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:b, s:o}", "error",
                     fault_json(&one->fault), "gtids",
                     one->found && one->by_gtid ? json_string(one->gtids) : json_null(), "file",
                     has_file ? json_string(one->file) : json_null(), "offset",
                     has_file ? json_integer((json_int_t)one->offset) : json_null(), "saved_age_ms",
                     number_json(one->saved_ms), "behind_ms", number_json(one->behind_ms),
                     "log_error", fault_json(&status->log_fault), "behind_bytes",
                     number_json(one->behind_bytes), "kept_bytes",
                     number_json(is_known ? one->kept_bytes : STATUS_UNKNOWN), "oldest_file",
                     is_known ? json_boolean(one->is_oldest_file) : json_null(), "purged",
                     one->is_purged, "log_expire_ms", number_json(status->log_expire_ms));
}

static json_t *lanes_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->lane_count; i++) {
        const struct status_lane *one = &status->lanes[i];
        bool held = one->owner[0] != '\0';

        append_json(
            &list,
            json_pack("{s:o, s:s, s:s, s:I, s:b, s:o, s:o, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o}",
                      "error", fault_json(&one->fault), "lane", one->name, "table", one->table,
                      "rows", (json_int_t)one->rows, "rows_more", one->rows >= STATUS_COUNT_MAX,
                      "oldest_age_ms", number_json(one->oldest_ms), "owner", text_json(one->owner),
                      "epoch", (json_int_t)one->epoch, "lease_left_ms",
                      held ? json_integer((json_int_t)one->lease_left_ms) : json_null(),
                      "diverted_keys", (json_int_t)one->diverted_keys, "diverted_task",
                      one->diverted_task ? json_integer((json_int_t)one->diverted_task)
                                         : json_null(),
                      "diverted_key", text_json(one->diverted_key), "diverted_reason",
                      text_json(one->diverted_reason), "block_ms",
                      one->block_ms ? json_integer((json_int_t)one->block_ms) : json_null(),
                      "position", position_json(status, one)));
    }
    return list;
}

static json_t *written_json(const struct status *status)
{
    json_t *unserved = json_array();

    for (int64_t i = 0; i < status->written.count && i < LANES_MAX; i++) {
        char name[OUTBOX_LANE_NAME_SIZE];

        outbox_lane_name(name, (size_t)i);
        if (!status->served[i])
            append_json(&unserved, json_string(name));
    }
    return json_pack("{s:o, s:I, s:I, s:o}", "error", fault_json(&status->written_fault),
                     "lane_count", (json_int_t)status->written.count, "changing_to",
                     (json_int_t)status->written.next, "unserved", unserved);
}

static json_t *instances_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->instance_count; i++) {
        const struct status_instance *one = &status->instances[i];

        append_json(&list, json_pack("{s:s, s:s, s:I, s:I, s:b, s:o}", "name", one->name, "role",
                                     one->role, "up_ms", (json_int_t)one->up_ms, "seen_age_ms",
                                     (json_int_t)one->seen_ms, "dead", status_instance_is_dead(one),
                                     "admin", text_json(one->admin)));
    }
    return list;
}

static json_t *partitions_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->partition_count; i++) {
        const struct status_partition *one = &status->partitions[i];

        append_json(&list,
                    json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:o}", "topic",
                              one->topic, "partition", (int)one->partition, "next_offset",
                              number_json(one->next_offset), "low_watermark", number_json(one->low),
                              "high_watermark", number_json(one->high), "lag",
                              number_json(status_lag(status, one)), "late", number_json(one->late),
                              "owner", text_json(one->owner), "epoch", (json_int_t)one->epoch,
                              "updated_age_ms", number_json(one->updated_ms)));
    }
    return list;
}

static json_t *classes_json(const struct status *status)
{
    json_t *list = json_array();

    for (size_t i = 0; i < status->class_count; i++) {
        const struct status_class *one = &status->classes[i];

        append_json(&list, json_pack("{s:s, s:I, s:b, s:I}", "reason_class", one->name, "records",
                                     (json_int_t)one->records, "records_more",
                                     one->records >= STATUS_COUNT_MAX, "newest_age_ms",
                                     (json_int_t)one->newest_ms));
    }
    return list;
}

static json_t *rollup_json(const struct status *status)
{
    const struct status_rollup *one = &status->rollup;

    return json_pack(
        "{s:o, s:o, s:o, s:I, s:o, s:I, s:b}", "error", fault_json(&one->fault), "rolled_until_ms",
        number_json(one->rolled_until_ms > 0 ? one->rolled_until_ms : STATUS_UNKNOWN),
        "finished_ms", number_json(one->finished_ms > 0 ? one->finished_ms : STATUS_UNKNOWN),
        "due_ms", (json_int_t)one->due_ms, "owner", text_json(one->owner), "waiting",
        (json_int_t)one->waiting, "waiting_more", one->waiting >= STATUS_COUNT_MAX);
}

static json_t *housekeep_json(const struct status *status)
{
    const struct status_housekeep *one = &status->housekeep;

    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:I, s:o}", "error", fault_json(&one->fault),
                     "finished_ms",
                     number_json(one->finished_ms > 0 ? one->finished_ms : STATUS_UNKNOWN),
                     "due_ms", (json_int_t)one->due_ms, "owner", text_json(one->owner),
                     "begin_date", text_json(one->begin_date), "partitions",
                     (json_int_t)one->partitions, "until_date", text_json(one->until_date));
}

static json_t *retry_json(const struct status *status)
{
    static const char *const names[STATUS_TASK_STATES] = {"waiting", "running", "queued", "blocked",
                                                          "parked"};
    const struct status_retry *one = &status->retry;
    json_t *tasks = json_object();
    json_t *paused = json_array();
    json_t *unserved = json_object();
    json_t *closed = json_object();
    json_t *unconfigured = json_object();
    json_t *ours = json_array();

    for (size_t i = 0; i < STATUS_TASK_STATES; i++)
        json_object_set_new(tasks, names[i], json_integer((json_int_t)one->tasks[i]));
    for (size_t i = 0; i < one->paused_count; i++)
        append_json(&paused, json_string(one->paused[i]));
    for (size_t i = 0; i < one->unserved_count; i++)
        json_object_set_new(unserved, one->unserved[i].handler,
                            json_integer((json_int_t)one->unserved[i].tasks));
    for (size_t i = 0; i < one->closed_count; i++)
        json_object_set_new(closed, one->closed[i].group,
                            json_integer((json_int_t)one->closed[i].tasks));
    for (size_t i = 0; i < one->unconfigured_count; i++)
        json_object_set_new(unconfigured, one->unconfigured[i].scene,
                            json_integer((json_int_t)one->unconfigured[i].tasks));
    for (size_t i = 0; i < one->ours_count; i++)
        append_json(&ours, json_pack("{s:s, s:s, s:I}", "handler", one->ours[i].handler, "reason",
                                     one->ours[i].reason, "tasks", (json_int_t)one->ours[i].tasks));
    return json_pack(
        "{s:o, s:o, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:I, s:I, s:b}", "error",
        fault_json(&one->fault), "tasks", tasks, "tasks_max", STATUS_COUNT_MAX, "oldest_due_age_ms",
        one->tasks[0] > 0 ? json_integer((json_int_t)one->due_ms) : json_null(), "overdue_ms",
        number_json(one->overdue_ms), "paused_scenes", paused, "unserved_handlers", unserved,
        "closed_groups", closed, "unconfigured_scenes", unconfigured, "failing_ours", ours,
        "exhausted_day", (json_int_t)one->exhausted, "instances", (json_int_t)one->instances,
        "scenes_isolated", one->threads > 1);
}

/* One line instead of the same one in the section of each part. */
static bool put_left_out(const struct status *status, struct buf *out)
{
    if (!status->progress_fault.left_out || !status->dead_fault.left_out ||
        !status->rollup.fault.left_out || !status->housekeep.fault.left_out)
        return false;
    buf_text_put(out, "\nvotes\n");
    put_line(out, "left out: this installation has the outbox only");
    return true;
}

void status_print_text(const struct status *status, struct buf *out)
{
    status_put_summary(status, out);
    put_head(status, out);
    put_schemas(status, out);
    put_outbox(status, out);
    put_instances(status, out);
    put_retry(status, out);
    if (put_left_out(status, out))
        return;
    put_partitions(status, out);
    put_dead(status, out);
    put_rollup(status, out);
    put_housekeep(status, out);
}

void status_print_json(const struct status *status, struct buf *out)
{
    json_t *root = json_pack(
        "{s:s, s:I, s:o, s:o, s:{s:o, s:o, s:o, s:o}, s:{s:o, s:o}, s:{s:s, s:o, s:o, s:o}, "
        "s:{s:o, s:o}, s:o, s:o, s:o}",
        "version", TALLYBOX_VERSION, "now_ms", (json_int_t)status->now_ms, "problems",
        problems_json(status), "schema", schemas_json(status), "outbox", "error",
        fault_json(&status->outbox_fault), "lanes", lanes_json(status), "written",
        written_json(status), "writer_cluster", text_json(status->cluster), "instances", "error",
        fault_json(&status->instances_fault), "list", instances_json(status), "consumer", "group",
        status->group, "error", fault_json(&status->progress_fault), "kafka_error",
        fault_json(&status->kafka_fault), "partitions", partitions_json(status), "dead_records",
        "error", fault_json(&status->dead_fault), "classes", classes_json(status), "rollup",
        rollup_json(status), "housekeep", housekeep_json(status), "retry", retry_json(status));
    char *json = root ? json_dumps(root, JSON_INDENT(2)) : NULL;

    json_decref(root);
    if (json) {
        buf_text_put(out, json);
        buf_char(out, '\n');
    } else {
        out->failed = true;
    }
    free(json);
}
