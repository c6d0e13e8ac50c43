/* SPDX-License-Identifier: MIT */
/* Keeps the recommended lists of the process right: the watcher sees roll-ups, new weights and
 * written remarks, and the builder reads lists. Each is the step of a thread of its own with a
 * store of its own, so that the build of an item with many remarks does not delay what the watcher
 * sees. The two share only the lists. */
#ifndef PRODUCER_REMARK_RECOMMENDED_BUILDER_H
#define PRODUCER_REMARK_RECOMMENDED_BUILDER_H

#include "common/condition.h"
#include "common/err.h"
#include "common/loop.h"
#include "producer/remark/recommended.h"
#include "producer/remark/recommended_ops.h"

#include <stddef.h>
#include <stdint.h>

/* How often the watcher reads. Two processes see a roll-up within this time of each other. */
#define RECOMMENDED_WATCH_MS 500

struct recommended_watcher {
    struct recommended *lists;             /* borrowed until the end, as store */
    const struct recommended_store *store; /* read_state, newest, announce and read_changes */
    int64_t read_ms;                       /* when all was read last, os_now_ms(); 0: never */
    struct reasons reasons;                /* of failed announcements, as they were logged */
    struct condition database;
};

void recommended_watcher_init(struct recommended_watcher *watcher, struct recommended *lists,
                              const struct recommended_store *store);
/* Accepts a zeroed watcher. */
void recommended_watcher_done(struct recommended_watcher *watcher);

/* A loop_step. */
int64_t recommended_watcher_step(void *watcher, int64_t now_ms);

/* Announces the items that were written since the last step; gives up at the first error. For the
 * end of the process, when no step runs and nothing is written any more. */
void recommended_watcher_end(struct recommended_watcher *watcher, int64_t now_ms);

struct recommended_builder {
    struct recommended *lists;             /* borrowed until the end, as store */
    const struct recommended_store *store; /* build */
    size_t rows_max;                       /* of a list, 1..RECOMMENDED_MAX */
    int64_t (*clock_us)(void);             /* os_now_us(): the clock of now_ms */
    const struct stop *stop;               /* of the process, which interrupts a build */
    struct reasons reasons;                /* of failed builds, as they were logged */
    int64_t ids[RECOMMENDED_MAX];
};

void recommended_builder_init(struct recommended_builder *builder, struct recommended *lists,
                              const struct recommended_store *store, size_t rows_max,
                              int64_t (*clock_us)(void), const struct stop *stop);

/* A loop_step: builds one list. */
int64_t recommended_builder_step(void *builder, int64_t now_ms);

#endif
