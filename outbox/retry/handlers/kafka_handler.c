/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/kafka_handler.h"

#include "common/log.h"
#include "common/os.h"
#include "outbox/relay/exact/position_record.h"
#include "outbox/relay/topics.h"
#include "outbox/retry/handlers/exact_publisher_kafka.h"
#include "outbox/retry/handlers/publisher_kafka.h"
#include "outbox/retry/handlers/task_options.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 65535

#define OWN_HEADERS 2

/* The position of a lane with rows is committed about every 40 ms. */
#define POSITION_WAIT_MS 100

static enum rc take_topic(void *ctx, const json_t *value, struct err *err)
{
    struct kafka_options *options = ctx;
    enum rc rc = task_option_text(value, TOPIC_NAME_SIZE - 1, &options->topic, err);

    if (rc == RC_OK && !topic_name_is(options->topic))
        return err_fail(err, RC_REJECT, 0,
                        "letters, digits, \".\", \"_\" and \"-\" are expected, %d at most",
                        TOPIC_NAME_SIZE - 1);
    return rc;
}

static int read_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* There is room: each byte was two digits of the text. */
static enum rc read_hex(struct kafka_options *options, const json_t *value, struct bytes *bytes,
                        struct err *err)
{
    const char *hex = json_string_value(value);
    size_t len = json_string_length(value);
    char *out = options->bytes + options->bytes_used;

    if (!hex || len % 2 != 0)
        return err_fail(err, RC_REJECT, 0, "hexadecimal digits are expected, two for each byte");
    for (size_t i = 0; i < len; i += 2) {
        int high = read_digit(hex[i]);
        int low = read_digit(hex[i + 1]);

        if (high < 0 || low < 0)
            return err_fail(err, RC_REJECT, 0,
                            "hexadecimal digits are expected, two for each byte");
        out[i / 2] = (char)(high * 16 + low);
    }
    options->bytes_used += len / 2;
    *bytes = (struct bytes){out, len / 2};
    return RC_OK;
}

static enum rc check_key_once(const struct kafka_options *options, struct err *err)
{
    return options->key.data ? err_fail(err, RC_REJECT, 0, "\"key\" or \"keyHex\", not both")
                             : RC_OK;
}

static enum rc take_key(void *ctx, const json_t *value, struct err *err)
{
    struct kafka_options *options = ctx;
    enum rc rc = check_key_once(options, err);

    if (rc != RC_OK || json_is_null(value))
        return rc;
    if (!json_is_string(value))
        return err_fail(err, RC_REJECT, 0, "a text or null is expected");
    options->key = (struct bytes){json_string_value(value), json_string_length(value)};
    return RC_OK;
}

static enum rc take_key_hex(void *ctx, const json_t *value, struct err *err)
{
    struct kafka_options *options = ctx;
    enum rc rc = check_key_once(options, err);

    return rc == RC_OK ? read_hex(options, value, &options->key, err) : rc;
}

static enum rc add_header(struct kafka_options *options, const char *name, const json_t *value,
                          struct err *err)
{
    struct kafka_header *header = &options->headers[options->header_count];

    header->name = name;
    header->value = (struct bytes){NULL, 0};
    if (name[0] == '\0')
        return err_fail(err, RC_REJECT, 0, "a name is empty");
    if (json_is_string(value)) {
        header->value = (struct bytes){json_string_value(value), json_string_length(value)};
    } else if (json_is_object(value) && json_object_size(value) == 1) {
        enum rc rc = read_hex(options, json_object_get(value, "hex"), &header->value, err);

        if (rc != RC_OK)
            return rc;
    } else if (!json_is_null(value)) {
        return err_fail(err, RC_REJECT, 0,
                        "the value of \"%.40s\" is not a text, {\"hex\": ...} or null", name);
    }
    options->header_count++;
    return RC_OK;
}

/* [NAME, VALUE]. */
static enum rc add_pair(struct kafka_options *options, const json_t *pair, struct err *err)
{
    const char *name;
    enum rc rc;

    if (!json_is_array(pair) || json_array_size(pair) != 2)
        return err_fail(err, RC_REJECT, 0, "a list of [name, value] is expected");
    rc = task_option_text(json_array_get(pair, 0), TEXT_BYTES_MAX, &name, err);
    if (rc != RC_OK) {
        err_wrap(err, "a name");
        return rc;
    }
    return add_header(options, name, json_array_get(pair, 1), err);
}

