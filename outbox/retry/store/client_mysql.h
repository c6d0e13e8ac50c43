/* SPDX-License-Identifier: MIT */
/* Parts of SQL for the registry of clients, whose functions outbox/retry/clients/client.h has. */
#ifndef OUTBOX_RETRY_STORE_CLIENT_MYSQL_H
#define OUTBOX_RETRY_STORE_CLIENT_MYSQL_H

#include "common/db/db.h"

/* Of a row of retry_client: RETRY_CLIENT_LIVE_MS. A beat far in the future was stored before the
 * clock was set back, and counts as expired. */
#define CLIENT_IS_LIVE                                       \
    "(last_beat_at > UTC_TIMESTAMP(3) - INTERVAL 90 SECOND " \
    "AND last_beat_at < UTC_TIMESTAMP(3) + INTERVAL 90 SECOND)"

#define CLIENT_MS(column) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " column ") DIV 1000"

/* The version of the configuration of the group g. */
#define CLIENT_CONFIG_VERSION                                                                 \
    "CONCAT(g.version, '-', LPAD(LOWER(HEX(CRC32(CONCAT_WS('/', g.enabled, g.handlers, "      \
    "g.scenes, g.topics, g.init_scene, g.route)) ^ COALESCE((SELECT BIT_XOR(CRC32(CONCAT_WS(" \
    "'/', s.scene, s.version, s.paused, s.policy))) FROM retry_scene s WHERE s.task_group = " \
    "g.name), 0))), 8, '0'))"

#endif
