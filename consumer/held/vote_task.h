/* SPDX-License-Identifier: MIT */
/* Tasks of the retry queue for the handler `vote`: their options, the task that replays dead
 * records (scene `dead`), and the work of one run. Decides whether another attempt is worthwhile.
 *
 * Options:
 *     {"dead": {"group": "tallybox", "topic": "vote-events", "partition": 3, "key": "42"}}
 *     {"dead": {"group": "tallybox", "ids": [17, 18]}}
 * Without "dead" the parameters are the vote event to apply.
 *
 * A replay handles the held records of a key (held.h) in their order, page by page, with the
 * partition's progress locked. The consumer therefore either stores the key's next vote behind the
 * held ones, or finds nothing held and applies it.
 *
 * Options and tasks are pure and may be used by any thread; one thread at a time runs a task. */
#ifndef CONSUMER_HELD_VOTE_TASK_H
#define CONSUMER_HELD_VOTE_TASK_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply.h"
#include "consumer/apply/apply_row.h"
#include "consumer/apply/sink_ops.h"
#include "consumer/dead/dead.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/retry.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOTE_OPTIONS_IDS_MAX 500
#define VOTE_OPTIONS_GROUP_SIZE 129
#define VOTE_OPTIONS_TOPIC_SIZE 250

struct vote_options {
    bool has_dead;
    char group[VOTE_OPTIONS_GROUP_SIZE];
    /* Either these three: the held records of a key (held.h) ... */
    char topic[VOTE_OPTIONS_TOPIC_SIZE];
    int32_t partition;
    char key[VOTE_KEY_SIZE];
    /* ... or these: single dead records of any class. */
    int64_t ids[VOTE_OPTIONS_IDS_MAX];
    size_t id_count;
};

/* Parses the options; text may be NULL. RC_REJECT: err tells what is wrong. RC_FATAL: no memory. */
enum rc vote_options_read(struct vote_options *options, const char *text, struct err *err);

/* Appends the options as JSON. If memory runs out, out becomes failed. */
void vote_options_put(struct buf *out, const struct vote_options *options);

/* Returns the filter for these dead records; it borrows options. */
struct dead_filter vote_options_filter(const struct vote_options *options);

#define VOTE_TASK_SCENE "dead"
#define VOTE_TASK_ORDER_SIZE 320

/* The key of the records and the partition that orders them. key NULL: the records have no key. */
struct vote_task_place {
    const char *topic;
    int32_t partition;
    const void *key;
    size_t key_len;
};

/* A task to submit, which replays dead records. Its fields ensure that the same records have one
 * task at a time and that the tasks of one key run in order. */
struct vote_task {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char ordering_key[VOTE_TASK_ORDER_SIZE]; /* "": none */
    /* the contentId of the vote; "": the key is not a contentId */
    char biz_no[VOTE_KEY_SIZE];
    struct buf options;
};

/* Fills a zeroed or used task. RC_FATAL: no memory. */
enum rc vote_task_make(struct vote_task *task, const struct vote_options *options,
                       const struct vote_task_place *place, struct err *err);
void vote_task_done(struct vote_task *task);

/* The view borrows task. */
struct retry_new_task vote_task_view(struct vote_task *task);

/* What a run of a task needs. */
struct vote_work {
    const struct sink *sink;
    const struct dead_store *store;
    bool keep_lasts;
    int64_t (*now_ms)(void);
    const struct stop *stop; /* NULL: none */
    /* records that are left at this time wait for the next attempt */
    int64_t until_ms;
    const atomic_llong *lease_until_ms; /* as in struct retry_job */
};

/* Replays the records that the options select. */
void vote_work_replay(const struct vote_work *work, const struct vote_options *options,
                      struct attempt_result *attempt);

/* Applies one vote event. A repeat is recognized by its eventId. The vote does not wait behind held
 * votes of its content, and it holds none. */
void vote_work_apply(const struct vote_work *work, const void *bytes, size_t len,
                     struct attempt_result *attempt);

#endif
