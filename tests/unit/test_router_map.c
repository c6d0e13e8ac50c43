/* SPDX-License-Identifier: MIT */
/* The configuration of a connector as settings of a lane, and what has no equal there. */
#include "outbox/adopt/router_map.h"

#include "outbox/adopt/adopt_report.h"
#include "outbox/adopt/java_regex.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define ROUTER "\"transforms.o.type\": \"io.debezium.transforms.outbox.EventRouter\""
#define CLASS "\"connector.class\": \"io.debezium.connector.mysql.MySqlConnector\""
#define TABLE "\"table.include.list\": \"shop.outboxevent\""
#define CONVERTERS                                                             \
    "\"key.converter\": \"org.apache.kafka.connect.storage.StringConverter\"," \
    "\"value.converter\": \"org.apache.kafka.connect.storage.StringConverter\""
#define PLAIN CLASS "," TABLE "," ROUTER "," CONVERTERS ", \"transforms\": \"o\""

static struct connector connector;
static struct router_map map;
static struct err err;

static int tear_down(void **state)
{
    (void)state;
    router_map_done(&map);
    connector_done(&connector);
    return 0;
}

/* options: of the connector, as JSON without braces. */
static enum rc make(const char *options)
{
    char text[4096];
    enum rc rc;

    tear_down(NULL);
    snprintf(text, sizeof(text), "{%s}", options);
    rc = connector_parse(&connector, text, strlen(text), &err);
    return rc == RC_OK ? router_map_make(&map, &connector, NULL, &err) : rc;
}

static const char *setting(const char *section, const char *key)
{
    return json_string_value(json_object_get(json_object_get(map.settings, section), key));
}

