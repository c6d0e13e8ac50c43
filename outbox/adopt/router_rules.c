/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/router_rules.h"

#include <stddef.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

#define EQUAL(option)                       \
    {                                       \
        option, ROUTER_RULE_EQUAL, NULL, "" \
    }
#define NOTE(option, fine, text)             \
    {                                        \
        option, ROUTER_RULE_NOTE, fine, text \
    }
#define DIFFERS(option, fine, text)                \
    {                                              \
        option, ROUTER_RULE_DIFFERENCE, fine, text \
    }

/* What writes the bytes of a text as they are, and those of a BLOB. */
#define STRING_CONVERTERS "org.apache.kafka.connect.storage.StringConverter"
#define PLAIN_CONVERTERS                                                         \
    STRING_CONVERTERS ",org.apache.kafka.connect.converters.ByteArrayConverter," \
                      "io.debezium.converters.BinaryDataConverter,"              \
                      "io.debezium.converters.ByteBufferConverter,"              \
                      "io.debezium.converters.ByteArrayConverter"

static const struct router_rule router_rules[] = {
    EQUAL("type"),
    EQUAL("table.field.event.id"),
    EQUAL("table.field.event.key"),
    EQUAL("table.field.event.type"),
    EQUAL("table.field.event.payload"),
    EQUAL("table.field.event.timestamp"),
    EQUAL("table.fields.additional.placement"),
    EQUAL("table.fields.additional.error.on.missing"),
    EQUAL("table.field.additional.missing"),
    EQUAL("table.json.payload.null.behavior"),
    EQUAL("table.json.payload.empty.array.behavior"),
    EQUAL("table.op.invalid.behavior"),
    EQUAL("route.by.field"),
    EQUAL("route.topic.regex"),
    EQUAL("route.topic.replacement"),
    EQUAL("route.tombstone.on.empty.payload"),
    DIFFERS("table.field.event.schema.version", NULL,
            "the schema of a record has a version; tallybox writes bytes without a schema"),
    DIFFERS("table.expand.json.payload", "false",
            "the router parses a JSON payload, and its converter prints it again; tallybox writes "
            "the text as the table has it: the same value with other white space"),
    DIFFERS("predicate", NULL,
            "the router works on some records only and passes others on as they are; tallybox "
            "publishes each row of the table"),
    DIFFERS("negate", "false", "see predicate"),
    DIFFERS("tracing.*", NULL,
            "with OpenTelemetry in its worker the connector writes headers of a trace; tallybox "
            "writes those of the columns that header_columns names"),
};

