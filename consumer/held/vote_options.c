/* SPDX-License-Identifier: MIT */
#include "consumer/held/vote_options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool take_text(const json_t *json, char *text, size_t size)
{
    size_t len = json_string_length(json);

    if (!json_is_string(json) || len == 0 || len >= size || strlen(json_string_value(json)) != len)
        return false;
    memcpy(text, json_string_value(json), len + 1);
    return true;
}

static enum rc take_ids(struct vote_options *options, const json_t *ids, struct err *err)
{
    size_t count = json_array_size(ids);

    if (!json_is_array(ids) || count == 0 || count > VOTE_OPTIONS_IDS_MAX)
        return err_fail(err, RC_REJECT, 0, "dead.ids takes 1 to %d ids of dead records",
                        VOTE_OPTIONS_IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        options->ids[i] = json_integer_value(json_array_get(ids, i));
        if (options->ids[i] <= 0)
            return err_fail(err, RC_REJECT, 0, "dead.ids[%zu] is not the id of a dead record", i);
    }
    options->id_count = count;
    return RC_OK;
}

static enum rc take_key(struct vote_options *options, const json_t *dead, struct err *err)
{
    const json_t *partition = json_object_get(dead, "partition");
    json_int_t number = json_integer_value(partition);

    if (!take_text(json_object_get(dead, "topic"), options->topic, sizeof(options->topic)))
        return err_fail(err, RC_REJECT, 0, "dead.topic must be the name of a topic");
    if (!json_is_integer(partition) || number < 0 || number > INT32_MAX)
        return err_fail(err, RC_REJECT, 0, "dead.partition must be a number from 0");
    if (!take_text(json_object_get(dead, "key"), options->key, sizeof(options->key)))
        return err_fail(err, RC_REJECT, 0, "dead.key must be the key of a vote, its contentId");
    options->partition = (int32_t)number;
    return RC_OK;
}

static enum rc take_dead(struct vote_options *options, const json_t *dead, struct err *err)
{
    const json_t *ids = json_object_get(dead, "ids");

    if (!json_is_object(dead))
        return err_fail(err, RC_REJECT, 0, "dead must be an object");
    options->has_dead = true;
    if (!take_text(json_object_get(dead, "group"), options->group, sizeof(options->group)))
        return err_fail(err, RC_REJECT, 0, "dead.group must be the name of a consumer group");
    if (json_object_size(dead) != (ids ? 2 : 4))
        return err_fail(err, RC_REJECT, 0,
                        "dead takes group and ids, or group, topic, partition and key");
    return ids ? take_ids(options, ids, err) : take_key(options, dead, err);
}

enum rc vote_options_read(struct vote_options *options, const char *text, struct err *err)
{
    json_error_t at;
    json_t *json;
    const json_t *dead;
    enum rc rc = RC_OK;

    memset(options, 0, sizeof(*options));
    if (!text || text[0] == '\0')
        return RC_OK;
    json = json_loads(text, JSON_REJECT_DUPLICATES, &at);
    if (!json)
        return err_fail(err, RC_REJECT, 0, "the options are not JSON: %s", at.text);
    dead = json_object_get(json, "dead");
    if (!json_is_object(json) || json_object_size(json) != (dead ? 1 : 0))
        rc = err_fail(err, RC_REJECT, 0, "the options of a vote may have the member \"dead\" only");
    else if (dead)
        rc = take_dead(options, dead, err);
    json_decref(json);
    return rc;
}

static void put_json(struct buf *out, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_ENSURE_ASCII) : NULL;

    if (text)
        buf_text_put(out, text);
    else
        out->failed = true;
    free(text);
    json_decref(json);
}

void vote_options_put(struct buf *out, const struct vote_options *options)
{
    json_t *ids;

    if (options->id_count == 0) {
        put_json(out, json_pack("{s:{s:s, s:s, s:i, s:s}}", "dead", "group", options->group,
                                "topic", options->topic, "partition", (int)options->partition,
                                "key", options->key));
        return;
    }
    ids = json_array();
    for (size_t i = 0; i < options->id_count; i++)
        json_array_append_new(ids, json_integer((json_int_t)options->ids[i]));
    put_json(out, json_pack("{s:{s:s, s:o}}", "dead", "group", options->group, "ids", ids));
}

struct dead_filter vote_options_filter(const struct vote_options *options)
{
    struct dead_filter filter = {
        .partition = DEAD_NUMBER_ANY, .since_ms = DEAD_NUMBER_ANY, .until_ms = DEAD_NUMBER_ANY};

    if (options->id_count > 0) {
        filter.ids = options->ids;
        filter.id_count = options->id_count;
        return filter;
    }
    filter.topic = options->topic;
    filter.partition = options->partition;
    filter.key = options->key;
    filter.held = true;
    return filter;
}
