/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_edit_command.h"

#include "common/backoff.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "outbox/outbox.h"
#include "outbox/retry/store/scene_mysql.h"
#include "outbox/retry/store/task_admin_mysql.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 8
#define RETRY_BASE_MS 100
#define RETRY_CAP_MS 2000
#define WHAT_SIZE 64
#define JSON_FLAGS (JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL)

/* The headers that the relay makes and an application may give instead. Those that only the relay
 * may make are in outbox_check_header(). */
static const char *const replaceable_headers[] = {"ce_type", "ce_source", "ce_time",
                                                  "original_timestamp"};

static bool is_replaceable(const char *name)
{
    for (size_t i = 0; i < sizeof(replaceable_headers) / sizeof(replaceable_headers[0]); i++)
        if (strcmp(name, replaceable_headers[i]) == 0)
            return true;
    return false;
}

static bool is_reserved(const char *name)
{
    return name[0] != '\0' && outbox_check_header(name, NULL) != RC_OK;
}

static enum rc parse_json(json_t **json, const char *text, const char *what, struct err *err)
{
    json_error_t fault;

    *json = json_loads(text, JSON_FLAGS, &fault);
    return *json ? RC_OK
                 : err_fail(err, RC_REJECT, 0, "%s: not JSON: %s (line %d, column %d)", what,
                            fault.text, fault.line, fault.column);
}

static enum rc parse_object(json_t **json, const char *text, const char *what, struct err *err)
{
    enum rc rc = parse_json(json, text, what, err);

    if (rc == RC_OK && !json_is_object(*json))
        rc = err_fail(err, RC_REJECT, 0, "%s are not a JSON object", what);
    return rc;
}

/* *pairs: a new list of [name, value]. */
static enum rc make_pairs(json_t **pairs, const json_t *headers, struct err *err)
{
    const char *name;
    json_t *value;
    size_t i;

    *pairs = json_array();
    if (json_is_object(headers)) {
        /* Iterating takes no const, and changes nothing. */
        json_object_foreach((json_t *)(uintptr_t)headers, name, value)
            json_array_append_new(*pairs, json_pack("[s,O]", name, value));
        return RC_OK;
    }
    if (!json_is_array(headers))
        return err_fail(err, RC_REJECT, 0,
                        "headers: neither a JSON object nor a list of [name, value]");
    json_array_foreach(headers, i, value) {
        if (json_array_size(value) != 2 || !json_is_string(json_array_get(value, 0)))
            return err_fail(err, RC_REJECT, 0, "headers: element %zu is not [name, value]", i + 1);
        json_array_append(*pairs, value);
    }
    return RC_OK;
}

static const char *get_name(const json_t *pair)
{
    const char *name = json_string_value(json_array_get(pair, 0));

    return name ? name : "";
}

static const json_t *find_pair(const json_t *pairs, const char *name)
{
    json_t *pair;
    size_t i;

    json_array_foreach(pairs, i, pair) {
        if (strcmp(get_name(pair), name) == 0)
            return pair;
    }
    return NULL;
}

/* A reserved header may be given if it is as it was, so that the options of `retry show --json` can
 * be corrected and given back; or if the task has none. */
static enum rc append_given(json_t *result, const json_t *before, json_t *given, struct err *err)
{
    json_t *pair;
    size_t i;

    json_array_foreach(given, i, pair) {
        const char *name = get_name(pair);
        const json_t *was =
            is_reserved(name) || is_replaceable(name) ? find_pair(before, name) : NULL;

        if (was && json_equal(was, pair))
            continue; /* it was kept */
        if (!was || is_replaceable(name))
            json_array_append(result, pair);
        else
            return err_fail(err, RC_REJECT, 0,
                            "headers: \"%.64s\" is reserved for the relay and stays as it is: "
                            "leave it out",
                            name);
    }
    return RC_OK;
}

/* Invariant: an event is published with an id. If the row's id could not be published, the given
 * one takes its place, also in the CloudEvents attributes. */
static void settle_id(json_t *options, json_t *headers)
{
    const json_t *id = find_pair(headers, "id");

    if (!id)
        return;
    json_object_del(options, "rowId");
    if (find_pair(headers, "ce_specversion") && !find_pair(headers, "ce_id"))
        json_array_append_new(headers, json_pack("[s,O]", "ce_id", json_array_get(id, 1)));
}

/* before: the event's headers so far; any JSON, or NULL. */
static enum rc merge_headers(json_t *options, const json_t *before, const json_t *headers,
                             struct err *err)
{
    json_t *result = json_array();
    json_t *given = NULL;
    json_t *pair;
    size_t i;
    enum rc rc = make_pairs(&given, headers, err);

