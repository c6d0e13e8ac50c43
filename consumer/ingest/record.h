/* SPDX-License-Identifier: MIT */
/* Decides whether a Kafka record is a vote, a tombstone that ends the tally of a content, or dead
 * because it can never be applied, and why; writes its headers in the form of dead_record. held.h
 * decides which votes are dead because the database refuses them. Pure functions; any thread may
 * call them. */
#ifndef CONSUMER_INGEST_RECORD_H
#define CONSUMER_INGEST_RECORD_H

#include "common/buf.h"
#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum record_rule {
    RECORD_KEY,     /* the key must be the contentId */
    RECORD_ANY_KEY, /* an operator has decided that it need not be */
};

/* Every reason_class, in the order of the metric's labels. */
#define RECORD_CLASS_COUNT 7
extern const char *const record_classes[RECORD_CLASS_COUNT];

/* The index of reason_class, which must be one of them. */
size_t record_class_index(const char *reason_class);

/* Whether the record ends the tally of a content: it has no value (NULL, not an empty one), and its
 * key is a contentId as decimal digits. Its headers are not read: with an empty relay.ce_source the
 * type of an event is in no header, and other tools write a tombstone without headers. *content_id
 * is set if it is. */
bool record_is_end(const struct record *record, int64_t *content_id);

/* RC_OK: the record is a vote, and *event is filled. RC_REJECT: it is dead; *reason_class (static)
 * and err tell why, also of each record without a value: ask record_is_end() first. Votes from
 * before begin_day are too old. RC_FATAL: no memory. */
enum rc record_decide(const struct record *record, enum record_rule rule, int64_t begin_day,
                      struct vote_event *event, const char **reason_class, struct err *err);

/* Appends a reason as printable ASCII. It may quote any bytes of the record; other characters
 * become question marks. */
void record_put_reason(struct buf *out, const char *reason);

/* Append the headers of a record as JSON in plain ASCII, [[name, base64 or null], ...], in their
 * order: begin once, add each header with its index from 0, end once. Bytes of a name that are not
 * ASCII become \u0080..\u00ff one by one, so that any name can be restored. A NULL value becomes
 * null. */
void record_headers_begin(struct buf *out);
void record_headers_add(struct buf *out, size_t index, const char *name, const void *value,
                        size_t len);
void record_headers_end(struct buf *out);

#endif
