/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/kafka_options.h"

#include "outbox/relay/topics.h"
#include "outbox/retry/handlers/task_options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES_MAX 65535

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

static const struct task_option fields[] = {
    {"topic", take_topic},           {"key", take_key},
    {"keyHex", take_key_hex},        {"headers", take_headers},
    {"timestampMs", take_timestamp}, {"partition", take_partition},
};

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
