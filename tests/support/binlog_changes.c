/* SPDX-License-Identifier: MIT */
/* tallybox-binlog-changes FILE SCHEMA TABLE BEFORE SKIP GTID: the changes of a table whose first
 * two columns are a number and bytes, from a file of a server's binary log or a stream of it, for
 * the end-to-end tests. BEFORE are the GTIDs in front of it, SKIP the rows of the first transaction
 * that were done.
 *
 * Prints a line for each change: "row N ID PAYLOAD" (payload cut to 20 bytes), "commit N BEFORE",
 * "undo N", "definition", "idle". Exit code 1 with the reason for what cannot be read. */
#include "outbox/relay/binlog/change_stream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC_SIZE 4
#define OFFSET_SIZE 9
#define PAYLOAD_MAX 20
#define EVENT_BYTES_MAX ((size_t)1 << 30)

static void print_row(const struct change *change)
{
    const struct binlog_value *payload = &change->values[1];
    size_t len = payload->len < PAYLOAD_MAX ? payload->len : PAYLOAD_MAX;

    printf("row %" PRIu64 " %" PRId64 " %.*s\n", change->row, change->values[0].number,
           payload->kind == VALUE_BYTES ? (int)len : 4,
           payload->kind == VALUE_BYTES ? payload->bytes : "NULL");
}

static void print_change(const struct change_stream *stream, const struct change *change)
{
    struct buf before = {0};

    switch (change->kind) {
    case CHANGE_WANTS_EVENT:
        break;
    case CHANGE_IDLE:
        printf("idle\n");
        break;
    case CHANGE_ROW:
        print_row(change);
        break;
    case CHANGE_COMMIT:
        gtid_set_put_text(&stream->before, &before);
        printf("commit %" PRIu64 " %s\n", change->row, buf_text(&before));
        break;
    case CHANGE_UNDO:
        printf("undo %" PRIu64 "\n", change->row);
        break;
    case CHANGE_DEFINITION:
        printf("definition\n");
        break;
    }
    buf_done(&before);
}

static enum rc print_changes(struct change_stream *stream, struct err *err)
{
    struct change change = {0};
    enum rc rc;

    while ((rc = change_stream_next(stream, &change, err)) == RC_OK &&
           change.kind != CHANGE_WANTS_EVENT)
        print_change(stream, &change);
    return rc;
}

static enum rc print_file(struct change_stream *stream, FILE *file, struct err *err)
{
    uint8_t head[BINLOG_HEADER_SIZE];
    uint8_t *event = NULL;
    enum rc rc = RC_OK;

    while (rc == RC_OK && fread(head, 1, sizeof(head), file) == sizeof(head)) {
        struct cursor size = cursor_of(head + OFFSET_SIZE, 4);
        uint32_t len = cursor_u32(&size);
        uint8_t *grown = realloc(event, len > sizeof(head) ? len : sizeof(head));

        if (!grown)
            break;
        event = grown;
        memcpy(event, head, sizeof(head));
        if (len > sizeof(head) &&
            fread(event + sizeof(head), 1, len - sizeof(head), file) != len - sizeof(head))
            break;
        rc = change_stream_give(stream, event, len, err);
        if (rc == RC_OK)
            rc = print_changes(stream, err);
    }
    free(event);
    return rc;
}

int main(int argc, char **argv)
{
    struct change_stream stream;
    struct err err = {0};
    FILE *file = argc == 7 ? fopen(argv[1], "rb") : NULL;
    enum rc rc;

    if (!file || fseek(file, MAGIC_SIZE, SEEK_SET) != 0) {
        fprintf(stderr, "usage: tallybox-binlog-changes FILE SCHEMA TABLE BEFORE SKIP GTID\n");
        return 2;
    }
    rc = change_stream_init(&stream, argv[2], argv[3], EVENT_BYTES_MAX, &err);
    if (rc == RC_OK)
        rc = change_stream_begin(&stream, !strchr(argv[4], ':'), argv[4], "", MAGIC_SIZE,
                                 strtoull(argv[5], NULL, 10), argv[6], &err);
    if (rc == RC_OK)
        rc = print_file(&stream, file, &err);
    fclose(file);
    printf("end %s:%" PRIu64 " rows=%" PRIu64 " updates=%" PRIu64 " statements=%" PRIu64 "\n",
           stream.file, stream.offset, stream.row, stream.counts.updates, stream.counts.statements);
    if (rc != RC_OK)
        fprintf(stderr, "%s\n", err.text);
    change_stream_done(&stream);
    return rc == RC_OK ? 0 : 1;
}
