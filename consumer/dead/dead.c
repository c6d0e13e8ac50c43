/* SPDX-License-Identifier: MIT */
#include "consumer/dead/dead.h"

#include "common/hash.h"
#include "consumer/apply/apply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_FIRST 64 /* of dead_keys */

static struct dead_wait *find_slot(const struct dead_keys *keys, uint64_t key)
{
    size_t at = (size_t)(key ^ key >> 32) & (keys->size - 1);

    while (keys->slots[at].key != 0 && keys->slots[at].key != key)
        at = (at + 1) & (keys->size - 1);
    return &keys->slots[at];
}

static enum rc grow_keys(struct dead_keys *keys, struct err *err)
{
    struct dead_keys grown = {.size = keys->size > 0 ? keys->size * 2 : SLOTS_FIRST,
                              .count = keys->count};

    grown.slots = calloc(grown.size, sizeof(*grown.slots));
    if (!grown.slots)
        return err_fail(err, RC_FATAL, 0, "no memory for the keys of %zu dead records",
                        keys->count);
    for (size_t i = 0; i < keys->size; i++)
        if (keys->slots[i].key != 0)
            *find_slot(&grown, keys->slots[i].key) = keys->slots[i];
    free(keys->slots);
    *keys = grown;
    return RC_OK;
}

/* Whether the record blocks the later records of its key. A replay of held votes skips a record
 * that can never be applied, as the consumer does. */
static bool entry_blocks_key(const struct dead *dead, const struct dead_entry *entry)
{
    if (!entry->selected)
        return true;
    if (entry->result.outcome != DEAD_OUTCOME_STAYS)
        return false;
    return !dead->config.filter->held || dead->bytes.failed ||
           strcmp(dead->bytes.data + entry->class_at, REASON_REFUSED) == 0;
}

/* Returns the id of the record that the key waits for, including records of this page, or 0. */
static int64_t find_blocker(const struct dead *dead, uint64_t key)
{
    int64_t behind = dead_keys_find(&dead->keys, key);

    if (key == 0 || behind != 0)
        return behind;
    for (size_t i = 0; i < dead->entry_count; i++) {
        const struct dead_entry *entry = &dead->entries[i];

        if (entry->key == key && entry_blocks_key(dead, entry))
            return entry->result.id;
    }
    return 0;
}

static size_t keep_text(struct buf *bytes, const char *text)
{
    size_t at = bytes->len;

    record_put_reason(bytes, text);
    buf_char(bytes, '\0');
    return at;
}

static void keep_entry_dead(struct dead *dead, struct dead_entry *entry,
                            const struct dead_item *item, const char *reason_class,
                            const char *reason)
{
    const char *text;

    entry->result.outcome = DEAD_OUTCOME_STAYS;
    entry->class_at = keep_text(&dead->bytes, reason_class);
    entry->reason_at = keep_text(&dead->bytes, reason);
    text = dead->bytes.failed ? "" : dead->bytes.data + entry->reason_at;
    entry->reason_is_new =
        strcmp(reason_class, item->reason_class) != 0 || strcmp(text, item->reason) != 0;
}

/* Invariant C10: the consumer's own rules decide about a replayed record. */
static enum rc decide_entry_record(struct dead *dead, struct dead_entry *entry,
                                   const struct dead_item *item, struct err *err)
{
    const struct dead_config *config = &dead->config;
    struct record record = {
        .offset = item->offset,
        .key = item->key,
        .key_len = item->key_len,
        .value = config->value ? config->value : item->value,
        .value_len = config->value ? config->value_len : item->value_len,
    };
    struct vote_row *vote = &dead->votes[dead->vote_count];
    const char *reason_class = NULL;
    struct err reason = {0};
    enum rc rc;

    *vote = (struct vote_row){.offset = item->offset};
    rc =
        record_decide(&record, config->rule, dead->begin_day, &vote->event, &reason_class, &reason);
    if (rc == RC_OK) {
        entry->result.outcome = DEAD_OUTCOME_APPLIED;
        entry->vote = dead->vote_count++;
    } else if (rc == RC_REJECT) {
        keep_entry_dead(dead, entry, item, reason_class, reason.text);
        rc = RC_OK;
    } else if (err) {
        *err = reason;
    }
    return rc;
}

static enum rc decide_entry(struct dead *dead, struct dead_entry *entry,
                            const struct dead_item *item, struct err *err)
{
    if (dead->config.drop) {
        entry->result.outcome = DEAD_OUTCOME_DROPPED;
        return RC_OK;
    }
    entry->result.behind = find_blocker(dead, entry->key);
    if (entry->result.behind != 0) {
        entry->result.outcome = DEAD_OUTCOME_WAITS;
        return RC_OK;
    }
    if (item->id == dead->refused_id) {
        keep_entry_dead(dead, entry, item, REASON_REFUSED, dead->refused.text);
        return RC_OK;
    }
    return decide_entry_record(dead, entry, item, err);
}

