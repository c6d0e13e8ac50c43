/* SPDX-License-Identifier: MIT */
/* Takes over, while threads run, what the settings read again say otherwise; settings that are not
 * live stay. One thread at a time. */
#ifndef COMMON_CONFIG_LIVE_H
#define COMMON_CONFIG_LIVE_H

#include "common/config/config.h"

#include <stdbool.h>

struct config_change {
    const char *section;
    const char *key; /* "*" for all of [kafka] */
    bool live;       /* it was taken over */
    const char *was; /* of a live one; "" otherwise, which may be secret */
    const char *now;
};

typedef void (*config_on_change)(void *ctx, const struct config_change *change);

/* on_change is called for each setting that differs. */
void config_take_live(struct config *config, const struct config *fresh, config_on_change on_change,
                      void *ctx);

#endif
