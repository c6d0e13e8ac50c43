/* SPDX-License-Identifier: MIT */
#include "tests/support/binlog_file.h"

#include "outbox/relay/binlog/cursor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET_SIZE 9 /* of the size in the header of an event */

/* Reads one event into *event, which is NULL at the end of the file. The caller frees it. */
static enum rc read_event(FILE *file, uint8_t **event, size_t *len, struct err *err)
{
    uint8_t head[BINLOG_HEADER_SIZE];
    struct cursor size;

    *event = NULL;
    if (fread(head, 1, sizeof(head), file) != sizeof(head))
        return RC_OK;
    size = cursor_of(head + OFFSET_SIZE, 4);
    *len = cursor_u32(&size);
    if (*len < sizeof(head))
        return err_fail(err, RC_FATAL, 0, "an event says that it has %zu bytes", *len);
    *event = malloc(*len);
    if (!*event)
        return err_fail(err, RC_FATAL, 0, "no memory for an event of %zu bytes", *len);
    memcpy(*event, head, sizeof(head));
    if (fread(*event + sizeof(head), 1, *len - sizeof(head), file) != *len - sizeof(head)) {
        free(*event);
        *event = NULL;
    }
    return RC_OK;
}

enum rc binlog_file_read(const char *path, struct change_stream *stream,
                         enum rc (*on_change)(const struct change_stream *stream,
                                              const struct change *change, struct err *err),
                         struct err *err)
{
    FILE *file = fopen(path, "rb");
    uint8_t *event = NULL;
    size_t len = 0;
    enum rc rc;

    if (!file)
        return err_fail(err, RC_FATAL, 0, "%s cannot be read", path);
    fseek(file, BINLOG_FILE_MAGIC_SIZE, SEEK_SET);
    while ((rc = read_event(file, &event, &len, err)) == RC_OK && event) {
        struct change change = {0};

        rc = change_stream_give(stream, event, len, err);
        while (rc == RC_OK && (rc = change_stream_next(stream, &change, err)) == RC_OK &&
               change.kind != CHANGE_WANTS_EVENT)
            rc = on_change(stream, &change, err);
        free(event);
        if (rc != RC_OK)
            break;
    }
    fclose(file);
    return rc;
}
