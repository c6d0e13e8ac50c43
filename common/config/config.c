/* SPDX-License-Identifier: MIT */
#include "common/config/config.h"

#include "common/config/ini_file.h"
#include "common/config/secret_file.h"
#include "common/config/sections.h"
#include "common/nearest.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREIGN_DISTANCE 3 /* with more different letters, a variable is of another program */
#define MASK "***"
#define FILE_STANDARD "tallybox.ini"
#define PATH_SHOWN_BYTES 100 /* longer paths are cut at the start in advice */
#define ROLE_KEY_SIZE (KAFKA_NAME_SIZE + LANE_SECTION_SIZE)

_Static_assert(INI_LINE_BYTES > KAFKA_NAME_SIZE + KAFKA_VALUE_SIZE, "the longest value fits");

struct config {
    struct settings settings;
    char *path;                    /* of the file that was read, or NULL */
    struct config_source *sources; /* one per entry of settings_table */
    struct config_source kafka_sources[KAFKA_PROPERTIES_MAX];
    struct lane_sections lanes; /* once all sources are read: in the order of settings.lanes */
    /* What the password files of [mysql] and [sink] held when they were read last. */
    char last_passwords[2][SETTING_TEXT_SIZE];
    struct role_sections roles;
    const char *role; /* for which the settings were read, or NULL; borrowed */
};

/* RC_FATAL: err names the section and the nearest known one, but no place. */
static enum rc check_section(const char *section, struct err *err)
{
    struct nearest nearest = {.typed = section};

    if (lane_section_is(section))
        return lane_section_check(section, err);
    if (role_section_is(section))
        return role_section_check(section, err);
    if (setting_section_find(section))
        return RC_OK;
    for (size_t i = 0; i < settings_sections_count; i++)
        nearest_offer(&nearest, settings_sections[i].name);
    if (nearest.word)
        return err_fail(err, RC_FATAL, 0, "[%.60s] is not a section; did you mean [%s]?", section,
                        nearest.word);
    return err_fail(err, RC_FATAL, 0,
                    "[%.60s] is not a section; `tallybox config --defaults` shows them all",
                    section);
}

static enum rc fail_unknown_key(const char *section, const char *key, struct err *err)
{
    const char *table_section = setting_section_find(section)->name;
    struct nearest nearest = {.typed = key};
    const char *other = NULL;

    for (size_t i = 0; i < settings_table_count; i++) {
        if (strcmp(settings_table[i].section, table_section) == 0)
            nearest_offer(&nearest, settings_table[i].key);
        else if (!other && strcmp(settings_table[i].key, key) == 0)
            other = settings_table[i].section;
    }
    if (nearest.word)
        return err_fail(err, RC_FATAL, 0, "%.60s is not a setting of [%s]; did you mean %s?", key,
                        section, nearest.word);
    if (other)
        return err_fail(err, RC_FATAL, 0, "%.60s is not a setting of [%s]; did you mean %s.%s?",
                        key, section, other, key);
    return err_fail(err, RC_FATAL, 0,
                    "%.60s is not a setting of [%s]; `tallybox config --defaults` shows them all",
                    key, section);
}

static enum rc assign_property(struct config *config, const char *name, const char *value,
                               struct config_source source, struct err *err)
{
    struct kafka_property *property = config->settings.kafka.properties;
    size_t count = config->settings.kafka.count;
    size_t i = 0;
    enum rc rc;

    if (!*name || strlen(name) >= sizeof(property->name) || strpbrk(name, " \t"))
        return err_fail(err, RC_FATAL, 0, "expected the name of a librdkafka property");
    if (strlen(value) >= sizeof(property->value))
        return err_fail(err, RC_FATAL, 0,
                        "is %zu bytes long; expected %zu at most (a certificate "
                        "or key can be named by its file: ssl.ca.location ...)",
                        strlen(value), sizeof(property->value) - 1);
    while (i < count && strcmp(property[i].name, name) != 0)
        i++;
    if (i == KAFKA_PROPERTIES_MAX)
        return err_fail(err, RC_FATAL, 0, "is one property too many; expected %d at most",
                        KAFKA_PROPERTIES_MAX);
    rc = place_check_once(config->kafka_sources[i], source, err);
    if (rc != RC_OK)
        return rc;
    snprintf(property[i].name, sizeof(property->name), "%s", name);
    snprintf(property[i].value, sizeof(property->value), "%s", value);
    config->kafka_sources[i] = source;
    if (i == count)
        config->settings.kafka.count++;
    return RC_OK;
}

