/* SPDX-License-Identifier: MIT */
/* Runs one program until it ends: no shell, its own process group, only two pipes and its complete
 * input open, its output bounded. The caller waits. The process ignores SIGPIPE and does not
 * ignore SIGCHLD. Any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_CHILD_H
#define OUTBOX_RETRY_HANDLERS_CHILD_H

#include "common/buf.h"
#include "common/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHILD_WORDS_SIZE 256
#define CHILD_GRACE_MS 2000 /* between SIGTERM and SIGKILL */

struct child_order {
    const char *const *args; /* the program, as an absolute path, first; NULL at the end */
    const char *const *environment;
    const void *input;
    size_t input_len;
    struct buf *output; /* its stdout; the rest is dropped when output failed */
    int64_t until_ms;   /* os_now_ms(): it gets SIGTERM then, and SIGKILL CHILD_GRACE_MS later */
    const atomic_llong
        *lease_until_ms; /* as in struct retry_job: SIGKILL comes before then, SIGTERM earlier */
    const struct stop *stop;
};

struct child_end {
    int error;                    /* errno: it was not started, and the other fields are unset */
    int code;                     /* it exited with */
    int signal;                   /* or died of */
    bool timed_out;               /* it got SIGTERM because its time was over */
    bool stopped;                 /* or because of the stop */
    bool lease_lost;              /* or because of the lease */
    char words[CHILD_WORDS_SIZE]; /* the last line it wrote to stderr */
};

/* Nothing of its process group is left afterwards. */
struct child_end child_run(const struct child_order *order);

#endif
