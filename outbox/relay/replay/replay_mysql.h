/* SPDX-License-Identifier: MIT */
/* The adapter that reads for a replay which rows of a lane are published (relay_published), the
 * rows in its table, and, also for one from the binary log, which keys have tasks, all from one
 * database (origin_mysql.h): in another one the seqs of an entry may belong to other rows. It
 * changes nothing and locks nothing. Requires SELECT on the table, relay_published, relay_lease,
 * retry_group and retry_task. One thread. */
#ifndef OUTBOX_RELAY_REPLAY_REPLAY_MYSQL_H
#define OUTBOX_RELAY_REPLAY_REPLAY_MYSQL_H

#include "common/config/settings.h"
#include "outbox/relay/deleter_mysql.h"
#include "outbox/relay/diverter_mysql.h"
#include "outbox/relay/origin_mysql.h"
#include "outbox/relay/replay/replay_ops.h"
#include "outbox/relay/source_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct replay_mysql {
    const struct lane_settings *lane;
    struct source_mysql source;
    struct source_filter filter;
    struct origin_mysql origin;
    bool origin_lost; /* it met another database, and reads no more */
    struct err lost;
    struct deleter_mysql deletes;
    struct diverter_mysql diverts;
    size_t keys_max;
    uint64_t *keys; /* of replay_mysql_look(), ascending */
    size_t key_count;
};

/* What is known before the first row is read from the table. */
struct replay_facts {
    int64_t now_ms;     /* the clock of the database, since 1970 */
    int64_t last_entry; /* the newest entry of the lane; 0: there is none */
    int64_t oldest_ms;  /* created_at of the row with the lowest seq; UTC_UNKNOWN_MS: no row */
};

/* Borrows lane and settings until replay_mysql_close(). Does not connect yet. RC_FATAL: no memory.
 * Close it after a failure, too. */
enum rc replay_mysql_open(struct replay_mysql *replay, const struct lane_settings *lane,
                          const struct settings *settings, struct err *err);

/* Accepts a zeroed one. */
void replay_mysql_close(struct replay_mysql *replay);

/* Connects and checks that the lane can be replayed. *why: why the rows of its table cannot, so
 * that they have to come from the binary log; an empty text if they can. RC_REJECT: err says why
 * the lane cannot be replayed. */
enum rc replay_mysql_check(struct replay_mysql *replay, struct err *why, struct err *err);

/* Reads the facts about a table whose rows can be replayed. */
enum rc replay_mysql_look(struct replay_mysql *replay, struct replay_facts *facts, struct err *err);

/* Reads the keys with tasks, after it is known up to where the lane has published: a row up to
 * there that is of none of these keys is published. RC_REJECT: there are too many. */
enum rc replay_mysql_load_keys(struct replay_mysql *replay, struct err *err);

/* The ops are valid while replay is open. Set replay->filter before. */
struct replay_table_ops replay_mysql_ops(struct replay_mysql *replay);

#endif
