/* SPDX-License-Identifier: MIT */
#include "common/config/ini_file.h"

#include <ini.h>

#include <stdbool.h>
#include <string.h>

/* libinih splits sections, keys and values. The distribution decided at build time how long its
 * lines may be (mostly 197 bytes), whether it knows comments after values, and what it treats as
 * a continued line. Therefore each line is cleaned before libinih gets it, and a long line is cut
 * into pieces: libinih appends a piece that starts with a blank to the value before it. */
struct ini {
    const struct ini_handler *handler;
    const char *name; /* of the file */
    FILE *file;
    struct err *err;
    enum rc rc;
    int line;
    char text[INI_LINE_BYTES];  /* the current line without outer blanks and comment */
    size_t at;                  /* bytes of it that libinih has got */
    bool is_value;              /* the line must have a key and a value */
    bool found;                 /* libinih has found them */
    char section[96];           /* of the current lines; libinih would cut it at 49 bytes */
    char key[INI_LINE_BYTES];   /* whose value is complete when the next line is asked for */
    char value[INI_LINE_BYTES]; /* never longer than its line */
};

static enum rc fail_at_line(struct ini *ini, const char *what)
{
    return err_fail(ini->err, RC_FATAL, 0, "%.160s:%d: %s", ini->name, ini->line, what);
}

/* Removes the blanks at the start, because an indented key is no continued value. */
static void clean_line(char *text)
{
    size_t start = strspn(text, " \t\r\f\v");
    size_t len = strlen(text) - start;

    memmove(text, text + start, len + 1);
    if (*text == ';' || *text == '#')
        len = 0;
    for (size_t i = 1; i < len; i++)
        if (text[i] == ';' && strchr(" \t", text[i - 1]))
            len = i;
    while (len > 0 && strchr(" \t\r\f\v", text[len - 1]))
        len--;
    text[len] = '\0';
}

/* Reads one line of the file unchanged. False at the end of the file. */
static bool read_line(struct ini *ini)
{
    size_t len = 0;
    int c;

    while ((c = getc(ini->file)) != EOF && c != '\n' && c != '\0' && len < sizeof(ini->text) - 1)
        ini->text[len++] = (char)c;
    ini->text[len] = '\0';
    ini->line++;
    if (ferror(ini->file))
        ini->rc = fail_at_line(ini, "cannot be read; is it a file?");
    else if (c == '\0')
        ini->rc = fail_at_line(ini, "holds a zero byte; expected a text file in UTF-8");
    else if (c != EOF && c != '\n')
        ini->rc = fail_at_line(ini, "the line is too long; expected less than 1500 bytes");
    if (ini->line == 1 && strncmp(ini->text, "\xef\xbb\xbf", 3) == 0)
        memmove(ini->text, ini->text + 3, len - 2);
    return c != EOF || len > 0;
}

static enum rc check_heading(struct ini *ini)
{
    char *end = strchr(ini->text, ']');
    struct err err = {0};

    if (!end || end[1])
        return fail_at_line(ini, "expected [section] alone on its line");
    if ((size_t)(end - ini->text) > sizeof(ini->section))
        return fail_at_line(ini, "the section's name is too long");
    memcpy(ini->section, ini->text + 1, (size_t)(end - ini->text) - 1);
    ini->section[end - ini->text - 1] = '\0';
    if (ini->handler->on_section(ini->handler->ctx, ini->section, ini->line, &err) != RC_OK)
        return fail_at_line(ini, err.text);
    return RC_OK;
}

/* Stores the value of the line before, which is complete now. */
static enum rc finish_value(struct ini *ini)
{
    if (!ini->is_value)
        return RC_OK;
    ini->is_value = false;
    if (!ini->found)
        return fail_at_line(ini, "expected key = value, or [section]");
    if (!*ini->section)
        return fail_at_line(ini, "expected a [section] before the first key");
    return ini->handler->on_value(ini->handler->ctx, ini->section, ini->key, ini->value, ini->line,
                                  ini->err);
}

/* Reads up to the next line with content. False at the end of the file and after an error. */
static bool read_next_line(struct ini *ini)
{
    ini->rc = finish_value(ini);
    ini->at = 0;
    ini->text[0] = '\0';
    while (ini->rc == RC_OK && !*ini->text) {
        if (!read_line(ini))
            return false;
        clean_line(ini->text);
    }
    if (ini->rc != RC_OK)
        return false;
    ini->found = false;
    ini->is_value = *ini->text != '[';
    if (!ini->is_value)
        ini->rc = check_heading(ini);
    return ini->rc == RC_OK;
}

/* The length of the next piece. libinih would drop blanks at a cut and treat a piece that begins
 * with a comment mark as a comment, so neither may be next to the cut. 0: no cut is possible. */
static size_t find_piece_len(const char *text, size_t room)
{
    size_t len = strlen(text);

    if (len <= room)
        return len;
    for (len = room; len > 0; len--)
        if (!strchr(" \t", text[len - 1]) && !strchr(" \t;#", text[len]))
            return len;
    return 0;
}

/* Called by libinih like fgets(). */
static char *read_piece(char *to, int size, void *stream)
{
    struct ini *ini = stream;
    bool more = ini->text[ini->at] != '\0';
    size_t room = size > 3 ? (size_t)size - 3 : 0; /* blank, line end, zero byte */
    size_t len;

    if (!more && !read_next_line(ini))
        return NULL;
    len = find_piece_len(ini->text + ini->at, room);
    if (len == 0) {
        ini->rc = fail_at_line(ini, "the line has too many blanks in a row");
        return NULL;
    }
    snprintf(to, (size_t)size, "%s%.*s\n", more ? " " : "", (int)len, ini->text + ini->at);
    ini->at += len;
    return to;
}

/* Called by libinih once per piece. */
static int take_piece(void *user, const char *section, const char *key, const char *value)
{
    struct ini *ini = user;

    (void)section;
    if (ini->found) {
        size_t len = strlen(ini->value);

        snprintf(ini->value + len, sizeof(ini->value) - len, "%s", value);
        return 1;
    }
    ini->found = true;
    snprintf(ini->key, sizeof(ini->key), "%s", key);
    snprintf(ini->value, sizeof(ini->value), "%s", value);
    return 1;
}

enum rc ini_file_read(FILE *file, const char *name, const struct ini_handler *handler,
                      struct err *err)
{
    struct ini ini = {.handler = handler, .name = name, .file = file, .err = err};
    int code = ini_parse_stream(read_piece, &ini, take_piece, &ini);

    /* A line that libinih cannot parse has no value; finish_value() has named that line. */
    if (ini.rc == RC_OK && code != 0)
        ini.rc = fail_at_line(&ini, "cannot be read as an INI file");
    return ini.rc;
}
