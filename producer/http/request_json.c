/* SPDX-License-Identifier: MIT */
#include "producer/http/request_json.h"

#include "common/text.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int status;
    const char *about;
} codes[REQUEST_FAULT_CODES] = {
    [REQUEST_FAULT_NOT_JSON] = {"not_json", 400,
                                "the body is not JSON, has more behind it, or repeats a field"},
    [REQUEST_FAULT_WRONG_TYPE] = {"wrong_type", 400, "a value has another type"},
    [REQUEST_FAULT_MISSING] = {"missing", 400, "a field or query parameter is missing"},
    [REQUEST_FAULT_UNKNOWN] = {"unknown_field", 400, "there is no such field or query parameter"},
    [REQUEST_FAULT_OUT_OF_RANGE] = {"out_of_range", 400, "a value is not allowed"},
    [REQUEST_FAULT_DUPLICATE] = {"duplicate", 400,
                                 "a query parameter is given twice, or params twice"},
    [REQUEST_FAULT_REFUSED] = {"refused", 422,
                               "the database, the handler or a rule refuses this item"},
    [REQUEST_FAULT_NOT_FOUND] = {"not_found", 404, "there is no such path, task, record or remark"},
    [REQUEST_FAULT_DELETED] = {"deleted", 404,
                               "the content is deleted: it takes no more votes, and its id can be "
                               "that of no new remark; "
                               "api.deleted_status sets the status, 404 or 410"},
    [REQUEST_FAULT_EXPIRED] = {"expired", 410,
                               "the cursor is too old; read the list from its first page"},
    [REQUEST_FAULT_METHOD] = {"method_not_allowed", 405, "the path does not take this method"},
    [REQUEST_FAULT_MEDIA_TYPE] = {"unsupported_media_type", 415,
                                  "the body is not application/json"},
    [REQUEST_FAULT_TOO_LARGE] = {"too_large", 413, "the body is larger than api.body_bytes_max"},
    [REQUEST_FAULT_NO_TOKEN] = {"unauthorized", 401, "the bearer token is missing or wrong"},
    [REQUEST_FAULT_NO_SCOPE] = {"forbidden", 403,
                                "the token lacks the scope, or the group does not allow the task"},
    [REQUEST_FAULT_OTHER_HOST] = {"misdirected_request", 421,
                                  "the server does not answer for this host; api.hosts names them"},
    [REQUEST_FAULT_BAD_REQUEST] = {"bad_request", 400, "the request cannot be read as HTTP"},
    [REQUEST_FAULT_RETRY_TRAFFIC] =
        {"retry_traffic", 409,
         "the task comes from an attempt of the queue, which tries again itself"},
    [REQUEST_FAULT_CONFLICT] =
        {"conflict", 409,
         "the state of the task or record does not allow the action; nothing was done"},
    [REQUEST_FAULT_FULL] = {"too_many_requests", 429,
                            "the queue or the scene is full; nothing was done"},
    [REQUEST_FAULT_UNAVAILABLE] =
        {"unavailable", 503,
         "the database cannot be reached or the server is stopping; nothing was done"},
    [REQUEST_FAULT_TIMEOUT] = {"timeout", 503,
                               "not done in time; the message says whether it may have "
                               "been done"},
};

const char *request_fault_name(enum request_fault_code code)
{
    return codes[code].name;
}

int request_fault_status(enum request_fault_code code)
{
    return codes[code].status;
}

const char *request_fault_about(enum request_fault_code code)
{
    return codes[code].about;
}

void request_fault_set(struct request_fault *fault, enum request_fault_code code,
                       const char *format, ...)
{
    va_list args;
    int len;

    fault->code = code;
    fault->status = 0;
    fault->has_at = false;
    va_start(args, format);
    len = vsnprintf(fault->message, sizeof(fault->message), format, args);
    va_end(args);
    text_cut(fault->message, sizeof(fault->message), len > 0 ? (size_t)len : 0);
    utf8_clean(fault->message);
}

void request_fault_at(struct request_fault *fault, const char *at)
{
    fault->has_at = true;
    snprintf(fault->at, sizeof(fault->at), "%s", at);
}

void request_fault_put(struct buf *out, const struct request_fault *fault)
{
    buf_text_put(out, "{\"error\":{\"code\":\"");
    buf_text_put(out, request_fault_name(fault->code));
    buf_text_put(out, "\",\"message\":");
    json_text_put(out, fault->message);
    if (fault->has_at) {
        buf_text_put(out, ",\"at\":");
        json_text_put(out, fault->at);
    }
    buf_text_put(out, "}}");
}

json_t *request_json_load(const char *text, size_t len, size_t flags, json_error_t *error)
{
    const char *zero = len > 0 ? memchr(text, '\0', len) : NULL;

    if (!zero)
        return json_loadb(text, len, flags, error);
    if (!error)
        return NULL;
    memset(error, 0, sizeof(*error));
    error->position = (int)(zero - text);
    snprintf(error->text, sizeof(error->text), "there is a zero byte");
    /* Where json_error_code() reads it. */
    error->text[JSON_ERROR_TEXT_LENGTH - 1] = json_error_invalid_syntax;
    return NULL;
}

enum rc request_json_load_object(const char *body, size_t len, json_t **tree,
                                 struct request_fault *fault)
{
    json_error_t error;

