/* SPDX-License-Identifier: MIT */
#include "common/db/error.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct expected {
    unsigned code;
    enum rc rc;
    bool ends_session;
    const char *what;
};

static const struct expected table[] = {
    {1205, RC_RETRY, false, "lock wait time-out, NOWAIT on MariaDB"},
    {1213, RC_RETRY, false, "deadlock"},
    {3572, RC_RETRY, false, "NOWAIT on MySQL"},
    {1317, RC_RETRY, false, "KILL QUERY"},
    {1969, RC_RETRY, false, "statement time-out on MariaDB"},
    {3024, RC_RETRY, false, "statement time-out on MySQL"},
    {1021, RC_RETRY, false, "disk full"},
    {1114, RC_RETRY, false, "table full"},
    {1297, RC_RETRY, false, "temporary trouble"},
    {1226, RC_RETRY, false, "statements per hour"},
    {3, RC_RETRY, false, "the server cannot write a file"},
    {1026, RC_RETRY, false, "the server cannot write a file"},
    {1030, RC_RETRY, false, "engine, e.g. 28: no space left on device"},
    {1135, RC_RETRY, false, "no thread for one more connection"},
    {1206, RC_RETRY, false, "no memory for one more lock"},
    {3015, RC_RETRY, false, "no memory in the engine"},
    {1105, RC_RETRY, false, "unknown to the server itself"},
    {1412, RC_RETRY, false, "table definition changed"},
    {3101, RC_RETRY, false, "rolled back by the group"},
    {1036, RC_RETRY, true, "engine is read only"},
    {1040, RC_RETRY, true, "too many connections"},
    {1203, RC_RETRY, true, "too many connections of this user"},
    {1047, RC_RETRY, true, "a Galera node that is not ready"},
    {1053, RC_RETRY, true, "shutting down"},
    {1077, RC_RETRY, true, "normal shutdown"},
    {1079, RC_RETRY, true, "shutdown complete"},
    {1792, RC_RETRY, true, "read-only transaction"},
    {1836, RC_RETRY, true, "read-only mode"},
    {3032, RC_RETRY, true, "offline mode"},
    {3169, RC_RETRY, true, "killed"},
    {4081, RC_RETRY, true, "memory of all connections"},
    {3100, RC_RETRY, true, "group replication"},
    {1927, RC_RETRY, true, "killed"},
    {4031, RC_RETRY, true, "idle for too long"},
    {2002, RC_RETRY, true, "refused"},
    {2003, RC_RETRY, true, "refused"},
    {2005, RC_RETRY, true, "unknown host"},
    {2006, RC_RETRY, true, "server has gone away"},
    {2013, RC_RETRY, true, "lost during query"},
    {2026, RC_RETRY, true, "TLS"},
    {2055, RC_RETRY, true, "lost, with more words"},
    {5014, RC_RETRY, true, "write error of MariaDB's library"},
    {1022, RC_REJECT, false, "duplicate key"},
    {1048, RC_REJECT, false, "NULL"},
    {1062, RC_REJECT, false, "duplicate key"},
    {1264, RC_REJECT, false, "out of range"},
    {1265, RC_REJECT, false, "cut"},
    {1292, RC_REJECT, false, "not a date"},
    {1366, RC_REJECT, false, "wrong value"},
    {1406, RC_REJECT, false, "too long"},
    {1452, RC_REJECT, false, "no such parent"},
    {1526, RC_REJECT, false, "no partition"},
    {1859, RC_REJECT, false, "duplicate key without its name"},
    {3150, RC_REJECT, false, "JSON too big"},
    {4038, RC_REJECT, false, "not JSON on MariaDB"},
    {3140, RC_REJECT, false, "not JSON"},
    {3819, RC_REJECT, false, "CHECK on MySQL"},
    {4025, RC_REJECT, false, "CHECK on MariaDB"},
    {1153, RC_REJECT, true, "packet too large"},
    {2020, RC_REJECT, true, "packet too large, the library says"},
    {1044, RC_FATAL, false, "no right to the database"},
    {1045, RC_FATAL, false, "wrong password"},
    {1049, RC_FATAL, false, "no such database"},
    {1054, RC_FATAL, false, "no such column"},
    {1064, RC_FATAL, false, "syntax"},
    {1130, RC_FATAL, false, "this host may not connect"},
    {1142, RC_FATAL, false, "no right to the table"},
    {1143, RC_FATAL, false, "no right to the column"},
    {1146, RC_FATAL, false, "no such table"},
    {1197, RC_FATAL, false, "binlog cache"},
    {1227, RC_FATAL, false, "needs a privilege"},
    {1290, RC_FATAL, true, "forbidden by an option"},
    {1665, RC_FATAL, false, "statement binlog"},
    {2054, RC_FATAL, true, "login method unknown"},
    {2059, RC_FATAL, true, "login plugin not found"},
    {2061, RC_FATAL, true, "login plugin refuses"},
};

static void each_known_number_has_its_class(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        enum rc rc = db_error_classify(table[i].code, "words of the server");

        if (rc != table[i].rc || db_error_ends_session(table[i].code) != table[i].ends_session)
            fail_msg("%u (%s): %s, ends session: %d", table[i].code, table[i].what, rc_name(rc),
                     db_error_ends_session(table[i].code));
    }
}

