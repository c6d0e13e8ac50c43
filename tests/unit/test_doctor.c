/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/doctor.h"

#include "consumer/doctor/privileges.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static const char required[] =
    "-- relay: `tallybox relay`.\n"
    "GRANT SELECT, DELETE ON shop.outbox TO 'tallybox_relay'@'%';\n"
    "GRANT SELECT (id, votes), UPDATE (votes) ON `my_shop`.remark TO 'tallybox_rollup'@'%';\n"
    "GRANT SELECT, INSERT ON `my\\_shop`.* TO 'tallybox_lanes'@'%';\n"
    "GRANT PROCESS ON *.* TO 'tallybox_relay'@'%';\n";

static struct doctor doctor;
static struct settings settings;

static int reset(void **state)
{
    (void)state;
    memset(&doctor, 0, sizeof(doctor));
    memset(&settings, 0, sizeof(settings));
    settings.relay.row_bytes_max = 1000000;
    settings.relay.topic_partitions = 12;
    return 0;
}

static void missing_is(const char *role, const char *granted, const char *expected)
{
    struct buf missing = {0};
    size_t lines = 0;
    size_t count = privileges_find_missing(&missing, required, role, granted);

    for (const char *at = expected; *at; at++)
        lines += *at == '\n';
    assert_string_equal(buf_text(&missing), expected);
    assert_int_equal(count, lines);
    buf_done(&missing);
}

static void an_account_without_grants_lacks_all_privileges_of_its_role_only(void **state)
{
    (void)state;
    missing_is("relay", "", "GRANT SELECT, DELETE ON shop.outbox\nGRANT PROCESS ON *.*\n");
    missing_is("relay", "GRANT USAGE ON *.* TO `a`@`%`\n",
               "GRANT SELECT, DELETE ON shop.outbox\nGRANT PROCESS ON *.*\n");
    missing_is("serve", "", "");
}

static void a_grant_of_the_table_the_database_or_the_server_covers_a_table(void **state)
{
    (void)state;
    missing_is("relay", "GRANT SELECT, DELETE ON `shop`.`outbox` TO `a`@`%`\n",
               "GRANT PROCESS ON *.*\n");
    missing_is("relay",
               "GRANT PROCESS ON *.* TO `a`@`%`\nGRANT delete, select ON `sh%`.* TO `a`@`%`\n", "");
    missing_is("relay", "GRANT ALL PRIVILEGES ON *.* TO `a`@`%` WITH GRANT OPTION\n", "");
    missing_is("relay", "GRANT PROCESS, SELECT ON *.* TO `a`@`%`\n",
               "GRANT DELETE ON shop.outbox\n");
}

static void a_privilege_has_another_name_on_mariadb(void **state)
{
    static const char required_of_reader[] =
        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'tallybox_reader'@'%';\n";
    struct buf missing = {0};

    (void)state;
    assert_int_equal(
        privileges_find_missing(&missing, required_of_reader, "reader",
                                "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO a\n"),
        0);
    assert_int_equal(privileges_find_missing(&missing, required_of_reader, "reader",
                                             "GRANT BINLOG MONITOR ON *.* TO a\n"),
                     1);
    assert_string_equal(buf_text(&missing), "GRANT REPLICATION SLAVE ON *.*\n");
    buf_done(&missing);
}

static void another_table_or_database_covers_nothing(void **state)
{
    static const char both[] = "GRANT SELECT, DELETE ON shop.outbox\nGRANT PROCESS ON *.*\n";

    (void)state;
    missing_is("relay", "GRANT ALL PRIVILEGES ON `shop`.`outbox_1` TO `a`@`%`\n", both);
    missing_is("relay", "GRANT ALL PRIVILEGES ON `shop2`.* TO `a`@`%`\n", both);
    missing_is("relay", "GRANT `shop`@`%` TO `a`@`%`\nGRANT\nrubbish\nGRANT SELECT ON\n", both);
}

static void columns_are_covered_one_by_one_or_by_the_whole_table(void **state)
{
    (void)state;
    missing_is("rollup",
               "GRANT SELECT (`votes`, `id`), UPDATE (`votes`) ON `my_shop`.`remark` TO `a`@`%`\n",
               "");
    missing_is("rollup", "GRANT SELECT, UPDATE ON `my_shop`.`remark` TO `a`@`%`\n", "");
    missing_is("rollup",
               "GRANT SELECT (`id`), UPDATE (`id`) ON `my_shop`.`remark` TO `a`@`%`\n"
               "GRANT SELECT (`votes`) ON `my_shop`.`remark` TO `a`@`%`\n",
               "GRANT UPDATE (votes) ON my_shop.remark\n");
    missing_is("relay", "GRANT SELECT (id), DELETE, PROCESS ON `shop`.`outbox` TO `a`@`%`\n",
               "GRANT SELECT ON shop.outbox\nGRANT PROCESS ON *.*\n");
}

