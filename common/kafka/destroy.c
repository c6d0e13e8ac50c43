/* SPDX-License-Identifier: MIT */
#include "common/kafka/kafka.h"
#include "common/os.h"

#include <librdkafka/rdkafka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* A handle that a separate thread destroys. The thread or the caller frees it, whichever
 * ends later. */
struct destruction {
    rd_kafka_t *kafka;
    int flags;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool done;
    bool left; /* the caller has stopped waiting */
};

static atomic_int handles_left;

static void free_destruction(struct destruction *one)
{
    pthread_cond_destroy(&one->changed);
    pthread_mutex_destroy(&one->lock);
    free(one);
}

static struct destruction *make_destruction(rd_kafka_t *kafka, int flags)
{
    struct destruction *one = calloc(1, sizeof(*one));
    pthread_condattr_t clock;

    if (!one)
        return NULL;
    one->kafka = kafka;
    one->flags = flags;
    pthread_mutex_init(&one->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&one->changed, &clock);
    pthread_condattr_destroy(&clock);
    return one;
}

static void *destroy_main(void *arg)
{
    struct destruction *one = arg;
    bool left;

    os_thread_name("kafka-end");
    rd_kafka_destroy_flags(one->kafka, one->flags);
    pthread_mutex_lock(&one->lock);
    one->done = true;
    left = one->left;
    pthread_cond_signal(&one->changed);
    pthread_mutex_unlock(&one->lock);
    if (left) {
        free_destruction(one);
        atomic_fetch_sub(&handles_left, 1);
    }
    return NULL;
}

static struct timespec compute_deadline(int64_t until_ms)
{
    struct timespec at;
    int64_t ms = until_ms - os_now_ms();

    clock_gettime(CLOCK_MONOTONIC, &at);
    if (ms <= 0)
        return at;
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

/* True when it is done; otherwise it is the thread's. */
static bool wait_destruction(struct destruction *one, int64_t until_ms)
{
    struct timespec at = compute_deadline(until_ms);
    bool done;

    pthread_mutex_lock(&one->lock);
    while (!one->done && pthread_cond_timedwait(&one->changed, &one->lock, &at) == 0) {
    }
    done = one->done;
    if (!done) {
        one->left = true;
        atomic_fetch_add(&handles_left, 1);
    }
    pthread_mutex_unlock(&one->lock);
    return done;
}

bool kafka_destroy(rd_kafka_t *kafka, int flags, int64_t until_ms)
{
    struct destruction *one = make_destruction(kafka, flags);
    pthread_t thread;

    /* Without memory or a thread for it there is no bound. */
    if (!one || pthread_create(&thread, NULL, destroy_main, one) != 0) {
        if (one)
            free_destruction(one);
        rd_kafka_destroy_flags(kafka, flags);
        return true;
    }
    pthread_detach(thread);
    if (!wait_destruction(one, until_ms))
        return false;
    free_destruction(one);
    return true;
}

int kafka_handles_left(void)
{
    return atomic_load(&handles_left);
}
