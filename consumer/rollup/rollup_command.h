/* SPDX-License-Identifier: MIT */
/* `tallybox rollup`: the role that brings remark.votes up to date on the hour, and `--once`, which
 * does it now and says what it did. */
#ifndef CONSUMER_ROLLUP_ROLLUP_COMMAND_H
#define CONSUMER_ROLLUP_ROLLUP_COMMAND_H

#include "common/daemon/role.h"
#include "consumer/consumer_metrics.h"

extern const struct role rollup_role;

/* gate: asked before anything is done, as in role_main(). Returns an enum exit_code. */
int rollup_command(role_gate gate, int argc, char **argv);

#endif