static enum rc assign_setting(struct config *config, const struct setting *setting,
                              const char *value, struct config_source source, struct err *err)
{
    struct config_source *was = &config->sources[setting - settings_table];
    enum rc rc = place_check_once(*was, source, err);

    if (rc == RC_OK)
        rc = setting_store(setting, &config->settings, value, err);
    if (rc == RC_OK)
        *was = source;
    return rc;
}

/* Checks and stores one value. RC_FATAL: err names the place. */
static enum rc assign_value(struct config *config, const char *section, const char *key,
                            const char *value, struct config_source source, struct err *err)
{
    const struct setting *setting = setting_find(section, key);
    char place[PLACE_SIZE];
    enum rc rc = check_section(section, err);

    if (rc == RC_OK && !setting && strcmp(section, SETTINGS_KAFKA) != 0)
        rc = fail_unknown_key(section, key, err);
    if (rc != RC_OK) {
        place_put(config->path, source, section, key, place);
        err_wrap(err, "%s", place);
        return rc;
    }
    if (lane_section_is(section))
        rc = lane_sections_store(&config->lanes, section, setting, value, source, err);
    else if (setting)
        rc = assign_setting(config, setting, value, source, err);
    else
        rc = assign_property(config, key, value, source, err);
    if (rc != RC_OK)
        place_blame(config->path, source, section, key, err);
    return rc;
}

static enum rc load_defaults(struct config *config, struct err *err)
{
    struct config_source source = {FROM_DEFAULT, 0};
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < settings_table_count; i++)
        if (!lane_section_is(settings_table[i].section))
            rc = assign_value(config, settings_table[i].section, settings_table[i].key,
                              settings_table[i].standard, source, err);
    if (rc == RC_OK)
        rc = assign_value(config, SETTINGS_KAFKA, SETTINGS_KAFKA_SERVERS,
                          SETTINGS_KAFKA_SERVERS_STANDARD, source, err);
    return rc;
}

static enum rc on_section(void *ctx, const char *section, int line, struct err *err)
{
    struct config *config = ctx;
    const struct config_source source = {FROM_FILE, line};
    enum rc rc = check_section(section, err);

    if (rc == RC_OK && lane_section_is(section))
        rc = lane_sections_name(&config->lanes, section, source, err);
    return rc;
}

static struct config *make_config(void)
{
    struct config *config = calloc(1, sizeof(*config));

    if (config)
        config->sources = calloc(settings_table_count, sizeof(*config->sources));
    if (config && config->sources)
        return config;
    free(config);
    return NULL;
}

/* Checks a value of [role.NAME] for every process that reads the file, not for the role alone: a
 * mistake shows at the first command after the file was changed. */
static enum rc check_role_value(const struct config *config, const struct role_value *one,
                                struct err *err)
{
    struct config *scratch = make_config();
    enum rc rc;

    if (!scratch)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    scratch->path = config->path;
    rc = assign_value(scratch, one->section, one->key, one->value,
                      (struct config_source){FROM_ROLE, one->line}, err);
    scratch->path = NULL;
    config_free(scratch);
    return rc;
}

static enum rc take_role_value(struct config *config, const char *section, const char *key,
                               const char *value, int line, struct err *err)
{
    const struct config_source source = {FROM_ROLE, line};
    enum rc rc = role_sections_add(&config->roles, section, key, value, line, err);

    if (rc == RC_OK)
        return check_role_value(config, &config->roles.list[config->roles.count - 1], err);
    place_blame(config->path, source, section, key, err);
    return rc;
}

static enum rc on_value(void *ctx, const char *section, const char *key, const char *value,
                        int line, struct err *err)
{
    if (role_section_is(section))
        return take_role_value(ctx, section, key, value, line, err);
    return assign_value(ctx, section, key, value, (struct config_source){FROM_FILE, line}, err);
}