static void an_escaped_wildcard_is_the_character_itself(void **state)
{
    (void)state;
    missing_is("lanes", "GRANT SELECT, INSERT ON `my\\_shop`.* TO `a`@`%`\n", "");
    missing_is("lanes", "GRANT SELECT, INSERT ON `my_shop`.* TO `a`@`%`\n", "");
    missing_is("lanes", "GRANT SELECT, INSERT ON `my\\%shop`.* TO `a`@`%`\n",
               "GRANT SELECT, INSERT ON my\\_shop.*\n");
}

static void a_privilege_on_a_table_or_its_columns_shows_the_table(void **state)
{
    static const char granted[] = "GRANT PROCESS, USAGE ON *.* TO `a`@`%`\n"
                                  "GRANT SELECT (`id`) ON `shop`.`remark` TO `a`@`%`\n"
                                  "GRANT DELETE ON `shop`.`outbox` TO `a`@`%`\n"
                                  "GRANT ALL PRIVILEGES ON `sh%`.* TO 'tallybox_relay'@`%`\n";

    (void)state;
    assert_true(privileges_show_table(granted, NULL, "shop", "outbox", false));
    assert_true(privileges_show_table(granted, NULL, "shop", "remark", false));
    assert_true(privileges_show_table(granted, "relay", "shop", "other", true));
    assert_false(privileges_show_table(granted, "rollup", "shop", "other", true));
    assert_false(privileges_show_table("GRANT DELETE ON `shop`.`outbox` TO `a`@`%`\n", NULL, "shop",
                                       "outbox", true));
    assert_false(privileges_show_table("GRANT SELECT (`id`) ON `shop`.`remark` TO `a`@`%`\n", NULL,
                                       "shop", "remark", true));
    assert_false(privileges_show_table("GRANT PROCESS, USAGE ON *.* TO `a`@`%`\n", NULL, "shop",
                                       "remark", false));
}

/* A server with which nothing is wrong. */
static struct doctor_database good_database(void)
{
    struct doctor_database database = {
        .section = "mysql",
        .place = "database shop at db:3306",
        .version = "10.11.6-MariaDB-log",
        .is_mariadb = true,
        .flush_log_at_commit = 1,
        .sync_binlog = 1,
        .has_binlog = true,
        .binlog_format = "ROW",
        .packet_bytes_max = 16777216,
        .clock_ahead_ms = 3,
        .clock_error_ms = 1,
        .required = required,
    };

    buf_text_put(&database.grants, "GRANT ALL PRIVILEGES ON *.* TO `a`@`%`\n");
    return database;
}

static void judge(struct doctor_database *database, const char *roles)
{
    reset(NULL);
    doctor_judge_database(&doctor, database, &settings, roles);
}

static bool says(enum doctor_level level, const char *words)
{
    for (size_t i = 0; i < doctor.count; i++)
        if (doctor.findings[i].level == level && strstr(doctor.findings[i].text, words))
            return true;
    return false;
}

static void a_good_server_gives_no_problem(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    judge(&database, "relay,rollup");
    assert_int_equal(doctor.counts[DOCTOR_OK], doctor.count);
    assert_true(says(DOCTOR_OK, "MariaDB 10.11.6"));
    assert_true(says(DOCTOR_OK, "privileges of rollup"));
    assert_int_equal(doctor_outcome(&doctor, true), DOCTOR_OK);
    buf_done(&database.grants);
}

static void each_risk_of_a_server_is_named_with_its_remedy(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    database.flush_log_at_commit = 2;
    database.sync_binlog = 0;
    database.packet_bytes_max = 1048576;
    database.clock_ahead_ms = -5000;
    snprintf(database.version, sizeof(database.version), "10.5.1-MariaDB");
    judge(&database, "");
    assert_true(says(DOCTOR_WARNING, "innodb_flush_log_at_trx_commit = 2"));
    assert_true(says(DOCTOR_WARNING, "sync_binlog = 0"));
    assert_true(says(DOCTOR_WARNING, "max_allowed_packet = 1048576"));
    assert_true(says(DOCTOR_WARNING, "5000 ms behind"));
    assert_true(says(DOCTOR_WARNING, "10.5.1"));
    assert_int_equal(doctor_outcome(&doctor, false), DOCTOR_WARNING);
    assert_int_equal(doctor_outcome(&doctor, true), DOCTOR_FAILED);
    for (size_t i = 0; i < doctor.count; i++)
        assert_true(doctor.findings[i].level == DOCTOR_OK || doctor.findings[i].remedy[0]);
    buf_done(&database.grants);
}

