/* SPDX-License-Identifier: MIT */
#include "consumer/ingest/part.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A stopped partition is claimed again after this time: the cause may have passed, or an operator
 * may have set its offset. */
#define STOPPED_RETRY_MS 10000

#define QUIET_MS 15000
/* This many seeks must reach the same end before it is accepted. That takes 45 s, less than the 60
 * s after which a partition counts as stale. */
#define END_SEEKS 3

_Static_assert(offsetof(struct part, holding) == 0, "part_of() turns one into the other");

struct part *part_of(struct holding *holding)
{
    return (struct part *)holding;
}

struct part *part_make(const struct place *place, size_t link)
{
    struct part *part = calloc(1, sizeof(*part));

    if (!part)
        return NULL;
    snprintf(part->topic, sizeof(part->topic), "%s", place->topic);
    part->holding.place = (struct place){part->topic, place->partition};
    atomic_init(&part->holding.generation, 0);
    part->link = link;
    part->claim.kind = JOB_CLAIM;
    part->claim.holding = &part->holding;
    return part;
}

void part_free(struct part *part)
{
    free(part);
}

void part_enter(struct part *part, enum part_state state, int64_t now_ms)
{
    part->state = state;
    part->since_ms = now_ms;
    part->retry_ms = now_ms;
    part->quiet_ms = 0;
}

void part_restart(struct part *part, int64_t now_ms, int64_t wait_ms)
{
    atomic_fetch_add(&part->holding.generation, 1);
    part_enter(part, PART_WAITING, now_ms);
    part->retry_ms = now_ms + wait_ms;
}

static void begin_pause(struct part *part, int64_t now_ms)
{
    if (part->paused_ms == 0)
        part->paused_ms = now_ms;
}

void part_assign(struct part *part, void *handle, int64_t now_ms)
{
    begin_pause(part, now_ms);
    part->handle = handle;
    part->stopped = false;
    part->well_ms = now_ms;
    part->whole_until = OFFSET_BEGINNING;
    part_restart(part, now_ms, 0);
}

void part_revoke(struct part *part, int64_t now_ms)
{
    begin_pause(part, now_ms);
    part_restart(part, now_ms, 0);
    part->state = PART_IDLE;
    part->handle = NULL;
    part->stopped = false;
}

int64_t part_end_pause(struct part *part, int64_t now_ms)
{
    int64_t pause_ms = part->paused_ms > 0 ? now_ms - part->paused_ms : -1;

    part->paused_ms = 0;
    return pause_ms;
}

void part_forget_pause(struct part *part)
{
    if (part->state == PART_IDLE)
        part->paused_ms = 0;
}

bool part_stop(struct part *part, const struct err *err, int64_t now_ms)
{
    bool is_new = !part->stopped || strcmp(part->reason.text, err->text) != 0;

    part->stopped = true;
    part->reason = *err;
    part->paused_ms = 0; /* no longer by a rebalance */
    part_restart(part, now_ms, STOPPED_RETRY_MS);
    return is_new;
}

bool part_recovered(struct part *part)
{
    bool was_stopped = part->stopped;

    part->stopped = false;
    return was_stopped;
}

static void begin_seek(struct part *part, int64_t now_ms)
{
    part->arrived = false;
    part->doubted = -1;
    part_enter(part, PART_CLAIMED, now_ms);
}

void part_seek_quiet(struct part *part, int64_t now_ms)
{
    part->end_seeks++;
    begin_seek(part, now_ms);
}

enum rc part_check_topic(const struct part *part, const char *topic_id, struct err *err)
{
    if (part->row.topic_id[0] == '\0' || topic_id[0] == '\0' ||
        strcmp(part->row.topic_id, topic_id) == 0)
        return RC_OK;
    return err_fail(
        err, RC_REJECT, 0,
        "topic %s was deleted and created again: what is applied is of topic id %s, the "
        "broker has %s; decide with tallybox consume --restart-partition %s/%" PRId32
        "@earliest, @latest or @OFFSET",
        part->topic, part->row.topic_id, topic_id, part->topic, part->holding.place.partition);
}

enum rc part_claimed(struct part *part, const struct progress_row *row, int64_t now_ms,
                     struct err *err)
{
    enum rc rc;

    part->row = *row;
    rc = part_check_topic(part, part->topic_id, err);
    if (rc != RC_OK)
        return rc;
    part->position = row->next_offset;
    part->last_epoch = row->leader_epoch;
    part->whole = row->holds || row->next_offset < part->whole_until;
    part->end = -1;
    begin_seek(part, now_ms);
    return RC_OK;
}

void part_read_whole(struct part *part, int64_t next_offset, int64_t now_ms)
{
    part->whole_until = next_offset;
    part_restart(part, now_ms, 0);
}

bool part_is_past(const struct part *part)
{
    return part->row.next_offset >= part->whole_until;
}

void part_hear(struct part *part, bool records, int64_t now_ms)
{
    if (records)
        part->quiet_ms = 0;
    else if (part->quiet_ms == 0)
        part->quiet_ms = now_ms;
}

bool part_is_quiet(const struct part *part, int64_t now_ms)
{
    return part->quiet_ms != 0 && now_ms - part->quiet_ms >= QUIET_MS;
}

bool part_arrive(struct part *part, int64_t offset, int64_t now_ms)
{
    bool expected = offset == (part->position == OFFSET_BEGINNING ? 0 : part->position);

    part->arrived = expected || part->arrived || part->doubted == offset;
    if (part->arrived)
        return true;
    part->doubted = offset;
    part_enter(part, PART_CLAIMED, now_ms);
    return false;
}

bool part_reach_end(struct part *part, int64_t end)
{
    if (end <= (part->position == OFFSET_BEGINNING ? 0 : part->position))
        return false;
    if (!part->arrived && end != part->end) {
        part->end = end;
        part->end_seeks = 0;
    }
    if (!part->arrived && part->end_seeks < END_SEEKS)
        return false;
    part->position = end;
    part->last_epoch = -1;
    part->arrived = true;
    return true;
}

enum rc part_check_epoch(const struct part *part, int32_t leader_epoch, struct err *err)
{
    if (leader_epoch < 0 || leader_epoch >= part->last_epoch)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "the leader epoch at offset %" PRId64 " is %" PRId32 " after %" PRId32
                    ": topic %s was deleted and created again, or its log was cut; decide with "
                    "tallybox consume --restart-partition %s/%" PRId32
                    "@earliest, @latest or @OFFSET",
                    part->position, leader_epoch, part->last_epoch, part->topic, part->topic,
                    part->holding.place.partition);
}

void part_sent(struct part *part, int64_t oldest_ms)
{
    part->sent_ms[part->sent++] = oldest_ms;
}

void part_returned(struct part *part)
{
    part->sent--;
    for (unsigned i = 0; i < part->sent; i++)
        part->sent_ms[i] = part->sent_ms[i + 1];
}

int64_t part_age_ms(struct part *part, int64_t lag, int64_t wall_ms, int64_t now_ms)
{
    int64_t oldest_ms = -1;

    if (part->sent > 0)
        oldest_ms = part->sent_ms[0];
    else if (part->filling)
        oldest_ms = part->filling->batch.oldest_ms;
    if (oldest_ms >= 0 || (lag == 0 && part->state == PART_RUNNING))
        part->well_ms = now_ms;
    if (oldest_ms < 0)
        return now_ms - part->well_ms;
    return oldest_ms < wall_ms ? wall_ms - oldest_ms : 0;
}