/* A role's password takes the place of the password file of the other sections, and its password
 * file the place of their password. */
static void replace_other_password(struct config *config, const struct role_value *one)
{
    bool is_file = strcmp(one->key, "password_file") == 0;
    const struct setting *other;

    if (!is_file && strcmp(one->key, "password") != 0)
        return;
    other = setting_find(one->section, is_file ? "password" : "password_file");
    if (!other || config->sources[other - settings_table].from == FROM_ROLE)
        return;
    ((char *)&config->settings)[other->offset] = '\0';
    config->sources[other - settings_table] = (struct config_source){FROM_DEFAULT, 0};
}

static enum rc load_role(struct config *config, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; config->role && rc == RC_OK && i < config->roles.count; i++) {
        const struct role_value *one = &config->roles.list[i];

        if (strcmp(one->role, config->role) != 0)
            continue;
        rc = assign_value(config, one->section, one->key, one->value,
                          (struct config_source){FROM_ROLE, one->line}, err);
        if (rc == RC_OK)
            replace_other_password(config, one);
    }
    return rc;
}

static enum rc load_file(struct config *config, const char *path, struct err *err)
{
    const struct ini_handler handler = {
        .on_section = on_section, .on_value = on_value, .ctx = config};
    FILE *file = fopen(path ? path : FILE_STANDARD, "r");
    enum rc rc;

    if (!file && !path && errno == ENOENT)
        return RC_OK;
    if (!file)
        return err_fail(err, RC_FATAL, errno, "cannot open %.200s: %s", path ? path : FILE_STANDARD,
                        strerror(errno));
    config->path = strdup(path ? path : FILE_STANDARD);
    if (config->path)
        rc = ini_file_read(file, config->path, &handler, err);
    else
        rc = err_fail(err, RC_FATAL, 0, "out of memory");
    fclose(file);
    return rc;
}

/* The section that name ("relay_lease_ms") starts with; *key is the rest, "" if there is none.
 * NULL: name starts with no section. */
static const char *find_environment_section(char *name, char **key)
{
    if (lane_section_split_variable(name, key))
        return name;
    for (size_t i = 0; i < settings_sections_count; i++) {
        const char *section = settings_sections[i].name;
        size_t len = strlen(section);

        if (strncmp(name, section, len) == 0 && (name[len] == '_' || !name[len])) {
            *key = name + len + (name[len] ? 1 : 0);
            return section;
        }
    }
    return NULL;
}

/* Variables of other programs may have our prefix. They are ignored, unless they look like a
 * mistyped setting. */
static enum rc check_foreign(const char *name, struct err *err)
{
    const struct setting *setting = NULL;
    size_t distance = FOREIGN_DISTANCE;
    char ours[NEAREST_WORD_MAX + 1];

    for (size_t i = 0; i < settings_table_count; i++) {
        size_t one;

        place_environment_name(settings_table[i].section, settings_table[i].key, ours,
                               sizeof(ours));
        one = nearest_distance(name, ours);
        if (one < distance) {
            distance = one;
            setting = &settings_table[i];
        }
    }
    if (!setting)
        return RC_OK;
    place_environment_name(setting->section, setting->key, ours, sizeof(ours));
    return err_fail(err, RC_FATAL, 0,
                    "environment " ENVIRONMENT_PREFIX "%.100s: no setting has this name; did you "
                    "mean " ENVIRONMENT_PREFIX "%s?",
                    name, ours);
}

/* RC_FATAL: the variable means a setting of a role. lower is changed. */
static enum rc check_role_variable(const char *name, char *lower, struct err *err)
{
    const size_t start = strlen("role_");
    char *key;

    for (size_t i = 0; i < settings_roles_count; i++) {
        size_t len = strlen(settings_roles[i]);

        if (strncmp(lower, "role_", start) == 0 &&
            strncmp(lower + start, settings_roles[i], len) == 0 && lower[start + len] == '_' &&
            find_environment_section(lower + start + len + 1, &key))
            return err_fail(
                err, RC_FATAL, 0,
                "environment " ENVIRONMENT_PREFIX
                "%.100s: sections of roles are for the settings file; set " ENVIRONMENT_PREFIX
                "%.80s in the environment of that role's process",
                name, name + start + len + 1);
    }
    return RC_OK;
}

