/* SPDX-License-Identifier: MIT */
#include "schema/migrate/grants.h"

#include "outbox/lanes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct settings settings;

/* other: NULL for none. */
static void lanes_set(const char *table, const char *other)
{
    settings.lane_count = other ? 2 : 1;
    snprintf(settings.lanes[0].table, sizeof(settings.lanes[0].table), "%s", table);
    snprintf(settings.lanes[1].table, sizeof(settings.lanes[1].table), "%s", other ? other : "");
}

static void settings_reset(void)
{
    memset(&settings, 0, sizeof(settings));
    snprintf(settings.mysql.host, sizeof(settings.mysql.host), "h");
    snprintf(settings.mysql.database, sizeof(settings.mysql.database), "d");
    lanes_set("outbox", NULL);
    settings.mysql.port = 3306;
    settings.api.lane_count = 1;
    settings.sink = settings.mysql;
}

static size_t count_of(struct buf *text, const char *words)
{
    size_t count = 0;

    for (const char *at = strstr(buf_text(text), words); at; at = strstr(at + 1, words))
        count++;
    return count;
}

static void one_database_gets_each_right_once(void **state)
{
    struct buf text = {0};

    (void)state;
    settings_reset();
    grants_put(&text, &settings, false);
    assert_false(text.failed);
    assert_int_equal(count_of(&text, "GRANT SELECT ON d.schema_history TO 'tallybox_serve'"), 1);
    assert_int_equal(count_of(&text, "-- On the "), 0);
    assert_null(strstr(buf_text(&text), "_side."));
    assert_null(strstr(buf_text(&text), "_lane "));
    buf_done(&text);
}

static void two_databases_get_the_rights_of_their_side(void **state)
{
    struct buf text = {0};
    const char *sink;

    (void)state;
    settings_reset();
    snprintf(settings.sink.database, sizeof(settings.sink.database), "e");
    grants_put(&text, &settings, false);
    sink = strstr(buf_text(&text), "-- On the database e at h:3306.");
    assert_non_null(sink);
    assert_int_equal(count_of(&text, "d.vote_state"), 3);
    assert_int_equal(count_of(&text, "e.vote_state"), 0);
    assert_int_equal(count_of(&text, "d.vote_document"), 0);
    assert_int_equal(count_of(&text, "e.vote_document"), 8);
    /* Of the whole server, where the outbox is. */
    assert_int_equal(count_of(&text, "GRANT PROCESS"), 2);
    assert_null(strstr(sink, "GRANT PROCESS"));
    /* Every daemon reads the versions of both databases. */
    assert_int_equal(count_of(&text, "d.schema_history TO 'tallybox_rollup'"), 1);
    assert_int_equal(count_of(&text, "e.schema_history TO 'tallybox_rollup'"), 1);
    buf_done(&text);
}

static void every_lane_gets_its_rights(void **state)
{
    struct buf text = {0};
    char lane[OUTBOX_LANE_NAME_SIZE];
    char words[128];

    (void)state;
    settings_reset();
    settings.api.lane_count = 3;
    lanes_set("outbox_1", "shop");
    grants_put(&text, &settings, false);
    for (size_t i = 0; i < 3; i++) {
        outbox_lane_name(lane, i);
        snprintf(words, sizeof(words), "GRANT INSERT ON d.%s TO 'tallybox_serve'@'%%';\n", lane);
        assert_int_equal(count_of(&text, words), 1);
    }
    assert_int_equal(count_of(&text, "GRANT SELECT, DELETE ON d.shop TO 'tallybox_relay'"), 1);
    assert_int_equal(count_of(&text, "GRANT SELECT, DELETE ON d.outbox_1 TO 'tallybox_relay'"), 1);
    assert_int_equal(count_of(&text, "GRANT SELECT, DELETE ON d.outbox TO 'tallybox_relay'"), 0);
    buf_done(&text);
}

/* In the grant of a whole database an underscore would stand for any character. */
static void a_database_of_any_name_is_quoted(void **state)
{
    struct buf text = {0};

    (void)state;
    settings_reset();
    snprintf(settings.mysql.database, sizeof(settings.mysql.database), "a_b`c%%");
    settings.sink = settings.mysql;
    grants_put(&text, &settings, false);
    assert_int_equal(count_of(&text, " ON `a\\_b``c\\%`.* TO "), 4);
    assert_int_equal(count_of(&text, " ON `a_b``c%`.vote_state TO "), 3);
    buf_done(&text);
}

