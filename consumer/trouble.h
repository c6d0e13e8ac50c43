/* SPDX-License-Identifier: MIT */
/* What stands in a thread's way at the moment, for the health pages: the thread writes, any other
 * may read. */
#ifndef CONSUMER_TROUBLE_H
#define CONSUMER_TROUBLE_H

#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>

struct trouble {
    pthread_mutex_t lock; /* guards the rest */
    bool bad;
    struct err err;
};

void trouble_init(struct trouble *trouble);
void trouble_done(struct trouble *trouble);

/* True when this is news: it was good, or bad for another reason (another sentence). */
bool trouble_set(struct trouble *trouble, const struct err *err);
/* True when it was bad. */
bool trouble_clear(struct trouble *trouble);

/* Copies the reason; false when there is none. err may be NULL. */
bool trouble_read(struct trouble *trouble, struct err *err);

#endif
