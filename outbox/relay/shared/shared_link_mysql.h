/* SPDX-License-Identifier: MIT */
/* The connection of a shared stream to the binary log: binlog_link.h behind the ops of
 * shared_stream.h. */
#ifndef OUTBOX_RELAY_SHARED_SHARED_LINK_MYSQL_H
#define OUTBOX_RELAY_SHARED_SHARED_LINK_MYSQL_H

#include "common/config/settings.h"
#include "common/db/binlog_link.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/shared/shared_stream.h"
#include "outbox/relay/stream/stream_ops.h"

/* Connects as position_mysql_open() does and fills *link, which owns the connection until its
 * close. After a failure nothing is owned. */
enum rc shared_link_mysql_open(struct shared_link *link, const struct mysql_settings *settings,
                               struct origin_mysql *origin, enum db_kind kind,
                               const struct stream_position *from, const struct binlog_start *how,
                               struct err *err);

#endif
