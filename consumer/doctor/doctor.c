/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/doctor.h"

#include "common/config/lane_texts.h"
#include "common/text.h"
#include "consumer/doctor/privileges.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A clock difference below this changes no decision of any role: leases last seconds. */
#define CLOCK_MS_MAX 1000
/* A consumer that was stopped over a weekend must still find its records. */
#define RETENTION_MS_MIN (3 * INT64_C(86400000))
/* Oldest versions that the tests run on. */
#define MARIADB_OLDEST 1006
#define MYSQL_OLDEST 804
#define MISSING_SHOWN_BYTES 400

static const char *const level_names[DOCTOR_LEVELS] = {"ok", "warning", "FAILED", "UNREACHABLE"};
static const char *const level_words[DOCTOR_LEVELS] = {"ok", "warning", "failed", "unreachable"};

/* Roles with different accounts often find the same. */
static bool is_known(const struct doctor *doctor, const struct doctor_finding *finding)
{
    for (size_t i = 0; i < doctor->count; i++)
        if (doctor->findings[i].level == finding->level &&
            strcmp(doctor->findings[i].subject, finding->subject) == 0 &&
            strcmp(doctor->findings[i].text, finding->text) == 0)
            return true;
    return false;
}

void doctor_add(struct doctor *doctor, enum doctor_level level, const char *subject,
                const char *remedy, const char *format, ...)
{
    struct doctor_finding finding = {.level = level};
    va_list args;

    snprintf(finding.subject, sizeof(finding.subject), "%s", subject);
    snprintf(finding.remedy, sizeof(finding.remedy), "%s", remedy ? remedy : "");
    va_start(args, format);
    vsnprintf(finding.text, sizeof(finding.text), format, args);
    va_end(args);
    if (is_known(doctor, &finding))
        return;
    doctor->counts[level]++;
    if (doctor->count < DOCTOR_FINDINGS_MAX)
        doctor->findings[doctor->count++] = finding;
}

/* 1011 for "10.11.6-MariaDB"; 0 if the text is no version. */
static int parse_version(const char *text)
{
    int major = 0;
    int minor = 0;

    if (sscanf(text, "%d.%d", &major, &minor) != 2)
        return 0;
    return major * 100 + minor;
}

static void judge_version(struct doctor *doctor, struct doctor_database *database)
{
    const char *product = database->is_mariadb ? "MariaDB" : "MySQL";
    int oldest = database->is_mariadb ? MARIADB_OLDEST : MYSQL_OLDEST;

    if (parse_version(database->version) >= oldest)
        doctor_add(doctor, DOCTOR_OK, database->section, NULL, "%s %s, %s", product,
                   database->version, database->place);
    else
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "use MySQL 8.4 or newer, or MariaDB 10.6 or newer",
                   "%s %s is older than every version that tallybox is tested on", product,
                   database->version);
}

static void judge_durability(struct doctor *doctor, struct doctor_database *database)
{
    const char *unknown = NULL;
    bool is_durable = true;

    if (database->flush_log_at_commit == DOCTOR_UNKNOWN)
        unknown = "innodb_flush_log_at_trx_commit";
    else if (database->has_binlog && database->sync_binlog == DOCTOR_UNKNOWN)
        unknown = "sync_binlog";
    if (unknown)
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "find out in the documentation of this server what survives its crash",
                   "the server does not show %s: it is not known whether a committed transaction "
                   "survives a crash",
                   unknown);

    if (database->flush_log_at_commit != DOCTOR_UNKNOWN && database->flush_log_at_commit != 1) {
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "set innodb_flush_log_at_trx_commit = 1 in the server's configuration",
                   "innodb_flush_log_at_trx_commit = %" PRId64
                   ": committed events can be lost if the server or its machine fails",
                   database->flush_log_at_commit);
        is_durable = false;
    }
    if (database->has_binlog && database->sync_binlog != DOCTOR_UNKNOWN &&
        database->sync_binlog != 1) {
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "set sync_binlog = 1 in the server's configuration",
                   "sync_binlog = %" PRId64
                   ": a replica or a restored server can miss committed events",
                   database->sync_binlog);
        is_durable = false;
    }
    if (is_durable && !unknown)
        doctor_add(doctor, DOCTOR_OK, database->section, NULL,
                   "a committed transaction survives a crash of the server");
}

