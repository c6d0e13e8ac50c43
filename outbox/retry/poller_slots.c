/* SPDX-License-Identifier: MIT */
#include "common/hash.h"
#include "outbox/retry/poller_parts.h"

#include <string.h>

/* A slot that held more gives its memory back. */
#define SLOT_BYTES_KEPT 65536

static struct slot **chain_of(const struct poller *poller, int64_t id)
{
    return &poller->index[hash_bytes(HASH_START, &id, sizeof(id)) & poller->index_mask];
}

struct slot *poller_slot_find(const struct poller *poller, int64_t id)
{
    struct slot *slot = *chain_of(poller, id);

    while (slot && slot->id != id)
        slot = slot->next;
    return slot;
}

struct slot *poller_slot_take(struct poller *poller, int64_t id)
{
    struct slot **chain = chain_of(poller, id);
    struct slot *slot = poller->free;

    if (!slot)
        return NULL;
    poller->free = slot->next;
    poller->free_count--;
    pthread_mutex_lock(&poller->pool->lock);
    slot->id = id;
    slot->epoch = 0;
    atomic_store(&slot->valid_until_ms, 0);
    slot->beat_at_ms = INT64_MAX; /* not before the claim is known to have worked */
    slot->lost = false;
    slot->writing = false;
    pthread_mutex_unlock(&poller->pool->lock);
    slot->next = *chain;
    *chain = slot;
    return slot;
}

static void trim(struct buf *buf)
{
    if (buf->size > SLOT_BYTES_KEPT)
        buf_done(buf);
    else
        buf_reset(buf);
}

void poller_slot_free(struct poller *poller, struct slot *slot)
{
    struct slot **at = chain_of(poller, slot->id);

    while (*at != slot)
        at = &(*at)->next;
    *at = slot->next;
    pthread_mutex_lock(&poller->pool->lock);
    slot->id = 0;
    pthread_mutex_unlock(&poller->pool->lock);
    poller->bytes -= (int64_t)slot->bytes.len;
    slot->kind->in_flight--;
    slot->kind->scene->in_flight--;
    slot->kind->scene->bytes -= (int64_t)slot->bytes.len;
    if (slot->destination)
        destinations_leave(&poller->destinations, slot->destination);
    slot->destination = NULL;
    slot->kind = NULL;
    trim(&slot->bytes);
    trim(&slot->result);
    slot->result.size_max = RETRY_RESULT_BYTES_MAX;
    trim(&slot->callback);
    slot->next = poller->free;
    poller->free = slot;
    poller->free_count++;
}

/* A copy behind what is there; room was made for all. It ends with a zero byte. */
static const char *keep(struct buf *buf, const void *bytes, size_t len)
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
    return keep(buf, text, text ? strlen(text) : 0);
}

