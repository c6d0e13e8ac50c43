/* SPDX-License-Identifier: MIT */
#include "consumer/doctor/privileges.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NAME_SIZE 140 /* of a database or table: 64 characters, quoted and with escapes */
#define PRIVILEGE_SIZE 64
#define ROLE_PREFIX "'tallybox_"

/* A part of a text; not terminated. */
struct part {
    const char *at;
    size_t len;
};

/* "GRANT <privileges> ON <database>.<table> TO ..." */
struct grant {
    struct part privileges;
    char database[NAME_SIZE]; /* without quotes; escapes of wildcards stay */
    char table[NAME_SIZE];
};

static const char *find_text(const struct part *part, const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i + len <= part->len; i++)
        if (strncasecmp(part->at + i, text, len) == 0)
            return part->at + i;
    return NULL;
}

/* Reads `name`, "name" or name. Returns what follows it. */
static const char *read_name(char name[NAME_SIZE], const char *at, const char *end)
{
    char quote = at < end && (*at == '`' || *at == '"') ? *at++ : '\0';
    size_t len = 0;

    for (; at < end; at++) {
        if (quote && *at == quote) {
            if (at + 1 == end || at[1] != quote) {
                at++;
                break;
            }
            at++;
        } else if (!quote && (*at == '.' || *at == ' ')) {
            break;
        }
        if (len + 1 < NAME_SIZE)
            name[len++] = *at;
    }
    name[len] = '\0';
    return at;
}

/* False: the line grants a role, a routine or nothing. */
static bool read_grant(struct grant *grant, const struct part *line)
{
    static const char word[] = "GRANT ";
    const char *end = line->at + line->len;
    const char *on = find_text(line, " ON ");
    const char *at;

    if (line->len < sizeof(word) || strncasecmp(line->at, word, sizeof(word) - 1) != 0 || !on)
        return false;
    grant->privileges.at = line->at + sizeof(word) - 1;
    grant->privileges.len = (size_t)(on - grant->privileges.at);
    at = read_name(grant->database, on + 4, end);
    if (at == end || *at != '.')
        return false;
    read_name(grant->table, at + 1, end);
    return true;
}

/* As LIKE: % and _ are wildcards unless a backslash precedes them. */
static bool is_like(const char *pattern, const char *text)
{
    for (; *pattern; pattern++, text++) {
        if (*pattern == '%') {
            for (;; text++) {
                if (is_like(pattern + 1, text))
                    return true;
                if (!*text)
                    return false;
            }
        }
        if (!*text)
            return false;
        if (*pattern == '_')
            continue;
        if (*pattern == '\\' && pattern[1])
            pattern++;
        if (*pattern != *text)
            return false;
    }
    return !*text;
}

/* Copies a name without the backslashes before wildcards. */
static void copy_plain(char out[NAME_SIZE], const char *name)
{
    size_t len = 0;

    for (; *name; name++)
        if (*name != '\\' || !name[1])
            out[len++] = *name;
    out[len] = '\0';
}

static bool is_within(const struct grant *granted, const struct grant *wanted)
{
    char database[NAME_SIZE];

    copy_plain(database, wanted->database);
    if (strcmp(granted->table, "*") == 0)
        return strcmp(granted->database, "*") == 0 || is_like(granted->database, database);
    return strcmp(granted->database, database) == 0 && strcmp(granted->table, wanted->table) == 0;
}

/* Takes the next "SELECT" or "UPDATE (a, b)" from a list. */
static bool next_privilege(struct part *list, struct part *privilege)
{
    size_t len = 0;
    int depth = 0;

    while (list->len > 0 && (*list->at == ' ' || *list->at == ',')) {
        list->at++;
        list->len--;
    }
    while (len < list->len && (depth > 0 || list->at[len] != ',')) {
        depth += (list->at[len] == '(') - (list->at[len] == ')');
        len++;
    }
    *privilege = (struct part){list->at, len};
    list->at += len;
    list->len -= len;
    return len > 0;
}

/* Splits "UPDATE (a, b)" into "UPDATE" and "a, b"; columns->len is 0 without columns. */
static void split_columns(const struct part *privilege, struct part *name, struct part *columns)
{
    const char *open = memchr(privilege->at, '(', privilege->len);

    *name = *privilege;
    *columns = (struct part){NULL, 0};
    if (open) {
        name->len = (size_t)(open - privilege->at);
        columns->at = open + 1;
        columns->len = privilege->len - name->len - 1;
        if (columns->len > 0 && columns->at[columns->len - 1] == ')')
            columns->len--;
    }
    while (name->len > 0 && name->at[name->len - 1] == ' ')
        name->len--;
}

static bool next_column(struct part *columns, struct part *column)
{
    while (columns->len > 0 && strchr(" ,`", *columns->at)) {
        columns->at++;
        columns->len--;
    }
    column->at = columns->at;
    column->len = 0;
    while (columns->len > 0 && !strchr(" ,`", *columns->at)) {
        columns->at++;
        columns->len--;
        column->len++;
    }
    return column->len > 0;
}

