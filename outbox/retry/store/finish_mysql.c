/* SPDX-License-Identifier: MIT */
#include "outbox/retry/store/parts_mysql.h"

#include "outbox/retry/store/ends_mysql.h"
#include "outbox/retry/store/ids_mysql.h"
#include "outbox/retry/store/wake_mysql.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct finishing {
    struct ending endings[RETRY_RESULTS_MAX]; /* by id */
    size_t count;
    const struct ending *picked[RETRY_RESULTS_MAX];
    struct order_key keys[RETRY_RESULTS_MAX];
};

enum rc finish_open(struct finishing **finishing, struct err *err)
{
    *finishing = calloc(1, sizeof(**finishing));
    return *finishing ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory to finish tasks");
}

void finish_close(struct finishing *finishing)
{
    free(finishing);
}

static int compare_endings(const void *one, const void *other)
{
    const struct ending *a = one;
    const struct ending *b = other;

    return (a->result->id > b->result->id) - (a->result->id < b->result->id);
}

static void list_endings(struct finishing *finishing, const struct task_result *results,
                         size_t count)
{
    memset(finishing->endings, 0, count * sizeof(finishing->endings[0]));
    for (size_t i = 0; i < count; i++) {
        finishing->endings[i].result = &results[i];
        finishing->endings[i].place = i;
    }
    finishing->count = count;
    qsort(finishing->endings, count, sizeof(finishing->endings[0]), compare_endings);
}

static enum rc locked_on_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct finishing *finishing = ctx;
    const struct task_result like = {.id = db_column_i64(row, 0)};
    const struct ending key = {.result = &like};
    struct ending *ending = bsearch(&key, finishing->endings, finishing->count,
                                    sizeof(finishing->endings[0]), compare_endings);

    (void)err;
    if (!ending || db_column_i64(row, 1) != ending->result->epoch ||
        db_column_i64(row, 2) != TASK_RUNNING)
        return RC_OK;
    ending->is_ours = true;
    if (row->columns[3] && row->lengths[3] < sizeof(ending->key.hash))
        memcpy(ending->key.hash, row->columns[3], row->lengths[3]);
    if (row->lengths[4] < sizeof(ending->group))
        memcpy(ending->group, row->columns[4], row->lengths[4]);
    if (!retry_owner_read(row->columns[5], row->lengths[5], &ending->origin))
        ending->origin = OWNER_CLIENT;
    return RC_OK;
}

/* In the order of ids, as everybody who locks several tasks. */
static enum rc lock(struct retry_mysql *store, struct err *err)
{
    struct finishing *finishing = store->finishing;
    enum rc rc = RC_OK;

    for (size_t done = 0; done < finishing->count && rc == RC_OK;) {
        int64_t ids[IDS_AT_ONCE];
        size_t count = 0;

        while (count < IDS_AT_ONCE && done < finishing->count)
            ids[count++] = finishing->endings[done++].result->id;
        store_put(store,
                  "SELECT id, epoch, state, HEX(order_hash), task_group, origin FROM retry_task "
                  "FORCE INDEX (PRIMARY) WHERE id ");
        ids_put(&store->sql, ids, count);
        store_put(store, " FOR UPDATE");
        rc = store_query(store, locked_on_row, finishing, err);
    }
    return rc;
}

typedef bool (*ending_is)(const struct ending *ending);
typedef enum rc (*ending_write)(struct retry_mysql *store, const struct ending *const *endings,
                                size_t count, struct err *err);

/* Writes those that `is` says, some at once. */
static enum rc write_those(struct retry_mysql *store, ending_is is, ending_write write,
                           struct err *err)
{
    struct finishing *finishing = store->finishing;
    size_t count = 0;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < finishing->count; i++) {
        if (finishing->endings[i].is_ours && is(&finishing->endings[i]))
            finishing->picked[count++] = &finishing->endings[i];
    }
    for (size_t done = 0; done < count && rc == RC_OK; done += ENDS_AT_ONCE)
        rc = write(store, finishing->picked + done,
                   count - done < ENDS_AT_ONCE ? count - done : ENDS_AT_ONCE, err);
    return rc;
}

static bool is_kept(const struct ending *ending)
{
    return ending->result->end == TASK_END_DONE && ending->result->keep;
}

static bool is_dropped(const struct ending *ending)
{
    return ending->result->end == TASK_END_DONE && !ending->result->keep;
}

/* An attempt at the first claim has none before it. */
static bool has_attempts(const struct ending *ending)
{
    return is_dropped(ending) && ending->result->epoch > 1;
}

static bool has_attempt(const struct ending *ending)
{
    return ending->result->outcome && ending->result->end != TASK_END_BACK && !is_dropped(ending);
}

static bool has_callback(const struct ending *ending)
{
    return ending->result->callback_scene != NULL;
}

static bool is_again(const struct ending *ending)
{
    return ending->result->end == TASK_END_AGAIN;
}

static bool is_back(const struct ending *ending)
{
    return ending->result->end == TASK_END_BACK;
}

static bool is_step(const struct ending *ending)
{
    return ending->result->end == TASK_END_STEP;
}

static bool is_blocked(const struct ending *ending)
{
    return ending->result->end == TASK_END_BLOCK;
}

static bool is_parked(const struct ending *ending)
{
    return ending->result->end == TASK_END_PARK;
}

static bool is_over(const struct ending *ending)
{
    return ending->result->end == TASK_END_PARK || ending->result->end == TASK_END_SKIP;
}

static bool is_gone(const struct ending *ending)
{
    return ending->result->end == TASK_END_DONE || ending->result->end == TASK_END_SKIP;
}

static enum rc write_all(struct retry_mysql *store, struct err *err)
{
    static const struct {
        ending_is is;
        ending_write write;
    } steps[] = {
        {has_attempts, ends_forget_attempts},
        {has_attempt, ends_note_attempts},
        {has_callback, ends_call_back},
        {is_kept, ends_keep_done},
        {is_over, ends_keep_exhausted},
        {is_gone, ends_delete},
        {is_again, ends_again},
        {is_back, ends_back},
        {is_step, ends_step},
        {is_blocked, ends_block},
        {is_parked, ends_park},
    };
    enum rc rc = RC_OK;

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]) && rc == RC_OK; i++)
        rc = write_those(store, steps[i].is, steps[i].write, err);
    return rc;
}

/* Also where the task waits again: one that came late with a smaller id goes first. */
static enum rc wake(struct retry_mysql *store, struct err *err)
{
    struct finishing *finishing = store->finishing;
    size_t count = 0;

    for (size_t i = 0; i < finishing->count; i++) {
        const struct ending *ending = &finishing->endings[i];

        if (ending->is_ours && ending->key.hash[0] != '\0' && !is_blocked(ending) &&
            !is_parked(ending))
            finishing->keys[count++] = ending->key;
    }
    return wake_keys(store->db, finishing->keys, count, err);
}

enum rc finish_tasks(struct retry_mysql *store, const struct task_result *results, size_t count,
                     bool *lost, struct err *err)
{
    struct finishing *finishing = store->finishing;
    enum rc rc;

    assert(count <= RETRY_RESULTS_MAX);
    list_endings(finishing, results, count);
    rc = store_begin(store, err);
    if (rc != RC_OK)
        return rc;
    rc = lock(store, err);
    if (rc == RC_OK)
        rc = write_all(store, err);
    if (rc == RC_OK)
        rc = wake(store, err);
    rc = store_end(store, rc, err);
    for (size_t i = 0; i < count && rc == RC_OK; i++)
        lost[finishing->endings[i].place] = !finishing->endings[i].is_ours;
    return rc;
}
