/* SPDX-License-Identifier: MIT */
#include "producer/remark/recommended.h"

#include "common/hash.h"
#include "producer/serve_metrics.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS ((size_t)1 << 14)

/* An item without a list is forgotten after so many failures in a row, if no reader asks. */
#define FAILURES_MAX 2

/* Where an item stands. Each state has a list of its entries, first in, first out; that of
 * ENTRY_FRESH is in the order in which the lists were built, that of ENTRY_FAILED in the order of
 * due_ms. */
enum entry_state {
    ENTRY_NEW,       /* waits for its first build */
    ENTRY_AGAIN,     /* has a list, and waits for the next one */
    ENTRY_LATER,     /* waits until due_ms: it was built shortly before */
    ENTRY_FAILED,    /* waits until due_ms: its build failed */
    ENTRY_FRESH,     /* has the list that it should have */
    ENTRY_UNCHECKED, /* a roll-up has ended; whether it changed the item is not known */
    ENTRY_CHECKING,  /* the watcher reads it */
    ENTRY_BUILDING,  /* the builder has it */
    ENTRY_STATES,
};

struct entry {
    int64_t item_id;
    struct recommended_list *list; /* NULL: none yet */
    enum entry_state state;
    int64_t changed_ms;   /* ENTRY_BUILDING: last announcement read meanwhile; 0: none */
    int64_t due_ms;       /* ENTRY_LATER, ENTRY_FAILED */
    int64_t built_ms;     /* of the list */
    int64_t known_ms;     /* announcements up to here are in the list, or queued */
    unsigned failures;    /* of builds since the last one that succeeded */
    bool asked;           /* for its first list, since the last build began */
    struct entry *next;   /* in its bucket */
    struct entry *before; /* in the list of its state */
    struct entry *after;
    struct entry *newer; /* by last use, among those with remarks or among those without */
    struct entry *older;
};

struct entry_list {
    struct entry *first;
    struct entry *last;
    size_t count;
};

struct use_list {
    struct entry *newest;
    struct entry *oldest;
    size_t count;
};

struct written {
    int64_t item_id;
    bool queued; /* here, because an announcement of the write has failed */
};

struct recommended {
    struct recommended_config config;
    pthread_mutex_t lock; /* of everything below, of entries, and of the place of a list */
    struct entry_list states[ENTRY_STATES];
    struct use_list items; /* that have remarks */
    struct use_list empty;
    size_t waiting; /* entries without a list */
    size_t bytes;
    size_t turn;     /* of build_turns: the kind of the next build, if one is due */
    int64_t look_ms; /* when the builder looks again if nothing wakes it; 0: at once */
    bool has_state;
    struct recommended_state state;
    uint64_t state_changes; /* reads during which it grew are not known to be later */
    bool lost;
    int64_t seen_ms;
    size_t written_count;
    struct written written[RECOMMENDED_WRITTEN_MAX]; /* each item once */
    size_t taken_count;
    struct written taken[RECOMMENDED_BATCH_MAX]; /* the watcher announces them */
    struct entry *buckets[BUCKETS];
};

static size_t list_bytes(size_t count)
{
    return sizeof(struct recommended_list) + count * sizeof(int64_t);
}

struct recommended_list *recommended_list_new(int64_t item_id,
                                              const struct recommended_state *state,
                                              const int64_t *ids, size_t count)
{
    struct recommended_list *list = malloc(list_bytes(count));

    if (!list)
        return NULL;
    atomic_init(&list->holders, 1);
    list->item_id = item_id;
    list->window = state->finished;
    list->weights = state->weights;
    list->count = count;
    if (count > 0)
        memcpy(list->ids, ids, count * sizeof(ids[0]));
    list->version = hash_bytes(HASH_START, list->ids, count * sizeof(ids[0]));
    return list;
}

void recommended_list_hold(struct recommended_list *list)
{
    atomic_fetch_add(&list->holders, 1);
}

