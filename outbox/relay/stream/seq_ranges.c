/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stream/seq_ranges.h"

#include <assert.h>

#define NUMBER_BITS 7
#define NUMBER_MORE 0x80u /* another byte follows */
#define SEQ_MAX (INT64_MAX - 1)

static void put_number(struct buf *buf, uint64_t number)
{
    for (; number >= NUMBER_MORE; number >>= NUMBER_BITS)
        buf_char(buf, (char)(unsigned char)(number | NUMBER_MORE));
    buf_char(buf, (char)(unsigned char)number);
}

void seq_ranges_put(struct buf *buf, const int64_t *seqs, size_t count)
{
    int64_t end = 0;

    for (size_t i = 0; i < count;) {
        size_t first = i++;

        assert(seqs[first] > end);
        while (i < count && seqs[i] == seqs[i - 1] + 1)
            i++;
        put_number(buf, (uint64_t)(seqs[first] - end));
        put_number(buf, i - first - 1);
        end = seqs[i - 1];
    }
}

void seq_ranges_put_one(struct buf *buf, int64_t from, int64_t to)
{
    assert(from > 0 && to >= from && buf->len == 0);
    put_number(buf, (uint64_t)from);
    put_number(buf, (uint64_t)(to - from));
}

/* Reads a number up to most. Returns false when there is none. */
static bool read_number(struct seq_ranges *from, int64_t most, int64_t *number)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 63 && from->at < from->len; shift += NUMBER_BITS) {
        unsigned char byte = (unsigned char)from->data[from->at++];

        value |= (uint64_t)(byte & ~NUMBER_MORE) << shift;
        if (byte & NUMBER_MORE)
            continue;
        *number = (int64_t)value;
        return value <= (uint64_t)most;
    }
    return false;
}

static bool read_range(struct seq_ranges *from)
{
    int64_t end = from->rest.to;
    int64_t distance;
    int64_t more;

    if (!read_number(from, SEQ_MAX - end, &distance) || distance == 0 ||
        !read_number(from, SEQ_MAX - end - distance, &more))
        return false;
    from->rest = (struct seq_range){end + distance, end + distance + more};
    return true;
}

enum rc seq_ranges_read(struct seq_ranges *from, struct seq_range *ranges, size_t ranges_max,
                        size_t rows_max, size_t *count, struct err *err)
{
    size_t rows = 0;

    assert(ranges_max > 0 && rows_max > 0);
    *count = 0;
    /* Before the first range it is 0 to 0, which has been read. */
    while (*count < ranges_max && rows < rows_max) {
        struct seq_range *rest = &from->rest;
        struct seq_range *range = &ranges[*count];

        if (from->at == 0 || rest->from > rest->to) {
            if (from->at == from->len)
                break;
            if (!read_range(from))
                return err_fail(err, RC_FATAL, 0, "byte %zu of %zu is no range of seqs", from->at,
                                from->len);
        }
        *range = *rest;
        if ((uint64_t)(range->to - range->from) >= rows_max - rows)
            range->to = range->from + (int64_t)(rows_max - rows) - 1;
        rows += (size_t)(range->to - range->from) + 1;
        rest->from = range->to + 1;
        (*count)++;
    }
    return RC_OK;
}