static void sync_binlog_of_a_server_without_a_binlog_does_not_matter(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    database.has_binlog = false;
    database.sync_binlog = 0;
    snprintf(database.binlog_format, sizeof(database.binlog_format), "STATEMENT");
    judge(&database, "");
    assert_int_equal(doctor_outcome(&doctor, true), DOCTOR_OK);
    buf_done(&database.grants);
}

static void a_server_that_hides_its_durability_is_not_called_durable(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    database.flush_log_at_commit = DOCTOR_UNKNOWN;
    judge(&database, "");
    assert_true(says(DOCTOR_WARNING, "the server does not show innodb_flush_log_at_trx_commit"));
    assert_false(says(DOCTOR_OK, "survives a crash"));
    database.flush_log_at_commit = 1;
    database.sync_binlog = DOCTOR_UNKNOWN;
    judge(&database, "");
    assert_true(says(DOCTOR_WARNING, "the server does not show sync_binlog"));
    assert_false(says(DOCTOR_OK, "survives a crash"));
    database.has_binlog = false;
    judge(&database, "");
    assert_true(says(DOCTOR_OK, "survives a crash"));
    buf_done(&database.grants);
}

static void a_server_that_refuses_writes_fails(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    database.is_read_only = true;
    judge(&database, "");
    assert_true(says(DOCTOR_FAILED, "read-only"));
    database.is_read_only = false;
    snprintf(database.binlog_format, sizeof(database.binlog_format), "STATEMENT");
    judge(&database, "");
    assert_true(says(DOCTOR_FAILED, "binlog_format = STATEMENT"));
    buf_done(&database.grants);
}

static void an_unreachable_server_is_not_judged_further(void **state)
{
    struct doctor_database database = {.section = "mysql", .place = "p", .rc = RC_RETRY};

    (void)state;
    err_fail(&database.err, RC_RETRY, 2003, "cannot connect");
    judge(&database, "relay");
    assert_int_equal(doctor.count, 1);
    assert_true(says(DOCTOR_UNREACHABLE, "cannot connect"));
    assert_int_equal(doctor_outcome(&doctor, false), DOCTOR_UNREACHABLE);
    database.rc = RC_FATAL;
    judge(&database, "relay");
    assert_int_equal(doctor_outcome(&doctor, false), DOCTOR_FAILED);
    assert_null(strstr(doctor.findings[0].remedy, "--role relay"));
}

static void a_refused_login_is_told_how_to_read_the_account_of_a_role(void **state)
{
    struct doctor_database database = {
        .section = "mysql", .place = "p", .rc = RC_FATAL, .login_refused = true};

    (void)state;
    err_fail(&database.err, RC_FATAL, 1045, "Access denied");
    judge(&database, "");
    assert_non_null(
        strstr(doctor.findings[0].remedy, "--role relay reads the account of [role.relay]"));
    judge(&database, "relay");
    assert_null(strstr(doctor.findings[0].remedy, "reads the account"));
    assert_non_null(strstr(doctor.findings[0].remedy, "`tallybox config --role relay` shows"));
}

static void a_database_that_does_not_exist_is_reported_with_its_setting(void **state)
{
    struct doctor_database database = {
        .section = "sink", .place = "p", .rc = RC_FATAL, .no_database = true};

    (void)state;
    err_fail(&database.err, RC_FATAL, 1049, "Unknown database");
    snprintf(settings.sink.database_place, SETTING_TEXT_SIZE, "sink.database (t.ini:3)");
    doctor_judge_database(&doctor, &database, &settings, "relay");
    assert_string_equal(doctor.findings[0].remedy,
                        "check sink.database (t.ini:3); if the name is right, `tallybox migrate "
                        "up` creates the database");
}

static void judge_with_wakeup(struct doctor_database *database, const char *roles)
{
    reset(NULL);
    snprintf(settings.relay.wakeup, SETTING_TEXT_SIZE, "binlog");
    doctor_judge_database(&doctor, database, &settings, roles);
}

