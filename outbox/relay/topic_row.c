/* SPDX-License-Identifier: MIT */
#include "outbox/relay/topic_row.h"

#include <string.h>

bool topic_name_is(const char *name)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    return name[0] != '\0' && strlen(name) < TOPIC_NAME_SIZE &&
           name[strspn(name, letters)] == '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}
