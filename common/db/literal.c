/* SPDX-License-Identifier: MIT */
#include "common/db/literal.h"

/* The character behind the backslash, or 0 when the byte stands for itself. */
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
    /* Counted first: asking for the worst case would fail in a buf whose ceiling still fits. */
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
