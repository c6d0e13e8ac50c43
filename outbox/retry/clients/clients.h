/* SPDX-License-Identifier: MIT */
/* The live clients of all groups as a retry process has read them last, and what it knows of each:
 * its calls in flight and its failures. A client that cannot be reached is left out at once, one
 * that fails repeatedly after ENDPOINT_FAILURES_OUT failures; it returns after a while with one
 * call as a probe. One thread reads the clients; any thread picks. */
#ifndef OUTBOX_RETRY_CLIENTS_CLIENTS_H
#define OUTBOX_RETRY_CLIENTS_CLIENTS_H

#include "common/err.h"
#include "outbox/retry/clients/client.h"
#include "outbox/retry/handler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENTS_TRIES_MAX 3 /* addresses of one attempt */
#define CLIENTS_GROUP_MAX 1024
#define CLIENTS_WAIT_MS 3000 /* of a task without a live client, at least */
#define CLIENTS_WAIT_MS_MAX 60000

struct clients;

/* RC_FATAL: no memory. */
enum rc clients_open(struct clients **clients, struct err *err);
void clients_close(struct clients *clients);

/* A reading of all live clients, by the thread that reads: begin, add each client in the order of
 * group and address (strcmp()), and end, from which on they are called; without the end the
 * clients stay as they were. clients_add(): false if there are too many, or no memory. */
void clients_begin(struct clients *clients);
bool clients_add(struct clients *clients, const char *group, const char *address,
                 enum client_route route);
void clients_end(struct clients *clients, int64_t now_ms);

enum clients_found {
    CLIENTS_FOUND,
    CLIENTS_NONE,   /* the group has no live client, or all of them have been tried */
    CLIENTS_BUSY,   /* the rate of the scene allows no call of a client now */
    CLIENTS_UNREAD, /* they have not been read yet */
};

/* One attempt at a task. */
struct clients_attempt {
    const char *group;
    const char *scene;
    const char *key; /* of the consistent hash */
    const struct retry_client_rate *rate;
    int64_t wait_ms; /* CLIENTS_BUSY: so long */
    char tried[CLIENTS_TRIES_MAX][RETRY_CLIENT_ADDRESS_SIZE];
    size_t tried_count;
    bool is_last; /* no further one could be tried after the last of them */
};

/* Picks a client for the attempt that it has not tried, and adds its address to those tried; the
 * call counts as in flight until clients_report(). */
enum clients_found clients_pick(struct clients *clients, struct clients_attempt *attempt,
                                int64_t now_ms, uint64_t random_bits);

enum clients_outcome {
    CLIENTS_WORKED,
    CLIENTS_FAILED, /* the client may have got the call */
    CLIENTS_UNSENT, /* it could not be reached */
};

/* Ends the call of the client that was picked last. Returns true when it is left out from now
 * on. */
bool clients_report(struct clients *clients, const struct clients_attempt *attempt,
                    enum clients_outcome outcome, int64_t now_ms, uint64_t random_bits);

/* The live clients of a group; 0 before the first reading. */
size_t clients_count(struct clients *clients, const char *group);

/* For how long a task of a group without a live client waits. Tasks return one by one. */
int64_t clients_wait_ms(struct clients *clients, const char *group, int64_t now_ms);

/* Copies the name of a group whose tasks have found no live client lately. False: there is none. */
bool clients_missing(struct clients *clients, int64_t now_ms, char group[RETRY_NAME_BYTES_MAX + 1]);

#endif
