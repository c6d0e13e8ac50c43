/* SPDX-License-Identifier: MIT */
/* The output of `tallybox migrate`: lines of text, or one JSON object. Writes into a buf; the
 * command prints it. One thread at a time. */
#ifndef SCHEMA_MIGRATE_REPORT_H
#define SCHEMA_MIGRATE_REPORT_H

#include "common/buf.h"
#include "common/err.h"
#include "schema/migrate/migrate.h"

#include <stdbool.h>

struct json_t;

struct migrate_report {
    struct buf text; /* what is to be printed next */
    struct json_t *databases;
    struct json_t *database; /* the one under way, borrowed from databases */
};

/* json: collect, and write all of it with migrate_report_end(). RC_FATAL: no memory. */
enum rc migrate_report_init(struct migrate_report *report, bool json, struct err *err);
void migrate_report_done(struct migrate_report *report);

/* The entries that follow belong to this database. */
void migrate_report_target(struct migrate_report *report, const struct migrate_target *target);

/* How far it is, and each migration. */
void migrate_report_state(struct migrate_report *report, const struct migrate_state *state);

/* The SQL that would be run up to version `to`. create: the statement that makes the database. */
enum rc migrate_report_plan(struct migrate_report *report, const struct migrate *migrate,
                            const struct migrate_state *state, int to, const char *create,
                            struct err *err);

void migrate_report_event(struct migrate_report *report, enum migrate_event event,
                          const struct migration *migration, size_t done, size_t statements);
void migrate_report_drift(struct migrate_report *report, const struct shape_drift *drift);

/* Appends a difference as words, in one line without its end. */
void migrate_report_put_drift(struct buf *text, const struct shape_drift *drift);

/* The outcome: a sentence, whether it is good, and the version the database has. */
void migrate_report_outcome(struct migrate_report *report, bool good, int version,
                            const char *format, ...) __attribute__((format(printf, 4, 5)));

void migrate_report_end(struct migrate_report *report);

#endif
