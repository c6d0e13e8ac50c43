/* SPDX-License-Identifier: MIT */
/* What a fake of a server asks its user around each statement. A fake holds tables and does with
 * them what the adapter's statements do; it decides nothing about time and failures. A flow test
 * counts the calls and lets one fail. The simulation lets other fibers run, kills or freezes the
 * process, waits for row locks and loses connections. One thread. */
#ifndef TESTS_FAKES_FAKE_HOOKS_H
#define TESTS_FAKES_FAKE_HOOKS_H

#include "common/err.h"

#include <stdint.h>

struct fake_hooks {
    void *ctx;
    /* A statement is sent. On any result but RC_OK it had no effect, and the call returns that. */
    enum rc (*call)(void *ctx, struct err *err);
    /* The statement has taken effect. On any result but RC_OK only its answer is lost. */
    enum rc (*answer)(void *ctx, struct err *err);
    /* The server's clock. */
    int64_t (*now_ms)(void *ctx);
};

#endif
