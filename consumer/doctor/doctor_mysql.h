/* SPDX-License-Identifier: MIT */
/* Gathers the facts about one database server for `tallybox doctor`. Reads only. Main thread. */
#ifndef CONSUMER_DOCTOR_DOCTOR_MYSQL_H
#define CONSUMER_DOCTOR_DOCTOR_MYSQL_H

#include "common/config/settings.h"
#include "consumer/doctor/doctor.h"

/* Connects with settings and fills rc, err and everything that the server tells; place, section
 * and required are the caller's. Waits a few seconds at most for a server
 * that does not answer. The caller frees database->grants with buf_done(). */
void doctor_mysql_fill(struct doctor_database *database, const struct mysql_settings *mysql,
                       const struct settings *settings);

#endif
