/* SPDX-License-Identifier: MIT */
#include "outbox/lease/leases.h"

#include "common/hash.h"
#include "common/log.h"
#include "outbox/lease/share.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Free ones are looked for this often: a clean hand-over takes no longer. */
#define TICK_MS 500

#define BACKOFF_BASE_MS 100
#define BACKOFF_CAP_MS 1000

/* This part of a lease is left unused: for a pause between the look at the clock and the send. */
#define MARGIN_PART 8

void leases_init(struct leases *leases, const char *role, const char *word, const char *name,
                 const struct lease_store *store, int64_t lease_ms, uint64_t seed)
{
    memset(leases, 0, sizeof(*leases));
    leases->word = word;
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

static int64_t length_of(const struct leases *leases, const struct lease *lease)
{
    return lease->view.length_ms > 0 ? lease->view.length_ms : leases->lease_ms;
}

/* The moment a lease of somebody else runs out is not slept through. */
static int64_t tick_ms(const struct leases *leases)
{
    int64_t wait_ms = leases->lease_ms / 3 < TICK_MS ? leases->lease_ms / 3 : TICK_MS;

    for (size_t i = 0; i < leases->count; i++) {
        const struct lease *lease = &leases->list[i];

        if (!lease->held && lease->view.left_ms > 0 && lease->view.left_ms < wait_ms)
            wait_ms = lease->view.left_ms + 1;
    }
    return wait_ms;
}

/* now_ms is from before the statement that made the lease last lease_ms. */
static void extend(struct leases *leases, struct lease *lease, int64_t now_ms)
{
    atomic_store(&lease->leased->valid_until_ms,
                 now_ms + leases->lease_ms - leases->lease_ms / MARGIN_PART);
}

static void wake(const struct leased *leased)
{
    if (leased->wake)
        leased->wake(leased->ctx);
}

static void show(struct metric *metric, int64_t value)
{
    if (metric)
        metric_set(metric, value);
}

static void log_lease(const struct leases *leases, const struct lease *lease, const char *event)
{
    log_event(leases->level, event, "%s=%s epoch=%" PRId64, leases->word, lease->leased->label,
              lease->epoch);
}

static void take_up(struct leases *leases, struct lease *lease, int64_t epoch, int64_t now_ms)
{
    struct leased *leased = lease->leased;

    lease->held = true;
    lease->epoch = epoch;
    memset(&lease->told, 0, sizeof(lease->told));
    atomic_store(&leased->leaving, false);
    atomic_store(&leased->strange, false);
    atomic_store(&leased->idle, false);
    atomic_store(&leased->epoch, epoch);
    extend(leases, lease, now_ms);
    show(leased->held, 1);
    show(leased->told_epoch, epoch);
    log_lease(leases, lease, "lease_taken");
    wake(leased);
}

static void drop(const struct leases *leases, struct lease *lease, const char *event)
{
    struct leased *leased = lease->leased;

    lease->held = false;
    atomic_store(&leased->valid_until_ms, 0);
    atomic_store(&leased->leaving, false);
    show(leased->held, 0);
    log_lease(leases, lease, event);
    wake(leased);
}

static enum rc beat(struct leases *leases, int64_t now_ms, struct err *err)
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

/* What cannot be finished in a lease's time is given up. */
static bool leaves_too_long(const struct leases *leases, const struct lease *lease, int64_t now_ms)
{
    return atomic_load(&lease->leased->leaving) && now_ms - lease->leave_ms >= leases->lease_ms;
}

/* What was lost is not taken up again before all that is in hand has come back. */
static bool has_rested(const struct lease *lease)
{
    return atomic_load(&lease->leased->idle);
}

/* What the database says of one lease against what we believe. */
static void compare(struct leases *leases, struct lease *lease, int64_t now_ms)
{
    bool mine = strcmp(lease->view.owner, leases->name) == 0;

    if (lease->held && (!mine || lease->view.epoch != lease->epoch)) {
        drop(leases, lease, "lease_lost");
        return;
    }
    if (!mine || !leases->beaten)
        return;
    /* A take whose answer was lost is met here. */
    if (!lease->held && has_rested(lease))
        take_up(leases, lease, lease->view.epoch, now_ms);
    else if (lease->held && lease->view.left_ms > 0 && !leaves_too_long(leases, lease, now_ms))
        extend(leases, lease, now_ms);
}

static bool is_implausible(const struct leases *leases, const struct lease *lease)
{
    return lease->view.owner[0] != '\0' && strcmp(lease->view.owner, leases->name) != 0 &&
           lease->view.left_ms > length_of(leases, lease) * LEASE_LENGTHS_MAX;
}

/* Whether its owner lives is seen within the lease that it gets: one that lives renews it. */
static void note_shortened(struct lease *lease)
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
        int64_t length_ms = length_of(leases, lease);
        enum rc rc;

        if (!is_implausible(leases, lease)) {
            note_shortened(lease);
            continue;
        }
        rc = leases->store.shorten(leases->store.ctx, leases->names[i], lease->view.epoch,
                                   length_ms, err);
        if (rc != RC_OK)
            return rc;
        log_event(LOG_WARN, "lease_shortened",
                  "%s=%s owner=%s epoch=%" PRId64 " ends_after_ms=%" PRId64 " lease_ms=%" PRId64
                  " text=\"the database clock was set back\"",
                  leases->word, lease->leased->label, lease->view.owner, lease->view.epoch,
                  lease->view.left_ms, length_ms);
        lease->shortened_epoch = lease->view.epoch;
        lease->shortened_left_ms = lease->view.left_ms = length_ms;
    }
    return RC_OK;
}

