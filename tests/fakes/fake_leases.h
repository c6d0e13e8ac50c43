/* SPDX-License-Identifier: MIT */
/* A fake of the lease tables, of lanes or of shards: a row for each lease and a row for each
 * instance, changed as lease_mysql.c changes them, statement by statement. */
#ifndef TESTS_FAKES_FAKE_LEASES_H
#define TESTS_FAKES_FAKE_LEASES_H

#include "outbox/lease/lease_ops.h"
#include "outbox/retry/retry_ops.h"
#include "tests/fakes/fake_hooks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAKE_INSTANCES_MAX 64
#define FAKE_LEASES_MAX TASK_SHARDS

/* A row of a lease. */
struct fake_lease {
    char owner[LEASE_OWNER_SIZE]; /* "": free */
    int64_t epoch;
    int64_t until_ms; /* by the server's clock */
    int64_t length_ms;
    bool made; /* the row exists */
    bool wanted;
    char source[9]; /* "": any */
    struct lease_status status;
};

/* A row of an instance that beats. */
struct fake_instance {
    char name[LEASE_OWNER_SIZE];
    int64_t seen_ms; /* by the server's clock */
    int64_t weight;
};

struct fake_instances {
    struct fake_instance rows[FAKE_INSTANCES_MAX];
    size_t count;
};

/* One instance's connection. The user fills all fields but ops; the tables may be shared. */
struct fake_lease_store {
    struct fake_hooks hooks;
    const char *name;                           /* of the instance */
    int64_t weight;                             /* its share of the leases */
    const char *source;                         /* of all lanes; NULL: "" */
    struct fake_instances *instances;           /* of the table */
    struct fake_lease *leases[FAKE_LEASES_MAX]; /* that this instance competes for */
    size_t lease_count;
    struct fake_lease *(*find)(void *ctx, const char *name);

    /* Each of these may be NULL. */

    /* Waits until no other transaction has the row locked. */
    enum rc (*wait)(void *ctx, struct fake_lease *lease, struct err *err);
    void (*on_beat)(void *ctx, struct fake_lease *lease);
    /* The instance is about to get, or has given back, the lease. */
    void (*on_take)(void *ctx, struct fake_lease *lease, int64_t lease_ms);
    void (*on_release)(void *ctx, struct fake_lease *lease);
};

/* The ops of the connection, which must not move. */
struct lease_store fake_lease_store_ops(struct fake_lease_store *store);

#endif
