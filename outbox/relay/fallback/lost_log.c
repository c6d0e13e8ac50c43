/* SPDX-License-Identifier: MIT */
#include "outbox/relay/fallback/lost_log.h"

#include <stdio.h>
#include <string.h>

/* As backfill_mysql_check_table() and the command. keep_ms comes before the key, which the reader
 * of such a lane does not look up. */
const char *lost_log_obstacle(const struct lane_settings *lane, bool has_seq, bool has_position)
{
    if (lane->columns[0])
        return "its columns have other names";
    if (lane->header_columns[0] || strcmp(lane->empty_payload, LANE_EMPTY_VALUE) != 0)
        return "header_columns and empty_payload count for the log only";
    if (has_position && lane->keep_ms < 0)
        return "keep_ms = -1, so it is not saved which are published";
    if (!has_seq)
        return "its primary key is not a column seq";
    return NULL;
}

void lost_log_put_ways(char text[LOST_LOG_TEXT_SIZE], const char *lane, const char *obstacle)
{
    if (obstacle)
        snprintf(text, LOST_LOG_TEXT_SIZE,
                 "go on by `tallybox lanes begin %s --replace-position` without the unpublished "
                 "rows, which cannot be published from the table: %s",
                 lane, obstacle);
    else
        snprintf(text, LOST_LOG_TEXT_SIZE,
                 "go on with the unpublished rows of the table by `tallybox relay source %s binlog "
                 "--from-table`, or without them by `tallybox lanes begin %s --replace-position`",
                 lane, lane);
}

void lost_log_put_first_ways(char text[LOST_LOG_TEXT_SIZE], const char *lane, const char *obstacle)
{
    if (obstacle)
        snprintf(text, LOST_LOG_TEXT_SIZE,
                 "stop its relays, and say that its rows are published by `tallybox lanes begin "
                 "%s`; they cannot be published from the table: %s",
                 lane, obstacle);
    else
        snprintf(
            text, LOST_LOG_TEXT_SIZE,
            "publish its rows by `tallybox relay source %s binlog`, or stop its relays and say "
            "that they are published by `tallybox lanes begin %s`",
            lane, lane);
}
