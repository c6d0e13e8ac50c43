/* SPDX-License-Identifier: MIT */
/* The form in which the ids of published rows are kept and stored (relay_published_id.ids): of each
 * id a byte with its length and its bytes. A UUID in the text form that programs write, 36
 * characters in lower case, is the byte 128 and its 16 bytes, so that it needs half of the room.
 * Pure; one thread at a time. */
#ifndef OUTBOX_RELAY_STREAM_PUBLISHED_IDS_H
#define OUTBOX_RELAY_STREAM_PUBLISHED_IDS_H

#include "common/buf.h"
#include "common/err.h"
#include "common/id.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* By what the published rows of a lane's table are known, so that they can be deleted later. */
enum published_kind {
    PUBLISHED_BY_NOTHING, /* they stay */
    PUBLISHED_BY_SEQ,
    PUBLISHED_BY_ID,
};

/* The one decision of the reader, which saves seqs or ids, and of the cleaner, which deletes rows
 * by them. has_seq: a column seq is the primary key. has_id: the column of ids has a unique index
 * of its own, and a type that the cleaner can compare. */
enum published_kind published_kind_choose(bool has_seq, bool has_id, int64_t keep_ids_max);

/* Longest id. The row of a longer one is not deleted. */
#define PUBLISHED_ID_BYTES_MAX 63

/* One id as it is stored. A zeroed one is none. */
struct published_id {
    unsigned char bytes[1 + PUBLISHED_ID_BYTES_MAX];
};

/* Returns false, and leaves none, for an id that is empty or too long. */
bool published_id_set(struct published_id *id, struct bytes from);

/* Returns false for none. */
bool published_id_is_set(const struct published_id *id);

/* Appends ids. None of them is none. */
void published_ids_put(struct buf *buf, const struct published_id *ids, size_t count);

/* Reads ids one by one. Zeroed but for data and len it stands before the first one; data is
 * borrowed. */
struct published_ids {
    const char *data;
    size_t len;
    size_t at;
};

/* Reads the next id, borrowed from the data or written into uuid. *found is false at the end.
 * RC_FATAL: the bytes are no such ids. */
enum rc published_ids_read(struct published_ids *from, char uuid[ID_TEXT_SIZE], struct bytes *id,
                           bool *found, struct err *err);

/* Passes up to ids_max ids; *count is 0 at the end. RC_FATAL: the bytes are no such ids. */
enum rc published_ids_skip(struct published_ids *from, size_t ids_max, size_t *count,
                           struct err *err);

#endif
