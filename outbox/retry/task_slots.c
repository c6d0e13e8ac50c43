/* SPDX-License-Identifier: MIT */
#include "outbox/retry/task_slots.h"

#include "common/hash.h"

#include <stdlib.h>
#include <string.h>

/* A slot that held more gives its memory back. */
#define SLOT_BYTES_KEPT 65536

/* The wait before this process claims a task again that it and another process both run. */
#define TWICE_REST_MS 1000

static struct slot **find_chain(const struct task_slots *slots, int64_t id)
{
    return &slots->index[hash_bytes(HASH_START, &id, sizeof(id)) & slots->index_mask];
}

static struct slot *find_slot(const struct task_slots *slots, int64_t id)
{
    struct slot *slot = *find_chain(slots, id);

    while (slot && slot->id != id)
        slot = slot->next;
    return slot;
}

static struct slot *take_slot(struct task_slots *slots, int64_t id)
{
    struct slot **chain = find_chain(slots, id);
    struct slot *slot = slots->free;

    if (!slot)
        return NULL;
    slots->free = slot->next;
    slots->free_count--;
    pthread_mutex_lock(&slots->pool->lock);
    slot->id = id;
    slot->epoch = 0;
    atomic_store(&slot->valid_until_ms, 0);
    slot->renew_at_ms = INT64_MAX; /* not before the claim is known to have worked */
    slot->lost = false;
    slot->writing = false;
    pthread_mutex_unlock(&slots->pool->lock);
    slot->next = *chain;
    *chain = slot;
    return slot;
}

static void trim_buf(struct buf *buf)
{
    if (buf->size > SLOT_BYTES_KEPT)
        buf_done(buf);
    else
        buf_reset(buf);
}

/* Appends a copy with a final zero byte; the caller has made room for all of it. */
static const char *keep_bytes(struct buf *buf, const void *bytes, size_t len)
{
    char *at = buf->data + buf->len;

    if (!bytes)
        return NULL;
    memcpy(at, bytes, len);
    at[len] = '\0';
    buf->len += len + 1;
    return at;
}

static const char *keep_text(struct buf *buf, const char *text)
{
    return keep_bytes(buf, text, text ? strlen(text) : 0);
}

