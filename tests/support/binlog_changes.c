/* SPDX-License-Identifier: MIT */
/* tallybox-binlog-changes FILE SCHEMA TABLE BEFORE SKIP GTID: the changes of a table whose first
 * two columns are a number and bytes, from a file of a server's binary log or a stream of it, for
 * the end-to-end tests. BEFORE are the GTIDs in front of it, SKIP the rows of the first transaction
 * that were done.
 *
 * Prints a line for each change: "row N ID PAYLOAD" (payload cut to 20 bytes), "commit N BEFORE",
 * "undo N", "definition", "idle". Exit code 1 with the reason for what cannot be read. */
#include "outbox/relay/binlog/change_stream.h"
#include "tests/support/binlog_file.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD_MAX 20

static void print_row(const struct change *change)
{
    const struct binlog_value *payload = &change->values[1];
    size_t len = payload->len < PAYLOAD_MAX ? payload->len : PAYLOAD_MAX;

    printf("row %" PRIu64 " %" PRId64 " %.*s\n", change->row, change->values[0].number,
           payload->kind == VALUE_BYTES ? (int)len : 4,
           payload->kind == VALUE_BYTES ? payload->bytes : "NULL");
}

static enum rc print_change(const struct change_stream *stream, const struct change *change,
                            struct err *err)
{
    struct buf before = {0};

    (void)err;
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
        if (change->emptied)
            printf("emptied\n");
        printf("commit %" PRIu64 " %s\n", change->row, buf_text(&before));
        break;
    case CHANGE_UNDO:
        printf("undo %" PRIu64 "\n", change->row);
        break;
    case CHANGE_CUT:
        printf("undo 0\n");
        break;
    case CHANGE_DEFINITION:
        printf("definition\n");
        break;
    }
    buf_done(&before);
    return RC_OK;
}

int main(int argc, char **argv)
{
    struct change_stream stream;
    struct err err = {0};
    enum rc rc;

    if (argc != 7) {
        fprintf(stderr, "usage: tallybox-binlog-changes FILE SCHEMA TABLE BEFORE SKIP GTID\n");
        return 2;
    }
    rc = change_stream_init(&stream, argv[2], argv[3], BINLOG_FILE_EVENT_BYTES_MAX, &err);
    if (rc == RC_OK)
        rc =
            change_stream_begin(&stream, !strchr(argv[4], ':'), argv[4], "", BINLOG_FILE_MAGIC_SIZE,
                                strtoull(argv[5], NULL, 10), argv[6], &err);
    if (rc == RC_OK)
        rc = binlog_file_read(argv[1], &stream, print_change, &err);
    printf("end %s:%" PRIu64 " rows=%" PRIu64 " updates=%" PRIu64 " statements=%" PRIu64 "\n",
           stream.file, stream.offset, stream.row, stream.counts.updates, stream.counts.statements);
    if (rc != RC_OK)
        fprintf(stderr, "%s\n", err.text);
    change_stream_done(&stream);
    return rc == RC_OK ? 0 : 1;
}
