/* SPDX-License-Identifier: MIT */
/* What the settings of [lane.NAME] mean that carry options of Debezium's event router: columns,
 * header_columns, topic_regex and topic; and what all of them make of a table. Pure; any thread. */
#ifndef COMMON_CONFIG_LANE_TEXTS_H
#define COMMON_CONFIG_LANE_TEXTS_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

#define LANE_HEADERS_MAX 16
#define LANE_HEADER_NAME_SIZE 65
#define LANE_ROUTED_VALUE "{routedByValue}" /* behind a $ */
#define LANE_TOPIC_GROUPS 10                /* $0 to $9 */

/* A column of the table that becomes a header of the record. */
struct lane_header {
    char column[LANE_HEADER_NAME_SIZE];
    char name[LANE_HEADER_NAME_SIZE]; /* of the header */
};

/* Takes the next part of "column,column:header"; *rest is the list before the first call. False
 * behind the last one. The list is one that lane_text_check() accepts. */
bool lane_header_next(const char **rest, struct lane_header *header);

/* Checks the text of one of these settings before it is stored. RC_FATAL: err has the part that is
 * wrong and what was expected. */
enum rc lane_text_check(const char *key, const char *text, struct err *err);

/* Checks a regular expression of topic_regex, before regcomp() gets it, for its length and for
 * repetitions inside of repetitions, which would use up the memory. RC_FATAL: err says why. */
enum rc lane_regex_check(const char *regex, struct err *err);

/* The highest group that "$N" of a checked topic names, or 0. */
size_t lane_topic_group_max(const char *topic);

/* Writes the column of a field of LANE_FIELDS: that of lane.NAME.columns, or the one of its own
 * name. Returns whether the setting names it. */
bool settings_lane_column(const struct lane_settings *lane, const char *field,
                          char column[SETTING_NAME_SIZE]);

/* Whether the settings let a lane with source = binlog go on from its table after the server has
 * purged its log. Its table has to be ordered, too: its primary key is the column seq, and it has a
 * column created_at of the type DATETIME or TIMESTAMP. */
bool lane_may_leave_log(const struct lane_settings *lane);

#define LANE_USES_SIZE 256

/* Writes what becomes of the published rows of such a lane, what it does when its log was purged,
 * and what `tallybox relay replay` reads. ordered: its table, as above. */
void lane_put_uses(char text[LANE_USES_SIZE], const struct lane_settings *lane, bool ordered);

#endif
