/* SPDX-License-Identifier: MIT */
/* The ops of the leases of lanes and shards: the interface through which leases.c takes and renews
 * leases and reads those of other instances. An adapter fills the struct and decides nothing; flow
 * tests and the simulation fill it with a fake. One thread at a time uses a struct of ops. A call
 * blocks no longer than the time-outs of its adapter.
 *
 * A caller repeats a call that returned RC_RETRY or RC_REJECT later. RC_FATAL means that an
 * operator has to act; the caller repeats the call at long intervals to find out whether the cause
 * was removed. */
#ifndef OUTBOX_LEASE_LEASE_OPS_H
#define OUTBOX_LEASE_LEASE_OPS_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEASE_OWNER_SIZE 129

#define LEASES_MAX 64 /* leases of one process that compete with each other */

/* A lease is implausible if it ends later than this many of its lengths from now: it was written
 * before the database's clock was set back.
 * Invariant R4: an implausible lease is not taken. It is shortened to end one length from now and
 * then expires like any other (mutant set-back-believed). A live holder renews it within a third of
 * its length by the present clock, and it is plausible again; so no second holder begins while the
 * first one may rely on its lease. The lease of a dead holder ends one length later. */
#define LEASE_LENGTHS_MAX 2

struct lease_view {
    char owner[LEASE_OWNER_SIZE]; /* empty: the lease is free */
    int64_t epoch;
    int64_t length_ms; /* as the owner wrote it; 0: unknown */
    int64_t left_ms;   /* <= 0: the lease has expired */
    bool wanted;       /* a command asks for the lane: its holder releases it, and none takes it */
    bool other_source; /* it is to be read by another source than this instance has for it */
};

/* The state of a held lane that other processes can read. */
struct lease_status {
    int64_t diverted_keys;
    char diverted_reason[256];
};

/* Receives one instance. weight is that of its fair share, >= 1. */
typedef enum rc (*lease_on_instance)(void *ctx, const char *name, int64_t weight, struct err *err);

struct lease_store {
    void *ctx;
    /* Writes the heartbeat of this instance and renews every lease that it owns: each then ends
     * lease_ms from now. */
    enum rc (*beat)(void *ctx, int64_t lease_ms, struct err *err);
    /* Reads the leases of these lanes, or shards, in one snapshot. Creates a missing lease. */
    enum rc (*read)(void *ctx, const char *const *lanes, size_t count, struct lease_view *views,
                    struct err *err);
    /* Passes every instance that serves the same lanes and has written its heartbeat within
     * lease_ms to on_instance, ordered by name. Ignores a heartbeat more than two times lease_ms in
     * the future: it was written before the clock was set back. */
    enum rc (*instances)(void *ctx, int64_t lease_ms, lease_on_instance on_instance,
                         void *on_instance_ctx, struct err *err);
    /* Takes the lease with a new epoch if it is free or has expired, no command asks for the lane,
     * and it is not to be read by another source; sets taken. */
    enum rc (*take)(void *ctx, const char *lane, int64_t lease_ms, bool *taken, int64_t *epoch,
                    struct err *err);
    /* Makes the lease end length_ms from now if it has this epoch and is implausible. */
    enum rc (*shorten)(void *ctx, const char *lane, int64_t epoch, int64_t length_ms,
                       struct err *err);
    /* Writes status into the lease if it has this epoch. */
    enum rc (*put_status)(void *ctx, const char *lane, int64_t epoch,
                          const struct lease_status *status, struct err *err);
    /* Frees the lease if it has this epoch. */
    enum rc (*release)(void *ctx, const char *lane, int64_t epoch, struct err *err);
    /* Removes this instance from the list of instances. */
    enum rc (*remove_instance)(void *ctx, struct err *err);
};

#endif