static enum rc look_at_all(struct leases *leases, int64_t now_ms, struct err *err)
{
    enum rc rc = RC_OK;

    if (leases->count > 0)
        rc =
            leases->store.look(leases->store.ctx, leases->names, leases->count, leases->views, err);
    for (size_t i = 0; rc == RC_OK && i < leases->count; i++) {
        leases->list[i].view = leases->views[i];
        compare(leases, &leases->list[i], now_ms);
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

static bool is_free(const struct lease *lease)
{
    return !lease->held && (lease->view.owner[0] == '\0' || lease->view.left_ms <= 0);
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

    for (size_t i = 0; i < leases->count; i++)
        share.free += is_free(&leases->list[i]);
    return share;
}

static enum rc take_some(struct leases *leases, int64_t now_ms, struct err *err)
{
    const struct share share = share_of(leases);

    for (size_t i = 0; i < leases->count && share_may_take(&share); i++) {
        struct lease *lease = &leases->list[i];
        bool taken = false;
        int64_t epoch = 0;
        enum rc rc;

        if (!is_free(lease) || !has_rested(lease))
            continue;
        rc = leases->store.take(leases->store.ctx, lease->leased->name, leases->lease_ms, &taken,
                                &epoch, err);
        if (rc != RC_OK)
            return rc;
        if (!taken)
            continue;
        leases->held[leases->me]++;
        take_up(leases, lease, epoch, now_ms);
    }
    return RC_OK;
}

static void leave(struct lease *lease, int64_t now_ms)
{
    lease->leave_ms = now_ms;
    atomic_store(&lease->leased->leaving, true);
    wake(lease->leased);
}

/* The next ones only when these are released: the others look first what became of them. */
static void give_surplus(struct leases *leases, int64_t now_ms)
{
    const struct share share = share_of(leases);
    size_t surplus = share_surplus(&share);

    for (size_t i = 0; i < leases->count; i++)
        if (leases->list[i].held && atomic_load(&leases->list[i].leased->leaving))
            return;
    for (size_t i = leases->count; i-- > 0 && surplus > 0;) {
        if (!leases->list[i].held)
            continue;
        leave(&leases->list[i], now_ms);
        surplus--;
    }
}

/* What comes from a database that has changed begins anew, here or elsewhere. */
static void leave_strange(struct leases *leases, int64_t now_ms)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];

        if (lease->held && atomic_load(&lease->leased->strange) &&
            !atomic_load(&lease->leased->leaving))
            leave(lease, now_ms);
    }
}

