/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/setting_line.h"

#include "common/buf.h"
#include "common/config/ini_file.h"
#include "common/config/settings.h"
#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct line {
    const char *key;
    const char *value;
    const struct setting *setting;
    void *scratch; /* large enough for struct settings and struct lane_settings */
    bool found;
};

bool setting_line_is_one(const char *text)
{
    return utf8_prints(text, strlen(text)) && !strpbrk(text, "\r\n\t");
}

static enum rc take_section(void *ctx, const char *section, int line, struct err *err)
{
    (void)ctx;
    (void)section;
    (void)line;
    (void)err;
    return RC_OK;
}

static enum rc take_value(void *ctx, const char *section, const char *key, const char *value,
                          int number, struct err *err)
{
    struct line *line = ctx;

    (void)section;
    (void)number;
    if (strcmp(key, line->key) != 0 || strcmp(value, line->value) != 0)
        return err_fail(err, RC_REJECT, 0, "a settings file would have it as \"%.100s\"", value);
    line->found = true;
    return setting_store(line->setting, line->scratch, value, err) == RC_OK ? RC_OK : RC_REJECT;
}

static enum rc read_line(struct line *line, struct buf *text, struct err *err)
{
    const struct ini_handler handler = {
        .on_section = take_section, .on_value = take_value, .ctx = line};
    FILE *file = text->failed ? NULL : fmemopen(text->data, text->len, "r");
    enum rc rc = file ? ini_file_read(file, "it", &handler, err)
                      : err_fail(err, RC_FATAL, 0, "no memory for a setting");

    if (file)
        fclose(file);
    if (file && rc == RC_FATAL)
        rc = RC_REJECT;
    if (rc == RC_OK && !line->found)
        rc = err_fail(err, RC_REJECT, 0, "a settings file would not have it");
    return rc;
}

enum rc setting_line_check(const char *section, const char *key, const char *value, struct err *err)
{
    struct line line = {.key = key, .value = value, .setting = setting_find(section, key)};
    struct buf text = {0};
    enum rc rc;

    if (!line.setting)
        return err_fail(err, RC_REJECT, 0, "tallybox has no such setting");
    if (!setting_line_is_one(value))
        return err_fail(err, RC_REJECT, 0, "the value has a line end or a control character");
    line.scratch = calloc(1, sizeof(struct settings));
    if (!line.scratch)
        return err_fail(err, RC_FATAL, 0, "no memory for a setting");
    buf_print(&text, "[%s]\n%s = ", section, key);
    buf_text_put(&text, value);
    buf_char(&text, '\n');
    rc = read_line(&line, &text, err);
    buf_done(&text);
    free(line.scratch);
    return rc;
}
