/* SPDX-License-Identifier: MIT */
#include "producer/remark/remark_json.h"

#include "common/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/* Limits of the columns. low, high: of a number, or the characters of a text. */
static const struct {
    const char *name;
    int64_t low;
    int64_t high;
    bool nullable;
    bool fixed; /* cannot be changed afterwards */
} fields[REMARK_FIELDS] = {
    [REMARK_ITEM_ID] = {"itemId", 1, INT64_MAX, false, true},
    [REMARK_CONSUMER_ID] = {"consumerId", 0, INT64_MAX, false, true},
    [REMARK_ORDER_ID] = {"orderId", 0, INT64_MAX, false, true},
    [REMARK_SCORE] = {"score", INT8_MIN, INT8_MAX, false, false},
    [REMARK_STATUS] = {"status", INT8_MIN, INT8_MAX, false, false},
    [REMARK_HEADER] = {"header", 0, 255, false, false},
    [REMARK_CONTENT] = {"content", 0, 65535, true, false},
    [REMARK_IMAGES] = {"images", 0, 65535, true, false},
    [REMARK_USER_NAME] = {"userName", 0, 64, false, true},
    [REMARK_USER_FACE] = {"userFace", 0, 255, false, true},
};

/* The columns content and images hold so many bytes, the others more than their characters need. */
#define TEXT_BYTES_MAX 65535

static bool refuse(struct request_fault *fault, enum request_fault_code code, const char *name,
                   const char *what)
{
    request_fault_set(fault, code, "%s %s", name, what);
    request_fault_place(fault, false, 0, name);
    return false;
}

static bool read_number(struct remark_values *values, enum remark_field field, const json_t *value,
                        struct request_fault *fault)
{
    const char *name = fields[field].name;

    if (!json_is_integer(value))
        return refuse(fault, REQUEST_FAULT_WRONG_TYPE, name, "must be an integer");
    values->numbers[field] = json_integer_value(value);
    if (values->numbers[field] >= fields[field].low && values->numbers[field] <= fields[field].high)
        return true;
    request_fault_set(fault, REQUEST_FAULT_OUT_OF_RANGE, "%s must be %" PRId64 " to %" PRId64, name,
                      fields[field].low, fields[field].high);
    request_fault_place(fault, false, 0, name);
    return false;
}

static int64_t count_characters(const char *text)
{
    int64_t count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

static bool read_text(struct remark_values *values, enum remark_field field, const json_t *value,
                      struct request_fault *fault)
{
    const char *name = fields[field].name;

    values->texts[field] = NULL;
    if (json_is_null(value) && fields[field].nullable)
        return true;
    if (!json_is_string(value))
        return refuse(fault, REQUEST_FAULT_WRONG_TYPE, name,
                      fields[field].nullable ? "must be a text or null" : "must be a text");
    values->texts[field] = json_string_value(value);
    if (json_string_length(value) <= TEXT_BYTES_MAX &&
        count_characters(values->texts[field]) <= fields[field].high)
        return true;
    request_fault_set(fault, REQUEST_FAULT_OUT_OF_RANGE,
                      fields[field].nullable ? "%s may have %" PRId64 " bytes at most"
                                             : "%s may have %" PRId64 " characters at most",
                      name, fields[field].high);
    request_fault_place(fault, false, 0, name);
    return false;
}

static bool read_id(struct remark_json *remark, const json_t *value, struct request_fault *fault)
{
    if (!json_is_integer(value))
        return refuse(fault, REQUEST_FAULT_WRONG_TYPE, "id", "must be an integer");
    remark->id = json_integer_value(value);
    if (remark->id >= 1 && remark->id <= REMARK_ID_MAX)
        return true;
    request_fault_set(fault, REQUEST_FAULT_OUT_OF_RANGE, "id must be 1 to %" PRId64, REMARK_ID_MAX);
    request_fault_place(fault, false, 0, "id");
    return false;
}

static enum remark_field find_field(const char *name)
{
    enum remark_field field = 0;

    while (field < REMARK_FIELDS && strcmp(name, fields[field].name) != 0)
        field++;
    return field;
}

static bool read_member(struct remark_json *remark, enum remark_json_kind kind, const char *name,
                        const json_t *value, struct request_fault *fault)
{
    enum remark_field field = find_field(name);

    if (kind == REMARK_JSON_NEW && strcmp(name, "id") == 0)
        return read_id(remark, value, fault);
    if (field == REMARK_FIELDS) {
        request_fault_set(fault, REQUEST_FAULT_UNKNOWN, "a remark has no such field");
        request_fault_place(fault, false, 0, name);
        return false;
    }
    if (kind == REMARK_JSON_CHANGE && fields[field].fixed)
        return refuse(fault, REQUEST_FAULT_UNKNOWN, name, "cannot be changed");
    remark->values.given |= 1U << field;
    return field < REMARK_NUMBERS ? read_number(&remark->values, field, value, fault)
                                  : read_text(&remark->values, field, value, fault);
}

static bool read_object(struct remark_json *remark, enum remark_json_kind kind,
                        struct request_fault *fault)
{
    const char *name;
    json_t *value;

    if (!json_is_object((json_t *)remark->tree)) {
        request_fault_set(fault, REQUEST_FAULT_WRONG_TYPE, "the body must be an object");
        return false;
    }
    json_object_foreach((json_t *)remark->tree, name, value) {
        if (!read_member(remark, kind, name, value, fault))
            return false;
    }
    if (kind == REMARK_JSON_NEW && (remark->values.given & 1U << REMARK_ITEM_ID) == 0)
        return refuse(fault, REQUEST_FAULT_MISSING, "itemId", "is missing");
    if (remark->values.given == 0) {
        request_fault_set(fault, REQUEST_FAULT_MISSING,
                          "nothing to change: give header, content, images, status or score");
        return false;
    }
    return true;
}

enum rc remark_json_parse(struct remark_json *remark, enum remark_json_kind kind, const char *body,
                          size_t len, struct request_fault *fault)
{
    json_error_t error;

    *remark = (struct remark_json){0};
    remark->tree = json_loadb(body, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!remark->tree) {
        if (json_error_code(&error) == json_error_out_of_memory)
            return RC_FATAL;
        request_fault_set(fault, REQUEST_FAULT_NOT_JSON, "%s at byte %d", error.text,
                          error.position);
        return RC_REJECT;
    }
    return read_object(remark, kind, fault) ? RC_OK : RC_REJECT;
}

void remark_json_done(struct remark_json *remark)
{
    json_decref(remark->tree);
    remark->tree = NULL;
}
