/* SPDX-License-Identifier: MIT */
/* Runs one program to its end: no shell, a process group of its own, nothing of ours open in it but
 * two pipes and its input, which is whole before it begins; its output bounded. Whoever asks waits.
 * In the whole process SIGPIPE is ignored and SIGCHLD is not. Any thread. */
#ifndef OUTBOX_RETRY_HANDLERS_CHILD_H
#define OUTBOX_RETRY_HANDLERS_CHILD_H

#include "common/buf.h"
#include "common/stop.h"

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
    struct buf *output; /* what it writes to stdout; the rest is dropped when output failed */
    int64_t until_ms;   /* os_now_ms(): it is asked to end then, and killed CHILD_GRACE_MS later */
    const atomic_llong *lease_until_ms; /* as in struct retry_job: it is killed then at the latest,
                                           and asked to end a bit before */
    const struct stop *stop;
};

struct child_end {
    int error;                    /* errno: it was not started, and the rest says nothing */
    int code;                     /* it exited with */
    int signal;                   /* or died of */
    bool late;                    /* it was told to end, because of the time */
    bool cut;                     /* or because of the stop */
    bool lost;                    /* or because of the lease */
    char words[CHILD_WORDS_SIZE]; /* the last line it wrote to stderr */
};

/* Nothing of its process group is left afterwards. */
struct child_end child_run(const struct child_order *order);

#endif