static void expect_refused(enum rc rc, const char *words)
{
    assert_int_equal(rc, RC_REJECT);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

/* The one difference is of this option. */
static void expect_difference(const char *options, const char *option)
{
    const char *found;

    assert_int_equal(make(options), RC_OK);
    found = json_string_value(json_object_get(json_array_get(map.differences, 0), "option"));
    if (json_array_size(map.differences) != 1 || strcmp(found, option) != 0)
        fail_msg("%zu differences, the first of %s", json_array_size(map.differences),
                 found ? found : "none");
}

static void a_plain_connector_has_an_equal_lane(void **state)
{
    (void)state;
    assert_int_equal(make(PLAIN
                          ", \"name\": \"x\", \"database.hostname\": \"db\", \"tasks.max\": 1,"
                          "\"topic.prefix\": \"p\", \"skipped.operations\": \"u, d\""),
                     RC_OK);
    assert_int_equal(json_array_size(map.differences), 0);
    assert_string_equal(setting("mysql", "host"), "db");
    assert_string_equal(setting("mysql", "database"), "shop");
    assert_string_equal(setting("relay", "lanes"), "outboxevent");
    assert_string_equal(setting("relay", "ce_source"), "");
    assert_string_equal(setting("lane.outboxevent", "table"), "outboxevent");
    assert_string_equal(setting("lane.outboxevent", "source"), "binlog");
    assert_null(setting("lane.outboxevent", "columns"));
    assert_null(setting("lane.outboxevent", "topic"));
}

static void options_of_the_router_become_settings(void **state)
{
    (void)state;
    assert_int_equal(make(PLAIN
                          ", \"transforms.o.table.field.event.id\": \"event_id\","
                          "\"transforms.o.route.by.field\": \"kind\","
                          "\"transforms.o.route.tombstone.on.empty.payload\": true,"
                          "\"transforms.o.table.fields.additional.placement\":"
                          "\"type:header:eventType, tenant:HEADER\","
                          "\"transforms.o.route.topic.replacement\": \"shop.${routedByValue}\""),
                     RC_OK);
    assert_int_equal(json_array_size(map.differences), 0);
    assert_string_equal(setting("lane.outboxevent", "columns"), "id=event_id, aggregatetype=kind");
    assert_string_equal(setting("lane.outboxevent", "header_columns"), "type:eventType, tenant");
    assert_string_equal(setting("lane.outboxevent", "topic"), "shop.${routedByValue}");
    assert_string_equal(setting("lane.outboxevent", "empty_payload"), "tombstone");
}

static void the_lane_is_named_as_the_table_or_as_asked(void **state)
{
    (void)state;
    assert_int_equal(make(CLASS "," ROUTER "," CONVERTERS ", \"transforms\": \" o \","
                                "\"table.include.list\": \"shop\\\\.My_Outbox\""),
                     RC_OK);
    assert_string_equal(map.lane, "my_outbox");
    assert_string_equal(map.table, "My_Outbox");
    router_map_done(&map);
    assert_int_equal(router_map_make(&map, &connector, "other", &err), RC_OK);
    assert_string_equal(map.lane, "other");
    router_map_done(&map);
    expect_refused(router_map_make(&map, &connector, "A B", &err), "name of a lane");
}

static void options_without_an_equal_are_named(void **state)
{
    (void)state;
    expect_difference(PLAIN ", \"what.is.this\": \"secret\"", "what.is.this");
    expect_difference(PLAIN ", \"heartbeat.interval.ms\": 1000", "heartbeat.interval.ms");
    expect_difference(PLAIN ", \"skipped.operations\": \"c,u\"", "skipped.operations");
    expect_difference(PLAIN ", \"transforms.o.table.expand.json.payload\": true",
                      "transforms.o.table.expand.json.payload");
    expect_difference(PLAIN ", \"transforms.o.predicate\": \"isOutbox\"", "transforms.o.predicate");
    expect_difference(PLAIN ", \"transforms.o.table.fields.additional.placement\": \"v:envelope\"",
                      "transforms.o.table.fields.additional.placement");
    expect_difference(PLAIN ", \"transforms.o.route.topic.regex\": \"(?!a).*\"",
                      "transforms.o.route.topic.regex");
    expect_difference(PLAIN ", \"producer.override.partitioner.class\": \"x.Y\"",
                      "producer.override.partitioner.class");
    expect_difference(CLASS
                      "," TABLE "," ROUTER ", \"transforms\": \"o\", \"value.converter\":"
                      "\"org.apache.kafka.connect.storage.StringConverter\", \"key.converter\":"
                      "\"org.apache.kafka.connect.json.JsonConverter\"",
                      "key.converter");
    expect_difference(CLASS "," TABLE "," ROUTER "," CONVERTERS ", \"transforms\": \"o,x\","
                            "\"transforms.x.type\": \"a.B\"",
                      "transforms.x.type");
}

/* What is printed has none of these words. */
static void expect_not_printed(const char *secret, const char *control)
{
    const struct adopt_report report = {.connector = &connector, .map = &map, .why_not = "x"};
    struct buf text = {0};
    struct buf json = {0};

    adopt_report_put_text(&text, &report);
    adopt_report_put_json(&json, &report);
    assert_null(strstr(buf_text(&text), secret));
    assert_null(strstr(buf_text(&json), secret));
    assert_null(strpbrk(buf_text(&text), control));
    buf_done(&text);
    buf_done(&json);
}

static void expect_printed(const struct adopt_report *report, const char *text, const char *json)
{
    struct buf out = {0};

    adopt_report_put_text(&out, report);
    if (!strstr(buf_text(&out), text))
        fail_msg("'%s' does not say '%s'", buf_text(&out), text);
    buf_reset(&out);
    adopt_report_put_json(&out, report);
    if (!strstr(buf_text(&out), json))
        fail_msg("'%s' does not say '%s'", buf_text(&out), json);
    buf_done(&out);
}

static void the_report_says_what_was_not_looked_for_or_not_checked(void **state)
{
    struct stream_position position = {.file = "b.1", .offset = 4};
    struct adopt_report report = {.connector = &connector, .map = &map, .why_not = "no lane"};

    (void)state;
    assert_int_equal(make(PLAIN), RC_OK);
    expect_printed(&report, "position: not looked for: no lane", "\"stateChecked\": false");
    report.looked = true;
    expect_printed(&report, "position: not found: no lane", "\"positionMissing\": \"no lane\"");
    report.position = &position;
    expect_printed(&report, "would begin at file b.1", "\"stateChecked\": true");
    report.unchecked = true;
    expect_printed(&report, "not checked whether the connector is stopped",
                   "\"stateChecked\": false");
}

static void values_that_may_be_secret_are_not_shown(void **state)
{
    static const char *const options[] = {
        "what.is.this",
        "database.password",
        "database.ssl.keystore.password",
        "producer.override.sasl.jaas.config",
        "signal.consumer.sasl.jaas.config",
        "signal.data.collection.secret",
        "notification.sink.password",
        "incremental.snapshot.password",
        "openlineage.integration.secret",
        "schema.history.internal.consumer.sasl.jaas.config",
        "column.mask.with.secret",
        "transforms.o.tracing.secret",
        "transforms.x.secret",
        "predicates.x.password",
        "value.converter.basic.auth.user.info.password",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        char text[2048];

        snprintf(text, sizeof(text), PLAIN ", \"%s\": \"geheim\"", options[i]);
        assert_int_equal(make(text), RC_OK);
        expect_not_printed("geheim", "\x1b");
    }
    expect_difference(PLAIN ", \"column.mask.hash.SHA-256.with.salt.geheim\": \"a.b\"",
                      "column.mask.*");
    expect_not_printed("geheim", "\x1b");
}

/* None of them becomes a setting, a line or a sequence that steers a terminal. */
static void control_characters_are_not_printed(void **state)
{
    (void)state;
    expect_difference(PLAIN ", \"transforms.o.route.topic.replacement\":"
                            "\"a\\n[mysql]\\npassword=evil\"",
                      "transforms.o.route.topic.replacement");
    assert_null(setting("lane.outboxevent", "topic"));
    expect_not_printed("\npassword", "\x1b\r\t");
    expect_difference(PLAIN ", \"database.hostname\": \"a\\nb\"", "database.hostname");
    expect_not_printed("\nb", "\x1b\r\t");
    expect_difference(PLAIN ", \"heartbeat.action.query\": \"a\\u001b[2Jb\\nnote: c\"",
                      "heartbeat.action.query");
    expect_not_printed("\nnote: c", "\x1b\r\t");
    expect_refused(make(PLAIN ", \"a\\u001b[2J\": \"x\""), "control character");
    expect_refused(make(PLAIN ", \"name\": \"a\\nb\""), "control character");
    expect_refused(make(CLASS "," ROUTER ", \"transforms\": \"o\","
                              "\"table.include.list\": \"a.b\\nc\""),
                   "expected the name of one table");
}

static void values_that_settings_refuse_are_differences(void **state)
{
    static const char placement[] = "transforms.o.table.fields.additional.placement";
    static const char replacement[] = "transforms.o.route.topic.replacement";

    (void)state;
    expect_difference(CLASS "," ROUTER "," CONVERTERS ", \"transforms\": \"o\","
                            "\"table.include.list\": \"shop.my-outbox\"",
                      "table.include.list");
    assert_null(setting("lane.my_outbox", "table"));
    expect_difference(PLAIN ", \"transforms.o.table.fields.additional.placement\":"
                            "\"id:header:id\"",
                      placement);
    expect_difference(PLAIN ", \"transforms.o.table.fields.additional.placement\":"
                            "\"x:header:ce_type\"",
                      placement);
    expect_difference(PLAIN ", \"transforms.o.table.fields.additional.placement\": \" :header\"",
                      placement);
    expect_difference(PLAIN ", \"transforms.o.table.fields.additional.placement\": \"a:header,"
                            "b:header,c:header,d:header,e:header,f:header,g:header,h:header,"
                            "i:header,j:header,k:header,l:header,m:header,n:header,o:header,"
                            "p:header,q:header\"",
                      placement);
    expect_difference(PLAIN ", \"transforms.o.route.topic.replacement\": \"x.${foo}\"",
                      replacement);
    expect_difference(PLAIN ", \"transforms.o.route.topic.replacement\": \"x.\\\\$1\"",
                      replacement);
    expect_difference(PLAIN ", \"transforms.o.table.field.event.id\": \"a=b,c d\"",
                      "transforms.o.table.field.event.id");
    expect_difference(PLAIN ", \"transforms.o.table.field.event.id\": \"b, type=c\"",
                      "transforms.o.table.field.event.id");
    assert_null(setting("lane.outboxevent", "columns"));
    expect_difference(PLAIN ", \"database.port\": \"99999\"", "database.port");
    expect_difference(PLAIN ", \"database.hostname\": \"a ;b\"", "database.hostname");
    expect_difference(PLAIN ", \"transforms.o.route.topic.regex\": \"a ;(b)\","
                            "\"transforms.o.route.topic.replacement\": \"$1\"",
                      "transforms.o.route.topic.regex");
}

static void parts_of_placements_may_have_blanks(void **state)
{
    (void)state;
    assert_int_equal(make(PLAIN ", \"transforms.o.table.fields.additional.placement\":"
                                "\" tenant : header , kind : HEADER : type-of-it \""),
                     RC_OK);
    assert_int_equal(json_array_size(map.differences), 0);
    assert_string_equal(setting("lane.outboxevent", "header_columns"), "tenant, kind:type-of-it");
    assert_string_equal(router_map_headers(&map), "tenant, kind:type-of-it");
}

static void the_group_of_the_standard_expression_is_the_whole_type(void **state)
{
    (void)state;
    assert_int_equal(make(PLAIN ", \"transforms.o.route.topic.replacement\": \"e.$1.x\""), RC_OK);
    assert_int_equal(json_array_size(map.differences), 0);
    assert_string_equal(setting("lane.outboxevent", "topic"), "e.${routedByValue}.x");
}

static void a_table_of_the_name_of_tallyboxs_has_to_be_renamed(void **state)
{
    (void)state;
    expect_difference(CLASS "," ROUTER "," CONVERTERS ", \"transforms\": \"o\","
                            "\"table.include.list\": \"shop.outbox\"",
                      "table.include.list");
    router_map_drop_rename(&map);
    assert_int_equal(json_array_size(map.differences), 0);
}

static bool has_note(const char *option)
{
    const json_t *one;
    size_t i;

    json_array_foreach(map.notes, i, one)
        if (strcmp(json_string_value(json_object_get(one, "option")), option) == 0)
            return true;
    return false;
}

static void notes_say_what_records_have_besides(void **state)
{
    (void)state;
    assert_int_equal(make(PLAIN ", \"exactly.once.support\": \"required\","
                                "\"transforms.o.table.field.additional.missing\": \"skip\","
                                "\"transforms.o.table.json.payload.empty.array.behavior\": \"x\""),
                     RC_OK);
    assert_int_equal(json_array_size(map.differences), 0);
    assert_string_equal(setting("lane.outboxevent", "exactly_once"), "yes");
    assert_true(has_note("exactly.once.support"));
    assert_true(has_note("transforms"));
    assert_true(has_note("table.field.event.timestamp"));
    assert_int_equal(make(PLAIN ", \"transforms.o.table.field.event.timestamp\": \"at\""), RC_OK);
    assert_false(has_note("table.field.event.timestamp"));
    assert_null(setting("lane.outboxevent", "exactly_once"));
}

static void converters_of_the_worker_are_not_known(void **state)
{
    (void)state;
    assert_int_equal(make(CLASS "," TABLE "," ROUTER ", \"transforms\": \"o\""), RC_OK);
    assert_int_equal(json_array_size(map.differences), 2);
}

static void what_is_no_connector_with_the_router_is_refused(void **state)
{
    (void)state;
    expect_refused(connector_parse(&connector, "{", 1, &err), "not JSON");
    expect_refused(connector_parse(&connector, "", 0, &err), "the file is empty");
    expect_refused(connector_parse(&connector, "[]", 2, &err), "expected an object");
    expect_refused(make("\"config\": 7"), "expected an object");
    expect_refused(make("\"name\": \"x\""), "no connector.class");
    expect_refused(make("\"connector.class\": \"a.PostgresConnector\""), "a.PostgresConnector");
    expect_refused(make("\"connector.class\": {}"), "is not a text");
    expect_refused(make(CLASS "," TABLE), "transforms has no");
    expect_refused(make(CLASS "," ROUTER ", \"transforms\": \"o\""), "no table.include.list");
    expect_refused(make(CLASS "," ROUTER ", \"transforms\": \"o\","
                              "\"table.include.list\": \"a.b,a.c\""),
                   "names 2 tables, of which");
    expect_refused(make(CLASS "," ROUTER ", \"transforms\": \"o\","
                              "\"table.include.list\": \"a.out.*\""),
                   "expected the name of one table");
    expect_refused(make(CLASS "," ROUTER ", \"transforms\": \"o\","
                              "\"table.include.list\": \"outbox\""),
                   "expected the name of one table");
}

static void a_lane_has_to_read_the_same_columns(void **state)
{
    static struct settings settings = {.mysql = {.database = "shop"},
                                       .relay = {.topic_prefix = "outbox.event."}};
    struct lane_settings lane = {.name = "outboxevent",
                                 .table = "outboxevent",
                                 .source = "binlog",
                                 .empty_payload = "value"};

    (void)state;
    assert_int_equal(make(PLAIN ", \"transforms.o.table.field.event.id\": \"event_id\""), RC_OK);
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err),
                   "set lane.outboxevent.columns = id=event_id");
    snprintf(lane.columns, sizeof(lane.columns), "id=event_id");
    assert_int_equal(router_map_check_lane(&map, &lane, &settings, &err), RC_OK);
    snprintf(settings.mysql.database, sizeof(settings.mysql.database), "other");
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err), "mysql.database");
    snprintf(settings.mysql.database, sizeof(settings.mysql.database), "shop");
    snprintf(lane.header_columns, sizeof(lane.header_columns), "tenant");
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err),
                   "lane.outboxevent.header_columns");
    lane.header_columns[0] = '\0';
    snprintf(lane.topic, sizeof(lane.topic), "shop.$0");
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err),
                   "lane.outboxevent.topic is");
    snprintf(lane.topic, sizeof(lane.topic), "outbox.event.${routedByValue}");
    assert_int_equal(router_map_check_lane(&map, &lane, &settings, &err), RC_OK);
    snprintf(settings.relay.topics, sizeof(settings.relay.topics), "vote=votes");
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err), "relay.topics gives");
    snprintf(lane.topics, sizeof(lane.topics), "a=b");
    settings.relay.topics[0] = '\0';
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err),
                   "lane.outboxevent.topics gives");
    lane.topics[0] = '\0';
    snprintf(settings.relay.ce_source, sizeof(settings.relay.ce_source), "shop");
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err), "relay.ce_source");
    assert_int_equal(router_map_check_table(&map, &lane, &settings, &err), RC_OK);
    settings.relay.ce_source[0] = '\0';
    snprintf(lane.table, sizeof(lane.table), "events");
    expect_refused(router_map_check_table(&map, &lane, &settings, &err),
                   "lane.outboxevent.table is events");
    expect_refused(router_map_check_lane(&map, &lane, &settings, &err), "lane.outboxevent.table");
}