static void judge_server(struct doctor *doctor, struct doctor_database *database,
                         const struct settings *settings)
{
    /* The diverter writes a row into the retry queue with its bytes escaped. */
    int64_t packet = 2 * settings->relay.row_bytes_max + 65536;

    if (database->is_read_only)
        doctor_add(doctor, DOCTOR_FAILED, database->section,
                   "let [mysql] and [sink] name the primary server, not a replica",
                   "the server is read-only");
    if (strcmp(database->binlog_format, "STATEMENT") == 0 && database->has_binlog)
        doctor_add(doctor, DOCTOR_FAILED, database->section,
                   "set binlog_format = ROW in the server's configuration",
                   "binlog_format = STATEMENT: the server refuses writes in READ COMMITTED, the "
                   "isolation level of every role");
    if (database->packet_bytes_max != DOCTOR_UNKNOWN && database->packet_bytes_max < packet)
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "raise max_allowed_packet, or lower relay.row_bytes_max",
                   "max_allowed_packet = %" PRId64
                   ": a refused row of relay.row_bytes_max = %" PRId64
                   " bytes may not fit into the retry queue, which needs up to %" PRId64,
                   database->packet_bytes_max, settings->relay.row_bytes_max, packet);
}

static void judge_clock(struct doctor *doctor, struct doctor_database *database)
{
    int64_t ahead_ms = database->clock_ahead_ms;

    if (ahead_ms == DOCTOR_UNKNOWN)
        return;
    if (llabs((long long)ahead_ms) > CLOCK_MS_MAX + database->clock_error_ms)
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "synchronize the clocks of both machines (NTP)",
                   "the clock of the server is %" PRId64 " ms %s the clock of this machine",
                   ahead_ms < 0 ? -ahead_ms : ahead_ms, ahead_ms < 0 ? "behind" : "ahead of");
    else
        doctor_add(doctor, DOCTOR_OK, database->section, NULL,
                   "the clocks differ by at most %" PRId64 " ms",
                   (ahead_ms < 0 ? -ahead_ms : ahead_ms) + database->clock_error_ms);
}

/* Copies lines as "line; line; ...". */
static void join_lines(char *out, size_t size, const char *lines)
{
    size_t len = 0;

    out[0] = '\0';
    while (*lines && len + 8 < size) {
        size_t line_len = strcspn(lines, "\n");

        snprintf(out + len, size - len, "%s%.*s", len > 0 ? "; " : "", (int)line_len, lines);
        len = strlen(out);
        lines += line_len;
        lines += *lines == '\n';
    }
    if (*lines || len + 1 == size)
        snprintf(out + size - 4, 4, "...");
}

#define CREATED_AT "GRANT SELECT (created_at) ON "

/* Takes the lines about created_at of lanes out of missing and warns about each: the server does
 * not tell a column that the account may not read from one that is not there. Returns how many
 * there were. */
static size_t judge_ages(struct doctor *doctor, const struct doctor_database *database,
                         const char *role, struct buf *missing)
{
    struct buf others = {0};
    char remedy[120];
    size_t count = 0;
    size_t len;

    snprintf(remedy, sizeof(remedy),
             "if the table has the column, `tallybox migrate grants --role %s` prints what to run",
             role);
    for (const char *line = buf_text(missing); *line; line += len + (line[len] == '\n')) {
        len = strcspn(line, "\n");
        if (strncmp(line, CREATED_AT, strlen(CREATED_AT)) != 0) {
            buf_print(&others, "%.*s\n", (int)len, line);
            continue;
        }
        count++;
        doctor_add(
            doctor, DOCTOR_WARNING, database->section, remedy,
            "the account may not read created_at of %.*s, or the table has none: %s does not "
            "know the age of its oldest row",
            (int)(len - strlen(CREATED_AT)), line + strlen(CREATED_AT), role);
    }
    others.failed |= missing->failed;
    buf_done(missing);
    *missing = others;
    return count;
}

