/* SPDX-License-Identifier: MIT */
#include "outbox/relay/stopped.h"

#include "outbox/relay/ordering_key.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rc stopped_init(struct stopped *stopped, size_t count_max, struct err *err)
{
    size_t slots = 16;

    memset(stopped, 0, sizeof(*stopped));
    while (slots < 2 * count_max)
        slots *= 2;
    stopped->slots = calloc(slots, sizeof(*stopped->slots));
    stopped->moves = calloc(STOPPED_MOVES_MAX, sizeof(*stopped->moves));
    if (!stopped->slots || !stopped->moves) {
        free(stopped->slots);
        free(stopped->moves);
        stopped->slots = NULL;
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu stopped keys", count_max);
    }
    pthread_mutex_init(&stopped->lock, NULL);
    stopped->mask = slots - 1;
    stopped->count_max = count_max;
    stopped->key_rows_max = STOPPED_KEY_ROWS_MAX;
    stopped->moves_max = STOPPED_MOVES_MAX;
    return RC_OK;
}

static void clear(struct stopped *stopped)
{
    for (size_t i = 0; i <= stopped->mask; i++) {
        if (stopped->slots[i].key == 0)
            continue;
        free(stopped->slots[i].ordering_key);
        stopped->slots[i] = (struct stopped_key){0};
    }
    atomic_store(&stopped->count, 0);
}

void stopped_done(struct stopped *stopped)
{
    if (!stopped->slots)
        return;
    clear(stopped);
    free(stopped->slots);
    free(stopped->moves);
    pthread_mutex_destroy(&stopped->lock);
    memset(stopped, 0, sizeof(*stopped));
}

/* The slot of key, or the empty one where it would go. Keys are hashes already. */
static struct stopped_key *find(const struct stopped *stopped, uint64_t key)
{
    size_t at = (size_t)key & stopped->mask;

    assert(key != 0);
    while (stopped->slots[at].key != 0 && stopped->slots[at].key != key)
        at = (at + 1) & stopped->mask;
    return &stopped->slots[at];
}

/* As window_remove(): closes the hole. */
static void take_out(struct stopped *stopped, struct stopped_key *slot)
{
    size_t hole = (size_t)(slot - stopped->slots);
    size_t at = hole;

    free(slot->ordering_key);
    for (;;) {
        size_t home;

        at = (at + 1) & stopped->mask;
        if (stopped->slots[at].key == 0)
            break;
        home = (size_t)stopped->slots[at].key & stopped->mask;
        if (((at - home) & stopped->mask) >= ((at - hole) & stopped->mask)) {
            stopped->slots[hole] = stopped->slots[at];
            hole = at;
        }
    }
    stopped->slots[hole] = (struct stopped_key){0};
    atomic_fetch_sub(&stopped->count, 1);
}

/* NULL: there is no room. */
static struct stopped_key *add(struct stopped *stopped, uint64_t key, const char *ordering_key)
{
    struct stopped_key *slot = find(stopped, key);
    char *text;

    if (slot->key != 0)
        return slot;
    if (atomic_load(&stopped->count) == stopped->count_max)
        return NULL;
    text = strdup(ordering_key);
    if (!text)
        return NULL;
    *slot = (struct stopped_key){.key = key, .ordering_key = text};
    atomic_fetch_add(&stopped->count, 1);
    return slot;
}

uint64_t stopped_adopt(const struct stopped *stopped, int64_t epoch)
{
    uint64_t generation = atomic_load(&stopped->generation);

    return atomic_load(&stopped->epoch) == epoch ? generation : 0;
}

enum stopped_say stopped_ask(struct stopped *stopped, uint64_t generation, uint64_t key)
{
    enum stopped_say say = STOPPED_NOT;

    /* The count before the generation: what made it smaller made the other grow first. */
    if (atomic_load(&stopped->count) == 0)
        return atomic_load(&stopped->generation) == generation ? STOPPED_NOT : STOPPED_STALE;
    pthread_mutex_lock(&stopped->lock);
    if (atomic_load(&stopped->generation) != generation)
        say = STOPPED_STALE;
    else if (find(stopped, key)->key != 0)
        say = STOPPED_IS;
    pthread_mutex_unlock(&stopped->lock);
    return say;
}

static enum stopped_given give(struct stopped *stopped, struct stopped_key *slot,
                               const struct relay_move *move)
{
    if (slot->ended || (slot->left_pass != 0 && slot->left_pass == stopped->pass) ||
        slot->rows >= stopped->key_rows_max ||
        stopped->next - stopped->home >= stopped->moves_max) {
        slot->left_pass = stopped->pass;
        return STOPPED_LEFT;
    }
    stopped->moves[stopped->next % STOPPED_MOVES_MAX] = *move;
    slot->ticket = ++stopped->next;
    slot->rows++;
    return STOPPED_MOVES;
}

