/* SPDX-License-Identifier: MIT */
#include "schema/migrate/report.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rc migrate_report_init(struct migrate_report *report, bool json, struct err *err)
{
    memset(report, 0, sizeof(*report));
    if (json)
        report->databases = json_array();
    if (json && !report->databases)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    return RC_OK;
}

void migrate_report_done(struct migrate_report *report)
{
    json_decref(report->databases);
    buf_done(&report->text);
    memset(report, 0, sizeof(*report));
}

/* The array of this name in the database under way, made at its first use. */
static json_t *list_names(struct migrate_report *report, const char *name)
{
    json_t *list = json_object_get(report->database, name);

    if (list)
        return list;
    json_object_set_new(report->database, name, json_array());
    return json_object_get(report->database, name);
}

void migrate_report_target(struct migrate_report *report, const struct migrate_target *target)
{
    const struct mysql_settings *settings = target->settings;

    if (!report->databases)
        return;
    json_array_append_new(report->databases,
                          json_pack("{s:s, s:s, s:I, s:s}", "database", settings->database, "host",
                                    settings->host, "port", (json_int_t)settings->port, "socket",
                                    settings->socket));
    report->database = json_array_get(report->databases, json_array_size(report->databases) - 1);
    for (unsigned side = MIGRATION_OUTBOX; side <= MIGRATION_SINK; side <<= 1) {
        if (target->sides & side)
            json_array_append_new(list_names(report, "sides"),
                                  json_string(migration_side_name((enum migration_side)side)));
    }
}

static const char *name_progress(const struct migrate_entry *entry)
{
    switch (entry->progress) {
    case MIGRATE_PENDING:
        return "pending";
    case MIGRATE_HALF_WAY:
        return "half-way";
    case MIGRATE_DONE:
        return entry->row.baseline ? "baseline" : "applied";
    case MIGRATE_EDITED:
        return "edited";
    case MIGRATE_LEFT_OUT:
        return "left out";
    }
    return "unknown";
}

static void put_state_json(struct migrate_report *report, const struct migrate_entry *entry)
{
    const struct migration *migration = entry->migration;

    json_array_append_new(
        list_names(report, "migrations"),
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:i, s:s?}", "version", migration->version,
                  "name", migration->name, "side", migration_side_name(migration->side), "sha256",
                  migration->sha256, "state", name_progress(entry), "statement",
                  entry->row.statement, "statements", entry->row.statements, "finishedAt",
                  entry->row.finished_at[0] ? entry->row.finished_at : NULL));
}

static void put_state_text(struct migrate_report *report, const struct migrate_entry *entry)
{
    struct buf *text = &report->text;

    buf_print(text, "  %-24s %-7s %s", entry->migration->name,
              migration_side_name(entry->migration->side), name_progress(entry));
    if (entry->progress == MIGRATE_HALF_WAY)
        buf_print(text, ", %d of %d statements%s", entry->row.statement, entry->row.statements,
                  entry->row.state == HISTORY_TRYING ? ", the next one may be done" : "");
    else if (entry->row.finished_at[0])
        buf_print(text, " at %s UTC", entry->row.finished_at);
    buf_char(text, '\n');
}

void migrate_report_state(struct migrate_report *report, const struct migrate_state *state)
{
    if (report->database) {
        json_object_set_new(report->database, "needs", json_integer(state->needs));
        json_object_set_new(report->database, "outboxOnly", json_boolean(state->outbox_only));
    }
    for (size_t i = 0; i < state->count; i++) {
        if (report->database)
            put_state_json(report, &state->entries[i]);
        else
            put_state_text(report, &state->entries[i]);
    }
}

/* number 0: no migration's statement. */
static void put_plan_statement(struct migrate_report *report, const char *title, size_t number,
                               const char *sql, size_t len)
{
    struct buf *text = &report->text;

    if (report->database) {
        json_array_append_new(list_names(report, "statements"),
                              json_pack("{s:s, s:i, s:s%}", "migration", title, "statement",
                                        (int)number, "sql", sql, len));
        return;
    }
    buf_print(text, "\n-- %s", title);
    if (number > 0)
        buf_print(text, ", statement %zu", number);
    buf_char(text, '\n');
    buf_put(text, sql, len);
    buf_text_put(text, ";\n");
}

static enum rc put_plan_entry(struct migrate_report *report, const struct migrate_entry *entry,
                              struct err *err)
{
    size_t number = (size_t)entry->row.statement + 1;

