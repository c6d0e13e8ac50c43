/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/claim_mysql.h"

#include "outbox/lease/lease_ops.h"
#include "outbox/retry/policy/order.h"
#include "outbox/retry/store/claimed_mysql.h"
#include "outbox/retry/store/wake_mysql.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The greatest sum of bytes of one claim, unless one task alone is larger. */
#define BYTES_MAX ((int64_t)32 << 20)
/* Where many tasks of one key are due, all but the first are queued; so many more are looked at. */
#define ROUNDS_MAX 10
#define ROUND_ROWS_MIN 100
/* Another transaction started another task of the same key at the same moment. */
#define TRIES_MAX 3

/* A due task. */
struct found {
    int64_t id;
    int64_t epoch;
    int64_t bytes;
    size_t kept_at; /* see claimed_keep() */
    bool is_too_big;
    struct order_key key; /* "": none */
};

/* A task ahead that is to be held; row is where its state is kept. */
struct lock_request {
    int64_t id;
    struct order_task *row;
};

struct claim {
    /* Of the current round; candidates[i] is found[i]. */
    struct found found[RETRY_CLAIM_ROWS_MAX];
    struct order_candidate candidates[RETRY_CLAIM_ROWS_MAX];
    size_t count;
    size_t by_key[RETRY_CLAIM_ROWS_MAX];
    struct order_key keys[RETRY_CLAIM_ROWS_MAX];
    struct order_ahead ahead[RETRY_CLAIM_ROWS_MAX];
    size_t key_count;
    struct lock_request lock_requests[3 * RETRY_CLAIM_ROWS_MAX];
    size_t lock_request_count;
    int64_t ids[RETRY_CLAIM_ROWS_MAX];
    size_t queued, left;

    /* Of the whole claim. */
    struct claimed claimed;
    int64_t taken_bytes;
};

enum rc claim_open(struct claim **claim, struct err *err)
{
    *claim = calloc(1, sizeof(**claim));
    return *claim ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory to claim tasks");
}

void claim_close(struct claim *claim)
{
    if (claim)
        claimed_done(&claim->claimed);
    free(claim);
}

static enum rc due_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct claim *claim = ctx;
    struct found *found = &claim->found[claim->count];

    (void)err;
    if (claim->count == RETRY_CLAIM_ROWS_MAX)
        return RC_OK;
    memset(found, 0, sizeof(*found));
    found->id = db_column_i64(row, 0);
    found->epoch = db_column_i64(row, 1);
    if (row->columns[2] && row->lengths[2] < sizeof(found->key.hash))
        memcpy(found->key.hash, row->columns[2], row->lengths[2]);
    found->bytes = db_column_i64(row, 3) + db_column_i64(row, 4);
    found->is_too_big = db_column_i64(row, 3) > (int64_t)RETRY_PARAMS_BYTES_MAX;
    found->kept_at = claimed_keep(&claim->claimed, row, 3);
    claim->count++;
    return RC_OK;
}

/* What to claim from: the due tasks of a class, the tasks of a scene that are too old, or one task
 * that this transaction has made. */
struct claim_from {
    const struct task_class *class;
    const struct task_age *age;
    int64_t made_id;
};

static void put_due(struct store *store, const struct task_class *class)
{
    store_put(store, "(ix_retry_task_due) WHERE state = 0 AND class = ");
    store_put_class(store, class);
    store_put(store, " AND next_at <= UTC_TIMESTAMP(3) ORDER BY next_at, id");
}

/* The whole index is named in ORDER BY, so that MySQL reads in its order. */
static void put_expired(struct store *store, const struct task_age *age)
{
    store_put(store, "(ix_retry_task_age) WHERE task_group = ");
    store_put_text(store, age->group);
    store_put(store, " AND scene = ");
    store_put_text(store, age->scene);
    store_put(store, " AND task_group" STORE_NO_BLANK_ENDS " AND scene" STORE_NO_BLANK_ENDS);
    buf_print(&store->sql,
              " AND age_state = 1 AND age_from <= UTC_TIMESTAMP(3) - INTERVAL %lld MICROSECOND "
              "AND state = 0 ORDER BY task_group, scene, age_state, age_from, id",
              (long long)age->age_ms * 1000);
}