static enum rc make_headers_room(struct kafka_options *options, size_t count, struct err *err)
{
    if (count > KAFKA_HEADERS_MAX)
        return err_fail(err, RC_REJECT, 0, "%d at most are expected", KAFKA_HEADERS_MAX);
    options->headers = calloc(count + 1, sizeof(*options->headers));
    return options->headers ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory for headers");
}

static enum rc take_header_list(struct kafka_options *options, const json_t *list, struct err *err)
{
    enum rc rc = make_headers_room(options, json_array_size(list), err);
    size_t i;
    json_t *pair;

    json_array_foreach(list, i, pair)
        if (rc == RC_OK)
            rc = add_pair(options, pair, err);
    return rc;
}

static enum rc take_header_object(struct kafka_options *options, const json_t *object,
                                  struct err *err)
{
    enum rc rc = make_headers_room(options, json_object_size(object), err);
    const char *name;
    json_t *value;

    /* Iterating takes no const, and changes nothing. */
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
        if (rc == RC_OK)
            rc = add_header(options, name, value, err);
    return rc;
}

static enum rc take_headers(void *ctx, const json_t *value, struct err *err)
{
    if (json_is_array(value))
        return take_header_list(ctx, value, err);
    if (json_is_object(value))
        return take_header_object(ctx, value, err);
    return err_fail(err, RC_REJECT, 0, "a list of [name, value] or an object is expected");
}

static enum rc take_timestamp(void *ctx, const json_t *value, struct err *err)
{
    struct kafka_options *options = ctx;

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return err_fail(err, RC_REJECT, 0, "milliseconds since 1970 are expected; 0: now");
    options->timestamp_ms = json_integer_value(value);
    return RC_OK;
}

static enum rc take_partition(void *ctx, const json_t *value, struct err *err)
{
    struct kafka_options *options = ctx;

    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > INT32_MAX)
        return err_fail(err, RC_REJECT, 0, "a number of 0 or more is expected");
    options->partition = (int32_t)json_integer_value(value);
    return RC_OK;
}

static enum rc take_move_number(const json_t *value, const char *name, int64_t *number,
                                struct err *err)
{
    const json_t *member = json_object_get(value, name);

    if (!json_is_integer(member) || json_integer_value(member) < 1)
        return err_fail(err, RC_REJECT, 0, "\"%s\" is not a number above 0", name);
    *number = json_integer_value(member);
    return RC_OK;
}

/* {"lane": KEY, "epoch": NUMBER, "term": NUMBER, "row": NUMBER}; an operator may replace it by
 * null. */
static enum rc take_transaction(void *ctx, const json_t *value, struct err *err)
{
    struct kafka_options *options = ctx;
    int64_t term = 0;
    int64_t row = 0;
    enum rc rc = RC_OK;

    if (json_is_null(value))
        return RC_OK;
    if (!json_is_object(value) || json_object_size(value) != 4)
        return err_fail(err, RC_REJECT, 0, "what the relay has written, or null, is expected");
    rc = task_option_text(json_object_get(value, "lane"), POSITION_KEY_SIZE - 1,
                          &options->move.lane_key, err);
    if (rc == RC_OK)
        rc = take_move_number(value, "epoch", &options->move.epoch, err);
    if (rc == RC_OK)
        rc = take_move_number(value, "term", &term, err);
    if (rc == RC_OK)
        rc = take_move_number(value, "row", &row, err);
    options->move.term = (uint64_t)term;
    options->move.row = (uint64_t)row;
    return rc;
}

/* The relay writes these two when a row makes no record. */
static enum rc refuse_row_id(void *ctx, const json_t *value, struct err *err)
{
    (void)ctx;
    (void)value;
    return err_fail(err, RC_REJECT, 0,
                    "the id of the outbox row is not printable, or a column is too long: give an "
                    "\"id\" with `tallybox retry edit ID --headers FILE`");
}

static enum rc refuse_row_headers(void *ctx, const json_t *value, struct err *err)
{
    (void)ctx;
    (void)value;
    return err_fail(err, RC_REJECT, 0,
                    "the headers of the outbox row are not a JSON object of texts with free names: "
                    "correct them with `tallybox retry edit ID --headers FILE`");
}

static const struct task_option fields[] = {
    {"topic", take_topic},
    {"key", take_key},
    {"keyHex", take_key_hex},
    {"headers", take_headers},
    {"timestampMs", take_timestamp},
    {"partition", take_partition},
    {"rowId", refuse_row_id},
    {"rowHeaders", refuse_row_headers},
    {"transaction", take_transaction},
};

