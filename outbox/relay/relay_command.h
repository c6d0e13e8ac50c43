/* SPDX-License-Identifier: MIT */
/* `tallybox relay`: publishes outbox tables to Kafka. Runs three threads for each lane, one for
 * the leases, and one that probes the broker. */
#ifndef OUTBOX_RELAY_RELAY_COMMAND_H
#define OUTBOX_RELAY_RELAY_COMMAND_H

#include "common/daemon/role.h"

extern const struct role relay_role;

#endif
