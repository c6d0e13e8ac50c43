/* SPDX-License-Identifier: MIT */
#include "outbox/relay/diverted_keys.h"

#include "outbox/relay/ordering_key.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum rc diverted_keys_init(struct diverted_keys *diverted, size_t count_max, struct err *err)
{
    size_t slots = 16;

    memset(diverted, 0, sizeof(*diverted));
    while (slots < 2 * count_max)
        slots *= 2;
    diverted->slots = calloc(slots, sizeof(*diverted->slots));
    diverted->moves = calloc(DIVERTED_MOVES_MAX, sizeof(*diverted->moves));
    if (!diverted->slots || !diverted->moves) {
        free(diverted->slots);
        free(diverted->moves);
        diverted->slots = NULL;
        return err_fail(err, RC_FATAL, 0, "out of memory for %zu diverted keys", count_max);
    }
    pthread_mutex_init(&diverted->lock, NULL);
    diverted->mask = slots - 1;
    diverted->count_max = count_max;
    diverted->key_rows_max = DIVERTED_KEY_ROWS_MAX;
    diverted->moves_max = DIVERTED_MOVES_MAX;
    return RC_OK;
}

static void clear(struct diverted_keys *diverted)
{
    for (size_t i = 0; i <= diverted->mask; i++) {
        if (diverted->slots[i].key == 0)
            continue;
        free(diverted->slots[i].ordering_key);
        diverted->slots[i] = (struct diverted_key){0};
    }
    atomic_store(&diverted->count, 0);
}

void diverted_keys_done(struct diverted_keys *diverted)
{
    if (!diverted->slots)
        return;
    clear(diverted);
    free(diverted->slots);
    free(diverted->moves);
    pthread_mutex_destroy(&diverted->lock);
    memset(diverted, 0, sizeof(*diverted));
}

/* The slot of key, or the empty one where it would go. Keys are hashes already. */
static struct diverted_key *find(const struct diverted_keys *diverted, uint64_t key)
{
    size_t at = (size_t)key & diverted->mask;

    assert(key != 0);
    while (diverted->slots[at].key != 0 && diverted->slots[at].key != key)
        at = (at + 1) & diverted->mask;
    return &diverted->slots[at];
}

/* As window_remove(): closes the hole. */
static void take_out(struct diverted_keys *diverted, struct diverted_key *slot)
{
    size_t hole = (size_t)(slot - diverted->slots);
    size_t at = hole;

    free(slot->ordering_key);
    for (;;) {
        size_t home;

        at = (at + 1) & diverted->mask;
        if (diverted->slots[at].key == 0)
            break;
        home = (size_t)diverted->slots[at].key & diverted->mask;
        if (((at - home) & diverted->mask) >= ((at - hole) & diverted->mask)) {
            diverted->slots[hole] = diverted->slots[at];
            hole = at;
        }
    }
    diverted->slots[hole] = (struct diverted_key){0};
    atomic_fetch_sub(&diverted->count, 1);
}

/* NULL: there is no room. */
static struct diverted_key *add(struct diverted_keys *diverted, uint64_t key,
                                const char *ordering_key)
{
    struct diverted_key *slot = find(diverted, key);
    char *text;

    if (slot->key != 0)
        return slot;
    if (atomic_load(&diverted->count) == diverted->count_max)
        return NULL;
    text = strdup(ordering_key);
    if (!text)
        return NULL;
    *slot = (struct diverted_key){.key = key, .ordering_key = text};
    atomic_fetch_add(&diverted->count, 1);
    return slot;
}

uint64_t diverted_keys_adopt(const struct diverted_keys *diverted, int64_t epoch)
{
    uint64_t generation = atomic_load(&diverted->generation);

    return atomic_load(&diverted->epoch) == epoch ? generation : 0;
}

enum diverted_keys_say diverted_keys_ask(struct diverted_keys *diverted, uint64_t generation,
                                         uint64_t key)
{
    enum diverted_keys_say say = DIVERTED_NOT;

    /* The count before the generation: what made it smaller made the other grow first. */
    if (atomic_load(&diverted->count) == 0)
        return atomic_load(&diverted->generation) == generation ? DIVERTED_NOT : DIVERTED_STALE;
    pthread_mutex_lock(&diverted->lock);
    if (atomic_load(&diverted->generation) != generation)
        say = DIVERTED_STALE;
    else if (find(diverted, key)->key != 0)
        say = DIVERTED_IS;
    pthread_mutex_unlock(&diverted->lock);
    return say;
}

static enum diverted_given give(struct diverted_keys *diverted, struct diverted_key *slot,
                                const struct relay_move *move)
{
    if (slot->ended || (slot->left_scan != 0 && slot->left_scan == diverted->scan) ||
        slot->rows >= diverted->key_rows_max ||
        diverted->next - diverted->home >= diverted->moves_max) {
        slot->left_scan = diverted->scan;
        return DIVERTED_LEFT;
    }
    diverted->moves[diverted->next % DIVERTED_MOVES_MAX] = *move;
    slot->ticket = ++diverted->next;
    slot->rows++;
    return DIVERTED_MOVES;
}

