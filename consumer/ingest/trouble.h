/* SPDX-License-Identifier: MIT */
/* What stands in a thread's way at the moment, for the health pages and for one line in the log:
 * the thread writes, any other may read. */
#ifndef CONSUMER_INGEST_TROUBLE_H
#define CONSUMER_INGEST_TROUBLE_H

#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct trouble {
    pthread_mutex_t lock; /* guards the rest */
    bool bad;
    bool said; /* somebody was told since it began */
    int64_t since_ms;
    struct err err;
};

/* until: why it is bad as long as nobody knows better; NULL: it is good. */
void trouble_init(struct trouble *trouble, const char *until);
void trouble_done(struct trouble *trouble);

/* True the first time: say it. */
bool trouble_set(struct trouble *trouble, int64_t now_ms, const struct err *err);
/* True when it was said before: say that it is over, and how long it took. */
bool trouble_clear(struct trouble *trouble, int64_t now_ms, int64_t *after_ms);

/* Copies the reason; false when there is none. err may be NULL. */
bool trouble_read(struct trouble *trouble, struct err *err);

#endif
