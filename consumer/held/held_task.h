/* SPDX-License-Identifier: MIT */
/* Builds the task of the retry queue that replays dead records: scene `dead`, handler `vote`. Its
 * fields ensure that the same records have one task at a time and that the tasks of one key run in
 * order. Pure; any thread. */
#ifndef CONSUMER_HELD_HELD_TASK_H
#define CONSUMER_HELD_HELD_TASK_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"
#include "consumer/held/vote_options.h"
#include "outbox/retry/retry.h"

#include <stddef.h>
#include <stdint.h>

#define HELD_TASK_SCENE "dead"
#define HELD_TASK_ORDER_SIZE 320

/* The key of the records and the partition that orders them. key NULL: the records have no key. */
struct held_place {
    const char *topic;
    int32_t partition;
    const void *key;
    size_t key_len;
};

struct held_task {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char ordering_key[HELD_TASK_ORDER_SIZE]; /* "": none */
    /* the contentId of the vote; "": the key is not a contentId */
    char biz_no[VOTE_KEY_SIZE];
    struct buf options;
};

/* Fills a zeroed or used task. RC_FATAL: no memory. */
enum rc held_task_make(struct held_task *task, const struct vote_options *options,
                       const struct held_place *place, struct err *err);
void held_task_done(struct held_task *task);

/* The view borrows task. */
struct retry_new_task held_task_view(struct held_task *task);

#endif