static int compare_places(const struct dead_cursor *a, const struct dead_cursor *b)
{
    int order = strcmp(a->topic, b->topic);

    if (order == 0)
        order = (a->partition > b->partition) - (a->partition < b->partition);
    return order != 0 ? order : (a->offset > b->offset) - (a->offset < b->offset);
}

/* The record was read before the replay began again. */
static bool was_reported(const struct dead *dead, const struct dead_entry *entry)
{
    return compare_places(&entry->result.place, &dead->reported) <= 0;
}

/* Whether the page has room for one more record. The first record always fits. */
static bool page_has_room(struct dead *dead, const struct dead_item *item)
{
    const struct dead_config *config = &dead->config;

    if (dead->full || dead->entry_count == DEAD_PAGE_ROWS)
        return false;
    if (config->records_max > 0 && dead->handled == config->records_max)
        return false;
    return dead->entry_count == 0 || !config->drop ||
           dead->value_bytes + item->value_len <= DEAD_PAGE_BYTES;
}

static enum rc take_item(void *ctx, const struct dead_item *item, struct err *err)
{
    struct dead *dead = ctx;
    struct dead_entry *entry = &dead->entries[dead->entry_count];
    enum rc rc = RC_OK;

    if (!page_has_room(dead, item)) {
        dead->full = true;
        return RC_OK;
    }
    *entry = (struct dead_entry){.selected = item->selected, .key = dead_key_of(item)};
    entry->result.id = item->id;
    snprintf(entry->result.place.topic, sizeof(entry->result.place.topic), "%s", item->topic);
    entry->result.place.partition = item->partition;
    entry->result.place.offset = item->offset;
    if (item->selected) {
        rc = decide_entry(dead, entry, item, err);
        /* Only for page_has_room(): load_page() takes it back, end_page() counts the record. */
        dead->handled += !was_reported(dead, entry);
    }
    dead->value_bytes += item->value_len;
    dead->entry_count++;
    return rc;
}

/* Locks the partition's progress. A consumer of the partition either committed before this page,
 * with the later votes of the key behind it, or reads after it which contents are still held. */
static enum rc lock_place(struct dead *dead, struct err *err)
{
    const struct dead_config *config = &dead->config;
    const struct place place = {config->filter->topic, (int32_t)config->filter->partition};
    struct progress_row progress;

    return config->sink->lock_progress(config->sink->ctx, &place, &progress, 1, err);
}

static enum rc load_page(struct dead *dead, struct err *err)
{
    const struct dead_config *config = &dead->config;
    uint64_t handled = dead->handled;
    enum rc rc = config->filter->held ? lock_place(dead, err) : RC_OK;

    if (rc == RC_OK)
        rc = config->sink->lock_log_begin(config->sink->ctx, &dead->begin_day, err);
    dead->entry_count = 0;
    dead->vote_count = 0;
    dead->value_bytes = 0;
    dead->full = false;
    buf_reset(&dead->bytes);
    if (rc == RC_OK)
        rc = config->store->lock_page(config->store->ctx, config->filter, &dead->cursor,
                                      dead->singly > 0 ? 1 : DEAD_PAGE_ROWS, !config->drop,
                                      take_item, dead, err);
    dead->handled = handled;
    if (rc == RC_OK && dead->bytes.failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the reasons of dead records");
    return rc;
}

/* Collects the ids of the records with this outcome. */
static size_t collect_ids(struct dead *dead, enum dead_outcome outcome)
{
    size_t count = 0;

    for (size_t i = 0; i < dead->entry_count; i++)
        if (dead->entries[i].selected && dead->entries[i].result.outcome == outcome)
            dead->ids[count++] = dead->entries[i].result.id;
    return count;
}

static enum rc move_to_history(struct dead *dead, enum dead_outcome outcome,
                               enum dead_decision decision, struct err *err)
{
    const struct dead_config *config = &dead->config;
    size_t count = collect_ids(dead, outcome);

    if (count == 0)
        return RC_OK;
    return config->store->decide(config->store->ctx, dead->ids, count, decision,
                                 decision == DEAD_DECISION_APPLIED ? config->value : NULL,
                                 config->value_len, err);
}

static enum rc write_reasons(struct dead *dead, struct err *err)
{
    const struct dead_store *store = dead->config.store;
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < dead->entry_count; i++) {
        const struct dead_entry *entry = &dead->entries[i];
        const char *reason = dead->bytes.data + entry->reason_at;

        if (entry->selected && entry->result.outcome == DEAD_OUTCOME_STAYS && entry->reason_is_new)
            rc = store->write_reason(store->ctx, entry->result.id,
                                     dead->bytes.data + entry->class_at, reason, strlen(reason),
                                     err);
    }
    return rc;
}