static void a_role_alone_is_guarded_by_its_tables(void **state)
{
    const struct grants_choice choice = {.role = "relay", .password = "it's"};
    struct buf text = {0};
    const char *note;
    const char *guard;
    const char *user;
    const char *grant;

    (void)state;
    settings_reset();
    snprintf(settings.mysql.database, sizeof(settings.mysql.database), "a'b");
    settings.sink = settings.mysql;
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    note = strstr(buf_text(&text), "SELECT CONCAT('missing in database ', 'a''b'");
    guard = strstr(buf_text(&text), "(SELECT 1 FROM `a'b`.schema_history LIMIT 0) UNION ALL ");
    user = strstr(buf_text(&text),
                  "CREATE USER IF NOT EXISTS 'tallybox_relay'@'%' IDENTIFIED BY 'it''s';\n"
                  "ALTER USER 'tallybox_relay'@'%' IDENTIFIED BY 'it''s';\n");
    grant = strstr(buf_text(&text), "GRANT SELECT, DELETE ON `a'b`.outbox TO 'tallybox_relay'@'%'");
    assert_true(note && guard && user && grant);
    assert_true(note < guard && guard < user && user < grant);
    assert_int_equal(count_of(&text, "'outbox'"), 1);
    assert_int_equal(count_of(&text, " TO 'tallybox_relay'"), count_of(&text, "GRANT "));
    buf_done(&text);
}

/* The same host and port, as far as the settings say; also a socket is a server. */
static void two_databases_on_one_server_share_the_account(void **state)
{
    const struct grants_choice choice = {.role = "retry", .password = "x", .sink_password = "y"};
    struct buf text = {0};
    const char *first;
    const char *second;
    const char *user;

    (void)state;
    settings_reset();
    snprintf(settings.sink.database, sizeof(settings.sink.database), "e");
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    assert_int_equal(count_of(&text, "CREATE USER"), 1);
    assert_int_equal(count_of(&text, "-- On the database d at h:3306.\n"), 1);
    assert_int_equal(count_of(&text, "-- On the database e at h:3306.\n"), 1);
    /* What is missing in either stops the client before the account exists. */
    first = strstr(buf_text(&text), "SELECT CONCAT('missing in database ', 'd'");
    second = strstr(buf_text(&text), "SELECT CONCAT('missing in database ', 'e'");
    user = strstr(buf_text(&text), "CREATE USER IF NOT EXISTS 'tallybox_retry'@'%' IDENTIFIED BY ");
    assert_true(first && second && user);
    assert_true(first < second && second < user && user < strstr(buf_text(&text), "GRANT "));
    assert_int_equal(count_of(&text, "ON d.retry_attempt TO 'tallybox_retry'"), 1);
    assert_int_equal(count_of(&text, "ON e.vote_document TO 'tallybox_retry'"), 1);
    buf_done(&text);
}

static void two_servers_have_an_account_each(void **state)
{
    const struct grants_choice choice = {.role = "retry", .password = "x", .sink_password = "y"};
    struct buf text = {0};
    const char *second;

    (void)state;
    settings_reset();
    settings.sink.port = 3307;
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    second = strstr(buf_text(&text), "-- On the database d at h:3307.\n");
    assert_non_null(second);
    assert_int_equal(count_of(&text, "CREATE USER"), 2);
    assert_true(strstr(buf_text(&text), "IDENTIFIED BY 'x';\n") < second);
    assert_non_null(strstr(second, "IDENTIFIED BY 'y';\n"));
    buf_done(&text);
}

/* The account of another installation must not lose its password. */
static void an_account_that_exists_ends_the_client_before_a_new_password(void **state)
{
    struct grants_choice choice = {
        .role = "relay", .password = "x", .is_new_account = true, .has_section = true};
    struct buf text = {0};
    const char *note;
    const char *user;

    (void)state;
    settings_reset();
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    note =
        strstr(buf_text(&text), "SELECT 'the account ''tallybox_relay''@''%'' exists and keeps ");
    user = strstr(buf_text(&text), "CREATE USER 'tallybox_relay'@'%' IDENTIFIED BY 'x';\n");
    assert_true(note && user && note < user);
    assert_non_null(strstr(note, " let [role.relay] of the settings file have its name and "));
    assert_non_null(strstr(note, " WHERE grantee = '''tallybox_relay''@''%''' LIMIT 1;\n"));
    assert_int_equal(count_of(&text, "ALTER USER"), 0);
    buf_done(&text);
    /* No section of the settings file is an application's. */
    choice.role = "application";
    choice.has_section = false;
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    assert_int_equal(count_of(&text, "[role."), 0);
    assert_int_equal(count_of(&text, " Run this again without --create-user, or "), 1);
    buf_done(&text);
}

