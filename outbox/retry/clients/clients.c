/* SPDX-License-Identifier: MIT */
#include "outbox/retry/clients/clients.h"

#include "common/hash.h"
#include "outbox/retry/clients/client_choice.h"
#include "outbox/retry/clients/client_rates.h"
#include "outbox/retry/handlers/endpoints.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_MAX ((size_t)2 * RETRY_GROUPS_MAX)
#define WAIT_APART_MS 10  /* between the tasks of a group that return */
#define MISSING_MS 180000 /* a group is forgotten if no task has asked for so long */

struct member {
    char address[RETRY_CLIENT_ADDRESS_SIZE];
    unsigned in_flight;
    unsigned failures; /* in a row */
    int64_t out_until_ms;
    uint64_t used;
};

struct members_group {
    char name[RETRY_NAME_BYTES_MAX + 1];
    enum client_route route;
    size_t first; /* of its members */
    size_t count;
    uint64_t turn;
    int64_t return_ms;  /* when the last task that waits for a client is due again */
    int64_t missing_ms; /* when a task found no live client; 0: none did */
};

struct members {
    struct member *list;
    size_t count;
    struct members_group *groups; /* by name */
    size_t group_count;
};

struct clients {
    struct members reading; /* the reading thread's */
    bool overfull;
    pthread_mutex_t lock; /* guards all below */
    struct members now;
    bool read;
    uint64_t used;
    struct client_rates rates;
};

static enum rc make_members(struct members *members)
{
    members->list = calloc(RETRY_CLIENTS_MAX, sizeof(*members->list));
    members->groups = calloc(GROUPS_MAX, sizeof(*members->groups));
    return members->list && members->groups ? RC_OK : RC_FATAL;
}

static void free_members(struct members *members)
{
    free(members->list);
    free(members->groups);
}

enum rc clients_open(struct clients **out, struct err *err)
{
    struct clients *clients = calloc(1, sizeof(*clients));

    *out = NULL;
    if (!clients)
        return err_fail(err, RC_FATAL, 0, "no memory for clients");
    pthread_mutex_init(&clients->lock, NULL);
    if (make_members(&clients->now) != RC_OK || make_members(&clients->reading) != RC_OK) {
        clients_close(clients);
        return err_fail(err, RC_FATAL, 0, "no memory for clients");
    }
    *out = clients;
    return RC_OK;
}

void clients_close(struct clients *clients)
{
    if (!clients)
        return;
    free_members(&clients->now);
    free_members(&clients->reading);
    pthread_mutex_destroy(&clients->lock);
    free(clients);
}

