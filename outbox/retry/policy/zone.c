/* SPDX-License-Identifier: MIT */
#include "outbox/retry/policy/zone.h"

#include "outbox/retry/policy/zone_rule.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 44
#define TYPE_BYTES 6
/* Clocks changed by no more than this at once, and no sooner again. */
#define CHANGE_S_MAX (2 * 86400)

struct change {
    int64_t utc_s;
    int32_t ahead_s; /* from then on */
};

struct zone {
    int32_t first_s; /* before the first change */
    struct change *changes;
    size_t count;
    bool has_rule; /* it applies after the last change */
    struct zone_rule rule;
};

struct header {
    size_t utc_count;
    size_t standard_count;
    size_t leap_count;
    size_t change_count;
    size_t type_count;
    size_t char_count;
};

static uint64_t read_big(const unsigned char *at, size_t bytes)
{
    uint64_t value = 0;

    for (size_t i = 0; i < bytes; i++)
        value = value << 8 | at[i];
    return value;
}

static int32_t read_i32(const unsigned char *at)
{
    return (int32_t)(uint32_t)read_big(at, 4);
}

static bool read_header(struct header *header, const unsigned char *at, size_t left)
{
    size_t *counts[] = {&header->utc_count,    &header->standard_count, &header->leap_count,
                        &header->change_count, &header->type_count,     &header->char_count};

    if (left < HEADER_BYTES || memcmp(at, "TZif", 4) != 0)
        return false;
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        *counts[i] = (size_t)read_big(at + 20 + i * 4, 4);
        if (*counts[i] > ZONE_FILE_BYTES_MAX)
            return false;
    }
    return true;
}

static size_t compute_body_bytes(const struct header *header, size_t time_bytes)
{
    return header->change_count * (time_bytes + 1) + header->type_count * TYPE_BYTES +
           header->char_count + header->leap_count * (time_bytes + 4) + header->standard_count +
           header->utc_count;
}

static bool read_changes(struct zone *zone, const struct header *header, const unsigned char *body)
{
    const unsigned char *indexes = body + header->change_count * 8;
    const unsigned char *types = indexes + header->change_count;

    if (header->type_count == 0)
        return false;
    zone->first_s = read_i32(types);
    for (size_t i = 0; i < header->change_count; i++) {
        if (indexes[i] >= header->type_count)
            return false;
        zone->changes[i].utc_s = (int64_t)read_big(body + i * 8, 8);
        zone->changes[i].ahead_s = read_i32(types + (size_t)indexes[i] * TYPE_BYTES);
        if (i > 0 && zone->changes[i].utc_s <= zone->changes[i - 1].utc_s)
            return false;
        if (abs(zone->changes[i].ahead_s) > CHANGE_S_MAX)
            return false;
    }
    zone->count = header->change_count;
    return abs(zone->first_s) <= CHANGE_S_MAX;
}

/* "\n" TZ text "\n"; an empty text leaves the last change in force. */
static bool read_footer(struct zone *zone, const unsigned char *at, size_t left)
{
    const unsigned char *end = left > 1 ? memchr(at + 1, '\n', left - 1) : NULL;

    if (left < 2 || at[0] != '\n' || !end)
        return false;
    if (end == at + 1)
        return true;
    zone->has_rule = zone_rule_parse(&zone->rule, (const char *)at + 1, (size_t)(end - at) - 1);
    return zone->has_rule;
}

/* Version 2 and later hold everything twice; the second half has times of 64 bits. */
static enum rc read_file(struct zone *zone, const unsigned char *bytes, size_t len, struct err *err)
{
    static const char sentence[] = "it is not a time zone file of version 2 or later";
    struct header header;
    size_t at;
    size_t body;

