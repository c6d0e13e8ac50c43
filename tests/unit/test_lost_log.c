/* SPDX-License-Identifier: MIT */
/* The commands that errors name are those that do not refuse the table of the lane. */
#include "outbox/relay/fallback/lost_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char *const from_table = "`tallybox relay source outbox binlog --from-table`";
static const char *const at_end = "`tallybox lanes begin outbox --replace-position`";

static struct lane_settings plain_lane(void)
{
    struct lane_settings lane = {.name = "outbox", .keep_ms = 3600000};

    snprintf(lane.empty_payload, sizeof(lane.empty_payload), "%s", LANE_EMPTY_VALUE);
    return lane;
}

static void assert_not_offered(const struct lane_settings *lane, bool has_seq, const char *why)
{
    const char *obstacle = lost_log_obstacle(lane, has_seq, true);
    char text[LOST_LOG_TEXT_SIZE];

    assert_non_null(obstacle);
    assert_non_null(strstr(obstacle, why));
    lost_log_put_ways(text, lane->name, obstacle);
    assert_null(strstr(text, "relay source"));
    assert_non_null(strstr(text, at_end));
    assert_non_null(strstr(text, why));
    lost_log_put_first_ways(text, lane->name, obstacle);
    assert_null(strstr(text, "relay source"));
    assert_non_null(strstr(text, "`tallybox lanes begin outbox`"));
}

static void a_table_that_can_be_published_from_is_offered(void **state)
{
    struct lane_settings lane = plain_lane();
    char text[LOST_LOG_TEXT_SIZE];

    (void)state;
    assert_null(lost_log_obstacle(&lane, true, true));
    lost_log_put_ways(text, lane.name, NULL);
    assert_non_null(strstr(text, from_table));
    assert_non_null(strstr(text, at_end));
    lost_log_put_first_ways(text, lane.name, NULL);
    assert_non_null(strstr(text, "`tallybox relay source outbox binlog`"));
}

static void what_the_command_refuses_is_not_offered(void **state)
{
    struct lane_settings lane = plain_lane();

    (void)state;
    assert_not_offered(&lane, false, "seq");
    snprintf(lane.columns, sizeof(lane.columns), "id=event_id");
    assert_not_offered(&lane, true, "columns");
    lane = plain_lane();
    snprintf(lane.header_columns, sizeof(lane.header_columns), "tenant");
    assert_not_offered(&lane, true, "header_columns");
    lane = plain_lane();
    snprintf(lane.empty_payload, sizeof(lane.empty_payload), "%s", LANE_EMPTY_TOMBSTONE);
    assert_not_offered(&lane, true, "empty_payload");
    lane = plain_lane();
    lane.keep_ms = -1;
    assert_not_offered(&lane, true, "keep_ms");
}

static void without_a_position_nothing_has_to_be_saved_as_published(void **state)
{
    struct lane_settings lane = plain_lane();

    (void)state;
    lane.keep_ms = -1;
    assert_null(lost_log_obstacle(&lane, true, false));
}

static void the_longest_name_of_a_lane_fits(void **state)
{
    struct lane_settings lane = plain_lane();
    char text[LOST_LOG_TEXT_SIZE];

    (void)state;
    memset(lane.name, 'n', sizeof(lane.name) - 1);
    lost_log_put_ways(text, lane.name, NULL);
    assert_non_null(strstr(text, " --replace-position`"));
    lane.keep_ms = -1;
    lost_log_put_ways(text, lane.name, lost_log_obstacle(&lane, true, true));
    assert_non_null(strstr(text, "are published"));
    lost_log_put_first_ways(text, lane.name, NULL);
    assert_int_equal(text[strlen(text) - 1], '`');
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_that_can_be_published_from_is_offered),
        cmocka_unit_test(what_the_command_refuses_is_not_offered),
        cmocka_unit_test(without_a_position_nothing_has_to_be_saved_as_published),
        cmocka_unit_test(the_longest_name_of_a_lane_fits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
