/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_json.h"

#include "common/id.h"
#include "producer/http/request_json.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARSE_FLAGS (JSON_REJECT_DUPLICATES | JSON_DECODE_ANY)
#define FIELDS 3
#define FIELD_NAMES "voterId, contentId and voting"

/* The item that is being checked. */
struct item_check {
    const struct vote_json *votes;
    size_t index;
    struct request_fault *fault;
};

static void set_place(const struct item_check *check, const char *field)
{
    request_fault_place(check->fault, check->votes->array, check->index, field);
}

static const char *name_type(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "an array";
    case JSON_STRING:
        return "a text";
    case JSON_INTEGER:
        return "an integer";
    case JSON_REAL:
        return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "something else";
}

static bool read_field(const struct item_check *check, const json_t *object, const char *name,
                       int64_t low, int64_t high, int64_t *number)
{
    const json_t *value = json_object_get(object, name);

    if (!value) {
        request_fault_set(check->fault, REQUEST_FAULT_MISSING, "%s is missing", name);
    } else if (!json_is_integer(value)) {
        request_fault_set(check->fault, REQUEST_FAULT_WRONG_TYPE, "%s must be an integer, not %s",
                          name, name_type(value));
    } else if (json_integer_value(value) < low || json_integer_value(value) > high) {
        if (high == 1)
            request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE, "%s must be 0 or 1", name);
        else
            request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE, "%s must be 1 to 2^63-1",
                              name);
    } else {
        *number = json_integer_value(value);
        return true;
    }
    set_place(check, name);
    return false;
}

static bool check_fields(const struct item_check *check, json_t *object)
{
    static const char *const names[FIELDS] = {"voterId", "contentId", "voting"};
    const char *name;
    json_t *value;

    json_object_foreach(object, name, value) {
        bool known = false;

        for (size_t i = 0; i < FIELDS; i++)
            known |= strcmp(name, names[i]) == 0;
        if (known)
            continue;
        request_fault_set(check->fault, REQUEST_FAULT_UNKNOWN,
                          "unknown field; a vote has " FIELD_NAMES);
        set_place(check, name);
        return false;
    }
    return true;
}

static bool read_item(const struct item_check *check, json_t *value, struct vote_item *item)
{
    int64_t voting = 0;

    if (!json_is_object(value)) {
        request_fault_set(check->fault, REQUEST_FAULT_WRONG_TYPE,
                          "a vote must be an object, not %s", name_type(value));
        set_place(check, NULL);
        return false;
    }
    *item = (struct vote_item){0};
    if (!check_fields(check, value) ||
        !read_field(check, value, "voterId", 1, INT64_MAX, &item->voter_id) ||
        !read_field(check, value, "contentId", 1, INT64_MAX, &item->content_id) ||
        !read_field(check, value, "voting", 0, 1, &voting))
        return false;
    item->voting = (uint8_t)voting;
    return true;
}

/* The parser reports an integer beyond 64 bits without its place. The item is parsed again with
 * approximate numbers: the largest number is the one. */
static void find_overflow(const struct item_check *check, const char *text, size_t len)
{
    json_t *object = json_loadb(text, len, PARSE_FLAGS | JSON_DECODE_INT_AS_REAL, NULL);
    const char *largest = NULL;
    const char *name;
    json_t *value;
    double most = 0;

    request_fault_set(check->fault, REQUEST_FAULT_OUT_OF_RANGE,
                      "a number is too large; ids go from 1 to 2^63-1");
    json_object_foreach(object, name, value) {
        if (json_is_real(value) && fabs(json_real_value(value)) > most) {
            most = fabs(json_real_value(value));
            largest = name;
        }
    }
    set_place(check, largest);
    json_decref(object);
}

/* RC_REJECT: the item is bad for the reason in *fault; *broken: the whole body is not JSON. */
static enum rc parse_element(const struct item_check *check, const struct json_split *splitter,
                             const struct json_piece *element, struct vote_item *item, bool *broken)
{
    const char *text = splitter->body + element->at;
    json_error_t error;
    json_t *value = json_loadb(text, element->len, PARSE_FLAGS, &error);
    bool good;

    if (value) {
        good = read_item(check, value, item);
        json_decref(value);
        return good ? RC_OK : RC_REJECT;
    }
    switch ((int)json_error_code(&error)) {
    case json_error_out_of_memory:
        return RC_FATAL;
    case json_error_numeric_overflow:
        find_overflow(check, text, element->len);
        return RC_REJECT;
    default:
        *broken = true;
        request_fault_set(check->fault, REQUEST_FAULT_NOT_JSON, "not JSON at byte %zu: %s",
                          element->at + (size_t)(error.position > 0 ? error.position : 0),
                          error.text);
        return RC_REJECT;
    }
}