static void judge_role(struct doctor *doctor, struct doctor_database *database, const char *role)
{
    struct buf missing = {0};
    char text[MISSING_SHOWN_BYTES];
    char remedy[120];
    size_t count =
        privileges_find_missing(&missing, database->required, role, buf_text(&database->grants));

    count -= judge_ages(doctor, database, role, &missing);
    join_lines(text, sizeof(text), buf_text(&missing));
    snprintf(remedy, sizeof(remedy), "`tallybox migrate grants` prints the statements for %s",
             role);
    if (missing.failed || database->grants.failed)
        doctor_add(doctor, DOCTOR_FAILED, database->section, NULL, "out of memory");
    else if (count == 0)
        doctor_add(doctor, DOCTOR_OK, database->section, NULL,
                   "the account has the privileges of %s", role);
    else
        doctor_add(doctor, DOCTOR_FAILED, database->section, remedy,
                   "the account lacks privileges of %s: %s", role, text);
    buf_done(&missing);
}

#define WAKEUP_ROLE "relay_wakeup"

#define WAKEUP_REMEDY \
    "`tallybox migrate grants --role " WAKEUP_ROLE " --account ACCOUNT` prints the statements"

/* Whether the account may not read the binary log, and the statements that are missing then.
 * REPLICATION CLIENT alone is not always needed; see OPERATIONS. */
static bool lacks_replication(char text[MISSING_SHOWN_BYTES], struct doctor_database *database)
{
    struct buf missing = {0};

    privileges_find_missing(&missing, database->required, WAKEUP_ROLE, buf_text(&database->grants));
    join_lines(text, MISSING_SHOWN_BYTES, buf_text(&missing));
    buf_done(&missing);
    return strstr(text, "REPLICATION SLAVE") ||
           (strcmp(database->gtid_mode, "OFF") == 0 && strstr(text, "REPLICATION CLIENT"));
}

/* Whether the binary log can wake the lanes of the relay. Without it the relay works as well, with
 * more queries. */
static void judge_wakeup(struct doctor *doctor, struct doctor_database *database)
{
    char text[MISSING_SHOWN_BYTES];

    if (!database->has_binlog) {
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "turn log_bin on in the server's configuration, or set relay.wakeup = off",
                   "relay.wakeup = binlog, but the server writes no binary log: lanes are polled "
                   "as without it");
        return;
    }
    if (lacks_replication(text, database))
        doctor_add(doctor, DOCTOR_WARNING, database->section, WAKEUP_REMEDY,
                   "relay.wakeup = binlog, but the account lacks privileges for it, so lanes are "
                   "polled as without it: %s",
                   text);
}

/* A log that expires sooner loses what a lane has not read when it stops for a day. */
#define LOG_EXPIRE_S_MIN 86400

static void judge_log_variables(struct doctor *doctor, const struct doctor_database *database)
{
    const struct {
        const char *name;
        const char *value;
        const char *needed;
        const char *remedy;
    } variables[] = {
        {"binlog_format", database->binlog_format, "ROW",
         "set binlog_format = ROW in the server's configuration, and let the writers connect "
         "again"},
        {"binlog_row_image", database->binlog_row_image, "FULL",
         "set binlog_row_image = FULL in the server's configuration, and let the writers connect "
         "again"},
    };

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        if (variables[i].value[0] && strcmp(variables[i].value, variables[i].needed) != 0)
            doctor_add(doctor, DOCTOR_FAILED, database->section, variables[i].remedy,
                       "%s = %s: the binary log may lack rows or columns, so lanes with source = "
                       "binlog do not read it",
                       variables[i].name, variables[i].value);
    if (database->log_lacks_replicated)
        doctor_add(doctor, DOCTOR_FAILED, database->section,
                   database->is_mariadb
                       ? "set log_slave_updates = ON in the server's configuration, or let [mysql] "
                         "name the primary server"
                       : "set log_replica_updates = ON in the server's configuration, or let "
                         "[mysql] name the primary server",
                   "the server takes rows of another server, which its binary log lacks, and lanes "
                   "with source = binlog read this log");
    if (database->binlog_row_metadata[0] && strcmp(database->binlog_row_metadata, "FULL") != 0)
        doctor_add(
            doctor, DOCTOR_WARNING, database->section,
            "set binlog_row_metadata = FULL in the server's configuration",
            "binlog_row_metadata = %s: the binary log has no names of columns, so rows that "
            "were written before columns of a table are renamed or moved can stop their lane",
            database->binlog_row_metadata);
    if (strcmp(database->gtid_mode, "OFF") == 0)
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "set gtid_mode = ON and enforce_gtid_consistency = ON",
                   "gtid_mode = OFF: a lane with source = binlog cannot go on at another server "
                   "after a fail-over");
    if (database->log_expire_s > 0 && database->log_expire_s < LOG_EXPIRE_S_MIN)
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "raise binlog_expire_logs_seconds to a day or more",
                   "binlog_expire_logs_seconds = %" PRId64
                   ": a lane with source = binlog that is stopped for longer cannot go on",
                   database->log_expire_s);
}

