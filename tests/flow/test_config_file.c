/* SPDX-License-Identifier: MIT */
#include "common/config/config_command.h"

#include "common/config/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Every test runs in an empty folder of its own and writes ./t.ini there. */
#define FILE_NAME "t.ini"

static char folder[] = "/tmp/tallybox-config-XXXXXX";

static void write_file(const char *name, const void *bytes, size_t len)
{
    FILE *file = fopen(name, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static enum rc load(struct config **config, const char *text, struct err *err)
{
    write_file(FILE_NAME, text, strlen(text));
    return config_load(config, NULL, FILE_NAME, NULL, 0, NULL, err);
}

static struct config *loaded(const char *text)
{
    struct config *config = NULL;
    struct err err = {0};

    if (load(&config, text, &err) != RC_OK)
        fail_msg("%s", err.text);
    return config;
}

static void refused(const char *text, const char *sentence)
{
    struct config *config = NULL;
    struct err err = {0};

    assert_int_equal(load(&config, text, &err), RC_FATAL);
    assert_null(config);
    assert_string_equal(err.text, sentence);
}

static int enter_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) && chdir(folder) == 0 ? 0 : -1;
}

static int leave_folder(void **state)
{
    (void)state;
    unlink(FILE_NAME);
    unlink("tallybox.ini");
    unlink("password");
    return chdir("/") == 0 && rmdir(folder) == 0 ? 0 : -1;
}

static void keys_may_be_indented_and_commented(void **state)
{
    struct config *config = loaded("; first\n"
                                   "# second\n"
                                   "\n"
                                   "  [mysql]   ; the writing side\n"
                                   "  host = db1\n"
                                   "\tport=3307 ; not the usual one\r\n"
                                   "   password = a;b#c = d\n"
                                   "user : carol\n"
                                   "[relay]\n"
                                   "ce_source =\ttwo words\t\n");
    const struct settings *settings = config_settings(config);

    (void)state;
    assert_string_equal(settings->mysql.host, "db1");
    assert_int_equal(settings->mysql.port, 3307);
    assert_string_equal(settings->mysql.password, "a;b#c = d");
    assert_string_equal(settings->mysql.user, "carol");
    assert_string_equal(settings->relay.ce_source, "two words");
    config_free(config);
}

static void a_section_may_come_back(void **state)
{
    struct config *config = loaded("[relay]\npoll_ms = 1\n[api]\ncommitters = 3\n"
                                   "[relay]\nlease_ms = 9000");

    (void)state;
    assert_int_equal(config_settings(config)->relay.poll_ms, 1);
    assert_int_equal(config_settings(config)->relay.lease_ms, 9000);
    config_free(config);
}

static void a_byte_order_mark_is_skipped(void **state)
{
    struct config *config = loaded("\xef\xbb\xbf[relay]\npoll_ms = 1\n");

    (void)state;
    assert_int_equal(config_settings(config)->relay.poll_ms, 1);
    config_free(config);
}

/* The longest text of every length around the pieces that lines are cut into. */
static void long_values_arrive_whole(void **state)
{
    static char text[2 * KAFKA_VALUE_SIZE];
    static char value[KAFKA_VALUE_SIZE];

    (void)state;
    for (size_t len = 150; len < KAFKA_VALUE_SIZE; len += len < 450 ? 1 : 191) {
        struct config *config;

        for (size_t i = 0; i < len; i++)
            value[i] = "ab; c =:#d"[i % 10];
        value[0] = 'x';
        value[len - 1] = 'x';
        for (size_t i = 1; i < len; i++)
            if (value[i] == ';' && value[i - 1] == ' ')
                value[i] = 'y';
        value[len] = '\0';
        snprintf(text, sizeof(text), "[kafka]\n%s = %s ; %.200s\n", "a.name", value, value);
        config = loaded(text);
        assert_string_equal(config_settings(config)->kafka.properties[1].value, value);
        config_free(config);
    }
}