void recommended_list_release(struct recommended_list *list)
{
    if (list && atomic_fetch_sub(&list->holders, 1) == 1)
        free(list);
}

enum rc recommended_open(struct recommended **out, const struct recommended_config *config,
                         int64_t now_ms, struct err *err)
{
    struct recommended *lists = calloc(1, sizeof(*lists));

    assert(config->stale_ms >= config->silent_ms);
    assert(config->retry_max_ms >= config->retry_ms);
    *out = lists;
    if (!lists)
        return err_fail(err, RC_FATAL, 0, "no memory for recommended lists");
    lists->config = *config;
    lists->seen_ms = now_ms;
    pthread_mutex_init(&lists->lock, NULL);
    return RC_OK;
}

static struct entry **find_place(struct recommended *lists, int64_t item_id)
{
    uint64_t hash = hash_bytes(HASH_START, &item_id, sizeof(item_id));
    struct entry **at = &lists->buckets[hash % BUCKETS];

    while (*at && (*at)->item_id != item_id)
        at = &(*at)->next;
    return at;
}

static void leave_state(struct recommended *lists, struct entry *entry)
{
    struct entry_list *list = &lists->states[entry->state];

    *(entry->before ? &entry->before->after : &list->first) = entry->after;
    *(entry->after ? &entry->after->before : &list->last) = entry->before;
    list->count--;
}

static bool is_after(const struct entry *a, const struct entry *b, enum entry_state state)
{
    /* A list may have been built while an earlier one was checked. */
    if (state == ENTRY_FRESH)
        return a->built_ms > b->built_ms;
    return state == ENTRY_FAILED && a->due_ms > b->due_ms;
}

static void join_state(struct recommended *lists, struct entry *entry, enum entry_state state)
{
    struct entry_list *list = &lists->states[state];
    struct entry *before = list->last;

    /* The first one is due first. */
    while (before && is_after(before, entry, state))
        before = before->before;
    entry->state = state;
    entry->before = before;
    entry->after = before ? before->after : list->first;
    *(before ? &before->after : &list->first) = entry;
    *(entry->after ? &entry->after->before : &list->last) = entry;
    list->count++;
}

static void change_state(struct recommended *lists, struct entry *entry, enum entry_state state)
{
    leave_state(lists, entry);
    join_state(lists, entry, state);
}

static void move_all(struct recommended *lists, enum entry_state from, enum entry_state to)
{
    while (lists->states[from].first)
        change_state(lists, lists->states[from].first, to);
}

static struct use_list *find_uses(struct recommended *lists, const struct entry *entry)
{
    return entry->list->count > 0 ? &lists->items : &lists->empty;
}

static void unlink_use(struct recommended *lists, struct entry *entry)
{
    struct use_list *uses = find_uses(lists, entry);

    *(entry->newer ? &entry->newer->older : &uses->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &uses->oldest) = entry->newer;
    uses->count--;
}

static void link_use(struct recommended *lists, struct entry *entry)
{
    struct use_list *uses = find_uses(lists, entry);

    entry->newer = NULL;
    entry->older = uses->newest;
    *(uses->newest ? &uses->newest->newer : &uses->oldest) = entry;
    uses->newest = entry;
    uses->count++;
}

static void show_size(const struct recommended *lists)
{
    const struct entry_list *states = lists->states;

    metric_set(&serve_recommended_items, (int64_t)lists->items.count);
    metric_set(&serve_recommended_empty, (int64_t)lists->empty.count);
    metric_set(&serve_recommended_bytes, (int64_t)lists->bytes);
    metric_set(&serve_recommended_queued,
               (int64_t)(states[ENTRY_NEW].count + states[ENTRY_AGAIN].count +
                         states[ENTRY_LATER].count + states[ENTRY_FAILED].count));
}

