/* SPDX-License-Identifier: MIT */
/* Gathers the facts about one database server for `tallybox doctor`. Reads only. Main thread. */
#ifndef CONSUMER_DOCTOR_DOCTOR_MYSQL_H
#define CONSUMER_DOCTOR_DOCTOR_MYSQL_H

#include "common/config/settings.h"
#include "common/db/db.h"
#include "consumer/doctor/doctor.h"

/* stream_columns_check() of the outbox: whether records can be made from the table of a lane. */
typedef enum rc (*doctor_check_table)(struct db *db, const char *schema,
                                      const struct lane_settings *lane, struct err *err);

/* Connects with settings and fills rc, err and everything that the server tells; place, section
 * and required are the caller's. Waits a few seconds at most for a server
 * that does not answer. The caller frees database->grants with buf_done(). */
void doctor_mysql_fill(struct doctor_database *database, const struct mysql_settings *mysql,
                       const struct settings *settings, doctor_check_table check_table);

#endif