static enum rc load_variable(struct config *config, const char *entry, struct err *err)
{
    struct config_source source = {FROM_ENVIRONMENT, 0};
    const char *start = entry + strlen(ENVIRONMENT_PREFIX);
    const char *equals = strchr(entry, '=');
    char name[KAFKA_NAME_SIZE + 16];
    char lower[sizeof(name)];
    const char *section;
    char *key;

    if (strncmp(entry, ENVIRONMENT_PREFIX, strlen(ENVIRONMENT_PREFIX)) != 0 || !equals ||
        (size_t)(equals - start) >= sizeof(name))
        return RC_OK;
    snprintf(name, sizeof(name), "%.*s", (int)(equals - start), start);
    for (size_t i = 0; i < sizeof(name); i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    section = find_environment_section(lower, &key);
    if (!section && check_role_variable(name, lower, err) != RC_OK)
        return RC_FATAL;
    if (!section)
        return check_foreign(name, err);
    if (!*key && lane_section_is(section))
        return err_fail(err, RC_FATAL, 0,
                        "environment " ENVIRONMENT_PREFIX "%s: names no setting of a lane; "
                        "expected the variable " ENVIRONMENT_PREFIX
                        "LANE_NAME_KEY, as " ENVIRONMENT_PREFIX "LANE_OUTBOX_TABLE",
                        name);
    if (!*key)
        return err_fail(err, RC_FATAL, 0,
                        "environment " ENVIRONMENT_PREFIX "%s: names the section [%s] but none of "
                        "its keys",
                        name, section);
    for (char *c = key; strcmp(section, SETTINGS_KAFKA) == 0 && *c; c++)
        if (*c == '_')
            *c = '.';
    return assign_value(config, section, key, equals + 1, source, err);
}

/* Every account of the machine can read a command line, so secrets are refused there. */
static enum rc check_shown(const char *section, const char *key, struct err *err)
{
    const struct setting *setting = setting_find(section, key);
    bool kafka = strcmp(section, SETTINGS_KAFKA) == 0;
    char name[KAFKA_NAME_SIZE + 16];

    if (kafka ? !setting_is_secret_property(key) : !setting || setting->kind != SETTING_SECRET)
        return RC_OK;
    place_environment_name(section, key, name, sizeof(name));
    return err_fail(err, RC_FATAL, 0,
                    "--set %s.%s: other accounts of this machine can read a command line; expected "
                    "it in the settings file%s or in the environment as " ENVIRONMENT_PREFIX "%s",
                    section, key, kafka ? "" : ", in password_file", name);
}

static enum rc load_set(struct config *config, const char *text, struct err *err)
{
    const char *dot = place_find_dot(text);
    const char *equals = strchr(text, '=');
    char section[LANE_SECTION_SIZE];
    char key[KAFKA_NAME_SIZE];
    enum rc rc;

