/* SPDX-License-Identifier: MIT */
/* The registry of clients: instances of applications that beat with the address at which they take
 * tasks of their group. A row of retry_client is a client; it is live while its last beat is
 * younger than RETRY_CLIENT_LIVE_MS by the database's clock. A group has retry.clients_max rows at
 * most: expired ones make room for a new client.
 *
 * Here is also the version of a group's configuration: a text that differs when the row of the
 * group or one of its scenes differs. The functions without a db are pure, and any thread may call
 * them; the others are called by one thread at a time per db. */
#ifndef OUTBOX_RETRY_CLIENTS_CLIENT_H
#define OUTBOX_RETRY_CLIENTS_CLIENT_H

#include "common/err.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETRY_CLIENT_ADDRESS_BYTES_MAX 255
#define RETRY_CLIENT_ADDRESS_SIZE (RETRY_CLIENT_ADDRESS_BYTES_MAX + 1)
#define RETRY_CLIENT_VERSION_CHARS_MAX 64
#define RETRY_CLIENT_VERSION_SIZE (4 * RETRY_CLIENT_VERSION_CHARS_MAX + 1)
#define RETRY_CLIENT_REPORTS_MAX INT64_C(1000000000) /* failed ones, of one beat */
#define RETRY_CLIENT_BEAT_MS 30000                   /* between two beats */
#define RETRY_CLIENT_LIVE_MS 90000                   /* three of them */
#define RETRY_CLIENT_KEPT_MS 86400000                /* an expired one is listed for so long */
#define RETRY_CLIENTS_MAX 4096                       /* live ones of all groups that are called */
#define RETRY_CONFIG_VERSION_SIZE 33
#define RETRY_CONFIG_SCENE "config"          /* of the tasks that push a configuration */
#define RETRY_CONFIG_PATH "/tallybox/config" /* behind the address of the client */

/* Which client of a group gets a task: retry_group.route. */
enum client_route {
    CLIENT_RANDOM,
    CLIENT_ROUND_ROBIN,
    CLIENT_CONSISTENT_HASH, /* of the ordering key: its tasks go to one client */
    CLIENT_LRU,             /* the one that was called least recently */
    CLIENT_TWO_CHOICES,     /* of two random ones the one with fewer calls in flight */
};

#define CLIENT_ROUTES 5

/* False: there is no such route; *route is CLIENT_ROUND_ROBIN then. */
bool client_route_read(const char *name, enum client_route *route);

/* Checks an address, http://host[:port][/path] or https://, against a list of hosts in the form of
 * retry.http_hosts, and writes it in the form that is stored: the origin in lower case with its
 * port, and no '/' at the end. RC_REJECT: err names the fault; err->code is 0. */
enum rc retry_client_address(char address[RETRY_CLIENT_ADDRESS_SIZE], const char *text,
                             const char *hosts, struct err *err);

/* With which the reason of a task begins that waits for a live client of its group. */
#define RETRY_CLIENT_NONE "no live client"

struct db;

/* A beat; the texts are borrowed. */
struct retry_beat {
    const char *group;
    const char *address;    /* as retry_client_address() writes it */
    const char *version;    /* of the application, in its own words; "": not said */
    int64_t failed_reports; /* since its last beat; is added to those of its row */
    int64_t clients_max;    /* rows of the group */
};

/* Registers a client, or renews its registration. config_version: of its group, which the client is
 * told. RC_REJECT: the group has no row or is not the clients', or it has clients_max others; err
 * gives the reason with code 0. Otherwise as db_exec(). After RC_RETRY the beat may have been
 * stored: repeating it renews it, and may count failed_reports twice. */
enum rc retry_client_beat(struct db *db, const struct retry_beat *beat,
                          char config_version[RETRY_CONFIG_VERSION_SIZE], struct err *err);

/* The version of the group's configuration; *found: whether the group has a row. */
enum rc retry_config_version(struct db *db, const char *group,
                             char config_version[RETRY_CONFIG_VERSION_SIZE], bool *found,
                             struct err *err);

/* *missing: whether tasks of the scene wait for a client, and its group has no live one. Reads a
 * bounded number of tasks. */
enum rc retry_client_missing(struct db *db, const char *group, const char *scene, bool *missing,
                             struct err *err);

/* A row of retry_client; the texts are valid during the call that gets it. */
struct retry_client_view {
    const char *group;
    const char *address;
    const char *version;
    const char *config_version; /* that it was told last */
    bool is_live;
    bool config_is_current;
    int64_t failed_reports;
    int64_t first_beat_ms; /* since 1970, as the next one; by the database's clock */
    int64_t last_beat_ms;
    int64_t expires_ms; /* it is live until then, unless it beats */
    int64_t now_ms;
};

/* The clients of a group, NULL: of all, by group and address, rows_max at most. after: only those
 * of the group with a greater address; NULL: all. */
enum rc retry_client_each(struct db *db, const char *group, const char *after, size_t rows_max,
                          enum rc (*on_client)(void *ctx, const struct retry_client_view *view,
                                               struct err *err),
                          void *ctx, struct err *err);

#endif
