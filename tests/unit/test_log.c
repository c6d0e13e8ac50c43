/* SPDX-License-Identifier: MIT */
#include "common/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Lines go to the process' standard error: it is a file while something is logged. */
static char said[8192];
static FILE *file;
static int kept;

static void catch (void)
{
    file = tmpfile();
    kept = dup(STDERR_FILENO);
    assert_non_null(file);
    dup2(fileno(file), STDERR_FILENO);
}

static const char *caught(void)
{
    size_t len;

    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    len = fread(said, 1, sizeof(said) - 1, file);
    said[len] = '\0';
    fclose(file);
    return said;
}

static void a_line_has_time_level_event_and_pairs(void **state)
{
    const char *line;

    (void)state;
    catch ();
    log_event(LOG_WARN, "lease_failed", "wait_ms=%d", 400);
    line = caught();
    assert_int_equal(strncmp(line, "time=20", 7), 0);
    assert_int_equal(line[28], 'Z');
    assert_string_equal(line + 29, " level=warn event=lease_failed wait_ms=400\n");
}

static void an_event_needs_no_pairs(void **state)
{
    const char *line;

    (void)state;
    catch ();
    log_event(LOG_INFO, "started", "%s", "");
    log_event(LOG_INFO, "stopped", "x=1");
    line = caught();
    assert_non_null(strstr(line, " event=stopped x=1\n"));
}

static void an_error_is_quoted(void **state)
{
    struct err err = {.text = "say \"no\" \\ to\ttabs"};
    const char *line;

    (void)state;
    catch ();
    log_error(LOG_ERROR, "failed", &err, "rc=%s", "retry");
    line = caught();
    assert_non_null(
        strstr(line, "level=error event=failed rc=retry err=\"say \\\"no\\\" \\\\ to tabs\"\n"));
}

static void any_logged_value_stays_on_one_line(void **state)
{
    struct err err = {.text = "two\nlines"};
    const char *line;

    (void)state;
    catch ();
    log_event(LOG_INFO, "odd", "path=%s", "a\nlevel=info event=forged\r\x1b[2J");
    log_error(LOG_INFO, "odd", &err, "path=%s", "b\nc");
    line = caught();
    assert_non_null(strstr(line, "path=a level=info event=forged  [2J\n"));
    assert_non_null(strstr(line, "path=b c err=\"two lines\"\n"));
}

static void lines_below_the_level_are_dropped(void **state)
{
    struct err err = {.text = "x"};

    (void)state;
    log_init(LOG_WARN);
    catch ();
    log_event(LOG_DEBUG, "a", "x=1");
    log_event(LOG_INFO, "b", "x=1");
    log_error(LOG_INFO, "c", &err, "x=1");
    log_event(LOG_WARN, "d", "x=1");
    log_event(LOG_ERROR, "e", "x=1");
    log_init(LOG_DEBUG);
    log_event(LOG_DEBUG, "f", "x=1");
    caught();
    log_init(LOG_INFO);
    assert_null(strstr(said, "event=a"));
    assert_null(strstr(said, "event=b"));
    assert_null(strstr(said, "event=c"));
    assert_non_null(strstr(said, "event=d"));
    assert_non_null(strstr(said, "event=e"));
    assert_non_null(strstr(said, "event=f"));
}

/* Every length around the bound of a line: none may run out of it, all must end. */
static void a_long_line_is_cut_and_still_ends(void **state)
{
    char text[2000];
    struct err err = {0};

    (void)state;
    memset(err.text, '"', sizeof(err.text) - 1);
    for (size_t len = 900; len < 1100; len++) {
        const char *line;

        memset(text, 'x', len);
        text[len] = '\0';
        catch ();
        log_event(LOG_INFO, "long", "text=%s", text);
        line = caught();
        assert_true(strlen(line) <= 1024);
        assert_int_equal(line[strlen(line) - 1], '\n');
        catch ();
        log_error(LOG_INFO, "long", &err, "text=%s", text);
        line = caught();
        assert_true(strlen(line) <= 1024);
        assert_int_equal(line[strlen(line) - 1], '\n');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_event_and_pairs),
        cmocka_unit_test(an_event_needs_no_pairs),
        cmocka_unit_test(an_error_is_quoted),
        cmocka_unit_test(any_logged_value_stays_on_one_line),
        cmocka_unit_test(lines_below_the_level_are_dropped),
        cmocka_unit_test(a_long_line_is_cut_and_still_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