enum stopped_given stopped_give(struct stopped *stopped, uint64_t generation,
                                const struct relay_move *move, bool *news)
{
    enum stopped_given given = STOPPED_VOID;

    pthread_mutex_lock(&stopped->lock);
    *news = false;
    if (atomic_load(&stopped->generation) == generation) {
        struct stopped_key *slot;

        *news = find(stopped, move->key)->key == 0;
        slot = add(stopped, move->key, move->ordering_key);
        given = slot ? give(stopped, slot, move) : STOPPED_FULL;
    }
    pthread_mutex_unlock(&stopped->lock);
    return given;
}

void stopped_leave(struct stopped *stopped, uint64_t key)
{
    struct stopped_key *slot;

    pthread_mutex_lock(&stopped->lock);
    slot = find(stopped, key);
    if (slot->key != 0)
        slot->left_pass = stopped->pass;
    pthread_mutex_unlock(&stopped->lock);
}

void stopped_begin_pass(struct stopped *stopped, uint64_t pass)
{
    size_t at = 0;

    pthread_mutex_lock(&stopped->lock);
    stopped->pass = pass;
    while (atomic_load(&stopped->count) > 0 && at <= stopped->mask) {
        struct stopped_key *slot = &stopped->slots[at];

        /* What moves into the hole is looked at next. What wraps around was looked at before. */
        if (slot->key != 0 && slot->ended)
            take_out(stopped, slot);
        else
            at++;
    }
    pthread_mutex_unlock(&stopped->lock);
}

bool stopped_home(struct stopped *stopped, int64_t *seq)
{
    bool any;

    pthread_mutex_lock(&stopped->lock);
    any = stopped->home < stopped->done ||
          (stopped->home < stopped->next && atomic_load(&stopped->epoch) == 0);
    if (any)
        *seq = stopped->moves[stopped->home++ % STOPPED_MOVES_MAX].seq;
    if (stopped->done < stopped->home)
        stopped->done = stopped->home;
    pthread_mutex_unlock(&stopped->lock);
    return any;
}

void stopped_void(struct stopped *stopped)
{
    pthread_mutex_lock(&stopped->lock);
    if (atomic_load(&stopped->epoch) != 0)
        atomic_fetch_add(&stopped->generation, 1);
    atomic_store(&stopped->epoch, 0);
    pthread_mutex_unlock(&stopped->lock);
}

bool stopped_load_begin(struct stopped *stopped)
{
    bool empty;

    pthread_mutex_lock(&stopped->lock);
    empty = stopped->home == stopped->next;
    if (empty) {
        atomic_fetch_add(&stopped->generation, 1);
        clear(stopped);
    }
    pthread_mutex_unlock(&stopped->lock);
    return empty;
}

bool stopped_put(struct stopped *stopped, const char *ordering_key)
{
    bool put;

    pthread_mutex_lock(&stopped->lock);
    put = add(stopped, ordering_key_hash(ordering_key), ordering_key) != NULL;
    pthread_mutex_unlock(&stopped->lock);
    return put;
}

void stopped_load_end(struct stopped *stopped, int64_t epoch)
{
    atomic_store(&stopped->epoch, epoch);
}

const struct relay_move *stopped_moves(struct stopped *stopped, size_t rows_max, size_t *count)
{
    size_t at;
    size_t rows;

    pthread_mutex_lock(&stopped->lock);
    at = (size_t)(stopped->done % STOPPED_MOVES_MAX);
    rows = (size_t)(stopped->next - stopped->done);
    pthread_mutex_unlock(&stopped->lock);
    if (rows > STOPPED_MOVES_MAX - at)
        rows = STOPPED_MOVES_MAX - at;
    *count = rows < rows_max ? rows : rows_max;
    return &stopped->moves[at];
}

void stopped_moved(struct stopped *stopped, size_t count)
{
    pthread_mutex_lock(&stopped->lock);
    stopped->done += count;
    pthread_mutex_unlock(&stopped->lock);
}

size_t stopped_question(struct stopped *stopped, size_t *cursor, struct lane_key *keys,
                        size_t keys_max, uint64_t *asked)
{
    size_t count = 0;

    pthread_mutex_lock(&stopped->lock);
    *asked = stopped->done;
    for (size_t i = 0; i <= stopped->mask && count < keys_max; i++) {
        const struct stopped_key *slot = &stopped->slots[(*cursor)++ & stopped->mask];

        if (slot->key == 0 || slot->ended || slot->ticket > stopped->done)
            continue;
        keys[count].key = slot->key;
        keys[count].left = true;
        snprintf(keys[count++].ordering_key, ORDERING_KEY_SIZE, "%s", slot->ordering_key);
    }
    pthread_mutex_unlock(&stopped->lock);
    return count;
}

bool stopped_answer(struct stopped *stopped, uint64_t key, uint64_t asked)
{
    struct stopped_key *slot;
    bool waits = false;

    pthread_mutex_lock(&stopped->lock);
    slot = find(stopped, key);
    if (slot->key != 0 && slot->ticket <= asked) {
        waits = slot->left_pass != 0;
        slot->ended = waits && slot->left_pass == stopped->pass;
        if (!slot->ended)
            take_out(stopped, slot);
    }
    pthread_mutex_unlock(&stopped->lock);
    return waits;
}
