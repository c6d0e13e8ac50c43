/* SPDX-License-Identifier: MIT */
/* Which submitted tasks are retry traffic. */
#include "producer/task/retry_traffic.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static bool refuses(bool no_retry, const char *header, const char *group, const char *scene,
                    struct request_fault *fault)
{
    const struct retry_traffic traffic = {.no_retry = no_retry, .scene = header};

    *fault = (struct request_fault){.code = REQUEST_FAULT_CODES};
    return retry_traffic_refuses(&traffic, group, scene, fault);
}

static void a_request_without_the_headers_may_submit(void **state)
{
    struct request_fault fault;

    (void)state;
    assert_false(refuses(false, NULL, "default", "mail", &fault));
    assert_int_equal(fault.code, REQUEST_FAULT_CODES);
}

static void an_attempt_may_submit_tasks_of_other_scenes_alone(void **state)
{
    struct request_fault fault;

    (void)state;
    assert_true(refuses(false, "default/mail", "default", "mail", &fault));
    assert_int_equal(fault.code, REQUEST_FAULT_RETRY_TRAFFIC);
    assert_non_null(strstr(fault.message, "tallybox-scene"));
    assert_int_equal(request_fault_status(fault.code), 409);
    assert_false(refuses(false, "default/mail", "default", "mail2", &fault));
    assert_false(refuses(false, "default/mail", "default", "mai", &fault));
    assert_false(refuses(false, "default/mail", "shop", "mail", &fault));
    assert_false(refuses(false, "default/mail", "defaul", "mail", &fault));
    assert_false(refuses(false, "default", "default", "mail", &fault));
    assert_false(refuses(false, "", "default", "mail", &fault));
}

static void a_call_that_asks_for_no_retry_may_submit_nothing(void **state)
{
    struct request_fault fault;

    (void)state;
    assert_true(refuses(true, NULL, "default", "mail", &fault));
    assert_int_equal(fault.code, REQUEST_FAULT_RETRY_TRAFFIC);
    assert_non_null(strstr(fault.message, "tallybox-no-retry"));
    assert_true(refuses(true, "default/other", "default", "mail", &fault));
    assert_true(refuses(true, "default/mail", "default", "mail", &fault));
    assert_non_null(strstr(fault.message, "tallybox-scene"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_without_the_headers_may_submit),
        cmocka_unit_test(an_attempt_may_submit_tasks_of_other_scenes_alone),
        cmocka_unit_test(a_call_that_asks_for_no_retry_may_submit_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