    for (;; number++) {
        struct sql_statement statement;
        enum rc rc = migration_statement(entry->migration, number, &statement, err);

        if (rc != RC_OK || statement.len == 0)
            return rc;
        put_plan_statement(report, entry->migration->name, number, statement.sql, statement.len);
    }
}

enum rc migrate_report_plan(struct migrate_report *report, const struct migrate *migrate,
                            const struct migrate_state *state, int to, const char *create,
                            struct err *err)
{
    struct sql_statement statement = {0};
    enum rc rc = RC_OK;

    if (report->database)
        list_names(report, "statements");
    if (!state->has_database)
        put_plan_statement(report, "the database", 0, create, strlen(create));
    if (!state->has_history) {
        rc = migration_history_statement(migrate->set, &statement, err);
        if (rc == RC_OK)
            put_plan_statement(report, "schema_history", 0, statement.sql, statement.len);
    }
    for (size_t i = 0; rc == RC_OK && i < state->count; i++) {
        const struct migrate_entry *entry = &state->entries[i];

        if (migrate_is_due(migrate, state, entry, to))
            rc = put_plan_entry(report, entry, err);
    }
    return rc;
}

void migrate_report_event(struct migrate_report *report, enum migrate_event event,
                          const struct migration *migration, size_t done, size_t statements)
{
    struct buf *text = &report->text;

    if (report->database) {
        if (event == MIGRATE_APPLIED || event == MIGRATE_BASELINED)
            json_array_append_new(list_names(report, "applied"), json_string(migration->name));
        return;
    }
    switch (event) {
    case MIGRATE_DATABASE_CREATED:
        buf_text_put(text, "  database created\n");
        break;
    case MIGRATE_STARTED:
        break;
    case MIGRATE_RESUMED:
        buf_print(text, "  %s: goes on behind statement %zu of %zu\n", migration->name, done,
                  statements);
        break;
    case MIGRATE_APPLIED:
        buf_print(text, "  %s: applied, %zu statement%s\n", migration->name, statements,
                  statements == 1 ? "" : "s");
        break;
    case MIGRATE_BASELINED:
        buf_print(text, "  %s: recorded as applied\n", migration->name);
        break;
    }
}

static const char *name_kind(enum shape_kind kind)
{
    switch (kind) {
    case SHAPE_TABLE:
        return "table";
    case SHAPE_COLUMN:
        return "column";
    case SHAPE_INDEX:
        return "index";
    }
    return "unknown";
}

void migrate_report_put_drift(struct buf *text, const struct shape_drift *drift)
{
    buf_print(text, "%s %s%s%s", name_kind(drift->kind), drift->table, drift->name[0] ? "." : "",
              drift->name);
    if (!drift->actual)
        buf_print(text, " is missing: expected %s", drift->expected);
    else if (!drift->expected)
        buf_print(text, " should not be there: it is %s", drift->actual);
    else
        buf_print(text, " is %s: expected %s", drift->actual, drift->expected);
}

void migrate_report_drift(struct migrate_report *report, const struct shape_drift *drift)
{
    if (report->database) {
        json_array_append_new(list_names(report, "drift"),
                              json_pack("{s:s, s:s, s:s, s:s?, s:s?}", "kind",
                                        name_kind(drift->kind), "table", drift->table, "name",
                                        drift->name, "expected", drift->expected, "actual",
                                        drift->actual));
        return;
    }
    buf_text_put(&report->text, "  ");
    migrate_report_put_drift(&report->text, drift);
    buf_char(&report->text, '\n');
}

void migrate_report_outcome(struct migrate_report *report, bool good, int version,
                            const char *format, ...)
{
    char sentence[512];
    va_list args;

    va_start(args, format);
    vsnprintf(sentence, sizeof(sentence), format, args);
    va_end(args);
    if (!report->database) {
        buf_print(&report->text, "%s\n", sentence);
        return;
    }
    json_object_set_new(report->database, "ok", json_boolean(good));
    json_object_set_new(report->database, "version", json_integer(version));
    json_object_set_new(report->database, "message", json_string(sentence));
}

static int append_json(const char *bytes, size_t len, void *ctx)
{
    struct buf *text = ctx;

    buf_put(text, bytes, len);
    return text->failed ? -1 : 0;
}

void migrate_report_end(struct migrate_report *report)
{
    json_t *all;

    if (!report->databases)
        return;
    all = json_pack("{s:O}", "databases", report->databases);
    if (json_dump_callback(all, append_json, &report->text, JSON_INDENT(2)) != 0)
        report->text.failed = true;
    buf_char(&report->text, '\n');
    json_decref(all);
}
