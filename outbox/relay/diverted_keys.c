/* SPDX-License-Identifier: MIT */
#include "outbox/relay/diverted_keys.h"

#include "outbox/relay/relay_row.h"

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
    diverted->row_bytes_max = DIVERTED_ROW_BYTES_MAX;
    return RC_OK;
}

static void clear_slots(struct diverted_keys *diverted)
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
    clear_slots(diverted);
    while (diverted->returned < diverted->next)
        free(diverted->moves[diverted->returned++ % DIVERTED_MOVES_MAX].row);
    free(diverted->slots);
    free(diverted->moves);
    pthread_mutex_destroy(&diverted->lock);
    memset(diverted, 0, sizeof(*diverted));
}

/* Returns the slot of key, or the empty slot in which it would be stored. Keys are hashes, so the
 * slot needs no further hashing. */
static struct diverted_key *find_slot(const struct diverted_keys *diverted, uint64_t key)
{
    size_t at = (size_t)key & diverted->mask;

    assert(key != 0);
    while (diverted->slots[at].key != 0 && diverted->slots[at].key != key)
        at = (at + 1) & diverted->mask;
    return &diverted->slots[at];
}

/* Empties the slot and fills it with a later entry of its cluster, as window_remove() does. */
static void remove_slot(struct diverted_keys *diverted, struct diverted_key *slot)
{
    size_t empty = (size_t)(slot - diverted->slots);
    size_t at = empty;

    free(slot->ordering_key);
    for (;;) {
        size_t preferred;

        at = (at + 1) & diverted->mask;
        if (diverted->slots[at].key == 0)
            break;
        preferred = (size_t)diverted->slots[at].key & diverted->mask;
        if (((at - preferred) & diverted->mask) >= ((at - empty) & diverted->mask)) {
            diverted->slots[empty] = diverted->slots[at];
            empty = at;
        }
    }
    diverted->slots[empty] = (struct diverted_key){0};
    atomic_fetch_sub(&diverted->count, 1);
}

/* Returns the slot of key, added if it was missing, or NULL when there is no room or no memory. */
static struct diverted_key *add_key(struct diverted_keys *diverted, uint64_t key,
                                    const char *ordering_key)
{
    struct diverted_key *slot = find_slot(diverted, key);
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

enum diverted_key_state diverted_keys_check(struct diverted_keys *diverted, uint64_t generation,
                                            uint64_t key)
{
    enum diverted_key_state state = KEY_NOT_DIVERTED;

    /* The count is read before the generation: loading increases the generation before it empties
     * the slots. */
    if (atomic_load(&diverted->count) == 0)
        return atomic_load(&diverted->generation) == generation ? KEY_NOT_DIVERTED : KEY_STALE;
    pthread_mutex_lock(&diverted->lock);
    if (atomic_load(&diverted->generation) != generation)
        state = KEY_STALE;
    else if (find_slot(diverted, key)->key != 0)
        state = KEY_DIVERTED;
    pthread_mutex_unlock(&diverted->lock);
    return state;
}

/* Returns the bytes of the move's copy of its row, which count until the row is returned. */
static size_t count_row_bytes(const struct relay_move *move)
{
    return move->row ? sizeof(*move->row) + relay_row_bytes(move->row) : 0;
}

static bool has_room(const struct diverted_keys *diverted, size_t row_bytes)
{
    if (diverted->next - diverted->returned >= diverted->moves_max)
        return false;
    return diverted->row_bytes == 0 || diverted->row_bytes + row_bytes <= diverted->row_bytes_max;
}

static enum divert_result queue_move(struct diverted_keys *diverted, struct diverted_key *slot,
                                     const struct relay_move *move)
{
    size_t row_bytes = count_row_bytes(move);

    if (slot->tasks_ended || (slot->left_scan != 0 && slot->left_scan == diverted->scan) ||
        slot->rows >= diverted->key_rows_max || !has_room(diverted, row_bytes)) {
        slot->left_scan = diverted->scan;
        return DIVERT_LEFT;
    }
    diverted->row_bytes += row_bytes;
    diverted->moves[diverted->next % DIVERTED_MOVES_MAX] = *move;
    slot->ticket = ++diverted->next;
    slot->rows++;
    return DIVERT_QUEUED;
}

enum divert_result diverted_keys_divert_row(struct diverted_keys *diverted, uint64_t generation,
                                            const struct relay_move *move, bool *newly_diverted)
{
    enum divert_result result = DIVERT_STALE;

    pthread_mutex_lock(&diverted->lock);
    *newly_diverted = false;
    if (atomic_load(&diverted->generation) == generation) {
        struct diverted_key *slot;

        *newly_diverted = find_slot(diverted, move->key)->key == 0;
        slot = add_key(diverted, move->key, move->ordering_key);
        result = slot ? queue_move(diverted, slot, move) : DIVERT_FULL;
    }
    pthread_mutex_unlock(&diverted->lock);
    return result;
}

bool diverted_keys_has_room(struct diverted_keys *diverted, size_t row_bytes)
{
    bool any;

    pthread_mutex_lock(&diverted->lock);
    any = has_room(diverted, sizeof(struct relay_row) + row_bytes);
    pthread_mutex_unlock(&diverted->lock);
    return any;
}

bool diverted_keys_has_moves(struct diverted_keys *diverted)
{
    bool any;

    pthread_mutex_lock(&diverted->lock);
    any = diverted->returned < diverted->next;
    pthread_mutex_unlock(&diverted->lock);
    return any;
}

void diverted_keys_leave_row(struct diverted_keys *diverted, uint64_t key)
{
    struct diverted_key *slot;

    pthread_mutex_lock(&diverted->lock);
    slot = find_slot(diverted, key);
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

        /* An entry that moves into the emptied slot is examined next. An entry that wraps around
         * the end was examined before. */
        if (slot->key != 0 && slot->tasks_ended)
            remove_slot(diverted, slot);
        else
            at++;
    }
    pthread_mutex_unlock(&diverted->lock);
}

