/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/headers_row.h"

#include "common/base64.h"

void headers_begin(struct buf *out)
{
    buf_char(out, '[');
}

void headers_end(struct buf *out)
{
    buf_char(out, ']');
}

static void put_name(struct buf *out, const char *name)
{
    buf_char(out, '"');
    for (const unsigned char *c = (const unsigned char *)name; *c; c++) {
        if (*c < 0x20 || *c >= 0x7f) {
            buf_print(out, "\\u%04x", (unsigned)*c);
            continue;
        }
        if (*c == '"' || *c == '\\')
            buf_char(out, '\\');
        buf_char(out, (char)*c);
    }
    buf_char(out, '"');
}

void headers_add(struct buf *out, size_t index, const char *name, const void *value, size_t len)
{
    buf_text_put(out, index == 0 ? "[" : ",[");
    put_name(out, name);
    buf_char(out, ',');
    if (value) {
        buf_char(out, '"');
        base64_put(out, value, len);
        buf_char(out, '"');
    } else {
        buf_text_put(out, "null");
    }
    buf_char(out, ']');
}
