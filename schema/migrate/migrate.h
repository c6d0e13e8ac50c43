/* SPDX-License-Identifier: MIT */
/* Runs migrations on one database, and says how far it is. It may be killed between any two calls
 * of its ops, by whatever means, and run again: it goes on where it stopped. One thread at a time;
 * several runners, in any processes, take turns.
 *
 * How: before a statement is handed to the server, schema_history says so (HISTORY_TRYING), and
 * that its effect was not there before was checked first. A later run that finds the statement in
 * doubt looks for the effect: there, it was done; not there, it is done now. Statements on rows
 * need no such look, they share a transaction with their record. */
#ifndef SCHEMA_MIGRATE_MIGRATE_H
#define SCHEMA_MIGRATE_MIGRATE_H

#include "common/err.h"
#include "schema/migrate/shape.h"
#include "schema/migrate/state.h"

#include <stddef.h>

/* Creates the database if it is missing and applies the pending migrations, up to version `to`.
 * RC_RETRY: nothing is broken; run it again. RC_FATAL: err says what the operator must do; finished
 * statements stay recorded. */
enum rc migrate_up(const struct migrate *migrate, int to, struct err *err);

/* Compares the database with what its applied migrations make. *drifts: how many differences. */
enum rc migrate_verify(const struct migrate *migrate, const struct migrate_state *state,
                       shape_on_drift on_drift, void *ctx, size_t *drifts, struct err *err);

/* Records what is pending or half-way up to version `to` as applied without running it, when the
 * database looks exactly like it; with drifts nothing is recorded. */
enum rc migrate_baseline(const struct migrate *migrate, int to, shape_on_drift on_drift, void *ctx,
                         size_t *drifts, struct err *err);

#endif
