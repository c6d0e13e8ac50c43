/* SPDX-License-Identifier: MIT */
#include "outbox/retry/poller.h"

#include "common/hash.h"
#include "outbox/retry/poller_parts.h"

#include <stdlib.h>
#include <string.h>

#define SCENES_EVERY_MS 1000
#define LOOK_MS_MIN 10

/* With no threads: tasks are run for so long before results are written and classes looked at. */
#define RUN_MS 100

#define BACKOFF_BASE_MS 20
#define BACKOFF_CAP_MS 5000
/* Trouble that people must end is looked at this often. */
#define FATAL_WAIT_MS 3000

static enum rc memory_init(struct poller *poller, struct err *err)
{
    size_t slots = poller->pool->slot_count;
    size_t chains = 1;

    while (chains < slots)
        chains *= 2;
    poller->index_mask = chains - 1;
    poller->index = calloc(chains, sizeof(struct slot *));
    poller->classes = calloc(RETRY_CLASSES_MAX, sizeof(*poller->classes));
    poller->claimed = calloc(slots, sizeof(*poller->claimed));
    poller->judged = calloc(slots, sizeof(struct slot *));
    poller->taken = calloc(slots, sizeof(struct slot *));
    poller->results = calloc(RETRY_RESULTS_MAX, sizeof(*poller->results));
    poller->lost = calloc(RETRY_RESULTS_MAX, sizeof(*poller->lost));
    if (poller->index && poller->classes && poller->claimed && poller->judged && poller->taken &&
        poller->results && poller->lost)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0, "out of memory for %zu tasks", slots);
}

