/* SPDX-License-Identifier: MIT */
#include "common/config/config_command.h"

#include "common/config/lane_texts.h"
#include "common/config/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* An empty file, so that a tallybox.ini where the tests run does not matter. */
static enum rc load(struct config **config, const char *const *sets, const char *const *environment,
                    struct err *err)
{
    size_t count = 0;

    while (sets && sets[count])
        count++;
    return config_load(config, NULL, "/dev/null", sets, count, environment, err);
}

#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define VARIABLES(...) ((const char *const[]){__VA_ARGS__, NULL})

static struct config *loaded(const char *const *sets, const char *const *environment)
{
    struct config *config = NULL;
    struct err err = {0};
    enum rc rc = load(&config, sets, environment, &err);

    if (rc != RC_OK)
        fail_msg("%s", err.text);
    return config;
}

static void refused(const char *const *sets, const char *const *environment, const char *sentence)
{
    struct config *config = NULL;
    struct err err = {0};

    assert_int_equal(load(&config, sets, environment, &err), RC_FATAL);
    assert_null(config);
    assert_string_equal(err.text, sentence);
}

static void every_default_is_valid(void **state)
{
    struct config *config = loaded(NULL, NULL);
    const struct settings *settings = config_settings(config);

    (void)state;
    assert_string_equal(settings->mysql.host, "127.0.0.1");
    assert_int_equal(settings->mysql.port, 3306);
    assert_int_equal(settings->relay.lease_ms, 15000);
    assert_string_equal(settings->consumer.topics, "vote-events");
    assert_string_equal(settings->log.level, "info");
    assert_int_equal(settings->kafka.count, 1);
    assert_string_equal(settings->kafka.properties[0].name, "bootstrap.servers");
    assert_string_equal(settings->kafka.properties[0].value, "127.0.0.1:9092");
    config_free(config);
}

static void every_entry_has_a_help_sentence_and_a_section(void **state)
{
    (void)state;
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];
        size_t len = strlen(setting->help);

        assert_non_null(setting_section_find(setting->section));
        assert_ptr_equal(setting_find(setting->section, setting->key), setting);
        assert_true(len > 10 && setting->help[len - 1] == '.');
        if (strstr(setting->key, "_ms"))
            assert_non_null(strstr(setting->help, "millisecond"));
        if (setting->kind == SETTING_NUMBER)
            assert_true(setting->low < setting->high);
    }
}

static void the_command_line_wins_over_the_environment(void **state)
{
    struct config *config =
        loaded(SETS("relay.lease_ms=20000"),
               VARIABLES("TALLYBOX_RELAY_LEASE_MS=30000", "TALLYBOX_RELAY_POLL_MS=7"));

    (void)state;
    assert_int_equal(config_settings(config)->relay.lease_ms, 20000);
    assert_int_equal(config_settings(config)->relay.poll_ms, 7);
    config_free(config);
}

static void the_last_of_two_sets_wins(void **state)
{
    struct config *config = loaded(SETS("api.committers=3", "api.committers=4"), NULL);

    (void)state;
    assert_int_equal(config_settings(config)->api.committers, 4);
    config_free(config);
}

static void any_kafka_property_passes_through(void **state)
{
    struct config *config =
        loaded(SETS("kafka.producer.linger.ms=5", "kafka.client.id=", "kafka.x.y==a=b"),
               VARIABLES("TALLYBOX_KAFKA_BOOTSTRAP_SERVERS=one:1,two:2"));
    const struct settings *settings = config_settings(config);

    (void)state;
    assert_int_equal(settings->kafka.count, 4);
    assert_string_equal(settings->kafka.properties[0].name, "bootstrap.servers");
    assert_string_equal(settings->kafka.properties[0].value, "one:1,two:2");
    assert_string_equal(settings->kafka.properties[1].name, "producer.linger.ms");
    assert_string_equal(settings->kafka.properties[1].value, "5");
    assert_string_equal(settings->kafka.properties[2].value, "");
    assert_string_equal(settings->kafka.properties[3].value, "=a=b");
    config_free(config);
}

static void too_many_kafka_properties_are_refused(void **state)
{
    char texts[KAFKA_PROPERTIES_MAX][32];
    const char *sets[KAFKA_PROPERTIES_MAX + 1] = {0};

    (void)state;
    for (int i = 0; i < KAFKA_PROPERTIES_MAX; i++) {
        snprintf(texts[i], sizeof(texts[i]), "kafka.p%d=1", i);
        sets[i] = texts[i];
    }
    refused(sets, NULL, "--set kafka.p63: is one property too many; expected 64 at most");
    sets[KAFKA_PROPERTIES_MAX - 1] = NULL;
    config_free(loaded(sets, NULL));
}