static size_t text_len(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

static void cannot_run(struct slot *slot, enum rc rc, const struct err *err)
{
    slot->handler = NULL;
    slot->outcome.err = *err;
    slot->outcome.source = FAULT_PLAIN;
    slot->outcome.fault = FAULT_REFUSED;
    slot->outcome.delay_ms = ATTEMPT_NO_DELAY;
    slot->outcome.end = rc == RC_REJECT ? ATTEMPT_FAILED : ATTEMPT_CUT;
}

static void job_fill(struct slot *slot, const struct task_row *row, const char *options)
{
    const struct kind *kind = slot->kind;
    struct buf *bytes = &slot->bytes;
    struct retry_job *job = &slot->job;

    memset(job, 0, sizeof(*job));
    job->id = row->id;
    job->group = kind->scene->group;
    job->scene = kind->scene->name;
    job->ordering_key = keep_text(bytes, row->ordering_key);
    job->idempotency_key =
        keep_text(bytes, row->idempotency_key ? row->idempotency_key : row->task_hash);
    job->biz_no = keep_text(bytes, row->biz_no);
    job->options = keep_text(bytes, options);
    job->params = keep(bytes, row->params, row->params_len);
    job->params_len = row->params_len;
    job->params_type = keep_text(bytes, row->params_type);
    job->attempt = row->attempts + 1;
    job->step = row->step;
    job->step_result = keep(bytes, row->step_result, row->step_result_len);
    job->step_result_len = row->step_result_len;
    job->database_ahead_ms = slot->database_ahead_ms;
}

static void facts_fill(struct slot *slot, const struct task_row *row,
                       const struct poller_class *class, int64_t now_ms)
{
    slot->kind = class->kind;
    slot->destination = NULL;
    slot->handler = class->kind->handler;
    slot->opened = class->kind->opened;
    slot->attempts = row->attempts;
    slot->made_ms = row->made_ms;
    slot->due_ms = now_ms - (row->now_ms - row->due_ms);
    slot->database_ahead_ms = row->now_ms - now_ms;
    slot->expires_ms = INT64_MAX;
    if (class->kind->scene->policy.age_ms_max > 0)
        slot->expires_ms =
            row->made_ms + class->kind->scene->policy.age_ms_max - slot->database_ahead_ms;
    slot->probe = false;
    slot->unsure = false;
    slot->refusals = 0;
    slot->tried = false;
    slot->paid = false;
    slot->took_ms = 0;
    memset(&slot->outcome, 0, sizeof(slot->outcome));
}

/* Where the handler cannot tell, the tasks of its kind share a destination. */
static enum rc destination_fill(struct poller *poller, struct slot *slot, struct err *err)
{
    struct buf *name = &poller->destination_name;

    buf_reset(name);
    if (slot->handler && slot->handler->destination)
        slot->handler->destination(poller->pool->handlers, &slot->job, name);
    if (name->len == 0 && !name->failed)
        buf_print(name, "%s:%s/%s", slot->kind->handler_name, slot->kind->scene->group,
                  slot->kind->scene->name);
    if (!name->failed)
        slot->destination = destinations_use(&poller->destinations, name->data, name->len);
    if (!slot->destination)
        return err_fail(err, RC_RETRY, 0, "no memory for the task's destination");
    slot->breaker_open = &slot->destination->open;
    return RC_OK;
}

void poller_slot_fill(struct poller *poller, struct slot *slot, const struct task_row *row,
                      const struct poller_class *class, int64_t now_ms)
{
    struct buf *bytes = &slot->bytes;
    const char *options = "{}";
    struct err err = {0};
    size_t len = row->params_len + row->step_result_len + text_len(row->ordering_key) +
                 text_len(row->idempotency_key) + text_len(row->task_hash) + text_len(row->biz_no) +
                 text_len(row->params_type) + 16;
    enum rc rc;

    class->kind->in_flight++;
    class->kind->scene->in_flight++;
    facts_fill(slot, row, class, now_ms);
    buf_reset(bytes);
    rc = scene_options(class->kind->scene, row->options, row->options_len, &poller->scratch,
                       &options, &err);
    if (rc != RC_OK)
        options = "{}";
    if (!buf_reserve(bytes, len + strlen(options) + 1)) {
        rc = err_fail(&err, RC_RETRY, 0, "no memory for the task");
        buf_reset(bytes);
    } else {
        job_fill(slot, row, options);
    }
    if (rc == RC_OK)
        rc = groups_check(&poller->groups, class->kind, poller->pool->handlers, &slot->job, &err);
    poller->bytes += (int64_t)bytes->len;
    class->kind->scene->bytes += (int64_t)bytes->len;
    class->kind->task_bytes += ((int64_t)bytes->len - class->kind->task_bytes) / 8;
    if (rc == RC_OK)
        rc = destination_fill(poller, slot, &err);
    if (rc != RC_OK)
        cannot_run(slot, rc, &err);
}

bool poller_slot_check(struct poller *poller, struct slot *slot)
{
    struct err err = {0};
    enum rc rc =
        groups_check(&poller->groups, slot->kind, poller->pool->handlers, &slot->job, &err);

    if (rc != RC_OK)
        cannot_run(slot, rc, &err);
    return rc == RC_OK;
}