static void drop_list(struct recommended *lists, struct entry *entry)
{
    if (!entry->list) {
        lists->waiting--;
        return;
    }
    unlink_use(lists, entry);
    lists->bytes -= list_bytes(entry->list->count);
    recommended_list_release(entry->list);
    entry->list = NULL;
}

/* Returns the old list, whose hold the caller takes over, or NULL. A build is no use: the entry
 * keeps its place among those that were used. */
static struct recommended_list *replace_list(struct recommended *lists, struct entry *entry,
                                             struct recommended_list *list)
{
    struct recommended_list *old = entry->list;
    bool stays = old && (old->count > 0) == (list->count > 0);

    if (!old)
        lists->waiting--;
    else
        lists->bytes -= list_bytes(old->count);
    if (old && !stays)
        unlink_use(lists, entry);
    entry->list = list;
    lists->bytes += list_bytes(list->count);
    if (!stays)
        link_use(lists, entry);
    return old;
}

static void remove_entry(struct recommended *lists, struct entry *entry)
{
    struct entry **at = find_place(lists, entry->item_id);

    *at = entry->next;
    leave_state(lists, entry);
    drop_list(lists, entry);
    lists->bytes -= sizeof(*entry);
    free(entry);
}

void recommended_free(struct recommended *lists)
{
    if (!lists)
        return;
    for (size_t i = 0; i < ENTRY_STATES; i++)
        while (lists->states[i].first)
            remove_entry(lists, lists->states[i].first);
    pthread_mutex_destroy(&lists->lock);
    free(lists);
}

/* Those that were used longest ago, until there are no more than count_max, and all take no more
 * than bytes_max; the kept one stays. */
static void forget_oldest(struct recommended *lists, struct use_list *uses, size_t count_max,
                          size_t bytes_max, const struct entry *kept)
{
    struct entry *entry = uses->oldest;

    while (entry && (uses->count > count_max || lists->bytes > bytes_max)) {
        struct entry *newer = entry->newer;

        if (entry != kept)
            remove_entry(lists, entry);
        entry = newer;
    }
}

/* Forgets the items that were used longest ago until the bounds hold; the entry stays. */
static void forget_items(struct recommended *lists, const struct entry *kept)
{
    const struct recommended_config *config = &lists->config;

    forget_oldest(lists, &lists->items, config->items_max, SIZE_MAX, kept);
    forget_oldest(lists, &lists->empty, config->empty_max, SIZE_MAX, kept);
    forget_oldest(lists, &lists->items, SIZE_MAX, config->bytes_max, kept);
    forget_oldest(lists, &lists->empty, SIZE_MAX, config->bytes_max, kept);
}

/* Invariant P8: an item that is asked for has one entry, which is queued once. Returns whether the
 * builder must be woken. Without memory, or while too many items wait, a later request tries again.
 */
static bool queue_first(struct recommended *lists, int64_t item_id)
{
    struct entry **at = find_place(lists, item_id);
    struct entry *entry;

    if (*at)
        (*at)->asked = true;
    if (*at || lists->waiting >= RECOMMENDED_WAITING_MAX)
        return false;
    entry = calloc(1, sizeof(*entry));
    if (!entry)
        return false;
    entry->item_id = item_id;
    *at = entry;
    lists->waiting++;
    lists->bytes += sizeof(*entry);
    join_state(lists, entry, ENTRY_NEW);
    return true;
}

static void wake_builder(const struct recommended *lists)
{
    if (lists->config.wake_builder)
        lists->config.wake_builder(lists->config.wake_ctx);
}

static void use_entry(struct recommended *lists, struct entry *entry)
{
    unlink_use(lists, entry);
    link_use(lists, entry);
}

static void count_answer(enum recommended_found found, bool stale)
{
    metric_add(found == RECOMMENDED_AWAY       ? &serve_recommended_refused
               : found == RECOMMENDED_BUILDING ? &serve_recommended_building
               : stale                         ? &serve_recommended_stale
                                               : &serve_recommended_kept,
               1);
}

