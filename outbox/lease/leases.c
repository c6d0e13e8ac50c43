/* SPDX-License-Identifier: MIT */
#include "outbox/lease/leases.h"

#include "common/hash.h"
#include "common/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* How often the leases are read: bounds how long a released lease stays unheld. */
#define TICK_MS 500

/* The same while this instance is alone and holds every lease: bounds how long a new instance waits
 * until leases are drained for it. */
#define ALONE_TICK_MS 2000

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 1000

/* Holders may use a lease for all but this part of its length. The margin covers a pause of the
 * process between its reading of the clock and the server's execution of the statement. */
#define MARGIN_PART 8

static size_t weight_of(const struct share *share, size_t i)
{
    return share->weights ? (size_t)share->weights[i] : 1;
}

static size_t sum_weights(const struct share *share)
{
    size_t sum = 0;

    for (size_t i = 0; i < share->instances; i++)
        sum += weight_of(share, i);
    assert(sum > 0);
    return sum;
}

static size_t share_rounded_down(const struct share *share, size_t i)
{
    return share->lanes * weight_of(share, i) / sum_weights(share);
}

static size_t share_rounded_up(const struct share *share, size_t i)
{
    size_t all = sum_weights(share);

    return (share->lanes * weight_of(share, i) + all - 1) / all;
}

/* Lanes that the other instances lack for their share, rounded down. */
static size_t count_missing_of_others(const struct share *share)
{
    size_t lack = 0;

    for (size_t i = 0; i < share->instances; i++) {
        size_t down = share_rounded_down(share, i);

        if (i != share->me && share->held[i] < down)
            lack += down - share->held[i];
    }
    return lack;
}

/* Compares how far two instances are above their exact share. */
static bool holds_more_than(const struct share *share, size_t one, size_t two)
{
    size_t all = sum_weights(share);

    return share->held[one] * all + share->lanes * weight_of(share, two) >
           share->held[two] * all + share->lanes * weight_of(share, one);
}

bool share_may_take(const struct share *share)
{
    size_t mine = share->held[share->me];

    if (mine < share_rounded_down(share, share->me))
        return true;
    return mine < share_rounded_up(share, share->me) && count_missing_of_others(share) == 0;
}

/* Of the instances that are furthest above their share only the first one releases a lane, so that
 * not two instances release one each for a single missing lane. */
static bool is_first_with_most(const struct share *share)
{
    for (size_t i = 0; i < share->instances; i++) {
        if (holds_more_than(share, i, share->me) ||
            (i < share->me && !holds_more_than(share, share->me, i)))
            return false;
    }
    return true;
}

size_t share_surplus(const struct share *share)
{
    size_t mine = share->held[share->me];
    size_t up = share_rounded_up(share, share->me);

    if (mine > up)
        return mine - up;
    return mine > share_rounded_down(share, share->me) &&
           count_missing_of_others(share) > share->free && is_first_with_most(share);
}

void leases_init(struct leases *leases, const char *role, const char *log_key, const char *name,
                 const struct lease_store *store, int64_t lease_ms, uint64_t seed)
{
    memset(leases, 0, sizeof(*leases));
    leases->log_key = log_key;
    leases->level = LOG_INFO;
    leases->name = name;
    leases->store = *store;
    leases->lease_ms = lease_ms;
    leases->rng = seed;
    leases->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    condition_init(&leases->store_state, CONDITION_DEPENDENCY,
                   "dep=mysql role=%s reason=cannot_renew_leases", role);
    condition_init(&leases->clock, CONDITION_CHECK, "check=database_clock role=%s", role);
}

void leases_log_less(struct leases *leases)
{
    leases->level = LOG_DEBUG;
    leases->store_state.kind = CONDITION_SILENT;
    leases->clock.kind = CONDITION_SILENT;
}

void leases_done(struct leases *leases)
{
    condition_done(&leases->store_state);
    condition_done(&leases->clock);
}