/* Exactly in the order of the index. */
static enum rc find_candidates(struct store *store, const struct claim_from *from, size_t limit,
                               struct err *err)
{
    store->claim->count = 0;
    store_put(store, "SELECT t.id, t.epoch, HEX(t.order_hash), " CLAIMED_FOUND_COLUMNS
                     " FROM retry_task t FORCE INDEX ");
    if (from->age)
        put_expired(store, from->age);
    else if (from->made_id > 0)
        buf_print(&store->sql,
                  "(PRIMARY) WHERE state = 0 AND next_at <= UTC_TIMESTAMP(3) AND id = %lld",
                  (long long)from->made_id);
    else
        put_due(store, from->class);
    buf_print(&store->sql, " LIMIT %zu", limit);
    if (!store->compare_and_set)
        store_put(store, " FOR UPDATE SKIP LOCKED");
    return store_query(store, due_on_row, store->claim, err);
}

static int compare_keys(const void *one, const void *other)
{
    const struct found *const *a = one;
    const struct found *const *b = other;
    int order = strcmp((*a)->key.hash, (*b)->key.hash);

    if (order != 0)
        return order;
    return ((*a)->id > (*b)->id) - ((*a)->id < (*b)->id);
}

/* Numbers the keys; by_key has the candidates by key and id. */
static void number_keys(struct claim *claim)
{
    const struct found *sorted[RETRY_CLAIM_ROWS_MAX];

    for (size_t i = 0; i < claim->count; i++)
        sorted[i] = &claim->found[i];
    qsort(sorted, claim->count, sizeof(const struct found *), compare_keys);
    claim->key_count = 0;
    for (size_t i = 0; i < claim->count; i++) {
        size_t place = (size_t)(sorted[i] - claim->found);
        struct order_candidate *candidate = &claim->candidates[place];

        claim->by_key[i] = place;
        candidate->id = sorted[i]->id;
        candidate->key = ORDER_NO_KEY;
        if (sorted[i]->key.hash[0] == '\0')
            continue;
        if (claim->key_count == 0 ||
            strcmp(claim->keys[claim->key_count - 1].hash, sorted[i]->key.hash) != 0)
            claim->keys[claim->key_count++] = sorted[i]->key;
        candidate->key = claim->key_count - 1;
    }
}

static void request_lock(struct claim *claim, struct order_task *row, const struct found *first,
                         const struct found *last, bool locked)
{
    if (row->id == 0)
        return;
    /* The candidates of a claim with SKIP LOCKED are locked already. */
    if (row->id == first->id && locked) {
        row->held = true;
        return;
    }
    if ((row->state == TASK_WAITING || row->state == TASK_QUEUED) && row->id >= last->id)
        return;
    claim->lock_requests[claim->lock_request_count++] = (struct lock_request){row->id, row};
}

static int compare_locks(const void *one, const void *other)
{
    const struct lock_request *a = one;
    const struct lock_request *b = other;

    return (a->id > b->id) - (a->id < b->id);
}

/* Lists the tasks ahead of the candidates that are not candidates themselves. */
static void list_locks(struct claim *claim, bool locked)
{
    claim->lock_request_count = 0;
    for (size_t from = 0, to; from < claim->count; from = to) {
        const struct found *first = &claim->found[claim->by_key[from]];
        size_t key = claim->candidates[claim->by_key[from]].key;
        const struct found *last;

        for (to = from + 1; to < claim->count && claim->candidates[claim->by_key[to]].key == key;
             to++)
            continue;
        if (key == ORDER_NO_KEY)
            continue;
        last = &claim->found[claim->by_key[to - 1]];
        request_lock(claim, &claim->ahead[key].busy, first, last, locked);
        request_lock(claim, &claim->ahead[key].waiting, first, last, locked);
        request_lock(claim, &claim->ahead[key].queued, first, last, locked);
    }
    qsort(claim->lock_requests, claim->lock_request_count, sizeof(claim->lock_requests[0]),
          compare_locks);
}

static bool waits_or_queues(enum task_state state)
{
    return state == TASK_WAITING || state == TASK_QUEUED;
}

static enum rc held_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct claim *claim = ctx;
    struct lock_request key = {.id = db_column_i64(row, 0)};
    enum task_state state = (enum task_state)db_column_i64(row, 1);
    struct lock_request *lock_request =
        bsearch(&key, claim->lock_requests, claim->lock_request_count,
                sizeof(claim->lock_requests[0]), compare_locks);

    (void)err;
    if (!lock_request || waits_or_queues(lock_request->row->state) != waits_or_queues(state))
        return RC_OK;
    lock_request->row->state = state;
    lock_request->row->held = true;
    return RC_OK;
}