static void what_the_wakeup_of_the_relay_lacks_is_a_warning(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    database.required = "GRANT SELECT ON shop.outbox TO 'tallybox_relay'@'%';\n"
                        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "
                        "'tallybox_relay_wakeup'@'%';\n";
    buf_reset(&database.grants);
    buf_text_put(&database.grants, "GRANT SELECT ON `shop`.* TO `a`@`%`\n");
    judge(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    judge_with_wakeup(&database, "rollup");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    judge_with_wakeup(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 1);
    assert_true(says(DOCTOR_WARNING, "lacks privileges for it, so lanes are polled as without it: "
                                     "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON "
                                     "*.*"));
    judge_with_wakeup(&database, "run");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 1);
    /* Servers with GTIDs need no more. */
    buf_text_put(&database.grants, "GRANT REPLICATION SLAVE ON *.* TO `a`@`%`\n");
    judge_with_wakeup(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    database.has_binlog = false;
    judge_with_wakeup(&database, "relay");
    assert_true(says(DOCTOR_WARNING, "the server writes no binary log"));
    buf_done(&database.grants);
}

static void judge_stream(struct doctor_database *database, const char *roles)
{
    reset(NULL);
    settings.lane_count = 1;
    snprintf(settings.lanes[0].table, sizeof(settings.lanes[0].table), "outbox");
    snprintf(settings.lanes[0].source, sizeof(settings.lanes[0].source), "binlog");
    doctor_judge_database(&doctor, database, &settings, roles);
}

static struct doctor_database stream_database(void)
{
    struct doctor_database database = good_database();

    snprintf(database.binlog_row_image, sizeof(database.binlog_row_image), "FULL");
    snprintf(database.binlog_row_metadata, sizeof(database.binlog_row_metadata), "FULL");
    snprintf(database.engines[0], sizeof(database.engines[0]), "InnoDB");
    database.required = "GRANT SELECT ON shop.outbox TO 'tallybox_relay'@'%';\n"
                        "GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO "
                        "'tallybox_relay_wakeup'@'%';\n";
    database.log_expire_s = 86400;
    database.server_id = 7;
    return database;
}

static void what_stops_a_lane_that_reads_the_log_fails(void **state)
{
    struct doctor_database database = stream_database();

    (void)state;
    judge_stream(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_OK], doctor.count);
    snprintf(database.binlog_format, sizeof(database.binlog_format), "MIXED");
    snprintf(database.binlog_row_image, sizeof(database.binlog_row_image), "MINIMAL");
    database.has_log_filter = true;
    database.log_lacks_replicated = true;
    err_set(&database.unreadable[0], "column id has the type uuid");
    buf_reset(&database.grants);
    buf_text_put(&database.grants, "GRANT SELECT ON `shop`.* TO `a`@`%`\n");
    judge_stream(&database, "run");
    assert_true(says(DOCTOR_FAILED, "binlog_format = MIXED"));
    assert_true(says(DOCTOR_FAILED, "binlog_row_image = MINIMAL"));
    assert_true(says(DOCTOR_FAILED, "the server takes rows of another server, which its binary "
                                    "log lacks"));
    assert_true(says(DOCTOR_FAILED, "table outbox: column id has the type uuid"));
    assert_true(says(DOCTOR_FAILED, "a filter keeps the database out of the binary log"));
    assert_true(says(DOCTOR_FAILED, "may not read the binary log: GRANT REPLICATION SLAVE"));
    judge_stream(&database, "rollup");
    assert_false(says(DOCTOR_FAILED, "binlog"));
    database.has_binlog = false;
    judge_stream(&database, "relay");
    assert_true(says(DOCTOR_FAILED, "the server writes no binary log"));
    buf_done(&database.grants);
}

static void what_a_partitioned_table_of_a_lane_lacks_is_a_warning(void **state)
{
    struct doctor_database database = stream_database();

    (void)state;
    database.required = "GRANT SELECT ON shop.outbox TO 'tallybox_relay'@'%';\n"
                        "GRANT LOCK TABLES ON shop.* TO 'tallybox_relay_partitions'@'%';\n"
                        "GRANT ALTER, DROP ON shop.outbox TO 'tallybox_relay_partitions'@'%';\n";
    buf_reset(&database.grants);
    buf_text_put(&database.grants, "GRANT SELECT ON `shop`.* TO `a`@`%`\n");
    judge_stream(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    database.is_partitioned[0] = true;
    judge_stream(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 1);
    assert_true(says(DOCTOR_WARNING, "may not drop partitions, so published rows are deleted one "
                                     "by one: GRANT LOCK TABLES ON"));
    buf_text_put(&database.grants, "GRANT LOCK TABLES, ALTER, DROP ON `shop`.* TO `a`@`%`\n");
    judge_stream(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    buf_done(&database.grants);
}

static void judge_fallback(struct doctor_database *database, const char *from_table)
{
    struct lane_settings *lane = &settings.lanes[0];

    reset(NULL);
    settings.lane_count = 1;
    snprintf(lane->table, sizeof(lane->table), "outbox");
    snprintf(lane->source, sizeof(lane->source), "binlog");
    snprintf(lane->from_table, sizeof(lane->from_table), "%s", from_table);
    snprintf(lane->empty_payload, sizeof(lane->empty_payload), "%s", LANE_EMPTY_VALUE);
    doctor_judge_database(&doctor, database, &settings, "relay");
}

static void a_lane_that_may_not_lock_its_table_stops_with_its_log(void **state)
{
    struct doctor_database database = stream_database();

    (void)state;
    database.required = "GRANT SELECT ON shop.outbox TO 'tallybox_relay'@'%';\n"
                        "GRANT LOCK TABLES ON shop.* TO 'tallybox_relay_source'@'%';\n"
                        "GRANT DELETE ON shop.relay_position TO 'tallybox_relay_source'@'%';\n";
    buf_reset(&database.grants);
    buf_text_put(&database.grants, "GRANT SELECT ON `shop`.* TO `a`@`%`\n");
    /* Its table cannot be published from, or it is not to be. */
    judge_fallback(&database, "yes");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    database.has_seq[0] = true;
    judge_fallback(&database, "no");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    judge_fallback(&database, "yes");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 1);
    assert_true(says(DOCTOR_WARNING,
                     "may not lock tables, so a lane with source = binlog stops when "
                     "the server has purged its log"));
    assert_true(says(DOCTOR_WARNING, "GRANT LOCK TABLES ON"));
    /* What the command needs besides. */
    buf_text_put(&database.grants, "GRANT LOCK TABLES ON `shop`.* TO `a`@`%`\n");
    judge_fallback(&database, "yes");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 0);
    /* What it makes of its table is said, too. */
    snprintf(database.engines[0], sizeof(database.engines[0]), "InnoDB");
    judge_fallback(&database, "yes");
    assert_true(says(DOCTOR_OK, "the lane goes on from the table"));
    judge_fallback(&database, "no");
    assert_true(says(DOCTOR_OK, "the lane stops"));
    buf_done(&database.grants);
}