    if (role_section_is(text))
        return err_fail(err, RC_FATAL, 0,
                        "--set %.*s: sections of roles are for the settings file; this process "
                        "needs --set section.key=value alone",
                        (int)strcspn(text, "="), text);
    if (lane_section_is(text) && equals && (!dot || dot > equals))
        return err_fail(err, RC_FATAL, 0, "--set %.*s: expected lane.NAME.key=value",
                        (int)strcspn(text, "="), text);
    if (!dot || !equals || dot > equals || (size_t)(dot - text) >= sizeof(section) ||
        (size_t)(equals - dot) > sizeof(key))
        return err_fail(err, RC_FATAL, 0, "--set %.*s: expected section.key=value",
                        (int)strcspn(text, "="), text);
    snprintf(section, sizeof(section), "%.*s", (int)(dot - text), text);
    snprintf(key, sizeof(key), "%.*s", (int)(equals - dot - 1), dot + 1);
    rc = check_shown(section, key, err);
    if (rc != RC_OK)
        return rc;
    return assign_value(config, section, key, equals + 1, (struct config_source){FROM_SET, 0}, err);
}

static const struct setting *find_setting(const char *section, const char *key)
{
    const struct setting *setting = setting_find(section, key);

    assert(setting);
    return setting;
}

static struct config_source *get_source(struct config *config, const struct setting *setting)
{
    return &config->sources[setting - settings_table];
}

static enum rc fail_at_setting(struct config *config, const struct setting *setting,
                               struct err *err)
{
    return place_blame(config->path, *get_source(config, setting), setting->section, setting->key,
                       err);
}

/* Invariant: afterwards password is the one to log in with, from either source. */
static enum rc complete_password(struct config *config, struct mysql_settings *mysql,
                                 const char *section, struct err *err)
{
    const struct setting *password = find_setting(section, "password");
    const struct setting *file = find_setting(section, "password_file");
    char place[PLACE_SIZE];
    enum rc rc;

    if (!*mysql->password_file)
        return RC_OK;
    if (*mysql->password) {
        place_put(config->path, *get_source(config, password), section, "password", place);
        err_set(err, "and %s.password (%s) are both set; expected one of them", section, place);
        return fail_at_setting(config, file, err);
    }
    rc = secret_file_read_line(mysql->password_file, mysql->password, SETTING_TEXT_SIZE, err);
    if (rc != RC_OK)
        return fail_at_setting(config, file, err);
    get_source(config, password)->from = FROM_PASSWORD_FILE;
    return RC_OK;
}

static void copy_from_mysql(struct config *config, const struct setting *sink)
{
    const struct setting *mysql = find_setting("mysql", sink->key);
    char *base = (char *)&config->settings;

    memcpy(base + sink->offset, base + mysql->offset, sink->size);
    get_source(config, sink)->from = FROM_MYSQL;
}

/* Two settings of [sink] belong to others: a socket of [mysql] would override another host or port,
 * and a password of [mysql] a password file. */
static bool does_sink_inherit(const struct mysql_settings *sink, const char *key)
{
    if (strcmp(key, "socket") == 0)
        return !*sink->host && sink->port == -1;
    if (strcmp(key, "password") == 0)
        return !*sink->password_file;
    if (strcmp(key, "password_file") == 0)
        return !*sink->password;
    return true;
}

static enum rc complete_sink(struct config *config, struct err *err)
{
    const struct mysql_settings given = config->settings.sink;

    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *sink = &settings_table[i];
        struct setting strict;

        if (strcmp(sink->section, "sink") != 0)
            continue;
        if (setting_is_unset(sink, &config->settings)) {
            if (does_sink_inherit(&given, sink->key))
                copy_from_mysql(config, sink);
            continue;
        }
        /* The range of [sink] contains -1 only for "as in [mysql]". */
        strict = *find_setting("mysql", sink->key);
        if (sink->kind == SETTING_NUMBER && setting_number(sink, &config->settings) < strict.low) {
            err_set(err,
                    "%" PRId64 " is out of range; expected %" PRId64 "..%" PRId64
                    ", or -1 for as in [mysql]",
                    setting_number(sink, &config->settings), strict.low, strict.high);
            return fail_at_setting(config, sink, err);
        }
    }
    return RC_OK;
}

/* Numbers of one section of which one limits the other. */
static const struct {
    const char *section;
    const char *less;
    const char *more;
    int64_t apart; /* 1: less < more; 0: less <= more */
    const char *why;
} orders[] = {
    {"relay", "send_timeout_ms", "lease_ms", 1,
     "nothing may be sent after the lane went to another relay"},
    {"relay", "row_bytes_max", "read_bytes_max", 0, "the largest row must fit into one read"},
    {"relay", "read_rows_max", "window_rows_max", 0, "one read must fit into the window"},
    {"relay", "poll_ms", "poll_idle_ms", 0,
     "an idle outbox is not read more often than a busy one"},
    {"api", "batch_votes_max", "queue_votes_max", 0, "one batch must fit into the queue"},
    {"api", "page_cache_ms", "page_stale_ms", 0, "a page that is fresh is not stale"},
};

