/* SPDX-License-Identifier: MIT */
/* struct client_ops for MySQL, on a store of its own. One thread at a time. */
#ifndef OUTBOX_RETRY_STORE_LIVE_CLIENTS_MYSQL_H
#define OUTBOX_RETRY_STORE_LIVE_CLIENTS_MYSQL_H

#include "outbox/retry/clients/client_ops.h"
#include "outbox/retry/store/store_mysql.h"

/* The ops are valid while store is open. */
struct client_ops live_clients_ops(struct store *store);

#endif