static void a_log_whose_files_are_not_seen_is_a_warning(void **state)
{
    struct doctor_database database = stream_database();

    (void)state;
    buf_reset(&database.grants);
    buf_text_put(&database.grants, "GRANT SELECT, REPLICATION SLAVE ON *.* TO `a`@`%`\n");
    judge_stream(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_FAILED], 0);
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 1);
    assert_true(says(DOCTOR_WARNING, "does not warn before the server deletes"));
    assert_true(says(DOCTOR_WARNING, "GRANT REPLICATION CLIENT ON"));
    buf_done(&database.grants);
}

static void what_endangers_a_lane_that_reads_the_log_is_a_warning(void **state)
{
    struct doctor_database database = stream_database();

    (void)state;
    snprintf(database.binlog_row_metadata, sizeof(database.binlog_row_metadata), "NO_LOG");
    snprintf(database.gtid_mode, sizeof(database.gtid_mode), "OFF");
    database.log_expire_s = 86399;
    judge_stream(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_FAILED], 0);
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 3);
    assert_true(says(DOCTOR_WARNING, "binlog_row_metadata = NO_LOG"));
    assert_true(says(DOCTOR_WARNING, "gtid_mode = OFF"));
    assert_true(says(DOCTOR_WARNING, "binlog_expire_logs_seconds = 86399"));
    /* 0: never. */
    database.log_expire_s = 0;
    judge_stream(&database, "relay");
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 2);
    /* The place in the log is asked for without GTIDs. */
    buf_reset(&database.grants);
    buf_text_put(&database.grants, "GRANT SELECT, REPLICATION SLAVE ON *.* TO `a`@`%`\n");
    judge_stream(&database, "relay");
    assert_true(says(DOCTOR_FAILED, "GRANT REPLICATION CLIENT"));
    buf_done(&database.grants);
}

static void the_id_of_the_server_must_not_be_one_of_the_relay(void **state)
{
    struct doctor_database database = stream_database();

    (void)state;
    for (int64_t id = 5; id <= 8; id++) {
        reset(NULL);
        settings.relay.server_id = id;
        settings.lane_count = 1;
        snprintf(settings.lanes[0].source, sizeof(settings.lanes[0].source), "binlog");
        doctor_judge_database(&doctor, &database, &settings, "relay");
        assert_int_equal(says(DOCTOR_FAILED, "server_id = 7"), id == 6 || id == 7);
    }
    /* Two lanes share a stream, which has the next one. */
    for (int64_t id = 3; id <= 8; id++) {
        reset(NULL);
        settings.relay.server_id = id;
        settings.lane_count = 2;
        for (size_t i = 0; i < 2; i++)
            snprintf(settings.lanes[i].source, sizeof(settings.lanes[i].source), "binlog");
        doctor_judge_database(&doctor, &database, &settings, "relay");
        assert_int_equal(says(DOCTOR_FAILED, "server_id = 7"), id >= 4 && id <= 7);
    }
    buf_done(&database.grants);
}

static void a_server_is_judged_once_for_all_accounts(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    database.is_known = true;
    judge(&database, "relay");
    assert_int_equal(doctor.count, 1);
    assert_true(says(DOCTOR_OK, "privileges of relay"));
    doctor_judge_database(&doctor, &database, &settings, "relay");
    assert_int_equal(doctor.count, 1);
    assert_int_equal(doctor.counts[DOCTOR_OK], 1);
    buf_done(&database.grants);
}

