/* SPDX-License-Identifier: MIT */
#include "common/db/literal.h"

/* The character after the backslash, or 0 if the byte needs none. */
static const char escapes[256] = {
    ['\0'] = '0',  ['\n'] = 'n', ['\r'] = 'r',  ['\x1a'] = 'Z',
    ['\''] = '\'', ['"'] = '"',  ['\\'] = '\\',
};

void db_literal_quoted(struct buf *sql, const char *introducer, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t extra = 2;
    char *out;

    buf_text_put(sql, introducer);
    /* The bytes are counted first, because reserving the worst case could exceed the ceiling of the
     * buf. */
    for (size_t i = 0; i < len; i++)
        extra += escapes[in[i]] != 0;
    out = buf_reserve(sql, len + extra);
    if (!out)
        return;
    sql->len += len + extra;
    *out++ = '\'';
    for (size_t i = 0; i < len; i++) {
        char escape = escapes[in[i]];

        if (escape)
            *out++ = '\\';
        *out++ = escape ? escape : (char)in[i];
    }
    *out = '\'';
}

void db_literal_hex(struct buf *sql, const char *introducer, const void *bytes, size_t len)
{
    buf_text_put(sql, introducer);
    buf_text_put(sql, "X'");
    buf_hex(sql, bytes, len);
    buf_char(sql, '\'');
}
