/* SPDX-License-Identifier: MIT */
/* The recommended lists of the process, in bounded memory. Decides which list a reader gets, which
 * items are ranked next, and which are forgotten for others. A list never changes: a new one takes
 * the place of the old one in one step, and readers keep the list that they hold (invariant P7).
 * Readers never wait: an item without a list is queued for the builder, once, and its readers are
 * told so (invariant P8). An item without remarks has a list without ids; such items have a bound
 * of their own. Any thread; no function blocks. */
#ifndef PRODUCER_REMARK_RECOMMENDED_H
#define PRODUCER_REMARK_RECOMMENDED_H

#include "common/err.h"
#include "producer/remark/recommended_ops.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Items without a list that may wait for the builder. */
#define RECOMMENDED_WAITING_MAX 1000
/* Written items that may wait for their announcement. */
#define RECOMMENDED_WRITTEN_MAX 1000

struct recommended_list {
    atomic_uint holders;
    int64_t item_id;
    int64_t window;   /* the finished roll-up that its votes are of */
    uint64_t version; /* a hash of ids: equal lists have equal versions in all processes */
    struct rank_weights weights;
    size_t count;
    int64_t ids[]; /* of remarks, the best first */
};

/* Copies ids. NULL: no memory. The caller is the one holder. */
struct recommended_list *recommended_list_new(int64_t item_id,
                                              const struct recommended_state *state,
                                              const int64_t *ids, size_t count);
void recommended_list_hold(struct recommended_list *list);
/* Frees the list with its last holder; NULL is accepted. */
void recommended_list_release(struct recommended_list *list);

struct recommended;

struct recommended_config {
    size_t items_max;     /* with remarks */
    size_t empty_max;     /* without remarks */
    size_t bytes_max;     /* of all of them; the list that was built last always fits */
    int64_t refresh_ms;   /* a list is built again after this time */
    int64_t retry_ms;     /* a failed build is tried again, and a written item ranked again, after
                             this time */
    int64_t retry_max_ms; /* the time doubles with each further failure of an item, up to this;
                             >= retry_ms */
    int64_t silent_ms;    /* lists are stale when the watcher has not read for so long */
    int64_t stale_ms;     /* and are shown for so long; >= silent_ms */
    void (*wake_builder)(void *ctx); /* may be NULL, as wake_watcher; called without a lock */
    void (*wake_watcher)(void *ctx);
    void *wake_ctx;
};

/* now_ms: stale_ms is counted from it until the watcher has read. RC_FATAL: no memory. */
enum rc recommended_open(struct recommended **lists, const struct recommended_config *config,
                         int64_t now_ms, struct err *err);
void recommended_free(struct recommended *lists);

/* For readers. */

enum recommended_found {
    RECOMMENDED_LIST,     /* *list is the list; the caller holds it */
    RECOMMENDED_BUILDING, /* there is none yet */
    RECOMMENDED_AWAY,     /* there is none, and the database cannot be read */
};

/* *stale: the database cannot be read, and the list may be old. */
enum recommended_found recommended_find(struct recommended *lists, int64_t item_id, int64_t now_ms,
                                        struct recommended_list **list, bool *stale);

/* A remark of the item was written by this process: the watcher will announce it. If too many items
 * wait for that, only the list of this process is built again. */
void recommended_written(struct recommended *lists, int64_t item_id, int64_t now_ms);

/* For the builder and the watcher, which read the state at the same time. */

/* Begins a read of the state: the number of changes of the state so far. */
uint64_t recommended_begin_read(struct recommended *lists);
/* The state as a read has seen it that recommended_begin_read() has begun: queues all items after a
 * change of the weights, or if the roll-ups went back; after a new roll-up all items are to be
 * checked. False: ignored, because the lists have got another state since the read began, and which
 * of the two is later is not known; the next read tells. */
bool recommended_set_state(struct recommended *lists, const struct recommended_state *state,
                           uint64_t began);

/* For the builder. */

/* Takes the next item that is due. False: *wait_ms is the time until one is. */
bool recommended_take(struct recommended *lists, int64_t now_ms, int64_t *item_id,
                      int64_t *wait_ms);
/* Ends the build of a taken item that has succeeded. Takes the list over. change_ms: announcements
 * up to this time of the database are in it. */
void recommended_built(struct recommended *lists, struct recommended_list *list, int64_t change_ms,
                       int64_t now_ms);
/* Ends the build of a taken item, which is tried again. One without a list is forgotten when
 * it is due, if its build failed before, too, and no reader has asked for it since this one began.
 */
void recommended_failed(struct recommended *lists, int64_t item_id, int64_t now_ms);
/* The state that was read last; false: none yet, or the database is away. */
bool recommended_read_state(struct recommended *lists, struct recommended_state *state);

/* For the watcher. */

/* Takes at most RECOMMENDED_BATCH_MAX items that were written here; returns their number. */
size_t recommended_take_written(struct recommended *lists, int64_t items[RECOMMENDED_BATCH_MAX]);
/* Ends the announcement of the taken items. If it failed, they are to be taken again, as far as
 * there is room, and those for which it failed for the first time are built again here. */
void recommended_end_written(struct recommended *lists, bool announced, int64_t now_ms);
/* The item was announced at changed_ms. */
void recommended_changed(struct recommended *lists, int64_t item_id, int64_t changed_ms,
                         int64_t now_ms);
/* Takes at most RECOMMENDED_BATCH_MAX items to check for a change; returns their number. */
size_t recommended_take_checks(struct recommended *lists, int64_t items[RECOMMENDED_BATCH_MAX]);
/* Ends the checks of taken items: windows[i] is the last roll-up that wrote a remark of items[i].
 * NULL: they could not be checked, and are to be taken again. */
void recommended_end_checks(struct recommended *lists, const int64_t *items, const int64_t *windows,
                            size_t count);
/* All changes up to now_ms are known; the database cannot be read. */
void recommended_seen(struct recommended *lists, int64_t now_ms);
void recommended_lost(struct recommended *lists);

/* Items that wait for the builder, and bytes of memory: for tests. */
size_t recommended_queued(struct recommended *lists);
size_t recommended_bytes(struct recommended *lists);

#endif