static enum rc lock_ahead(struct store *store, struct err *err)
{
    struct claim *claim = store->claim;
    enum rc rc = RC_OK;

    for (size_t done = 0; done < claim->lock_request_count && rc == RC_OK;) {
        size_t count = 0;

        while (count < STORE_IDS_MAX && done < claim->lock_request_count)
            claim->ids[count++] = claim->lock_requests[done++].id;
        store_put(store, "SELECT id, state FROM retry_task FORCE INDEX (PRIMARY) WHERE id ");
        store_put_ids(&store->sql, claim->ids, count);
        store_put(store, store->compare_and_set ? " FOR UPDATE" : " FOR UPDATE SKIP LOCKED");
        rc = store_query(store, held_on_row, claim, err);
    }
    return rc;
}

static enum rc decide_candidates(struct store *store, size_t run_max, struct err *err)
{
    struct claim *claim = store->claim;
    enum rc rc;

    number_keys(claim);
    rc = wake_look(store->db, claim->keys, claim->key_count, claim->ahead, err);
    if (rc != RC_OK)
        return rc;
    list_locks(claim, !store->compare_and_set);
    rc = lock_ahead(store, err);
    if (rc == RC_OK)
        order_decide(claim->candidates, claim->count, claim->ahead, run_max);
    return rc;
}

/* What would not fit into memory waits for the next claim. */
static void bound_bytes(struct claim *claim)
{
    int64_t bytes = claim->taken_bytes;
    bool any = claim->claimed.count > 0;

    for (size_t i = 0; i < claim->count; i++) {
        if (claim->candidates[i].decision != ORDER_RUN || claim->found[i].is_too_big)
            continue;
        bytes += claim->found[i].bytes;
        if (any && bytes > BYTES_MAX)
            claim->candidates[i].decision = ORDER_LEAVE;
        any = true;
    }
}

static void put_running(struct store *store, int64_t lease_ms)
{
    store_put(store, "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 1, epoch = epoch + 1, "
                     "updated_at = UTC_TIMESTAMP(3), lease_until = ");
    store_put_later(store, lease_ms);
    buf_print(&store->sql, ", lease_ms = %lld", (long long)lease_ms);
    store_put(store, ", owner = ");
    store_put_owner(store);
}

static void note_taken(struct claim *claim, const struct found *found)
{
    claimed_add(&claim->claimed, found->id, found->epoch + 1, found->kept_at);
    claim->taken_bytes += found->bytes;
}

/* One statement per task: its result tells whether the task was still free. */
static enum rc start_compared(struct store *store, const struct found *found, int64_t lease_ms,
                              struct err *err)
{
    uint64_t affected = 0;
    enum rc rc;

    put_running(store, lease_ms);
    buf_print(&store->sql, " WHERE state = 0 AND id = %lld AND epoch = %lld", (long long)found->id,
              (long long)found->epoch);
    rc = store_exec(store, &affected, err);
    if (rc == RC_REJECT && err->code == DB_DUPLICATE)
        return RC_OK;
    if (rc == RC_OK && affected == 1)
        note_taken(store->claim, found);
    return rc;
}

static enum rc start_locked(struct store *store, const struct found *const *runs, size_t count,
                            int64_t lease_ms, struct err *err)
{
    struct claim *claim = store->claim;
    enum rc rc = RC_OK;

    for (size_t done = 0; done < count && rc == RC_OK;) {
        size_t some = 0;

        while (some < STORE_IDS_MAX && done < count) {
            claim->ids[some++] = runs[done]->id;
            note_taken(claim, runs[done++]);
        }
        put_running(store, lease_ms);
        store_put(store, " WHERE id ");
        store_put_ids(&store->sql, claim->ids, some);
        rc = store_exec(store, NULL, err);
    }
    return rc;
}

/* Only a plain INSERT makes such a task. Every claim would fail on it, so it waits for an
 * operator. */
static enum rc block_too_big(struct store *store, const struct found *found, struct err *err)
{
    store_put(store, "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 3, "
                     "updated_at = UTC_TIMESTAMP(3), reason_class = 'refused', reason = ");
    buf_print(&store->sql,
              "'params have %lld bytes, at most %zu can be run' WHERE state = 0 AND id = %lld",
              (long long)found->bytes, RETRY_PARAMS_BYTES_MAX, (long long)found->id);
    return store_exec(store, NULL, err);
}