static void judge_stream_tables(struct doctor *doctor, const struct doctor_database *database,
                                const struct settings *settings)
{
    for (size_t i = 0; i < settings->lane_count; i++)
        if (database->unreadable[i].text[0])
            doctor_add(doctor, DOCTOR_FAILED, database->section,
                       "change the definition of the table, or set source = table",
                       "lane %s stops, because it has source = binlog: table %s: %s",
                       settings->lanes[i].name, settings->lanes[i].table,
                       database->unreadable[i].text);
}

#define PARTITIONS_ROLE "relay_partitions"

/* Without the privileges rows are deleted one by one. The server tells of any partitions, and the
 * relay drops only those by ranges of seq. */
static void judge_partitions(struct doctor *doctor, struct doctor_database *database,
                             const struct settings *settings)
{
    struct buf missing = {0};
    char text[MISSING_SHOWN_BYTES];
    bool any = false;

    for (size_t i = 0; i < settings->lane_count; i++)
        any = any || database->is_partitioned[i];
    if (any)
        privileges_find_missing(&missing, database->required, PARTITIONS_ROLE,
                                buf_text(&database->grants));
    join_lines(text, sizeof(text), buf_text(&missing));
    if (missing.len > 0)
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "`tallybox migrate grants --role " PARTITIONS_ROLE
                   " --account ACCOUNT` prints the statements",
                   "the table of a lane with source = binlog is partitioned, but the account may "
                   "not drop partitions, so published rows are deleted one by one: %s",
                   text);
    buf_done(&missing);
}

#define SOURCE_ROLE "relay_source"

static void name_uses(struct doctor *doctor, const struct doctor_database *database,
                      const struct settings *settings)
{
    char text[LANE_USES_SIZE];

    for (size_t i = 0; i < settings->lane_count; i++) {
        const struct lane_settings *lane = &settings->lanes[i];

        if (strcmp(lane->source, LANE_SOURCE_BINLOG) != 0 || !database->engines[i][0])
            continue;
        lane_put_uses(text, lane, database->has_seq[i]);
        doctor_add(doctor, DOCTOR_OK, database->section, NULL, "lane %s: %s", lane->name, text);
    }
}

/* Without LOCK TABLES such a lane stops, and an operator decides. The other privileges of the role
 * are those of the command. */
static void judge_fallback(struct doctor *doctor, struct doctor_database *database,
                           const struct settings *settings)
{
    struct buf missing = {0};
    char text[MISSING_SHOWN_BYTES];
    bool any = false;

    for (size_t i = 0; i < settings->lane_count; i++)
        any = any || (database->has_seq[i] && lane_may_leave_log(&settings->lanes[i]));
    if (any)
        privileges_find_missing(&missing, database->required, SOURCE_ROLE,
                                buf_text(&database->grants));
    join_lines(text, sizeof(text), buf_text(&missing));
    if (strstr(text, "LOCK TABLES"))
        doctor_add(doctor, DOCTOR_WARNING, database->section,
                   "`tallybox migrate grants --role " SOURCE_ROLE
                   " --account ACCOUNT` prints the statements; or set lane.NAME.from_table = no",
                   "the account may not lock tables, so a lane with source = binlog stops when the "
                   "server has purged its log, instead of going on from its table: %s",
                   text);
    buf_done(&missing);
}

/* relay.server_id is of the wakeup; each lane has one of the next numbers, and the stream that two
 * lanes or more share has the one behind them. */
