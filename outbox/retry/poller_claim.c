/* SPDX-License-Identifier: MIT */
#include "outbox/retry/poller_parts.h"

#include <string.h>

/* Between two of them results are taken and written. */
#define CLAIMS_PER_STEP 8

/* Bytes of all tasks in flight: past it no more are claimed. */
#define BYTES_MAX (INT64_C(256) << 20)

/* A task that is in flight here and elsewhere rests so long before it is claimed again. */
#define TWICE_REST_MS 1000

bool poller_may_claim(const struct poller *poller, const struct poller_class *class, int64_t now_ms)
{
    const struct kind *kind = class->kind;

    return kind->handler &&
           pool_holds(poller->pool, kind->handler_at, class->class.shard, now_ms) &&
           kind->verdict != GROUP_CLOSED && !kind->scene->paused && !kind->scene->faulty &&
           now_ms >= kind->rest_until_ms;
}

static int64_t least(int64_t one, int64_t two)
{
    return one < two ? one : two;
}

/* A scene may use as much as it leaves free (A. K. Choudhury, E. L. Hahne, "Dynamic Queue Length
 * Thresholds for Shared-Memory Packet Switches", 1998): one slow scene has half of all, two have a
 * third each, and there is always room for the first tasks of another one. */
static int64_t part_of(int64_t free, int64_t used)
{
    return free > used ? (free - used + 1) / 2 : 0;
}

static int64_t room_for(const struct poller *poller, const struct kind *kind)
{
    const struct scene *scene = kind->scene;
    int64_t rows = part_of((int64_t)poller->free_count, (int64_t)scene->in_flight);
    int64_t bytes = part_of(BYTES_MAX - poller->bytes, scene->bytes);

    return bytes > 0 ? least(rows, 1 + bytes / (kind->task_bytes + 1)) : 0;
}

/* How many of this class may be claimed now. */
static size_t rows_for(struct poller *poller, const struct poller_class *class, int64_t now_ms)
{
    struct kind *kind = class->kind;
    int64_t rows = poller->pool->settings->retry.batch_rows_max;
    int64_t room;

    if (class->due_ms > now_ms || !poller_may_claim(poller, class, now_ms))
        return 0;
    rows = least(rows, scenes_tokens(&poller->scenes, kind->scene, now_ms));
    if (rows <= 0)
        return 0;
    room = room_for(poller, kind);
    /* Its turn comes as soon as tasks of the scene are through. */
    if (room == 0)
        poller->round_short = true;
    return (size_t)least(rows, room);
}

void poller_claim_take(struct poller *poller, const struct poller_class *class,
                       const struct task_row *row, int64_t now_ms)
{
    struct slot *slot = poller_slot_find(poller, row->id);
    struct poller_claimed *claimed;

    if (poller->claimed_count == poller->pool->slot_count)
        return;
    claimed = &poller->claimed[poller->claimed_count];
    claimed->known = slot != NULL;
    claimed->epoch = row->epoch;
    if (slot && (row->epoch != slot->epoch + 1 || slot->attempts != row->attempts ||
                 slot->job.step != row->step)) {
        /* The row has changed since the claim in the slot: another process claimed the task, an
         * operator edited it, or a write-back of this process succeeded although its answer was
         * lost. The result of the run in the slot will be dropped, and this claim ends with its
         * lease. */
        class->kind->rest_until_ms = now_ms + TWICE_REST_MS;
        return;
    }
    if (!slot)
        slot = poller_slot_take(poller, row->id);
    if (!slot)
        return;
    claimed->slot = slot;
    poller->claimed_count++;
    if (!claimed->known)
        poller_slot_fill(poller, slot, row, class, now_ms);
}

struct claiming {
    struct poller *poller;
    const struct poller_class *class;
    int64_t now_ms;
};

static void on_task(void *ctx, const struct task_row *row)
{
    struct claiming *claiming = ctx;

    poller_claim_take(claiming->poller, claiming->class, row, claiming->now_ms);
}

