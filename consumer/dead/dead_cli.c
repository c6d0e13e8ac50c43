/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead_cli.h"

#include "common/id.h"
#include "common/nearest.h"
#include "common/text.h"
#include "common/utc.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const actions[] = {
    [DEAD_LIST] = "list", [DEAD_SHOW] = "show", [DEAD_REPLAY] = "replay", [DEAD_DROP] = "drop"};

#define ACTION_COUNT (sizeof(actions) / sizeof(actions[0]))

static enum rc read_action(struct dead_request *request, const char *name, struct err *err)
{
    struct nearest nearest = {.typed = name};

    for (size_t i = 0; i < ACTION_COUNT; i++) {
        if (strcmp(actions[i], name) == 0) {
            request->action = (enum dead_action)i;
            return RC_OK;
        }
        nearest_offer(&nearest, actions[i]);
    }
    return err_fail(err, RC_FATAL, 0, "unknown action \"%.64s\"%s%s", name,
                    nearest.word ? "; did you mean " : "", nearest.word ? nearest.word : "");
}

static enum rc read_ids(struct dead_request *request, const char *const *arguments, size_t count,
                        struct err *err)
{
    if (count > DEAD_IDS_MAX)
        return err_fail(err, RC_FATAL, 0, "more than %d ids; choose by --class, --since ...",
                        DEAD_IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        if (!id_parse_number(arguments[i], strlen(arguments[i]), &request->ids[i]))
            return err_fail(err, RC_FATAL, 0,
                            "\"%.64s\" is not the id of a dead record, such as 17", arguments[i]);
    }
    request->filter.ids = request->ids;
    request->filter.id_count = count;
    return RC_OK;
}

static bool has_filter(const struct dead_options *options)
{
    return options->topic || options->partition != DEAD_NUMBER_ANY || options->reason_class ||
           options->key || options->since || options->until;
}

/* An option that has no meaning for the action is an error. */
static enum rc check_options(const struct dead_request *request, struct err *err)
{
    const struct dead_options *options = &request->options;
    const struct {
        const char *name;
        bool given;
        bool fits;
    } uses[] = {
        {"after", options->after != 0, request->action == DEAD_LIST},
        {"decided", options->decided, request->action == DEAD_LIST},
        {"payload", options->payload, request->action == DEAD_SHOW},
        {"value", options->value_path != NULL, request->action == DEAD_REPLAY && !options->queue},
        {"ignore-key", options->ignore_key, request->action == DEAD_REPLAY && !options->queue},
        {"queue", options->queue, request->action == DEAD_REPLAY},
        {"all", options->all, request->action == DEAD_REPLAY || request->action == DEAD_DROP},
        {"yes", options->yes, request->action == DEAD_REPLAY || request->action == DEAD_DROP},
        {"reason", options->reason != NULL,
         request->action == DEAD_REPLAY || request->action == DEAD_DROP},
        {"limit", options->limit != DEAD_NUMBER_ANY, request->action != DEAD_SHOW},
    };

    for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++)
        if (uses[i].given && !uses[i].fits)
            return err_fail(err, RC_FATAL, 0, "--%s does not apply to this action", uses[i].name);
    if (options->json && options->payload)
        return err_fail(err, RC_FATAL, 0, "--json and --payload exclude each other");
    return RC_OK;
}

static enum rc check_numbers(const struct dead_options *options, struct err *err)
{
    int64_t ms;

    if (options->partition != DEAD_NUMBER_ANY &&
        (options->partition < 0 || options->partition > INT32_MAX))
        return err_fail(err, RC_FATAL, 0, "--partition takes a number from 0");
    if (options->limit != DEAD_NUMBER_ANY && options->limit < 1)
        return err_fail(err, RC_FATAL, 0, "--limit takes a number from 1");
    if (options->after < 0)
        return err_fail(err, RC_FATAL, 0, "--after takes an id");
    if ((options->since && !when_read(options->since, INT64_MAX / 2, &ms)) ||
        (options->until && !when_read(options->until, INT64_MAX / 2, &ms)))
        return err_fail(err, RC_FATAL, 0,
                        "--since and --until take 30s, 15m, 2h or 7d before now, or a time in UTC "
                        "such as 2026-11-21T17:05:00Z");
    return RC_OK;
}

static enum rc check_choice(const struct dead_request *request, struct err *err)
{
    const struct dead_options *options = &request->options;
    size_t ids = request->filter.id_count;

    if (request->action == DEAD_SHOW && (ids != 1 || has_filter(options)))
        return err_fail(err, RC_FATAL, 0, "show takes one ID");
    if (options->value_path && (ids != 1 || has_filter(options)))
        return err_fail(err, RC_FATAL, 0, "--value takes one ID");
    if (options->all && (ids > 0 || has_filter(options)))
        return err_fail(err, RC_FATAL, 0, "--all takes no IDs and no filters");
    if (request->action != DEAD_LIST && ids == 0 && !has_filter(options) && !options->all)
        return err_fail(err, RC_FATAL, 0,
                        "select records: an ID, or --class, --key, --topic, --partition, --since, "
                        "--until, or --all");
    return RC_OK;
}

