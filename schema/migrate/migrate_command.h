/* SPDX-License-Identifier: MIT */
/* `tallybox migrate`, and the gate through which every long-running command passes. */
#ifndef SCHEMA_MIGRATE_MIGRATE_COMMAND_H
#define SCHEMA_MIGRATE_MIGRATE_COMMAND_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>

int migrate_command(int argc, char **argv);

/* A role_gate: checks that the databases of [mysql] and [sink] have the schema that this program
 * needs. migrate: apply the migrations first, and no vote tables where
 * `migrate up --only outbox` left them out. RC_RETRY: not now; err has the reason and what to do.
 * RC_FATAL: a login or a privilege is missing, or a migration failed. */
enum rc schema_gate(const struct settings *settings, bool migrate, struct err *err);

/* The same for a role that needs no vote tables: a database that has the outbox only passes. */
enum rc schema_outbox_gate(const struct settings *settings, bool migrate, struct err *err);

#endif