/* The index of the group, or where it would be. */
static size_t find_place(const struct members *members, const char *name)
{
    size_t from = 0;
    size_t to = members->group_count;

    while (from < to) {
        size_t middle = from + (to - from) / 2;

        if (strcmp(members->groups[middle].name, name) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static struct members_group *find_group(const struct members *members, const char *name)
{
    size_t at = find_place(members, name);

    return at < members->group_count && strcmp(members->groups[at].name, name) == 0
               ? &members->groups[at]
               : NULL;
}

/* NULL: there are too many groups. */
static struct members_group *make_group(struct members *members, const char *name)
{
    size_t at = find_place(members, name);
    struct members_group *group = &members->groups[at];

    if (at < members->group_count && strcmp(group->name, name) == 0)
        return group;
    if (members->group_count == GROUPS_MAX || strlen(name) >= sizeof(group->name))
        return NULL;
    memmove(group + 1, group, (members->group_count - at) * sizeof(*group));
    members->group_count++;
    memset(group, 0, sizeof(*group));
    snprintf(group->name, sizeof(group->name), "%s", name);
    return group;
}

static struct member *find_member(const struct members *members, const struct members_group *group,
                                  const char *address)
{
    for (size_t i = 0; group && i < group->count; i++)
        if (strcmp(members->list[group->first + i].address, address) == 0)
            return &members->list[group->first + i];
    return NULL;
}

void clients_begin(struct clients *clients)
{
    clients->reading.count = 0;
    clients->reading.group_count = 0;
}

bool clients_add(struct clients *clients, const char *name, const char *address,
                 enum client_route route)
{
    struct members *reading = &clients->reading;
    struct members_group *group;
    struct member *member;

    if (reading->count == RETRY_CLIENTS_MAX)
        return false;
    group = make_group(reading, name);
    if (!group || group->count == CLIENTS_GROUP_MAX)
        return false;
    if (group->count == 0)
        group->first = reading->count;
    assert(group->first + group->count == reading->count);
    group->route = route;
    group->count++;
    member = &reading->list[reading->count++];
    memset(member, 0, sizeof(*member));
    snprintf(member->address, sizeof(member->address), "%s", address);
    return true;
}

/* Takes over what is known of the clients that were there before. */
static void keep_states(const struct members *before, struct members *now,
                        struct members_group *group)
{
    const struct members_group *old = find_group(before, group->name);

    if (!old)
        return;
    group->turn = old->turn;
    group->return_ms = old->return_ms;
    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &now->list[group->first + i];
        const struct member *same = find_member(before, old, member->address);

        if (same)
            *member = *same;
    }
}

/* Groups without a client, for which tasks wait. */
static void keep_missing(const struct members *before, struct members *now, int64_t now_ms)
{
    for (size_t i = 0; i < before->group_count; i++) {
        const struct members_group *old = &before->groups[i];
        struct members_group *group;

        if (old->missing_ms == 0 || now_ms - old->missing_ms > MISSING_MS ||
            find_group(now, old->name))
            continue;
        group = make_group(now, old->name);
        if (!group)
            return;
        group->missing_ms = old->missing_ms;
        group->return_ms = old->return_ms;
    }
}

void clients_end(struct clients *clients, int64_t now_ms)
{
    struct members before;

    pthread_mutex_lock(&clients->lock);
    before = clients->now;
    for (size_t i = 0; i < clients->reading.group_count; i++)
        keep_states(&before, &clients->reading, &clients->reading.groups[i]);
    keep_missing(&before, &clients->reading, now_ms);
    clients->now = clients->reading;
    clients->reading = before;
    clients->read = true;
    pthread_mutex_unlock(&clients->lock);
}

static bool was_tried(const struct clients_attempt *attempt, const char *address)
{
    for (size_t i = 0; i < attempt->tried_count; i++)
        if (strcmp(attempt->tried[i], address) == 0)
            return true;
    return false;
}

/* When its time is over, one call at a time tries it until one works. */
static bool is_out(const struct member *member, int64_t now_ms)
{
    return member->out_until_ms > 0 && (now_ms < member->out_until_ms || member->in_flight > 0);
}

/* All are left out: the one that returns first. NULL: all of them were tried. */
static struct member *find_first_return(const struct members *members,
                                        const struct members_group *group,
                                        const struct clients_attempt *attempt)
{
    struct member *best = NULL;

    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &members->list[group->first + i];

        if (!was_tried(attempt, member->address) &&
            (!best || member->out_until_ms < best->out_until_ms))
            best = member;
    }
    return best;
}

/* NULL: no rate counts for each client. */
static struct client_rate *get_rate(struct clients *clients, const struct clients_attempt *attempt,
                                    const struct member *member, int64_t now_ms)
{
    uint64_t name;

    if (!attempt->rate || attempt->rate->per_s == 0)
        return NULL;
    name = hash_bytes(HASH_START, attempt->group, strlen(attempt->group) + 1);
    name = hash_bytes(name, attempt->scene, strlen(attempt->scene) + 1);
    name = hash_bytes(name, member->address, strlen(member->address));
    return client_rates_get(&clients->rates, name, attempt->rate, now_ms);
}

/* By consistent_hash a key stays with its client and waits for it. */
static bool is_busy(struct clients *clients, const struct members_group *group,
                    const struct clients_attempt *attempt, const struct member *member,
                    int64_t now_ms)
{
    const struct client_rate *rate = get_rate(clients, attempt, member, now_ms);

    return rate && group->route != CLIENT_CONSISTENT_HASH && !client_rate_has_token(rate);
}

/* Spends a token of the client. False: it has none, and attempt->wait_ms is set. */
static bool spend_token(struct clients *clients, struct clients_attempt *attempt,
                        const struct member *member, int64_t now_ms)
{
    struct client_rate *rate = get_rate(clients, attempt, member, now_ms);

    if (!rate)
        return true;
    if (client_rate_has_token(rate)) {
        client_rate_spend(rate);
        return true;
    }
    attempt->wait_ms = client_rate_wait_ms(rate, attempt->rate, now_ms);
    return false;
}

static struct member *choose_member(struct clients *clients, struct members_group *group,
                                    struct clients_attempt *attempt, int64_t now_ms,
                                    uint64_t random_bits)
{
    struct client_candidate candidates[CLIENTS_GROUP_MAX];
    struct member *members[CLIENTS_GROUP_MAX];
    struct member *busy = NULL;
    size_t count = 0;

    for (size_t i = 0; i < group->count; i++) {
        struct member *member = &clients->now.list[group->first + i];

        if (is_out(member, now_ms) || was_tried(attempt, member->address))
            continue;
        if (is_busy(clients, group, attempt, member, now_ms)) {
            /* The one that was called first has a token first. */
            busy = !busy || member->used < busy->used ? member : busy;
            continue;
        }
        candidates[count] =
            (struct client_candidate){member->address, member->in_flight, member->used};
        members[count++] = member;
    }
    attempt->is_last = count <= 1;
    if (count > 0)
        return members[client_choose(group->route, candidates, count, attempt->key, &group->turn,
                                     random_bits)];
    if (busy)
        return busy;
    return attempt->tried_count == 0 ? find_first_return(&clients->now, group, attempt) : NULL;
}

static enum clients_found pick_member(struct clients *clients, struct clients_attempt *attempt,
                                      int64_t now_ms, uint64_t random_bits)
{
    struct members_group *group = find_group(&clients->now, attempt->group);
    struct member *member;

    if (!clients->read)
        return CLIENTS_UNREAD;
    if (!group || group->count == 0) {
        group = make_group(&clients->now, attempt->group);
        if (group)
            group->missing_ms = now_ms;
        return CLIENTS_NONE;
    }
    member = choose_member(clients, group, attempt, now_ms, random_bits);
    if (!member)
        return CLIENTS_NONE;
    if (!spend_token(clients, attempt, member, now_ms))
        return CLIENTS_BUSY;
    member->in_flight++;
    member->used = ++clients->used;
    memcpy(attempt->tried[attempt->tried_count++], member->address, sizeof(member->address));
    return CLIENTS_FOUND;
}

enum clients_found clients_pick(struct clients *clients, struct clients_attempt *attempt,
                                int64_t now_ms, uint64_t random_bits)
{
    enum clients_found found;

    if (attempt->tried_count == CLIENTS_TRIES_MAX)
        return CLIENTS_NONE;
    pthread_mutex_lock(&clients->lock);
    found = pick_member(clients, attempt, now_ms, random_bits);
    pthread_mutex_unlock(&clients->lock);
    return found;
}

static bool note_outcome(struct member *member, enum clients_outcome outcome, int64_t now_ms,
                         uint64_t random_bits)
{
    if (member->in_flight > 0)
        member->in_flight--;
    if (outcome == CLIENTS_WORKED) {
        member->failures = 0;
        member->out_until_ms = 0;
        return false;
    }
    if (member->failures < UINT32_MAX)
        member->failures++;
    if (outcome == CLIENTS_UNSENT && member->failures < ENDPOINT_FAILURES_OUT)
        member->failures = ENDPOINT_FAILURES_OUT;
    if (member->failures < ENDPOINT_FAILURES_OUT)
        return false;
    member->out_until_ms = now_ms + endpoints_out_ms(member->failures, random_bits);
    return true;
}

bool clients_report(struct clients *clients, const struct clients_attempt *attempt,
                    enum clients_outcome outcome, int64_t now_ms, uint64_t random_bits)
{
    struct member *member;
    bool out = false;

    assert(attempt->tried_count > 0);
    pthread_mutex_lock(&clients->lock);
    member = find_member(&clients->now, find_group(&clients->now, attempt->group),
                         attempt->tried[attempt->tried_count - 1]);
    /* It may have expired meanwhile. */
    if (member)
        out = note_outcome(member, outcome, now_ms, random_bits);
    pthread_mutex_unlock(&clients->lock);
    return out;
}

size_t clients_count(struct clients *clients, const char *name)
{
    const struct members_group *group;
    size_t count;

    pthread_mutex_lock(&clients->lock);
    group = find_group(&clients->now, name);
    count = group ? group->count : 0;
    pthread_mutex_unlock(&clients->lock);
    return count;
}

int64_t clients_wait_ms(struct clients *clients, const char *name, int64_t now_ms)
{
    struct members_group *group;
    int64_t at_ms = now_ms + CLIENTS_WAIT_MS;

    pthread_mutex_lock(&clients->lock);
    group = find_group(&clients->now, name);
    if (group && at_ms < group->return_ms + WAIT_APART_MS)
        at_ms = group->return_ms + WAIT_APART_MS;
    if (at_ms > now_ms + CLIENTS_WAIT_MS_MAX)
        at_ms = now_ms + CLIENTS_WAIT_MS_MAX;
    if (group)
        group->return_ms = at_ms;
    pthread_mutex_unlock(&clients->lock);
    return at_ms - now_ms;
}

bool clients_missing(struct clients *clients, int64_t now_ms, char name[RETRY_NAME_BYTES_MAX + 1])
{
    bool missing = false;

    pthread_mutex_lock(&clients->lock);
    for (size_t i = 0; i < clients->now.group_count && !missing; i++) {
        const struct members_group *group = &clients->now.groups[i];

        missing =
            group->count == 0 && group->missing_ms > 0 && now_ms - group->missing_ms <= MISSING_MS;
        if (missing)
            memcpy(name, group->name, sizeof(group->name));
    }
    pthread_mutex_unlock(&clients->lock);
    return missing;
}