static enum rc apply_page_votes(struct dead *dead, struct err *err)
{
    struct apply_result result;
    enum rc rc;

    if (dead->vote_count == 0)
        return RC_OK;
    rc = apply_votes(dead->apply, dead->votes, dead->vote_count, &result, err);
    for (size_t i = 0; rc == RC_OK && i < dead->entry_count; i++) {
        struct dead_entry *entry = &dead->entries[i];
        const struct vote_row *vote = &dead->votes[entry->vote];

        if (entry->selected && entry->result.outcome == DEAD_OUTCOME_APPLIED && vote->skip)
            entry->result.outcome = vote->stale ? DEAD_OUTCOME_STALE : DEAD_OUTCOME_DUPLICATE;
    }
    return rc;
}

/* The body of the transaction, including its COMMIT. */
static enum rc write_page(struct dead *dead, struct err *err)
{
    const struct sink *sink = dead->config.sink;
    enum rc rc = load_page(dead, err);

    if (rc == RC_OK)
        rc = apply_page_votes(dead, err);
    if (rc == RC_OK)
        rc = move_to_history(dead, DEAD_OUTCOME_APPLIED, DEAD_DECISION_APPLIED, err);
    if (rc == RC_OK)
        rc = move_to_history(dead, DEAD_OUTCOME_DUPLICATE, DEAD_DECISION_DUPLICATE, err);
    if (rc == RC_OK)
        rc = move_to_history(dead, DEAD_OUTCOME_STALE, DEAD_DECISION_STALE, err);
    if (rc == RC_OK)
        rc = move_to_history(dead, DEAD_OUTCOME_DROPPED, DEAD_DECISION_DROPPED, err);
    if (rc == RC_OK)
        rc = write_reasons(dead, err);
    if (rc != RC_OK)
        return rc;
    dead->commit_unknown = true;
    rc = sink->commit(sink->ctx, err);
    dead->commit_unknown = rc != RC_OK;
    return rc;
}

/* A record that stays is reported once; one that was applied is reported again only if that was
 * lost. */
static void report_entry(struct dead *dead, struct dead_entry *entry)
{
    bool repeated = was_reported(dead, entry);

    if (entry->result.outcome == DEAD_OUTCOME_STAYS) {
        entry->result.reason_class = dead->bytes.data + entry->class_at;
        entry->result.reason = dead->bytes.data + entry->reason_at;
    }
    dead->handled += !repeated;
    if (!repeated || (entry->result.outcome != DEAD_OUTCOME_STAYS &&
                      entry->result.outcome != DEAD_OUTCOME_WAITS))
        dead->config.on_result(dead->config.ctx, &entry->result);
}

/* After the COMMIT: reports the outcomes and moves the cursor behind the page. */
static enum rc end_page(struct dead *dead, bool *more, struct err *err)
{
    const struct dead_config *config = &dead->config;
    enum rc rc = RC_OK;

    for (size_t i = 0; i < dead->entry_count; i++) {
        struct dead_entry *entry = &dead->entries[i];

        if (entry_blocks_key(dead, entry) && rc == RC_OK && !config->drop)
            rc = dead_keys_add(&dead->keys, entry->key, entry->result.id, err);
        if (entry->selected)
            report_entry(dead, entry);
    }
    dead->commit_unknown = false;
    dead->refused_id = 0;
    dead->singly -= dead->singly > 0;
    *more =
        dead->entry_count > 0 && (config->records_max == 0 || dead->handled < config->records_max);
    if (dead->entry_count > 0)
        dead->cursor = dead->entries[dead->entry_count - 1].result.place;
    if (compare_places(&dead->cursor, &dead->reported) > 0)
        dead->reported = dead->cursor;
    return rc;
}

/* Finds out whether a COMMIT without an answer worked: if so, the moved records are gone. A page
 * that moved no record can be repeated. */
static enum rc settle_commit(struct dead *dead, bool *settled, struct err *err)
{
    const struct dead_store *store = dead->config.store;
    size_t count = 0;
    size_t left = 0;
    enum rc rc;

    for (size_t i = 0; i < dead->entry_count; i++) {
        enum dead_outcome outcome = dead->entries[i].result.outcome;

        if (dead->entries[i].selected && outcome != DEAD_OUTCOME_STAYS &&
            outcome != DEAD_OUTCOME_WAITS)
            dead->ids[count++] = dead->entries[i].result.id;
    }
    *settled = false;
    if (count == 0)
        return RC_OK;
    rc = store->count_ids(store->ctx, dead->ids, count, &left, err);
    *settled = rc == RC_OK && left == 0;
    return rc;
}

/* The database refused one of the votes of the page. Finds out which one, by pages of one record,
 * and leaves that record dead. */
