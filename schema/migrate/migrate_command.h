/* SPDX-License-Identifier: MIT */
/* `tallybox migrate`, and the gate through which every long-running command passes. */
#ifndef SCHEMA_MIGRATE_MIGRATE_COMMAND_H
#define SCHEMA_MIGRATE_MIGRATE_COMMAND_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>

int migrate_command(int argc, char **argv);

/* A role_gate: checks that the databases of [mysql] and [sink] have the schema that this program
 * needs. migrate: apply the migrations first. RC_RETRY: not now; err has the reason and what to do.
 * RC_FATAL: a login or a privilege is missing, or a migration failed. */
enum rc schema_gate(const struct settings *settings, bool migrate, struct err *err);

#endif
