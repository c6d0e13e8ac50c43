/* SPDX-License-Identifier: MIT */
#include "outbox/retry/handlers/handler_list.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static struct settings settings;
static size_t opened;
static size_t closed;
static const struct retry_handlers *seen;

static enum rc open_one(void **handler, const struct retry_handler_env *env, struct err *err)
{
    (void)err;
    seen = env->all;
    opened++;
    *handler = &opened;
    return RC_OK;
}

static enum rc open_none(void **handler, const struct retry_handler_env *env, struct err *err)
{
    (void)handler;
    (void)env;
    return err_fail(err, RC_FATAL, 0, "something is missing");
}

static void close_one(void *handler)
{
    assert_ptr_equal(handler, &opened);
    closed++;
}

static const struct retry_handler mail = {.name = "mail", .open = open_one, .close = close_one};
static struct retry_handler fax = {.name = "fax", .open = open_one, .close = close_one};
static const struct retry_handler sick = {.name = "sick", .open = open_none, .close = close_one};
static const struct retry_handler *const handlers[] = {&mail, &fax, &sick};

static enum rc list_open(struct handler_list *list, size_t count, const char *names,
                         struct err *err)
{
    const struct retry_handlers table = {handlers, count, NULL, NULL, NULL};
    const struct retry_handler_env env = {.settings = &settings};

    opened = 0;
    closed = 0;
    snprintf(settings.retry.handlers, sizeof(settings.retry.handlers), "%s", names);
    return handler_list_open(list, &table, &env, err);
}

static void an_empty_list_opens_all(void **state)
{
    struct handler_list list;

    (void)state;
    assert_int_equal(list_open(&list, 2, "", NULL), RC_OK);
    assert_int_equal(opened, 2);
    assert_ptr_equal(seen, &list.handlers);
    assert_int_equal(list.handlers.count, 2);
    handler_list_close(&list);
    assert_int_equal(closed, 2);
}

static void only_those_named_are_opened(void **state)
{
    struct handler_list list;

    (void)state;
    assert_int_equal(list_open(&list, 3, " fax ,", NULL), RC_OK);
    assert_null(list.handlers.opened[0]);
    assert_non_null(list.handlers.opened[1]);
    assert_null(list.handlers.opened[2]);
    handler_list_close(&list);
    assert_int_equal(closed, 1);
}

static void one_that_needs_all_is_not_opened_without_them(void **state)
{
    struct handler_list list;
    struct err err = {0};

    (void)state;
    assert_int_equal(list_open(&list, 2, "mail", NULL), RC_OK);
    handler_list_close(&list);
    fax.needs_all = true;
    assert_int_equal(list_open(&list, 2, "mail,fax", NULL), RC_OK);
    handler_list_close(&list);
    assert_int_equal(list_open(&list, 2, "mail", NULL), RC_OK);
    handler_list_close(&list);
    assert_int_equal(list_open(&list, 2, "fax", &err), RC_REJECT);
    assert_string_equal(err.text, "retry.handlers: a task of \"fax\" may need any handler, and "
                                  "\"mail\" is not listed: list all of them, or leave \"fax\" out");
    handler_list_close(&list);
    assert_int_equal(closed, opened);
    fax.needs_all = false;
}

static void an_unknown_name_is_reported_with_the_known_names(void **state)
{
    struct handler_list list;
    struct err err = {0};

    (void)state;
    assert_int_equal(list_open(&list, 2, "mail,mai", &err), RC_REJECT);
    assert_string_equal(err.text, "retry.handlers: there is no handler \"mai\"; mail, fax are");
    handler_list_close(&list);
    assert_int_equal(opened, 0);
}

static void a_handler_that_cannot_open_is_reported_and_the_others_are_closed(void **state)
{
    struct handler_list list;
    struct err err = {0};

    (void)state;
    assert_int_equal(list_open(&list, 3, "", &err), RC_FATAL);
    assert_string_equal(err.text, "handler sick: something is missing");
    handler_list_close(&list);
    assert_int_equal(closed, 2);
    handler_list_close(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_list_opens_all),
        cmocka_unit_test(only_those_named_are_opened),
        cmocka_unit_test(one_that_needs_all_is_not_opened_without_them),
        cmocka_unit_test(an_unknown_name_is_reported_with_the_known_names),
        cmocka_unit_test(a_handler_that_cannot_open_is_reported_and_the_others_are_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