static enum rc check_orders(struct config *config, struct err *err)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const struct setting *less = find_setting(orders[i].section, orders[i].less);
        const struct setting *more = find_setting(orders[i].section, orders[i].more);
        int64_t low = setting_number(less, &config->settings);
        int64_t high = setting_number(more, &config->settings);
        bool first = get_source(config, less)->from != FROM_DEFAULT;
        char place[PLACE_SIZE];

        if (low + orders[i].apart <= high)
            continue;
        /* The error names first the setting that has no default value. */
        if (!first) {
            err_set(err, "%" PRId64 " must be %s %s.%s (%" PRId64 ", default): %s", high,
                    orders[i].apart ? "more than" : "at least", less->section, less->key, low,
                    orders[i].why);
            return fail_at_setting(config, more, err);
        }
        place_put(config->path, *get_source(config, more), more->section, more->key, place);
        err_set(err, "%" PRId64 " must be %s %s.%s (%" PRId64 ", %s): %s", low,
                orders[i].apart ? "less than" : "at most", more->section, more->key, high, place,
                orders[i].why);
        return fail_at_setting(config, less, err);
    }
    return RC_OK;
}

/* The setting that counts: that of [mysql] if [sink] leaves it to [mysql]. */
static const struct setting *find_origin(struct config *config, const char *section,
                                         const char *key)
{
    const struct setting *setting = find_setting(section, key);

    return get_source(config, setting)->from == FROM_MYSQL ? find_setting("mysql", key) : setting;
}

/* Advice is for the account that all roles without a section share. */
static void describe_login(struct config *config, struct mysql_settings *mysql, const char *section)
{
    const struct setting *database = find_origin(config, section, "database");
    enum config_from user = get_source(config, find_origin(config, section, "user"))->from;
    const char *path = config->path ? config->path : FILE_STANDARD;
    size_t len = strlen(path);
    bool is_long = len > PATH_SHOWN_BYTES;
    char place[PLACE_SIZE];

    place_put(config->path, *get_source(config, database), database->section, database->key, place);
    snprintf(mysql->database_place, sizeof(mysql->database_place), "%s.%s (%s)", database->section,
             database->key, place);
    if (config->role && !config_has_role(config, config->role) &&
        (user == FROM_DEFAULT || user == FROM_FILE))
        snprintf(mysql->account_advice, sizeof(mysql->account_advice),
                 "there is no [role.%s] in %s%s; `tallybox migrate grants --role %s --create-user "
                 "| mariadb` makes its account",
                 config->role, is_long ? "..." : "", is_long ? path + len - PATH_SHOWN_BYTES : path,
                 config->role);
}

/* After all sources: reads the password files, fills in [sink] and the lanes, checks what one
 * setting says about another. */
static enum rc complete_settings(struct config *config, struct err *err)
{
    struct settings *settings = &config->settings;
    enum rc rc = complete_password(config, &settings->mysql, "mysql", err);

    if (rc == RC_OK)
        rc = complete_password(config, &settings->sink, "sink", err);
    if (rc == RC_OK)
        rc = complete_sink(config, err);
    if (rc == RC_OK)
        rc = lane_sections_complete(&config->lanes, settings, config->path,
                                    *get_source(config, find_setting("relay", "lanes")), err);
    if (rc == RC_OK)
        rc = check_orders(config, err);
    describe_login(config, &settings->mysql, "mysql");
    describe_login(config, &settings->sink, "sink");
    memcpy(config->last_passwords[0], settings->mysql.password, SETTING_TEXT_SIZE);
    memcpy(config->last_passwords[1], settings->sink.password, SETTING_TEXT_SIZE);
    return rc;
}

static void put_value(const struct setting *setting, const void *base, struct buf *out)
{
    if (setting->kind == SETTING_SECRET && !setting_is_unset(setting, base))
        buf_text_put(out, MASK);
    else
        setting_put(setting, base, out);
}

static const char *mask_property(const struct kafka_property *property)
{
    return setting_is_secret_property(property->name) && *property->value ? MASK : property->value;
}

static void each_property(const struct config *config, config_on_value on_each, void *ctx)
{
    char place[PLACE_SIZE];

    for (size_t i = 0; i < config->settings.kafka.count; i++) {
        const struct kafka_property *property = &config->settings.kafka.properties[i];

        place_put(config->path, config->kafka_sources[i], SETTINGS_KAFKA, property->name, place);
        on_each(ctx, SETTINGS_KAFKA, property->name, mask_property(property), place, false);
    }
}

