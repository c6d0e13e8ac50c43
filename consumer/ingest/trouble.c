/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/trouble.h"

#include <string.h>

void trouble_init(struct trouble *trouble, const char *until)
{
    memset(trouble, 0, sizeof(*trouble));
    pthread_mutex_init(&trouble->lock, NULL);
    trouble->bad = until != NULL;
    if (until)
        err_set(&trouble->err, "%s", until);
}

void trouble_done(struct trouble *trouble)
{
    pthread_mutex_destroy(&trouble->lock);
}

bool trouble_set(struct trouble *trouble, int64_t now_ms, const struct err *err)
{
    bool first;

    pthread_mutex_lock(&trouble->lock);
    first = !trouble->said;
    if (first)
        trouble->since_ms = now_ms;
    trouble->bad = true;
    trouble->said = true;
    trouble->err = *err;
    pthread_mutex_unlock(&trouble->lock);
    return first;
}

bool trouble_clear(struct trouble *trouble, int64_t now_ms, int64_t *after_ms)
{
    bool said;

    pthread_mutex_lock(&trouble->lock);
    said = trouble->said;
    *after_ms = now_ms - trouble->since_ms;
    trouble->bad = false;
    trouble->said = false;
    pthread_mutex_unlock(&trouble->lock);
    return said;
}

bool trouble_read(struct trouble *trouble, struct err *err)
{
    bool bad;

    pthread_mutex_lock(&trouble->lock);
    bad = trouble->bad;
    if (bad && err)
        *err = trouble->err;
    pthread_mutex_unlock(&trouble->lock);
    return bad;
}
