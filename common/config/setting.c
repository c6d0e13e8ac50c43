/* SPDX-License-Identifier: MIT */
#include "common/config/setting.h"

#include "common/list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 64   /* of a table or an aggregate type */
#define TOPIC_BYTES_MAX 249 /* Kafka's own bound */
#define HOST_BYTES_MAX 253  /* DNS's own bound */
#define TOPIC_MARKS "._-"   /* allowed in a topic beside letters and digits */

#define TO_SHOW "%.60s" /* at most so much of a bad value is in an error */

/* All sections lane.NAME are described by one. */
static const char *map_section(const char *section)
{
    return strncmp(section, SETTINGS_LANE_PREFIX, strlen(SETTINGS_LANE_PREFIX)) == 0 ? SETTINGS_LANE
                                                                                     : section;
}

const struct setting *setting_find(const char *section, const char *key)
{
    section = map_section(section);
    for (size_t i = 0; i < settings_table_count; i++)
        if (strcmp(settings_table[i].section, section) == 0 &&
            strcmp(settings_table[i].key, key) == 0)
            return &settings_table[i];
    return NULL;
}

const struct settings_section *setting_section_find(const char *section)
{
    section = map_section(section);
    for (size_t i = 0; i < settings_sections_count; i++)
        if (strcmp(settings_sections[i].name, section) == 0)
            return &settings_sections[i];
    return NULL;
}

const char *setting_text(const struct setting *setting, const void *base)
{
    return (const char *)base + setting->offset;
}

int64_t setting_number(const struct setting *setting, const void *base)
{
    int64_t value;

    memcpy(&value, (const char *)base + setting->offset, sizeof(value));
    return value;
}

static enum rc store_text(const struct setting *setting, void *base, const char *text,
                          struct err *err)
{
    size_t len = strlen(text);
    size_t high = setting->high > 0 ? (size_t)setting->high : setting->size - 1;

    if (len < (size_t)setting->low)
        return err_fail(err, RC_FATAL, 0, "must not be empty");
    if (len > high)
        return err_fail(err, RC_FATAL, 0, "is %zu bytes long; expected %zu at most", len, high);
    memcpy((char *)base + setting->offset, text, len + 1);
    return RC_OK;
}

static enum rc store_number(const struct setting *setting, void *base, const char *text,
                            struct err *err)
{
    char *end;
    long long value;
    int64_t number;

    errno = 0;
    value = strtoll(text, &end, 10);
    /* strtoll() accepts blanks and "+5"; settings do not. */
    if (!*text || *end || (*text != '-' && (*text < '0' || *text > '9')))
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not a whole number; expected %" PRId64 "..%" PRId64,
                        text, setting->low, setting->high);
    if (errno == ERANGE || value < setting->low || value > setting->high)
        return err_fail(err, RC_FATAL, 0,
                        TO_SHOW " is out of range; expected %" PRId64 "..%" PRId64, text,
                        setting->low, setting->high);
    number = value;
    memcpy((char *)base + setting->offset, &number, sizeof(number));
    return RC_OK;
}

static bool is_choice(const char *choices, const char *text)
{
    size_t len;

    for (const char *word; choices && (word = list_next(&choices, '|', &len));)
        if (strlen(text) == len && memcmp(word, text, len) == 0)
            return true;
    return false;
}

static bool is_name(const char *text, size_t len, const char *more, size_t bytes_max)
{
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        bool alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!alnum && (c == '\0' || !strchr(more, c)))
            return false;
    }
    return len > 0 && len <= bytes_max;
}

static bool is_table_name(const char *text, size_t len)
{
    return is_name(text, len, "_", NAME_BYTES_MAX);
}

/* Without capitals, so that a variable of the environment can name a lane. */
bool setting_is_lane_name(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] >= 'A' && text[i] <= 'Z')
            return false;
    return is_table_name(text, len);
}

static bool is_topic(const char *text, size_t len)
{
    bool dots = (len == 1 && *text == '.') || (len == 2 && memcmp(text, "..", 2) == 0);

    return !dots && is_name(text, len, TOPIC_MARKS, TOPIC_BYTES_MAX);
}

static bool is_topic_pair(const char *text, size_t len)
{
    const char *equals = memchr(text, '=', len);
    size_t name_len;

    if (!equals)
        return false;
    name_len = (size_t)(equals - text);
    return is_name(text, name_len, TOPIC_MARKS, NAME_BYTES_MAX) &&
           is_topic(equals + 1, len - name_len - 1);
}

