/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/published_ids.h"

#include <assert.h>
#include <string.h>

#define TAG_UUID 128
#define UUID_CHARS (ID_TEXT_SIZE - 1)

/* Another spelling would come back as another text. */
static bool pack_uuid(struct published_id *id, struct bytes from)
{
    char text[ID_TEXT_SIZE];
    struct id uuid;

    if (from.len != UUID_CHARS || !id_parse(&uuid, from.data, from.len))
        return false;
    id_format(&uuid, text);
    if (memcmp(text, from.data, UUID_CHARS) != 0)
        return false;
    id->bytes[0] = TAG_UUID;
    memcpy(id->bytes + 1, uuid.bytes, ID_BYTES);
    return true;
}

enum published_kind published_kind_choose(bool has_seq, bool has_id, int64_t keep_ids_max)
{
    if (has_seq)
        return PUBLISHED_BY_SEQ;
    return has_id && keep_ids_max > 0 ? PUBLISHED_BY_ID : PUBLISHED_BY_NOTHING;
}

bool published_id_set(struct published_id *id, struct bytes from)
{
    id->bytes[0] = 0;
    if (!from.data || from.len == 0 || from.len > PUBLISHED_ID_BYTES_MAX)
        return false;
    if (pack_uuid(id, from))
        return true;
    id->bytes[0] = (unsigned char)from.len;
    memcpy(id->bytes + 1, from.data, from.len);
    return true;
}

bool published_id_is_set(const struct published_id *id)
{
    return id->bytes[0] != 0;
}

static size_t size_of(unsigned char tag)
{
    return tag == TAG_UUID ? ID_BYTES : tag;
}

void published_ids_put(struct buf *buf, const struct published_id *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert(published_id_is_set(&ids[i]));
        buf_put(buf, ids[i].bytes, 1 + size_of(ids[i].bytes[0]));
    }
}

/* Moves behind the next id, if there is one, and writes its first byte into *tag. */
static enum rc pass_id(struct published_ids *from, unsigned char *tag, bool *found, struct err *err)
{
    *found = from->at < from->len;
    if (!*found)
        return RC_OK;
    *tag = (unsigned char)from->data[from->at];
    if (*tag == 0 || (*tag > PUBLISHED_ID_BYTES_MAX && *tag != TAG_UUID) ||
        size_of(*tag) > from->len - from->at - 1)
        return err_fail(err, RC_FATAL, 0, "byte %zu of %zu is no id", from->at, from->len);
    from->at += 1 + size_of(*tag);
    return RC_OK;
}

enum rc published_ids_read(struct published_ids *from, char uuid[ID_TEXT_SIZE], struct bytes *id,
                           bool *found, struct err *err)
{
    unsigned char tag = 0;
    const char *data;
    struct id bytes;
    enum rc rc = pass_id(from, &tag, found, err);

    if (rc != RC_OK || !*found)
        return rc;
    data = from->data + from->at - size_of(tag);
    *id = (struct bytes){data, size_of(tag)};
    if (tag == TAG_UUID) {
        memcpy(bytes.bytes, data, ID_BYTES);
        id_format(&bytes, uuid);
        *id = (struct bytes){uuid, UUID_CHARS};
    }
    return RC_OK;
}

enum rc published_ids_skip(struct published_ids *from, size_t ids_max, size_t *count,
                           struct err *err)
{
    unsigned char tag;
    bool found = true;
    enum rc rc = RC_OK;

    for (*count = 0; *count < ids_max && rc == RC_OK; *count += found) {
        rc = pass_id(from, &tag, &found, err);
        if (!found)
            break;
    }
    return rc;
}