void leases_group(char group[LEASES_GROUP_SIZE], const char *const *lanes, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += hash_bytes(HASH_START, lanes[i], strlen(lanes[i]));
    snprintf(group, LEASES_GROUP_SIZE, "relay:%016" PRIx64, sum);
}

void leases_add(struct leases *leases, struct leased *leased)
{
    assert(leases->count < LEASES_MAX);
    leases->names[leases->count] = leased->name;
    leases->list[leases->count++].leased = leased;
}

static int64_t lease_length_ms(const struct leases *leases, const struct lease *lease)
{
    return lease->view.length_ms > 0 ? lease->view.length_ms : leases->lease_ms;
}

/* Whether nothing changes before another instance appears. */
static bool is_settled(const struct leases *leases)
{
    for (size_t i = 0; i < leases->count; i++) {
        const struct leased *leased = leases->list[i].leased;

        if (!leases->list[i].held || atomic_load(&leased->draining) ||
            atomic_load(&leased->origin_lost))
            return false;
    }
    return leases->instances == 1 && leases->me == 0;
}

/* Time until the next step. A lease of another instance that expires sooner ends the wait just
 * after its expiry, so that it is taken without delay. */
static int64_t next_step_ms(const struct leases *leases)
{
    int64_t wait_ms = is_settled(leases) ? ALONE_TICK_MS : TICK_MS;

    if (leases->lease_ms / 3 < wait_ms)
        wait_ms = leases->lease_ms / 3;

    for (size_t i = 0; i < leases->count; i++) {
        const struct lease *lease = &leases->list[i];

        if (!lease->held && lease->view.left_ms > 0 && lease->view.left_ms < wait_ms)
            wait_ms = lease->view.left_ms + 1;
    }
    return wait_ms;
}

/* Invariant: now_ms was read before the statement that made the lease last lease_ms was sent. The
 * holder's own limit therefore lies before the lease's end in the database. Mutant: lease-believed.
 */
static void extend_validity(struct leases *leases, struct lease *lease, int64_t now_ms)
{
    atomic_store(&lease->leased->valid_until_ms,
                 now_ms + leases->lease_ms - leases->lease_ms / MARGIN_PART);
}

static void wake_holder(const struct leased *leased)
{
    if (leased->wake)
        leased->wake(leased->ctx);
}

static void set_metric(struct metric *metric, int64_t value)
{
    if (metric)
        metric_set(metric, value);
}

static void log_lease(const struct leases *leases, const struct lease *lease, const char *event)
{
    log_event(leases->level, event, "%s=%s epoch=%" PRId64, leases->log_key, lease->leased->label,
              lease->epoch);
}

static void start_holding(struct leases *leases, struct lease *lease, int64_t epoch, int64_t now_ms)
{
    struct leased *leased = lease->leased;

    lease->held = true;
    lease->epoch = epoch;
    memset(&lease->status_stored, 0, sizeof(lease->status_stored));
    atomic_store(&leased->draining, false);
    atomic_store(&leased->origin_lost, false);
    atomic_store(&leased->idle, false);
    atomic_store(&leased->epoch, epoch);
    extend_validity(leases, lease, now_ms);
    set_metric(leased->held_metric, 1);
    set_metric(leased->epoch_metric, epoch);
    log_lease(leases, lease, "lease_taken");
    wake_holder(leased);
}

static void stop_holding(const struct leases *leases, struct lease *lease, const char *event)
{
    struct leased *leased = lease->leased;

    lease->held = false;
    atomic_store(&leased->valid_until_ms, 0);
    atomic_store(&leased->draining, false);
    set_metric(leased->held_metric, 0);
    log_lease(leases, lease, event);
    wake_holder(leased);
}

static enum rc send_heartbeat(struct leases *leases, int64_t now_ms, struct err *err)
{
    enum rc rc;

    leases->beaten = false;
    if (now_ms < leases->beat_at_ms)
        return RC_OK;
    rc = leases->store.beat(leases->store.ctx, leases->lease_ms, err);
    if (rc != RC_OK)
        return rc;
    leases->beaten = true;
    leases->beat_at_ms = now_ms + leases->lease_ms / 3;
    return RC_OK;
}

