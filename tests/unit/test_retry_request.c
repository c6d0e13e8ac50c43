/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_request.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define NOW_MS INT64_C(1790000000000)
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct retry_request request;
static struct err err;

static struct retry_words said(void)
{
    return (struct retry_words){.limit = RETRY_LIMIT_ANY, .wait_s = RETRY_WAIT_UNSAID};
}

/* Arguments separated by blanks. */
static enum rc read_words(struct retry_words words, const char *line)
{
    static char text[256];
    static struct retry_words kept;
    const char *arguments[8];
    size_t count = 0;
    char *rest = NULL;
    enum rc rc;

    kept = words;
    err = (struct err){0};
    snprintf(text, sizeof(text), "%s", line);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    rc = retry_request_read(&request, &kept, arguments, count, &err);
    assert_true(rc == RC_OK || (rc == RC_FATAL && err.text[0] != '\0'));
    return rc;
}

static void every_action_is_known_by_its_words(void **state)
{
    static const struct {
        const char *line;
        enum retry_action action;
    } cases[] = {{"list", RETRY_LIST},
                 {"show 1", RETRY_SHOW},
                 {"history", RETRY_HISTORY},
                 {"run-now 1", RETRY_RUN_NOW},
                 {"cancel 1 2", RETRY_CANCEL},
                 {"unpark k", RETRY_UNPARK},
                 {"requeue 1", RETRY_REQUEUE},
                 {"pause s", RETRY_PAUSE},
                 {"resume s", RETRY_RESUME},
                 {"scene list", RETRY_SCENE_LIST},
                 {"scene show s", RETRY_SCENE_SHOW},
                 {"group show g", RETRY_GROUP_SHOW}};

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(read_words(said(), cases[i].line), RC_OK);
        assert_int_equal(request.action, cases[i].action);
    }
}

static void an_unknown_action_is_reported_with_the_nearest_one(void **state)
{
    (void)state;
    assert_int_equal(read_words(said(), "cancle 1"), RC_FATAL);
    assert_non_null(strstr(err.text, "did you mean cancel"));
    assert_int_equal(read_words(said(), "scene"), RC_FATAL);
    assert_int_equal(read_words(said(), "scene lits"), RC_FATAL);
    assert_string_equal(err.text, "unknown action \"scene lits\"; did you mean scene list");
    assert_int_equal(read_words(said(), "scene mail"), RC_FATAL);
    assert_string_equal(err.text, "unknown action \"scene mail\"");
    assert_int_equal(read_words(said(), "list scene"), RC_FATAL);
    assert_int_equal(read_words(said(), ""), RC_FATAL);
}

static void ids_are_kept_once_each(void **state)
{
    struct retry_words words = said();

    (void)state;
    words.id = 5;
    assert_int_equal(read_words(words, "cancel 7 9 7 5"), RC_OK);
    assert_int_equal(request.filter.id_count, 3);
    assert_int_equal(request.ids[0], 7);
    assert_int_equal(request.ids[2], 5);
    assert_false(retry_request_is_bulk(&request));
    assert_int_equal(read_words(said(), "cancel 0"), RC_FATAL);
    assert_int_equal(read_words(said(), "cancel 99999999999999999999"), RC_FATAL);
    assert_int_equal(read_words(said(), "cancel 7x"), RC_FATAL);
}

static void states_are_a_list_of_words(void **state)
{
    struct retry_words words = said();

    (void)state;
    words.state = "blocked,waiting";
    assert_int_equal(read_words(words, "list"), RC_OK);
    assert_int_equal(request.filter.states, 1U << TASK_BLOCKED | 1U << TASK_WAITING);
    words.state = "blocked,dead";
    assert_int_equal(read_words(words, "list"), RC_FATAL);
    assert_non_null(strstr(err.text, "\"dead\""));
    words.state = ",";
    assert_int_equal(read_words(words, "list"), RC_FATAL);
}

static void a_filter_of_the_other_tables_names_the_command_that_takes_it(void **state)
{
    struct retry_words words = said();

    (void)state;
    words.state = "waiting,exhausted";
    assert_int_equal(read_words(words, "list"), RC_FATAL);
    assert_non_null(strstr(err.text, "tallybox retry history --outcome exhausted lists ended"));
    words.state = "done";
    assert_int_equal(read_words(words, "history"), RC_FATAL);
    assert_string_equal(err.text, "--state has no meaning for history: use --outcome done");
    words.state = "blocked,parked";
    assert_int_equal(read_words(words, "history"), RC_FATAL);
    assert_non_null(strstr(err.text, "tallybox retry list --state blocked,parked lists active"));
    words.state = NULL;
    words.outcome = "done";
    assert_int_equal(read_words(words, "list"), RC_FATAL);
    assert_non_null(strstr(err.text, "tallybox retry history --outcome done lists ended"));
    assert_int_equal(read_words(words, "history"), RC_OK);
    words.outcome = "blocked";
    assert_int_equal(read_words(words, "history"), RC_FATAL);
    assert_string_equal(err.text, "--outcome takes done, exhausted or cancelled, not \"blocked\"");
}