static size_t len_or_zero(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static void refuse_run(struct slot *slot, enum rc rc, const struct err *err)
{
    slot->handler = NULL;
    slot->attempt_result.err = *err;
    slot->attempt_result.source = FAULT_SOURCE_PLAIN;
    slot->attempt_result.fault = FAULT_CLASS_REFUSED;
    slot->attempt_result.delay_ms = ATTEMPT_NO_DELAY;
    slot->attempt_result.end = rc == RC_REJECT ? ATTEMPT_FAILED : ATTEMPT_CUT;
}

static void fill_job(struct slot *slot, const struct task_row *row, const char *options,
                     int64_t attempt_ms_max)
{
    const struct kind *kind = slot->kind;
    struct buf *bytes = &slot->bytes;
    struct retry_job *job = &slot->job;

    memset(job, 0, sizeof(*job));
    job->id = row->id;
    job->group = kind->scene->group;
    job->scene = kind->scene->name;
    job->of_relay = kind->origin == OWNER_RELAY;
    job->shard = row->shard;
    job->ordering_key = keep_text(bytes, row->ordering_key);
    job->idempotency_key =
        keep_text(bytes, row->idempotency_key ? row->idempotency_key : row->task_hash);
    job->biz_no = keep_text(bytes, row->biz_no);
    job->options = keep_text(bytes, options);
    job->params = keep_bytes(bytes, row->params, row->params_len);
    job->params_len = row->params_len;
    job->params_type = keep_text(bytes, row->params_type);
    job->traceparent = keep_text(bytes, row->traceparent);
    job->receiver_retries = kind->scene->policy.receiver_retries;
    job->attempt = row->attempts + 1;
    job->step = row->step;
    job->step_result = keep_bytes(bytes, row->step_result, row->step_result_len);
    job->step_result_len = row->step_result_len;
    job->database_ahead_ms = slot->database_ahead_ms;
    job->attempt_ms_max = attempt_ms_max;
    if (kind->scene->policy.rate_per_client)
        job->client_rate = (struct retry_client_rate){
            .per_s = kind->scene->policy.rate_per_s,
            .burst = kind->scene->policy.rate_burst,
            .held = kind->scene->bucket_held,
            .of = kind->scene->bucket_of > 0 ? kind->scene->bucket_of : 1,
        };
}

static bool has_waited(const struct task_row *row)
{
    return row->waited || row->attempts > 0 || row->step > 0;
}

static void fill_facts(struct slot *slot, const struct task_row *row, struct kind *kind,
                       int64_t now_ms)
{
    slot->kind = kind;
    slot->destination = NULL;
    slot->handler = kind->handler;
    slot->opened = kind->opened;
    slot->attempts = row->attempts;
    slot->made_ms = row->made_ms;
    slot->due_ms = now_ms - (row->now_ms - row->due_ms);
    slot->database_ahead_ms = row->now_ms - now_ms;
    slot->expires_ms = INT64_MAX;
    if (kind->scene->policy.age_ms_max > 0)
        slot->expires_ms = row->made_ms + kind->scene->policy.age_ms_max - slot->database_ahead_ms;
    slot->probe = false;
    slot->commit_unknown = false;
    slot->refusals = 0;
    slot->tried = false;
    slot->paid = false;
    slot->waited = has_waited(row);
    slot->waits_first = false;
    slot->duplicate_of = row->duplicate_of;
    slot->scene_version = row->scene_version;
    slot->stale = row->scene_version != kind->scene->version;
    slot->took_ms = 0;
    memset(&slot->attempt_result, 0, sizeof(slot->attempt_result));
}

/* If the handler names no destination, the tasks of its kind share one. */
static enum rc fill_destination(struct task_slots *slots, struct slot *slot, struct err *err)
{
    struct buf *name = &slots->destination_name;

    buf_reset(name);
    if (slot->handler && slot->handler->destination)
        slot->handler->destination(slots->pool->handlers, &slot->job, name);
    if (name->len == 0 && !name->failed)
        buf_print(name, "%s:%s/%s", slot->kind->handler_name, slot->kind->scene->group,
                  slot->kind->scene->name);
    if (!name->failed)
        slot->destination = destinations_use(&slots->destinations, name->data, name->len);
    if (!slot->destination)
        return err_fail(err, RC_RETRY, 0, "no memory for the task's destination");
    slot->breaker_open = &slot->destination->open;
    return RC_OK;
}

/* Invariant: no task runs, and none ends, by a policy or options that were replaced before it was
 * claimed: the task returns to the table, and is claimed again after the scenes were read. */
static enum rc refuse_stale(struct task_slots *slots, struct slot *slot, struct err *err)
{
    slot->kind->scene->stale = true;
    slots->stale_scene = true;
    return err_fail(err, RC_RETRY, 0, "its scene has changed since this process read it");
}

static void fill_slot(struct task_slots *slots, struct slot *slot, const struct task_row *row,
                      struct kind *kind, int64_t now_ms)
{
    struct buf *bytes = &slot->bytes;
    const char *options = "{}";
    struct err err = {0};
    size_t len = row->params_len + row->step_result_len + len_or_zero(row->ordering_key) +
                 len_or_zero(row->idempotency_key) + len_or_zero(row->task_hash) +
                 len_or_zero(row->biz_no) + len_or_zero(row->params_type) +
                 len_or_zero(row->traceparent) + 16;
    enum rc rc;

    kind->in_flight++;
    kind->scene->in_flight++;
    fill_facts(slot, row, kind, now_ms);
    buf_reset(bytes);
    rc =
        scene_options(kind->scene, row->options, row->options_len, &slots->scratch, &options, &err);
    if (rc != RC_OK)
        options = "{}";
    if (!buf_reserve(bytes, len + strlen(options) + 1)) {
        rc = err_fail(&err, RC_RETRY, 0, "no memory for the task");
        buf_reset(bytes);
    } else {
        fill_job(slot, row, options, slots->pool->attempt_ms_max);
    }
    if (slot->stale)
        rc = refuse_stale(slots, slot, &err);
    if (rc == RC_OK)
        rc = groups_check(slots->groups, kind, slots->pool->handlers, &slot->job, &err);
    slots->bytes += (int64_t)bytes->len;
    kind->scene->bytes += (int64_t)bytes->len;
    kind->task_bytes += ((int64_t)bytes->len - kind->task_bytes) / 8;
    if (rc == RC_OK)
        rc = fill_destination(slots, slot, &err);
    if (rc != RC_OK)
        refuse_run(slot, rc, &err);
}

enum rc task_slots_init(struct task_slots *slots, struct pool *pool, const struct groups *groups,
                        struct err *err)
{
    size_t chains = 1;

    memset(slots, 0, sizeof(*slots));
    slots->pool = pool;
    slots->groups = groups;
    while (chains < pool->slot_count)
        chains *= 2;
    slots->index_mask = chains - 1;
    slots->index = calloc(chains, sizeof(struct slot *));
    slots->claimed = calloc(pool->slot_count, sizeof(*slots->claimed));
    if (!slots->index || !slots->claimed) {
        task_slots_done(slots);
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu tasks", pool->slot_count);
    }
    for (size_t i = pool->slot_count; i-- > 0;) {
        pool->slots[i].next = slots->free;
        slots->free = &pool->slots[i];
    }
    slots->free_count = pool->slot_count;
    return RC_OK;
}

void task_slots_done(struct task_slots *slots)
{
    destinations_done(&slots->destinations);
    buf_done(&slots->destination_name);
    buf_done(&slots->scratch);
    free(slots->index);
    free(slots->claimed);
    memset(slots, 0, sizeof(*slots));
}

bool task_slot_is_expired(const struct slot *slot, int64_t now_ms)
{
    int64_t age_ms_max = slot->kind->scene->policy.age_ms_max;

    return age_ms_max > 0 && now_ms + slot->database_ahead_ms - slot->made_ms >= age_ms_max;
}

void task_slots_free(struct task_slots *slots, struct slot *slot)
{
    struct slot **at = find_chain(slots, slot->id);

    while (*at != slot)
        at = &(*at)->next;
    *at = slot->next;
    pthread_mutex_lock(&slots->pool->lock);
    slot->id = 0;
    pthread_mutex_unlock(&slots->pool->lock);
    slots->bytes -= (int64_t)slot->bytes.len;
    slot->kind->in_flight--;
    slot->kind->scene->in_flight--;
    slot->kind->scene->bytes -= (int64_t)slot->bytes.len;
    if (slot->destination)
        destinations_leave(&slots->destinations, slot->destination);
    slot->destination = NULL;
    slot->kind = NULL;
    trim_buf(&slot->bytes);
    trim_buf(&slot->result);
    slot->result.size_max = RETRY_RESULT_BYTES_MAX;
    trim_buf(&slot->callback);
    slot->next = slots->free;
    slots->free = slot;
    slots->free_count++;
}

bool task_slots_check(struct task_slots *slots, struct slot *slot)
{
    struct err err = {0};
    enum rc rc = groups_check(slots->groups, slot->kind, slots->pool->handlers, &slot->job, &err);

    if (rc != RC_OK)
        refuse_run(slot, rc, &err);
    return rc == RC_OK;
}

void task_slots_begin(struct task_slots *slots)
{
    slots->claimed_count = 0;
}

void task_slots_claim(struct task_slots *slots, struct kind *kind, const struct task_row *row,
                      int64_t now_ms)
{
    struct slot *slot = find_slot(slots, row->id);
    struct claimed_task *claimed;

    if (slots->claimed_count == slots->pool->slot_count)
        return;
    claimed = &slots->claimed[slots->claimed_count];
    claimed->known = slot != NULL;
    claimed->epoch = row->epoch;
    if (slot && (row->epoch != slot->epoch + 1 || slot->attempts != row->attempts ||
                 slot->job.step != row->step || slot->waited != has_waited(row))) {
        /* The row has changed since the claim in the slot: another process claimed the task, an
         * operator edited it, or a write-back of this process succeeded although its answer was
         * lost. The result of the run in the slot will be dropped, and this claim ends with its
         * lease. */
        kind->rest_until_ms = now_ms + TWICE_REST_MS;
        return;
    }
    if (!slot)
        slot = take_slot(slots, row->id);
    if (!slot)
        return;
    claimed->slot = slot;
    slots->claimed_count++;
    if (!claimed->known)
        fill_slot(slots, slot, row, kind, now_ms);
}

void task_slots_drop(struct task_slots *slots)
{
    for (size_t i = 0; i < slots->claimed_count; i++)
        if (!slots->claimed[i].known)
            task_slots_free(slots, slots->claimed[i].slot);
    slots->claimed_count = 0;
}

/* A task that was in flight continues under its new epoch: its attempt counts for this claim. */
void task_slots_lease(struct task_slots *slots, int64_t sent_ms, int64_t lease_ms)
{
    pthread_mutex_lock(&slots->pool->lock);
    for (size_t i = 0; i < slots->claimed_count; i++) {
        struct slot *slot = slots->claimed[i].slot;

        slot->epoch = slots->claimed[i].epoch;
        pool_set_lease(slot, sent_ms, lease_ms);
        slot->lost = false;
    }
    pthread_mutex_unlock(&slots->pool->lock);
}
