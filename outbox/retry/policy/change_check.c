/* SPDX-License-Identifier: MIT */
#include "outbox/retry/change.h"

#include "common/text.h"
#include "outbox/retry/clients/client.h"
#include "outbox/retry/policy/policy.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define PRESET "preset:"

const char *retry_change_preset(const char *word)
{
    const struct policy_preset *preset = strncmp(word, PRESET, strlen(PRESET)) == 0
                                             ? policy_find_preset(word + strlen(PRESET))
                                             : NULL;

    return preset ? preset->json : NULL;
}

void retry_scene_find_fault(const char *policy_text, const char *options, struct err *err)
{
    struct policy policy;
    json_error_t fault;
    json_t *object;

    err->text[0] = '\0';
    if (policy_parse(&policy, policy_text, policy_text ? strlen(policy_text) : 0, err) != RC_OK)
        return;
    policy_done(&policy);
    if (!options || !*options)
        return;
    object = json_loads(options, JSON_REJECT_DUPLICATES, &fault);
    if (!object)
        err_set(err, "options are a JSON object: %s (line %d, column %d)", fault.text, fault.line,
                fault.column);
    else if (!json_is_object(object))
        err_set(err, "options are a JSON object");
    json_decref(object);
}

static bool is_whole_text(const char *text)
{
    size_t len = text ? strlen(text) : 0;

    return len < POLICY_BYTES_MAX && utf8_fits(text ? text : "", len);
}

static enum rc check_scene(const struct retry_change *change, const char **field, struct err *err)
{
    *field = is_whole_text(change->policy) ? "options" : "policy";
    if (!is_whole_text(change->policy) || !is_whole_text(change->options))
        return err_fail(err, RC_REJECT, 0,
                        "policy and options must be UTF-8 texts of less than %d bytes",
                        POLICY_BYTES_MAX);
    *field = "policy";
    retry_scene_find_fault(change->policy, NULL, err);
    if (err->text[0])
        return RC_REJECT;
    *field = "options";
    retry_scene_find_fault(NULL, change->options, err);
    return err->text[0] ? RC_REJECT : RC_OK;
}

/* What a value is called in messages. */
struct value_name {
    const char *json;
    const char *shell;
};

static const char *name_value(const struct retry_change *change, struct value_name name,
                              const char **field)
{
    *field = name.json;
    return strcmp(change->via, "shell") == 0 ? name.shell : name.json;
}

static enum rc check_lists(const struct retry_change *change, const char **field, struct err *err)
{
    const struct retry_group_values *values = &change->values;
    const struct {
        struct value_name name;
        const char *list;
        size_t size;
    } lists[] = {
        {{"handlers", "--handlers"}, values->handlers, RETRY_GROUP_HANDLERS_SIZE},
        {{"scenes", "--scenes"}, values->scenes, RETRY_GROUP_LIST_SIZE},
        {{"topics", "--topics"}, values->topics, RETRY_GROUP_LIST_SIZE},
    };
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < sizeof(lists) / sizeof(lists[0]); i++)
        if (lists[i].list)
            rc = retry_list_check(lists[i].list, lists[i].size,
                                  name_value(change, lists[i].name, field), err);
    return rc;
}

static enum rc check_init_scene(const struct retry_change *change, const char **field,
                                struct err *err)
{
    const char *name = name_value(change, (struct value_name){"initScene", "--init-scene"}, field);
    const char *text = change->values.init_scene;

    if (!text || strcmp(text, RETRY_INIT_STANDARD) == 0 || strcmp(text, RETRY_INIT_REFUSE) == 0)
        return RC_OK;
    if (strlen(text) >= RETRY_GROUP_INIT_SIZE || !text_is_ascii(text))
        return err_fail(err, RC_REJECT, 0, "%s takes a policy of up to %d ASCII characters", name,
                        RETRY_GROUP_INIT_SIZE - 1);
    if (*text)
        retry_scene_find_fault(text, NULL, err);
    else
        err_set(err, "it is empty");
    if (!err->text[0])
        return RC_OK;
    err_wrap(err, "%s is not standard, refuse or a valid policy", name);
    return RC_REJECT;
}

static enum rc check_description(const struct retry_change *change, const char **field,
                                 struct err *err)
{
    const char *text = change->values.description;
    const char *name =
        name_value(change, (struct value_name){"description", "--description"}, field);
    size_t chars = 0;

    /* A byte 10xxxxxx continues a character. */
    for (const char *at = text; at && *at; at++)
        chars += ((unsigned char)*at & 0xc0) != 0x80;
    if (!text || (utf8_fits(text, strlen(text)) && utf8_prints(text, strlen(text)) &&
                  chars <= RETRY_GROUP_DESCRIPTION_CHARS_MAX))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "%s takes up to %d printable characters of UTF-8", name,
                    RETRY_GROUP_DESCRIPTION_CHARS_MAX);
}

static enum rc check_route(const struct retry_change *change, const char **field, struct err *err)
{
    const char *name = name_value(change, (struct value_name){"route", "--route"}, field);
    enum client_route route;

    if (!change->values.route || client_route_read(change->values.route, &route))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "%s takes random, round_robin, consistent_hash, lru or two_choices", name);
}

static enum rc check_shards(const struct retry_change *change, const char **field, struct err *err)
{
    const char *name = name_value(change, (struct value_name){"shards", "--shards"}, field);
    const char *list = change->values.shards;
    unsigned shards;

    if (!list || !*list ||
        (strlen(list) < RETRY_GROUP_SHARDS_SIZE && retry_shards_read(&shards, list)))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "%s takes a list of shards of 0..%d, like 0-3,7, or nothing for all", name,
                    RETRY_SHARDS - 1);
}

enum rc retry_change_check(const struct retry_change *change, const char **field, struct err *err)
{
    enum rc rc;

    *field = NULL;
    err->text[0] = '\0';
    if (change->kind == CHANGE_SCENE_SET)
        return check_scene(change, field, err);
    if (change->kind != CHANGE_GROUP_SET)
        return RC_OK;
    rc = check_lists(change, field, err);
    if (rc == RC_OK)
        rc = check_route(change, field, err);
    if (rc == RC_OK)
        rc = check_shards(change, field, err);
    if (rc == RC_OK)
        rc = check_description(change, field, err);
    return rc == RC_OK ? check_init_scene(change, field, err) : rc;
}

static void put_word(struct buf *out, const char *name, const char *value)
{
    if (!value)
        return;
    buf_print(out, "%s%s=", out->len > 0 ? " " : "", name);
    buf_text_put(out, value);
}

void retry_change_describe(const struct retry_change *change, struct buf *out)
{
    if (change->has_version)
        buf_print(out, "version=%" PRId64, change->version);
    put_word(out, "handlers", change->values.handlers);
    put_word(out, "scenes", change->values.scenes);
    put_word(out, "topics", change->values.topics);
    put_word(out, "initScene", change->values.init_scene);
    put_word(out, "route", change->values.route);
    put_word(out, "shards", change->values.shards);
    put_word(out, "description", change->values.description);
    put_word(out, "policy", change->policy);
    put_word(out, "options", change->options ? "given" : NULL);
}