static void an_unknown_number_may_be_tried_again(void **state)
{
    (void)state;
    assert_int_equal(db_error_classify(1999, ""), RC_RETRY);
    assert_int_equal(db_error_classify(3999, ""), RC_RETRY);
    assert_int_equal(db_error_classify(65535, ""), RC_RETRY);
    assert_int_equal(db_error_classify(0, ""), RC_RETRY);
    assert_false(db_error_ends_session(1999));
    assert_true(db_error_ends_session(2999));
}

static void a_read_only_server_is_waited_for(void **state)
{
    (void)state;
    assert_int_equal(
        db_error_classify(1290, "The MariaDB server is running with the --read-only option"),
        RC_RETRY);
    assert_int_equal(
        db_error_classify(1290, "The MySQL server is running with the --super-read-only option"),
        RC_RETRY);
    assert_int_equal(
        db_error_classify(1290, "The MySQL server is running with the --secure-file-priv option"),
        RC_FATAL);
    assert_true(db_error_ends_session(1290));
}

static void the_sentence_holds_place_text_and_number(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(db_error_report(&err, 1213, "mysql 127.0.0.1:3306", "Deadlock found"),
                     RC_RETRY);
    assert_string_equal(err.text, "mysql 127.0.0.1:3306: Deadlock found (1213)");
    assert_int_equal(err.code, 1213);
}

/* A duplicate key's message holds the key, which may be as long as it likes. */
static void a_long_text_is_cut_between_characters(void **state)
{
    char text[512];
    struct err err = {0};

    (void)state;
    memset(text, 'a', sizeof(text));
    memcpy(text + 199, "\xC3\xA9", 2);
    text[sizeof(text) - 1] = '\0';
    db_error_report(&err, 1062, "m", text);
    assert_int_equal(strlen(err.text), strlen("m: ") + 199 + strlen(" (1062)"));
    assert_null(strchr(err.text, '\xC3'));
    assert_non_null(strstr(err.text, " (1062)"));
}

static void a_missing_right_is_named_as_its_grant(void **state)
{
    static const struct {
        unsigned code;
        const char *text;
        const char *said;
    } cases[] = {
        {1142, "SELECT command denied to user 'u'@'127.0.0.1' for table `d`.`outbox`",
         "(1142): it lacks GRANT SELECT ON d.outbox; `tallybox migrate grants` prints"},
        {1142, "INSERT, UPDATE command denied to user 'u'@'h' for table 'vote_count'",
         "it lacks GRANT INSERT, UPDATE ON vote_count; "},
        {1143, "UPDATE command denied to user 'u'@'h' for column 'votes' in table 'remark'",
         "(1143): it lacks GRANT UPDATE (votes) ON remark; "},
        {1142, "SELECT with locking clause command denied to user 'u'@'h' for table 'remark'",
         "(1142): `tallybox migrate grants` prints the privileges of each role"},
        {1044, "Access denied for user 'u'@'h' to database 'd'",
         "(1044): `tallybox migrate grants` prints the privileges of each role"},
    };
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(db_error_report(&err, cases[i].code, "m", cases[i].text), RC_FATAL);
        assert_non_null(strstr(err.text, cases[i].said));
    }
    db_error_report(&err, 1045, "m", "Access denied for user 'u'@'h' (using password: YES)");
    assert_null(strstr(err.text, "grants"));
}

static void a_missing_table_is_reported_with_the_command_that_compares_all(void **state)
{
    struct err err = {0};

    (void)state;
    db_error_report(&err, 1146, "m", "Table 'd.retry_task' doesn't exist");
    assert_string_equal(err.text, "m: Table 'd.retry_task' doesn't exist (1146): `tallybox migrate "
                                  "verify` shows which tables are missing");
}

static void a_login_that_fails_names_the_settings_to_check(void **state)
{
    const struct mysql_settings settings = {.database_place = "mysql.database (t.ini:3)",
                                            .account_advice = "there is no [role.verify]"};
    const struct mysql_settings unknown = {.port = 1};
    struct err err = {1045, "m: Access denied (1045)"};

    (void)state;
    db_error_explain_login(&err, 1045, &settings);
    assert_string_equal(err.text, "m: Access denied (1045): there is no [role.verify]");
    err = (struct err){1049, "m: Unknown database 'shop' (1049)"};
    db_error_explain_login(&err, 1049, &settings);
    assert_string_equal(err.text,
                        "m: Unknown database 'shop' (1049): check mysql.database (t.ini:3)");
    err = (struct err){1040, "m: Too many connections (1040)"};
    db_error_explain_login(&err, 1040, &settings);
    assert_string_equal(err.text, "m: Too many connections (1040)");
    db_error_explain_login(&err, 1045, &unknown);
    assert_string_equal(err.text, "m: Too many connections (1040)");
}

static void the_report_needs_no_err(void **state)
{
    (void)state;
    assert_int_equal(db_error_report(NULL, 1146, "m", "no such table"), RC_FATAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_known_number_has_its_class),
        cmocka_unit_test(an_unknown_number_may_be_tried_again),
        cmocka_unit_test(a_read_only_server_is_waited_for),
        cmocka_unit_test(the_sentence_holds_place_text_and_number),
        cmocka_unit_test(a_long_text_is_cut_between_characters),
        cmocka_unit_test(a_missing_right_is_named_as_its_grant),
        cmocka_unit_test(a_missing_table_is_reported_with_the_command_that_compares_all),
        cmocka_unit_test(a_login_that_fails_names_the_settings_to_check),
        cmocka_unit_test(the_report_needs_no_err),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