    *tree = request_json_load(body, len, JSON_REJECT_DUPLICATES, &error);
    if (json_is_object(*tree))
        return RC_OK;
    if (*tree)
        request_fault_set(fault, REQUEST_FAULT_WRONG_TYPE, "the body must be an object");
    else if (json_error_code(&error) == json_error_out_of_memory)
        return RC_FATAL;
    else
        request_fault_set(fault, REQUEST_FAULT_NOT_JSON, "not JSON at byte %d: %s",
                          error.position > 0 ? error.position : 0, error.text);
    return RC_REJECT;
}

void request_json_copy_member(const char *body, size_t len, const char *name, const json_t *value,
                              struct buf *out)
{
    struct json_piece piece;
    char *text;

    if (json_split_member(body, len, name, &piece)) {
        buf_put(out, body + piece.at, piece.len);
        return;
    }
    text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    if (text)
        buf_text_put(out, text);
    else
        out->failed = true;
    free(text);
}

void request_fault_place(struct request_fault *fault, bool array, size_t index, const char *field)
{
    char at[sizeof(fault->at)];
    size_t len = 0;

    at[0] = '\0';
    if (array)
        len = (size_t)snprintf(at, sizeof(at), "/%zu", index);
    if (field && len + 1 < sizeof(at))
        at[len++] = '/';
    for (; field && *field && len + 3 < sizeof(at); field++) {
        if (*field == '~' || *field == '/') {
            at[len++] = '~';
            at[len++] = *field == '~' ? '0' : '1';
        } else {
            at[len++] = *field;
        }
    }
    at[len] = '\0';
    request_fault_at(fault, at);
}

bool request_fault_field(struct request_fault *fault, const char *field,
                         enum request_fault_code code, const char *words)
{
    request_fault_set(fault, code, "%s %s", field, words);
    request_fault_place(fault, false, 0, field);
    return false;
}

bool request_json_take_flag(const json_t *value, const char *field, bool *flag,
                            struct request_fault *fault)
{
    if (!json_is_boolean(value))
        return request_fault_field(fault, field, REQUEST_FAULT_WRONG_TYPE, "must be true or false");
    *flag = json_is_true(value);
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void json_split_blanks(struct json_split *split)
{
    while (split->at < split->len && is_blank(split->body[split->at]))
        split->at++;
}

/* The position after the closing quote, or the end of the body. */
static size_t find_string_end(const struct json_split *split, size_t at)
{
    for (at++; at < split->len && split->body[at] != '"'; at++)
        at += split->body[at] == '\\';
    return at + 1;
}

static char find_next(struct json_split *split, char close, struct json_piece *piece)
{
    size_t depth = 0;
    size_t at = split->at;

    while (at < split->len) {
        char c = split->body[at];

        if (depth == 0 && (c == ',' || c == close)) {
            *piece = (struct json_piece){split->at, at - split->at};
            split->at = at + 1;
            return c;
        }
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']') && depth > 0)
            depth--;
        at = c == '"' ? find_string_end(split, at) : at + 1;
    }
    return 0;
}

char json_split_next(struct json_split *split, struct json_piece *piece)
{
    return find_next(split, ']', piece);
}

enum rc json_split_count(struct json_split split, size_t items_max, const char *noun, size_t *count,
                         struct request_fault *fault)
{
    struct json_piece piece;
    char end = ',';

    json_split_blanks(&split);
    for (*count = 0; end == ','; ++*count) {
        if (*count > items_max)
            break;
        end = json_split_next(&split, &piece);
        if (end == 0) {
            request_fault_set(fault, REQUEST_FAULT_NOT_JSON, "the body ends inside its array");
            return RC_REJECT;
        }
    }
    if (*count == 1 && piece.len == 0)
        *count = 0;
    if (*count == 0 || *count > items_max) {
        request_fault_set(fault, REQUEST_FAULT_OUT_OF_RANGE, "an array must hold 1 to %zu %s",
                          items_max, noun);
        request_fault_at(fault, "");
        return RC_REJECT;
    }
    json_split_blanks(&split);
    if (split.at < split.len) {
        request_fault_set(fault, REQUEST_FAULT_NOT_JSON,
                          "the body continues after the array, at byte %zu", split.at);
        return RC_REJECT;
    }
    return RC_OK;
}

bool json_split_member(const char *object, size_t len, const char *name, struct json_piece *value)
{
    struct json_split split = {.body = object, .len = len};
    struct json_piece member;
    char end = ',';

    json_split_blanks(&split);
    split.at++; /* the '{' */
    while (end == ',') {
        size_t behind;

        json_split_blanks(&split);
        end = find_next(&split, '}', &member);
        if (end == 0 || member.len < strlen(name) + 2)
            continue;
        behind = find_string_end(&split, member.at);
        if (behind - member.at != strlen(name) + 2 ||
            memcmp(object + member.at + 1, name, strlen(name)) != 0)
            continue;
        split.at = behind;
        json_split_blanks(&split);
        split.at++; /* the ':' */
        json_split_blanks(&split);
        value->at = split.at;
        value->len = member.at + member.len - split.at;
        while (value->len > 0 && is_blank(object[value->at + value->len - 1]))
            value->len--;
        return true;
    }
    return false;
}