static void judge_server_ids(struct doctor *doctor, const struct doctor_database *database,
                             const struct settings *settings)
{
    int64_t first_id = settings->relay.server_id;
    int64_t last_id = first_id + (int64_t)settings->lane_count;
    size_t streams = 0;

    for (size_t i = 0; i < settings->lane_count; i++)
        streams += strcmp(settings->lanes[i].source, LANE_SOURCE_BINLOG) == 0;
    last_id += streams > 1;
    if (first_id > 0 && database->server_id >= first_id && database->server_id <= last_id)
        doctor_add(doctor, DOCTOR_FAILED, database->section, "choose another relay.server_id, or 0",
                   "the server has server_id = %" PRId64
                   ", which the relay uses itself: relay.server_id = %" PRId64
                   ", one more for each lane, and one for the stream that lanes share",
                   database->server_id, first_id);
}

/* Without it neither the relay nor the checks here see how much of its log the server keeps, and
 * which databases a filter leaves out. */
static void judge_log_status(struct doctor *doctor, struct doctor_database *database)
{
    struct buf missing = {0};
    char text[MISSING_SHOWN_BYTES];

    privileges_find_missing(&missing, database->required, WAKEUP_ROLE, buf_text(&database->grants));
    join_lines(text, sizeof(text), buf_text(&missing));
    buf_done(&missing);
    if (strstr(text, "REPLICATION CLIENT"))
        doctor_add(doctor, DOCTOR_WARNING, database->section, WAKEUP_REMEDY,
                   "the account may not ask for the files of the binary log: the relay does not "
                   "warn before the server deletes what a lane has not read, and neither filters "
                   "of the log nor, on MySQL, log_replica_updates are checked: %s",
                   text);
}

/* Whether lanes can read the binary log; the relay itself refuses what fails here. */
static void judge_streams(struct doctor *doctor, struct doctor_database *database,
                          const struct settings *settings)
{
    char text[MISSING_SHOWN_BYTES];

    if (!database->has_binlog)
        doctor_add(doctor, DOCTOR_FAILED, database->section,
                   "turn log_bin on in the server's configuration, or set source = table",
                   "a lane has source = binlog, but the server writes no binary log");
    else
        judge_log_variables(doctor, database);
    if (lacks_replication(text, database))
        doctor_add(doctor, DOCTOR_FAILED, database->section, WAKEUP_REMEDY,
                   "a lane has source = binlog, but the account may not read the binary log: %s",
                   text);
    else
        judge_log_status(doctor, database);
    if (database->has_log_filter)
        doctor_add(doctor, DOCTOR_FAILED, database->section,
                   "take this database out of binlog_ignore_db, or add it to binlog_do_db",
                   "a filter keeps the database out of the binary log, which lanes with source = "
                   "binlog read");
    judge_server_ids(doctor, database, settings);
    judge_stream_tables(doctor, database, settings);
    judge_partitions(doctor, database, settings);
    judge_fallback(doctor, database, settings);
    name_uses(doctor, database, settings);
}

static bool has_stream(const struct doctor_database *database, const struct settings *settings,
                       const char *roles)
{
    bool has_lane = false;

    for (size_t i = 0; i < settings->lane_count; i++)
        has_lane = has_lane || strcmp(settings->lanes[i].source, LANE_SOURCE_BINLOG) == 0;
    return has_lane && strcmp(database->section, "mysql") == 0 &&
           (list_has(roles, "relay") || list_has(roles, "run"));
}

static bool has_wakeup(const struct doctor_database *database, const struct settings *settings,
                       const char *roles)
{
    return strcmp(settings->relay.wakeup, RELAY_WAKEUP_BINLOG) == 0 &&
           strcmp(database->section, "mysql") == 0 &&
           (list_has(roles, "relay") || list_has(roles, "run"));
}

static void judge_roles(struct doctor *doctor, struct doctor_database *database, const char *roles)
{
    static const char *const of_run[] = {"serve",   "relay",  "retry",
                                         "consume", "rollup", "housekeep"};

    while (*roles) {
        char role[32];
        size_t len = strcspn(roles, ",");

        snprintf(role, sizeof(role), "%.*s", (int)len, roles);
        if (strcmp(role, "run") == 0)
            for (size_t i = 0; i < sizeof(of_run) / sizeof(of_run[0]); i++)
                judge_role(doctor, database, of_run[i]);
        else
            judge_role(doctor, database, role);
        roles += len;
        roles += *roles == ',';
    }
}