/* The settings of one section. lane: of SETTINGS_LANE, else NULL; section: as it is printed. */
static void each_setting(const struct config *config, const struct lane_section *lane,
                         const char *section, config_on_value on_each, void *ctx)
{
    const void *base = lane ? (const void *)&lane->values : &config->settings;
    char place[PLACE_SIZE];
    struct buf value = {0};

    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];

        if (strcmp(setting->section, setting_section_find(section)->name) != 0)
            continue;
        buf_reset(&value);
        put_value(setting, base, &value);
        place_put(config->path, lane ? lane->sources[lane_key_index(setting)] : config->sources[i],
                  section, setting->key, place);
        on_each(ctx, section, setting->key, buf_text(&value), place,
                setting->kind == SETTING_NUMBER);
    }
    buf_done(&value);
}

static void each_lane(const struct config *config, config_on_value on_each, void *ctx)
{
    for (size_t i = 0; i < config->lanes.count; i++) {
        char section[LANE_SECTION_SIZE];

        lane_section_name(config->lanes.list[i].values.name, section);
        each_setting(config, &config->lanes.list[i], section, on_each, ctx);
    }
}

static bool is_setting_same(const struct setting *setting, const void *a, const void *b)
{
    if (setting->kind == SETTING_NUMBER)
        return setting_number(setting, a) == setting_number(setting, b);
    return strcmp(setting_text(setting, a), setting_text(setting, b)) == 0;
}

/* Other threads read only numbers meanwhile. */
static void take_setting(const struct setting *setting, struct config *config,
                         const struct config *fresh)
{
    char *to = (char *)&config->settings + setting->offset;

    if (setting->kind == SETTING_NUMBER)
        atomic_store((_Atomic int64_t *)to, setting_number(setting, &fresh->settings));
    else
        memcpy(to, setting_text(setting, &fresh->settings), setting->size);
}

static bool is_kafka_same(const struct settings *a, const struct settings *b)
{
    return a->kafka.count == b->kafka.count &&
           memcmp(a->kafka.properties, b->kafka.properties,
                  a->kafka.count * sizeof(a->kafka.properties[0])) == 0;
}

/* Nothing of a lane is live. Lanes that came or went are a change of relay.lanes. */
static void report_lane(const struct lane_settings *was, const struct lane_settings *now,
                        config_on_change on_change, void *ctx)
{
    char section[LANE_SECTION_SIZE];

    lane_section_name(now->name, section);
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];

        if (lane_section_is(setting->section) && !is_setting_same(setting, was, now))
            on_change(ctx, &(struct config_change){section, setting->key, false, "", ""});
    }
}

static void report_lanes(const struct settings *was, const struct settings *now,
                         config_on_change on_change, void *ctx)
{
    for (size_t i = 0; i < was->lane_count; i++)
        for (size_t n = 0; n < now->lane_count; n++)
            if (strcmp(was->lanes[i].name, now->lanes[n].name) == 0)
                report_lane(&was->lanes[i], &now->lanes[n], on_change, ctx);
}

enum rc config_load(struct config **out, const char *role, const char *path,
                    const char *const *sets, size_t count, const char *const *environ_entries,
                    struct err *err)
{
    struct config *config = make_config();
    enum rc rc;

    *out = NULL;
    if (!config)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    config->role = role;
    rc = load_defaults(config, err);
    if (rc == RC_OK)
        rc = load_file(config, path, err);
    if (rc == RC_OK)
        rc = load_role(config, err);
    for (size_t i = 0; rc == RC_OK && environ_entries && environ_entries[i]; i++)
        rc = load_variable(config, environ_entries[i], err);
    for (size_t i = 0; rc == RC_OK && i < count; i++)
        rc = load_set(config, sets[i], err);
    if (rc == RC_OK)
        rc = complete_settings(config, err);
    if (rc == RC_OK)
        *out = config;
    else
        config_free(config);
    return rc;
}

void config_free(struct config *config)
{
    if (!config)
        return;
    role_sections_done(&config->roles);
    free(config->path);
    free(config->sources);
    free(config);
}