void poller_claim_drop(struct poller *poller)
{
    for (size_t i = 0; i < poller->claimed_count; i++)
        if (!poller->claimed[i].known)
            poller_slot_free(poller, poller->claimed[i].slot);
    poller->claimed_count = 0;
}

/* A task that was in flight goes on under its new epoch: what runs is an attempt of this claim by
 * now. */
void poller_claim_lease(struct poller *poller, int64_t sent_ms, int64_t lease_ms)
{
    pthread_mutex_lock(&poller->pool->lock);
    for (size_t i = 0; i < poller->claimed_count; i++) {
        struct slot *slot = poller->claimed[i].slot;

        slot->epoch = poller->claimed[i].epoch;
        pool_set_lease(slot, sent_ms, lease_ms);
        slot->lost = false;
    }
    pthread_mutex_unlock(&poller->pool->lock);
}

/* True: it waits for a thread now. */
static bool hand_out(struct poller *poller, struct slot *slot, int64_t now_ms)
{
    slot->paid = true;
    if (poller_is_expired(slot, now_ms)) {
        slot->outcome.end = ATTEMPT_CUT;
        poller_judge(poller, slot, now_ms);
        return false;
    }
    if (!slot->handler) {
        poller_judge(poller, slot, now_ms);
        return false;
    }
    if (!destination_passes(slot->destination, now_ms, &slot->probe)) {
        slot->outcome.end = ATTEMPT_CUT;
        poller_judge(poller, slot, now_ms);
        return false;
    }
    pool_queue(poller->pool, slot, &slot->kind->scene->fair, slot->destination);
    return true;
}

static void hand_out_claimed(struct poller *poller, int64_t now_ms)
{
    size_t count = 0;

    for (size_t i = 0; i < poller->claimed_count; i++)
        if (!poller->claimed[i].known)
            count += hand_out(poller, poller->claimed[i].slot, now_ms);
    pool_wake(poller->pool, count);
    metric_add(&retry_claimed, (int64_t)poller->claimed_count);
    poller->claimed_count = 0;
}

/* False after trouble. */
static bool claim_class(struct poller *poller, struct poller_class *class, size_t rows,
                        int64_t now_ms)
{
    struct claiming claiming = {poller, class, now_ms};
    int64_t lease_ms = class->kind->scene->policy.lease_ms;
    int64_t sent_ms = pool_now(poller->pool, now_ms);
    struct err err = {0};
    bool full = false;
    size_t count;
    enum rc rc;

    claiming.now_ms = sent_ms;
    poller->claimed_count = 0;
    rc = poller->store.claim(poller->store.ctx, &class->class, rows, lease_ms, on_task, &claiming,
                             &full, &err);
    if (rc != RC_OK) {
        poller_claim_drop(poller);
        poller_failed(poller, POOL_CLAIM, rc, &err, now_ms);
        return false;
    }
    poller_worked(poller, POOL_CLAIM, now_ms);
    count = poller->claimed_count;
    bucket_spend(&class->kind->scene->bucket, (int64_t)count);
    poller_claim_lease(poller, sent_ms, lease_ms);
    hand_out_claimed(poller, now_ms);
    if (full && count > 0)
        poller->round_full = true;
    else
        class->due_ms = INT64_MAX;
    return true;
}

bool poller_claim(struct poller *poller, int64_t now_ms)
{
    size_t claims = 0;

    while (poller->class_at < poller->class_count) {
        struct poller_class *class = &poller->classes[poller->class_at];
        size_t rows;

        if (claims == CLAIMS_PER_STEP)
            return true;
        if (poller->free_count == 0)
            return true;
        rows = rows_for(poller, class, now_ms);
        poller->class_at++;
        if (rows == 0)
            continue;
        claims++;
        if (!claim_class(poller, class, rows, now_ms))
            return true;
    }
    return false;
}
