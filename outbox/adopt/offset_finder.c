/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/offset_finder.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FILE_BEGIN 4
#define LOW_BITS UINT64_C(0xffffffff)

/* What a run over the log has found of the transaction that is looked for. */
struct finding {
    const struct stream_log *log;
    struct connect_offset *offset;
    struct stream_position *position;
    uint64_t done;     /* rows of the table */
    uint64_t end;      /* of the transaction before it, in the file of the offset */
    bool has_position; /* that of its begin */
    bool is_target;    /* the present transaction is the one */
};

/* Returns the next change, or STREAM_NOTHING at the end of the log. */
static enum rc read_change(const struct stream_log *log, struct stream_change *change,
                           struct err *err)
{
    enum rc rc;

    do {
        memset(change, 0, sizeof(*change));
        change->counts_only = true;
        rc = log->stream.next(log->stream.ctx, change, err);
    } while (rc == RC_OK && change->kind == STREAM_NOTHING && !log->has_ended(log->ctx));
    return rc;
}

static enum rc write_position(struct finding *finding, struct err *err)
{
    const struct stream_ops *stream = &finding->log->stream;

    finding->has_position = true;
    return stream->position(stream->ctx, finding->position, err);
}

static enum rc refuse_pos(const struct connect_offset *offset, struct err *err)
{
    return err_fail(err, RC_REJECT, 0,
                    "the offset's file %.80s and pos %" PRIu64
                    " are not at the begin of a transaction of this log: it is the offset of "
                    "another server, or the connector was cut off; start the connector on this "
                    "server, let it publish a row, and stop it again",
                    offset->file, offset->pos);
}

static bool is_at(const struct connect_offset *offset, const struct stream_place *place)
{
    uint64_t pos = offset->pos & LOW_BITS;

    return strcmp(offset->file, place->file) == 0 &&
           (pos == (place->begin & LOW_BITS) || pos == (place->body_begin & LOW_BITS));
}

/* Whether this transaction is the first one that is not done, or is done in part. With GTIDs that
 * is the first one that the server sends. */
static bool is_target(const struct finding *finding, const struct stream_place *place)
{
    const struct connect_offset *offset = finding->offset;

    return offset->by_gtid || strcmp(offset->file, place->file) != 0 ||
           place->body_begin >= offset->pos;
}

/* Events are those of this server: another one may have packed the rows otherwise. BEGIN alone is
 * the same everywhere. */
static enum rc check_place(const struct finding *finding, const struct stream_place *place,
                           struct err *err)
{
    const struct connect_offset *offset = finding->offset;

    if (offset->event <= 1 && offset->row == 0)
        return RC_OK;
    return is_at(offset, place) ? RC_OK : refuse_pos(offset, err);
}

static enum rc take_row(struct finding *finding, const struct stream_change *change,
                        struct err *err)
{
    const struct connect_offset *offset = finding->offset;
    struct stream_place place = finding->log->place(finding->log->ctx);
    enum rc rc = RC_OK;

    finding->is_target = is_target(finding, &place);
    if (!finding->is_target)
        return RC_OK;
    if (!finding->has_position)
        rc = write_position(finding, err);
    if (place.events <= offset->event ||
        (place.events == offset->event + 1 && place.event_rows <= offset->row))
        finding->done = change->number;
    return rc;
}

/* The transactions before the one that is looked for end where that begins, or before. */
static enum rc pass_transaction(struct finding *finding, const struct stream_place *place,
                                bool *found, struct err *err)
{
    const struct stream_ops *stream = &finding->log->stream;
    const struct connect_offset *offset = finding->offset;
    enum rc rc;

    *found = is_target(finding, place);
    if (*found)
        return finding->end > offset->pos ? refuse_pos(offset, err) : RC_OK;
    rc = stream->position(stream->ctx, finding->position, err);
    if (rc == RC_OK && strcmp(finding->position->file, offset->file) == 0)
        finding->end = finding->position->offset;
    if (rc == RC_OK && finding->end > offset->pos)
        rc = refuse_pos(offset, err);
    return rc;
}

/* The change ends the transaction. */
static enum rc take_end(struct finding *finding, const struct stream_change *change, bool *found,
                        struct err *err)
{
    struct stream_place place = finding->log->place(finding->log->ctx);
    bool all_done = change->kind == STREAM_CUT || finding->done == change->number;
    enum rc rc = pass_transaction(finding, &place, found, err);

    if (rc != RC_OK || !*found)
        return rc;
    rc = check_place(finding, &place, err);
    if (rc == RC_OK && (all_done || !finding->has_position))
        rc = write_position(finding, err);
    finding->position->rows_done = all_done ? 0 : finding->done;
    if (finding->position->rows_done == 0)
        finding->position->gtid[0] = '\0';
    return rc;
}

static enum rc take_log_end(struct finding *finding, struct err *err)
{
    struct stream_place place = finding->log->place(finding->log->ctx);
    const struct connect_offset *offset = finding->offset;
    enum rc rc = write_position(finding, err);

