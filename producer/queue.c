/* SPDX-License-Identifier: MIT */
#include "producer/queue.h"

#include "common/backoff.h"
#include "common/condition.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The wait that a full queue suggests; it empties in far less time. */
#define FULL_WAIT_MS 1000

struct list {
    struct queue_entry *first;
    struct queue_entry *last;
};

struct shard {
    struct list waiting;
    struct list running;
    size_t weight; /* of waiting */
    size_t load;   /* of waiting and running */
};

struct queue {
    struct queue_config config;
    pthread_mutex_t lock; /* guards all below, and the queue's part of its entries */
    struct shard *shards;
    size_t weight;  /* that waits in all shards */
    size_t running; /* entries that workers have taken */
    struct breaker breaker;
    bool tried; /* the database, with either outcome */
    bool closed;
    struct condition database; /* config.dep; has a lock of its own */
    struct condition database_more;
};

static void append_entry(struct list *list, struct queue_entry *entry)
{
    entry->next = NULL;
    entry->before = list->last;
    if (list->last)
        list->last->next = entry;
    else
        list->first = entry;
    list->last = entry;
}

static void remove_entry(struct list *list, struct queue_entry *entry)
{
    if (entry->before)
        entry->before->next = entry->next;
    else
        list->first = entry->next;
    if (entry->next)
        entry->next->before = entry->before;
    else
        list->last = entry->before;
    entry->next = NULL;
    entry->before = NULL;
}

/* Without a name the condition never fails. */
static void init_condition(struct condition *condition, const struct queue_config *config,
                           const char *dep)
{
    condition_init(condition, CONDITION_DEPENDENCY, "dep=%s role=serve reason=no_answer queue=%s",
                   dep ? dep : "none", config->name);
}

enum rc queue_open(struct queue **out, const struct queue_config *config, struct err *err)
{
    struct queue *queue = calloc(1, sizeof(*queue));

    *out = NULL;
    if (queue)
        queue->shards = calloc(config->shards, sizeof(*queue->shards));
    if (!queue || !queue->shards) {
        free(queue);
        return err_fail(err, RC_FATAL, 0, "no memory for a queue");
    }
    queue->config = *config;
    queue->breaker.backoff.base_ms = config->breaker_base_ms;
    queue->breaker.backoff.cap_ms = config->breaker_cap_ms;
    queue->breaker.open = true;
    init_condition(&queue->database, config, config->dep);
    init_condition(&queue->database_more, config, config->dep_more);
    pthread_mutex_init(&queue->lock, NULL);
    *out = queue;
    return RC_OK;
}

void queue_free(struct queue *queue)
{
    if (!queue)
        return;
    assert(queue->weight == 0 && queue->running == 0);
    condition_done(&queue->database);
    condition_done(&queue->database_more);
    pthread_mutex_destroy(&queue->lock);
    free(queue->shards);
    free(queue);
}

static void add_weight(struct queue *queue, struct shard *shard, size_t weight)
{
    shard->weight += weight;
    queue->weight += weight;
    if (queue->config.waiting)
        metric_set(queue->config.waiting, (int64_t)queue->weight);
}

static void remove_weight(struct queue *queue, struct shard *shard, size_t weight)
{
    shard->weight -= weight;
    queue->weight -= weight;
    if (queue->config.waiting)
        metric_set(queue->config.waiting, (int64_t)queue->weight);
}

/* An empty queue takes any entry, however heavy. */
static enum queue_verdict judge_put(const struct queue *queue, const struct queue_entry *entry,
                                    int64_t now_ms, int64_t *wait_ms)
{
    if (queue->closed)
        return QUEUE_STOPPING;
    if (queue->breaker.open) {
        *wait_ms = breaker_wait_ms(&queue->breaker, now_ms);
        return QUEUE_UNAVAILABLE;
    }
    if (queue->weight > 0 && queue->weight + entry->weight > queue->config.weight_max) {
        *wait_ms = FULL_WAIT_MS;
        return QUEUE_FULL;
    }
    return QUEUE_TAKEN;
}

