/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/scene_wait.h"

#include <string.h>

void scene_wait_init(struct scene_wait *wait, const struct scene_processes *processes,
                     int64_t change, int64_t until_ms)
{
    memset(wait, 0, sizeof(*wait));
    wait->processes = processes;
    wait->change = change;
    wait->until_ms = until_ms;
}

void scene_wait_done(struct scene_wait *wait)
{
    buf_done(&wait->names);
}

static void on_process(void *ctx, const char *name, bool in_force)
{
    struct scene_wait *wait = ctx;

    wait->live++;
    if (in_force)
        return;
    wait->behind++;
    if (wait->behind > SCENE_WAIT_NAMES_MAX)
        return;
    if (wait->behind > 1)
        buf_text_put(&wait->names, ", ");
    buf_text_put(&wait->names, name);
}

bool scene_wait_step(struct scene_wait *wait, int64_t now_ms)
{
    bool late = now_ms >= wait->until_ms;

    wait->live = wait->behind = 0;
    buf_reset(&wait->names);
    wait->rc =
        wait->processes->each(wait->processes->ctx, wait->change, on_process, wait, &wait->err);
    if (wait->rc == RC_OK)
        return wait->behind == 0 || late;
    return wait->rc != RC_RETRY || late;
}

static const char *plural_ending(size_t count)
{
    return count == 1 ? "" : "es";
}

bool scene_wait_text(const struct scene_wait *wait, struct buf *out)
{
    if (wait->live == 0) {
        buf_text_put(out, "no retry process is live; a process reads the change when it starts\n");
        return true;
    }
    if (wait->behind == 0) {
        buf_print(out, "in force in %zu retry process%s\n", wait->live, plural_ending(wait->live));
        return true;
    }
    buf_print(out, "stored, but not yet in force in %zu of %zu retry process%s: %.*s", wait->behind,
              wait->live, plural_ending(wait->live), (int)wait->names.len,
              wait->names.data ? wait->names.data : "");
    if (wait->behind > SCENE_WAIT_NAMES_MAX)
        buf_print(out, " and %zu more", wait->behind - SCENE_WAIT_NAMES_MAX);
    buf_text_put(out, "; see their logs, and repeat the command to wait again\n");
    return false;
}
