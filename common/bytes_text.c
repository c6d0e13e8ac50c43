/* SPDX-License-Identifier: MIT */
#include "common/bytes_text.h"

#include "common/utf8.h"

#define HEX_BYTES_MAX 4096
#define HEX_ROW 16

static void put_hex(struct buf *out, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    size_t shown = len < HEX_BYTES_MAX ? len : HEX_BYTES_MAX;

    for (size_t row = 0; row < shown; row += HEX_ROW) {
        buf_print(out, "  %08zx ", row);
        for (size_t i = row; i < row + HEX_ROW; i++)
            if (i < shown)
                buf_print(out, " %02x", at[i]);
            else
                buf_text_put(out, "   ");
        buf_text_put(out, "  ");
        for (size_t i = row; i < row + HEX_ROW && i < shown; i++)
            buf_char(out, at[i] >= 0x20 && at[i] < 0x7f ? (char)at[i] : '.');
        buf_char(out, '\n');
    }
    if (shown < len)
        buf_print(out, "  and %zu bytes more\n", len - shown);
}

void bytes_show(struct buf *out, int width, const char *name, const void *bytes, size_t len)
{
    if (!bytes) {
        buf_print(out, "%-*s(none)\n", width, name);
        return;
    }
    buf_print(out, "%-*s%zu bytes\n", width, name, len);
    if (len == 0)
        return;
    if (!utf8_prints(bytes, len)) {
        put_hex(out, bytes, len);
        return;
    }
    buf_text_put(out, "  ");
    buf_put(out, bytes, len);
    buf_char(out, '\n');
}