static enum rc start_candidates(struct store *store, int64_t lease_ms, struct err *err)
{
    struct claim *claim = store->claim;
    const struct found *runs[RETRY_CLAIM_ROWS_MAX];
    size_t count = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < claim->count && rc == RC_OK; i++) {
        if (claim->candidates[i].decision != ORDER_RUN)
            continue;
        if (claim->found[i].is_too_big)
            rc = block_too_big(store, &claim->found[i], err);
        else if (store->compare_and_set)
            rc = start_compared(store, &claim->found[i], lease_ms, err);
        else
            runs[count++] = &claim->found[i];
    }
    return rc == RC_OK ? start_locked(store, runs, count, lease_ms, err) : rc;
}

static enum rc queue_candidates(struct store *store, struct err *err)
{
    struct claim *claim = store->claim;
    size_t next = 0;
    enum rc rc = RC_OK;

    claim->queued = claim->left = 0;
    while (rc == RC_OK && next < claim->count) {
        size_t count = 0;

        for (; next < claim->count && count < STORE_IDS_MAX; next++) {
            claim->left += claim->candidates[next].decision == ORDER_LEAVE;
            if (claim->candidates[next].decision == ORDER_QUEUE)
                claim->ids[count++] = claim->candidates[next].id;
        }
        if (count == 0)
            break;
        claim->queued += count;
        store_put(store, "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 2, "
                         "updated_at = UTC_TIMESTAMP(3) WHERE state = 0 AND id ");
        store_put_ids(&store->sql, claim->ids, count);
        rc = store_exec(store, NULL, err);
    }
    return rc;
}

/* Runs the rounds of one transaction. */
static enum rc claim_rounds(struct store *store, const struct claim_from *from, size_t rows_max,
                            int64_t lease_ms, bool *full, struct err *err)
{
    struct claim *claim = store->claim;
    enum rc rc = RC_OK;

    claimed_begin(&claim->claimed, !store->compare_and_set);
    claim->taken_bytes = 0;
    for (int round = 0; round < ROUNDS_MAX && rc == RC_OK; round++) {
        size_t wanted = rows_max - claim->claimed.count;
        size_t limit = round > 0 && wanted < ROUND_ROWS_MIN ? ROUND_ROWS_MIN : wanted;
        bool is_last;

        rc = find_candidates(store, from, limit, err);
        if (rc == RC_OK)
            rc = decide_candidates(store, wanted, err);
        if (rc != RC_OK)
            break;
        bound_bytes(claim);
        rc = start_candidates(store, lease_ms, err);
        if (rc == RC_OK)
            rc = queue_candidates(store, err);
        is_last = claim->count < limit;
        *full = !is_last && (claim->claimed.count > 0 || claim->queued > 0);
        if (is_last || claim->claimed.count >= rows_max || claim->left > 0 || claim->queued == 0)
            break;
    }
    return rc;
}

static enum rc claim_once(struct store *store, const struct claim_from *from, size_t rows_max,
                          int64_t lease_ms, bool *full, struct err *err)
{
    enum rc rc = store_begin(store, err);

    if (rc != RC_OK)
        return rc;
    rc = claim_rounds(store, from, rows_max, lease_ms, full, err);
    return store_end(store, rc, err);
}

static enum rc claim_from(struct store *store, const struct claim_from *from, size_t rows_max,
                          int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                          struct err *err)
{
    enum rc rc = RC_REJECT;

    assert(rows_max > 0 && rows_max <= RETRY_CLAIM_ROWS_MAX);
    err_set(err, "nothing");
    for (int tries = 0; tries < TRIES_MAX && rc == RC_REJECT; tries++) {
        *full = false;
        rc = claim_once(store, from, rows_max, lease_ms, full, err);
        if (rc == RC_REJECT && err->code != DB_DUPLICATE)
            return rc;
    }
    if (rc == RC_REJECT)
        return RC_RETRY;
    return rc == RC_OK ? claimed_pass(&store->claim->claimed, store, on_task, on_task_ctx, err)
                       : rc;
}

enum rc claim_tasks(struct store *store, const struct task_class *class, size_t rows_max,
                    int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                    struct err *err)
{
    const struct claim_from from = {.class = class};

    return claim_from(store, &from, rows_max, lease_ms, on_task, on_task_ctx, full, err);
}