static void expect_translated(const char *regex, const char *replacement, const char *posix,
                              const char *topic)
{
    struct buf regex_out = {0};
    struct buf topic_out = {0};

    assert_int_equal(java_regex_translate(regex, replacement, &regex_out, &topic_out, &err), RC_OK);
    assert_string_equal(buf_text(&regex_out), posix);
    assert_string_equal(buf_text(&topic_out), topic);
    buf_done(&regex_out);
    buf_done(&topic_out);
}

static void expect_not_translated(const char *regex, const char *replacement, const char *words)
{
    struct buf regex_out = {0};
    struct buf topic_out = {0};

    expect_refused(java_regex_translate(regex, replacement, &regex_out, &topic_out, &err), words);
    buf_done(&regex_out);
    buf_done(&topic_out);
}

static void expressions_of_java_become_those_of_posix(void **state)
{
    (void)state;
    expect_translated("(?<kind>\\w+)\\.(?:v\\d+)(x)", "e.${kind}-$2",
                      "([A-Za-z0-9_]+)\\.(v[0-9]+)(x)", "e.$1-$3");
    expect_translated("[a-z_-]+", "all", "[a-z_-]+", "all");
    expect_translated("a\\-b", "$0\\-", "a-b", "$0-");
    expect_not_translated("a(b)", "\\$1", "a topic with a $");
    expect_not_translated("((((.{255}){255}){255}){255})", "x", "too much memory");
    expect_not_translated("(?=a)b", "x", "look-ahead");
    expect_not_translated("(?<=a)b", "x", "look-behind");
    expect_not_translated("a*?", "x", "lazy");
    expect_not_translated("a++", "x", "lazy or possessive");
    expect_not_translated("\\p{Alpha}", "x", "such an escape");
    expect_not_translated("[a&&b]", "x", "part of a set");
    expect_not_translated("[a", "x", "without an end");
    expect_not_translated("(a", "x", "not a POSIX extended");
    expect_not_translated("(a)", "$2", "a group that");
    expect_not_translated("(a)", "${b}", "a group that");
    expect_not_translated("(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)", "x", "more than 9");
    expect_not_translated("a\\", "x", "such an escape");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_plain_connector_has_an_equal_lane, tear_down),
        cmocka_unit_test_teardown(options_of_the_router_become_settings, tear_down),
        cmocka_unit_test_teardown(the_lane_is_named_as_the_table_or_as_asked, tear_down),
        cmocka_unit_test_teardown(options_without_an_equal_are_named, tear_down),
        cmocka_unit_test_teardown(values_that_may_be_secret_are_not_shown, tear_down),
        cmocka_unit_test_teardown(the_report_says_what_was_not_looked_for_or_not_checked,
                                  tear_down),
        cmocka_unit_test_teardown(control_characters_are_not_printed, tear_down),
        cmocka_unit_test_teardown(values_that_settings_refuse_are_differences, tear_down),
        cmocka_unit_test_teardown(parts_of_placements_may_have_blanks, tear_down),
        cmocka_unit_test_teardown(the_group_of_the_standard_expression_is_the_whole_type,
                                  tear_down),
        cmocka_unit_test_teardown(a_table_of_the_name_of_tallyboxs_has_to_be_renamed, tear_down),
        cmocka_unit_test_teardown(notes_say_what_records_have_besides, tear_down),
        cmocka_unit_test_teardown(converters_of_the_worker_are_not_known, tear_down),
        cmocka_unit_test_teardown(what_is_no_connector_with_the_router_is_refused, tear_down),
        cmocka_unit_test_teardown(a_lane_has_to_read_the_same_columns, tear_down),
        cmocka_unit_test(expressions_of_java_become_those_of_posix),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
