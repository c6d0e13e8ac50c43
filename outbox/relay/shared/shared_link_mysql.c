/* SPDX-License-Identifier: MIT */
#include "outbox/relay/shared/shared_link_mysql.h"

#include "outbox/relay/stream/position_mysql.h"

#include <inttypes.h>
#include <stdlib.h>

/* The thread of the shared stream owns it. */
struct shared_source {
    struct binlog_link *link;
    uint32_t server_id;
};

static enum rc read_source(void *ctx, const void **event, size_t *len, struct err *err)
{
    struct shared_source *source = ctx;
    enum rc rc = binlog_link_next(source->link, event, len, err);
    struct err why = *err;

    if (rc != RC_OK && binlog_link_refusal(source->link) == BINLOG_REFUSAL_REPLACED)
        return err_fail(err, rc, why.code,
                        "another reader of the binary log has the server id %" PRIu32
                        " (relay.server_id): %s",
                        source->server_id, why.text);
    return rc;
}

static bool is_source_ready(void *ctx)
{
    const struct shared_source *source = ctx;

    return binlog_link_ready(source->link);
}

static bool was_source_silent(void *ctx)
{
    const struct shared_source *source = ctx;

    return binlog_link_was_silent(source->link);
}

static void close_source(void *ctx)
{
    struct shared_source *source = ctx;

    binlog_link_close(source->link);
    free(source);
}

static void interrupt_source(void *ctx)
{
    const struct shared_source *source = ctx;

    binlog_link_shutdown(source->link);
}

enum rc shared_link_mysql_open(struct shared_link *link, const struct mysql_settings *settings,
                               struct origin_mysql *origin, enum db_kind kind,
                               const struct stream_position *from, const struct binlog_start *how,
                               struct err *err)
{
    struct shared_source *source = calloc(1, sizeof(*source));
    enum rc rc;

    if (!source)
        return err_fail(err, RC_FATAL, 0, "no memory for a stream");
    source->server_id = how->server_id;
    rc = position_mysql_open(&source->link, settings, origin, kind, from, how, err);
    if (rc != RC_OK) {
        free(source);
        return rc;
    }
    *link = (struct shared_link){source,       read_source,     is_source_ready, was_source_silent,
                                 close_source, interrupt_source};
    return RC_OK;
}