    if (!read_header(&header, bytes, len) || bytes[4] < '2')
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    at = HEADER_BYTES + compute_body_bytes(&header, 4);
    if (at > len || !read_header(&header, bytes + at, len - at))
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    at += HEADER_BYTES;
    body = compute_body_bytes(&header, 8);
    if (body > len - at)
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    zone->changes = calloc(header.change_count + 1, sizeof(*zone->changes));
    if (!zone->changes)
        return err_fail(err, RC_FATAL, 0, "no memory for a time zone");
    if (!read_changes(zone, &header, bytes + at) ||
        !read_footer(zone, bytes + at + body, len - at - body))
        return err_fail(err, RC_REJECT, 0, "%s", sentence);
    return RC_OK;
}

static enum rc make_zone(struct zone **out, struct err *err)
{
    *out = calloc(1, sizeof(**out));
    return *out ? RC_OK : err_fail(err, RC_FATAL, 0, "no memory for a time zone");
}

enum rc zone_parse(struct zone **out, const void *bytes, size_t len, struct err *err)
{
    struct zone *zone;
    enum rc rc = make_zone(&zone, err);

    *out = NULL;
    if (rc != RC_OK)
        return rc;
    rc = read_file(zone, bytes, len, err);
    if (rc == RC_OK)
        *out = zone;
    else
        zone_close(zone);
    return rc;
}

/* The characters of a zone's name: no name leads out of the folder. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len >= ZONE_NAME_SIZE || name[0] == '/' || strstr(name, ".."))
        return false;
    return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") ==
           len;
}

static enum rc parse_file(struct zone **zone, FILE *file, struct err *err)
{
    unsigned char *bytes = malloc(ZONE_FILE_BYTES_MAX);
    size_t len;
    enum rc rc;

    if (!bytes)
        return err_fail(err, RC_FATAL, 0, "no memory for a time zone");
    len = fread(bytes, 1, ZONE_FILE_BYTES_MAX, file);
    rc = ferror(file) ? err_fail(err, RC_REJECT, errno, "%s", strerror(errno))
                      : zone_parse(zone, bytes, len, err);
    free(bytes);
    return rc;
}

enum rc zone_open(struct zone **zone, const char *folder, const char *name, struct err *err)
{
    char path[512];
    FILE *file;
    enum rc rc;

    *zone = NULL;
    if (strcmp(name, "UTC") == 0)
        return make_zone(zone, err);
    if (!is_name(name))
        return err_fail(err, RC_REJECT, 0, "\"%.60s\" is not the name of a time zone", name);
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    file = fopen(path, "rbe");
    if (!file)
        return err_fail(err, RC_REJECT, errno,
                        "there is no time zone %s: %s: %s (the zones are in the package tzdata)",
                        name, path, strerror(errno));
    rc = parse_file(zone, file, err);
    fclose(file);
    if (rc != RC_OK)
        err_wrap(err, "time zone %s: %s", name, path);
    return rc;
}

void zone_close(struct zone *zone)
{
    if (!zone)
        return;
    free(zone->changes);
    free(zone);
}

int32_t zone_ahead_s(const struct zone *zone, int64_t utc_s)
{
    size_t low = 0;
    size_t high = zone->count;

    /* How many changes have happened by then. */
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (zone->changes[middle].utc_s <= utc_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == zone->count && zone->has_rule)
        return zone_rule_ahead_s(&zone->rule, utc_s);
    return low == 0 ? zone->first_s : zone->changes[low - 1].ahead_s;
}

int64_t zone_utc_s(const struct zone *zone, int64_t local_s)
{
    /* Far enough on both sides to be before and after a nearby change of the clocks. */
    int32_t before_s = zone_ahead_s(zone, local_s - CHANGE_S_MAX / 2);
    int32_t behind_s = zone_ahead_s(zone, local_s + CHANGE_S_MAX / 2);
    int64_t first = local_s - before_s;

    if (zone_ahead_s(zone, first) == before_s)
        return first;
    if (zone_ahead_s(zone, local_s - behind_s) == behind_s)
        return local_s - behind_s;
    return first;
}
