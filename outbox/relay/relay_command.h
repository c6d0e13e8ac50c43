/* SPDX-License-Identifier: MIT */
/* `tallybox relay`: publishes outbox tables to Kafka. Runs three threads for each lane, and one for
 * the leases. */
#ifndef OUTBOX_RELAY_RELAY_COMMAND_H
#define OUTBOX_RELAY_RELAY_COMMAND_H

#include "common/daemon/role.h"
#include "outbox/relay/relay_metrics.h"

extern const struct role relay_role;

#endif
