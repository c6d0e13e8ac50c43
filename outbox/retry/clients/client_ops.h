/* SPDX-License-Identifier: MIT */
/* What the engine that reads the registry of clients needs of a database. Every call may be
 * repeated without harm. RC_RETRY: nothing was done, or the outcome is unknown. RC_FATAL: an
 * operator must act. One thread at a time. */
#ifndef OUTBOX_RETRY_CLIENTS_CLIENT_OPS_H
#define OUTBOX_RETRY_CLIENTS_CLIENT_OPS_H

#include "common/err.h"
#include "outbox/retry/clients/client.h"

#include <stdbool.h>
#include <stddef.h>

/* A live client; the texts are borrowed for the call. */
struct live_client {
    const char *group;
    const char *address;
    const char *route;          /* of the group */
    const char *told_version;   /* of the configuration, that the client was told last */
    const char *config_version; /* the current one */
    bool takes_pushes;          /* the group allows the tasks that push its configuration */
};

/* A client that was told another version than the current one. */
struct client_push {
    char group[RETRY_NAME_BYTES_MAX + 1];
    char address[RETRY_CLIENT_ADDRESS_SIZE];
    char told_version[RETRY_CONFIG_VERSION_SIZE];
    char config_version[RETRY_CONFIG_VERSION_SIZE];
};

struct client_ops {
    void *ctx;

    /* The live clients by group and address, RETRY_CLIENTS_MAX + 1 at most: the last one shows that
     * there are too many. on_client: any result but RC_OK ends the call, which returns it. */
    enum rc (*each)(void *ctx,
                    enum rc (*on_client)(void *client_ctx, const struct live_client *client,
                                         struct err *err),
                    void *client_ctx, struct err *err);

    /* Makes a task for each client that tells it the version of its group's configuration, and
     * records that it was told, unless it was told meanwhile; all in one transaction. *pushed: how
     * many tasks were made. RC_REJECT: a group takes no such task; nothing was done. */
    enum rc (*push)(void *ctx, const struct client_push *pushes, size_t count, size_t *pushed,
                    struct err *err);

    /* Deletes up to rows_max clients whose last beat is older than RETRY_CLIENT_KEPT_MS. *count:
     * how many. */
    enum rc (*forget)(void *ctx, size_t rows_max, size_t *count, struct err *err);
};

#endif
