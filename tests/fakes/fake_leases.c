/* SPDX-License-Identifier: MIT */
#include "tests/fakes/fake_leases.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static enum rc send_call(struct fake_lease_store *store, struct err *err)
{
    return store->hooks.call(store->hooks.ctx, err);
}

static enum rc get_answer(struct fake_lease_store *store, struct err *err)
{
    return store->hooks.answer(store->hooks.ctx, err);
}

static int64_t read_clock(const struct fake_lease_store *store)
{
    return store->hooks.now_ms(store->hooks.ctx);
}

/* A statement that changes the row waits for the transaction that has it locked. */
static enum rc wait_for_row(struct fake_lease_store *store, struct fake_lease *lease,
                            struct err *err)
{
    return store->wait ? store->wait(store->hooks.ctx, lease, err) : RC_OK;
}

static bool is_owner(const struct fake_lease_store *store, const struct fake_lease *lease)
{
    return strcmp(lease->owner, store->name) == 0;
}

static void mark_instance(struct fake_lease_store *store)
{
    struct fake_instances *instances = store->instances;
    size_t at = 0;

    while (at < instances->count && strcmp(instances->rows[at].name, store->name) != 0)
        at++;
    if (at == instances->count) {
        assert(at < FAKE_INSTANCES_MAX);
        instances->count++;
        snprintf(instances->rows[at].name, sizeof(instances->rows[at].name), "%s", store->name);
    }
    instances->rows[at].seen_ms = read_clock(store);
    instances->rows[at].weight = store->weight;
}

static enum rc fake_beat(void *ctx, int64_t lease_ms, struct err *err)
{
    struct fake_lease_store *store = ctx;
    enum rc rc = send_call(store, err);

    if (rc != RC_OK)
        return rc;
    mark_instance(store);
    rc = get_answer(store, err);
    if (rc == RC_OK)
        rc = send_call(store, err);
    for (size_t i = 0; rc == RC_OK && i < store->lease_count; i++) {
        struct fake_lease *lease = store->leases[i];

        if (!is_owner(store, lease))
            continue;
        rc = wait_for_row(store, lease, err);
        if (rc != RC_OK || !is_owner(store, lease))
            continue;
        lease->until_ms = read_clock(store) + lease_ms;
        lease->length_ms = lease_ms;
        if (store->on_beat)
            store->on_beat(store->hooks.ctx, lease);
    }
    return rc == RC_OK ? get_answer(store, err) : rc;
}

static bool has_other_source(const struct fake_lease_store *store, const struct fake_lease *lease)
{
    return lease->source[0] && strcmp(lease->source, store->source ? store->source : "") != 0;
}

static enum rc fake_read(void *ctx, const char *const *lanes, size_t count,
                         struct lease_view *views, struct err *err)
{
    struct fake_lease_store *store = ctx;
    enum rc rc = send_call(store, err);

    memset(views, 0, count * sizeof(*views));
    for (size_t i = 0; rc == RC_OK && i < count; i++) {
        struct fake_lease *lease = store->find(store->hooks.ctx, lanes[i]);

        if (lease->made) {
            snprintf(views[i].owner, sizeof(views[i].owner), "%s", lease->owner);
            views[i].epoch = lease->epoch;
            views[i].left_ms = lease->until_ms - read_clock(store);
            views[i].length_ms = lease->length_ms;
            views[i].wanted = lease->wanted;
            views[i].other_source = has_other_source(store, lease);
        }
        lease->made = true;
    }
    return rc == RC_OK ? get_answer(store, err) : rc;
}

static bool is_alive(const struct fake_lease_store *store, const struct fake_instance *row,
                     int64_t lease_ms)
{
    int64_t now_ms = read_clock(store);

    return row->seen_ms > now_ms - lease_ms && row->seen_ms < now_ms + lease_ms * LEASE_LENGTHS_MAX;
}

/* In the order of their names. */
static enum rc fake_instances(void *ctx, int64_t lease_ms, lease_on_instance on_instance,
                              void *on_instance_ctx, struct err *err)
{
    struct fake_lease_store *store = ctx;
    const struct fake_instances *instances = store->instances;
    enum rc rc = send_call(store, err);
    const char *last = "";

    while (rc == RC_OK) {
        const struct fake_instance *next = NULL;

        for (size_t i = 0; i < instances->count; i++) {
            const struct fake_instance *row = &instances->rows[i];

            if (is_alive(store, row, lease_ms) && strcmp(row->name, last) > 0 &&
                (!next || strcmp(row->name, next->name) < 0))
                next = row;
        }
        if (!next)
            return get_answer(store, err);
        rc = on_instance(on_instance_ctx, next->name, next->weight, err);
        last = next->name;
    }
    return rc;
}