#define REMEDY_SIZE 400

/* role: "" for none. */
static void choose_remedy(char remedy[REMEDY_SIZE], const struct doctor_database *database,
                          const struct settings *settings, const char *role)
{
    bool is_sink = strcmp(database->section, "sink") == 0;
    const struct mysql_settings *mysql = is_sink ? &settings->sink : &settings->mysql;

    if (database->no_database)
        snprintf(remedy, REMEDY_SIZE,
                 "check %.120s; if the name is right, `tallybox migrate up` creates the database",
                 mysql->database_place);
    else if (database->login_refused)
        snprintf(remedy, REMEDY_SIZE,
                 "check account and password of this section; `tallybox config%s%s` shows where "
                 "each value comes from%s",
                 role[0] ? " --role " : "", role,
                 role[0] ? "" : ", and --role relay reads the account of [role.relay]");
    else
        snprintf(remedy, REMEDY_SIZE,
                 "check host, port, account and password of this section; `tallybox config` shows "
                 "where each value comes from");
}

void doctor_judge_database(struct doctor *doctor, struct doctor_database *database,
                           const struct settings *settings, const char *roles)
{
    char remedy[REMEDY_SIZE];

    if (database->rc != RC_OK) {
        choose_remedy(remedy, database, settings, strchr(roles, ',') ? "" : roles);
        doctor_add(doctor, database->rc == RC_RETRY ? DOCTOR_UNREACHABLE : DOCTOR_FAILED,
                   database->section, remedy, "%s", database->err.text);
        return;
    }
    if (!database->is_known) {
        judge_version(doctor, database);
        judge_durability(doctor, database);
        judge_server(doctor, database, settings);
        judge_clock(doctor, database);
    }
    judge_roles(doctor, database, roles);
    if (has_wakeup(database, settings, roles))
        judge_wakeup(doctor, database);
    if (has_stream(database, settings, roles))
        judge_streams(doctor, database, settings);
}

static void judge_replicas(struct doctor *doctor, const struct doctor_topic *topic, int brokers)
{
    if (topic->replicas < 2)
        doctor_add(doctor, DOCTOR_WARNING, "kafka",
                   brokers > 1 ? "raise the topic's replication factor (kafka-reassign-partitions)"
                               : "run three brokers in production",
                   "topic %s has one replica: its records are lost with one disk", topic->name);
    if (!topic->has_config)
        return;
    if (topic->insync_min > topic->replicas)
        doctor_add(doctor, DOCTOR_FAILED, "kafka",
                   "lower min.insync.replicas of the topic, or add replicas",
                   "topic %s: min.insync.replicas = %" PRId64
                   " is more than its %d replicas, so no record is accepted",
                   topic->name, topic->insync_min, topic->replicas);
    else if (topic->replicas > 1 && topic->insync_min < 2)
        doctor_add(doctor, DOCTOR_WARNING, "kafka", "set min.insync.replicas = 2 for the topic",
                   "topic %s: min.insync.replicas = 1, so an acknowledged record may be on one "
                   "broker only",
                   topic->name);
    if (topic->elects_unclean)
        doctor_add(doctor, DOCTOR_WARNING, "kafka",
                   "set unclean.leader.election.enable = false for the topic",
                   "topic %s: unclean.leader.election.enable = true can lose acknowledged records",
                   topic->name);
}