static void a_long_kafka_value_is_refused_with_a_way_out(void **state)
{
    char text[KAFKA_VALUE_SIZE + 32] = "kafka.ssl.ca.pem=";

    (void)state;
    memset(text + 17, 'x', KAFKA_VALUE_SIZE);
    refused(SETS(text), NULL,
            "--set kafka.ssl.ca.pem: is 1024 bytes long; expected 1023 at most (a certificate or "
            "key can be named by its file: ssl.ca.location ...)");
}

static void a_mistyped_key_names_the_nearest(void **state)
{
    (void)state;
    refused(SETS("relay.leese_ms=1"), NULL,
            "--set relay.leese_ms: leese_ms is not a setting of [relay]; did you mean lease_ms?");
    refused(SETS("relay.lease=1"), NULL,
            "--set relay.lease: lease is not a setting of [relay]; did you mean lease_ms?");
    refused(NULL, VARIABLES("TALLYBOX_RELAY_TYPO=1"),
            "environment TALLYBOX_RELAY_TYPO: typo is not a setting of [relay]; `tallybox config "
            "--defaults` shows them all");
    refused(SETS("mysql.lease_ms=1"), NULL,
            "--set mysql.lease_ms: lease_ms is not a setting of [mysql]; did you mean "
            "relay.lease_ms?");
    refused(SETS("relai.lease_ms=1"), NULL,
            "--set relai.lease_ms: [relai] is not a section; did you mean [relay]?");
    refused(SETS("quux.lease_ms=1"), NULL,
            "--set quux.lease_ms: [quux] is not a section; `tallybox config --defaults` shows "
            "them all");
}

static void variables_of_others_are_left_alone(void **state)
{
    struct config *config =
        loaded(NULL, VARIABLES("TALLYBOX_CACHE=/x", "TALLYBOX_BIN=/y", "TALLYBOX_BROKER=z",
                               "TALLYBOX_=", "TALLYBOX_MYSQLDUMP_OPTIONS=1", "PATH=/bin",
                               "TALLYBOX", "=", ""));

    (void)state;
    assert_int_equal(config_settings(config)->kafka.count, 1);
    config_free(config);
}

static void a_mistyped_section_in_a_variable_is_no_stranger(void **state)
{
    (void)state;
    refused(NULL, VARIABLES("TALLYBOX_RELAI_LEASE_MS=1"),
            "environment TALLYBOX_RELAI_LEASE_MS: no setting has this name; did you mean "
            "TALLYBOX_RELAY_LEASE_MS?");
    refused(NULL, VARIABLES("TALLYBOX_LOG=debug"),
            "environment TALLYBOX_LOG: names the section [log] but none of its keys");
}

static void a_bad_number_names_place_and_range(void **state)
{
    (void)state;
    refused(SETS("relay.lease_ms=15s"), NULL,
            "--set relay.lease_ms: \"15s\" is not a whole number; expected 2000..3600000");
    refused(SETS("relay.lease_ms="), NULL,
            "--set relay.lease_ms: \"\" is not a whole number; expected 2000..3600000");
    refused(SETS("relay.lease_ms= 15000"), NULL,
            "--set relay.lease_ms: \" 15000\" is not a whole number; expected 2000..3600000");
    refused(NULL, VARIABLES("TALLYBOX_MYSQL_PORT=65536"),
            "environment TALLYBOX_MYSQL_PORT: 65536 is out of range; expected 1..65535");
    refused(SETS("mysql.port=99999999999999999999"), NULL,
            "--set mysql.port: 99999999999999999999 is out of range; expected 1..65535");
}

static void a_bad_text_names_what_was_expected(void **state)
{
    char long_text[400] = "mysql.host=";

    (void)state;
    memset(long_text + 11, 'h', 256);
    refused(SETS(long_text), NULL, "--set mysql.host: is 256 bytes long; expected 255 at most");
    refused(SETS("mysql.user="), NULL, "--set mysql.user: must not be empty");
    refused(SETS("log.level=loud"), NULL,
            "--set log.level: \"loud\" is not one of: debug|info|warn|error");
    refused(SETS("log.level=debug|info"), NULL,
            "--set log.level: \"debug|info\" is not one of: debug|info|warn|error");
}

static void a_listen_address_has_a_port(void **state)
{
    static const char *const good[] = {"0.0.0.0:0", "localhost:65535", "[::1]:80", "[::]:9464"};
    static const char *const bad[] = {
        "8080",  ":8080",  "host:",  "host:65536", "host:1x",     "::1:80",     "[::1]",
        "[]:80", "a b:80", "[x]:80", "",           "host:123456", "http://a:80"};
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        snprintf(text, sizeof(text), "api.listen=%s", good[i]);
        config_free(loaded(SETS(text), NULL));
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct config *config = NULL;
        struct err err = {0};

        snprintf(text, sizeof(text), "api.listen=%s", bad[i]);
        assert_int_equal(load(&config, SETS(text), NULL, &err), RC_FATAL);
        assert_non_null(strstr(err.text, "is not an address and port"));
    }
}