static void a_key_is_named_or_chosen(void **state)
{
    struct retry_words words = said();

    (void)state;
    assert_int_equal(read_words(words, "unpark order/1"), RC_OK);
    assert_string_equal(request.filter.ordering_key, "order/1");
    assert_false(retry_request_is_bulk(&request));
    words.key = "order/1";
    assert_int_equal(read_words(words, "unpark order/1"), RC_FATAL);
    assert_int_equal(read_words(words, "unpark"), RC_OK);
    assert_true(retry_request_is_bulk(&request));
}

static void an_edit_names_one_task_and_the_replaced_field(void **state)
{
    struct retry_words words = said();

    (void)state;
    assert_int_equal(read_words(words, "edit 7"), RC_FATAL);
    words.params_path = "-";
    assert_int_equal(read_words(words, "edit 7"), RC_OK);
    assert_int_equal(request.action, RETRY_EDIT);
    assert_int_equal(request.ids[0], 7);
    assert_int_equal(read_words(words, "edit 7 8"), RC_FATAL);
    assert_int_equal(read_words(words, "edit"), RC_FATAL);
    assert_int_equal(read_words(words, "cancel 7"), RC_FATAL);
    words.no_params = true;
    assert_int_equal(read_words(words, "edit 7"), RC_FATAL);
    words.params_path = NULL;
    assert_int_equal(read_words(words, "edit 7"), RC_OK);
    assert_int_equal(read_words(words, "cancel 7"), RC_FATAL);
    words.no_params = false;
    words.options = "{}";
    assert_int_equal(read_words(words, "edit 7"), RC_OK);
    words.scene = "mail";
    assert_int_equal(read_words(words, "edit 7"), RC_FATAL);
}

static void a_change_of_many_tasks_needs_an_explicit_choice(void **state)
{
    struct retry_words words = said();

    (void)state;
    assert_int_equal(read_words(words, "cancel"), RC_FATAL);
    words.all = true;
    assert_int_equal(read_words(words, "cancel"), RC_OK);
    assert_true(retry_request_is_bulk(&request));
    assert_int_equal(read_words(words, "cancel 1"), RC_FATAL);
    words.scene = "mail";
    assert_int_equal(read_words(words, "cancel"), RC_FATAL);
    words.all = false;
    assert_int_equal(read_words(words, "cancel"), RC_OK);
    assert_int_equal(read_words(words, "cancel 1"), RC_FATAL);
}

static void times_are_filled_in_by_the_clock(void **state)
{
    struct retry_words words = said();

    (void)state;
    words.since = "2h";
    assert_int_equal(read_words(words, "list"), RC_OK);
    retry_request_times(&request, NOW_MS);
    assert_int_equal(request.filter.since_ms, NOW_MS - 7200000);
    assert_true(request.filter.until_ms == INT64_MAX);
    words.until = "soon";
    assert_int_equal(read_words(words, "list"), RC_FATAL);
}

static void an_option_out_of_place_is_refused(void **state)
{
    struct retry_words words = said();

    (void)state;
    words.force = true;
    assert_int_equal(read_words(words, "cancel 1"), RC_OK);
    assert_int_equal(read_words(words, "run-now 1"), RC_FATAL);
    assert_non_null(strstr(err.text, "--force has no meaning for run-now"));
    words = said();
    words.policy = "{}";
    assert_int_equal(read_words(words, "scene set mail"), RC_OK);
    assert_string_equal(request.scene, "mail");
    assert_string_equal(request.group, RETRY_GROUP_DEFAULT);
    assert_int_equal(read_words(words, "scene show mail"), RC_FATAL);
    words = said();
    words.limit = 0;
    assert_int_equal(read_words(words, "list"), RC_FATAL);
}

static void a_group_is_named_behind_its_action(void **state)
{
    struct retry_words words = said();

    (void)state;
    words.topics = "shop.*";
    assert_int_equal(read_words(words, "group set shop"), RC_OK);
    assert_int_equal(request.action, RETRY_GROUP_SET);
    assert_string_equal(request.group, "shop");
    assert_int_equal(read_words(words, "group enable shop"), RC_FATAL);
    assert_non_null(strstr(err.text, "--topics has no meaning for group enable"));
    assert_int_equal(read_words(said(), "group disable"), RC_FATAL);
    assert_non_null(strstr(err.text, "group disable takes one GROUP"));
    assert_int_equal(read_words(said(), "group disable a/b"), RC_FATAL);
    assert_int_equal(read_words(said(), "group list shop"), RC_FATAL);
    assert_int_equal(read_words(said(), "group"), RC_FATAL);
    assert_non_null(strstr(err.text, "group set GROUP"));
    assert_int_equal(read_words(said(), "set shop"), RC_FATAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_action_is_known_by_its_words),
        cmocka_unit_test(an_unknown_action_is_reported_with_the_nearest_one),
        cmocka_unit_test(ids_are_kept_once_each),
        cmocka_unit_test(states_are_a_list_of_words),
        cmocka_unit_test(a_key_is_named_or_chosen),
        cmocka_unit_test(a_filter_of_the_other_tables_names_the_command_that_takes_it),
        cmocka_unit_test(an_edit_names_one_task_and_the_replaced_field),
        cmocka_unit_test(a_change_of_many_tasks_needs_an_explicit_choice),
        cmocka_unit_test(times_are_filled_in_by_the_clock),
        cmocka_unit_test(an_option_out_of_place_is_refused),
        cmocka_unit_test(a_group_is_named_behind_its_action),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
