/* SPDX-License-Identifier: MIT */
#include "outbox/retry/clients/client_watch.h"

#include "common/hash.h"
#include "outbox/retry/http_url.h"
#include "outbox/retry/retry_metrics.h"

#include <stdio.h>
#include <string.h>

/* A change of a configuration is a task for each live client within a second. */
#define READ_EVERY_MS 500
#define FORGET_EVERY_MS 60000
#define FORGET_ROWS_MAX 500
#define BACKOFF_BASE_MS 50
#define BACKOFF_CAP_MS 5000

void client_watch_init(struct client_watch *watch, struct clients *clients,
                       const struct client_ops *ops, const char *hosts, uint64_t seed)
{
    memset(watch, 0, sizeof(*watch));
    watch->clients = clients;
    watch->ops = *ops;
    watch->hosts = hosts;
    watch->rng = seed;
    watch->backoff = (struct backoff){.base_ms = BACKOFF_BASE_MS, .cap_ms = BACKOFF_CAP_MS};
    condition_init(&watch->reading, CONDITION_DEPENDENCY,
                   "dep=mysql role=retry reason=cannot_read_clients");
    condition_init(&watch->hosts_listed, CONDITION_CHECK, "check=client_hosts role=retry");
    condition_init(&watch->limit, CONDITION_CHECK, "check=clients_max role=retry");
    condition_init(&watch->missing, CONDITION_WORK, "what=client role=retry reason=no_live_client");
}

void client_watch_done(struct client_watch *watch)
{
    condition_done(&watch->reading);
    condition_done(&watch->hosts_listed);
    condition_done(&watch->limit);
    condition_done(&watch->missing);
    memset(watch, 0, sizeof(*watch));
}

/* The address was checked when it was registered, against the list of that process then. */
static bool check_host(struct client_watch *watch, const struct live_client *client)
{
    struct http_url url;

    if (http_url_read(&url, client->address) && http_url_is_allowed(&url, watch->hosts))
        return true;
    err_set(&watch->not_listed,
            "the client %.255s of group %.64s is not called: its host is not in retry.http_hosts "
            "of this process",
            client->address, client->group);
    return false;
}

/* A client that was never told a version was made by SQL. */
static void note_push(struct client_watch *watch, const struct live_client *client)
{
    struct client_push *push = &watch->pushes[watch->push_count];

    if (!client->takes_pushes || !client->told_version[0] ||
        watch->push_count == CLIENT_PUSHES_MAX ||
        strcmp(client->told_version, client->config_version) == 0)
        return;
    snprintf(push->group, sizeof(push->group), "%s", client->group);
    snprintf(push->address, sizeof(push->address), "%s", client->address);
    snprintf(push->told_version, sizeof(push->told_version), "%s", client->told_version);
    snprintf(push->config_version, sizeof(push->config_version), "%s", client->config_version);
    watch->push_count++;
}

static enum rc on_client(void *ctx, const struct live_client *client, struct err *err)
{
    struct client_watch *watch = ctx;
    enum client_route route;

    (void)err;
    if (!check_host(watch, client))
        return RC_OK;
    client_route_read(client->route, &route);
    if (clients_add(watch->clients, client->group, client->address, route))
        retry_clients_add(client->group, 1);
    else
        watch->left_out++;
    note_push(watch, client);
    return RC_OK;
}

static void report_reading(struct client_watch *watch, int64_t now_ms)
{
    char group[RETRY_NAME_BYTES_MAX + 1];
    struct err err = {0};

    retry_clients_end();
    if (watch->not_listed.text[0])
        condition_fail(&watch->hosts_listed, now_ms, &watch->not_listed);
    else
        condition_ok(&watch->hosts_listed, now_ms);
    if (watch->left_out > 0) {
        err_set(&err, "%zu live clients are not called: a process calls %d at most, %d of a group",
                watch->left_out, RETRY_CLIENTS_MAX, CLIENTS_GROUP_MAX);
        condition_fail(&watch->limit, now_ms, &err);
    } else {
        condition_ok(&watch->limit, now_ms);
    }
    if (clients_missing(watch->clients, now_ms, group)) {
        err_set(&err, "tasks wait: group %.64s has no live client", group);
        condition_fail(&watch->missing, now_ms, &err);
    } else {
        condition_ok(&watch->missing, now_ms);
    }
}

static enum rc push_configs(struct client_watch *watch, struct err *err)
{
    size_t pushed = 0;
    enum rc rc;

    if (watch->push_count == 0)
        return RC_OK;
    rc = watch->ops.push(watch->ops.ctx, watch->pushes, watch->push_count, &pushed, err);
    if (rc == RC_OK)
        metric_add(&retry_config_pushes, (int64_t)pushed);
    return rc;
}

static enum rc forget_old(struct client_watch *watch, int64_t now_ms, struct err *err)
{
    size_t count = 0;
    enum rc rc;

    if (now_ms < watch->forget_at_ms)
        return RC_OK;
    rc = watch->ops.forget(watch->ops.ctx, FORGET_ROWS_MAX, &count, err);
    if (rc == RC_OK)
        watch->forget_at_ms = count < FORGET_ROWS_MAX ? now_ms + FORGET_EVERY_MS : now_ms;
    return rc;
}

int64_t client_watch_step(void *arg, int64_t now_ms)
{
    struct client_watch *watch = arg;
    struct err err = {0};
    enum rc rc;

    watch->left_out = 0;
    watch->push_count = 0;
    watch->not_listed = (struct err){0};
    clients_begin(watch->clients);
    retry_clients_begin();
    rc = watch->ops.each(watch->ops.ctx, on_client, watch, &err);
    if (rc == RC_OK) {
        clients_end(watch->clients, now_ms);
        report_reading(watch, now_ms);
        rc = push_configs(watch, &err);
    }
    if (rc == RC_OK)
        rc = forget_old(watch, now_ms, &err);
    if (rc == RC_OK) {
        condition_ok(&watch->reading, now_ms);
        backoff_reset(&watch->backoff);
        return watch->push_count < CLIENT_PUSHES_MAX ? READ_EVERY_MS : 0;
    }
    condition_fail(&watch->reading, now_ms, &err);
    return READ_EVERY_MS + backoff_next_ms(&watch->backoff, rng_next(&watch->rng));
}
