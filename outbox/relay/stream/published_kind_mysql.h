/* SPDX-License-Identifier: MIT */
/* What the table of a lane has by which its published rows can be known (published_ids.h): one
 * query for the reader and the cleaner of the lane, so that both decide alike. Stateless; any
 * thread, with a db of its own. Requires SELECT on the table. */
#ifndef OUTBOX_RELAY_STREAM_PUBLISHED_KIND_MYSQL_H
#define OUTBOX_RELAY_STREAM_PUBLISHED_KIND_MYSQL_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"
#include "outbox/relay/stream/cleaner_ops.h"

enum id_type {
    ID_TEXT,
    ID_BYTES_AS_THEY_ARE,
    ID_SIGNED,
    ID_UNSIGNED,
};

/* The column of ids, as the server describes it. */
struct id_column {
    char name[SETTING_NAME_SIZE];
    enum id_type type;
    char charset[65]; /* of ID_TEXT */
    char collation[65];
    char index[257]; /* a unique one of this column alone */
};

/* Names of the table and of columns of it. */
struct published_names {
    const char *table;
    const char *id;
    const char *created_at;
};

/* Builds its statements in sql. id is written but for its name, and of use with table->has_id.
 * RC_FATAL: among others, there is no such table yet. */
enum rc published_kind_mysql_read(struct db *db, struct buf *sql,
                                  const struct published_names *names, struct cleaner_table *table,
                                  struct id_column *id, struct err *err);

#endif
