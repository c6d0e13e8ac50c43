/* SPDX-License-Identifier: MIT */
/* Shows the progress of a command on stderr: a bar on a terminal, otherwise a line every few
 * seconds, and nothing for a short command. One thread. */
#ifndef COMMON_PROGRESS_BAR_H
#define COMMON_PROGRESS_BAR_H

#include "common/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct progress_bar {
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
void progress_bar_open(struct progress_bar *progress, const char *unit, uint64_t total,
                       int64_t now_ms);

/* More is done; shows it if it is time to. */
void progress_bar_step(struct progress_bar *progress, uint64_t more, int64_t now_ms);

/* How much of the whole is done, where the total is not known but this is (bytes of a file). Shown
 * with the next step. */
void progress_bar_set_share(struct progress_bar *progress, double share);

/* Wipes the bar, so that something else can be printed; the next step draws it again. */
void progress_bar_clear(struct progress_bar *progress);

/* Shows the final line if anything is on the screen or was printed. */
void progress_bar_close(struct progress_bar *progress, int64_t now_ms);

/* One line without its end: "[#####.....]  50%  1,000 of 2,000 votes, 500/s". */
void progress_bar_render(const struct progress_bar *progress, int64_t now_ms, struct buf *out);

#endif