static enum rc fake_take(void *ctx, const char *lane, int64_t lease_ms, bool *taken, int64_t *epoch,
                         struct err *err)
{
    struct fake_lease_store *store = ctx;
    struct fake_lease *lease = store->find(store->hooks.ctx, lane);
    enum rc rc = send_call(store, err);

    *taken = false;
    if (rc == RC_OK)
        rc = wait_for_row(store, lease, err);
    if (rc != RC_OK)
        return rc;
    if ((lease->owner[0] == '\0' || lease->until_ms < read_clock(store)) && !lease->wanted &&
        !has_other_source(store, lease)) {
        if (store->on_take)
            store->on_take(store->hooks.ctx, lease, lease_ms);
        snprintf(lease->owner, sizeof(lease->owner), "%s", store->name);
        lease->epoch++;
        lease->until_ms = read_clock(store) + lease_ms;
        lease->length_ms = lease_ms;
        lease->status = (struct lease_status){0};
        *taken = true;
    }
    rc = get_answer(store, err);
    if (rc != RC_OK || !*taken)
        return rc;
    rc = send_call(store, err);
    if (rc != RC_OK)
        return rc;
    if (!is_owner(store, lease))
        return err_fail(err, RC_RETRY, 0, "lane %s was taken and lost at once", lane);
    *epoch = lease->epoch;
    return get_answer(store, err);
}

static enum rc fake_shorten(void *ctx, const char *lane, int64_t epoch, int64_t length_ms,
                            struct err *err)
{
    struct fake_lease_store *store = ctx;
    struct fake_lease *lease = store->find(store->hooks.ctx, lane);
    enum rc rc = send_call(store, err);

    if (rc == RC_OK)
        rc = wait_for_row(store, lease, err);
    if (rc != RC_OK)
        return rc;
    if (lease->epoch == epoch &&
        lease->until_ms > read_clock(store) + length_ms * LEASE_LENGTHS_MAX)
        lease->until_ms = read_clock(store) + length_ms;
    return get_answer(store, err);
}

static enum rc fake_put_status(void *ctx, const char *lane, int64_t epoch,
                               const struct lease_status *status, struct err *err)
{
    struct fake_lease_store *store = ctx;
    struct fake_lease *lease = store->find(store->hooks.ctx, lane);
    enum rc rc = send_call(store, err);

    if (rc == RC_OK && is_owner(store, lease) && lease->epoch == epoch)
        lease->status = *status;
    return rc == RC_OK ? get_answer(store, err) : rc;
}

static enum rc fake_release(void *ctx, const char *lane, int64_t epoch, struct err *err)
{
    struct fake_lease_store *store = ctx;
    struct fake_lease *lease = store->find(store->hooks.ctx, lane);
    enum rc rc = send_call(store, err);

    if (rc == RC_OK)
        rc = wait_for_row(store, lease, err);
    if (rc != RC_OK)
        return rc;
    if (is_owner(store, lease) && lease->epoch == epoch) {
        lease->owner[0] = '\0';
        if (store->on_release)
            store->on_release(store->hooks.ctx, lease);
    }
    return get_answer(store, err);
}

static enum rc fake_remove_instance(void *ctx, struct err *err)
{
    struct fake_lease_store *store = ctx;
    struct fake_instances *instances = store->instances;
    enum rc rc = send_call(store, err);

    if (rc != RC_OK)
        return rc;
    for (size_t i = 0; i < instances->count; i++)
        if (strcmp(instances->rows[i].name, store->name) == 0)
            instances->rows[i] = instances->rows[--instances->count];
    return get_answer(store, err);
}

struct lease_store fake_lease_store_ops(struct fake_lease_store *store)
{
    assert(store->hooks.call && store->hooks.answer && store->hooks.now_ms && store->find);
    assert(store->lease_count <= FAKE_LEASES_MAX);
    return (struct lease_store){
        .ctx = store,
        .beat = fake_beat,
        .read = fake_read,
        .instances = fake_instances,
        .take = fake_take,
        .shorten = fake_shorten,
        .put_status = fake_put_status,
        .release = fake_release,
        .remove_instance = fake_remove_instance,
    };
}