static void a_long_name_arrives_whole(void **state)
{
    char name[KAFKA_NAME_SIZE];
    char value[200];
    char text[512];
    struct config *config;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    memset(value, 'v', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    snprintf(text, sizeof(text), "[kafka]\n%s=%s\n", name, value);
    config = loaded(text);
    assert_string_equal(config_settings(config)->kafka.properties[1].name, name);
    assert_string_equal(config_settings(config)->kafka.properties[1].value, value);
    config_free(config);
}

static void mistakes_name_their_line(void **state)
{
    (void)state;
    refused("[relay]\n\npoll_ms = 1\nleese_ms = 2\n",
            "t.ini:4: leese_ms is not a setting of [relay]; did you mean lease_ms?");
    refused("[relay]\nlease_ms = 1",
            "t.ini:2: relay.lease_ms: 1 is out of range; expected 2000..3600000");
    refused("[relai]\n", "t.ini:1: [relai] is not a section; did you mean [relay]?");
    refused("\nlease_ms = 1\n", "t.ini:2: expected a [section] before the first key");
    refused("[relay]\nlease_ms\n", "t.ini:2: expected key = value, or [section]");
    refused("[relay]\nlanes = a,\n   b\n", "t.ini:2: relay.lanes: \"\" is not the name of a lane; "
                                           "expected a-z, 0-9 and _, 64 at most, separated by "
                                           "commas");
    refused("[relay]\nlanes = a\n   b\n", "t.ini:3: expected key = value, or [section]");
    refused("[relay\nlease_ms = 1\n", "t.ini:1: expected [section] alone on its line");
    refused("[relay] lease_ms = 1\n", "t.ini:1: expected [section] alone on its line");
    refused("[relay]\n= 1\n", "t.ini:2:  is not a setting of [relay]; `tallybox config --defaults` "
                              "shows them all");
}

static void each_lane_has_its_section(void **state)
{
    struct config *config = loaded("[lane.shop_events]\ntopics = order=orders\n"
                                   "[relay]\nlanes = outbox, shop_events\n"
                                   "[lane.outbox]\n"
                                   "[lane.shop_events]\ntable = Shop\n");
    const struct settings *settings = config_settings(config);

    (void)state;
    assert_int_equal(settings->lane_count, 2);
    assert_string_equal(settings->lanes[0].table, "outbox");
    assert_string_equal(settings->lanes[0].topics, "vote=vote-events");
    assert_string_equal(settings->lanes[1].table, "Shop");
    assert_string_equal(settings->lanes[1].topics, "order=orders");
    config_free(config);
}

/* A name of 64 bytes makes a heading that is longer than libinih's sections. */
static void a_long_name_of_a_lane_arrives_whole(void **state)
{
    char name[65];
    char text[256];
    struct config *config;

    (void)state;
    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(text, sizeof(text), "[relay]\nlanes = %s\n[lane.%s]\ntable = t\n", name, name);
    config = loaded(text);
    assert_string_equal(config_settings(config)->lanes[0].name, name);
    assert_string_equal(config_settings(config)->lanes[0].table, "t");
    config_free(config);
}

static void mistakes_in_lanes_name_their_line(void **state)
{
    (void)state;
    refused("[lane.outbox]\n\ntabel = x\n",
            "t.ini:3: tabel is not a setting of [lane.outbox]; did you mean table?");
    refused("[lane.outbox]\nsource = log\n",
            "t.ini:2: lane.outbox.source: \"log\" is not one of: table|binlog");
    refused("[relay]\nlanes = a\n[lane.outbox]\n",
            "t.ini:3: [lane.outbox]: relay.lanes = a does not list the lane");
    refused("[lane.b]\ntable = a\n[relay]\nlanes = a,b\n",
            "t.ini:2: lane.b.table: \"a\" is the table of lane a, too; expected one lane for each "
            "table");
    refused("[lane.a]\ntable = x\n[relay]\nlanes = a\n[lane.a]\ntable = y\n",
            "t.ini:6: lane.a.table: is set in line 2 already");
    refused("[lane.]\n", "t.ini:1: [lane.]: \"\" is not the name of a lane; expected a-z, 0-9 and "
                         "_, 64 at most");
    refused("[lane.a-b]\n", "t.ini:1: [lane.a-b]: \"a-b\" is not the name of a lane; expected a-z, "
                            "0-9 and _, 64 at most");
    refused("[lane]\n", "t.ini:1: [lane] is not a section; did you mean [lane.NAME]?");
}

static void the_first_of_two_mistakes_is_named(void **state)
{
    (void)state;
    refused("[relay]\nlease_ms = x\nnonsense\n[what]\n",
            "t.ini:2: relay.lease_ms: \"x\" is not a whole number; expected 2000..3600000");
}

static void a_key_occurs_once_in_a_file(void **state)
{
    (void)state;
    refused("[relay]\nlease_ms = 9000\n[api]\n[relay]\nlease_ms = 9000\n",
            "t.ini:5: relay.lease_ms: is set in line 2 already");
    refused("[kafka]\nlinger.ms = 1\nlinger.ms = 1\n",
            "t.ini:3: kafka.linger.ms: is set in line 2 already");
}

static void a_line_that_is_too_long_is_refused(void **state)
{
    static char text[8192] = "[mysql]\nhost = ";

    (void)state;
    memset(text + strlen(text), 'x', 4000);
    refused(text, "t.ini:2: the line is too long; expected less than 1500 bytes");
}

static void a_file_of_zero_bytes_is_no_settings_file(void **state)
{
    struct config *config = NULL;
    struct err err = {0};

    (void)state;
    write_file(FILE_NAME, "\xff\xfe[\0r\0]\0", 8);
    assert_int_equal(config_load(&config, NULL, FILE_NAME, NULL, 0, NULL, &err), RC_FATAL);
    assert_string_equal(err.text, "t.ini:1: holds a zero byte; expected a text file in UTF-8");
}

static void too_many_blanks_in_a_long_line_are_refused(void **state)
{
    char text[512];

    (void)state;
    snprintf(text, sizeof(text), "[relay]\nsource = x%300sy\n", "");
    refused(text, "t.ini:2: the line has too many blanks in a row");
}

static void a_named_file_must_be_there(void **state)
{
    struct config *config = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(config_load(&config, NULL, "absent.ini", NULL, 0, NULL, &err), RC_FATAL);
    assert_string_equal(err.text, "cannot open absent.ini: No such file or directory");
    assert_int_equal(config_load(&config, NULL, ".", NULL, 0, NULL, &err), RC_FATAL);
    assert_string_equal(err.text, ".:1: cannot be read; is it a file?");
}

static void the_file_of_the_folder_is_read_when_it_is_there(void **state)
{
    struct config *config = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(config_load(&config, NULL, NULL, NULL, 0, NULL, &err), RC_OK);
    config_free(config);
    write_file("tallybox.ini", "[api]\ncommitters = 7\n", 21);
    assert_int_equal(config_load(&config, NULL, NULL, NULL, 0, NULL, &err), RC_OK);
    assert_int_equal(config_settings(config)->api.committers, 7);
    config_free(config);
}

static void environment_and_set_win_over_the_file(void **state)
{
    const char *const sets[] = {"relay.poll_ms=3"};
    const char *const environment[] = {"TALLYBOX_RELAY_POLL_MS=2", "TALLYBOX_RELAY_LEASE_MS=9002",
                                       "TALLYBOX_KAFKA_LINGER_MS=2", NULL};
    const char *text = "[relay]\npoll_ms = 1\nlease_ms = 9001\nfull_scan_ms = 1001\n"
                       "[kafka]\nlinger.ms = 1\n";
    struct config *config = NULL;
    struct err err = {0};
    struct buf out = {0};

    (void)state;
    write_file(FILE_NAME, text, strlen(text));
    assert_int_equal(config_load(&config, NULL, FILE_NAME, sets, 1, environment, &err), RC_OK);
    assert_int_equal(config_settings(config)->relay.poll_ms, 3);
    assert_int_equal(config_settings(config)->relay.lease_ms, 9002);
    assert_int_equal(config_settings(config)->relay.full_scan_ms, 1001);
    assert_int_equal(config_settings(config)->kafka.count, 2);
    assert_string_equal(config_settings(config)->kafka.properties[1].value, "2");
    config_print(config, &out);
    assert_non_null(strstr(buf_text(&out), "; t.ini:4\n"));
    buf_done(&out);
    config_free(config);
}

static struct config *loaded_for(const char *role, const char *text, const char *const *environment)
{
    struct config *config = NULL;
    struct err err = {0};

    write_file(FILE_NAME, text, strlen(text));
    if (config_load(&config, role, FILE_NAME, NULL, 0, environment, &err) != RC_OK)
        fail_msg("%s", err.text);
    return config;
}

static void error_texts_name_the_place_of_the_database_and_of_the_account(void **state)
{
    static const char text[] = "[mysql]\nuser = tally\ndatabase = shop\n"
                               "[role.relay]\nmysql.user = relay\n";
    const char *const environment[] = {"TALLYBOX_MYSQL_USER=mine", NULL};
    struct config *config = loaded_for("verify", text, NULL);
    const struct settings *settings = config_settings(config);

    (void)state;
    assert_string_equal(settings->mysql.database_place, "mysql.database (t.ini:3)");
    assert_string_equal(settings->sink.database_place, "mysql.database (t.ini:3)");
    assert_string_equal(
        settings->mysql.account_advice,
        "there is no [role.verify] in t.ini; `tallybox migrate grants --role verify "
        "--create-user | mariadb` makes its account");
    assert_string_equal(settings->sink.account_advice, settings->mysql.account_advice);
    config_free(config);
    config = loaded_for("relay", text, NULL);
    assert_string_equal(config_settings(config)->mysql.account_advice, "");
    config_free(config);
    config = loaded_for(NULL, text, NULL);
    assert_string_equal(config_settings(config)->mysql.account_advice, "");
    config_free(config);
    config = loaded_for("verify", text, environment);
    assert_string_equal(config_settings(config)->mysql.account_advice, "");
    config_free(config);
}

static const char roles_text[] = "[role.relay]\n"
                                 "admin.listen = 127.0.0.1:9470\n"
                                 "mysql.user = relay\n"
                                 "kafka.client.id = of-relay\n"
                                 "lane.outbox.table = other\n"
                                 "[admin]\n"
                                 "listen = 127.0.0.1:9500\n"
                                 "[role.retry]\n"
                                 "mysql.user = retry\n"
                                 "mysql.password = geheim\n"
                                 "[mysql]\n"
                                 "user = all\n";

static void a_role_reads_its_own_section(void **state)
{
    struct config *config = loaded_for("relay", roles_text, NULL);

    (void)state;
    assert_string_equal(config_settings(config)->admin.listen, "127.0.0.1:9470");
    assert_string_equal(config_settings(config)->mysql.user, "relay");
    assert_string_equal(config_settings(config)->mysql.password, "");
    assert_string_equal(config_settings(config)->kafka.properties[1].value, "of-relay");
    assert_string_equal(config_settings(config)->lanes[0].table, "other");
    config_free(config);
    config = loaded_for("serve", roles_text, NULL);
    assert_string_equal(config_settings(config)->admin.listen, "127.0.0.1:9500");
    assert_string_equal(config_settings(config)->mysql.user, "all");
    assert_int_equal(config_settings(config)->kafka.count, 1);
    assert_true(config_has_role(config, "retry"));
    assert_false(config_has_role(config, "serve"));
    config_free(config);
}

static void the_environment_wins_over_the_section_of_a_role(void **state)
{
    const char *const environment[] = {"TALLYBOX_MYSQL_USER=two", NULL};
    struct config *config = loaded_for("relay", roles_text, environment);

    (void)state;
    assert_string_equal(config_settings(config)->mysql.user, "two");
    config_free(config);
}

static void sections_of_roles_are_printed_without_secrets(void **state)
{
    struct config *config = loaded_for(NULL, roles_text, NULL);
    struct buf out = {0};

    (void)state;
    config_print(config, &out);
    assert_non_null(strstr(buf_text(&out), "\n[role.relay]\nadmin.listen = 127.0.0.1:9470 "));
    assert_non_null(strstr(buf_text(&out), "; t.ini:2\n"));
    assert_non_null(strstr(buf_text(&out), "\nmysql.password = *** "));
    assert_null(strstr(buf_text(&out), "geheim"));
    buf_reset(&out);
    config_print_json(config, &out);
    assert_non_null(strstr(buf_text(&out), "\"role.relay.lane.outbox.table\": {"));
    buf_done(&out);
    config_free(config);
    config = loaded_for("relay", roles_text, NULL);
    config_print(config, &out);
    assert_non_null(strstr(buf_text(&out), "\nlisten = 127.0.0.1:9470 "));
    assert_null(strstr(buf_text(&out), "[role."));
    buf_done(&out);
    config_free(config);
}

static void a_mistake_of_any_role_is_found(void **state)
{
    (void)state;
    refused("[role.relais]\n",
            "t.ini:1: [role.relais]: there is no such role; did you mean [role.relay]?");
    refused("[role.cat]\n", "t.ini:1: [role.cat]: there is no such role; `tallybox config "
                            "--defaults` names them");
    refused("[role.relay]\nlisten = off\n",
            "t.ini:2: role.relay.listen: expected section.key = value, as in admin.listen = off");
    refused("[role.relay]\nadmin.lisen = off\n",
            "t.ini:2: lisen is not a setting of [admin]; did you mean listen?");
    refused("[role.relay]\nadmi.listen = off\n",
            "t.ini:2: [admi] is not a section; did you mean [admin]?");
    refused("[role.relay]\napi.committers = many\n",
            "t.ini:2: api.committers: \"many\" is not a whole number; expected 1..64");
    refused("[role.relay]\napi.committers = 2\n[api]\n[role.relay]\napi.committers = 2\n",
            "t.ini:5: role.relay.api.committers: is set in line 2 already");
    refused("[role.relay]\nrole.retry.mysql.user = a\n",
            "t.ini:2: [role] is not a section; did you mean [role.NAME]?");
}

static void a_role_replaces_the_password_of_either_kind(void **state)
{
    const char *text = "[mysql]\npassword_file = password\n"
                       "[role.relay]\nmysql.password = two\n";
    struct config *config;

    (void)state;
    write_file("password", "one\n", 4);
    config = loaded_for("relay", text, NULL);
    assert_string_equal(config_settings(config)->mysql.password, "two");
    config_free(config);
    config = loaded_for("retry", text, NULL);
    assert_string_equal(config_settings(config)->mysql.password, "one");
    config_free(config);
    config = loaded_for("relay",
                        "[role.relay]\nmysql.password_file = password\n"
                        "[mysql]\npassword = three\n",
                        NULL);
    assert_string_equal(config_settings(config)->mysql.password, "one");
    config_free(config);
}

static void a_password_is_the_line_of_its_file(void **state)
{
    static const char *const texts[] = {"geheim", "geheim\n", "geheim\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct config *config;
        struct buf out = {0};

        write_file("password", texts[i], strlen(texts[i]));
        config = loaded("[mysql]\npassword_file = password\n");
        assert_string_equal(config_settings(config)->mysql.password, "geheim");
        assert_string_equal(config_settings(config)->sink.password, "geheim");
        config_print(config, &out);
        assert_non_null(strstr(buf_text(&out), "; the file in mysql.password_file\n"));
        assert_null(strstr(buf_text(&out), "geheim"));
        buf_done(&out);
        config_free(config);
    }
}

static void the_sink_has_its_own_password(void **state)
{
    struct config *config;

    (void)state;
    write_file("password", "one\n", 4);
    config = loaded("[mysql]\npassword = two\n[sink]\npassword_file = password\n");
    assert_string_equal(config_settings(config)->mysql.password, "two");
    assert_string_equal(config_settings(config)->sink.password, "one");
    config_free(config);
    config = loaded("[mysql]\npassword_file = password\n[sink]\npassword = two\n");
    assert_string_equal(config_settings(config)->mysql.password, "one");
    assert_string_equal(config_settings(config)->sink.password, "two");
    assert_string_equal(config_settings(config)->sink.password_file, "");
    config_free(config);
}

static void a_longest_password_fits(void **state)
{
    char text[SETTING_TEXT_SIZE + 8];
    struct config *config;

    (void)state;
    memset(text, 'p', sizeof(text));
    text[SETTING_TEXT_SIZE - 1] = '\r';
    text[SETTING_TEXT_SIZE] = '\n';
    write_file("password", text, SETTING_TEXT_SIZE + 1);
    config = loaded("[mysql]\npassword_file = password\n");
    assert_int_equal(strlen(config_settings(config)->mysql.password), SETTING_TEXT_SIZE - 1);
    config_free(config);
}

static void a_password_file_must_hold_one_password(void **state)
{
    char text[2 * SETTING_TEXT_SIZE];
    const char *ini = "[mysql]\npassword_file = password\n";

    (void)state;
    unlink("password");
    refused(ini, "t.ini:2: mysql.password_file: cannot open password: No such file or directory");
    write_file("password", "\n", 1);
    refused(ini, "t.ini:2: mysql.password_file: password is empty");
    write_file("password", "a\nb\n", 4);
    refused(ini, "t.ini:2: mysql.password_file: password holds more than one line of text");
    memset(text, 'p', sizeof(text));
    write_file("password", text, SETTING_TEXT_SIZE);
    refused(ini, "t.ini:2: mysql.password_file: password is too long; expected a password of 255 "
                 "bytes at most");
    text[SETTING_TEXT_SIZE - 1] = '\n';
    write_file("password", text, sizeof(text));
    refused(ini, "t.ini:2: mysql.password_file: password holds more than one line of text");
    refused("[mysql]\npassword_file = .\n",
            "t.ini:2: mysql.password_file: cannot read .; is it a file?");
}

static void a_password_and_its_file_exclude_each_other(void **state)
{
    (void)state;
    write_file("password", "x", 1);
    refused("[mysql]\npassword = x\npassword_file = password\n",
            "t.ini:3: mysql.password_file: and mysql.password (t.ini:2) are both set; expected "
            "one of them");
}

/* But for the places of their values, which error texts name. */
static void assert_same_settings(const struct config *one, const struct config *other)
{
    struct settings *copies = calloc(2, sizeof(*copies));

    assert_non_null(copies);
    copies[0] = *config_settings(one);
    copies[1] = *config_settings(other);
    for (size_t i = 0; i < 2; i++) {
        memset(copies[i].mysql.database_place, 0, SETTING_TEXT_SIZE);
        memset(copies[i].sink.database_place, 0, SETTING_TEXT_SIZE);
    }
    assert_memory_equal(&copies[0], &copies[1], sizeof(*copies));
    free(copies);
}

static void the_defaults_load_back_as_they_are(void **state)
{
    struct buf out = {0};
    struct config *config;
    struct config *defaults = loaded("");

    (void)state;
    config_print_defaults(&out);
    config = loaded(buf_text(&out));
    assert_same_settings(config, defaults);
    buf_done(&out);
    config_free(config);
    config_free(defaults);
}

static void printed_settings_load_back(void **state)
{
    struct buf out = {0};
    struct config *again;
    struct config *config = loaded("[relay]\nlanes = outbox,outbox_1\nlease_ms = 9000\n"
                                   "[kafka]\nclient.id = x\nproducer.linger.ms = 3\n"
                                   "client.rack =;x\n");

    (void)state;
    config_print(config, &out);
    again = loaded(buf_text(&out));
    assert_same_settings(config, again);
    buf_done(&out);
    config_free(config);
    config_free(again);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_may_be_indented_and_commented),
        cmocka_unit_test(a_section_may_come_back),
        cmocka_unit_test(a_byte_order_mark_is_skipped),
        cmocka_unit_test(long_values_arrive_whole),
        cmocka_unit_test(a_long_name_arrives_whole),
        cmocka_unit_test(mistakes_name_their_line),
        cmocka_unit_test(each_lane_has_its_section),
        cmocka_unit_test(a_long_name_of_a_lane_arrives_whole),
        cmocka_unit_test(mistakes_in_lanes_name_their_line),
        cmocka_unit_test(the_first_of_two_mistakes_is_named),
        cmocka_unit_test(a_key_occurs_once_in_a_file),
        cmocka_unit_test(a_line_that_is_too_long_is_refused),
        cmocka_unit_test(a_file_of_zero_bytes_is_no_settings_file),
        cmocka_unit_test(too_many_blanks_in_a_long_line_are_refused),
        cmocka_unit_test(a_named_file_must_be_there),
        cmocka_unit_test(the_file_of_the_folder_is_read_when_it_is_there),
        cmocka_unit_test(error_texts_name_the_place_of_the_database_and_of_the_account),
        cmocka_unit_test(environment_and_set_win_over_the_file),
        cmocka_unit_test(a_role_reads_its_own_section),
        cmocka_unit_test(the_environment_wins_over_the_section_of_a_role),
        cmocka_unit_test(sections_of_roles_are_printed_without_secrets),
        cmocka_unit_test(a_mistake_of_any_role_is_found),
        cmocka_unit_test(a_role_replaces_the_password_of_either_kind),
        cmocka_unit_test(a_password_is_the_line_of_its_file),
        cmocka_unit_test(the_sink_has_its_own_password),
        cmocka_unit_test(a_longest_password_fits),
        cmocka_unit_test(a_password_file_must_hold_one_password),
        cmocka_unit_test(a_password_and_its_file_exclude_each_other),
        cmocka_unit_test(the_defaults_load_back_as_they_are),
        cmocka_unit_test(printed_settings_load_back),
    };

    return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
