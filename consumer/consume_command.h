/* SPDX-License-Identifier: MIT */
/* `tallybox consume`: the role that applies the events of Kafka to the vote log, and
 * --restart-partition, which sets the offset of a stopped partition. */
#ifndef CONSUMER_CONSUME_COMMAND_H
#define CONSUMER_CONSUME_COMMAND_H

#include "common/daemon/role.h"
#include "consumer/consumer_metrics.h"

extern const struct role consume_role;

/* gate: called before the role starts, see role_gate. Returns an enum exit_code. */
int consume_command(role_gate gate, int argc, char **argv);

#endif