static bool is_same(const struct part *a, const struct part *b)
{
    return a->len == b->len && strncasecmp(a->at, b->at, a->len) == 0;
}

/* MariaDB shows REPLICATION CLIENT by the name that it has there since 10.5. */
static bool is_privilege(const struct part *own, const struct part *wanted)
{
    static const struct part client = {"REPLICATION CLIENT", 18};
    static const struct part monitor = {"BINLOG MONITOR", 14};

    return is_same(own, wanted) || (is_same(wanted, &client) && is_same(own, &monitor));
}

static bool has_column(struct part columns, const struct part *wanted)
{
    struct part column;

    while (next_column(&columns, &column))
        if (is_same(&column, wanted))
            return true;
    return false;
}

/* Whether a grant gives the privilege `name` on the column, or on the whole table (column NULL). */
static bool grants_privilege(const struct grant *granted, const struct part *name,
                             const struct part *column)
{
    struct part list = granted->privileges;
    struct part privilege;

    while (next_privilege(&list, &privilege)) {
        struct part own;
        struct part columns;

        split_columns(&privilege, &own, &columns);
        if (columns.len == 0 && (is_privilege(&own, name) || find_text(&own, "ALL PRIVILEGES")))
            return true;
        if (column && is_same(&own, name) && has_column(columns, column))
            return true;
    }
    return false;
}

static bool next_line(const char **text, struct part *line)
{
    if (!**text)
        return false;
    *line = (struct part){*text, strcspn(*text, "\n")};
    *text += line->len;
    *text += **text == '\n';
    return true;
}

static bool is_granted(const char *granted, const struct grant *wanted, const struct part *name,
                       const struct part *column)
{
    struct part line;
    struct grant grant;

    while (next_line(&granted, &line))
        if (read_grant(&grant, &line) && is_within(&grant, wanted) &&
            grants_privilege(&grant, name, column))
            return true;
    return false;
}

/* Whether each column of the privilege, or the whole table without columns, is granted. */
static bool is_covered(const char *granted, const struct grant *wanted,
                       const struct part *privilege)
{
    struct part name;
    struct part columns;
    struct part column;

    split_columns(privilege, &name, &columns);
    if (columns.len == 0)
        return is_granted(granted, wanted, &name, NULL);
    while (next_column(&columns, &column))
        if (!is_granted(granted, wanted, &name, &column))
            return false;
    return true;
}

static bool is_for_role(const struct part *line, const char *role)
{
    char account[PRIVILEGE_SIZE];

    snprintf(account, sizeof(account), ROLE_PREFIX "%s'", role);
    return find_text(line, account) != NULL;
}

static size_t put_missing(struct buf *missing, const struct grant *wanted, const char *granted)
{
    struct part list = wanted->privileges;
    struct part privilege;
    bool any = false;

    while (next_privilege(&list, &privilege)) {
        if (is_covered(granted, wanted, &privilege))
            continue;
        buf_text_put(missing, any ? ", " : "GRANT ");
        buf_put(missing, privilege.at, privilege.len);
        any = true;
    }
    if (any)
        buf_print(missing, " ON %s.%s\n", wanted->database, wanted->table);
    return any;
}

size_t privileges_find_missing(struct buf *missing, const char *required, const char *role,
                               const char *granted)
{
    struct part line;
    struct grant wanted;
    size_t count = 0;

    while (next_line(&required, &line))
        if (is_for_role(&line, role) && read_grant(&wanted, &line))
            count += put_missing(missing, &wanted, granted);
    return count;
}

/* USAGE and the privileges of administrators show no table, and only the first five show columns.
 */
static bool shows_tables(const struct grant *grant, bool is_whole)
{
    static const char *const shown[] = {"SELECT", "INSERT", "UPDATE", "ALL",   "ALL PRIVILEGES",
                                        "DELETE", "CREATE", "DROP",   "ALTER", "INDEX"};
    size_t count = is_whole ? 5 : sizeof(shown) / sizeof(shown[0]);
    struct part list = grant->privileges;
    struct part privilege;

    while (next_privilege(&list, &privilege)) {
        struct part name;
        struct part columns;

        split_columns(&privilege, &name, &columns);
        for (size_t i = 0; i < count; i++)
            if (is_same(&name, &(struct part){shown[i], strlen(shown[i])}) &&
                (columns.len == 0 || !is_whole))
                return true;
    }
    return false;
}

bool privileges_show_table(const char *grants, const char *role, const char *database,
                           const char *table, bool is_whole)
{
    struct part line;
    struct grant grant;
    struct grant wanted = {0};

    snprintf(wanted.database, sizeof(wanted.database), "%s", database);
    snprintf(wanted.table, sizeof(wanted.table), "%s", table);
    while (next_line(&grants, &line))
        if ((!role || is_for_role(&line, role)) && read_grant(&grant, &line) &&
            is_within(&grant, &wanted) && shows_tables(&grant, is_whole))
            return true;
    return false;
}
