/* SPDX-License-Identifier: MIT */
/* The id of this installation, which the migration of the sink's database made at random, and the
 * name of the consumer group that follows from it. Two installations that use one Kafka therefore
 * have two consumer groups unless a setting says otherwise.
 *
 * A process finds the id once, before it starts threads; from then on any thread may read. */
#ifndef CONSUMER_INSTALLATION_MYSQL_H
#define CONSUMER_INSTALLATION_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "common/err.h"

#define INSTALLATION_ID_SIZE 17
#define INSTALLATION_GROUP_SIZE 129

/* Reads the id from the sink's database and keeps it for the life of the process. Main thread. A
 * database without the table (it has no tables of the consumer) gives no id, and RC_OK. */
enum rc installation_find(const struct settings *settings, struct err *err);

/* RC_FATAL: the text cannot be an id; err says where it stands and what is allowed. An id is a part
 * of names in Kafka, and a dot ends it there (group_client_is_foreign()). Pure. */
enum rc installation_check_id(const char *id, struct err *err);

/* Reads the id from a connection to the sink's database; "" if there is no table.
 * RC_FATAL: the table has no row, or what it has is no id. */
enum rc installation_read(struct db *db, char id[INSTALLATION_ID_SIZE], struct err *err);

/* Returns the id that installation_find() found; "": none. */
const char *installation_id(void);

/* Returns consumer.group or, while that is empty, "tallybox-" and the id; "" before
 * installation_find(). The pointer is valid, and tells the name when it is known, for the life of
 * settings. */
const char *installation_group(const struct settings *settings);

/* Writes the name of the group for this id, as installation_group() makes it. */
void installation_name_group(char group[INSTALLATION_GROUP_SIZE], const struct settings *settings,
                             const char *id);

#endif
