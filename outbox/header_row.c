/* SPDX-License-Identifier: MIT */
#include "outbox/header_row.h"

#include <string.h>

enum rc header_name_check(const char *name, struct err *err)
{
    static const char *const own_names[] = {"id", "seq", "lane", "ce_id", "ce_specversion"};

    if (name[0] == '\0')
        return err_fail(err, RC_REJECT, 0, "headers: a name is empty");
    for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
        if (strcmp(name, own_names[i]) == 0)
            return err_fail(err, RC_REJECT, 0, "headers: \"%s\" is made by the relay", name);
    }
    return RC_OK;
}
