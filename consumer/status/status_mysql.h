/* SPDX-License-Identifier: MIT */
/* Reads the database part of a status. One thread. */
#ifndef CONSUMER_STATUS_STATUS_MYSQL_H
#define CONSUMER_STATUS_STATUS_MYSQL_H

#include "common/config/settings.h"
#include "consumer/status/status.h"

/* Fills schemas, lanes, instances, retry queue, progress, dead records, roll-up and housekeeping,
 * each with its fault. Waits at most a few seconds for a server. RC_FATAL: no memory. */
enum rc status_mysql_fill(struct status *status, const struct settings *settings, struct err *err);

#endif
