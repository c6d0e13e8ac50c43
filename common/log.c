/* SPDX-License-Identifier: MIT */
#include "common/log.h"

#include "common/os.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 1024

static _Atomic enum log_level lowest_level = LOG_INFO;

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(enum log_level level)
{
    atomic_store_explicit(&lowest_level, level, memory_order_relaxed);
}

/* One byte is reserved for the newline, so a line that was cut still ends with one. */
struct line {
    char text[LINE_BYTES];
    size_t len;
};

static void put_line(struct line *line, char c)
{
    if (line->len < sizeof(line->text) - 1)
        line->text[line->len++] = c;
}

__attribute__((format(printf, 2, 0))) static void line_vprint(struct line *line, const char *format,
                                                              va_list args)
{
    size_t room = sizeof(line->text) - 1 - line->len;
    int n = vsnprintf(line->text + line->len, room, format, args);

    if (n > 0)
        line->len += (size_t)n < room ? (size_t)n : (room > 0 ? room - 1 : 0);
}

__attribute__((format(printf, 2, 3))) static void line_print(struct line *line, const char *format,
                                                             ...)
{
    va_list args;

    va_start(args, format);
    line_vprint(line, format, args);
    va_end(args);
}

static void quote_value(struct line *line, const char *text)
{
    put_line(line, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put_line(line, '\\');
        put_line(line, *text);
    }
    put_line(line, '"');
}

static void start_line(struct line *line, enum log_level level, const char *event)
{
    int64_t wall_ms = os_wall_ms();
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm utc;
    char stamp[32];

    gmtime_r(&seconds, &utc);
    strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
    line->len = 0;
    line_print(line, "time=%s.%03dZ level=%s event=%s", stamp, (int)(wall_ms % 1000),
               level_names[level], event);
}

/* Some values come from outside (names, paths, error texts of servers). A control character in one
 * of them could begin a new line or change the terminal, so it becomes a blank. */
static void write_line(struct line *line)
{
    for (size_t i = 0; i < line->len; i++)
        if ((unsigned char)line->text[i] < 0x20 || line->text[i] == 0x7f)
            line->text[i] = ' ';
    line->text[line->len++] = '\n';
    /* There is no other place to report that stderr cannot be written. */
    if (write(STDERR_FILENO, line->text, line->len) < 0)
        return;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    struct line line;
    va_list args;

    if (level < atomic_load_explicit(&lowest_level, memory_order_relaxed))
        return;
    start_line(&line, level, event);
    if (*format)
        put_line(&line, ' ');
    va_start(args, format);
    line_vprint(&line, format, args);
    va_end(args);
    write_line(&line);
}

void log_error(enum log_level level, const char *event, const struct err *err, const char *format,
               ...)
{
    struct line line;
    va_list args;

    if (level < atomic_load_explicit(&lowest_level, memory_order_relaxed))
        return;
    start_line(&line, level, event);
    if (*format)
        put_line(&line, ' ');
    va_start(args, format);
    line_vprint(&line, format, args);
    va_end(args);
    line_print(&line, " err=");
    quote_value(&line, err->text);
    write_line(&line);
}