enum rc dead_request_read(struct dead_request *request, const struct dead_options *options,
                          const char *const *arguments, size_t count, struct err *err)
{
    enum rc rc;

    memset(request, 0, sizeof(*request));
    request->options = *options;
    request->filter = (struct dead_filter){
        .topic = options->topic,
        .partition = options->partition,
        .reason_class = options->reason_class,
        .key = options->key,
        .since_ms = DEAD_NUMBER_ANY,
        .until_ms = DEAD_NUMBER_ANY,
    };
    if (count == 0)
        return err_fail(err, RC_FATAL, 0, "expected an ACTION: list, show, replay or drop");
    rc = read_action(request, arguments[0], err);
    if (rc == RC_OK)
        rc = read_ids(request, arguments + 1, count - 1, err);
    if (rc == RC_OK)
        rc = check_options(request, err);
    if (rc == RC_OK)
        rc = check_numbers(options, err);
    if (rc == RC_OK)
        rc = check_choice(request, err);
    return rc;
}

void dead_request_times(struct dead_request *request, int64_t now_ms)
{
    struct dead_filter *filter = &request->filter;

    if (request->options.since)
        when_read(request->options.since, now_ms, &filter->since_ms);
    if (request->options.until)
        when_read(request->options.until, now_ms, &filter->until_ms);
    /* No record died before 1970. */
    if (request->options.since && filter->since_ms < 0)
        filter->since_ms = 0;
    if (request->options.until && filter->until_ms < 0)
        filter->until_ms = 0;
}

bool dead_request_is_bulk(const struct dead_request *request)
{
    return request->filter.id_count == 0;
}

#define KEY_COLUMNS 24

/* Appends the key on one line, cut to KEY_COLUMNS. Each byte that a terminal would not print
 * becomes a dot. */
static void put_key(struct buf *out, const struct dead_view *view)
{
    const unsigned char *bytes = view->key;
    size_t len = view->key_len < KEY_COLUMNS ? view->key_len : KEY_COLUMNS;
    size_t start = out->len;

    if (!view->key)
        buf_text_put(out, "(none)");
    for (size_t i = 0; view->key && i < len; i++)
        buf_char(out, bytes[i] >= 0x20 && bytes[i] < 0x7f ? (char)bytes[i] : '.');
    while (out->len < start + 10 && !out->failed)
        buf_char(out, ' ');
}

void dead_list_head(struct buf *out, bool decided)
{
    buf_print(out, "%8s  %-28s  %-10s  %-9s  %8s  %-10s  %s\n", "id", "place",
              decided ? "decided" : "died", "reason", "bytes", "key", decided ? "decision" : "");
}

void dead_list_row(struct buf *out, const struct dead_view *view, int64_t now_ms)
{
    char place[300];
    char age[WHEN_AGE_SIZE];

    snprintf(place, sizeof(place), "%s/%" PRId32 "@%" PRId64, view->topic, view->partition,
             view->offset);
    when_age(age, now_ms - (view->decision ? view->decided_ms : view->died_ms));
    buf_print(out, "%8" PRId64 "  %-28s  %-10s  %-9s  ", view->id, place, age, view->reason_class);
    if (view->has_value)
        buf_print(out, "%8zu  ", view->value_len);
    else
        buf_print(out, "%8s  ", "(none)");
    put_key(out, view);
    if (view->decision)
        buf_print(out, "  %s by %s\n", view->decision, view->decided_by);
    else
        buf_print(out, "  %s\n", view->reason);
}

static void put_header(struct buf *out, const json_t *header)
{
    const json_t *value = json_array_get(header, 1);
    const char *name = json_string_value(json_array_get(header, 0));
    struct buf bytes = {0};

    if (!name)
        return;
    buf_print(out, "  %s", utf8_prints(name, strlen(name)) ? name : "(not printable)");
    if (!json_is_string(value)) {
        buf_text_put(out, ": (none)\n");
        return;
    }
    if (base64_take(&bytes, json_string_value(value), json_string_length(value)) && !bytes.failed &&
        utf8_prints(bytes.data ? bytes.data : "", bytes.len))
        buf_print(out, ": %s\n", buf_text(&bytes));
    else if (utf8_prints(json_string_value(value), json_string_length(value)))
        buf_print(out, ": base64 %s\n", json_string_value(value));
    else
        buf_text_put(out, ": (not printable)\n");
    buf_done(&bytes);
}

static void put_headers(struct buf *out, const char *text)
{
    json_t *headers = json_loads(text, 0, NULL);
    size_t count = json_array_size(headers);

    if (count == 0)
        buf_print(out, "%-14s%s\n", "headers", headers ? "(none)" : "not readable");
    else
        buf_print(out, "%-14s%zu\n", "headers", count);
    for (size_t i = 0; i < count; i++)
        put_header(out, json_array_get(headers, i));
    json_decref(headers);
}