/* A holder that has not finished within one lease length loses the lease without finishing. */
static bool is_drain_overdue(const struct leases *leases, const struct lease *lease, int64_t now_ms)
{
    return atomic_load(&lease->leased->draining) && now_ms - lease->drain_ms >= leases->lease_ms;
}

/* A lost lease is not taken again before the holder has no item in flight from its last term. */
static bool is_idle(const struct lease *lease)
{
    return atomic_load(&lease->leased->idle);
}

/* Updates what this process believes of one lease from the row that it has read. A lease is
 * extended only in a step whose heartbeat succeeded, see extend_validity(). */
static void apply_view(struct leases *leases, struct lease *lease, int64_t now_ms)
{
    bool mine = strcmp(lease->view.owner, leases->name) == 0;

    atomic_store(&lease->leased->other_source, lease->view.other_source);
    if (lease->held && (!mine || lease->view.epoch != lease->epoch)) {
        stop_holding(leases, lease, "lease_lost");
        return;
    }
    if (!mine || !leases->beaten)
        return;
    /* The row may name this instance without the lease being held: the answer of a take was lost.
     */
    if (!lease->held && is_idle(lease))
        start_holding(leases, lease, lease->view.epoch, now_ms);
    else if (lease->held && lease->view.left_ms > 0 && !is_drain_overdue(leases, lease, now_ms))
        extend_validity(leases, lease, now_ms);
}

static bool is_implausible(const struct leases *leases, const struct lease *lease)
{
    return lease->view.owner[0] != '\0' && strcmp(lease->view.owner, leases->name) != 0 &&
           lease->view.left_ms > lease_length_ms(leases, lease) * LEASE_LENGTHS_MAX;
}

/* Clears the mark of a shortened lease when its owner renewed it, another one took it or it
 * expired: a live owner renews a shortened lease within one length. */
static void update_shortened(struct lease *lease)
{
    const struct lease_view *view = &lease->view;

    if (view->owner[0] == '\0' || view->epoch != lease->shortened_epoch || view->left_ms <= 0 ||
        view->left_ms > lease->shortened_left_ms)
        lease->shortened_epoch = 0;
    lease->shortened_left_ms = view->left_ms;
}

static enum rc shorten_implausible(struct leases *leases, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];
        int64_t length_ms = lease_length_ms(leases, lease);
        enum rc rc;

        if (!is_implausible(leases, lease)) {
            update_shortened(lease);
            continue;
        }
        rc = leases->store.shorten(leases->store.ctx, leases->names[i], lease->view.epoch,
                                   length_ms, err);
        if (rc != RC_OK)
            return rc;
        log_event(LOG_WARN, "lease_shortened",
                  "%s=%s owner=%s epoch=%" PRId64 " ends_after_ms=%" PRId64 " lease_ms=%" PRId64
                  " text=\"the database clock was set back\"",
                  leases->log_key, lease->leased->label, lease->view.owner, lease->view.epoch,
                  lease->view.left_ms, length_ms);
        lease->shortened_epoch = lease->view.epoch;
        lease->shortened_left_ms = lease->view.left_ms = length_ms;
    }
    return RC_OK;
}

static enum rc read_all(struct leases *leases, int64_t now_ms, struct err *err)
{
    enum rc rc = RC_OK;

    if (leases->count > 0)
        rc =
            leases->store.read(leases->store.ctx, leases->names, leases->count, leases->views, err);
    for (size_t i = 0; rc == RC_OK && i < leases->count; i++) {
        leases->list[i].view = leases->views[i];
        apply_view(leases, &leases->list[i], now_ms);
    }
    return rc == RC_OK ? shorten_implausible(leases, err) : rc;
}

static enum rc on_instance(void *ctx, const char *name, int64_t weight, struct err *err)
{
    struct leases *leases = ctx;
    size_t at = leases->instances;

