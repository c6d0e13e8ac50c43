/* SPDX-License-Identifier: MIT */
/* Shows the progress of a command on stderr: a bar on a terminal, otherwise a line every few
 * seconds, and nothing for a short command. One thread. */
#ifndef COMMON_PROGRESS_H
#define COMMON_PROGRESS_H

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *unit; /* "votes"; static */
    uint64_t total;   /* 0: unknown */
    uint64_t done;
    double share; /* share of the whole, 0..1; < 0: use done / total */
    int64_t start_ms;
    int64_t shown_ms;
    bool terminal;
    bool drawn; /* the terminal's line has a bar */
};

/* Nothing is shown yet. total 0: unknown. */
void progress_open(struct progress *progress, const char *unit, uint64_t total, int64_t now_ms);

/* More is done; shows it if it is time to. */
void progress_step(struct progress *progress, uint64_t more, int64_t now_ms);

/* How much of the whole is done, where the total is not known but this is (bytes of a file). Shown
 * with the next step. */
void progress_share(struct progress *progress, double share);

/* Wipes the bar, so that something else can be printed; the next step draws it again. */
void progress_clear(struct progress *progress);

/* Shows the end and leaves the line. */
void progress_close(struct progress *progress, int64_t now_ms);

/* One line without its end: "[#####.....]  50%  1,000 of 2,000 votes, 500/s". */
void progress_render(const struct progress *progress, int64_t now_ms, struct buf *out);

#endif
