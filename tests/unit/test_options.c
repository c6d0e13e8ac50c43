/* SPDX-License-Identifier: MIT */
#include "common/options.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bool undo;
static const char *csv;
static int64_t rate;

static const struct option_entry entries[] = {
    {"undo", OPTION_FLAG, &undo, NULL, "take the vote back", NULL},
    {"csv", OPTION_TEXT, &csv, "FILE", "read votes from FILE", NULL},
    {"rate", OPTION_NUMBER, &rate, "N", "votes a second", NULL},
};

static const struct option_parse with_arguments = {
    .command = "tallybox vote",
    .arguments = "VOTER CONTENT",
    .about = "Votes.",
    .entries = entries,
    .count = sizeof(entries) / sizeof(entries[0]),
    .examples = "Examples:\n  tallybox vote 1 2",
};

static const struct option_parse without_arguments = {
    .command = "tallybox status", .arguments = "", .about = "Shows.", .entries = NULL, .count = 0};

static struct options options;

/* The output of the call, which writes to the real streams. */
static char said[8192];

static int parse_catching(FILE *stream, const struct option_parse *parse, int argc, char **argv)
{
    FILE *file = tmpfile();
    int kept = dup(fileno(stream));
    int code;
    size_t len;

    assert_non_null(file);
    fflush(stream);
    dup2(fileno(file), fileno(stream));
    code = options_parse(&options, parse, argc, argv);
    fflush(stream);
    dup2(kept, fileno(stream));
    close(kept);
    rewind(file);
    len = fread(said, 1, sizeof(said) - 1, file);
    said[len] = '\0';
    fclose(file);
    return code;
}

#define ARGV(...) ((char *[]){(char[]){"vote"}, __VA_ARGS__, NULL})
#define ARG(text) ((char[]){text})

static int parse(const struct option_parse *table, char **argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    undo = false;
    csv = NULL;
    rate = 0;
    return parse_catching(stderr, table, argc, argv);
}

static int clear(void **state)
{
    (void)state;
    memset(said, 0, sizeof(said));
    return 0;
}

static void options_and_arguments_may_be_mixed(void **state)
{
    char **argv = ARGV(ARG("1"), ARG("--undo"), ARG("2"), ARG("--csv"), ARG("f"), ARG("--rate=9"));

    (void)state;
    assert_int_equal(parse(&with_arguments, argv), -1);
    assert_true(undo);
    assert_string_equal(csv, "f");
    assert_int_equal(rate, 9);
    assert_int_equal(options.argument_count, 2);
    assert_string_equal(options.arguments[0], "1");
    assert_string_equal(options.arguments[1], "2");
}

static void an_empty_command_line_is_fine(void **state)
{
    char **argv = (char *[]){NULL};

    (void)state;
    assert_int_equal(options_parse(&options, &without_arguments, 0, argv), -1);
    assert_int_equal(options.argument_count, 0);
    assert_int_equal(options_parse(&options, &without_arguments, 1, (char *[]){ARG("x"), NULL}),
                     -1);
}

static void a_value_may_look_like_an_option(void **state)
{
    (void)state;
    assert_int_equal(parse(&with_arguments, ARGV(ARG("--csv"), ARG("--undo"))), -1);
    assert_string_equal(csv, "--undo");
    assert_false(undo);
    assert_int_equal(parse(&with_arguments, ARGV(ARG("--csv=a=b"))), -1);
    assert_string_equal(csv, "a=b");
    assert_int_equal(parse(&with_arguments, ARGV(ARG("--csv="))), -1);
    assert_string_equal(csv, "");
}

static void a_dash_a_number_and_all_after_two_dashes_are_arguments(void **state)
{
    (void)state;
    assert_int_equal(parse(&with_arguments, ARGV(ARG("-"), ARG("-5"), ARG("--"), ARG("--undo"))),
                     -1);
    assert_int_equal(options.argument_count, 3);
    assert_string_equal(options.arguments[0], "-");
    assert_string_equal(options.arguments[1], "-5");
    assert_string_equal(options.arguments[2], "--undo");
    assert_false(undo);
}