    (void)err;
    if (at == LEASES_INSTANCES_MAX)
        return RC_OK;
    leases->held[at] = 0;
    leases->weights[at] = weight;
    for (size_t i = 0; i < leases->count; i++)
        leases->held[at] += strcmp(leases->list[i].view.owner, name) == 0;
    if (strcmp(name, leases->name) == 0)
        leases->me = at;
    leases->instances++;
    return RC_OK;
}

static enum rc count_instances(struct leases *leases, struct err *err)
{
    leases->instances = 0;
    leases->me = SIZE_MAX;
    return leases->store.instances(leases->store.ctx, leases->lease_ms, on_instance, leases, err);
}

/* Whether this instance may not hold the lease: a command asks for it, or it is to be read by
 * another source. */
static bool is_barred(const struct lease *lease)
{
    return lease->view.wanted || lease->view.other_source;
}

static bool is_free(const struct lease *lease)
{
    return !lease->held && !is_barred(lease) &&
           (lease->view.owner[0] == '\0' || lease->view.left_ms <= 0);
}

static struct share share_of(const struct leases *leases)
{
    struct share share = {
        .held = leases->held,
        .weights = leases->weights,
        .instances = leases->instances,
        .me = leases->me,
        .lanes = leases->count,
    };

    for (size_t i = 0; i < leases->count; i++) {
        share.free += is_free(&leases->list[i]);
        /* Nor does another instance of the group take it. */
        share.lanes -= leases->list[i].view.other_source && !leases->list[i].held;
    }
    return share;
}

static enum rc take_free(struct leases *leases, int64_t now_ms, struct err *err)
{
    const struct share share = share_of(leases);

    for (size_t i = 0; i < leases->count && share_may_take(&share); i++) {
        struct lease *lease = &leases->list[i];
        bool taken = false;
        int64_t epoch = 0;
        enum rc rc;

        if (!is_free(lease) || !is_idle(lease))
            continue;
        rc = leases->store.take(leases->store.ctx, lease->leased->name, leases->lease_ms, &taken,
                                &epoch, err);
        if (rc != RC_OK)
            return rc;
        if (!taken)
            continue;
        leases->held[leases->me]++;
        start_holding(leases, lease, epoch, now_ms);
    }
    return RC_OK;
}

static void start_drain(struct lease *lease, int64_t now_ms)
{
    lease->drain_ms = now_ms;
    atomic_store(&lease->leased->draining, true);
    wake_holder(lease->leased);
}

/* Starts no further drain while one is unfinished: the other instances have to see the released
 * leases before the shares are computed again. */
static void drain_surplus(struct leases *leases, int64_t now_ms)
{
    const struct share share = share_of(leases);
    size_t surplus = share_surplus(&share);

    for (size_t i = 0; i < leases->count; i++)
        if (leases->list[i].held && atomic_load(&leases->list[i].leased->draining))
            return;
    for (size_t i = leases->count; i-- > 0 && surplus > 0;) {
        if (!leases->list[i].held)
            continue;
        start_drain(&leases->list[i], now_ms);
        surplus--;
    }
}

/* Drains every lease whose database was replaced, restarted or gives seqs out again: the next
 * holder, this instance or another one, then reads from the start. And every lease that this
 * instance may not hold. */
static void drain_lost(struct leases *leases, int64_t now_ms)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];

        if (lease->held && (atomic_load(&lease->leased->origin_lost) || is_barred(lease)) &&
            !atomic_load(&lease->leased->draining))
            start_drain(lease, now_ms);
    }
}

static enum rc release_drained(struct leases *leases, int64_t now_ms, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];
        struct leased *leased = lease->leased;
        enum rc rc;

        if (!lease->held || !atomic_load(&leased->draining))
            continue;
        if (is_drain_overdue(leases, lease, now_ms)) {
            atomic_store(&leased->valid_until_ms, 0);
            wake_holder(leased);
        }
        if (!atomic_load(&leased->idle))
            continue;
        atomic_store(&leased->valid_until_ms, 0);
        rc = leases->store.release(leases->store.ctx, leased->name, lease->epoch, err);
        if (rc != RC_OK)
            return rc;
        stop_holding(leases, lease, "lease_released");
        /* on_instance() counts leases by owner: this one is no longer ours. */
        lease->view.owner[0] = '\0';
    }
    return RC_OK;
}

