/* SPDX-License-Identifier: MIT */
#include "schema/migrate/grants.h"

#include "common/nearest.h"
#include "schema/migrate/migrate.h"

#include <stdio.h>
#include <string.h>

/* Placeholders in the file for the names of this installation. */
#define OUTBOX_SIDE "outbox_side."
#define VOTES_SIDE "votes_side."
#define SINK_SIDE "sink_side."
#define API_LANE "api_lane"
#define RELAY_LANE "relay_lane"

#define LINE_SIZE 1024
#define LANE_SIZE 80
#define ROLE_SIZE 32

/* The role most like the one that was asked for. */
struct likely_role {
    struct nearest nearest;
    char name[ROLE_SIZE]; /* a copy of the word that nearest holds */
};

/* One walk through the file for one database. */
struct walk {
    struct buf *out;
    size_t from; /* where this database's part of out begins */
    const struct settings *settings;
    const struct migrate_target *target;
    struct buf comment; /* written before the first statement under it */
    bool has_grants;    /* the paragraph, in the file */
    unsigned sides;     /* of the target, without what is left out */

    /* For one role only. */
    const char *role;           /* NULL: all */
    const char *account;        /* as SQL; NULL: as in the file */
    char now[ROLE_SIZE];        /* the role of the paragraph; empty: before its first line */
    struct likely_role *likely; /* is offered each role */
    struct buf names;           /* of the tables: SELECT 'a' AS name UNION SELECT 'b' */
    struct buf reads;           /* SELECT 1 FROM d.a LIMIT 0 for each of them */
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

static void put_literal(struct buf *sql, const char *text)
{
    buf_char(sql, '\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            buf_char(sql, *text);
        buf_char(sql, *text);
    }
    buf_char(sql, '\'');
}

static bool begins_with(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

static bool is_quote(char c)
{
    return c == '\'' || c == '"' || c == '`';
}

/* Copies a part of an account without its quotes. Returns false if it is empty, too long, or not
 * one line. */
static bool copy_part(char *out, size_t size, const char *text, size_t len)
{
    if (len > 1 && is_quote(text[0]) && text[len - 1] == text[0]) {
        text++;
        len -= 2;
    }
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ')
            return false;
    return len > 0 && (size_t)snprintf(out, size, "%.*s", (int)len, text) < size;
}

static bool put_account_name(struct grants_account *account, const char *host)
{
    struct buf sql = {0};
    bool fits;

    put_literal(&sql, account->user);
    buf_char(&sql, '@');
    put_literal(&sql, host);
    fits = !sql.failed && sql.len < sizeof(account->sql);
    if (fits)
        snprintf(account->sql, sizeof(account->sql), "%s", buf_text(&sql));
    buf_done(&sql);
    return fits;
}

/* A host has no @, a user may. */
enum rc grants_account_read(struct grants_account *account, const char *text, struct err *err)
{
    const char *at = strrchr(text, '@');
    char host[GRANTS_USER_SIZE] = "%";

    if (copy_part(account->user, sizeof(account->user), text,
                  at ? (size_t)(at - text) : strlen(text)) &&
        (!at || copy_part(host, sizeof(host), at + 1, strlen(at + 1))) &&
        put_account_name(account, host))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0, "--account %s: expected USER or USER@HOST", text);
}

void grants_account_of_role(struct grants_account *account, const char *role)
{
    snprintf(account->user, sizeof(account->user), "tallybox_%s", role);
    snprintf(account->sql, sizeof(account->sql), "'tallybox_%s'@'%%'", role);
}

/* Keeps the name of a table that the role needs. */
static void add_table(struct walk *walk, const char *table, size_t len)
{
    struct buf name = {0};
    bool is_first = walk->names.len == 0;

    buf_print(&name, "'%.*s'", (int)len, table);
    if (name.failed || strstr(buf_text(&walk->names), buf_text(&name))) {
        walk->out->failed |= name.failed;
        buf_done(&name);
        return;
    }
    buf_print(&walk->names, "%s%s%s", is_first ? "SELECT " : " UNION SELECT ", buf_text(&name),
              is_first ? " AS name" : "");
    buf_text_put(&walk->reads, is_first ? "(SELECT 1 FROM " : " UNION ALL (SELECT 1 FROM ");
    put_database(&walk->reads, walk->target->settings->database, false);
    buf_print(&walk->reads, ".%.*s LIMIT 0)", (int)len, table);
    buf_done(&name);
}

/* A lane's table may lack the column, and a GRANT on a column that is not there would end the
 * client: the server decides. sql: the GRANT. */
static void put_created_at(struct walk *walk, const char *lane, struct buf *sql)
{
    struct buf text = {0};

    buf_cut(sql, sql->len - strlen(";\n"));
    buf_text_put(&text, "SET @tallybox = (SELECT IF(COUNT(*) > 0, ");
    put_literal(&text, buf_text(sql));
    buf_text_put(&text, ", 'DO 0') FROM information_schema.columns WHERE table_schema = ");
    put_literal(&text, walk->target->settings->database);
    buf_text_put(&text, " AND table_name = ");
    put_literal(&text, lane);
    buf_text_put(&text, " AND column_name = 'created_at');\n"
                        "PREPARE tallybox FROM @tallybox;\nEXECUTE tallybox;\n");
    put_statement(walk, &text);
    buf_done(&text);
}

/* line: "GRANT ... ON <side>", then what follows the side, with lane in place of a lane's word. */
static void put_grant(struct walk *walk, const char *line, size_t head_len, const char *rest,
                      const char *lane, size_t word_len)
{
    struct buf sql = {0};

    if (walk->role && lane)
        add_table(walk, lane, strlen(lane));
    else if (walk->role && *rest != '*')
        add_table(walk, rest, strcspn(rest, " "));
    buf_put(&sql, line, head_len);
    put_database(&sql, walk->target->settings->database, *rest == '*');
    buf_char(&sql, '.');
    if (lane)
        buf_text_put(&sql, lane);
    buf_text_put(&sql, rest + (lane ? word_len : 0));
    buf_char(&sql, '\n');
    if (walk->role && lane && begins_with(line, "GRANT SELECT (created_at) "))
        put_created_at(walk, lane, &sql);
    else
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

static const struct side_word {
    const char *word;
    enum migration_side side;
} side_words[] = {
    {OUTBOX_SIDE, MIGRATION_OUTBOX}, {VOTES_SIDE, MIGRATION_VOTES}, {SINK_SIDE, MIGRATION_SINK}};

/* A statement that names no side is for the server of the outbox. */
static void put_grant_line(struct walk *walk, const char *line)
{
    struct buf sql = {0};

    for (size_t i = 0; i < sizeof(side_words) / sizeof(side_words[0]); i++) {
        const char *at = strstr(line, side_words[i].word);

        if (!at)
            continue;
        if (walk->sides & side_words[i].side)
            put_side(walk, line, at, side_words[i].word);
        return;
    }
    if (walk->sides & MIGRATION_OUTBOX) {
        buf_print(&sql, "%s\n", line);
        put_statement(walk, &sql);
        buf_done(&sql);
    }
}

/* The first line of a role's paragraph is "-- role: ...". */
static void read_role(struct walk *walk, const char *line)
{
    size_t len = strspn(line + 3, "abcdefghijklmnopqrstuvwxyz_");

    if (walk->now[0] || !begins_with(line, "-- ") || line[3 + len] != ':' || len >= ROLE_SIZE)
        return;
    snprintf(walk->now, sizeof(walk->now), "%.*s", (int)len, line + 3);
    if (!walk->likely)
        return;
    nearest_offer(&walk->likely->nearest, walk->now);
    if (walk->likely->nearest.word == walk->now) {
        memcpy(walk->likely->name, walk->now, sizeof(walk->now));
        walk->likely->nearest.word = walk->likely->name;
    }
}

/* Puts the account that was chosen into a statement of the file, in place of the role's own. */
static void put_chosen_line(struct walk *walk, const char *line)
{
    const char *to = walk->account ? strstr(line, " TO 'tallybox_") : NULL;
    char chosen[LINE_SIZE];
    int len;

    if (!to) {
        put_grant_line(walk, line);
        return;
    }
    len = snprintf(chosen, sizeof(chosen), "%.*s TO %s;", (int)(to - line), line, walk->account);
    if (len < 0 || (size_t)len >= sizeof(chosen))
        walk->out->failed = true;
    else
        put_grant_line(walk, chosen);
}

/* An empty line ends a paragraph. One whose statements are all for the other side is left out with
 * its comment. */
static void walk_line(struct walk *walk, const char *line)
{
    read_role(walk, line);
    if (line[0] == '\0')
        walk->now[0] = '\0';
    if (walk->role && strcmp(walk->now, walk->role) != 0)
        return;
    if (begins_with(line, "GRANT ")) {
        walk->has_grants = true;
        put_chosen_line(walk, line);
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

void grants_put(struct buf *out, const struct settings *settings, bool outbox_only)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];
    size_t count = migrate_targets(settings, targets);

    if (outbox_only)
        count = 1;
    for (size_t i = 0; i < count; i++) {
        struct walk walk = {
            .out = out, .settings = settings, .target = &targets[i], .sides = targets[i].sides};

        if (outbox_only)
            walk.sides = MIGRATION_OUTBOX;
        if (count > 1)
            buf_print(out, "%s-- On the %s.\n", i > 0 ? "\n" : "", targets[i].place);
        walk.from = out->len;
        walk_file(&walk);
        buf_done(&walk.comment);
    }
}

/* Two statements that change nothing: the first tells what is missing, the second then ends the
 * client with an error, before the account exists or has a part of its privileges. */
static void put_guard(struct buf *out, const struct walk *walk, bool outbox_only)
{
    const char *database = walk->target->settings->database;

    if (walk->names.len == 0)
        return;
    buf_text_put(out, "SELECT CONCAT('missing in database ', ");
    put_literal(out, database);
    buf_print(out,
              ", ': ', GROUP_CONCAT(name ORDER BY name SEPARATOR ', '), ': run `tallybox migrate "
              "up%s` first, then this again%s') AS 'tallybox migrate grants' FROM (",
              outbox_only ? " --only outbox" : "",
              outbox_only
                  ? ""
                  : "; if it has the outbox only, add --only outbox to this command, or run "
                    "`tallybox migrate up --with votes` first");
    buf_put(out, walk->names.data, walk->names.len);
    buf_text_put(out, ") AS wanted WHERE name NOT IN (SELECT table_name FROM "
                      "information_schema.tables WHERE table_schema = ");
    put_literal(out, database);
    buf_text_put(out, ") HAVING COUNT(*) > 0;\n");
    buf_put(out, walk->reads.data, walk->reads.len);
    buf_text_put(out, ";\n");
}

/* An account that exists may be another installation's, which must not lose its password: CREATE
 * USER then ends the client, after this text. */
static void put_account_guard(struct buf *out, const struct grants_choice *choice,
                              const char *account)
{
    struct buf text = {0};

    buf_print(&text, "the account %s exists and keeps its password: the new one is not in force. ",
              account);
    if (choice->has_section)
        buf_print(
            &text,
            "If it is the account of this installation, let [role.%s] of the settings file "
            "have its name and the new password, and run this again; else choose another name "
            "with --account",
            choice->role);
    else
        buf_text_put(&text, "Run this again without --create-user, or choose another name with "
                            "--account");
    buf_text_put(out, "SELECT ");
    put_literal(out, buf_text(&text));
    buf_text_put(out, " AS 'tallybox migrate grants' FROM information_schema.user_privileges WHERE "
                      "grantee = ");
    put_literal(out, account);
    buf_text_put(out, " LIMIT 1;\n");
    out->failed |= text.failed;
    buf_done(&text);
}

static void put_account(struct buf *out, const struct grants_choice *choice, const char *account,
                        const char *password)
{
    if (!password)
        return;
    if (choice->is_new_account)
        put_account_guard(out, choice, account);
    buf_print(out, "CREATE USER %s%s IDENTIFIED BY ",
              choice->is_new_account ? "" : "IF NOT EXISTS ", account);
    put_literal(out, password);
    buf_text_put(out, ";\n");
    if (choice->is_new_account)
        return;
    buf_print(out, "ALTER USER %s IDENTIFIED BY ", account);
    put_literal(out, password);
    buf_text_put(out, ";\n");
}

/* The statements for one server. Those of all its databases that must fail first precede the
 * account. */
struct server_part {
    struct buf checks;
    struct buf grants;
};

/* Statements of a database that the role does not use are none. */
static void add_database(struct server_part *part, struct walk *walk,
                         const struct grants_choice *choice)
{
    struct buf text = {0};

    walk->out = &text;
    walk_file(walk);
    if (text.len > 0) {
        const char *grants = strstr(buf_text(&text), "GRANT ");
        size_t comment_len = grants ? (size_t)(grants - text.data) : 0;

        buf_print(&part->checks, "-- On the %s.\n", walk->target->place);
        buf_put(&part->checks, text.data, comment_len);
        if (walk->names.len > 0)
            buf_text_put(&part->checks,
                         "-- Run this as an administrator, after `tallybox migrate up`.\n");
        put_guard(&part->checks, walk, choice->outbox_only);
        buf_put(&part->grants, text.data + comment_len, text.len - comment_len);
    }
    part->checks.failed |= text.failed || walk->names.failed || walk->reads.failed;
    buf_done(&text);
    buf_done(&walk->comment);
    buf_done(&walk->names);
    buf_done(&walk->reads);
}

static void end_server(struct buf *out, struct server_part *part,
                       const struct grants_choice *choice, const char *password)
{
    struct grants_account own;

    grants_account_of_role(&own, choice->role);
    if (part->grants.len > 0) {
        buf_put(out, part->checks.data, part->checks.len);
        put_account(out, choice, choice->account ? choice->account : own.sql, password);
        buf_put(out, part->grants.data, part->grants.len);
    }
    out->failed |= part->checks.failed || part->grants.failed;
    buf_done(&part->checks);
    buf_done(&part->grants);
}

enum rc grants_put_role(struct buf *out, const struct settings *settings,
                        const struct grants_choice *choice, struct err *err)
{
    struct migrate_target targets[MIGRATE_TARGETS_MAX];
    size_t count = migrate_targets(settings, targets);
    struct likely_role likely = {.nearest = {.typed = choice->role}};
    struct server_part part = {0};
    const char *password = choice->password;
    size_t before = out->len;

    for (size_t i = 0; i < count; i++) {
        struct walk walk = {.settings = settings,
                            .target = &targets[i],
                            .sides = targets[i].sides,
                            .role = choice->role,
                            .account = choice->account,
                            .likely = &likely};

        if (choice->outbox_only)
            walk.sides &= MIGRATION_OUTBOX;
        add_database(&part, &walk, choice);
        if (i + 1 < count && migrate_is_one_server(targets[i].settings, targets[i + 1].settings))
            continue;
        end_server(out, &part, choice, password);
        password = choice->sink_password;
    }
    if (out->failed || out->len > before)
        return RC_OK;
    if (likely.nearest.word && strcmp(likely.name, choice->role) != 0)
        return err_fail(err, RC_REJECT, 0, "there is no role \"%s\": did you mean \"%s\"?",
                        choice->role, likely.name);
    return err_fail(err, RC_REJECT, 0,
                    "there is no role \"%s\"; `tallybox migrate grants` shows all of them",
                    choice->role);
}