    json_array_foreach(before, i, pair) {
        const json_t *instead = find_pair(given, get_name(pair));

        if (is_reserved(get_name(pair)) ||
            (is_replaceable(get_name(pair)) && (!instead || json_equal(instead, pair))))
            json_array_append(result, pair);
    }
    if (rc == RC_OK)
        rc = append_given(result, before, given, err);
    settle_id(options, result);
    json_object_set(options, "headers", result);
    json_object_del(options, "rowHeaders"); /* has been corrected */
    json_decref(given);
    json_decref(result);
    return rc;
}

/* Puts the members of more over those of options; key and keyHex are one. */
static void update_members(json_t *options, json_t *more)
{
    if (json_object_get(more, "key"))
        json_object_del(options, "keyHex");
    if (json_object_get(more, "keyHex"))
        json_object_del(options, "key");
    json_object_update(options, more);
}

static enum rc edit_event(json_t *options, json_t *more, const json_t *headers, struct err *err)
{
    json_t *before = json_incref(json_object_get(options, "headers"));
    enum rc rc = RC_OK;

    if (more) {
        if (json_object_get(more, "headers"))
            headers = json_object_get(more, "headers");
        update_members(options, more);
    }
    if (headers)
        rc = merge_headers(options, before, headers, err);
    json_decref(before);
    return rc;
}

static enum rc put_options(struct buf *out, const json_t *options, struct err *err)
{
    char *text = json_dumps(options, RETRY_OPTIONS_JSON);

    buf_text_put(out, text ? text : "");
    free(text);
    if (!text || out->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the options of a task");
    if (out->len > RETRY_OPTIONS_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "options have at most %d bytes",
                        RETRY_OPTIONS_BYTES_MAX);
    return RC_OK;
}

enum rc retry_edit_options(struct buf *out, const char *before, bool relays, const char *options,
                           const char *headers, struct err *err)
{
    json_t *result = NULL;
    json_t *more = NULL;
    json_t *given = NULL;
    enum rc rc = RC_OK;

    if (options && options[0])
        rc = parse_object(&more, options, "options", err);
    if (rc == RC_OK && headers)
        rc = parse_json(&given, headers, "headers", err);
    if (rc == RC_OK && given && json_object_get(more, "headers"))
        rc = err_fail(err, RC_REJECT, 0, "the headers are given twice");
    if (rc == RC_OK && !given && !relays) {
        buf_text_put(out, options ? options : before ? before : "");
        goto out;
    }
    if (rc == RC_OK && !relays && options)
        result = more ? json_incref(more) : json_object();
    else
        result = before ? json_loads(before, JSON_FLAGS, NULL) : NULL;
    if (!json_is_object(result)) {
        json_decref(result);
        result = json_object();
    }
    if (rc == RC_OK && relays)
        rc = edit_event(result, more, given, err);
    else if (rc == RC_OK)
        json_object_set(result, "headers", given);
    if (rc == RC_OK)
        rc = put_options(out, result, err);
out:
    json_decref(result);
    json_decref(more);
    json_decref(given);
    return rc;
}

/* One edit: what the operator gave, and the task as it was read. */
struct edit {
    struct db *db;
    const struct retry_handlers *handlers;
    const struct retry_words *words;
    const char *by;
    int64_t id;
    struct buf given_options;
    struct buf given_headers;
    struct buf params; /* given, or the task's */
    bool has_params;
    bool found;
    enum task_state state;
    int64_t epoch;
    enum retry_owner origin;
    char group[RETRY_NAME_BYTES_MAX + 1];
    char scene[RETRY_NAME_BYTES_MAX + 1];
    char handler[RETRY_HANDLER_BYTES_MAX + 1];
    char *ordering_key; /* NULL: none, as the next ones */
    char *idempotency_key;
    char *biz_no;
    char *params_type;
    struct buf options; /* after the edit */
    struct retry_group group_row;
    bool has_group;
    struct buf scene_options;
};

static void forget_task(struct edit *edit)
{
    free(edit->ordering_key);
    free(edit->idempotency_key);
    free(edit->biz_no);
    free(edit->params_type);
    edit->ordering_key = edit->idempotency_key = edit->biz_no = edit->params_type = NULL;
    edit->found = edit->has_group = false;
    buf_reset(&edit->options);
    buf_reset(&edit->scene_options);
    if (!edit->words->params_path)
        buf_reset(&edit->params);
}

static char *copy_text(const char *text)
{
    return text ? strdup(text) : NULL;
}

static enum rc take_task(void *ctx, const struct retry_view *view, struct err *err)
{
    struct edit *edit = ctx;
    const struct retry_words *words = edit->words;