enum recommended_found recommended_find(struct recommended *lists, int64_t item_id, int64_t now_ms,
                                        struct recommended_list **list, bool *stale)
{
    enum recommended_found found = RECOMMENDED_AWAY;
    struct entry *entry;
    bool wake = false;

    *list = NULL;
    pthread_mutex_lock(&lists->lock);
    entry = *find_place(lists, item_id);
    *stale = lists->lost || now_ms - lists->seen_ms > lists->config.silent_ms;
    if (entry && entry->list) {
        if (!*stale || now_ms - lists->seen_ms <= lists->config.stale_ms) {
            found = RECOMMENDED_LIST;
            *list = entry->list;
            recommended_list_hold(*list);
            use_entry(lists, entry);
        }
    } else if (!*stale) {
        found = RECOMMENDED_BUILDING;
        wake = queue_first(lists, item_id);
    }
    pthread_mutex_unlock(&lists->lock);
    if (wake)
        wake_builder(lists);
    count_answer(found, *stale);
    return found;
}

/* The list is not the one that the item should have. An item that was built shortly before waits,
 * so that frequent writes to an item with many remarks do not keep the builder from others. */
static void queue_again(struct recommended *lists, struct entry *entry, int64_t changed_ms,
                        int64_t now_ms)
{
    int64_t retry_ms = lists->config.retry_ms;

    switch (entry->state) {
    case ENTRY_FRESH:
    case ENTRY_UNCHECKED:
    case ENTRY_CHECKING:
        entry->due_ms = now_ms + retry_ms;
        change_state(lists, entry, now_ms - entry->built_ms < retry_ms ? ENTRY_LATER : ENTRY_AGAIN);
        break;
    case ENTRY_BUILDING:
        if (changed_ms > entry->changed_ms)
            entry->changed_ms = changed_ms;
        break;
    case ENTRY_NEW:
    case ENTRY_AGAIN:
    case ENTRY_LATER:
    case ENTRY_FAILED:
    case ENTRY_STATES:
        break;
    }
}

/* Returns NULL if none is there. */
static struct written *find_written(struct recommended *lists, int64_t item_id)
{
    for (size_t i = 0; i < lists->written_count; i++)
        if (lists->written[i].item_id == item_id)
            return &lists->written[i];
    return NULL;
}

/* Returns false if too many items wait. */
static bool add_written(struct recommended *lists, struct written item)
{
    if (lists->written_count == RECOMMENDED_WRITTEN_MAX)
        return false;
    lists->written[lists->written_count++] = item;
    return true;
}

/* Of a write that is not announced. Returns whether the builder must be woken. */
static bool queue_written(struct recommended *lists, int64_t item_id, int64_t now_ms)
{
    struct entry *entry = *find_place(lists, item_id);

    if (entry)
        queue_again(lists, entry, INT64_MAX, now_ms);
    return entry != NULL;
}

void recommended_written(struct recommended *lists, int64_t item_id, int64_t now_ms)
{
    struct written *written;
    bool wake = false;

    pthread_mutex_lock(&lists->lock);
    written = find_written(lists, item_id);
    if (written)
        written->queued = false; /* that was another write */
    else if (!add_written(lists, (struct written){item_id, false}))
        wake = queue_written(lists, item_id, now_ms);
    pthread_mutex_unlock(&lists->lock);
    if (wake)
        wake_builder(lists);
    if (!written && lists->config.wake_watcher)
        lists->config.wake_watcher(lists->config.wake_ctx);
}

/* When the entry is due for a build; INT64_MAX: something else has to happen first. */
static int64_t find_due_ms(const struct recommended *lists, const struct entry *entry)
{
    switch (entry->state) {
    case ENTRY_NEW:
    case ENTRY_AGAIN:
        return INT64_MIN;
    case ENTRY_LATER:
    case ENTRY_FAILED:
        return entry->due_ms;
    case ENTRY_FRESH:
        return entry->built_ms + lists->config.refresh_ms;
    case ENTRY_UNCHECKED:
    case ENTRY_CHECKING:
    case ENTRY_BUILDING:
    case ENTRY_STATES:
        break;
    }
    return INT64_MAX;
}