static void judge_topic_config(struct doctor *doctor, const struct doctor_topic *topic,
                               const struct doctor_kafka *kafka, const struct settings *settings)
{
    int64_t row = settings->relay.row_bytes_max;

    if (topic->is_consumed && topic->is_compacted)
        doctor_add(doctor, DOCTOR_FAILED, "kafka", "set cleanup.policy = delete for the topic",
                   "topic %s is compacted: Kafka drops votes that the consumer has not read",
                   topic->name);
    if (topic->retention_ms >= 0 && topic->retention_ms < RETENTION_MS_MIN)
        doctor_add(doctor, DOCTOR_WARNING, "kafka", "raise retention.ms of the topic",
                   "topic %s: retention.ms = %" PRId64
                   ", so records are lost if the consumer is stopped for longer",
                   topic->name, topic->retention_ms);
    if (topic->batch_bytes_max < row + kafka->record_extra_bytes)
        doctor_add(doctor, DOCTOR_WARNING, "kafka",
                   "raise max.message.bytes of the topic, or lower relay.row_bytes_max",
                   "topic %s: max.message.bytes = %" PRId64
                   " is too small for a row of relay.row_bytes_max = %" PRId64
                   " bytes, whose record has up to %" PRId64
                   " more, beside those of the column headers",
                   topic->name, topic->batch_bytes_max, row, kafka->record_extra_bytes);
}

static void judge_topic(struct doctor *doctor, const struct doctor_topic *topic,
                        const struct doctor_kafka *kafka, const struct settings *settings)
{
    size_t before = doctor->counts[DOCTOR_WARNING] + doctor->counts[DOCTOR_FAILED];

    if (topic->partitions == 0) {
        doctor_add(doctor, DOCTOR_OK, "kafka", NULL,
                   "topic %s does not exist yet; the relay creates it with %" PRId64 " partitions",
                   topic->name, settings->relay.topic_partitions);
        return;
    }
    judge_replicas(doctor, topic, kafka->brokers);
    if (topic->has_config)
        judge_topic_config(doctor, topic, kafka, settings);
    else
        doctor_add(doctor, DOCTOR_WARNING, "kafka", "give the account DescribeConfigs on the topic",
                   "topic %s: the broker does not show its configuration to this account",
                   topic->name);
    if (before == doctor->counts[DOCTOR_WARNING] + doctor->counts[DOCTOR_FAILED])
        doctor_add(doctor, DOCTOR_OK, "kafka", NULL, "topic %s: %d partitions, %d replicas",
                   topic->name, topic->partitions, topic->replicas);
}

void doctor_judge_kafka(struct doctor *doctor, const struct doctor_kafka *kafka,
                        const struct settings *settings)
{
    if (kafka->rc != RC_OK) {
        doctor_add(doctor, kafka->rc == RC_RETRY ? DOCTOR_UNREACHABLE : DOCTOR_FAILED, "kafka",
                   "check [kafka] bootstrap.servers and the security settings there", "%s",
                   kafka->err.text);
        return;
    }
    doctor_add(doctor, DOCTOR_OK, "kafka", NULL, "%d broker%s", kafka->brokers,
               kafka->brokers == 1 ? "" : "s");
    if (settings->relay.topic_replication > kafka->brokers)
        doctor_add(doctor, DOCTOR_FAILED, "kafka",
                   "lower relay.topic_replication, or start more brokers",
                   "relay.topic_replication = %" PRId64
                   " is more than the number of brokers, so the relay cannot create a topic",
                   settings->relay.topic_replication);
    if (kafka->left_out > 0)
        doctor_add(doctor, DOCTOR_WARNING, "kafka",
                   "check the configuration of the others as that of these",
                   "%zu topics of the settings or with relay.topic_prefix = %s were not checked: "
                   "doctor checks %d",
                   kafka->left_out, settings->relay.topic_prefix, DOCTOR_TOPICS_MAX);
    for (size_t i = 0; i < kafka->topic_count; i++)
        judge_topic(doctor, &kafka->topics[i], kafka, settings);
}

/* False: there is no room. */
static bool add_topic(struct doctor_kafka *kafka, const char *name, size_t len, bool is_consumed)
{
    struct doctor_topic *topic;

    for (size_t i = 0; i < kafka->topic_count; i++)
        if (strlen(kafka->topics[i].name) == len && memcmp(kafka->topics[i].name, name, len) == 0) {
            kafka->topics[i].is_consumed |= is_consumed;
            return true;
        }
    if (len == 0 || len >= sizeof(topic->name))
        return true;
    if (kafka->topic_count == DOCTOR_TOPICS_MAX)
        return false;
    topic = &kafka->topics[kafka->topic_count++];
    memset(topic, 0, sizeof(*topic));
    memcpy(topic->name, name, len);
    topic->is_consumed = is_consumed;
    return true;
}