static void a_lane_whose_created_at_cannot_be_read_is_a_warning(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    database.required = "GRANT SELECT (seq) ON shop.bare TO 'tallybox_status'@'%';\n"
                        "GRANT SELECT (created_at) ON shop.bare TO 'tallybox_status'@'%';\n";
    buf_reset(&database.grants);
    buf_text_put(&database.grants, "GRANT SELECT (`seq`) ON `shop`.`bare` TO `a`@`%`\n");
    judge(&database, "status");
    assert_true(says(DOCTOR_WARNING, "the account may not read created_at of shop.bare, or the "
                                     "table has none: status does not know the age"));
    assert_true(says(DOCTOR_OK, "the account has the privileges of status"));
    assert_int_equal(doctor_outcome(&doctor, false), DOCTOR_WARNING);
    buf_done(&database.grants);
}

static void run_needs_the_privileges_of_all_its_roles(void **state)
{
    struct doctor_database database = good_database();

    (void)state;
    buf_reset(&database.grants);
    judge(&database, "run");
    assert_true(says(DOCTOR_FAILED,
                     "lacks privileges of relay: GRANT SELECT, DELETE ON shop.outbox; "
                     "GRANT PROCESS ON *.*"));
    assert_true(says(DOCTOR_FAILED, "lacks privileges of rollup"));
    assert_true(says(DOCTOR_OK, "privileges of serve"));
    buf_done(&database.grants);
}

static struct doctor_kafka good_kafka(void)
{
    struct doctor_kafka kafka = {.record_extra_bytes = 4096, .brokers = 3, .topic_count = 1};

    kafka.topics[0] = (struct doctor_topic){
        .name = "vote-events",
        .is_consumed = true,
        .partitions = 12,
        .replicas = 3,
        .has_config = true,
        .retention_ms = -1,
        .batch_bytes_max = 1048588,
        .insync_min = 2,
    };
    return kafka;
}

static void judge_kafka(const struct doctor_kafka *kafka)
{
    reset(NULL);
    doctor_judge_kafka(&doctor, kafka, &settings);
}

static void a_good_topic_gives_no_problem(void **state)
{
    struct doctor_kafka kafka = good_kafka();

    (void)state;
    judge_kafka(&kafka);
    assert_int_equal(doctor_outcome(&doctor, true), DOCTOR_OK);
    assert_true(says(DOCTOR_OK, "vote-events: 12 partitions, 3 replicas"));
    kafka.topics[0].partitions = 0;
    judge_kafka(&kafka);
    assert_true(says(DOCTOR_OK, "the relay creates it with 12 partitions"));
}

static void each_risk_of_a_topic_is_named(void **state)
{
    struct doctor_kafka kafka = good_kafka();

    (void)state;
    kafka.topics[0].insync_min = 1;
    kafka.topics[0].elects_unclean = true;
    kafka.topics[0].retention_ms = 3600000;
    kafka.topics[0].batch_bytes_max = 500000;
    judge_kafka(&kafka);
    assert_true(says(DOCTOR_WARNING, "min.insync.replicas = 1"));
    assert_true(says(DOCTOR_WARNING, "unclean.leader.election.enable"));
    assert_true(says(DOCTOR_WARNING, "retention.ms = 3600000"));
    assert_true(says(DOCTOR_WARNING, "max.message.bytes = 500000"));
    kafka.topics[0].batch_bytes_max = 1000000 + 4096 - 1;
    judge_kafka(&kafka);
    assert_true(says(DOCTOR_WARNING, "whose record has up to 4096 more"));
    kafka.topics[0].batch_bytes_max++;
    judge_kafka(&kafka);
    assert_false(says(DOCTOR_WARNING, "max.message.bytes"));
    kafka.topics[0].replicas = 1;
    judge_kafka(&kafka);
    assert_true(says(DOCTOR_WARNING, "one replica"));
    kafka.topics[0].insync_min = 2;
    judge_kafka(&kafka);
    assert_true(says(DOCTOR_FAILED, "no record is accepted"));
}

static void only_a_consumed_topic_must_not_be_compacted(void **state)
{
    struct doctor_kafka kafka = good_kafka();

    (void)state;
    kafka.topics[0].is_compacted = true;
    judge_kafka(&kafka);
    assert_true(says(DOCTOR_FAILED, "compacted"));
    kafka.topics[0].is_consumed = false;
    judge_kafka(&kafka);
    assert_int_equal(doctor_outcome(&doctor, true), DOCTOR_OK);
}

