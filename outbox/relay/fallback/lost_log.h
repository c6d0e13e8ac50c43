/* SPDX-License-Identifier: MIT */
/* What an operator can run for a lane that cannot go on at its position in the binary log, for the
 * texts of errors: `tallybox relay source` publishes the rows of its table, but not those of every
 * table. Pure; any thread. */
#ifndef OUTBOX_RELAY_FALLBACK_LOST_LOG_H
#define OUTBOX_RELAY_FALLBACK_LOST_LOG_H

#include "common/config/settings.h"

#include <stdbool.h>

/* With the longest name of a lane. */
#define LOST_LOG_TEXT_SIZE 360

/* Returns why `tallybox relay source LANE binlog` refuses to publish the rows of the lane's table,
 * with --from-table if the lane has a position: a constant part of a sentence; NULL: it does not
 * refuse. has_seq: the primary key of the table is a column seq. */
const char *lost_log_obstacle(const struct lane_settings *lane, bool has_seq, bool has_position);

/* Writes what lets the lane go on whose position has no log: a part of a sentence that begins with
 * "go on". obstacle: of lost_log_obstacle(). */
void lost_log_put_ways(char text[LOST_LOG_TEXT_SIZE], const char *lane, const char *obstacle);

/* The same for a lane without a position whose table has rows: a part that begins with a verb. */
void lost_log_put_first_ways(char text[LOST_LOG_TEXT_SIZE], const char *lane, const char *obstacle);

#endif
