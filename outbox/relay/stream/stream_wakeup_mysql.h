/* SPDX-License-Identifier: MIT */
/* Wakes the readers of a process when a transaction writes their tables, so that they need not poll
 * an idle table often (relay.wakeup = binlog). It follows the binary log from its present end,
 * reads no row of it, and may be lost at any time: the readers then poll as without it. Needs
 * REPLICATION SLAVE, and REPLICATION CLIENT on a MySQL server without GTIDs.
 *
 * The server sends a transaction before its rows can be seen in the table, so a reader that was
 * woken polls for a while as if rows were arriving. A thread of its own, which waits in the step.
 */
#ifndef OUTBOX_RELAY_STREAM_STREAM_WAKEUP_MYSQL_H
#define OUTBOX_RELAY_STREAM_STREAM_WAKEUP_MYSQL_H

#include "common/backoff.h"
#include "common/condition.h"
#include "common/config/settings.h"
#include "common/db/binlog_link.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/binlog/silence.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stream_wakeup {
    const struct settings *settings;
    const char *const *tables;
    size_t count;
    /* Both get the place of a table in `tables`, on the thread of the step. */
    void (*on_write)(void *ctx, size_t table);
    void (*on_state)(void *ctx, size_t table, bool connected);
    void *ctx;
    uint32_t server_id;
    struct db *db; /* asks for the end of the log */
    struct backoff backoff;
    uint64_t rng;
    int64_t try_at_ms;
    struct silence silence; /* of the links */
    int64_t connected_ms;
    bool connected;
    struct condition stream; /* failing until the first event */

    pthread_mutex_t lock; /* guards the two below against stream_wakeup_stop() */
    struct binlog_link *link;
    bool stopping;
};

/* Registers its metric. */
void stream_wakeup_register(void);

/* Borrows settings, tables and instance, and calls the two functions from the step. instance: from
 * whose name the server id comes if relay.server_id is 0. count: at most WRITTEN_TABLES_MAX.
 * RC_FATAL: no memory. */
enum rc stream_wakeup_open(struct stream_wakeup *wakeup, const struct settings *settings,
                           const char *const *tables, size_t count, const char *instance,
                           void (*on_write)(void *ctx, size_t table),
                           void (*on_state)(void *ctx, size_t table, bool connected), void *ctx,
                           struct err *err);

/* Accepts a zeroed one. */
void stream_wakeup_close(struct stream_wakeup *wakeup);

/* Connects, or waits for one event, for a second at most while the server lives. Returns in how
 * many ms the next step is due. It has the type of a loop_step. */
int64_t stream_wakeup_step(void *wakeup, int64_t now_ms);

/* Ends the wait of a step, and lets no further one connect. Any thread. */
void stream_wakeup_stop(struct stream_wakeup *wakeup);

/* Returns whether no stream comes, and copies the reason then. Any thread. */
bool stream_wakeup_failing(struct stream_wakeup *wakeup, struct err *err);

#endif