enum rc claim_made_task(struct store *store, int64_t id, int64_t lease_ms, retry_on_task on_task,
                        void *on_task_ctx, struct err *err)
{
    const struct claim_from from = {.made_id = id};
    bool full = false;
    enum rc rc;

    buf_reset(&store->sql);
    rc = claim_rounds(store, &from, 1, lease_ms, &full, err);
    return rc == RC_OK ? claimed_pass(&store->claim->claimed, store, on_task, on_task_ctx, err)
                       : rc;
}

static enum rc any_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    bool *any = ctx;

    (void)row;
    (void)err;
    *any = true;
    return RC_OK;
}

/* Mostly there is none: no transaction is begun for that. */
enum rc claim_expired_tasks(struct store *store, const struct task_age *age, size_t rows_max,
                            int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                            struct err *err)
{
    const struct claim_from from = {.age = age};
    bool any = false;
    enum rc rc = store_ready(store, err);

    *full = false;
    if (rc != RC_OK)
        return rc;
    store_put(store, "SELECT 1 FROM retry_task FORCE INDEX ");
    put_expired(store, age);
    store_put(store, " LIMIT 1");
    rc = store_query(store, any_on_row, &any, err);
    if (rc != RC_OK || !any)
        return rc;
    return claim_from(store, &from, rows_max, lease_ms, on_task, on_task_ctx, full, err);
}

struct renewal {
    const int64_t *ids;
    const int64_t *epochs;
    size_t count;
    bool *lost;
};

static enum rc renewed_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    const struct renewal *renewal = ctx;

    (void)err;
    for (size_t i = 0; i < renewal->count; i++) {
        if (renewal->ids[i] == db_column_i64(row, 0) && renewal->epochs[i] == db_column_i64(row, 1))
            renewal->lost[i] = false;
    }
    return RC_OK;
}

/* Runs only if the number of changed rows differs; a row that was renewed twice in one millisecond
 * is not counted either. */
static enum rc mark_lost(struct store *store, struct renewal *renewal, struct err *err)
{
    for (size_t i = 0; i < renewal->count; i++)
        renewal->lost[i] = true;
    store_put(store, "SELECT id, epoch FROM retry_task FORCE INDEX (PRIMARY) WHERE state = 1 "
                     "AND id ");
    store_put_ids(&store->sql, renewal->ids, renewal->count);
    return store_query(store, renewed_on_row, renewal, err);
}

static enum rc renew_some(struct store *store, struct renewal *renewal, int64_t lease_ms,
                          struct err *err)
{
    uint64_t affected = 0;
    enum rc rc = store_ready(store, err);

    if (rc != RC_OK)
        return rc;
    store_put(store, "UPDATE JSON_TABLE('[");
    for (size_t i = 0; i < renewal->count; i++)
        buf_print(&store->sql, "%s[%lld,%lld]", i > 0 ? "," : "", (long long)renewal->ids[i],
                  (long long)renewal->epochs[i]);
    store_put(store, "]', '$[*]' COLUMNS (id BIGINT PATH '$[0]', epoch BIGINT PATH '$[1]')) AS l "
                     "STRAIGHT_JOIN retry_task t FORCE INDEX (PRIMARY) ON t.id = l.id "
                     "SET t.lease_until = ");
    store_put_later(store, lease_ms);
    store_put(store, " WHERE t.epoch = l.epoch AND t.state = 1");
    rc = store_exec(store, &affected, err);
    for (size_t i = 0; i < renewal->count; i++)
        renewal->lost[i] = false;
    if (rc != RC_OK || affected == renewal->count)
        return rc;
    return mark_lost(store, renewal, err);
}

enum rc claim_renew_leases(struct store *store, const int64_t *ids, const int64_t *epochs,
                           size_t count, int64_t lease_ms, bool *lost, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t done = 0; done < count && rc == RC_OK; done += STORE_IDS_MAX) {
        struct renewal renewal = {
            .ids = ids + done,
            .epochs = epochs + done,
            .count = count - done < STORE_IDS_MAX ? count - done : STORE_IDS_MAX,
            .lost = lost + done,
        };

        rc = renew_some(store, &renewal, lease_ms, err);
    }
    return rc;
}

struct rescue {
    int64_t ids[STORE_IDS_MAX];
    struct order_key keys[STORE_IDS_MAX];
    size_t count, key_count;
};

#define OVERDUE "state = 1 AND lease_until <= UTC_TIMESTAMP(3)"
/* A row that was claimed by a version that wrote no length is left as it is. */
#define IMPLAUSIBLE                   \
    "state = 1 AND lease_ms > 0 AND " \
    "lease_until > UTC_TIMESTAMP(3) + INTERVAL lease_ms * 2000 MICROSECOND"