static void every_statement_names_the_account_that_was_chosen(void **state)
{
    struct grants_account account;
    const struct grants_choice choice = {.role = "relay", .account = account.sql, .password = "x"};
    struct buf text = {0};

    (void)state;
    settings_reset();
    lanes_set("outbox", "shop");
    assert_int_equal(grants_account_read(&account, "it's@10.0.0.%", NULL), RC_OK);
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    assert_int_equal(count_of(&text, "tallybox_relay"), 0);
    assert_int_equal(count_of(&text, "USER IF NOT EXISTS 'it''s'@'10.0.0.%' IDENTIFIED"), 1);
    assert_int_equal(count_of(&text, "ALTER USER 'it''s'@'10.0.0.%' IDENTIFIED BY 'x';\n"), 1);
    assert_int_equal(count_of(&text, " TO 'it''s'@'10.0.0.%';\n"), count_of(&text, "GRANT "));
    assert_int_equal(count_of(&text, "ON d.shop TO"), 1);
    assert_int_equal(count_of(&text, "GRANT PROCESS ON *.* TO 'it''s'@'10.0.0.%';"), 1);
    buf_done(&text);
}

static void an_account_is_read_with_and_without_quotes_and_host(void **state)
{
    static const char *const cases[][3] = {
        {"shop", "shop", "'shop'@'%'"},
        {"shop@localhost", "shop", "'shop'@'localhost'"},
        {"'shop'@'localhost'", "shop", "'shop'@'localhost'"},
        {"`a b`@\"::1\"", "a b", "'a b'@'::1'"},
        {"me@firm@%", "me@firm", "'me@firm'@'%'"},
        {"'", "'", "''''@'%'"},
    };
    static const char *const wrong[] = {"", "@localhost", "shop@", "''@h", "shop@''", "a\nb"};
    struct grants_account account;
    char longest[GRANTS_USER_SIZE + 1];
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(grants_account_read(&account, cases[i][0], &err), RC_OK);
        assert_string_equal(account.user, cases[i][1]);
        assert_string_equal(account.sql, cases[i][2]);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(grants_account_read(&account, wrong[i], &err), RC_REJECT);
    assert_non_null(strstr(err.text, "expected USER or USER@HOST"));
    memset(longest, '\\', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    assert_int_equal(grants_account_read(&account, longest, &err), RC_REJECT);
    longest[sizeof(longest) - 2] = '\0';
    assert_int_equal(grants_account_read(&account, longest, &err), RC_OK);
}

static void a_role_without_vote_tables_gets_no_rights_on_them(void **state)
{
    const struct grants_choice choice = {.role = "retry", .outbox_only = true};
    const struct grants_choice serve = {.role = "serve", .outbox_only = true};
    struct buf text = {0};

    (void)state;
    settings_reset();
    snprintf(settings.sink.database, sizeof(settings.sink.database), "e");
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    assert_int_equal(grants_put_role(&text, &settings, &serve, NULL), RC_OK);
    assert_int_equal(count_of(&text, "ON d.retry_attempt TO 'tallybox_retry'"), 1);
    assert_int_equal(count_of(&text, "e."), 0);
    assert_int_equal(count_of(&text, "vote_"), 0);
    assert_int_equal(count_of(&text, "CREATE USER"), 0);
    buf_done(&text);
}

/* In the list it is a statement of its own, which an operator leaves out for a table without the
 * column; for a role the server decides. */
static void a_lane_may_lack_created_at(void **state)
{
    const struct grants_choice choice = {.role = "status"};
    struct buf text = {0};

    (void)state;
    settings_reset();
    lanes_set("outbox", "shop");
    grants_put(&text, &settings, false);
    assert_int_equal(count_of(&text, "GRANT SELECT (created_at) ON d.shop TO 'tallybox_status'"),
                     1);
    assert_int_equal(count_of(&text, "GRANT SELECT (seq) ON d.shop TO 'tallybox_status'"), 1);
    buf_reset(&text);
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    assert_int_equal(count_of(&text, "\nGRANT SELECT (created_at) "), 0);
    assert_int_equal(count_of(&text, "\nGRANT SELECT (seq) ON d.shop TO 'tallybox_status'@'%';\n"),
                     1);
    assert_int_equal(
        count_of(
            &text,
            "\nSET @tallybox = (SELECT IF(COUNT(*) > 0, 'GRANT SELECT (created_at) ON d.shop TO "
            "''tallybox_status''@''%''', 'DO 0') FROM information_schema.columns WHERE "
            "table_schema = 'd' AND table_name = 'shop' AND column_name = 'created_at');\n"
            "PREPARE tallybox FROM @tallybox;\nEXECUTE tallybox;\n"),
        1);
    buf_done(&text);
}

static void a_role_for_the_whole_database_needs_no_table(void **state)
{
    const struct grants_choice choice = {.role = "migrate", .password = "x"};
    struct buf text = {0};

    (void)state;
    settings_reset();
    assert_int_equal(grants_put_role(&text, &settings, &choice, NULL), RC_OK);
    assert_int_equal(count_of(&text, "SELECT 1 FROM"), 0);
    assert_int_equal(count_of(&text, "DROP ON d.* TO 'tallybox_migrate'@'%';"), 1);
    buf_done(&text);
}

static void an_unknown_role_is_refused_with_the_nearest_one(void **state)
{
    const struct grants_choice choice = {.role = "relya"};
    struct buf text = {0};
    struct err err = {0};

    (void)state;
    settings_reset();
    assert_int_equal(grants_put_role(&text, &settings, &choice, &err), RC_REJECT);
    assert_non_null(strstr(err.text, "did you mean \"relay\"?"));
    assert_int_equal(text.len, 0);
    buf_done(&text);
}

/* The grants of run are those of its roles, no more and no fewer. */
static void run_has_the_rights_of_its_roles(void **state)
{
    static const char *const roles[] = {"serve'",   "relay'",  "retry'",
                                        "consume'", "rollup'", "housekeep'"};
    struct buf text = {0};
    char *rest = NULL;
    char *copy;
    size_t run = 0;
    size_t parts = 0;

    (void)state;
    settings_reset();
    grants_put(&text, &settings, false);
    copy = strdup(buf_text(&text));
    assert_non_null(copy);
    for (char *line = strtok_r(copy, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *to = strstr(line, " TO 'tallybox_");

        if (strncmp(line, "GRANT ", 6) != 0)
            continue;
        assert_non_null(to);
        *to = '\0';
        run += strncmp(to + 14, "run'", 4) == 0;
        for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
            char words[600];

            if (strncmp(to + 14, roles[i], strlen(roles[i])) != 0)
                continue;
            snprintf(words, sizeof(words), "%s TO 'tallybox_run'@'%%';", line);
            if (count_of(&text, words) != 1)
                fail_msg("run lacks: %s", words);
            parts++;
        }
    }
    /* The six read schema_history and write instance alike, consume and housekeep read
     * installation; relay and retry have another right in common, retry and consume four, serve and
     * retry two, relay and consume two. */
    assert_int_equal(run, parts - 20);
    free(copy);
    buf_done(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_database_gets_each_right_once),
        cmocka_unit_test(two_databases_get_the_rights_of_their_side),
        cmocka_unit_test(every_lane_gets_its_rights),
        cmocka_unit_test(a_database_of_any_name_is_quoted),
        cmocka_unit_test(a_role_alone_is_guarded_by_its_tables),
        cmocka_unit_test(two_databases_on_one_server_share_the_account),
        cmocka_unit_test(two_servers_have_an_account_each),
        cmocka_unit_test(an_account_that_exists_ends_the_client_before_a_new_password),
        cmocka_unit_test(every_statement_names_the_account_that_was_chosen),
        cmocka_unit_test(an_account_is_read_with_and_without_quotes_and_host),
        cmocka_unit_test(a_role_without_vote_tables_gets_no_rights_on_them),
        cmocka_unit_test(a_lane_may_lack_created_at),
        cmocka_unit_test(a_role_for_the_whole_database_needs_no_table),
        cmocka_unit_test(an_unknown_role_is_refused_with_the_nearest_one),
        cmocka_unit_test(run_has_the_rights_of_its_roles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