static enum rc isolate_refused_vote(struct dead *dead, struct err *err)
{
    if (dead->vote_count == 0 || (dead->vote_count == 1 && dead->refused_id != 0))
        return RC_REJECT;
    if (dead->vote_count > 1) {
        dead->singly = DEAD_PAGE_ROWS;
        return RC_OK;
    }
    for (size_t i = 0; i < dead->entry_count; i++)
        if (dead->entries[i].selected && dead->entries[i].result.outcome == DEAD_OUTCOME_APPLIED)
            dead->refused_id = dead->entries[i].result.id;
    dead->refused = *err;
    return RC_OK;
}

void dead_keys_done(struct dead_keys *keys)
{
    free(keys->slots);
    memset(keys, 0, sizeof(*keys));
}

uint64_t dead_key_of(const struct dead_item *item)
{
    size_t len = item->key_len < DEAD_KEY_BYTES_MAX ? item->key_len : DEAD_KEY_BYTES_MAX;
    uint64_t hash = HASH_START;

    if (!item->key)
        return 0;
    hash = hash_fnv1a(hash, item->topic, strlen(item->topic) + 1);
    hash = hash_fnv1a(hash, &item->partition, sizeof(item->partition));
    hash = hash_fnv1a(hash, item->key, len);
    return hash != 0 ? hash : 1;
}

int64_t dead_keys_find(const struct dead_keys *keys, uint64_t key)
{
    return keys->size > 0 && key != 0 ? find_slot(keys, key)->id : 0;
}

enum rc dead_keys_add(struct dead_keys *keys, uint64_t key, int64_t id, struct err *err)
{
    struct dead_wait *slot;
    enum rc rc = keys->count * 2 >= keys->size ? grow_keys(keys, err) : RC_OK;

    if (rc != RC_OK || key == 0)
        return rc;
    slot = find_slot(keys, key);
    if (slot->key != 0)
        return RC_OK;
    *slot = (struct dead_wait){key, id};
    keys->count++;
    return RC_OK;
}

enum rc dead_init(struct dead *dead, const struct dead_config *config, struct err *err)
{
    enum rc rc;

    memset(dead, 0, sizeof(*dead));
    dead->config = *config;
    dead->entries = calloc(DEAD_PAGE_ROWS, sizeof(*dead->entries));
    dead->votes = calloc(DEAD_PAGE_ROWS, sizeof(*dead->votes));
    dead->ids = calloc(DEAD_PAGE_ROWS, sizeof(*dead->ids));
    dead->apply = calloc(1, sizeof(*dead->apply));
    if (dead->entries && dead->votes && dead->ids && dead->apply)
        rc = apply_init(dead->apply, config->sink, "", DEAD_PAGE_ROWS, err);
    else
        rc = err_fail(err, RC_FATAL, 0, "no memory for a page of dead records");
    if (rc == RC_OK && config->keep_lasts)
        rc = apply_keep_lasts(dead->apply, DEAD_PAGE_ROWS, err);
    if (rc != RC_OK)
        dead_done(dead);
    return rc;
}

void dead_done(struct dead *dead)
{
    if (dead->apply)
        apply_done(dead->apply);
    free(dead->apply);
    dead_keys_done(&dead->keys);
    free(dead->entries);
    free(dead->votes);
    free(dead->ids);
    buf_done(&dead->bytes);
    memset(dead, 0, sizeof(*dead));
}

/* As C4 in the consumer: a new connection may lead to a database that lost earlier pages, so their
 * records are dead again. Otherwise those that were moved are gone, and only those that stay are
 * read again. */
static void note_session(struct dead *dead)
{
    const struct sink *sink = dead->config.sink;
    uint64_t session = sink->session ? sink->session(sink->ctx) : 0;

    if (session == dead->session)
        return;
    if (dead->session != 0) {
        dead_keys_done(&dead->keys);
        memset(&dead->cursor, 0, sizeof(dead->cursor));
    }
    dead->session = session;
}

enum rc dead_step(struct dead *dead, bool *more, struct err *err)
{
    const struct sink *sink = dead->config.sink;
    bool settled = false;
    enum rc rc = RC_OK;

    *more = true;
    if (dead->commit_unknown)
        rc = settle_commit(dead, &settled, err);
    if (rc == RC_OK && settled)
        return end_page(dead, more, err);
    if (rc == RC_OK)
        rc = sink->begin(sink->ctx, err);
    if (rc != RC_OK)
        return rc;
    dead->commit_unknown = false;
    note_session(dead);
    rc = write_page(dead, err);
    sink->rollback(sink->ctx); /* has no effect after a COMMIT */
    if (rc == RC_REJECT)
        return isolate_refused_vote(dead, err);
    return rc == RC_OK ? end_page(dead, more, err) : rc;
}