static void a_topic_without_a_visible_configuration_is_a_warning(void **state)
{
    struct doctor_kafka kafka = good_kafka();

    (void)state;
    kafka.topics[0].has_config = false;
    kafka.topics[0].batch_bytes_max = 0;
    judge_kafka(&kafka);
    assert_int_equal(doctor.counts[DOCTOR_WARNING], 1);
    assert_true(says(DOCTOR_WARNING, "does not show its configuration"));
}

static void topics_of_lanes_and_consumer_are_listed_once(void **state)
{
    struct doctor_kafka kafka = {0};

    (void)state;
    settings.lane_count = 2;
    snprintf(settings.lanes[0].topics, SETTING_LIST_SIZE, "vote=vote-events, order=orders");
    snprintf(settings.lanes[1].topics, SETTING_LIST_SIZE, "order=orders");
    snprintf(settings.consumer.topics, SETTING_LIST_SIZE, "vote-events, more");
    doctor_list_topics(&kafka, &settings, false);
    assert_int_equal(kafka.topic_count, 3);
    assert_string_equal(kafka.topics[0].name, "vote-events");
    assert_true(kafka.topics[0].is_consumed);
    assert_string_equal(kafka.topics[1].name, "orders");
    assert_false(kafka.topics[1].is_consumed);
    assert_string_equal(kafka.topics[2].name, "more");
    memset(&kafka, 0, sizeof(kafka));
    doctor_list_topics(&kafka, &settings, true);
    assert_int_equal(kafka.topic_count, 2);
    assert_false(kafka.topics[0].is_consumed);
}

static void existing_topics_with_the_prefix_of_the_relay_are_listed(void **state)
{
    struct doctor_kafka kafka = {0};
    char name[32];

    (void)state;
    snprintf(settings.relay.topic_prefix, sizeof(settings.relay.topic_prefix), "outbox.event.");
    doctor_add_existing(&kafka, &settings, "outbox.event.order");
    doctor_add_existing(&kafka, &settings, "outbox.events");
    doctor_add_existing(&kafka, &settings, "other");
    assert_int_equal(kafka.topic_count, 1);
    assert_string_equal(kafka.topics[0].name, "outbox.event.order");
    for (int i = 0; i < DOCTOR_TOPICS_MAX; i++) {
        snprintf(name, sizeof(name), "outbox.event.%d", i);
        doctor_add_existing(&kafka, &settings, name);
    }
    assert_int_equal(kafka.topic_count, DOCTOR_TOPICS_MAX);
    doctor_judge_kafka(&doctor, &kafka, &settings);
    assert_true(says(DOCTOR_WARNING, "1 topics of the settings or with relay.topic_prefix = "
                                     "outbox.event. were not checked: doctor checks 64"));
    memset(&kafka, 0, sizeof(kafka));
    settings.relay.topic_prefix[0] = '\0';
    doctor_add_existing(&kafka, &settings, "other");
    assert_int_equal(kafka.topic_count, 0);
}

static void existing_topics_that_the_rule_of_a_lane_makes_are_listed(void **state)
{
    struct doctor_kafka kafka = {0};
    struct lane_settings *lane = &settings.lanes[0];

    (void)state;
    settings.lane_count = 1;
    snprintf(lane->topic, sizeof(lane->topic), "shop.$1");
    doctor_add_existing(&kafka, &settings, "shop.order");
    doctor_add_existing(&kafka, &settings, "shops");
    assert_int_equal(kafka.topic_count, 1);
    assert_string_equal(kafka.topics[0].name, "shop.order");
    snprintf(lane->topic, sizeof(lane->topic), "$1.shop");
    doctor_add_existing(&kafka, &settings, "order.shop");
    assert_int_equal(kafka.topic_count, 1);
}

static void more_replicas_than_brokers_fail(void **state)
{
    struct doctor_kafka kafka = good_kafka();

    (void)state;
    settings.relay.topic_replication = 3;
    doctor_judge_kafka(&doctor, &kafka, &settings);
    assert_int_equal(doctor_outcome(&doctor, true), DOCTOR_OK);
    settings.relay.topic_replication = 4;
    doctor_judge_kafka(&doctor, &kafka, &settings);
    assert_true(says(DOCTOR_FAILED, "relay.topic_replication = 4 is more than the number of"));
}

static void findings_are_printed_with_their_remedies_and_a_sum(void **state)
{
    struct buf out = {0};

    (void)state;
    doctor_add(&doctor, DOCTOR_OK, "mysql", NULL, "fine");
    doctor_add(&doctor, DOCTOR_FAILED, "kafka", "start it", "no \"broker\"");
    doctor_print_text(&doctor, &out);
    assert_string_equal(buf_text(&out), "ok          mysql           fine\n"
                                        "FAILED      kafka           no \"broker\"\n"
                                        "                            to do: start it\n"
                                        "1 ok, 0 warnings, 1 failed, 0 unreachable\n");
    buf_done(&out);
}