/* The queue begins with the rows that were moved. While the epoch is 0, the move of each row after
 * them is abandoned. Returning an abandoned row increases `moved` to `returned`, never above it, so
 * no abandoned row counts as moved. Called with the lock. */
static bool has_returnable_row(const struct diverted_keys *diverted, bool *moved)
{
    *moved = diverted->returned < diverted->moved;
    return *moved || (diverted->returned < diverted->next && atomic_load(&diverted->epoch) == 0);
}

bool diverted_keys_can_return(struct diverted_keys *diverted, bool *moved)
{
    bool any;

    pthread_mutex_lock(&diverted->lock);
    any = has_returnable_row(diverted, moved);
    pthread_mutex_unlock(&diverted->lock);
    return any;
}

/* Invariant: the diverter does not use the row that is freed here. It uses the rows from `moved`
 * on, between diverted_keys_moves() and the end of its op. A row that was moved is below `moved`.
 * The move of a row from `moved` on is abandoned only while the epoch is 0, and the epoch becomes 0
 * in diverted_keys_invalidate() only, which the diverter itself calls when no op of it runs. It
 * reads the queue again after it has loaded the keys, which requires that all rows were returned.
 */
int64_t diverted_keys_return_row(struct diverted_keys *diverted)
{
    struct relay_move *move;
    struct relay_row *row;
    bool moved;
    int64_t seq;

    pthread_mutex_lock(&diverted->lock);
    assert(has_returnable_row(diverted, &moved));
    move = &diverted->moves[diverted->returned++ % DIVERTED_MOVES_MAX];
    if (diverted->moved < diverted->returned)
        diverted->moved = diverted->returned;
    diverted->row_bytes -= count_row_bytes(move);
    seq = move->seq;
    row = move->row;
    move->row = NULL;
    pthread_mutex_unlock(&diverted->lock);
    free(row);
    return seq;
}

/* The keys are removed when they are loaded again, before the epoch is there again. */
bool diverted_keys_are_none(const struct diverted_keys *diverted, int64_t epoch)
{
    unsigned long long generation = atomic_load(&diverted->generation);

    return atomic_load(&diverted->epoch) == epoch && atomic_load(&diverted->count) == 0 &&
           atomic_load(&diverted->generation) == generation;
}

void diverted_keys_invalidate(struct diverted_keys *diverted)
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
    empty = diverted->returned == diverted->next;
    if (empty) {
        atomic_fetch_add(&diverted->generation, 1);
        clear_slots(diverted);
    }
    pthread_mutex_unlock(&diverted->lock);
    return empty;
}

bool diverted_keys_load_key(struct diverted_keys *diverted, const char *ordering_key)
{
    bool put;

    pthread_mutex_lock(&diverted->lock);
    put = add_key(diverted, ordering_key_hash_of_text(ordering_key), ordering_key) != NULL;
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
    at = (size_t)(diverted->moved % DIVERTED_MOVES_MAX);
    rows = (size_t)(diverted->next - diverted->moved);
    pthread_mutex_unlock(&diverted->lock);
    if (rows > DIVERTED_MOVES_MAX - at)
        rows = DIVERTED_MOVES_MAX - at;
    *count = rows < rows_max ? rows : rows_max;
    return &diverted->moves[at];
}

void diverted_keys_moved(struct diverted_keys *diverted, size_t count)
{
    pthread_mutex_lock(&diverted->lock);
    diverted->moved += count;
    pthread_mutex_unlock(&diverted->lock);
}

size_t diverted_keys_list_moved(struct diverted_keys *diverted, size_t *cursor,
                                struct lane_key *keys, size_t keys_max, uint64_t *moved_at_query)
{
    size_t count = 0;

    pthread_mutex_lock(&diverted->lock);
    *moved_at_query = diverted->moved;
    for (size_t i = 0; i <= diverted->mask && count < keys_max; i++) {
        const struct diverted_key *slot = &diverted->slots[(*cursor)++ & diverted->mask];

        if (slot->key == 0 || slot->tasks_ended || slot->ticket > diverted->moved)
            continue;
        keys[count].key = slot->key;
        keys[count].left = true;
        snprintf(keys[count++].ordering_key, ORDERING_KEY_SIZE, "%s", slot->ordering_key);
    }
    pthread_mutex_unlock(&diverted->lock);
    return count;
}

bool diverted_keys_release_key(struct diverted_keys *diverted, uint64_t key,
                               uint64_t moved_at_query)
{
    struct diverted_key *slot;
    bool waits = false;

    pthread_mutex_lock(&diverted->lock);
    slot = find_slot(diverted, key);
    if (slot->key != 0 && slot->ticket <= moved_at_query) {
        waits = slot->left_scan != 0;
        slot->tasks_ended = waits && slot->left_scan == diverted->scan;
        if (!slot->tasks_ended)
            remove_slot(diverted, slot);
    }
    pthread_mutex_unlock(&diverted->lock);
    return waits;
}
