/* SPDX-License-Identifier: MIT */
/* `tallybox serve`: the HTTP API, its committers, readers of totals and task intakes. */
#ifndef PRODUCER_SERVE_COMMAND_H
#define PRODUCER_SERVE_COMMAND_H

#include "common/daemon/role.h"

extern const struct role serve_role;

/* Before serve starts, for a gate. RC_REJECT: api.lane_count is not the number of lanes that the
 * database holds. RC_RETRY: that cannot be asked now. */
enum rc serve_check_lanes(const struct settings *settings, struct err *err);

/* For a process that serves and relays. RC_REJECT: no lane of relay.lanes reads a table that is
 * written. */
enum rc serve_check_relayed(const struct settings *settings, struct err *err);

#endif