struct handler {
    struct publisher *publisher;
    struct exact_publisher *exact; /* of rows of lanes that publish exactly once */
};

static void kafka_close(void *opened)
{
    struct handler *handler = opened;

    if (!handler)
        return;
    exact_publisher_close(handler->exact);
    publisher_close(handler->publisher);
    free(handler);
}

static enum rc kafka_open(void **opened, const struct retry_handler_env *env, struct err *err)
{
    struct handler *handler = calloc(1, sizeof(*handler));
    enum rc rc;

    if (!handler)
        return err_fail(err, RC_FATAL, 0, "no memory for a handler");
    rc = publisher_open(&handler->publisher, env->settings, env->stop, env->workers, err);
    if (rc == RC_OK)
        rc = exact_publisher_open(&handler->exact, env->settings, env->stop, err);
    if (rc == RC_OK) {
        *opened = handler;
        return RC_OK;
    }
    kafka_close(handler);
    return rc;
}

/* Another application would fence the publisher of the lane. */
static enum rc check_maker(const struct kafka_options *options, const struct retry_job *job,
                           struct err *err)
{
    if (!options->move.lane_key || job->of_relay)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "options: \"transaction\" is only for the tasks that the relay makes");
}

static enum rc kafka_check(const struct retry_handlers *all, const struct retry_job *job,
                           struct err *err)
{
    struct kafka_options options;
    enum rc rc = kafka_options_read(&options, job->options, err);

    if (rc != RC_OK)
        return rc;
    rc = check_maker(&options, job, err);
    if (rc == RC_OK && all && all->settings)
        rc = relay_check_size(options.key.len + job->params_len, all->settings->relay.row_bytes_max,
                              err);
    kafka_options_done(&options);
    return rc;
}

static void kafka_destination(const struct retry_handlers *all, const struct retry_job *job,
                              struct buf *name)
{
    struct kafka_options options;

    (void)all;
    if (kafka_options_read(&options, job->options, NULL) != RC_OK)
        return;
    buf_print(name, "kafka:%s", options.topic);
    kafka_options_done(&options);
}

