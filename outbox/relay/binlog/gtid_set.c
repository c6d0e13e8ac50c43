/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/gtid_set.h"

#include "common/id.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define UUID_SIZE 16
#define UUID_TEXT_LEN 36
#define INTERVALS_FIRST 4

/* The largest number of a transaction on MySQL; its binary form has the number behind it. */
#define SEQUENCE_MAX (INT64_MAX - 1)

/* Marks the form with tags: 1 in the lowest and in the highest byte of the first number, and the
 * number of sources between them. */
#define TAGGED_FORM (UINT64_C(1) << 56 | 1)
#define TAGGED_COUNT_SHIFT 8

void gtid_set_done(struct gtid_set *set)
{
    for (size_t i = 0; i < set->source_count; i++)
        free(set->sources[i].intervals);
    free(set->sources);
    free(set->domains);
    memset(set, 0, sizeof(*set));
}

static enum rc fail_memory(struct err *err)
{
    return err_fail(err, RC_FATAL, 0, "no memory for a set of GTIDs");
}

static int compare_source(const struct gtid_source *source, const uint8_t *uuid, const char *tag)
{
    int order = memcmp(source->uuid, uuid, UUID_SIZE);

    return order != 0 ? order : strcmp(source->tag, tag);
}

/* Returns the place of the source, or where it belongs. */
static size_t find_source(const struct gtid_set *set, const uint8_t *uuid, const char *tag,
                          bool *found)
{
    size_t at = 0;
    int order = 1;

    while (at < set->source_count && (order = compare_source(&set->sources[at], uuid, tag)) < 0)
        at++;
    *found = at < set->source_count && order == 0;
    return at;
}

static struct gtid_source *take_source(struct gtid_set *set, const uint8_t *uuid, const char *tag)
{
    bool found;
    size_t at = find_source(set, uuid, tag, &found);
    struct gtid_source *sources = set->sources;

    if (found)
        return &sources[at];
    sources = realloc(sources, (set->source_count + 1) * sizeof(*sources));
    if (!sources)
        return NULL;
    set->sources = sources;
    memmove(&sources[at + 1], &sources[at], (set->source_count - at) * sizeof(*sources));
    memset(&sources[at], 0, sizeof(sources[at]));
    memcpy(sources[at].uuid, uuid, UUID_SIZE);
    memcpy(sources[at].tag, tag, strlen(tag) + 1);
    set->source_count++;
    return &sources[at];
}

/* Returns the first interval that ends at or behind `number`: count if there is none. Most numbers
 * belong behind the last interval. */