_Static_assert(LEASE_LENGTHS_MAX == 2, "IMPLAUSIBLE says so");

static enum rc overdue_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct rescue *rescue = ctx;

    (void)err;
    rescue->ids[rescue->count++] = db_column_i64(row, 0);
    if (!row->columns[1] || row->lengths[1] >= sizeof(rescue->keys[0].hash))
        return RC_OK;
    memset(&rescue->keys[rescue->key_count], 0, sizeof(rescue->keys[0]));
    memcpy(rescue->keys[rescue->key_count++].hash, row->columns[1], row->lengths[1]);
    return RC_OK;
}

static enum rc find_overdue(struct store *store, struct rescue *rescue, size_t rows_max,
                            struct err *err)
{
    rescue->count = rescue->key_count = 0;
    buf_print(&store->sql,
              "SELECT id, NULL FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE " OVERDUE
              " LIMIT %zu",
              rows_max);
    return store_query(store, overdue_on_row, rescue, err);
}

/* Those that their owner finishes or renews just now are left to him. */
static enum rc lock_overdue(struct store *store, struct rescue *rescue, struct err *err)
{
    store_put(store,
              "SELECT id, HEX(order_hash) FROM retry_task FORCE INDEX (PRIMARY) WHERE " OVERDUE
              " AND id ");
    store_put_ids(&store->sql, rescue->ids, rescue->count);
    store_put(store, store->compare_and_set ? " FOR UPDATE" : " FOR UPDATE SKIP LOCKED");
    rescue->count = rescue->key_count = 0;
    return store_query(store, overdue_on_row, rescue, err);
}

static enum rc give_back(struct store *store, struct rescue *rescue, struct err *err)
{
    enum rc rc = lock_overdue(store, rescue, err);

    if (rc != RC_OK || rescue->count == 0)
        return rc;
    store_put(store, "UPDATE retry_task FORCE INDEX (PRIMARY) SET state = 0, "
                     "owner = " STORE_NO_OWNER ", lease_until = " STORE_NO_LEASE
                     ", next_at = LEAST(next_at, UTC_TIMESTAMP(3)), "
                     "updated_at = UTC_TIMESTAMP(3) WHERE id ");
    store_put_ids(&store->sql, rescue->ids, rescue->count);
    rc = store_exec(store, NULL, err);
    return rc == RC_OK ? wake_keys(store->db, rescue->keys, rescue->key_count, err) : rc;
}

/* The rows that are locked by their owner just now are renewed by it. */
static enum rc shorten_implausible(struct store *store, size_t rows_max, size_t *shortened,
                                   struct err *err)
{
    struct rescue rescue;
    uint64_t affected = 0;
    enum rc rc;

    rescue.count = rescue.key_count = 0;
    buf_print(&store->sql,
              "SELECT id, NULL FROM retry_task FORCE INDEX (ix_retry_task_due) WHERE " IMPLAUSIBLE
              " LIMIT %zu",
              rows_max);
    rc = store_query(store, overdue_on_row, &rescue, err);
    if (rc != RC_OK || rescue.count == 0)
        return rc;
    store_put(store, "UPDATE retry_task FORCE INDEX (PRIMARY) SET lease_until = UTC_TIMESTAMP(3) + "
                     "INTERVAL lease_ms * 1000 MICROSECOND WHERE " IMPLAUSIBLE " AND id ");
    store_put_ids(&store->sql, rescue.ids, rescue.count);
    rc = store_exec(store, &affected, err);
    *shortened = (size_t)affected;
    return rc;
}

enum rc claim_rescue_expired(struct store *store, size_t rows_max, size_t *count, size_t *shortened,
                             struct err *err)
{
    struct rescue rescue;
    enum rc rc = store_ready(store, err);

    *count = *shortened = 0;
    if (rows_max > STORE_IDS_MAX)
        rows_max = STORE_IDS_MAX;
    if (rc == RC_OK)
        rc = shorten_implausible(store, rows_max, shortened, err);
    if (rc == RC_OK)
        rc = find_overdue(store, &rescue, rows_max, err);
    if (rc != RC_OK || rescue.count == 0)
        return rc;
    rc = store_begin(store, err);
    if (rc != RC_OK)
        return rc;
    rc = store_end(store, give_back(store, &rescue, err), err);
    if (rc == RC_OK)
        *count = rescue.count;
    return rc;
}