enum queue_verdict queue_put(struct queue *queue, size_t shard, struct queue_entry *entry,
                             int64_t now_ms, int64_t *wait_ms)
{
    struct shard *mine = &queue->shards[shard];
    enum queue_verdict verdict;
    bool wake = false;

    assert(shard < queue->config.shards && entry->weight > 0);
    *wait_ms = 0;
    pthread_mutex_lock(&queue->lock);
    verdict = judge_put(queue, entry, now_ms, wait_ms);
    if (verdict == QUEUE_TAKEN) {
        entry->deadline_ms = now_ms + queue->config.timeout_ms;
        entry->answered = false;
        entry->holders = 1;
        wake = !mine->waiting.first;
        append_entry(&mine->waiting, entry);
        mine->load += entry->weight;
        add_weight(queue, mine, entry->weight);
    }
    pthread_mutex_unlock(&queue->lock);
    if (wake && queue->config.wake)
        queue->config.wake(queue->config.wake_ctx, shard);
    return verdict;
}

size_t queue_shard_least(struct queue *queue)
{
    size_t least = 0;

    pthread_mutex_lock(&queue->lock);
    for (size_t i = 1; i < queue->config.shards; i++) {
        if (queue->shards[i].load < queue->shards[least].load)
            least = i;
    }
    pthread_mutex_unlock(&queue->lock);
    return least;
}

/* Removes the first waiting entry if its deadline has passed, or if `any`. The caller holds the
 * lock. */
static struct queue_entry *pop_waiting(struct queue *queue, struct shard *shard, int64_t now_ms,
                                       bool any)
{
    struct queue_entry *entry = shard->waiting.first;

    if (!entry || (!any && now_ms < entry->deadline_ms))
        return NULL;
    remove_entry(&shard->waiting, entry);
    shard->load -= entry->weight;
    remove_weight(queue, shard, entry->weight);
    return entry;
}

static void end_entry(struct queue_entry *entry, enum queue_end end)
{
    entry->answer(entry, end);
    entry->release(entry);
}

/* Ends the waiting entries of a shard that are past their deadline, or all of them if `any`. */
static void end_waiting(struct queue *queue, struct shard *shard, int64_t now_ms, bool any,
                        enum queue_end end)
{
    struct queue_entry *entry;

    for (;;) {
        pthread_mutex_lock(&queue->lock);
        entry = pop_waiting(queue, shard, now_ms, any);
        pthread_mutex_unlock(&queue->lock);
        if (!entry)
            return;
        end_entry(entry, end);
    }
}

struct queue_entry *queue_take(struct queue *queue, size_t shard, size_t room, int64_t now_ms)
{
    struct shard *mine = &queue->shards[shard];
    struct queue_entry *entry;

    end_waiting(queue, mine, now_ms, false, QUEUE_LATE);
    pthread_mutex_lock(&queue->lock);
    entry = mine->waiting.first;
    if (entry && entry->weight <= room) {
        remove_entry(&mine->waiting, entry);
        remove_weight(queue, mine, entry->weight);
        append_entry(&mine->running, entry);
        queue->running++;
    } else {
        entry = NULL;
    }
    pthread_mutex_unlock(&queue->lock);
    return entry;
}

bool queue_answered(struct queue *queue, struct queue_entry *entry)
{
    bool answered;

    pthread_mutex_lock(&queue->lock);
    answered = entry->answered;
    pthread_mutex_unlock(&queue->lock);
    return answered;
}

/* The last holder, worker or queue_expire(), releases the entry. */
static void release_entry(struct queue *queue, struct queue_entry *entry)
{
    bool last;

    pthread_mutex_lock(&queue->lock);
    last = --entry->holders == 0;
    pthread_mutex_unlock(&queue->lock);
    if (last)
        entry->release(entry);
}

void queue_finish(struct queue *queue, size_t shard, struct queue_entry *entry, enum queue_end end)
{
    bool answer;

    pthread_mutex_lock(&queue->lock);
    answer = !entry->answered;
    entry->answered = true;
    remove_entry(&queue->shards[shard].running, entry);
    queue->shards[shard].load -= entry->weight;
    queue->running--;
    pthread_mutex_unlock(&queue->lock);
    if (answer)
        entry->answer(entry, end);
    release_entry(queue, entry);
}

/* The first entry that a worker has taken and that is past its deadline without an answer. The
 * caller becomes one of its holders. */
static struct queue_entry *find_late(struct queue *queue, struct shard *shard, int64_t now_ms)
{
    struct queue_entry *entry;

    pthread_mutex_lock(&queue->lock);
    for (entry = shard->running.first; entry; entry = entry->next) {
        if (now_ms < entry->deadline_ms)
            entry = NULL;
        if (!entry || !entry->answered)
            break;
    }
    if (entry) {
        entry->answered = true;
        entry->holders++;
    }
    pthread_mutex_unlock(&queue->lock);
    return entry;
}

