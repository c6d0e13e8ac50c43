/* SPDX-License-Identifier: MIT */
#include "outbox/client/result.h"

#include "tallybox_version.h"

#include <stdio.h>

_Static_assert(sizeof(((struct err *)0)->text) == TALLYBOX_ERROR_SIZE, "a text fits");

enum tallybox_result result_give(enum rc rc, const struct err *err, struct tallybox_error *error)
{
    static const enum tallybox_result results[] = {
        [RC_OK] = TALLYBOX_OK,
        [RC_RETRY] = TALLYBOX_RETRY,
        [RC_REJECT] = TALLYBOX_REJECT,
        [RC_FATAL] = TALLYBOX_FATAL,
    };

    if (rc != RC_OK && error) {
        error->code = err->code;
        snprintf(error->text, sizeof(error->text), "%s", err->text);
    }
    return results[rc];
}

const char *tallybox_version(void)
{
    return TALLYBOX_VERSION;
}
