/* SPDX-License-Identifier: MIT */
/* Decides what a record is: a vote, or dead, and why. Pure; any thread. */
#ifndef CONSUMER_INGEST_JUDGE_H
#define CONSUMER_INGEST_JUDGE_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stddef.h>

enum judge_rule {
    JUDGE_KEY,     /* the key must be the contentId */
    JUDGE_ANY_KEY, /* a person has decided that it need not */
};

/* Every reason_class there is, in the order of the metric's labels. */
#define JUDGE_CLASS_COUNT 7
extern const char *const judge_classes[JUDGE_CLASS_COUNT];

/* Its place among them. */
size_t judge_class_index(const char *reason_class);

/* Votes from before begin_day are too old. RC_OK: a vote, *event is filled. RC_REJECT:
 * *reason_class (static) and err say why not. RC_FATAL: no memory. */
enum rc judge_record(const struct record *record, enum judge_rule rule, int64_t begin_day,
                     struct vote_event *event, const char **reason_class, struct err *err);

/* Appends a sentence that may quote what the record holds, any bytes, as printable ASCII. */
void judge_put_reason(struct buf *out, const char *reason);

#endif
