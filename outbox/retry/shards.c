/* SPDX-License-Identifier: MIT */
#include "outbox/retry/shards.h"

#include "outbox/retry/task_row.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>

/* Reads a number of 0..TASK_SHARDS - 1 and moves on behind it. */
static bool number(const char **at, unsigned *shard)
{
    char *end;
    unsigned long value;

    if (!isdigit((unsigned char)**at))
        return false;
    value = strtoul(*at, &end, 10);
    *at = end;
    *shard = (unsigned)value;
    return value < TASK_SHARDS;
}

static bool range(const char **at, unsigned *bits)
{
    unsigned from;
    unsigned to;

    if (!number(at, &from))
        return false;
    to = from;
    if (**at == '-') {
        ++*at;
        if (!number(at, &to))
            return false;
    }
    if (to < from)
        return false;
    for (unsigned shard = from; shard <= to; shard++)
        *bits |= 1U << shard;
    return true;
}

enum rc shards_parse(unsigned *bits, const char *text, struct err *err)
{
    const char *at = text;

    *bits = 0;
    for (;;) {
        while (*at == ' ')
            at++;
        if (!range(&at, bits))
            break;
        while (*at == ' ')
            at++;
        if (!*at)
            return RC_OK;
        if (*at++ != ',')
            break;
    }
    return err_fail(err, RC_FATAL, 0,
                    "retry.shards = \"%.60s\": \"auto\" or a list of shards of 0..%d, like 0-7,12, "
                    "is expected",
                    text, TASK_SHARDS - 1);
}
