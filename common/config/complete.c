/* SPDX-License-Identifier: MIT */
#include "common/config/parts.h"
#include "common/config/setting.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

static const struct setting *find(const char *section, const char *key)
{
    const struct setting *setting = setting_find(section, key);

    assert(setting);
    return setting;
}

static struct config_source *source_of(struct config *config, const struct setting *setting)
{
    return &config->sources[setting - settings_table];
}

static enum rc fail_at(struct config *config, const struct setting *setting, struct err *err)
{
    config_blame(config, *source_of(config, setting), setting->section, setting->key, err);
    return RC_FATAL;
}

/* One line, without its end. */
static enum rc read_password(const char *path, char password[SETTING_TEXT_SIZE], struct err *err)
{
    char text[SETTING_TEXT_SIZE + 2]; /* a line end, and one byte that shows it is too long */
    FILE *file = fopen(path, "r");
    size_t len;
    bool unread;

    if (!file)
        return err_fail(err, RC_FATAL, errno, "cannot open %.160s: %s", path, strerror(errno));
    len = fread(text, 1, sizeof(text), file);
    unread = ferror(file) != 0;
    fclose(file);
    if (unread)
        return err_fail(err, RC_FATAL, 0, "cannot read %.160s; is it a file?", path);
    if (len > 0 && len < sizeof(text) && text[len - 1] == '\n')
        len--;
    if (len > 0 && text[len - 1] == '\r')
        len--;
    if (len == 0)
        return err_fail(err, RC_FATAL, 0, "%.160s is empty", path);
    if (memchr(text, '\n', len) || memchr(text, '\0', len))
        return err_fail(err, RC_FATAL, 0, "%.160s holds more than one line of text", path);
    if (len >= SETTING_TEXT_SIZE)
        return err_fail(err, RC_FATAL, 0,
                        "%.160s is too long; expected a password of %d bytes "
                        "at most",
                        path, SETTING_TEXT_SIZE - 1);
    memcpy(password, text, len);
    password[len] = '\0';
    return RC_OK;
}

/* Invariant: behind this, password holds what to log in with, wherever it came from. */
static enum rc complete_password(struct config *config, struct mysql_settings *mysql,
                                 const char *section, struct err *err)
{
    const struct setting *password = find(section, "password");
    const struct setting *file = find(section, "password_file");
    char place[CONFIG_PLACE_SIZE];
    enum rc rc;

    if (!*mysql->password_file)
        return RC_OK;
    if (*mysql->password) {
        config_place(config, *source_of(config, password), section, "password", place);
        err_set(err, "and %s.password (%s) are both set; expected one of them", section, place);
        return fail_at(config, file, err);
    }
    rc = read_password(mysql->password_file, mysql->password, err);
    if (rc != RC_OK)
        return fail_at(config, file, err);
    source_of(config, password)->from = FROM_PASSWORD_FILE;
    return RC_OK;
}

static void copy_from_mysql(struct config *config, const struct setting *sink)
{
    const struct setting *mysql = find("mysql", sink->key);
    char *base = (char *)&config->settings;

    memcpy(base + sink->offset, base + mysql->offset, sink->size);
    source_of(config, sink)->from = FROM_MYSQL;
}

/* Two settings of [sink] are pairs with others: a socket of [mysql] would hide another host or
 * port, and a password of [mysql] a password file. */
static bool inherits(const struct mysql_settings *sink, const char *key)
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
            if (inherits(&given, sink->key))
                copy_from_mysql(config, sink);
            continue;
        }
        /* -1 is in the range of [sink] only to be left out. */
        strict = *find("mysql", sink->key);
        if (sink->kind == SETTING_NUMBER && setting_number(sink, &config->settings) < strict.low) {
            err_set(err,
                    "%" PRId64 " is out of range; expected %" PRId64 "..%" PRId64
                    ", or -1 for as in [mysql]",
                    setting_number(sink, &config->settings), strict.low, strict.high);
            return fail_at(config, sink, err);
        }
    }
    return RC_OK;
}

/* What one number says about another of the same section. */
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
};

static enum rc check_orders(struct config *config, struct err *err)
{
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        const struct setting *less = find(orders[i].section, orders[i].less);
        const struct setting *more = find(orders[i].section, orders[i].more);
        int64_t low = setting_number(less, &config->settings);
        int64_t high = setting_number(more, &config->settings);
        bool first = source_of(config, less)->from != FROM_DEFAULT;
        char place[CONFIG_PLACE_SIZE];

        if (low + orders[i].apart <= high)
            continue;
        /* The one that somebody set is the one to name first. */
        if (!first) {
            err_set(err, "%" PRId64 " must be %s %s.%s (%" PRId64 ", default): %s", high,
                    orders[i].apart ? "more than" : "at least", less->section, less->key, low,
                    orders[i].why);
            return fail_at(config, more, err);
        }
        config_place(config, *source_of(config, more), more->section, more->key, place);
        err_set(err, "%" PRId64 " must be %s %s.%s (%" PRId64 ", %s): %s", low,
                orders[i].apart ? "less than" : "at most", more->section, more->key, high, place,
                orders[i].why);
        return fail_at(config, less, err);
    }
    return RC_OK;
}

enum rc config_complete(struct config *config, struct err *err)
{
    struct settings *settings = &config->settings;
    enum rc rc = complete_password(config, &settings->mysql, "mysql", err);

    if (rc == RC_OK)
        rc = complete_password(config, &settings->sink, "sink", err);
    if (rc == RC_OK)
        rc = complete_sink(config, err);
    if (rc == RC_OK)
        rc = check_orders(config, err);
    return rc;
}