    finding->position->rows_done = 0;
    finding->position->gtid[0] = '\0';
    if (rc != RC_OK || (offset->by_gtid && offset->event <= 1))
        return rc;
    if (offset->by_gtid)
        return err_fail(err, RC_REJECT, 0,
                        "the log ends before the transaction of the offset, which has %" PRIu64
                        " events that are done: it is the offset of another server, or this one "
                        "has lost transactions",
                        offset->event);
    if (strcmp(finding->position->file, offset->file) == 0 && offset->pos > place.read_end)
        return refuse_pos(offset, err);
    return RC_OK;
}

static enum rc open_at(const struct stream_log *log, const struct connect_offset *offset,
                       struct err *err)
{
    struct stream_position from = {.by_gtid = offset->by_gtid, .offset = FILE_BEGIN};
    enum rc rc;

    if (offset->by_gtid)
        buf_put(&from.before, offset->gtids.data, offset->gtids.len);
    else
        snprintf(from.file, sizeof(from.file), "%s", offset->file);
    rc = from.before.failed ? err_fail(err, RC_FATAL, 0, "no memory for GTIDs")
                            : log->stream.open(log->stream.ctx, &from, err);
    buf_done(&from.before);
    return rc;
}

enum rc offset_find_position(const struct stream_log *log, struct connect_offset *offset,
                             struct stream_position *position, struct err *err)
{
    struct finding finding = {.log = log, .offset = offset, .position = position};
    struct stream_change change;
    bool found = false;
    enum rc rc = open_at(log, offset, err);

    while (rc == RC_OK && !found) {
        rc = read_change(log, &change, err);
        if (rc != RC_OK)
            break;
        switch (change.kind) {
        case STREAM_NOTHING:
            found = true;
            rc = take_log_end(&finding, err);
            break;
        case STREAM_ROW:
            rc = take_row(&finding, &change, err);
            break;
        case STREAM_UNDO:
            /* The connector has published rows that were rolled back. */
            if (finding.done > change.number)
                finding.done = change.number;
            break;
        case STREAM_COMMIT:
        case STREAM_CUT:
            rc = take_end(&finding, &change, &found, err);
            break;
        }
    }
    return rc;
}

/* The row is the last one that is done. */
static void note_offset(const struct stream_log *log, const struct stream_position *at,
                        struct connect_offset *offset)
{
    struct stream_place place = log->place(log->ctx);

    snprintf(offset->file, sizeof(offset->file), "%s", place.file);
    offset->pos = place.body_begin;
    offset->event = place.events - 1;
    offset->row = place.event_rows;
    offset->time_s = at->time_s;
}

static enum rc find_row(const struct stream_log *log, const struct stream_position *position,
                        struct connect_offset *offset, struct err *err)
{
    struct stream_change change;
    bool found = false;

    for (;;) {
        enum rc rc = read_change(log, &change, err);

        if (rc != RC_OK)
            return rc;
        if (change.kind == STREAM_ROW && change.number == position->rows_done && !found) {
            found = true;
            note_offset(log, position, offset);
        }
        if (change.kind == STREAM_UNDO && change.number < position->rows_done)
            found = false;
        if (change.kind == STREAM_COMMIT && found)
            return RC_OK;
        if (change.kind == STREAM_NOTHING || change.kind == STREAM_COMMIT ||
            change.kind == STREAM_CUT)
            return err_fail(err, RC_REJECT, 0,
                            "the log does not have the %" PRIu64
                            " rows of transaction %s that are done: let a relay read on until the "
                            "lane has no rows, and stop it",
                            position->rows_done, position->gtid);
    }
}

/* Between two transactions the server tells where that is. */
static enum rc find_boundary(const struct stream_log *log, struct connect_offset *offset,
                             struct err *err)
{
    struct stream_position at = {0};
    struct stream_change change;
    enum rc rc = read_change(log, &change, err);

    if (rc == RC_OK && change.kind == STREAM_NOTHING) {
        rc = log->stream.position(log->stream.ctx, &at, err);
        snprintf(offset->file, sizeof(offset->file), "%s", at.file);
        offset->pos = at.offset;
    } else if (rc == RC_OK) {
        struct stream_place place = log->place(log->ctx);

        snprintf(offset->file, sizeof(offset->file), "%s", place.file);
        offset->pos = place.begin;
    }
    buf_done(&at.before);
    return rc;
}

enum rc offset_find_offset(const struct stream_log *log, const struct stream_position *position,
                           struct connect_offset *offset, struct err *err)
{
    struct stream_position from = {0};
    enum rc rc = RC_OK;

    buf_reset(&offset->gtids);
    if (position->by_gtid)
        buf_put(&offset->gtids, position->before.data, position->before.len);
    offset->by_gtid = position->by_gtid;
    offset->event = offset->row = 0;
    offset->time_s = position->time_s;
    if (!stream_position_copy(&from, position) || offset->gtids.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for a position");
    from.rows_done = 0;
    from.gtid[0] = '\0';
    if (rc == RC_OK)
        rc = log->stream.open(log->stream.ctx, &from, err);
    if (rc == RC_OK)
        rc = position->rows_done > 0 ? find_row(log, position, offset, err)
                                     : find_boundary(log, offset, err);
    buf_done(&from.before);
    return rc;
}