static enum rc put_statuses(struct leases *leases, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];
        struct lease_status status = {0};
        enum rc rc;

        if (!lease->held || !lease->leased->status)
            continue;
        lease->leased->status(lease->leased->ctx, &status);
        if (memcmp(&status, &lease->status_stored, sizeof(status)) == 0)
            continue;
        rc = leases->store.put_status(leases->store.ctx, lease->leased->name, lease->epoch, &status,
                                      err);
        if (rc != RC_OK)
            return rc;
        lease->status_stored = status;
    }
    return RC_OK;
}

static enum rc renew_all(struct leases *leases, int64_t now_ms, struct err *err)
{
    enum rc rc = send_heartbeat(leases, now_ms, err);

    if (rc == RC_OK)
        rc = read_all(leases, now_ms, err);
    if (rc == RC_OK)
        drain_lost(leases, now_ms);
    if (rc == RC_OK)
        rc = release_drained(leases, now_ms, err);
    if (rc == RC_OK)
        rc = count_instances(leases, err);
    if (rc == RC_OK && leases->me < leases->instances) {
        drain_surplus(leases, now_ms);
        rc = take_free(leases, now_ms, err);
    }
    if (rc == RC_OK)
        rc = put_statuses(leases, err);
    return rc;
}

/* Returns true while a shortened lease is not renewed; until then no relay reads its lane. */
static bool find_shortened(const struct leases *leases, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++) {
        const struct lease *lease = &leases->list[i];

        if (lease->shortened_epoch == 0)
            continue;
        err_set(err,
                "the database clock was set back: the lease of %s by %s ended too far in the "
                "future, and now ends within %" PRId64 " ms unless that instance renews it",
                lease->leased->label, lease->view.owner, lease_length_ms(leases, lease));
        return true;
    }
    return false;
}

bool leases_failing(struct leases *leases, struct err *err)
{
    return condition_read(&leases->store_state, err) || condition_read(&leases->clock, err);
}

int64_t leases_step(void *arg, int64_t now_ms)
{
    struct leases *leases = arg;
    struct err err = {0};

    if (renew_all(leases, now_ms, &err) == RC_OK) {
        condition_ok(&leases->store_state, now_ms);
        if (find_shortened(leases, &err))
            condition_fail(&leases->clock, now_ms, &err);
        else
            condition_ok(&leases->clock, now_ms);
        backoff_reset(&leases->backoff);
        return next_step_ms(leases);
    }
    condition_fail(&leases->store_state, now_ms, &err);
    leases->beat_at_ms = now_ms;
    return backoff_next_ms(&leases->backoff, rng_next(&leases->rng));
}

void leases_drain(struct leases *leases, int64_t now_ms)
{
    for (size_t i = 0; i < leases->count; i++) {
        if (leases->list[i].held)
            start_drain(&leases->list[i], now_ms);
    }
}

bool leases_drained(const struct leases *leases)
{
    for (size_t i = 0; i < leases->count; i++) {
        if (leases->list[i].held && !atomic_load(&leases->list[i].leased->idle))
            return false;
    }
    return true;
}

/* Errors are ignored: a lease that is not released expires. */
void leases_release(struct leases *leases)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];

        if (!lease->held)
            continue;
        atomic_store(&lease->leased->valid_until_ms, 0);
        leases->store.release(leases->store.ctx, lease->leased->name, lease->epoch, NULL);
        stop_holding(leases, lease, "lease_released");
    }
    leases->store.remove_instance(leases->store.ctx, NULL);
}

int64_t leased_epoch(const struct leased *leased, int64_t now_ms)
{
    if (now_ms >= atomic_load(&leased->valid_until_ms) || atomic_load(&leased->origin_lost))
        return 0;
    return atomic_load(&leased->epoch);
}