    edit->found = true;
    edit->state = view->state;
    edit->epoch = view->epoch;
    if (view->state == TASK_RUNNING || view->state == TASK_PARKED)
        return RC_OK;
    if (!retry_owner_read(view->origin, strlen(view->origin), &edit->origin))
        edit->origin = OWNER_UNKNOWN;
    snprintf(edit->group, sizeof(edit->group), "%s", view->group);
    snprintf(edit->scene, sizeof(edit->scene), "%s", view->scene);
    snprintf(edit->handler, sizeof(edit->handler), "%s", view->handler);
    edit->ordering_key = copy_text(view->ordering_key);
    edit->idempotency_key = copy_text(view->idempotency_key);
    edit->biz_no = copy_text(view->biz_no);
    edit->params_type = copy_text(view->params_type);
    edit->has_params = words->params_path || (view->params && !words->no_params);
    if (edit->has_params && !words->params_path)
        buf_put(&edit->params, view->params, view->params_len);
    return retry_edit_options(&edit->options, view->options, edit->origin == OWNER_RELAY,
                              words->options ? buf_text(&edit->given_options) : NULL,
                              words->headers ? buf_text(&edit->given_headers) : NULL, err);
}

static enum rc take_group(void *ctx, const struct retry_group *group, struct err *err)
{
    struct edit *edit = ctx;

    (void)err;
    edit->group_row = *group;
    edit->has_group = true;
    return RC_OK;
}

static enum rc take_scene(void *ctx, const struct scene_row *row, struct err *err)
{
    struct edit *edit = ctx;

    (void)err;
    if (row->options)
        buf_text_put(&edit->scene_options, row->options);
    return RC_OK;
}

/* A group that is closed only lets its tasks wait, so it does not hinder an edit. */
static enum rc check_edit(struct edit *edit, struct err *err)
{
    enum retry_owner origin;
    const struct retry_new_task task = {
        .group = edit->group,
        .scene = edit->scene,
        .handler = edit->handler,
        .ordering_key = edit->ordering_key,
        .idempotency_key = edit->idempotency_key,
        .biz_no = edit->biz_no,
        .options = edit->options.len > 0 ? buf_text(&edit->options) : NULL,
        .params = edit->has_params ? buf_text(&edit->params) : NULL,
        .params_len = edit->params.len,
        .params_type = edit->params_type,
    };
    enum rc rc = retry_group_each(edit->db, edit->group, take_group, edit, err);

    if (rc == RC_OK)
        rc = scene_mysql_each(edit->db, edit->group, edit->scene, take_scene, edit, err);
    if (rc == RC_OK && (edit->options.failed || edit->params.failed || edit->scene_options.failed))
        rc = err_fail(err, RC_FATAL, 0, "no memory for a task");
    if (rc != RC_OK)
        return rc;
    origin = edit->has_group && edit->group_row.enabled ? edit->origin : OWNER_UNKNOWN;
    return retry_check(edit->handlers, &task, origin, &edit->group_row,
                       buf_text(&edit->scene_options), err);
}

/* What the edit replaces, for the operator's log: "headers, params". */
static void put_what(char what[WHAT_SIZE], const struct retry_words *words)
{
    const char *const parts[] = {
        words->headers ? "headers" : NULL, words->params_path ? "params" : NULL,
        words->no_params ? "no params" : NULL, words->options ? "options" : NULL};
    size_t len = 0;

    what[0] = '\0';
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i])
            len += (size_t)snprintf(what + len, WHAT_SIZE - len, "%s%s", len > 0 ? ", " : "",
                                    parts[i]);
}

/* Reads the task, checks what the edit makes of it, and writes it unless it has changed since. */
static enum rc try_edit(struct edit *edit, struct task_admin_result *result, struct err *err)
{
    const struct retry_filter filter = {.ids = &edit->id, .id_count = 1, .until_ms = INT64_MAX};
    char what[WHAT_SIZE];
    struct task_admin_edit wanted = {
        .id = edit->id, .epoch = -1, .by = edit->by, .what = what, .options = ""};
    struct retry_page page;
    enum rc rc;

    put_what(what, edit->words);
    forget_task(edit);
    *result = (struct task_admin_result){.id = edit->id, .outcome = TASK_ADMIN_UNFIT};
    rc = retry_find(edit->db, false, &filter, true, 1, take_task, edit, &page, err);
    if (edit->found && edit->state == TASK_RUNNING)
        result->outcome = TASK_ADMIN_RUNNING;
    if (edit->found && (edit->state == TASK_RUNNING || edit->state == TASK_PARKED))
        return rc;
    if (rc == RC_OK && edit->found) {
        rc = check_edit(edit, err);
        wanted.epoch = edit->epoch;
        wanted.options =
            edit->words->options || edit->words->headers ? buf_text(&edit->options) : NULL;
        wanted.params = edit->words->params_path ? buf_text(&edit->params) : NULL;
        wanted.params_len = edit->params.len;
        wanted.no_params = edit->words->no_params;
    }
    return rc == RC_OK ? task_admin_mysql_edit(edit->db, &wanted, result, err) : rc;
}

