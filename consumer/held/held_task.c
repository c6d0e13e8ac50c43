/* SPDX-License-Identifier: MIT */
#include "consumer/held/held_task.h"

#include "common/hash.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The part of a long name that remains in front of its hash. */
#define NAME_KEPT 47

static bool is_name_char(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("_.:-", c));
}

/* Makes a valid group name of the retry queue. The name of a consumer group may be longer and may
 * have any characters. */
static void fit_group_name(char out[RETRY_NAME_BYTES_MAX + 1], const char *group)
{
    size_t len = strlen(group);
    bool whole = len <= RETRY_NAME_BYTES_MAX;

    for (size_t i = 0; i < len && i < RETRY_NAME_BYTES_MAX; i++) {
        out[i] = is_name_char(group[i]) ? group[i] : '_';
        whole = whole && out[i] == group[i];
    }
    out[len < RETRY_NAME_BYTES_MAX ? len : RETRY_NAME_BYTES_MAX] = '\0';
    if (!whole)
        snprintf(out + (len < NAME_KEPT ? len : NAME_KEPT), RETRY_NAME_BYTES_MAX - NAME_KEPT + 1,
                 "-%016" PRIx64, hash_fnv1a(HASH_START, group, len));
}

static bool is_number(const char *key, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (key[i] < '0' || key[i] > '9')
            return false;
    return len > 0 && len < VOTE_KEY_SIZE;
}

enum rc held_task_make(struct held_task *task, const struct vote_options *options,
                       const struct held_place *place, struct err *err)
{
    char *order = task->ordering_key;

    fit_group_name(task->group, options->group);
    task->biz_no[0] = '\0';
    order[0] = '\0';
    if (place->key && is_number(place->key, place->key_len)) {
        snprintf(task->biz_no, sizeof(task->biz_no), "%.*s", (int)place->key_len,
                 (const char *)place->key);
        snprintf(order, HELD_TASK_ORDER_SIZE, "%s/%" PRId32 "/%s", place->topic, place->partition,
                 task->biz_no);
    } else if (place->key) {
        snprintf(order, HELD_TASK_ORDER_SIZE, "%s/%" PRId32 "/#%016" PRIx64, place->topic,
                 place->partition, hash_fnv1a(HASH_START, place->key, place->key_len));
    }
    buf_reset(&task->options);
    vote_options_put(&task->options, options);
    if (task->options.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for a task");
    return RC_OK;
}

void held_task_done(struct held_task *task)
{
    buf_done(&task->options);
}

/* A task without an idempotency key is identified by its options. */
struct retry_new_task held_task_view(struct held_task *task)
{
    return (struct retry_new_task){
        .group = task->group,
        .scene = HELD_TASK_SCENE,
        .handler = "vote",
        .ordering_key = task->ordering_key[0] != '\0' ? task->ordering_key : NULL,
        .biz_no = task->biz_no[0] != '\0' ? task->biz_no : NULL,
        .options = buf_text(&task->options),
    };
}