static void config_and_sets_are_collected(void **state)
{
    char **argv =
        ARGV(ARG("--config"), ARG("x.ini"), ARG("--set=a.b=c"), ARG("--set"), ARG("d.e=f"));

    (void)state;
    assert_int_equal(parse(&without_arguments, argv), -1);
    assert_string_equal(options.config_path, "x.ini");
    assert_int_equal(options.set_count, 2);
    assert_string_equal(options.sets[0], "a.b=c");
    assert_string_equal(options.sets[1], "d.e=f");
}

static void too_many_sets_are_refused(void **state)
{
    char *argv[80] = {ARG("status")};
    char set[] = "--set=a.b=c";

    (void)state;
    for (int i = 1; i <= 65; i++)
        argv[i] = set;
    assert_int_equal(parse(&without_arguments, argv), EXIT_USAGE);
    assert_non_null(strstr(said, "more than 64 --set"));
    argv[65] = NULL;
    assert_int_equal(parse(&without_arguments, argv), -1);
}

static void mistakes_are_named(void **state)
{
    static const struct {
        const char *text;
        const char *sentence;
    } cases[] = {
        {"--undone", "tallybox vote: unknown option --undone; did you mean --undo?\n"},
        {"--hlep", "tallybox vote: unknown option --hlep; did you mean --help?\n"},
        {"--conf", "tallybox vote: unknown option --conf; did you mean --config?\n"},
        {"--whatever=1", "tallybox vote: unknown option --whatever\n"},
        {"--undo=1", "tallybox vote: --undo takes no value\n"},
        {"--csv", "tallybox vote: --csv needs a value: --csv FILE\n"},
        {"--rate=x", "tallybox vote: --rate x: expected a whole number\n"},
        {"--rate=", "tallybox vote: --rate : expected a whole number\n"},
        {"--rate=1x", "tallybox vote: --rate 1x: expected a whole number\n"},
        {"--rate=99999999999999999999",
         "tallybox vote: --rate 99999999999999999999: expected a whole number\n"},
        {"-u", "tallybox vote: unknown option -u; options start with --\n"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[64];

        snprintf(text, sizeof(text), "%s", cases[i].text);
        assert_int_equal(parse(&with_arguments, ARGV(text)), EXIT_USAGE);
        assert_int_equal(strncmp(said, cases[i].sentence, strlen(cases[i].sentence)), 0);
        assert_non_null(strstr(said, "Try `tallybox vote --help`.\n"));
    }
}

static void arguments_where_none_belong_are_refused(void **state)
{
    (void)state;
    assert_int_equal(parse(&without_arguments, ARGV(ARG("now"))), EXIT_USAGE);
    assert_non_null(strstr(said, "tallybox status: takes no arguments, but got \"now\"\n"));
}

static void help_shows_every_option_and_the_example(void **state)
{
    char *argv[] = {ARG("vote"), ARG("--csv=f"), ARG("--help"), ARG("--nonsense"), NULL};

    (void)state;
    assert_int_equal(parse_catching(stdout, &with_arguments, 4, argv), EXIT_DONE);
    assert_int_equal(
        strncmp(said, "Usage: tallybox vote [OPTION]... VOTER CONTENT\n\nVotes.\n", 55), 0);
    assert_non_null(strstr(said, "\n  --csv FILE              read votes from FILE\n"));
    assert_non_null(strstr(said, "\n  --set SECTION.KEY=VALUE\n"));
    assert_non_null(strstr(said, "\n  --help                  show this page; --help=settings: "));
    assert_null(strstr(said, "Settings: "));
    assert_non_null(strstr(said, "\nExamples:\n  tallybox vote 1 2\n"));
}

static void no_line_is_wider_than_a_terminal(void)
{
    for (const char *line = said; *line; line += strcspn(line, "\n") + 1) {
        size_t len = strcspn(line, "\n");

        assert_true(len <= 80);
        assert_true(len == 0 || line[len - 1] != ' ');
    }
}

static void help_fits_a_terminal_and_lists_settings_on_request(void **state)
{
    static const struct option_entry wide[] = {
        {"wide", OPTION_FLAG, &undo, NULL,
         "a help text that is so long that it must be wrapped at least twice before it fits into "
         "the second column of the page, or it would look bad",
         NULL},
    };
    static const struct option_action actions[] = {{"go", "", "goes"}};
    const struct option_parse page = {
        .command = "tallybox x",
        .arguments = "",
        .about = "First paragraph that is long enough to be wrapped somewhere near the end of the "
                 "line.\n\nSecond paragraph.",
        .entries = wide,
        .count = 1,
        .actions = actions,
        .action_count = 1,
        .sections = "relay,log,relay,admin,log",
    };
    char *argv[] = {ARG("x"), ARG("-h"), NULL};
    char *of_settings[] = {ARG("x"), ARG("--help=settings"), NULL};

    (void)state;
    assert_int_equal(parse_catching(stdout, &page, 2, argv), EXIT_DONE);
    assert_non_null(strstr(said, "line.\n\nSecond paragraph.\n\nActions:\n  go"));
    assert_true(strstr(said, "\nActions:\n") < strstr(said, "\nOptions:\n"));
    assert_non_null(strstr(said, "\nSettings: the command reads the sections [relay], [log] and "
                                 "[admin]. "));
    assert_null(strstr(said, "relay.lanes"));
    no_line_is_wider_than_a_terminal();

    assert_int_equal(parse_catching(stdout, &page, 2, of_settings), EXIT_DONE);
    assert_ptr_equal(strstr(said, "Settings of tallybox x, with their defaults:\n  relay.lanes "),
                     said);
    assert_non_null(strstr(said, "\n  admin.stop_timeout_ms"));
    assert_null(strstr(said, "mysql.host"));
    no_line_is_wider_than_a_terminal();
}

static void a_bad_setting_is_a_usage_mistake(void **state)
{
    struct config *config = NULL;
    struct err err = {0};
    char *argv[] = {ARG("x"), ARG("--config=/dev/null"), ARG("--set=log.level=loud"), NULL};

    (void)state;
    assert_int_equal(options_parse(&options, &without_arguments, 3, argv), -1);
    assert_int_equal(options_load(&options, &config), EXIT_USAGE);
    assert_null(config);
    options.set_count = 0;
    assert_int_equal(options_load(&options, &config), -1);
    assert_non_null(config);
    config_free(config);
    assert_int_equal(options_fail(RC_RETRY, &err), EXIT_UNAVAILABLE);
    assert_int_equal(options_fail(RC_REJECT, &err), EXIT_FAILED);
    assert_int_equal(options_fail(RC_FATAL, &err), EXIT_FAILED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(options_and_arguments_may_be_mixed, clear),
        cmocka_unit_test_setup(an_empty_command_line_is_fine, clear),
        cmocka_unit_test_setup(a_value_may_look_like_an_option, clear),
        cmocka_unit_test_setup(a_dash_a_number_and_all_after_two_dashes_are_arguments, clear),
        cmocka_unit_test_setup(config_and_sets_are_collected, clear),
        cmocka_unit_test_setup(too_many_sets_are_refused, clear),
        cmocka_unit_test_setup(mistakes_are_named, clear),
        cmocka_unit_test_setup(arguments_where_none_belong_are_refused, clear),
        cmocka_unit_test_setup(help_shows_every_option_and_the_example, clear),
        cmocka_unit_test_setup(help_fits_a_terminal_and_lists_settings_on_request, clear),
        cmocka_unit_test_setup(a_bad_setting_is_a_usage_mistake, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