static size_t find_interval(const struct gtid_source *source, uint64_t number)
{
    size_t low = 0;
    size_t high = source->count;

    if (high > 0 && source->intervals[high - 1].to < number)
        return high;
    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (source->intervals[middle].to < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool make_room(struct gtid_source *source)
{
    size_t size = source->size > 0 ? 2 * source->size : INTERVALS_FIRST;
    struct gtid_interval *intervals;

    if (source->count < source->size)
        return true;
    intervals = realloc(source->intervals, size * sizeof(*intervals));
    if (!intervals)
        return false;
    source->intervals = intervals;
    source->size = size;
    return true;
}

/* Merges it with all that it overlaps or touches. False: no memory. */
static bool add_interval(struct gtid_source *source, uint64_t from, uint64_t to)
{
    size_t first = find_interval(source, from > 0 ? from - 1 : 0);
    size_t end = first;

    while (end < source->count && source->intervals[end].from <= to + 1) {
        if (source->intervals[end].from < from)
            from = source->intervals[end].from;
        if (source->intervals[end].to > to)
            to = source->intervals[end].to;
        end++;
    }
    if (end == first && !make_room(source))
        return false;
    memmove(&source->intervals[first + 1], &source->intervals[end],
            (source->count - end) * sizeof(*source->intervals));
    source->count = source->count - (end - first) + 1;
    source->intervals[first] = (struct gtid_interval){from, to};
    return true;
}

static enum rc set_domain(struct gtid_set *set, const struct gtid_domain *last, struct err *err)
{
    struct gtid_domain *domains = set->domains;
    size_t at = 0;

    while (at < set->domain_count && domains[at].domain < last->domain)
        at++;
    if (at == set->domain_count || domains[at].domain != last->domain) {
        domains = realloc(domains, (set->domain_count + 1) * sizeof(*domains));
        if (!domains)
            return fail_memory(err);
        set->domains = domains;
        memmove(&domains[at + 1], &domains[at], (set->domain_count - at) * sizeof(*domains));
        set->domain_count++;
    }
    domains[at] = *last;
    return RC_OK;
}

enum rc gtid_set_add(struct gtid_set *set, const struct binlog_gtid *gtid, struct err *err)
{
    struct gtid_source *source;

    if (gtid->anonymous)
        return RC_OK;
    if (gtid->mariadb)
        return set_domain(set, &(struct gtid_domain){gtid->domain, gtid->server_id, gtid->sequence},
                          err);
    source = take_source(set, gtid->uuid, gtid->tag);
    return source && add_interval(source, gtid->sequence, gtid->sequence) ? RC_OK
                                                                          : fail_memory(err);
}

bool gtid_set_has(const struct gtid_set *set, const struct binlog_gtid *gtid)
{
    const struct gtid_source *source;
    size_t at;
    bool found;

    if (gtid->anonymous)
        return false;
    if (gtid->mariadb) {
        for (size_t i = 0; i < set->domain_count; i++) {
            if (set->domains[i].domain == gtid->domain)
                return set->domains[i].sequence >= gtid->sequence;
        }
        return false;
    }
    at = find_source(set, gtid->uuid, gtid->tag, &found);
    if (!found)
        return false;
    source = &set->sources[at];
    at = find_interval(source, gtid->sequence);
    return at < source->count && source->intervals[at].from <= gtid->sequence;
}

static void put_uuid(struct buf *out, const uint8_t *uuid)
{
    struct id id;
    char text[ID_TEXT_SIZE];

    memcpy(id.bytes, uuid, UUID_SIZE);
    id_format(&id, text);
    buf_text_put(out, text);
}

static void put_source(const struct gtid_set *set, size_t at, struct buf *out)
{
    const struct gtid_source *source = &set->sources[at];

    /* Tags of one server share its uuid, as the server prints them. */
    if (at == 0 || memcmp(source->uuid, set->sources[at - 1].uuid, UUID_SIZE) != 0) {
        if (at > 0)
            buf_char(out, ',');
        put_uuid(out, source->uuid);
    }
    if (source->tag[0])
        buf_print(out, ":%s", source->tag);
    for (size_t i = 0; i < source->count; i++) {
        buf_print(out, ":%" PRIu64, source->intervals[i].from);
        if (source->intervals[i].to > source->intervals[i].from)
            buf_print(out, "-%" PRIu64, source->intervals[i].to);
    }
}

static void put_domain(const struct gtid_domain *domain, struct buf *out)
{
    buf_print(out, "%" PRIu32 "-%" PRIu32 "-%" PRIu64, domain->domain, domain->server_id,
              domain->sequence);
}

void gtid_set_put_text(const struct gtid_set *set, struct buf *out)
{
    for (size_t i = 0; i < set->source_count; i++)
        put_source(set, i, out);
    for (size_t i = 0; i < set->domain_count; i++) {
        if (i > 0)
            buf_char(out, ',');
        put_domain(&set->domains[i], out);
    }
}

void gtid_put_text(const struct binlog_gtid *gtid, struct buf *out)
{
    if (gtid->anonymous || gtid->sequence == 0)
        return;
    if (gtid->mariadb) {
        put_domain(&(struct gtid_domain){gtid->domain, gtid->server_id, gtid->sequence}, out);
        return;
    }
    put_uuid(out, gtid->uuid);
    if (gtid->tag[0])
        buf_print(out, ":%s", gtid->tag);
    buf_print(out, ":%" PRIu64, gtid->sequence);
}

void gtid_set_put_bytes(const struct gtid_set *set, struct buf *out)
{
    bool tagged = false;

    for (size_t i = 0; i < set->source_count; i++)
        tagged = tagged || set->sources[i].tag[0];
    buf_le(out,
           tagged ? TAGGED_FORM | (uint64_t)set->source_count << TAGGED_COUNT_SHIFT
                  : set->source_count,
           8);
    for (size_t i = 0; i < set->source_count; i++) {
        const struct gtid_source *source = &set->sources[i];

        buf_put(out, source->uuid, UUID_SIZE);
        if (tagged) {
            /* A length below 64 is one byte of mysql::serialization. */
            buf_char(out, (char)(strlen(source->tag) << 1));
            buf_text_put(out, source->tag);
        }
        buf_le(out, source->count, 8);
        for (size_t j = 0; j < source->count; j++) {
            buf_le(out, source->intervals[j].from, 8);
            buf_le(out, source->intervals[j].to + 1, 8);
        }
    }
}

static const char *skip_blanks(const char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

/* Reads digits and the blanks behind them. */
static bool read_number(const char **text, uint64_t max, uint64_t *number)
{
    char *end;

    if (!isdigit((unsigned char)**text))
        return false;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    if (errno != 0 || *number > max)
        return false;
    *text = skip_blanks(end);
    return true;
}

static bool read_char(const char **text, char wanted)
{
    if (**text != wanted)
        return false;
    *text = skip_blanks(*text + 1);
    return true;
}

static enum rc fail_text(struct gtid_set *set, const char *whole, const char *at, const char *form,
                         struct err *err)
{
    gtid_set_done(set);
    return err_fail(err, RC_REJECT, 0,
                    "not a set of GTIDs: expected %s at character %td of \"%.100s\"", form,
                    at - whole + 1, whole);
}

#define MARIADB_FORM "domain-server-sequence, with commas between them,"

enum rc gtid_set_parse_mariadb(struct gtid_set *set, const char *text, struct err *err)
{
    const char *at = skip_blanks(text);
    uint64_t domain;
    uint64_t server_id;
    struct gtid_domain last;
    enum rc rc;

    if (!*at)
        return RC_OK;
    do {
        if (!read_number(&at, UINT32_MAX, &domain) || !read_char(&at, '-') ||
            !read_number(&at, UINT32_MAX, &server_id) || !read_char(&at, '-') ||
            !read_number(&at, UINT64_MAX, &last.sequence))
            return fail_text(set, text, at, MARIADB_FORM, err);
        last.domain = (uint32_t)domain;
        last.server_id = (uint32_t)server_id;
        rc = set_domain(set, &last, err);
        if (rc != RC_OK) {
            gtid_set_done(set);
            return rc;
        }
    } while (read_char(&at, ','));
    return *at ? fail_text(set, text, at, MARIADB_FORM, err) : RC_OK;
}

/* A tag begins with a letter or an underscore; upper case means the same. */
static bool read_tag(const char **text, char tag[BINLOG_TAG_SIZE])
{
    size_t len = 0;

    if (!isalpha((unsigned char)**text) && **text != '_')
        return false;
    while (isalnum((unsigned char)(*text)[len]) || (*text)[len] == '_') {
        if (len + 1 == BINLOG_TAG_SIZE)
            return false;
        tag[len] = (char)tolower((unsigned char)(*text)[len]);
        len++;
    }
    tag[len] = '\0';
    *text = skip_blanks(*text + len);
    return true;
}

/* An interval, or one number. Empty intervals are not written by a server. If it is none, text
 * stays at its begin. */
static bool read_interval(const char **text, struct gtid_interval *interval)
{
    const char *at = *text;

    if (!read_number(&at, SEQUENCE_MAX, &interval->from) || interval->from == 0)
        return false;
    interval->to = interval->from;
    if (read_char(&at, '-') &&
        (!read_number(&at, SEQUENCE_MAX, &interval->to) || interval->to < interval->from))
        return false;
    *text = at;
    return true;
}

/* One server with its tags. */
static bool read_server(const char **text, struct gtid_set *set, bool *memory)
{
    struct gtid_source *source = NULL;
    struct gtid_interval interval;
    struct id id;
    char tag[BINLOG_TAG_SIZE] = "";

    if (!id_parse(&id, *text, strnlen(*text, UUID_TEXT_LEN)))
        return false;
    *text = skip_blanks(*text + UUID_TEXT_LEN);
    if (**text != ':')
        return false;
    while (read_char(text, ':')) {
        if (read_tag(text, tag)) {
            source = NULL;
            continue;
        }
        if (!read_interval(text, &interval))
            return false;
        source = take_source(set, id.bytes, tag);
        *memory = source && add_interval(source, interval.from, interval.to);
        if (!*memory)
            return false;
    }
    return source != NULL;
}

#define MYSQL_FORM "uuid[:tag]:number[-number], with commas between servers,"

enum rc gtid_set_parse_mysql(struct gtid_set *set, const char *text, struct err *err)
{
    const char *at = skip_blanks(text);
    bool memory = true;

    if (!*at)
        return RC_OK;
    do {
        if (read_server(&at, set, &memory))
            continue;
        if (memory)
            return fail_text(set, text, at, MYSQL_FORM, err);
        gtid_set_done(set);
        return fail_memory(err);
    } while (read_char(&at, ','));
    return *at ? fail_text(set, text, at, MYSQL_FORM, err) : RC_OK;
}