/* list: "topic,topic", or "type=topic,type=topic". */
static void add_topics(struct doctor_kafka *kafka, const char *list, bool is_consumed)
{
    while (*list) {
        size_t len = strcspn(list, ",");
        const char *end = list + len;
        const char *equals = memchr(list, '=', len);
        const char *at = equals ? equals + 1 : list;

        at += strspn(at, " ");
        len = (size_t)(end - at);
        while (len > 0 && at[len - 1] == ' ')
            len--;
        if (!add_topic(kafka, at, len, is_consumed))
            kafka->left_out++;
        list = end + (*end == ',');
    }
}

void doctor_list_topics(struct doctor_kafka *kafka, const struct settings *settings,
                        bool outbox_only)
{
    for (size_t i = 0; i < settings->lane_count; i++)
        add_topics(kafka, settings->lanes[i].topics, false);
    if (!outbox_only)
        add_topics(kafka, settings->consumer.topics, true);
}

/* An empty prefix would match the topics of all applications. */
static bool begins_with(const char *name, const char *prefix, size_t len)
{
    return len > 0 && strncmp(name, prefix, len) == 0;
}

/* Whether a lane may publish to a topic of this name, judged by its begin. */
static bool is_of_lanes(const struct settings *settings, const char *name)
{
    if (begins_with(name, settings->relay.topic_prefix, strlen(settings->relay.topic_prefix)))
        return true;
    for (size_t i = 0; i < settings->lane_count; i++)
        if (begins_with(name, settings->lanes[i].topic, strcspn(settings->lanes[i].topic, "$")))
            return true;
    return false;
}

void doctor_add_existing(struct doctor_kafka *kafka, const struct settings *settings,
                         const char *name)
{
    if (is_of_lanes(settings, name) && !add_topic(kafka, name, strlen(name), false))
        kafka->left_out++;
}

enum doctor_level doctor_outcome(const struct doctor *doctor, bool strict)
{
    if (doctor->counts[DOCTOR_FAILED] > 0)
        return DOCTOR_FAILED;
    if (doctor->counts[DOCTOR_UNREACHABLE] > 0)
        return DOCTOR_UNREACHABLE;
    if (doctor->counts[DOCTOR_WARNING] > 0)
        return strict ? DOCTOR_FAILED : DOCTOR_WARNING;
    return DOCTOR_OK;
}

void doctor_print_text(const struct doctor *doctor, struct buf *out)
{
    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];

        buf_print(out, "%-12s%-16s%s\n", level_names[finding->level], finding->subject,
                  finding->text);
        if (finding->remedy[0])
            buf_print(out, "%28sto do: %s\n", "", finding->remedy);
    }
    buf_print(out, "%zu ok, %zu warnings, %zu failed, %zu unreachable\n", doctor->counts[DOCTOR_OK],
              doctor->counts[DOCTOR_WARNING], doctor->counts[DOCTOR_FAILED],
              doctor->counts[DOCTOR_UNREACHABLE]);
}

void doctor_print_json(const struct doctor *doctor, bool strict, struct buf *out)
{
    enum doctor_level outcome = doctor_outcome(doctor, strict);
    json_t *findings = json_array();
    json_t *all = json_pack("{s:b, s:I, s:I, s:I, s:I, s:o}", "ok", outcome <= DOCTOR_WARNING,
                            "passed", (json_int_t)doctor->counts[DOCTOR_OK], "warnings",
                            (json_int_t)doctor->counts[DOCTOR_WARNING], "failed",
                            (json_int_t)doctor->counts[DOCTOR_FAILED], "unreachable",
                            (json_int_t)doctor->counts[DOCTOR_UNREACHABLE], "findings", findings);
    char *text;

    for (size_t i = 0; i < doctor->count; i++) {
        const struct doctor_finding *finding = &doctor->findings[i];

        json_array_append_new(findings,
                              json_pack("{s:s, s:s, s:s, s:s}", "level",
                                        level_words[finding->level], "subject", finding->subject,
                                        "text", finding->text, "remedy", finding->remedy));
    }
    text = all ? json_dumps(all, JSON_INDENT(2)) : NULL;
    if (text)
        buf_print(out, "%s\n", text);
    else
        out->failed = true;
    free(text);
    json_decref(all);
}