static void only_the_admin_pages_can_be_off(void **state)
{
    (void)state;
    config_free(loaded(SETS("admin.listen=off"), NULL));
    refused(SETS("api.listen=off"), NULL,
            "--set api.listen: \"off\" is not an address and port; expected 127.0.0.1:8080, "
            "[::1]:8080 or the like");
}

static void only_the_admin_pages_look_for_a_free_port(void **state)
{
    static const char *const bad[] = {"127.0.0.1:0+", "127.0.0.1:9464++", "127.0.0.1:9464+1",
                                      "127.0.0.1:+"};

    (void)state;
    config_free(loaded(SETS("admin.listen=127.0.0.1:9464+"), NULL));
    config_free(loaded(SETS("admin.listen=[::1]:65535+"), NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct config *config = NULL;
        struct err err = {0};
        char text[64];

        snprintf(text, sizeof(text), "admin.listen=%s", bad[i]);
        assert_int_equal(load(&config, SETS(text), NULL, &err), RC_FATAL);
        assert_non_null(strstr(err.text, "is not an address and port"));
    }
    refused(SETS("api.listen=127.0.0.1:8080+"), NULL,
            "--set api.listen: \"127.0.0.1:8080+\" is not an address and port; expected "
            "127.0.0.1:8080, [::1]:8080 or the like");
}

static void sections_of_roles_are_for_the_file(void **state)
{
    (void)state;
    refused(SETS("role.relay.admin.listen=off"), NULL,
            "--set role.relay.admin.listen: sections of roles are for the settings file; this "
            "process needs --set section.key=value alone");
    refused(NULL, VARIABLES("TALLYBOX_ROLE_RETRY_ADMIN_MYSQL_USER=a"),
            "environment TALLYBOX_ROLE_RETRY_ADMIN_MYSQL_USER: sections of roles are for the "
            "settings file; set TALLYBOX_MYSQL_USER in the environment of that role's process");
    /* Of another program. */
    config_free(loaded(NULL, VARIABLES("TALLYBOX_ROLE=relay", "TALLYBOX_ROLE_RELAY_COLOUR=red")));
}

static void lists_are_kept_without_blanks(void **state)
{
    struct config *config =
        loaded(SETS("relay.lanes= outbox,  outbox_1 ,other ",
                    "relay.topics=vote = v, order=o.rders-1", "consumer.topics=a, b"),
               NULL);

    (void)state;
    assert_string_equal(config_settings(config)->relay.lanes, "outbox,outbox_1,other");
    assert_string_equal(config_settings(config)->relay.topics, "vote=v,order=o.rders-1");
    assert_string_equal(config_settings(config)->consumer.topics, "a,b");
    config_free(config);
}

#define NO_LANE \
    "is not the name of a lane; expected a-z, 0-9 and _, 64 at most, separated by commas"

static void a_bad_list_names_the_part(void **state)
{
    (void)state;
    refused(SETS("relay.lanes=a,b-c"), NULL, "--set relay.lanes: \"b-c\" " NO_LANE);
    refused(SETS("relay.lanes=out box"), NULL, "--set relay.lanes: \"out box\" " NO_LANE);
    refused(SETS("relay.lanes=a,"), NULL, "--set relay.lanes: \"\" " NO_LANE);
    refused(SETS("relay.lanes=a,B"), NULL, "--set relay.lanes: \"B\" " NO_LANE);
    refused(SETS("relay.lanes=a,b,a"), NULL, "--set relay.lanes: \"a\" is there twice");
    refused(SETS("relay.topics=a=x,a=y"), NULL, "--set relay.topics: \"a=y\" is there twice");
    refused(SETS("relay.topics=a"), NULL,
            "--set relay.topics: \"a\" is not a type and its topic; expected "
            "type=topic,type=topic");
    refused(SETS("lane.outbox.columns=event=x"), NULL,
            "--set lane.outbox.columns: \"event=x\" is not a field and its column; expected "
            "field=column,field=column with the fields "
            "id|aggregatetype|aggregateid|type|payload|headers|created_at");
    refused(SETS("lane.outbox.columns=id=a,id=b"), NULL,
            "--set lane.outbox.columns: \"id=b\" is there twice");
    refused(SETS("consumer.topics=.."), NULL,
            "--set consumer.topics: \"..\" is not a topic; expected letters, digits and ._-, "
            "separated by commas");
    refused(SETS("relay.topic_prefix=out box"), NULL,
            "--set relay.topic_prefix: \"out box\" is not the beginning of a topic; expected "
            "letters, digits and ._-, 185 at most");
}

static void a_bad_text_of_a_lane_names_what_is_wrong(void **state)
{
    (void)state;
    refused(SETS("lane.outbox.header_columns=a b"), NULL,
            "--set lane.outbox.header_columns: \"a b\" is not a column and its header; expected "
            "column,column:header with letters, digits and _ (in a header also . and -), 64 at "
            "most");
    refused(SETS("lane.outbox.header_columns=tenant,"), NULL,
            "--set lane.outbox.header_columns: \"\" is not a column and its header; expected "
            "column,column:header with letters, digits and _ (in a header also . and -), 64 at "
            "most");
    refused(SETS("lane.outbox.header_columns=a:x,b:y, c : x"), NULL,
            "--set lane.outbox.header_columns: the header \"x\" is there twice");
    refused(SETS("lane.outbox.header_columns=id"), NULL,
            "--set lane.outbox.header_columns: the header \"id\" is one of the relay's own (id, "
            "seq, lane, original_timestamp, ce_..., tallybox-...): give another name, as id:NAME");
    refused(SETS("lane.outbox.header_columns=kind:ce_type"), NULL,
            "--set lane.outbox.header_columns: the header \"ce_type\" is one of the relay's own "
            "(id, seq, lane, original_timestamp, ce_..., tallybox-...): give another name, as "
            "kind:NAME");
    refused(SETS("lane.outbox.header_columns=a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"), NULL,
            "--set lane.outbox.header_columns: has more than 16 columns");
    refused(SETS("lane.outbox.topic=a/$1"), NULL,
            "--set lane.outbox.topic: \"a/$1\" is not a topic at \"/$1\"; expected letters, "
            "digits and ._-, ${routedByValue}, and $0 to $9");
    refused(SETS("lane.outbox.topic=a.${other}"), NULL,
            "--set lane.outbox.topic: \"a.${other}\" is not a topic at \"${other}\"; expected "
            "letters, digits and ._-, ${routedByValue}, and $0 to $9");
    refused(SETS("lane.outbox.topic_regex=(a"), NULL,
            "--set lane.outbox.topic_regex: \"(a\" is not a POSIX extended regular expression: "
            "Unmatched ( or \\(");
    refused(SETS("lane.outbox.empty_payload=no"), NULL,
            "--set lane.outbox.empty_payload: \"no\" is not one of: value|tombstone");
}

static void expressions_that_take_much_memory_are_refused(void **state)
{
    static const char *const values[] = {
        "((((.{255}){255}){255}){255})",
        "(((((((((((a+)+)+)+)+)+)+)+)+)+)+)",
        "[[:alpha:]]{0,40}{40}",
        "[]a{2}]{1001}",
        "(a{9,}){200}",
        "a{30}*{30}?{30}",
        "\\({1001}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct err err = {0};

        lane_text_check("topic_regex", values[i], &err);
        if (!strstr(err.text, "takes too much memory"))
            fail_msg("%s: %s", values[i], err.text);
    }
    assert_int_equal(lane_text_check("topic_regex", "([a-z]{1,249})_(v[0-9]+)+.{255}", NULL),
                     RC_OK);
    assert_int_equal(lane_text_check("topic_regex", "[{9999}[:alpha:]]+(x|\\{9999)*", NULL), RC_OK);
}

static void a_lane_has_the_headers_of_its_setting(void **state)
{
    struct config *config =
        loaded(SETS("lane.outbox.header_columns= tenant, version : schema-version ,tenant:again",
                    "lane.outbox.topic=a.$1.${routedByValue}", "lane.outbox.topic_regex=x(.*), y"),
               NULL);
    const struct lane_settings *lane = config_settings(config)->lanes;
    const char *rest = lane->header_columns;
    struct lane_header header;

    (void)state;
    assert_true(lane_header_next(&rest, &header));
    assert_string_equal(header.column, "tenant");
    assert_string_equal(header.name, "tenant");
    assert_true(lane_header_next(&rest, &header));
    assert_string_equal(header.column, "version");
    assert_string_equal(header.name, "schema-version");
    assert_true(lane_header_next(&rest, &header));
    assert_string_equal(header.column, "tenant");
    assert_string_equal(header.name, "again");
    assert_false(lane_header_next(&rest, &header));
    rest = "";
    assert_false(lane_header_next(&rest, &header));
    assert_string_equal(lane->topic_regex, "x(.*), y");
    assert_int_equal(lane_topic_group_max(lane->topic), 1);
    config_free(config);
}

static void a_lane_without_a_section_has_the_defaults(void **state)
{
    struct config *config = loaded(SETS("relay.lanes=b,a", "relay.topics=x=y"), NULL);
    const struct settings *settings = config_settings(config);

    (void)state;
    assert_int_equal(settings->lane_count, 2);
    assert_string_equal(settings->lanes[0].name, "b");
    assert_string_equal(settings->lanes[0].table, "b");
    assert_string_equal(settings->lanes[0].source, "table");
    assert_string_equal(settings->lanes[0].topics, "x=y");
    assert_int_equal(settings->lanes[0].keep_ms, 3600000);
    assert_string_equal(settings->lanes[1].table, "a");
    config_free(config);
}

static void the_sources_of_a_lane_override_each_other(void **state)
{
    struct config *config = loaded(
        SETS("lane.out_box.topics=", "lane.out_box.table=T2", "relay.lanes=out_box,outbox"),
        VARIABLES("TALLYBOX_LANE_OUT_BOX_TABLE=T1", "TALLYBOX_LANE_OUT_BOX_TOPICS=a=b",
                  "TALLYBOX_LANE_OUTBOX_SOURCE=binlog", "TALLYBOX_LANE_OUTBOX_TABLE=old_Name"));
    const struct settings *settings = config_settings(config);

    (void)state;
    assert_string_equal(settings->lanes[0].table, "T2");
    assert_string_equal(settings->lanes[0].topics, "");
    assert_string_equal(settings->lanes[0].source, LANE_SOURCE_TABLE);
    assert_string_equal(settings->lanes[1].table, "old_Name");
    assert_string_equal(settings->lanes[1].source, LANE_SOURCE_BINLOG);
    assert_int_equal(settings->lanes[1].keep_ms, 3600000);
    assert_string_equal(settings->lanes[1].topics, "vote=vote-events");
    config_free(config);
}

static void a_bad_setting_of_a_lane_names_its_place(void **state)
{
    (void)state;
    refused(
        SETS("lane.outbox.tabel=x"), NULL,
        "--set lane.outbox.tabel: tabel is not a setting of [lane.outbox]; did you mean table?");
    refused(SETS("lane.outbox.lease_ms=1"), NULL,
            "--set lane.outbox.lease_ms: lease_ms is not a setting of [lane.outbox]; did you mean "
            "relay.lease_ms?");
    refused(SETS("relay.table=x"), NULL,
            "--set relay.table: table is not a setting of [relay]; did you mean lane.NAME.table?");
    refused(SETS("lane.outbox.source=log"), NULL,
            "--set lane.outbox.source: \"log\" is not one of: table|binlog");
    refused(SETS("lane.outbox.table=a,b"), NULL,
            "--set lane.outbox.table: \"a,b\" is not the name of a table; expected letters, digits "
            "and _, 64 at most");
    refused(
        SETS("lane.outbox.table="), NULL,
        "--set lane.outbox.table: \"\" is not the name of a table; expected letters, digits and "
        "_, 64 at most");
    refused(
        SETS("lane.Outbox.table=a"), NULL,
        "--set lane.Outbox.table: [lane.Outbox]: \"Outbox\" is not the name of a lane; expected "
        "a-z, 0-9 and _, 64 at most");
    refused(SETS("lane.outbox=a"), NULL, "--set lane.outbox: expected lane.NAME.key=value");
    refused(NULL, VARIABLES("TALLYBOX_LANE_OUTBOX=a"),
            "environment TALLYBOX_LANE_OUTBOX: names no setting of a lane; expected the variable "
            "TALLYBOX_LANE_NAME_KEY, as TALLYBOX_LANE_OUTBOX_TABLE");
}

static void a_lane_that_is_not_listed_is_refused(void **state)
{
    (void)state;
    refused(SETS("lane.shop.table=a"), NULL,
            "--set lane.shop.table: [lane.shop]: relay.lanes = outbox does not list the lane");
    refused(
        SETS("lane.outboxx.table=a"), NULL,
        "--set lane.outboxx.table: [lane.outboxx]: relay.lanes = outbox does not list the lane; "
        "did you mean [lane.outbox]?");
    refused(SETS("relay.lanes=a"), VARIABLES("TALLYBOX_LANE_OUTBOX_TABLE=t"),
            "environment TALLYBOX_LANE_OUTBOX_TABLE: [lane.outbox]: relay.lanes = a does not list "
            "the lane");
}

static void two_lanes_cannot_read_one_table(void **state)
{
    (void)state;
    refused(SETS("relay.lanes=a,b", "lane.b.table=A"), NULL,
            "--set lane.b.table: \"A\" is the table of lane a, too; expected one lane for each "
            "table");
    refused(SETS("relay.lanes=a,b", "lane.a.table=b"), NULL,
            "--set lane.a.table: \"b\" is the table of lane b, too; expected one lane for each "
            "table");
    config_free(loaded(SETS("relay.lanes=a,b", "lane.a.table=b", "lane.b.table=a"), NULL));
}

static void one_process_serves_so_many_lanes(void **state)
{
    char text[SETTING_LIST_SIZE] = "relay.lanes=";
    size_t len = strlen(text);

    (void)state;
    for (int i = 0; i < SETTINGS_LANES_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%sl%d", i > 0 ? "," : "", i);
    config_free(loaded(SETS(text), NULL));
    snprintf(text + len, sizeof(text) - len, ",more");
    refused(SETS(text), NULL,
            "--set relay.lanes: lists more lanes than one process serves; expected 64 at most");
}

static void count_change(void *ctx, const struct config_change *change)
{
    size_t *count = ctx;

    assert_string_equal(change->section, "lane.b");
    assert_string_equal(change->key, "table");
    assert_false(change->live);
    (*count)++;
}

static void a_setting_of_a_lane_is_not_live(void **state)
{
    struct config *config = loaded(SETS("relay.lanes=a,b"), NULL);
    struct config *fresh = loaded(SETS("relay.lanes=a,b", "lane.b.table=t"), NULL);
    size_t count = 0;

    (void)state;
    config_take_live(config, fresh, count_change, &count);
    assert_int_equal(count, 1);
    assert_string_equal(config_settings(config)->lanes[1].table, "b");
    config_free(config);
    config_free(fresh);
}

static void an_empty_topic_map_and_prefix_are_fine(void **state)
{
    (void)state;
    config_free(loaded(SETS("relay.topics=", "relay.topic_prefix="), NULL));
}

static void lists_of_allowed_destinations_are_exact(void **state)
{
    static const char *const good[] = {"retry.http_hosts=a.example,*.b.example:8443, 10.0.0.1:80",
                                       "retry.http_hosts=[::1]:80,[fe80::1]", "retry.http_hosts=",
                                       "retry.exec_programs=/bin/true, /opt/my tool/x",
                                       "retry.exec_programs="};
    static const char *const bad[] = {
        "retry.http_hosts=*",        "retry.http_hosts=*.",         "retry.http_hosts=a.*.b",
        "retry.http_hosts=http://a", "retry.http_hosts=a/b",        "retry.http_hosts=a:",
        "retry.http_hosts=a:0",      "retry.http_hosts=a:65536",    "retry.http_hosts=a:80x",
        "retry.http_hosts=u@a",      "retry.http_hosts=[::1",       "retry.http_hosts=[]",
        "retry.http_hosts=[::1]80",  "retry.http_hosts=a,,b",       "retry.http_hosts=.a",
        "retry.exec_programs=true",  "retry.exec_programs=/bin/a,", "retry.exec_programs=/bin/",
        "retry.exec_programs=./a"};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        config_free(loaded(SETS(good[i]), NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct config *config = NULL;
        struct err err = {0};

        if (load(&config, SETS(bad[i]), NULL, &err) != RC_FATAL)
            fail_msg("%s is taken", bad[i]);
        assert_non_null(strstr(err.text, "expected"));
    }
}

static void a_send_must_end_before_its_lease(void **state)
{
    (void)state;
    refused(SETS("relay.send_timeout_ms=15000"), NULL,
            "--set relay.send_timeout_ms: 15000 must be less than "
            "relay.lease_ms (15000, default): nothing may be sent after the lane went to another "
            "relay");
    refused(SETS("relay.lease_ms=8000"), NULL,
            "--set relay.lease_ms: 8000 must be more than relay.send_timeout_ms "
            "(8000, default): nothing may be sent after the lane went to another relay");
    config_free(loaded(SETS("relay.lease_ms=8001"), NULL));
}

static void a_batch_must_fit_into_its_queue(void **state)
{
    (void)state;
    refused(SETS("api.queue_votes_max=999"), NULL,
            "--set api.queue_votes_max: 999 must be at least "
            "api.batch_votes_max (1000, default): one batch must fit into the queue");
    config_free(loaded(SETS("api.queue_votes_max=1000"), NULL));
}

static void the_sink_takes_missing_settings_from_mysql(void **state)
{
    struct config *config =
        loaded(SETS("mysql.host=db1", "mysql.port=3307", "mysql.tls=verify", "sink.database=log",
                    "mysql.query_timeout_ms=1000", "sink.connect_timeout_ms=200"),
               VARIABLES("TALLYBOX_MYSQL_PASSWORD=geheim"));
    const struct mysql_settings *sink = &config_settings(config)->sink;

    (void)state;
    assert_string_equal(sink->host, "db1");
    assert_int_equal(sink->port, 3307);
    assert_string_equal(sink->user, "tallybox");
    assert_string_equal(sink->password, "geheim");
    assert_string_equal(sink->tls, "verify");
    assert_string_equal(sink->database, "log");
    assert_int_equal(sink->query_timeout_ms, 1000);
    assert_int_equal(sink->connect_timeout_ms, 200);
    config_free(config);
}

static void another_sink_host_is_not_hidden_by_a_socket(void **state)
{
    struct config *config = loaded(SETS("mysql.socket=/s", "sink.host=db2"), NULL);

    (void)state;
    assert_string_equal(config_settings(config)->sink.socket, "");
    config_free(config);
    config = loaded(SETS("mysql.socket=/s"), NULL);
    assert_string_equal(config_settings(config)->sink.socket, "/s");
    config_free(config);
}

static void a_sink_number_between_unset_and_valid_is_refused(void **state)
{
    (void)state;
    refused(SETS("sink.port=0"), NULL,
            "--set sink.port: 0 is out of range; expected 1..65535, or -1 for as in "
            "[mysql]");
}

static void a_set_is_section_key_and_value(void **state)
{
    (void)state;
    refused(SETS("relay.lease_ms"), NULL, "--set relay.lease_ms: expected section.key=value");
    refused(SETS("lease_ms=1.5"), NULL, "--set lease_ms: expected section.key=value");
    refused(SETS("mysqlpassword=geheim.x"), NULL,
            "--set mysqlpassword: expected section.key=value");
    refused(SETS("kafka.=x"), NULL, "--set kafka.: expected the name of a librdkafka property");
}

static void secrets_are_masked(void **state)
{
    struct config *config = loaded(
        SETS("kafka.sasl.username=carol", "kafka.ssl.key.location=/k"),
        VARIABLES("TALLYBOX_MYSQL_PASSWORD=geheim1", "TALLYBOX_KAFKA_SASL_PASSWORD=geheim2",
                  "TALLYBOX_KAFKA_SSL_KEY_PEM=geheim3",
                  "TALLYBOX_KAFKA_SASL_OAUTHBEARER_CLIENT_SECRET=geheim4",
                  "TALLYBOX_SINK_PASSWORD=geheim5", "TALLYBOX_KAFKA_SSL_KEY_PASSWORD=geheim6"));
    struct buf out = {0};

    (void)state;
    config_print(config, &out);
    config_print_json(config, &out);
    assert_null(strstr(buf_text(&out), "geheim"));
    assert_non_null(strstr(buf_text(&out), "password = ***"));
    assert_non_null(strstr(buf_text(&out), "sasl.password = ***"));
    assert_non_null(strstr(buf_text(&out), "sasl.username = carol"));
    assert_non_null(strstr(buf_text(&out), "ssl.key.location = /k"));
    buf_done(&out);
    config_free(config);
}

static void a_printed_value_stays_on_its_line(void **state)
{
    struct config *config =
        loaded(NULL, VARIABLES("TALLYBOX_KAFKA_SSL_CA_PEM=a\nb", "TALLYBOX_KAFKA_CLIENT_ID=x"));
    struct buf out = {0};

    (void)state;
    config_print(config, &out);
    assert_non_null(strstr(buf_text(&out), "\nssl.ca.pem = a b"));
    assert_non_null(
        strstr(buf_text(&out), "\nclient.id = x                               ; environment "));
    buf_done(&out);
    config_free(config);
}

static void a_secret_is_never_in_an_error(void **state)
{
    char text[400] = "TALLYBOX_MYSQL_PASSWORD=";

    (void)state;
    memset(text + 24, 'g', 300);
    refused(NULL, VARIABLES(text),
            "environment TALLYBOX_MYSQL_PASSWORD: is 300 bytes long; expected 255 at most");
}

/* `ps` shows a command line to every user. */
static void a_secret_is_not_taken_from_the_command_line(void **state)
{
    (void)state;
    refused(
        SETS("mysql.password=geheim"), NULL,
        "--set mysql.password: other accounts of this machine can read a command line; expected "
        "it in the settings file, in password_file or in the environment as "
        "TALLYBOX_MYSQL_PASSWORD");
    refused(SETS("kafka.sasl.password=geheim"), NULL,
            "--set kafka.sasl.password: other accounts of this machine can read a command line; "
            "expected it in the settings file or in the environment as "
            "TALLYBOX_KAFKA_SASL_PASSWORD");
}

static void every_value_shows_where_it_came_from(void **state)
{
    struct config *config = loaded(SETS("relay.poll_ms=3", "kafka.linger.ms=1"),
                                   VARIABLES("TALLYBOX_RELAY_LEASE_MS=20000"));
    struct buf out = {0};

    (void)state;
    config_print(config, &out);
    assert_non_null(strstr(buf_text(&out), "; --set relay.poll_ms\n"));
    assert_non_null(strstr(buf_text(&out), "; --set kafka.linger.ms\n"));
    assert_non_null(strstr(buf_text(&out), "; environment TALLYBOX_RELAY_LEASE_MS\n"));
    assert_non_null(strstr(buf_text(&out), "; as mysql.port\n"));
    assert_non_null(strstr(buf_text(&out), "; default\n"));
    buf_reset(&out);
    config_print_json(config, &out);
    assert_non_null(strstr(buf_text(&out), "\"relay.poll_ms\": {\n    \"value\": 3,\n    "
                                           "\"source\": \"--set relay.poll_ms\"\n  }"));
    assert_non_null(strstr(buf_text(&out), "\"log.level\": {\n    \"value\": \"info\",\n    "
                                           "\"source\": \"default\"\n  }"));
    buf_done(&out);
    config_free(config);
}

static void the_table_has_a_row_for_every_setting(void **state)
{
    struct buf out = {0};
    size_t lines = 0;

    (void)state;
    config_print_table(&out);
    for (const char *at = buf_text(&out); (at = strchr(at, '\n')); at++)
        lines++;
    /* The head has two lines, [kafka] two rows, and [role.NAME] one. */
    assert_int_equal(lines, 2 + settings_table_count + 2 + 1);
    assert_non_null(strstr(buf_text(&out),
                           "| `mysql.port` | `3306` | 1..65535 |  | TCP port of the "
                           "server. |\n"));
    assert_non_null(strstr(buf_text(&out), "| `relay.poll_ms` | `2` | 0..60000 | yes | Wait"));
    buf_done(&out);
}

static const char *uses_of(const struct lane_settings *lane, bool ordered)
{
    static char text[LANE_USES_SIZE];

    lane_put_uses(text, lane, ordered);
    return text;
}

static void what_a_lane_makes_of_its_table_is_said(void **state)
{
    struct lane_settings lane = {.source = "binlog", .from_table = "yes", .keep_ms = 3600000};

    (void)state;
    snprintf(lane.empty_payload, sizeof(lane.empty_payload), "%s", LANE_EMPTY_VALUE);
    assert_string_equal(uses_of(&lane, true),
                        "published rows are deleted after keep_ms; when the server has purged its "
                        "log, the lane goes on from the table; `tallybox relay replay` reads the "
                        "table");
    assert_string_equal(uses_of(&lane, false),
                        "published rows stay in the table, because keep_ids_max is 0; when the "
                        "server has purged its log, the lane stops; `tallybox relay replay` reads "
                        "the log");
    lane.keep_ids_max = 1;
    assert_non_null(strstr(uses_of(&lane, false), "keep_ms, and earlier above keep_ids_max;"));
    lane.keep_ms = -1;
    assert_non_null(strstr(uses_of(&lane, true), "stay in the table, because keep_ms is -1;"));
    assert_non_null(strstr(uses_of(&lane, true), "the lane stops; `tallybox relay replay` reads "
                                                 "the log"));
    lane.keep_ms = 0;
    snprintf(lane.exactly_once, sizeof(lane.exactly_once), "yes");
    assert_non_null(strstr(uses_of(&lane, true), "the lane stops; `tallybox relay replay` reads "
                                                 "the table"));
    snprintf(lane.columns, sizeof(lane.columns), "id:event_id");
    assert_non_null(strstr(uses_of(&lane, true), "replay` reads the log"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_default_is_valid),
        cmocka_unit_test(every_entry_has_a_help_sentence_and_a_section),
        cmocka_unit_test(the_command_line_wins_over_the_environment),
        cmocka_unit_test(the_last_of_two_sets_wins),
        cmocka_unit_test(any_kafka_property_passes_through),
        cmocka_unit_test(too_many_kafka_properties_are_refused),
        cmocka_unit_test(a_long_kafka_value_is_refused_with_a_way_out),
        cmocka_unit_test(a_mistyped_key_names_the_nearest),
        cmocka_unit_test(variables_of_others_are_left_alone),
        cmocka_unit_test(a_mistyped_section_in_a_variable_is_no_stranger),
        cmocka_unit_test(a_bad_number_names_place_and_range),
        cmocka_unit_test(a_bad_text_names_what_was_expected),
        cmocka_unit_test(a_listen_address_has_a_port),
        cmocka_unit_test(only_the_admin_pages_can_be_off),
        cmocka_unit_test(only_the_admin_pages_look_for_a_free_port),
        cmocka_unit_test(sections_of_roles_are_for_the_file),
        cmocka_unit_test(lists_are_kept_without_blanks),
        cmocka_unit_test(a_bad_list_names_the_part),
        cmocka_unit_test(a_bad_text_of_a_lane_names_what_is_wrong),
        cmocka_unit_test(expressions_that_take_much_memory_are_refused),
        cmocka_unit_test(a_lane_has_the_headers_of_its_setting),
        cmocka_unit_test(a_lane_without_a_section_has_the_defaults),
        cmocka_unit_test(the_sources_of_a_lane_override_each_other),
        cmocka_unit_test(a_bad_setting_of_a_lane_names_its_place),
        cmocka_unit_test(a_lane_that_is_not_listed_is_refused),
        cmocka_unit_test(two_lanes_cannot_read_one_table),
        cmocka_unit_test(one_process_serves_so_many_lanes),
        cmocka_unit_test(a_setting_of_a_lane_is_not_live),
        cmocka_unit_test(an_empty_topic_map_and_prefix_are_fine),
        cmocka_unit_test(lists_of_allowed_destinations_are_exact),
        cmocka_unit_test(a_send_must_end_before_its_lease),
        cmocka_unit_test(a_batch_must_fit_into_its_queue),
        cmocka_unit_test(the_sink_takes_missing_settings_from_mysql),
        cmocka_unit_test(another_sink_host_is_not_hidden_by_a_socket),
        cmocka_unit_test(a_sink_number_between_unset_and_valid_is_refused),
        cmocka_unit_test(a_set_is_section_key_and_value),
        cmocka_unit_test(secrets_are_masked),
        cmocka_unit_test(a_printed_value_stays_on_its_line),
        cmocka_unit_test(a_secret_is_never_in_an_error),
        cmocka_unit_test(a_secret_is_not_taken_from_the_command_line),
        cmocka_unit_test(every_value_shows_where_it_came_from),
        cmocka_unit_test(what_a_lane_makes_of_its_table_is_said),
        cmocka_unit_test(the_table_has_a_row_for_every_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