/* Items that are not asked for any more do not keep others from waiting. */
static void forget_failed(struct recommended *lists, int64_t now_ms)
{
    struct entry *next;

    for (struct entry *entry = lists->states[ENTRY_FAILED].first; entry && entry->due_ms <= now_ms;
         entry = next) {
        next = entry->after;
        if (!entry->list && !entry->asked && entry->failures >= FAILURES_MAX)
            remove_entry(lists, entry);
    }
}

static const enum entry_state build_turns[] = {ENTRY_NEW, ENTRY_AGAIN, ENTRY_LATER, ENTRY_FAILED,
                                               ENTRY_FRESH};
#define BUILD_TURNS (sizeof(build_turns) / sizeof(build_turns[0]))

/* Kinds of builds take turns, so that none waits for all of another: a build may take long, and
 * items may be written, or fail, as fast as they are built. */
static struct entry *choose_entry(struct recommended *lists, int64_t now_ms)
{
    for (size_t i = 0; i < BUILD_TURNS; i++) {
        struct entry *entry = lists->states[build_turns[lists->turn]].first;

        lists->turn = (lists->turn + 1) % BUILD_TURNS;
        if (entry && find_due_ms(lists, entry) <= now_ms)
            return entry;
    }
    return NULL;
}

/* While none is due. */
static int64_t compute_wait_ms(const struct recommended *lists, int64_t now_ms)
{
    int64_t due_ms = now_ms + lists->config.refresh_ms;

    for (size_t i = 0; i < BUILD_TURNS; i++) {
        const struct entry *entry = lists->states[build_turns[i]].first;

        if (entry && find_due_ms(lists, entry) < due_ms)
            due_ms = find_due_ms(lists, entry);
    }
    return due_ms - now_ms;
}

bool recommended_take(struct recommended *lists, int64_t now_ms, int64_t *item_id, int64_t *wait_ms)
{
    struct entry *entry;

    pthread_mutex_lock(&lists->lock);
    forget_failed(lists, now_ms);
    entry = choose_entry(lists, now_ms);
    if (entry) {
        *item_id = entry->item_id;
        entry->changed_ms = 0;
        entry->asked = false;
        change_state(lists, entry, ENTRY_BUILDING);
    } else {
        *wait_ms = compute_wait_ms(lists, now_ms);
    }
    lists->look_ms = entry ? 0 : now_ms + *wait_ms;
    show_size(lists);
    pthread_mutex_unlock(&lists->lock);
    return entry != NULL;
}

/* What follows for an item that has a new list: the state may have changed since it was read. The
 * watcher reads announcements again for some time: those up to change_ms are in the list. */
static enum entry_state judge_built(const struct recommended *lists, const struct entry *entry,
                                    int64_t change_ms)
{
    if (entry->changed_ms > change_ms)
        return ENTRY_LATER;
    if (!rank_weights_equal(&entry->list->weights, &lists->state.weights))
        return ENTRY_AGAIN;
    /* The roll-ups went back while it was built: the sink is another one. */
    if (entry->list->window > lists->state.finished)
        return ENTRY_AGAIN;
    return entry->list->window < lists->state.finished ? ENTRY_UNCHECKED : ENTRY_FRESH;
}

void recommended_built(struct recommended *lists, struct recommended_list *list, int64_t change_ms,
                       int64_t now_ms)
{
    struct recommended_list *old = list;
    struct entry *entry;

    pthread_mutex_lock(&lists->lock);
    entry = *find_place(lists, list->item_id);
    /* The item may have been forgotten meanwhile. */
    if (entry) {
        old = replace_list(lists, entry, list);
        entry->built_ms = now_ms;
        entry->due_ms = now_ms + lists->config.retry_ms;
        entry->failures = 0;
        if (change_ms > entry->known_ms)
            entry->known_ms = change_ms;
        change_state(lists, entry, judge_built(lists, entry, change_ms));
        forget_items(lists, entry);
    }
    show_size(lists);
    pthread_mutex_unlock(&lists->lock);
    recommended_list_release(old);
}