/* Entries are in the order of their deadlines: the first unanswered one is the next. */
static int64_t compute_wait_ms(const struct list *list, int64_t now_ms, int64_t wait_ms)
{
    for (const struct queue_entry *entry = list->first; entry; entry = entry->next) {
        if (entry->answered)
            continue;
        return entry->deadline_ms - now_ms < wait_ms ? entry->deadline_ms - now_ms : wait_ms;
    }
    return wait_ms;
}

int64_t queue_expire(struct queue *queue, int64_t now_ms)
{
    int64_t wait_ms = queue->config.timeout_ms;

    for (size_t i = 0; i < queue->config.shards; i++) {
        struct shard *shard = &queue->shards[i];
        struct queue_entry *entry;

        end_waiting(queue, shard, now_ms, false, QUEUE_LATE);
        while ((entry = find_late(queue, shard, now_ms)) != NULL) {
            entry->answer(entry, QUEUE_UNKNOWN);
            release_entry(queue, entry);
        }
        pthread_mutex_lock(&queue->lock);
        wait_ms = compute_wait_ms(&shard->waiting, now_ms, wait_ms);
        wait_ms = compute_wait_ms(&shard->running, now_ms, wait_ms);
        pthread_mutex_unlock(&queue->lock);
    }
    return wait_ms > 0 ? wait_ms : 1;
}

void queue_close(struct queue *queue)
{
    pthread_mutex_lock(&queue->lock);
    queue->closed = true;
    pthread_mutex_unlock(&queue->lock);
}

void queue_drop(struct queue *queue)
{
    for (size_t i = 0; i < queue->config.shards; i++)
        end_waiting(queue, &queue->shards[i], 0, true, QUEUE_CLOSED);
}

size_t queue_waiting(struct queue *queue)
{
    size_t weight;

    pthread_mutex_lock(&queue->lock);
    weight = queue->weight;
    pthread_mutex_unlock(&queue->lock);
    return weight;
}

bool queue_idle(struct queue *queue)
{
    bool idle;

    pthread_mutex_lock(&queue->lock);
    idle = queue->weight == 0 && queue->running == 0;
    pthread_mutex_unlock(&queue->lock);
    return idle;
}

bool queue_is_full(struct queue *queue)
{
    return queue_waiting(queue) >= queue->config.weight_max;
}

bool queue_may_try(struct queue *queue, int64_t now_ms)
{
    bool may;

    pthread_mutex_lock(&queue->lock);
    may = breaker_allows(&queue->breaker, now_ms);
    pthread_mutex_unlock(&queue->lock);
    return may;
}

int64_t queue_wait_ms(struct queue *queue, int64_t now_ms)
{
    int64_t wait_ms;

    pthread_mutex_lock(&queue->lock);
    wait_ms = breaker_wait_ms(&queue->breaker, now_ms);
    pthread_mutex_unlock(&queue->lock);
    return wait_ms;
}

void queue_worked(struct queue *queue, int64_t now_ms)
{
    pthread_mutex_lock(&queue->lock);
    breaker_worked(&queue->breaker);
    queue->tried = true;
    pthread_mutex_unlock(&queue->lock);
    condition_ok(&queue->database, now_ms);
    condition_ok(&queue->database_more, now_ms);
}

void queue_failed(struct queue *queue, int64_t now_ms, uint64_t rng, bool more,
                  const struct err *err)
{
    assert(!more || queue->config.dep_more);
    pthread_mutex_lock(&queue->lock);
    breaker_failed(&queue->breaker, now_ms, rng);
    queue->tried = true;
    pthread_mutex_unlock(&queue->lock);
    condition_fail(more ? &queue->database_more : &queue->database, now_ms, err);
    if (more)
        condition_ok(&queue->database, now_ms);
}

bool queue_is_unavailable(struct queue *queue)
{
    bool is_open;

    pthread_mutex_lock(&queue->lock);
    is_open = queue->breaker.open;
    pthread_mutex_unlock(&queue->lock);
    return is_open;
}

bool queue_was_tried(struct queue *queue)
{
    bool tried;

    pthread_mutex_lock(&queue->lock);
    tried = queue->tried;
    pthread_mutex_unlock(&queue->lock);
    return tried;
}