static const struct router_rule connector_rules[] = {
    EQUAL("name"),
    EQUAL("connector.class"),
    EQUAL("tasks.max"),
    EQUAL("tasks.max.enforce"),
    EQUAL("topic.prefix"),
    EQUAL("transforms"),
    EQUAL("table.include.list"),
    EQUAL("database.include.list"),
    EQUAL("database.*"),
    EQUAL("driver.*"),
    EQUAL("snapshot.*"),
    EQUAL("schema.history.internal"),
    EQUAL("schema.history.internal.*"),
    EQUAL("connect.*"),
    EQUAL("connection.validation.timeout.ms"),
    EQUAL("poll.interval.ms"),
    EQUAL("max.batch.size"),
    EQUAL("max.queue.size"),
    EQUAL("max.queue.size.in.bytes"),
    EQUAL("binlog.*"),
    EQUAL("min.row.count.to.stream.results"),
    EQUAL("inconsistent.schema.handling.mode"),
    EQUAL("event.deserialization.failure.handling.mode"),
    EQUAL("event.processing.failure.handling.mode"),
    EQUAL("gtid.new.channel.position"),
    EQUAL("retriable.restart.connector.wait.ms"),
    EQUAL("errors.*"),
    EQUAL("tombstones.on.delete"),
    EQUAL("topic.creation.*"),
    EQUAL("topic.cache.size"),
    EQUAL("topic.naming.strategy"),
    EQUAL("topic.delimiter"),
    EQUAL("schema.name.adjustment.mode"),
    EQUAL("field.name.adjustment.mode"),
    EQUAL("executor.shutdown.timeout.ms"),
    EQUAL("config.action.reload"),
    EQUAL("custom.metric.tags"),
    EQUAL("advanced.metrics.enable"),
    EQUAL("use.nongraceful.disconnect"),
    EQUAL("enable.time.adjuster"),
    EQUAL("bigint.unsigned.handling.mode"),
    EQUAL("transforms.*"),
    DIFFERS("key.converter", PLAIN_CONVERTERS,
            "this converter does not write the key as the column has it: JsonConverter puts quotes "
            "or a schema around it. With tallybox a key has other bytes and so another partition"),
    DIFFERS("value.converter", PLAIN_CONVERTERS,
            "this converter does not write the payload as the column has it: JsonConverter puts "
            "quotes or a schema around it, others write the format of a schema registry"),
    DIFFERS("header.converter",
            "org.apache.kafka.connect.storage.SimpleHeaderConverter," STRING_CONVERTERS,
            "this converter does not write headers as plain text"),
    EQUAL("key.converter.*"),
    EQUAL("value.converter.*"),
    EQUAL("header.converter.*"),
    DIFFERS("binary.handling.mode", "bytes",
            "binary columns are published as text; tallybox publishes their bytes"),
    DIFFERS("decimal.handling.mode", "precise,string", "columns in headers have another form"),
    DIFFERS("time.precision.mode", "adaptive_time_microseconds",
            "columns in headers have another form"),
    DIFFERS(ROUTER_RULE_MASKS, NULL, "the connector masks columns; tallybox reads the table"),
    DIFFERS("column.*", NULL, "the connector hides or changes columns; tallybox reads the table"),
    DIFFERS("message.key.columns", "", "the router takes the key from its column all the same"),
    DIFFERS("converters", "", "converters of columns change their values"),
    DIFFERS("predicates", "", "a transform works on some records only"),
    EQUAL("predicates.*"),
    DIFFERS("post.processors", "", "a post processor changes rows"),
    DIFFERS("skipped.operations", "u,d,t,none", "rows that are inserted are not published"),
    DIFFERS("table.exclude.list", "", "use table.include.list with the outbox table alone"),
    DIFFERS("gtid.source.includes", "", "transactions of other servers are not published"),
    DIFFERS("gtid.source.excludes", "", "transactions of some servers are not published"),
    EQUAL("gtid.source.filter.dml.events"),
    DIFFERS("gtid.ignore.on.recovery", "false",
            "the connector goes on by file and position although the server has GTIDs"),
    NOTE("exactly.once.support", "requested",
         "Kafka Connect repeats no record after a crash; neither does a lane with exactly_once = "
         "yes, of which the readers need isolation.level=read_committed, too"),
    EQUAL("transaction.boundary"),
    EQUAL("transaction.boundary.interval.ms"),
    EQUAL("offsets.storage.topic"),
    DIFFERS("provide.transaction.metadata", "false",
            "tallybox writes no topic with the begin and end of transactions"),
    DIFFERS(
        "heartbeat.interval.ms", "0",
        "tallybox writes no topic __debezium-heartbeat.PREFIX. With it the connector may commit an "
        "offset between the rows of an event and its count of them: these rows repeat, as "
        "after a restart of the connector"),
    EQUAL("heartbeat.topics.prefix"),
    DIFFERS("heartbeat.action.query", "", "tallybox runs no such statement"),
    NOTE("include.schema.changes", "false", "tallybox writes no topic with the changes of tables"),
    NOTE("include.schema.comments", "false", "tallybox writes no topic with changes of tables"),
    EQUAL("include.query"),
    NOTE("signal.*", NULL, "tallybox takes no signals; an incremental snapshot has to be finished"),
    NOTE("incremental.*", NULL, "an incremental snapshot has to be finished"),
    NOTE("read.only", "false,true", ""),
    NOTE("notification.*", NULL, "tallybox sends no notifications"),
    DIFFERS("producer.override.partitioner.class", "",
            "tallybox has the partitioner of Kafka's own clients, murmur2_random; set "
            "kafka.partitioner for another one"),
    NOTE("producer.override.*", NULL, "set a property of librdkafka in [kafka], if one is needed"),
    NOTE("openlineage.*", NULL, "tallybox sends no lineage"),
};

static bool is_prefix(const struct router_rule *rule)
{
    size_t len = strlen(rule->option);

    return len > 1 && rule->option[len - 1] == '*';
}

static bool matches(const struct router_rule *rule, const char *option)
{
    if (is_prefix(rule))
        return strncmp(rule->option, option, strlen(rule->option) - 1) == 0;
    return strcmp(rule->option, option) == 0;
}

const struct router_rule *router_rule_find(const char *option, bool of_router)
{
    const struct router_rule *rules = of_router ? router_rules : connector_rules;
    size_t count = of_router ? COUNT(router_rules) : COUNT(connector_rules);

    for (size_t i = 0; i < count; i++)
        if (matches(&rules[i], option))
            return &rules[i];
    return NULL;
}

bool router_rule_shows_value(const struct router_rule *rule)
{
    return !is_prefix(rule);
}

const char *router_rule_shown_name(const struct router_rule *rule, const char *option)
{
    return strcmp(rule->option, ROUTER_RULE_MASKS) == 0 ? rule->option : option;
}
