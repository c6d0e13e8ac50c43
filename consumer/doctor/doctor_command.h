/* SPDX-License-Identifier: MIT */
#ifndef CONSUMER_DOCTOR_DOCTOR_COMMAND_H
#define CONSUMER_DOCTOR_DOCTOR_COMMAND_H

#include "common/buf.h"
#include "common/daemon/role.h"

/* Appends the GRANT statements of all roles: the first part for [mysql], then, if [sink] is another
 * database, a part that begins with a line "-- On the ...". */
typedef void (*doctor_put_grants)(struct buf *out, const struct settings *settings,
                                  bool outbox_only);

/* `tallybox doctor`: checks settings, databases, Kafka and versions, and prints what is wrong with
 * the remedy. gate: checks the tables. Returns an enum exit_code. Main thread. */
int doctor_command(role_gate gate, doctor_put_grants put_grants, int argc, char **argv);

#endif