const char *config_file(const struct config *config)
{
    return config->path;
}

const struct settings *config_settings(const struct config *config)
{
    return &config->settings;
}

static const char *mask_role_value(const struct role_value *one)
{
    const struct setting *setting = setting_find(one->section, one->key);
    bool secret = setting ? setting->kind == SETTING_SECRET : setting_is_secret_property(one->key);

    return secret && *one->value ? MASK : one->value;
}

static void each_role_value(const struct config *config, config_on_value on_each, void *ctx)
{
    for (size_t i = 0; i < config->roles.count; i++) {
        const struct role_value *one = &config->roles.list[i];
        char key[ROLE_KEY_SIZE];
        char place[PLACE_SIZE];

        snprintf(key, sizeof(key), "%s.%s", one->section, one->key);
        place_put(config->path, (struct config_source){FROM_ROLE, one->line}, one->heading, key,
                  place);
        on_each(ctx, one->heading, key, mask_role_value(one), place, false);
    }
}

bool config_has_role(const struct config *config, const char *role)
{
    for (size_t i = 0; i < config->roles.count; i++)
        if (strcmp(config->roles.list[i].role, role) == 0)
            return true;
    return false;
}

void config_each_value(const struct config *config, config_on_value on_each, void *ctx)
{
    for (size_t s = 0; s < settings_sections_count; s++) {
        const char *section = settings_sections[s].name;

        if (strcmp(section, SETTINGS_KAFKA) == 0)
            each_property(config, on_each, ctx);
        else if (lane_section_is(section))
            each_lane(config, on_each, ctx);
        else if (!role_section_is(section))
            each_setting(config, NULL, section, on_each, ctx);
        else if (!config->role)
            each_role_value(config, on_each, ctx);
    }
}

/* The section [mysql] or [sink] that the setting belongs to, or NULL. */
static const struct mysql_settings *get_side(const struct settings *settings,
                                             const struct setting *setting)
{
    if (strcmp(setting->section, "mysql") == 0)
        return &settings->mysql;
    return strcmp(setting->section, "sink") == 0 ? &settings->sink : NULL;
}

/* A password that a file holds is in force without a restart: each connection reads the file. The
 * settings keep the password of the start, because other threads read them. */
static bool is_file_password(const struct config *config, const struct config *fresh,
                             const struct setting *setting)
{
    const struct mysql_settings *was = get_side(&config->settings, setting);
    const struct mysql_settings *now = get_side(&fresh->settings, setting);

    return was && now && setting->kind == SETTING_SECRET && *was->password_file &&
           strcmp(was->password_file, now->password_file) == 0;
}

static void take_file_password(struct config *config, const struct config *fresh,
                               const struct setting *setting, config_on_change on_change, void *ctx)
{
    const struct mysql_settings *now = get_side(&fresh->settings, setting);
    char *last = config->last_passwords[now == &fresh->settings.sink];

    if (!now || strcmp(last, now->password) == 0)
        return;
    memcpy(last, now->password, SETTING_TEXT_SIZE);
    on_change(ctx, &(struct config_change){setting->section, setting->key, true, MASK, MASK});
}

void config_take_live(struct config *config, const struct config *fresh, config_on_change on_change,
                      void *ctx)
{
    struct config_change change = {.key = "*", .section = SETTINGS_KAFKA};

    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];
        struct buf was = {0};
        struct buf now = {0};

        if (is_file_password(config, fresh, setting)) {
            take_file_password(config, fresh, setting, on_change, ctx);
            continue;
        }
        if (lane_section_is(setting->section) ||
            is_setting_same(setting, &config->settings, &fresh->settings))
            continue;
        if (setting->live) {
            setting_put(setting, &config->settings, &was);
            setting_put(setting, &fresh->settings, &now);
            take_setting(setting, config, fresh);
        }
        on_change(ctx, &(struct config_change){setting->section, setting->key, setting->live,
                                               buf_text(&was), buf_text(&now)});
        buf_done(&was);
        buf_done(&now);
    }
    report_lanes(&config->settings, &fresh->settings, on_change, ctx);
    if (!is_kafka_same(&config->settings, &fresh->settings))
        on_change(ctx, &change);
}
