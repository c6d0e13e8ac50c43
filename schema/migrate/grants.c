/* SPDX-License-Identifier: MIT */
#include "schema/migrate/grants.h"

#include "schema/migrate/migration.h"
#include "schema/migrate/target.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* Placeholders in the file for the names of this installation. */
#define OUTBOX_SIDE "outbox_side."
#define SINK_SIDE "sink_side."
#define API_LANE "api_lane"
#define RELAY_LANE "relay_lane"

#define LINE_SIZE 512
#define LANE_SIZE 80

/* One walk through the file for one database. */
struct walk {
    struct buf *out;
    size_t from; /* where this database's part of out begins */
    const struct settings *settings;
    const struct migrate_target *target;
    struct buf comment; /* written before the first statement under it */
    bool has_grants;    /* the paragraph, in the file */
};

/* Whether this part has the statement already: it comes twice if both sides are one database. */
static bool is_there(struct walk *walk, const char *statement)
{
    return strstr(buf_text(walk->out) + walk->from, statement) != NULL;
}

static void put_statement(struct walk *walk, struct buf *statement)
{
    if (statement->failed)
        walk->out->failed = true;
    else if (!is_there(walk, buf_text(statement))) {
        buf_put(walk->out, walk->comment.data, walk->comment.len);
        buf_reset(&walk->comment);
        buf_put(walk->out, statement->data, statement->len);
    }
}

/* In the grant of a whole database _ and % are wildcards unless a backslash precedes them. */
static void put_database(struct buf *sql, const char *name, bool whole)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

    if (name[strspn(name, plain)] == '\0') {
        buf_text_put(sql, name);
        return;
    }
    buf_char(sql, '`');
    for (; *name; name++) {
        if (*name == '`' || (whole && (*name == '_' || *name == '%')))
            buf_char(sql, *name == '`' ? '`' : '\\');
        buf_char(sql, *name);
    }
    buf_char(sql, '`');
}

/* line: "GRANT ... ON <side>", then what follows the side, with lane in place of a lane's word. */
static void put_grant(struct walk *walk, const char *line, size_t head_len, const char *rest,
                      const char *lane, size_t word_len)
{
    struct buf sql = {0};

    buf_put(&sql, line, head_len);
    put_database(&sql, walk->target->settings->database, *rest == '*');
    buf_char(&sql, '.');
    if (lane)
        buf_text_put(&sql, lane);
    buf_text_put(&sql, rest + (lane ? word_len : 0));
    buf_char(&sql, '\n');
    put_statement(walk, &sql);
    buf_done(&sql);
}

/* As outbox_lane_name() names them. */
static void put_api_lanes(struct walk *walk, const char *line, size_t head_len, const char *rest)
{
    for (int64_t i = 0; i < walk->settings->api.lane_count; i++) {
        char lane[LANE_SIZE] = "outbox";

        if (i > 0)
            snprintf(lane, sizeof(lane), "outbox_%lld", (long long)i);
        put_grant(walk, line, head_len, rest, lane, strlen(API_LANE));
    }
}

static void put_relay_lanes(struct walk *walk, const char *line, size_t head_len, const char *rest)
{
    for (size_t i = 0; i < walk->settings->lane_count; i++)
        put_grant(walk, line, head_len, rest, walk->settings->lanes[i].table, strlen(RELAY_LANE));
}

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

static void put_side(struct walk *walk, const char *line, const char *at, const char *side)
{
    const char *rest = at + strlen(side);
    size_t head_len = (size_t)(at - line);

    if (begins_with(rest, API_LANE " "))
        put_api_lanes(walk, line, head_len, rest);
    else if (begins_with(rest, RELAY_LANE " "))
        put_relay_lanes(walk, line, head_len, rest);
    else
        put_grant(walk, line, head_len, rest, NULL, 0);
}

/* A statement that names no side is for the server of the outbox. */
static void put_grant_line(struct walk *walk, const char *line)
{
    const char *outbox = strstr(line, OUTBOX_SIDE);
    const char *sink = strstr(line, SINK_SIDE);
    struct buf sql = {0};

    if (sink) {
        if (walk->target->sides & MIGRATION_SINK)
            put_side(walk, line, sink, SINK_SIDE);
    } else if (walk->target->sides & MIGRATION_OUTBOX) {
        if (outbox) {
            put_side(walk, line, outbox, OUTBOX_SIDE);
            return;
        }
        buf_print(&sql, "%s\n", line);
        put_statement(walk, &sql);
        buf_done(&sql);
    }
}

/* An empty line ends a paragraph. One whose statements are all for the other side is left out with
 * its comment. */
static void walk_line(struct walk *walk, const char *line)
{
    if (begins_with(line, "GRANT ")) {
        walk->has_grants = true;
        put_grant_line(walk, line);
        return;
    }
    if (line[0] == '\0') {
        if (!walk->has_grants)
            buf_put(walk->out, walk->comment.data, walk->comment.len);
        buf_reset(&walk->comment);
        walk->has_grants = false;
    }
    buf_print(&walk->comment, "%s\n", line);
}

static void walk_file(struct walk *walk)
{
    const char *at = (const char *)grants_sql;
    const char *end = at + grants_sql_len;

    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        char line[LINE_SIZE];

        snprintf(line, sizeof(line), "%.*s", (int)(stop - at), at);
        walk_line(walk, line);
        at = stop + 1;
    }
}

void grants_put(struct buf *out, const struct settings *settings)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];
    size_t count = migrate_targets(settings, targets);

    for (size_t i = 0; i < count; i++) {
        struct walk walk = {.out = out, .settings = settings, .target = &targets[i]};

        if (count > 1)
            buf_print(out, "%s-- On the %s.\n", i > 0 ? "\n" : "", targets[i].place);
        walk.from = out->len;
        walk_file(&walk);
        buf_done(&walk.comment);
    }
}