static void fail_slot(struct vote_json *votes, struct vote_json_slot *slot,
                      const struct request_fault *fault)
{
    slot->bad = true;
    slot->fault_at = votes->faults.len;
    request_fault_put(&votes->faults, fault);
    slot->fault_len = votes->faults.len - slot->fault_at;
}

static enum rc parse_elements(struct vote_json *votes, struct json_split *splitter,
                              struct request_fault *fault)
{
    for (size_t i = 0; i < votes->count; i++) {
        struct item_check check = {.votes = votes, .index = i, .fault = fault};
        struct json_piece element = {0, splitter->len};
        bool broken = false;
        enum rc rc;

        if (votes->array)
            json_split_next(splitter, &element);
        rc = parse_element(&check, splitter, &element, &votes->items[votes->item_count], &broken);
        if (rc == RC_OK)
            votes->item_count++;
        else if (rc == RC_FATAL || broken || !votes->array)
            return rc;
        else
            fail_slot(votes, &votes->slots[i], fault);
    }
    return votes->faults.failed ? RC_FATAL : RC_OK;
}

enum rc vote_json_parse(struct vote_json *votes, const char *body, size_t len,
                        struct request_fault *fault)
{
    struct json_split splitter = {.body = body, .len = len};
    enum rc rc = RC_OK;

    *votes = (struct vote_json){.count = 1};
    json_split_blanks(&splitter);
    votes->array = splitter.at < len && body[splitter.at] == '[';
    if (votes->array) {
        splitter.at++;
        rc = json_split_count(splitter, VOTE_JSON_ITEMS_MAX, "votes", &votes->count, fault);
    }
    if (rc != RC_OK)
        return rc;
    votes->slots = calloc(votes->count, sizeof(*votes->slots));
    votes->items = calloc(votes->count, sizeof(*votes->items));
    if (!votes->slots || !votes->items)
        return RC_FATAL;
    return parse_elements(votes, &splitter, fault);
}

void vote_json_done(struct vote_json *votes)
{
    buf_done(&votes->faults);
    free(votes->items);
    free(votes->slots);
    votes->items = NULL;
    votes->slots = NULL;
}

void vote_json_put(struct buf *out, const struct vote_item *item)
{
    char id[ID_TEXT_SIZE];

    buf_text_put(out, "{\"voterId\":");
    buf_i64(out, item->voter_id);
    buf_text_put(out, ",\"contentId\":");
    buf_i64(out, item->content_id);
    buf_text_put(out, item->voting == 1 ? ",\"voting\":1" : ",\"voting\":0");
    buf_text_put(out, item->changed ? ",\"changed\":true" : ",\"changed\":false");
    buf_text_put(out, ",\"votes\":");
    buf_i64(out, item->votes);
    buf_text_put(out, ",\"eventId\":");
    if (item->has_event) {
        id_format(&item->event_id, id);
        buf_char(out, '"');
        buf_put(out, id, ID_TEXT_SIZE - 1);
        buf_text_put(out, "\"}");
    } else {
        buf_text_put(out, "null}");
    }
}

/* Sets the fault of an item that has no result. */
static void set_outcome(const struct item_check *check, const struct vote_item *item)
{
    if (item->outcome == VOTE_DELETED) {
        request_fault_set(check->fault, REQUEST_FAULT_DELETED,
                          "content %" PRId64 " is deleted and takes no more votes",
                          item->content_id);
        set_place(check, "contentId");
        return;
    }
    request_fault_set(check->fault, REQUEST_FAULT_REFUSED,
                      "the database refuses this vote; the log of the server has the reason");
    set_place(check, NULL);
}

bool vote_json_answer(const struct vote_json *votes, struct buf *out, struct request_fault *fault)
{
    const struct vote_item *item = votes->items;
    struct item_check check = {.votes = votes, .fault = fault};

    if (votes->array)
        buf_char(out, '[');
    for (; check.index < votes->count; check.index++) {
        const struct vote_json_slot *slot = &votes->slots[check.index];

        if (check.index > 0)
            buf_char(out, ',');
        if (slot->bad) {
            buf_put(out, votes->faults.data + slot->fault_at, slot->fault_len);
            continue;
        }
        if (item->outcome != VOTE_DONE) {
            set_outcome(&check, item);
            if (!votes->array)
                return false;
            request_fault_put(out, fault);
        } else {
            vote_json_put(out, item);
        }
        item++;
    }
    if (votes->array)
        buf_char(out, ']');
    return true;
}