static void put_time(struct buf *out, const char *name, int64_t ms, int64_t now_ms)
{
    char time[WHEN_TEXT_SIZE];
    char age[WHEN_AGE_SIZE];

    when_text(time, ms);
    when_age(age, now_ms - ms);
    buf_print(out, "%-14s%s, %s ago\n", name, time, age);
}

void dead_show_text(struct buf *out, const struct dead_view *view, int64_t now_ms)
{
    buf_print(out, "%-14s%" PRId64 "\n", "id", view->id);
    buf_print(out, "%-14s%s/%" PRId32 "@%" PRId64 "\n", "place", view->topic, view->partition,
              view->offset);
    put_time(out, "died", view->died_ms, now_ms);
    buf_print(out, "%-14s%s: %s\n", "reason", view->reason_class, view->reason);
    if (view->decision) {
        put_time(out, "decided", view->decided_ms, now_ms);
        buf_print(out, "%-14s%s, by %s\n", "decision", view->decision, view->decided_by);
    }
    if (view->time_ms == DEAD_NUMBER_ANY)
        buf_print(out, "%-14s(none)\n", "record time");
    else
        put_time(out, "record time", view->time_ms, now_ms);
    bytes_show(out, 14, "key", view->key, view->key_len);
    put_headers(out, view->headers);
    bytes_show(out, 14, "payload", view->value, view->value_len);
    if (view->applied_value)
        bytes_show(out, 14, "applied", view->applied_value, view->applied_len);
}

/* Adds "name" if the bytes are UTF-8, else "name_base64". The other member is null. */
static int add_json_bytes(json_t *object, const char *name, const void *bytes, size_t len)
{
    char other[32];
    struct buf text = {0};
    json_t *plain = NULL;
    json_t *coded = NULL;

    snprintf(other, sizeof(other), "%s_base64", name);
    if (bytes && utf8_fits(bytes, len)) {
        plain = json_stringn(bytes, len);
    } else if (bytes) {
        base64_put(&text, bytes, len);
        coded = json_string(buf_text(&text));
    }
    buf_done(&text);
    if (bytes && !plain && !coded)
        return -1;
    return json_object_set_new(object, name, plain ? plain : json_null()) +
           json_object_set_new(object, other, coded ? coded : json_null());
}

static int add_json_header(json_t *list, const json_t *header)
{
    const json_t *value = json_array_get(header, 1);
    json_t *name = json_array_get(header, 0);
    json_t *one = json_object();
    struct buf bytes = {0};
    int failed = json_object_set_new(one, "name", name ? json_incref(name) : json_null());

    if (json_is_string(value))
        base64_take(&bytes, json_string_value(value), json_string_length(value));
    failed +=
        add_json_bytes(one, "value", json_is_string(value) ? buf_text(&bytes) : NULL, bytes.len);
    failed += bytes.failed;
    buf_done(&bytes);
    return failed + json_array_append_new(list, one);
}

static int add_json_headers(json_t *object, const char *text)
{
    json_t *headers = json_loads(text, 0, NULL);
    json_t *list = json_array();
    int failed = 0;

    for (size_t i = 0; i < json_array_size(headers); i++)
        failed += add_json_header(list, json_array_get(headers, i));
    json_decref(headers);
    return failed + json_object_set_new(object, "headers", list);
}

static int add_json_whole(json_t *object, const struct dead_view *view)
{
    int failed = add_json_headers(object, view->headers);

    failed += add_json_bytes(object, "payload", view->value, view->value_len);
    if (view->decision)
        failed += add_json_bytes(object, "applied_value", view->applied_value, view->applied_len);
    return failed;
}

static int add_json_number(json_t *object, const char *name, int64_t value, bool known)
{
    return json_object_set_new(object, name, known ? json_integer(value) : json_null());
}

void dead_json(struct buf *out, const struct dead_view *view, bool whole)
{
    json_t *object = json_pack("{s:I, s:s, s:i, s:I, s:s, s:s, s:I}", "id", (json_int_t)view->id,
                               "topic", view->topic, "partition", (int)view->partition, "offset",
                               (json_int_t)view->offset, "reason_class", view->reason_class,
                               "reason", view->reason, "died_ms", (json_int_t)view->died_ms);
    char *text = NULL;
    int failed = object ? 0 : -1;

    failed += add_json_bytes(object, "key", view->key, view->key_len);
    failed += add_json_number(object, "payload_bytes", (int64_t)view->value_len, view->has_value);
    failed +=
        add_json_number(object, "record_time_ms", view->time_ms, view->time_ms != DEAD_NUMBER_ANY);
    if (view->decision) {
        failed += json_object_set_new(object, "decision", json_string(view->decision));
        failed += json_object_set_new(object, "decided_by", json_string(view->decided_by));
        failed += add_json_number(object, "decided_ms", view->decided_ms, true);
    }
    if (whole)
        failed += add_json_whole(object, view);
    if (failed == 0)
        text = json_dumps(object, whole ? JSON_INDENT(2) : 0);
    if (text)
        buf_text_put(out, text);
    else
        out->failed = true;
    free(text);
    json_decref(object);
}