static enum rc release_left(struct leases *leases, int64_t now_ms, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];
        struct leased *leased = lease->leased;
        enum rc rc;

        if (!lease->held || !atomic_load(&leased->leaving))
            continue;
        if (leaves_too_long(leases, lease, now_ms))
            atomic_store(&leased->valid_until_ms, 0);
        if (!atomic_load(&leased->idle))
            continue;
        atomic_store(&leased->valid_until_ms, 0);
        rc = leases->store.release(leases->store.ctx, leased->name, lease->epoch, err);
        if (rc != RC_OK)
            return rc;
        drop(leases, lease, "lease_released");
        /* Who counts next must not count it as ours. */
        lease->view.owner[0] = '\0';
    }
    return RC_OK;
}

static enum rc tell_news(struct leases *leases, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];
        struct lease_news news = {0};
        enum rc rc;

        if (!lease->held || !lease->leased->news)
            continue;
        lease->leased->news(lease->leased->ctx, &news);
        if (memcmp(&news, &lease->told, sizeof(news)) == 0)
            continue;
        rc = leases->store.tell(leases->store.ctx, lease->leased->name, lease->epoch, &news, err);
        if (rc != RC_OK)
            return rc;
        lease->told = news;
    }
    return RC_OK;
}

static enum rc keep(struct leases *leases, int64_t now_ms, struct err *err)
{
    enum rc rc = beat(leases, now_ms, err);

    if (rc == RC_OK)
        rc = look_at_all(leases, now_ms, err);
    if (rc == RC_OK)
        leave_strange(leases, now_ms);
    if (rc == RC_OK)
        rc = release_left(leases, now_ms, err);
    if (rc == RC_OK)
        rc = count_instances(leases, err);
    if (rc == RC_OK && leases->me < leases->instances) {
        give_surplus(leases, now_ms);
        rc = take_some(leases, now_ms, err);
    }
    if (rc == RC_OK)
        rc = tell_news(leases, err);
    return rc;
}

/* Why a lane idles whose owner seems to be there. */
static bool names_clock(const struct leases *leases, struct err *err)
{
    for (size_t i = 0; i < leases->count; i++) {
        const struct lease *lease = &leases->list[i];

        if (lease->shortened_epoch == 0)
            continue;
        err_set(err,
                "the database clock was set back: the lease of %s by %s ended too far in the "
                "future, and now ends within %" PRId64 " ms unless that instance renews it",
                lease->leased->label, lease->view.owner, length_of(leases, lease));
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

    if (keep(leases, now_ms, &err) == RC_OK) {
        condition_ok(&leases->store_state, now_ms);
        if (names_clock(leases, &err))
            condition_fail(&leases->clock, now_ms, &err);
        else
            condition_ok(&leases->clock, now_ms);
        backoff_reset(&leases->backoff);
        return tick_ms(leases);
    }
    condition_fail(&leases->store_state, now_ms, &err);
    leases->beat_at_ms = now_ms;
    return backoff_next_ms(&leases->backoff, rng_next(&leases->rng));
}

void leases_leave(struct leases *leases, int64_t now_ms)
{
    for (size_t i = 0; i < leases->count; i++) {
        if (leases->list[i].held)
            leave(&leases->list[i], now_ms);
    }
}

bool leases_left(const struct leases *leases)
{
    for (size_t i = 0; i < leases->count; i++) {
        if (leases->list[i].held && !atomic_load(&leases->list[i].leased->idle))
            return false;
    }
    return true;
}

/* Best effort: what is not released runs out by itself. */
void leases_release(struct leases *leases)
{
    for (size_t i = 0; i < leases->count; i++) {
        struct lease *lease = &leases->list[i];

        if (!lease->held)
            continue;
        atomic_store(&lease->leased->valid_until_ms, 0);
        leases->store.release(leases->store.ctx, lease->leased->name, lease->epoch, NULL);
        drop(leases, lease, "lease_released");
    }
    leases->store.leave(leases->store.ctx, NULL);
}

int64_t leased_epoch(const struct leased *leased, int64_t now_ms)
{
    if (now_ms >= atomic_load(&leased->valid_until_ms) || atomic_load(&leased->strange))
        return 0;
    return atomic_load(&leased->epoch);
}