static void json_has_the_same_findings(void **state)
{
    struct buf out = {0};
    json_t *all;
    json_t *finding;

    (void)state;
    doctor_add(&doctor, DOCTOR_WARNING, "mysql", "do it", "risk");
    doctor_print_json(&doctor, false, &out);
    all = json_loads(buf_text(&out), 0, NULL);
    assert_non_null(all);
    assert_true(json_is_true(json_object_get(all, "ok")));
    assert_int_equal(json_integer_value(json_object_get(all, "warnings")), 1);
    finding = json_array_get(json_object_get(all, "findings"), 0);
    assert_string_equal(json_string_value(json_object_get(finding, "level")), "warning");
    assert_string_equal(json_string_value(json_object_get(finding, "remedy")), "do it");
    json_decref(all);
    buf_reset(&out);
    doctor_print_json(&doctor, true, &out);
    assert_non_null(strstr(buf_text(&out), "\"ok\": false"));
    buf_done(&out);
}

static void more_findings_than_fit_are_counted(void **state)
{
    (void)state;
    for (int i = 0; i < DOCTOR_FINDINGS_MAX + 10; i++)
        doctor_add(&doctor, DOCTOR_WARNING, "kafka", NULL, "%d", i);
    assert_int_equal(doctor.count, DOCTOR_FINDINGS_MAX);
    assert_int_equal(doctor.counts[DOCTOR_WARNING], DOCTOR_FINDINGS_MAX + 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_account_without_grants_lacks_all_privileges_of_its_role_only),
        cmocka_unit_test(a_grant_of_the_table_the_database_or_the_server_covers_a_table),
        cmocka_unit_test(a_privilege_has_another_name_on_mariadb),
        cmocka_unit_test(another_table_or_database_covers_nothing),
        cmocka_unit_test(columns_are_covered_one_by_one_or_by_the_whole_table),
        cmocka_unit_test(an_escaped_wildcard_is_the_character_itself),
        cmocka_unit_test(a_privilege_on_a_table_or_its_columns_shows_the_table),
        cmocka_unit_test(a_good_server_gives_no_problem),
        cmocka_unit_test(each_risk_of_a_server_is_named_with_its_remedy),
        cmocka_unit_test(sync_binlog_of_a_server_without_a_binlog_does_not_matter),
        cmocka_unit_test(a_server_that_hides_its_durability_is_not_called_durable),
        cmocka_unit_test(a_server_that_refuses_writes_fails),
        cmocka_unit_test(an_unreachable_server_is_not_judged_further),
        cmocka_unit_test(a_refused_login_is_told_how_to_read_the_account_of_a_role),
        cmocka_unit_test(a_lane_whose_created_at_cannot_be_read_is_a_warning),
        cmocka_unit_test_setup(a_database_that_does_not_exist_is_reported_with_its_setting, reset),
        cmocka_unit_test(what_the_wakeup_of_the_relay_lacks_is_a_warning),
        cmocka_unit_test(what_stops_a_lane_that_reads_the_log_fails),
        cmocka_unit_test(what_a_partitioned_table_of_a_lane_lacks_is_a_warning),
        cmocka_unit_test(a_lane_that_may_not_lock_its_table_stops_with_its_log),
        cmocka_unit_test(a_log_whose_files_are_not_seen_is_a_warning),
        cmocka_unit_test(what_endangers_a_lane_that_reads_the_log_is_a_warning),
        cmocka_unit_test(the_id_of_the_server_must_not_be_one_of_the_relay),
        cmocka_unit_test(a_server_is_judged_once_for_all_accounts),
        cmocka_unit_test(run_needs_the_privileges_of_all_its_roles),
        cmocka_unit_test_setup(a_good_topic_gives_no_problem, reset),
        cmocka_unit_test_setup(each_risk_of_a_topic_is_named, reset),
        cmocka_unit_test_setup(only_a_consumed_topic_must_not_be_compacted, reset),
        cmocka_unit_test_setup(a_topic_without_a_visible_configuration_is_a_warning, reset),
        cmocka_unit_test_setup(topics_of_lanes_and_consumer_are_listed_once, reset),
        cmocka_unit_test_setup(existing_topics_with_the_prefix_of_the_relay_are_listed, reset),
        cmocka_unit_test_setup(existing_topics_that_the_rule_of_a_lane_makes_are_listed, reset),
        cmocka_unit_test_setup(more_replicas_than_brokers_fail, reset),
        cmocka_unit_test_setup(findings_are_printed_with_their_remedies_and_a_sum, reset),
        cmocka_unit_test_setup(json_has_the_same_findings, reset),
        cmocka_unit_test_setup(more_findings_than_fit_are_counted, reset),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