/* name, *.suffix or [IPv6 address], and :port if need be. */
static bool is_host(const char *text, size_t len)
{
    static const char digits[] = "0123456789";
    const char *colon = memchr(text, ':', len);
    size_t name_len = colon ? (size_t)(colon - text) : len;

    if (len == 0 || name_len == 0)
        return false;
    if (*text == '[') {
        const char *end = memchr(text, ']', len);

        name_len = end ? (size_t)(end - text) + 1 : 0;
        colon = end && name_len < len ? end + 1 : NULL;
        if (!end || strspn(text + 1, "0123456789abcdefABCDEF:.") != name_len - 2 || name_len < 4)
            return false;
    } else {
        size_t from = name_len > 2 && memcmp(text, "*.", 2) == 0 ? 2 : 0;

        if (text[from] == '.' || !is_name(text + from, name_len - from, "-.", HOST_BYTES_MAX))
            return false;
    }
    if (!colon)
        return name_len == len;
    len -= name_len + 1;
    return *colon == ':' && len > 0 && len <= 5 && strspn(colon + 1, digits) >= len &&
           strtol(colon + 1, NULL, 10) >= 1 && strtol(colon + 1, NULL, 10) <= 65535;
}

static bool is_path(const char *text, size_t len)
{
    return len > 1 && *text == '/' && text[len - 1] != '/';
}

/* address:port, with an IPv6 address in brackets. */
static bool is_listen(const char *text)
{
    const char *colon = strrchr(text, ':');
    const char *port = colon ? colon + 1 : "";
    size_t digits = strspn(port, "0123456789");
    size_t len = colon ? (size_t)(colon - text) : 0;

    if (len == 0 || digits == 0 || digits > 5 || port[digits] || strtol(port, NULL, 10) > 65535)
        return false;
    if (*text == '[')
        return len > 2 && text[len - 1] == ']' &&
               strspn(text + 1, "0123456789abcdefABCDEF:.%") == len - 2;
    return strcspn(text, ": \t/") == len;
}

/* Removes the blanks around the parts of a list, so that readers of the setting find none. A blank
 * inside a part stays and makes it invalid: "a b" is not "ab". */
static void squeeze_blanks(char *to, size_t size, const char *text)
{
    static const char blanks[] = " \t";
    static const char marks[] = ",=";
    size_t len = 0;

    for (; *text && len + 1 < size; text++) {
        const char *next = text + strspn(text, blanks);
        bool at_edge = len == 0 || strchr(marks, to[len - 1]) || !*next || strchr(marks, *next);

        if (next == text || !at_edge)
            to[len++] = *text;
    }
    to[len] = '\0';
}

static bool is_part_twice(const char *list, const char *part, size_t len, char until)
{
    const char *stop = memchr(part, until, len);
    size_t name_len = stop ? (size_t)(stop - part) : len;
    size_t other_len;

    for (const char *other; (other = list_next(&list, ',', &other_len)) && other < part;) {
        const char *end = memchr(other, until, other_len);

        if (end)
            other_len = (size_t)(end - other);
        if (other_len == name_len && memcmp(other, part, name_len) == 0)
            return true;
    }
    return false;
}

static enum rc store_list(const struct setting *setting, void *base, const char *text,
                          bool (*is_part)(const char *, size_t), const char *expected,
                          struct err *err)
{
    char list[SETTING_LIST_SIZE] = "";
    const char *rest = list;
    size_t len;

    if (strlen(text) >= sizeof(list) || strlen(text) >= setting->size)
        return store_text(setting, base, text, err);
    squeeze_blanks(list, sizeof(list), text);
    for (const char *part; (part = list_next(&rest, ',', &len));) {
        if (!is_part(part, len))
            return err_fail(err, RC_FATAL, 0, "\"%.*s\" is not %s", len > 60 ? 60 : (int)len, part,
                            expected);
        if (is_part_twice(list, part, len, setting->kind == SETTING_TOPIC_MAP ? '=' : ','))
            return err_fail(err, RC_FATAL, 0, "\"%.*s\" is there twice", len > 60 ? 60 : (int)len,
                            part);
    }
    return store_text(setting, base, list, err);
}

