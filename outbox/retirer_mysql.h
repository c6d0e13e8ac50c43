/* SPDX-License-Identifier: MIT */
/* Deletes from the outbox table of one lane, through a connection of its own. The retirer's
 * thread. */
#ifndef OUTBOX_RETIRER_MYSQL_H
#define OUTBOX_RETIRER_MYSQL_H

#include "common/db.h"
#include "common/settings.h"
#include "outbox/origin_mysql.h"
#include "outbox/relay_seam.h"

#include <stdint.h>

struct retirer_mysql {
    struct db *db;
    struct origin_mysql *origin;
    uint64_t turn; /* of the origin */
    const char *lane;
    const char *owner;
    struct buf sql;
    uint64_t session; /* that was set up */
};

/* Borrows lane, owner, origin and settings. RC_FATAL: no memory. */
enum rc retirer_mysql_open(struct retirer_mysql *retirer, const char *lane, const char *owner,
                           struct origin_mysql *origin, const struct settings *settings,
                           struct err *err);
void retirer_mysql_close(struct retirer_mysql *retirer);

struct retirer_seam retirer_mysql_seam(struct retirer_mysql *retirer);

#endif