enum diverted_given diverted_keys_give(struct diverted_keys *diverted, uint64_t generation,
                                       const struct relay_move *move, bool *news)
{
    enum diverted_given given = DIVERTED_VOID;

    pthread_mutex_lock(&diverted->lock);
    *news = false;
    if (atomic_load(&diverted->generation) == generation) {
        struct diverted_key *slot;

        *news = find(diverted, move->key)->key == 0;
        slot = add(diverted, move->key, move->ordering_key);
        given = slot ? give(diverted, slot, move) : DIVERTED_FULL;
    }
    pthread_mutex_unlock(&diverted->lock);
    return given;
}

void diverted_keys_leave(struct diverted_keys *diverted, uint64_t key)
{
    struct diverted_key *slot;

    pthread_mutex_lock(&diverted->lock);
    slot = find(diverted, key);
    if (slot->key != 0)
        slot->left_scan = diverted->scan;
    pthread_mutex_unlock(&diverted->lock);
}

void diverted_keys_begin_full_scan(struct diverted_keys *diverted, uint64_t scan)
{
    size_t at = 0;

    pthread_mutex_lock(&diverted->lock);
    diverted->scan = scan;
    while (atomic_load(&diverted->count) > 0 && at <= diverted->mask) {
        struct diverted_key *slot = &diverted->slots[at];

        /* What moves into the hole is looked at next. What wraps around was looked at before. */
        if (slot->key != 0 && slot->ended)
            take_out(diverted, slot);
        else
            at++;
    }
    pthread_mutex_unlock(&diverted->lock);
}

bool diverted_keys_home(struct diverted_keys *diverted, int64_t *seq)
{
    bool any;

    pthread_mutex_lock(&diverted->lock);
    any = diverted->home < diverted->done ||
          (diverted->home < diverted->next && atomic_load(&diverted->epoch) == 0);
    if (any)
        *seq = diverted->moves[diverted->home++ % DIVERTED_MOVES_MAX].seq;
    if (diverted->done < diverted->home)
        diverted->done = diverted->home;
    pthread_mutex_unlock(&diverted->lock);
    return any;
}

void diverted_keys_void(struct diverted_keys *diverted)
{
    pthread_mutex_lock(&diverted->lock);
    if (atomic_load(&diverted->epoch) != 0)
        atomic_fetch_add(&diverted->generation, 1);
    atomic_store(&diverted->epoch, 0);
    pthread_mutex_unlock(&diverted->lock);
}

bool diverted_keys_load_begin(struct diverted_keys *diverted)
{
    bool empty;

    pthread_mutex_lock(&diverted->lock);
    empty = diverted->home == diverted->next;
    if (empty) {
        atomic_fetch_add(&diverted->generation, 1);
        clear(diverted);
    }
    pthread_mutex_unlock(&diverted->lock);
    return empty;
}

bool diverted_keys_put(struct diverted_keys *diverted, const char *ordering_key)
{
    bool put;

    pthread_mutex_lock(&diverted->lock);
    put = add(diverted, ordering_key_hash(ordering_key), ordering_key) != NULL;
    pthread_mutex_unlock(&diverted->lock);
    return put;
}

void diverted_keys_load_end(struct diverted_keys *diverted, int64_t epoch)
{
    atomic_store(&diverted->epoch, epoch);
}

const struct relay_move *diverted_keys_moves(struct diverted_keys *diverted, size_t rows_max,
                                             size_t *count)
{
    size_t at;
    size_t rows;

    pthread_mutex_lock(&diverted->lock);
    at = (size_t)(diverted->done % DIVERTED_MOVES_MAX);
    rows = (size_t)(diverted->next - diverted->done);
    pthread_mutex_unlock(&diverted->lock);
    if (rows > DIVERTED_MOVES_MAX - at)
        rows = DIVERTED_MOVES_MAX - at;
    *count = rows < rows_max ? rows : rows_max;
    return &diverted->moves[at];
}

void diverted_keys_moved(struct diverted_keys *diverted, size_t count)
{
    pthread_mutex_lock(&diverted->lock);
    diverted->done += count;
    pthread_mutex_unlock(&diverted->lock);
}

size_t diverted_keys_question(struct diverted_keys *diverted, size_t *cursor, struct lane_key *keys,
                              size_t keys_max, uint64_t *asked)
{
    size_t count = 0;

    pthread_mutex_lock(&diverted->lock);
    *asked = diverted->done;
    for (size_t i = 0; i <= diverted->mask && count < keys_max; i++) {
        const struct diverted_key *slot = &diverted->slots[(*cursor)++ & diverted->mask];

        if (slot->key == 0 || slot->ended || slot->ticket > diverted->done)
            continue;
        keys[count].key = slot->key;
        keys[count].left = true;
        snprintf(keys[count++].ordering_key, ORDERING_KEY_SIZE, "%s", slot->ordering_key);
    }
    pthread_mutex_unlock(&diverted->lock);
    return count;
}

bool diverted_keys_answer(struct diverted_keys *diverted, uint64_t key, uint64_t asked)
{
    struct diverted_key *slot;
    bool waits = false;

    pthread_mutex_lock(&diverted->lock);
    slot = find(diverted, key);
    if (slot->key != 0 && slot->ticket <= asked) {
        waits = slot->left_scan != 0;
        slot->ended = waits && slot->left_scan == diverted->scan;
        if (!slot->ended)
            take_out(diverted, slot);
    }
    pthread_mutex_unlock(&diverted->lock);
    return waits;
}