enum rc setting_store(const struct setting *setting, void *base, const char *text, struct err *err)
{
    switch (setting->kind) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        return store_text(setting, base, text, err);
    case SETTING_NUMBER:
        return store_number(setting, base, text, err);
    case SETTING_CHOICE:
        if (is_choice(setting->choices, text))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0, "\"" TO_SHOW "\" is not one of: %s", text,
                        setting->choices);
    case SETTING_LISTEN:
        if (is_choice(setting->choices, text) || is_listen(text))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not an address and port; expected 127.0.0.1:8080, "
                        "[::1]:8080 or the like%s%s",
                        text, setting->choices ? ", or " : "",
                        setting->choices ? setting->choices : "");
    case SETTING_TABLE:
        if (is_table_name(text, strlen(text)))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not the name of a table; expected letters, digits and "
                        "_, %d at most",
                        text, NAME_BYTES_MAX);
    case SETTING_LANES:
        return store_list(setting, base, text, setting_is_lane_name,
                          SETTING_LANE_EXPECTED ", separated by commas", err);
    case SETTING_TOPICS:
        return store_list(setting, base, text, is_topic,
                          "a topic; expected letters, digits and ._-, separated by commas", err);
    case SETTING_TOPIC_MAP:
        if (!*text)
            return store_text(setting, base, text, err);
        return store_list(setting, base, text, is_topic_pair,
                          "a type and its topic; expected type=topic,type=topic", err);
    case SETTING_HOSTS:
        if (!*text)
            return store_text(setting, base, text, err);
        return store_list(setting, base, text, is_host,
                          "a host; expected name, name:port or *.suffix, separated by commas", err);
    case SETTING_PATHS:
        if (!*text)
            return store_text(setting, base, text, err);
        return store_list(setting, base, text, is_path,
                          "an absolute path; expected /folder/program, separated by commas", err);
    case SETTING_TOPIC_PREFIX:
        if (!*text || is_name(text, strlen(text), TOPIC_MARKS, TOPIC_BYTES_MAX - NAME_BYTES_MAX))
            return store_text(setting, base, text, err);
        return err_fail(err, RC_FATAL, 0,
                        "\"" TO_SHOW "\" is not the beginning of a topic; expected letters, "
                        "digits and ._-, %d at most",
                        text, TOPIC_BYTES_MAX - NAME_BYTES_MAX);
    }
    return err_fail(err, RC_FATAL, 0, "has no kind");
}

void setting_put(const struct setting *setting, const void *base, struct buf *out)
{
    if (setting->kind == SETTING_NUMBER)
        buf_i64(out, setting_number(setting, base));
    else
        buf_text_put(out, setting_text(setting, base));
}

static void put_choices(const struct setting *setting, struct buf *out)
{
    const char *choices = setting->choices;
    const char *between = "";
    size_t len;

    for (const char *word; (word = list_next(&choices, '|', &len)); between = " or ") {
        if (len == 0)
            continue;
        buf_text_put(out, between);
        buf_put(out, word, len);
    }
}

void setting_put_range(const struct setting *setting, struct buf *out)
{
    switch (setting->kind) {
    case SETTING_TEXT:
    case SETTING_SECRET:
        buf_text_put(out, "text");
        return;
    case SETTING_NUMBER:
        buf_print(out, "%" PRId64 "..%" PRId64, setting->low, setting->high);
        return;
    case SETTING_CHOICE:
        put_choices(setting, out);
        return;
    case SETTING_LISTEN:
        buf_text_put(out, "address:port");
        if (setting->choices)
            buf_print(out, " or %s", setting->choices);
        return;
    case SETTING_TABLE:
        buf_text_put(out, "table");
        return;
    case SETTING_LANES:
        buf_text_put(out, "lanes");
        return;
    case SETTING_TOPICS:
        buf_text_put(out, "topics");
        return;
    case SETTING_TOPIC_MAP:
        buf_text_put(out, "type=topic,...");
        return;
    case SETTING_HOSTS:
        buf_text_put(out, "hosts");
        return;
    case SETTING_PATHS:
        buf_text_put(out, "paths");
        return;
    case SETTING_TOPIC_PREFIX:
        buf_text_put(out, "start of a topic");
        return;
    }
}

bool setting_is_unset(const struct setting *setting, const void *base)
{
    if (setting->kind == SETTING_NUMBER)
        return setting_number(setting, base) == -1;
    return *setting_text(setting, base) == '\0';
}

/* Some harmless properties are masked, too, so that none like ssl.key.password is shown. The place
 * of a file is no secret. */
bool setting_is_secret_property(const char *name)
{
    static const char *const words[] = {"password", "passphrase",         "secret", "key",
                                        "token",    "oauthbearer.config", "jaas"};
    static const char place[] = ".location";
    size_t len = strlen(name);

    if (len >= sizeof(place) && strcmp(name + len - (sizeof(place) - 1), place) == 0)
        return false;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(name, words[i]))
            return true;
    }
    return false;
}
