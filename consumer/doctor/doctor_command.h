/* SPDX-License-Identifier: MIT */
#ifndef CONSUMER_DOCTOR_DOCTOR_COMMAND_H
#define CONSUMER_DOCTOR_DOCTOR_COMMAND_H

#include "common/buf.h"
#include "common/daemon/role.h"
#include "consumer/doctor/doctor_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends the GRANT statements of all roles: the first part for [mysql], then, if [sink] is another
 * database, a part that begins with a line "-- On the ...". */
typedef void (*doctor_put_grants)(struct buf *out, const struct settings *settings,
                                  bool outbox_only);

typedef void (*doctor_on_drift)(void *ctx, const char *table, bool is_whole, bool is_missing,
                                const char *text);

/* schema_compare(): finds what differs from the migrations in the database of a section, as far as
 * the account may see it. */
typedef enum rc (*doctor_compare)(const struct settings *settings, const char *section,
                                  doctor_on_drift on_drift, void *ctx, struct err *err);

/* What the components know and doctor checks with. */
struct doctor_env {
    role_gate outbox_gate; /* checks the tables of the outbox */
    role_gate full_gate;   /* checks the tables of the votes, too */
    doctor_compare compare;
    doctor_put_grants put_grants;
    doctor_check_table check_table;
    const struct role *const *roles; /* that check their settings */
    size_t role_count;
    const struct retry_handlers *handlers;
    /* Bound of the bytes of a record besides the row's key, value and column headers. */
    int64_t record_extra_bytes;
};

/* `tallybox doctor`: checks settings, databases, Kafka and versions, and prints what is wrong with
 * the remedy. Returns an enum exit_code. Main thread. */
int doctor_command(const struct doctor_env *env, int argc, char **argv);

#endif
