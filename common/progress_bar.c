/* SPDX-License-Identifier: MIT */
#include "common/progress_bar.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_CELLS 30
#define TERMINAL_MS 200
#define LINE_MS 3000

void progress_bar_open(struct progress_bar *progress, const char *unit, uint64_t total,
                       int64_t now_ms)
{
    *progress = (struct progress_bar){
        .unit = unit,
        .total = total,
        .share = -1,
        .start_ms = now_ms,
        .shown_ms = now_ms,
        .terminal = isatty(STDERR_FILENO) == 1,
    };
}

static double compute_share(const struct progress_bar *progress)
{
    double share = progress->share;

    if (share < 0 && progress->total > 0)
        share = (double)progress->done / (double)progress->total;
    return share > 1 ? 1 : share;
}

/* 1,234,567 */
static void put_grouped(struct buf *out, uint64_t value)
{
    if (value < 1000) {
        buf_u64(out, value);
        return;
    }
    put_grouped(out, value / 1000);
    buf_print(out, ",%03u", (unsigned)(value % 1000));
}

void progress_bar_render(const struct progress_bar *progress, int64_t now_ms, struct buf *out)
{
    double share = compute_share(progress);
    int64_t spent_ms = now_ms > progress->start_ms ? now_ms - progress->start_ms : 1;

    if (share >= 0) {
        int full = (int)(share * BAR_CELLS);

        buf_char(out, '[');
        for (int cell = 0; cell < BAR_CELLS; cell++)
            buf_char(out, cell < full ? '#' : '.');
        buf_print(out, "] %3d%%  ", (int)(share * 100));
    }
    put_grouped(out, progress->done);
    if (progress->total > 0) {
        buf_text_put(out, " of ");
        put_grouped(out, progress->total);
    }
    buf_print(out, " %s, ", progress->unit);
    put_grouped(out, (uint64_t)((double)progress->done * 1000 / (double)spent_ms));
    buf_text_put(out, "/s");
}

/* One write per line, so that lines that other threads log do not split it. */
static void show_line(struct progress_bar *progress, int64_t now_ms, const char *end)
{
    char line[256];
    struct buf out = {0};

    progress_bar_render(progress, now_ms, &out);
    /* ESC [ K erases the rest of a longer previous bar. */
    snprintf(line, sizeof(line), "%s%.200s%s%s", progress->terminal ? "\r" : "", buf_text(&out),
             progress->terminal ? "\033[K" : "", end);
    fputs(line, stderr);
    fflush(stderr);
    buf_done(&out);
    progress->shown_ms = now_ms;
    progress->drawn = *end == '\0';
}

void progress_bar_step(struct progress_bar *progress, uint64_t more, int64_t now_ms)
{
    progress->done += more;
    if (now_ms - progress->shown_ms >= (progress->terminal ? TERMINAL_MS : LINE_MS))
        show_line(progress, now_ms, progress->terminal ? "" : "\n");
}

void progress_bar_set_share(struct progress_bar *progress, double share)
{
    progress->share = share;
}

void progress_bar_clear(struct progress_bar *progress)
{
    if (!progress->drawn)
        return;
    fputs("\r\033[K", stderr);
    progress->drawn = false;
    progress->shown_ms = 0;
}

void progress_bar_close(struct progress_bar *progress, int64_t now_ms)
{
    bool shown = progress->drawn || progress->shown_ms > progress->start_ms;

    if (progress->share >= 0)
        progress->share = 1;
    if (shown)
        show_line(progress, now_ms, "\n");
}
