/* SPDX-License-Identifier: MIT */
/* `tallybox serve`: the HTTP API, its committers, readers of totals and task intakes. */
#ifndef PRODUCER_SERVE_COMMAND_H
#define PRODUCER_SERVE_COMMAND_H

#include "common/daemon/role.h"

extern const struct role serve_role;

/* Part of the gate of a command that runs serve (common/daemon/role.h). RC_REJECT: api.lane_count
 * is neither the number of lanes in the database nor the one that a change under way will set.
 * RC_RETRY: the database does not answer. */
enum rc serve_check_lanes(const struct settings *settings, struct err *err);

/* Part of the gate of a command that runs serve and relay. RC_REJECT: serve would write votes into
 * a table that no lane of relay.lanes reads. */
enum rc serve_check_relayed(const struct settings *settings, struct err *err);

#endif
