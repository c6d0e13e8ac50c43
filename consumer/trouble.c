/* SPDX-License-Identifier: MIT */
#include "consumer/trouble.h"

#include <string.h>

void trouble_init(struct trouble *trouble)
{
    memset(trouble, 0, sizeof(*trouble));
    pthread_mutex_init(&trouble->lock, NULL);
}

void trouble_done(struct trouble *trouble)
{
    pthread_mutex_destroy(&trouble->lock);
}

bool trouble_set(struct trouble *trouble, const struct err *err)
{
    bool news;

    pthread_mutex_lock(&trouble->lock);
    news = !trouble->bad || strcmp(trouble->err.text, err->text) != 0;
    trouble->bad = true;
    trouble->err = *err;
    pthread_mutex_unlock(&trouble->lock);
    return news;
}

bool trouble_clear(struct trouble *trouble)
{
    bool was_bad;

    pthread_mutex_lock(&trouble->lock);
    was_bad = trouble->bad;
    trouble->bad = false;
    pthread_mutex_unlock(&trouble->lock);
    return was_bad;
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