enum rc poller_init(struct poller *poller, struct pool *pool, const struct retry_store *store,
                    uint64_t dice, struct err *err)
{
    enum rc rc;

    memset(poller, 0, sizeof(*poller));
    poller->pool = pool;
    poller->store = *store;
    poller->dice = dice;
    poller->inline_worker.pool = pool;
    scenes_init(&poller->scenes, pool);
    rc = memory_init(poller, err);
    if (rc != RC_OK) {
        poller_done(poller);
        return rc;
    }
    for (size_t i = 0; i < POOL_CALLS; i++)
        poller->backoffs[i] =
            (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    for (size_t i = pool->slot_count; i-- > 0;) {
        pool->slots[i].next = poller->free;
        poller->free = &pool->slots[i];
    }
    poller->free_count = pool->slot_count;
    return RC_OK;
}

void poller_done(struct poller *poller)
{
    scenes_done(&poller->scenes);
    destinations_done(&poller->destinations);
    buf_done(&poller->destination_name);
    groups_done(&poller->groups);
    free(poller->index);
    free(poller->classes);
    free(poller->claimed);
    free(poller->judged);
    free(poller->taken);
    free(poller->results);
    free(poller->lost);
    buf_done(&poller->scratch);
    memset(poller, 0, sizeof(*poller));
}

void poller_failed(struct poller *poller, enum pool_call call, enum rc rc, const struct err *err,
                   int64_t now_ms)
{
    int64_t wait_ms = backoff_next_ms(&poller->backoffs[call], dice_next(&poller->dice));

    note_set(&poller->pool->notes[call], now_ms, err);
    if (rc == RC_FATAL && wait_ms < FATAL_WAIT_MS)
        wait_ms = FATAL_WAIT_MS;
    poller->at_ms[call] = now_ms + wait_ms;
}

void poller_worked(struct poller *poller, enum pool_call call, int64_t now_ms)
{
    note_clear(&poller->pool->notes[call], now_ms);
    backoff_reset(&poller->backoffs[call]);
}

struct scene_reading {
    struct poller *poller;
    enum rc rc;
    struct err *err;
};

static void on_scene(void *ctx, const struct scene_row *row)
{
    struct scene_reading *reading = ctx;

    if (reading->rc == RC_OK)
        reading->rc = scenes_take(&reading->poller->scenes, row, reading->err);
}

/* Invariant: what is recorded is in force. What was recorded is read from the table each time, so that
 * a heartbeat's row that was removed gets its record again. */
static enum rc scenes_record(struct poller *poller, const struct scene_change *change,
                             struct err *err)
{
    if (change->recorded == change->number)
        return RC_OK;
    return poller->store.record(poller->store.ctx, change->number, err);
}

static void on_handler(void *ctx, const char *handler)
{
    struct scenes_served *served = ctx;

    scenes_served_add(served, handler);
}

/* Which handlers live processes run: a scene's rate is shared among those. */
static enum rc read_served(struct poller *poller, struct err *err)
{
    struct scenes_served served = {0};
    enum rc rc = poller->store.handlers(poller->store.ctx, poller->pool->settings->retry.lease_ms,
                                        on_handler, &served, err);

    if (rc == RC_OK)
        poller->scenes.served = served;
    return rc;
}

static enum rc on_group(void *ctx, const struct retry_group *group, struct err *err)
{
    return groups_take(ctx, group, err);
}

static enum rc read_groups(struct poller *poller, bool *changed, struct err *err)
{
    enum rc rc;

    groups_begin(&poller->groups);
    rc = poller->store.groups(poller->store.ctx, on_group, &poller->groups, err);
    if (rc == RC_OK)
        *changed = groups_end(&poller->groups);
    return rc;
}

/* Invariant: the poller claims nothing after a reading of the scenes and groups that failed, until
 * one succeeds. An operator may have paused a scene or closed a group meanwhile, and the next reading
 * may come seconds later. */
static void read_scenes(struct poller *poller, int64_t now_ms)
{
    struct err err = {0};
    struct scene_reading reading = {poller, RC_OK, &err};
    struct scene_change change = {0};
    bool groups_changed = false;
    enum rc rc;

    if (now_ms < poller->at_ms[POOL_SCENES])
        return;
    poller->at_ms[POOL_SCENES] = now_ms + SCENES_EVERY_MS;
    scenes_begin(&poller->scenes);
    rc = read_served(poller, &err);
    if (rc == RC_OK)
        rc = poller->store.scenes(poller->store.ctx, on_scene, &reading, &change, &err);
    if (rc == RC_OK)
        rc = reading.rc;
    if (rc == RC_OK)
        rc = scenes_end(&poller->scenes, &err);
    if (rc == RC_OK)
        rc = read_groups(poller, &groups_changed, &err);
    poller->scenes_read = rc == RC_OK;
    if (rc == RC_OK) {
        poller_recall_queued(poller, groups_changed, now_ms);
        rc = scenes_record(poller, &change, &err);
    }
    if (rc == RC_OK) {
        poller_worked(poller, POOL_SCENES, now_ms);
        return;
    }
    poller_failed(poller, POOL_SCENES, rc, &err, now_ms);
    /* A record that fails must not put off the next reading. */
    if (poller->scenes_read && poller->at_ms[POOL_SCENES] > now_ms + SCENES_EVERY_MS)
        poller->at_ms[POOL_SCENES] = now_ms + SCENES_EVERY_MS;
}

static void rescue(struct poller *poller, int64_t now_ms)
{
    size_t rows_max = (size_t)poller->pool->settings->retry.batch_rows_max;
    struct err err = {0};
    size_t shortened = 0;
    size_t count = 0;
    enum rc rc;

    if (now_ms < poller->at_ms[POOL_RESCUE])
        return;
    rc = poller->store.rescue(poller->store.ctx, rows_max, &count, &shortened, &err);
    if (rc != RC_OK) {
        poller_failed(poller, POOL_RESCUE, rc, &err, now_ms);
        return;
    }
    poller_worked(poller, POOL_RESCUE, now_ms);
    if (shortened > 0) {
        err_set(&err,
                "the database clock was set back: leases of %zu tasks ended too far in the future, "
                "and now end within their length unless they are renewed",
                shortened);
        note_set(&poller->pool->notes[POOL_RESCUE], now_ms, &err);
    }
    metric_add(&retry_rescued, (int64_t)count);
    if (count < rows_max)
        poller->at_ms[POOL_RESCUE] = now_ms + poller->pool->settings->retry.sweep_ms;
}

struct looking {
    struct poller *poller;
    int64_t now_ms;
};

static void on_class(void *ctx, const struct task_class *class, int64_t due_in_ms)
{
    struct looking *looking = ctx;
    struct poller *poller = looking->poller;
    struct poller_class *one;
    struct kind *kind;

    if (poller->class_count == RETRY_CLASSES_MAX || class->shard >= TASK_SHARDS)
        return;
    kind = scenes_kind(&poller->scenes, class, poller->looks, looking->now_ms);
    if (!kind)
        return;
    groups_judge(&poller->groups, kind);
    one = &poller->classes[poller->class_count++];
    one->class = *class;
    one->kind = kind;
    one->due_ms = looking->now_ms + due_in_ms;
}

static int by_due(const void *one, const void *two)
{
    const struct poller_class *a = one;
    const struct poller_class *b = two;

    if (a->due_ms != b->due_ms)
        return a->due_ms < b->due_ms ? -1 : 1;
    return (int)a->class.shard - (int)b->class.shard;
}

static void note_oldest(struct poller *poller, int64_t now_ms)
{
    int64_t oldest_ms = poller_recall_queued(poller, false, now_ms);

    for (size_t i = 0; i < poller->class_count; i++) {
        const struct poller_class *class = &poller->classes[i];

        if (class->due_ms < oldest_ms && poller_may_claim(poller, class, now_ms))
            oldest_ms = class->due_ms;
    }
    atomic_store(&poller->pool->oldest_age, now_ms - oldest_ms);
}

static int64_t poll_wait_ms(struct poller *poller)
{
    const struct settings *settings = poller->pool->settings;
    int64_t poll_ms = settings->retry.poll_ms;
    int64_t jitter_ms = poll_ms * settings->retry.poll_jitter_percent / 100;

    return poll_ms + (int64_t)(dice_next(&poller->dice) % (uint64_t)(jitter_ms + 1));
}

/* The next look comes a poll later, or when the next task is due that we may claim. */
static void plan_look(struct poller *poller, int64_t from_ms, int64_t now_ms)
{
    poller->look_at_ms = from_ms + poll_wait_ms(poller);
    for (size_t i = 0; i < poller->class_count; i++) {
        const struct poller_class *class = &poller->classes[i];

        if (class->due_ms > now_ms && class->due_ms < poller->look_at_ms &&
            poller_may_claim(poller, class, now_ms))
            poller->look_at_ms = class->due_ms;
    }
    if (poller->look_at_ms < now_ms + LOOK_MS_MIN)
        poller->look_at_ms = now_ms + LOOK_MS_MIN;
}

static void look(struct poller *poller, int64_t now_ms)
{
    struct looking looking = {poller, now_ms};
    struct err err = {0};
    enum rc rc;

    if (poller->more_due && poller->looked_ms + LOOK_MS_MIN < poller->look_at_ms)
        poller->look_at_ms = poller->looked_ms + LOOK_MS_MIN;
    poller->more_due = false;
    if (now_ms < poller->look_at_ms || now_ms < poller->at_ms[POOL_LOOK])
        return;
    poller->looked_ms = now_ms;
    poller->class_count = 0;
    poller->class_at = 0;
    poller->round_full = poller->round_short = false;
    poller->looks++;
    rc = poller->store.look(poller->store.ctx, on_class, &looking, &err);
    if (rc != RC_OK) {
        poller->class_count = 0;
        poller_failed(poller, POOL_LOOK, rc, &err, now_ms);
        return;
    }
    poller_worked(poller, POOL_LOOK, now_ms);
    qsort(poller->classes, poller->class_count, sizeof(*poller->classes), by_due);
    note_oldest(poller, now_ms);
    plan_look(poller, now_ms, now_ms);
}

/* True: there is more to claim at once. */
static bool claim(struct poller *poller, int64_t now_ms)
{
    bool rate = strcmp(poller->pool->settings->retry.poll_pace, "rate") == 0;
    bool again;
    bool more;

    if (now_ms < poller->at_ms[POOL_CLAIM] || poller->class_at >= poller->class_count)
        return false;
    if (poller_claim(poller, now_ms))
        return poller->free_count > 0 && now_ms >= poller->at_ms[POOL_CLAIM];
    /* The round is over: those that came back full begin the next one, or those for which there was
     * no room, as soon as there is. */
    again = poller->round_full || poller->round_short;
    poller->class_at = again ? 0 : poller->class_count;
    more = poller->round_full;
    poller->round_full = poller->round_short = false;
    if (again)
        return more;
    if (!rate)
        plan_look(poller, pool_now(poller->pool, now_ms), now_ms);
    return false;
}

static void work(struct poller *poller, int64_t now_ms)
{
    int64_t until_ms = now_ms + RUN_MS;
    int64_t at_ms = now_ms;

    while (at_ms < until_ms && pool_worker_run_one(&poller->inline_worker, at_ms))
        at_ms = pool_now(poller->pool, at_ms);
}

static int64_t rest_ms(const struct poller *poller, bool written, int64_t now_ms)
{
    int64_t at_ms = now_ms + POOL_WAIT_MS;

    if (!written && poller->at_ms[POOL_FINISH] < at_ms)
        at_ms = poller->at_ms[POOL_FINISH];
    if (poller->look_at_ms < at_ms && poller->look_at_ms > now_ms &&
        now_ms >= poller->at_ms[POOL_LOOK])
        at_ms = poller->look_at_ms;
    for (size_t i = 0; i < POOL_CALLS; i++)
        if (i != POOL_FINISH && poller->at_ms[i] < at_ms && poller->at_ms[i] > now_ms)
            at_ms = poller->at_ms[i];
    return at_ms > now_ms ? at_ms - now_ms : 1;
}

/* What no runner has begun goes back as it was. */
static int64_t leave_step(struct poller *poller, int64_t now_ms)
{
    struct slot *slot;

    while ((slot = pool_take_queued(poller->pool))) {
        slot->outcome.end = ATTEMPT_CUT;
        poller_judge(poller, slot, now_ms);
    }
    poller_take_done(poller, now_ms);
    return poller_finish(poller, now_ms) ? POOL_WAIT_MS : 1;
}

static void show(const struct poller *poller, int64_t now_ms)
{
    const struct pool *pool = poller->pool;

    for (size_t handler = 0; handler < pool->handlers->count; handler++) {
        if (!pool->handlers->opened[handler])
            continue;
        /* From here on nothing is claimed of it; the tasks in flight have leases of their own. */
        for (unsigned shard = 0; shard < TASK_SHARDS; shard++)
            if (!pool_holds(pool, handler, shard, now_ms))
                atomic_store(&pool_shard(pool, handler, shard)->idle, true);
        metric_set(retry_metrics_shards(pool->handlers->list[handler]->name),
                   pool_held(pool, handler, now_ms));
    }
    metric_set(&retry_in_flight, (int64_t)(poller->pool->slot_count - poller->free_count));
}

int64_t poller_step(void *arg, int64_t now_ms)
{
    struct poller *poller = arg;
    bool more;
    bool written;

    if (atomic_load(&poller->pool->leaving))
        return leave_step(poller, now_ms);
    poller_take_done(poller, now_ms);
    written = poller_finish(poller, now_ms);
    read_scenes(poller, now_ms);
    rescue(poller, now_ms);
    if (poller->scenes_read) {
        poller_expire(poller, now_ms);
        look(poller, now_ms);
    }
    more = poller->scenes_read && claim(poller, now_ms);
    poller_depths(poller, now_ms);
    show(poller, now_ms);
    if (poller->pool->workers == 0)
        work(poller, now_ms);
    if (more || !pool_may_sleep(poller->pool))
        return 0;
    return rest_ms(poller, written, now_ms);
}

void poller_leave(struct poller *poller)
{
    atomic_store(&poller->pool->leaving, true);
}

bool poller_left(const struct poller *poller)
{
    return poller->free_count == poller->pool->slot_count;
}