static struct bytes text_bytes(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

/* These headers replace headers of the same name: an event of the queue may return to the queue. */
static size_t headers_take(struct publisher_header *headers, const struct kafka_options *options,
                           const struct retry_job *job, const char *number)
{
    size_t count = 0;

    for (size_t i = 0; i < options->header_count; i++) {
        const struct kafka_header *given = &options->headers[i];

        if (strcmp(given->name, HEADER_ATTEMPT) != 0 && strcmp(given->name, HEADER_NO_RETRY) != 0)
            headers[count++] = (struct publisher_header){given->name, given->value};
    }
    headers[count++] = (struct publisher_header){HEADER_ATTEMPT, text_bytes(number)};
    if (!job->receiver_retries)
        headers[count++] = (struct publisher_header){HEADER_NO_RETRY, text_bytes("1")};
    return count;
}

static struct exact_task name_exact_task(const struct kafka_options *options,
                                         const struct retry_job *job)
{
    return (struct exact_task){
        .lane_key = options->move.lane_key,
        .epoch = options->move.epoch,
        .term = options->move.term,
        .row = options->move.row,
        .shard = job->shard,
        .id = job->id,
        .idempotency_key = job->idempotency_key,
    };
}

static enum publisher_end send(struct handler *handler, size_t worker, const struct retry_job *job,
                               const struct kafka_options *options,
                               const struct publisher_record *record, struct err *err)
{
    struct exact_task task = name_exact_task(options, job);

    if (!task.lane_key)
        return publisher_send(handler->publisher, worker, record, err);
    return exact_publisher_send(handler->exact, &task, record, err);
}

/* Nothing was tried. */
static void wait_for_position(struct attempt_result *attempt, const struct err *err)
{
    attempt->end = ATTEMPT_SNOOZED;
    attempt->waits = true;
    attempt->delay_ms = POSITION_WAIT_MS;
    err_set(&attempt->err, "%s", err->text);
}

static void log_replaced(const struct retry_job *job)
{
    log_event(LOG_INFO, "task_replaced",
              "id=%" PRId64 " group=%s text=\"the lane has read the row of this task again, "
              "because its move was not committed; nothing is published\"",
              job->id, job->group);
}

static void publish(struct handler *handler, size_t worker, const struct retry_job *job,
                    const struct kafka_options *options, struct publisher_header *headers,
                    struct attempt_result *attempt)
{
    char number[24];
    struct publisher_record record = {
        .topic = options->topic,
        .key = options->key,
        .value = {job->params, job->params_len},
        .headers = headers,
        .timestamp_ms = options->timestamp_ms,
        .now_ms = os_now_ms() + job->database_ahead_ms,
        .partition = options->partition,
        .lease_until_ms = job->lease_until_ms,
    };
    struct err err = {0};

    snprintf(number, sizeof(number), "%" PRId64, job->attempt);
    record.header_count = headers_take(headers, options, job, number);
    switch (send(handler, worker, job, options, &record, &err)) {
    case PUBLISHED:
        return;
    case PUBLISH_WAITS:
        wait_for_position(attempt, &err);
        return;
    case PUBLISH_VOID:
        log_replaced(job);
        return;
    case PUBLISH_FAILED:
        attempt_fail(attempt, FAULT_SOURCE_KAFKA, err.code, FAULT_CLASS_TRANSIENT, "%s", err.text);
        return;
    case PUBLISH_REFUSED:
        attempt_fail(attempt, FAULT_SOURCE_KAFKA, err.code, FAULT_CLASS_REFUSED, "%s", err.text);
        return;
    case PUBLISH_BARRED:
        attempt_fail(attempt, FAULT_SOURCE_KAFKA, err.code, FAULT_CLASS_OURS, "%s", err.text);
        return;
    case PUBLISH_CUT:
        attempt_cut(attempt);
        return;
    case PUBLISH_LOST:
        attempt_lose_lease(attempt);
        return;
    }
}

static void kafka_run(void *handler, size_t worker, const struct retry_job *job,
                      struct attempt_result *attempt)
{
    struct kafka_options options;
    struct publisher_header *headers;
    struct err err = {0};

    if (kafka_options_read(&options, job->options, &err) != RC_OK) {
        attempt_refuse(attempt, &err);
        return;
    }
    if (check_maker(&options, job, &err) != RC_OK) {
        attempt_refuse(attempt, &err);
        kafka_options_done(&options);
        return;
    }
    headers = calloc(options.header_count + OWN_HEADERS, sizeof(*headers));
    if (headers)
        publish(handler, worker, job, &options, headers, attempt);
    else
        attempt_fail(attempt, FAULT_SOURCE_PLAIN, 0, FAULT_CLASS_TRANSIENT,
                     "no memory for headers");
    free(headers);
    kafka_options_done(&options);
}

static void kafka_ended(void *opened, const struct retry_job *job)
{
    struct handler *handler = opened;
    struct kafka_options options;
    struct exact_task task;

    if (!job->of_relay || kafka_options_read(&options, job->options, NULL) != RC_OK)
        return;
    task = name_exact_task(&options, job);
    if (task.lane_key)
        exact_publisher_end(handler->exact, &task);
    kafka_options_done(&options);
}

static enum rc kafka_effects(const struct retry_handlers *all, const struct retry_job *job,
                             retry_on_effect on_effect, void *ctx, struct err *err)
{
    struct kafka_options options;
    enum rc rc = kafka_options_read(&options, job->options, err);

    (void)all;
    if (rc != RC_OK)
        return rc == RC_REJECT ? RC_OK : rc;
    rc = on_effect(ctx, retry_kafka_handler.name, options.topic, err);
    kafka_options_done(&options);
    return rc;
}

enum rc kafka_options_read(struct kafka_options *options, const char *text, struct err *err)
{
    enum rc rc;

    *options = (struct kafka_options){.partition = -1};
    options->bytes = malloc(strlen(text) / 2 + 1);
    if (!options->bytes)
        return err_fail(err, RC_FATAL, 0, "no memory for the options of a task");
    rc = task_options_read(&options->json, text, fields, sizeof(fields) / sizeof(fields[0]),
                           options, err);
    if (rc == RC_OK && !options->topic)
        rc = err_fail(err, RC_REJECT, 0, "options: \"topic\" is missing");
    if (rc != RC_OK)
        kafka_options_done(options);
    return rc;
}

void kafka_options_done(struct kafka_options *options)
{
    task_options_done(options->json);
    free(options->bytes);
    free(options->headers);
    *options = (struct kafka_options){0};
}

const struct retry_handler retry_kafka_handler = {
    .name = "kafka",
    .about = "Publishes the parameters to a Kafka topic and waits for the acknowledgement.",
    .open = kafka_open,
    .check = kafka_check,
    .destination = kafka_destination,
    .effects = kafka_effects,
    .run = kafka_run,
    .ended = kafka_ended,
    .close = kafka_close,
};