static int64_t compute_retry_ms(const struct recommended *lists, const struct entry *entry)
{
    int64_t retry_ms = lists->config.retry_ms;

    for (unsigned i = 1; i < entry->failures && retry_ms < lists->config.retry_max_ms; i++)
        retry_ms *= 2;
    return retry_ms < lists->config.retry_max_ms ? retry_ms : lists->config.retry_max_ms;
}

void recommended_failed(struct recommended *lists, int64_t item_id, int64_t now_ms)
{
    struct entry *entry;

    pthread_mutex_lock(&lists->lock);
    entry = *find_place(lists, item_id);
    if (entry && entry->state == ENTRY_BUILDING) {
        entry->failures++;
        entry->due_ms = now_ms + compute_retry_ms(lists, entry);
        change_state(lists, entry, ENTRY_FAILED);
    }
    show_size(lists);
    pthread_mutex_unlock(&lists->lock);
}

bool recommended_read_state(struct recommended *lists, struct recommended_state *state)
{
    bool has;

    pthread_mutex_lock(&lists->lock);
    has = lists->has_state && !lists->lost;
    *state = lists->state;
    pthread_mutex_unlock(&lists->lock);
    return has;
}

size_t recommended_take_written(struct recommended *lists, int64_t items[RECOMMENDED_BATCH_MAX])
{
    size_t count;

    pthread_mutex_lock(&lists->lock);
    count =
        lists->written_count < RECOMMENDED_BATCH_MAX ? lists->written_count : RECOMMENDED_BATCH_MAX;
    memcpy(lists->taken, lists->written, count * sizeof(lists->taken[0]));
    lists->taken_count = count;
    lists->written_count -= count;
    memmove(lists->written, lists->written + count,
            lists->written_count * sizeof(lists->written[0]));
    for (size_t i = 0; i < count; i++)
        items[i] = lists->taken[i].item_id;
    pthread_mutex_unlock(&lists->lock);
    return count;
}

void recommended_end_written(struct recommended *lists, bool announced, int64_t now_ms)
{
    bool wake = false;

    pthread_mutex_lock(&lists->lock);
    for (size_t i = 0; i < lists->taken_count && !announced; i++) {
        struct written item = lists->taken[i];

        if (!item.queued)
            wake = queue_written(lists, item.item_id, now_ms) || wake;
        item.queued = true;
        if (!find_written(lists, item.item_id))
            add_written(lists, item);
    }
    lists->taken_count = 0;
    pthread_mutex_unlock(&lists->lock);
    if (wake)
        wake_builder(lists);
}

void recommended_changed(struct recommended *lists, int64_t item_id, int64_t changed_ms,
                         int64_t now_ms)
{
    struct entry *entry;

    pthread_mutex_lock(&lists->lock);
    entry = *find_place(lists, item_id);
    if (entry && changed_ms > entry->known_ms) {
        queue_again(lists, entry, changed_ms, now_ms);
        entry->known_ms = changed_ms;
    }
    pthread_mutex_unlock(&lists->lock);
    if (entry)
        wake_builder(lists);
}