/* A transaction that fails is tried again a few times. */
static enum rc edit_task(struct edit *edit, struct task_admin_result *result, struct err *err)
{
    struct backoff backoff = {.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    struct stop stop = {0};
    enum rc rc = stop_init(&stop, err);

    while (rc == RC_OK) {
        rc = try_edit(edit, result, err);
        if (rc != RC_RETRY || backoff.tries == TRIES_MAX)
            break;
        stop_wait(&stop, backoff_next_ms(&backoff, os_random_u64()));
        rc = RC_OK;
    }
    stop_done(&stop);
    return rc;
}

static int print_result(const struct task_admin_result *result, bool json)
{
    static const char *const words[TASK_ADMIN_OUTCOMES] = {
        [TASK_ADMIN_DID] = "edited",      [TASK_ADMIN_RUNNING] = "running",
        [TASK_ADMIN_UNFIT] = "parked",    [TASK_ADMIN_ENDED] = "ended",
        [TASK_ADMIN_UNKNOWN] = "unknown",
    };
    static const char *const sentences[TASK_ADMIN_OUTCOMES] = {
        [TASK_ADMIN_DID] = "is edited; tallybox retry run-now makes it due",
        [TASK_ADMIN_RUNNING] =
            "is running and was not changed; try again when the attempt has ended",
        [TASK_ADMIN_UNFIT] = "is parked and was not changed: unpark its key and requeue it",
        [TASK_ADMIN_ENDED] = "has ended and was not changed: requeue it and edit the new task",
        [TASK_ADMIN_UNKNOWN] = "does not exist",
    };
    bool done = result->outcome == TASK_ADMIN_DID;

    if (json)
        printf("{\"id\": %" PRId64 ", \"outcome\": \"%s\"}\n", result->id, words[result->outcome]);
    else
        fprintf(done ? stdout : stderr, "task %" PRId64 " %s\n", result->id,
                sentences[result->outcome]);
    return done ? EXIT_DONE : EXIT_FAILED;
}

/* The word is JSON itself, the name of a file, or "@" and the name of a file. */
static enum rc take_json(struct buf *text, const char *word, const char *option, struct err *err)
{
    enum rc rc = RC_OK;

    if (word[0] == '\0' || word[0] == '{' || word[0] == '[')
        buf_text_put(text, word);
    else
        rc = options_read_file(text, option, word[0] == '@' ? word + 1 : word,
                               RETRY_OPTIONS_BYTES_MAX, err);
    if (rc == RC_OK && text->len > 0 && memchr(text->data, '\0', text->len))
        rc = err_fail(err, RC_REJECT, 0, "%s: not JSON: a zero byte", option);
    return rc;
}

static enum rc read_given(struct edit *edit, struct err *err)
{
    const struct retry_words *words = edit->words;
    enum rc rc = RC_OK;

    if (words->options)
        rc = take_json(&edit->given_options, words->options, "options", err);
    if (rc == RC_OK && words->headers)
        rc = take_json(&edit->given_headers, words->headers, "headers", err);
    if (rc == RC_OK && words->params_path)
        rc = options_read_file(&edit->params, "params", words->params_path, RETRY_PARAMS_BYTES_MAX,
                               err);
    return rc;
}

int retry_edit(struct db *db, const struct retry_handlers *handlers,
               const struct retry_request *request, const char *by)
{
    struct edit edit = {
        .db = db, .handlers = handlers, .words = &request->words, .by = by, .id = request->ids[0]};
    struct task_admin_result result = {0};
    struct err err = {0};
    enum rc rc = read_given(&edit, &err);

    if (rc == RC_OK)
        rc = edit_task(&edit, &result, &err);
    if (rc == RC_REJECT && err.code == DB_DUPLICATE)
        err_set(&err, "another active task without an idempotency key does the same");
    forget_task(&edit);
    buf_done(&edit.given_options);
    buf_done(&edit.given_headers);
    buf_done(&edit.params);
    buf_done(&edit.options);
    buf_done(&edit.scene_options);
    if (rc == RC_REJECT) {
        fprintf(stderr, "tallybox retry: %s; nothing was changed\n", err.text);
        return EXIT_USAGE;
    }
    return rc == RC_OK ? print_result(&result, request->words.json) : options_fail(rc, &err);
}