/* Returns whether the builder must be woken. */
static bool store_state(struct recommended *lists, const struct recommended_state *state)
{
    bool all = lists->has_state && (!rank_weights_equal(&lists->state.weights, &state->weights) ||
                                    state->finished < lists->state.finished);
    bool check = lists->has_state && state->finished != lists->state.finished;

    if (!lists->has_state || !recommended_state_equal(&lists->state, state))
        lists->state_changes++;
    lists->state = *state;
    lists->has_state = true;
    if (all) {
        move_all(lists, ENTRY_FRESH, ENTRY_AGAIN);
        move_all(lists, ENTRY_UNCHECKED, ENTRY_AGAIN);
        move_all(lists, ENTRY_CHECKING, ENTRY_AGAIN);
    } else if (check) {
        move_all(lists, ENTRY_FRESH, ENTRY_UNCHECKED);
        /* The answer that the watcher waits for may be of before this roll-up. */
        move_all(lists, ENTRY_CHECKING, ENTRY_UNCHECKED);
    }
    return all;
}

uint64_t recommended_begin_read(struct recommended *lists)
{
    uint64_t changes;

    pthread_mutex_lock(&lists->lock);
    changes = lists->state_changes;
    pthread_mutex_unlock(&lists->lock);
    return changes;
}

/* The answer to the watcher may come after that of a build which has read a later state. It is not
 * a sign that the roll-ups went back, with which all lists are built again. Times of the database
 * do not tell which state is later: two may be of one millisecond, and its clock may be set. A read
 * that began after a state was stored is later than it. */
bool recommended_set_state(struct recommended *lists, const struct recommended_state *state,
                           uint64_t began)
{
    bool wake = false;
    bool later;

    pthread_mutex_lock(&lists->lock);
    later = began == lists->state_changes;
    if (later)
        wake = store_state(lists, state);
    pthread_mutex_unlock(&lists->lock);
    if (wake)
        wake_builder(lists);
    return later;
}

size_t recommended_take_checks(struct recommended *lists, int64_t items[RECOMMENDED_BATCH_MAX])
{
    size_t count = 0;

    pthread_mutex_lock(&lists->lock);
    while (count < RECOMMENDED_BATCH_MAX && lists->states[ENTRY_UNCHECKED].first) {
        struct entry *entry = lists->states[ENTRY_UNCHECKED].first;

        items[count++] = entry->item_id;
        change_state(lists, entry, ENTRY_CHECKING);
    }
    pthread_mutex_unlock(&lists->lock);
    return count;
}

void recommended_end_checks(struct recommended *lists, const int64_t *items, const int64_t *windows,
                            size_t count)
{
    bool wake = false;

    pthread_mutex_lock(&lists->lock);
    for (size_t i = 0; i < count; i++) {
        struct entry *entry = *find_place(lists, items[i]);

        if (!entry || entry->state != ENTRY_CHECKING)
            continue;
        if (!windows)
            change_state(lists, entry, ENTRY_UNCHECKED);
        else if (windows[i] > entry->list->window)
            change_state(lists, entry, ENTRY_AGAIN);
        else
            change_state(lists, entry, ENTRY_FRESH);
        /* A builder that looked during the check has not counted this list in its wait. */
        wake = wake || find_due_ms(lists, entry) < lists->look_ms;
    }
    show_size(lists);
    pthread_mutex_unlock(&lists->lock);
    if (wake)
        wake_builder(lists);
}

void recommended_seen(struct recommended *lists, int64_t now_ms)
{
    pthread_mutex_lock(&lists->lock);
    lists->seen_ms = now_ms;
    lists->lost = false;
    pthread_mutex_unlock(&lists->lock);
}

void recommended_lost(struct recommended *lists)
{
    pthread_mutex_lock(&lists->lock);
    lists->lost = true;
    pthread_mutex_unlock(&lists->lock);
}

size_t recommended_queued(struct recommended *lists)
{
    size_t count;

    pthread_mutex_lock(&lists->lock);
    count = lists->states[ENTRY_NEW].count + lists->states[ENTRY_AGAIN].count;
    pthread_mutex_unlock(&lists->lock);
    return count;
}

size_t recommended_bytes(struct recommended *lists)
{
    size_t bytes;

    pthread_mutex_lock(&lists->lock);
    bytes = lists->bytes;
    pthread_mutex_unlock(&lists->lock);
    return bytes;
}
