/* SPDX-License-Identifier: MIT */
/* Addresses of Kafka Connect, and which of its answers say that a connector is stopped. */
#include "outbox/adopt/connect_state.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

#define URL "http://c:8083/connectors/shop"

static struct err err;

static void expect(enum rc wanted, const char *answer, const char *words)
{
    err.text[0] = '\0';
    assert_int_equal(connect_state_check(URL, answer, strlen(answer), &err), wanted);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void a_connector_is_stopped_when_its_tasks_have_ended(void **state)
{
    (void)state;
    expect(RC_OK, "{\"connector\": {\"state\": \"STOPPED\"}, \"tasks\": []}", "");
    expect(RC_RETRY,
           "{\"connector\": {\"state\": \"STOPPED\"}, \"tasks\": [{\"id\": 0, \"state\": "
           "\"RUNNING\"}]}",
           "still names 1 tasks");
    expect(RC_REJECT, "{\"connector\": {\"state\": \"PAUSED\"}, \"tasks\": []}", "is PAUSED: stop");
}

static void other_answers_are_refused(void **state)
{
    (void)state;
    expect(RC_REJECT, "{\"connector\": {\"state\": \"STOPPED\"}}", "no list of tasks");
    expect(RC_REJECT, "{}", "no connector.state");
    expect(RC_REJECT, "", "no connector.state");
}

static void addresses_are_known_in_any_case(void **state)
{
    (void)state;
    assert_true(connect_url_is(URL));
    assert_true(connect_url_is("HTTP://u:pw@c/"));
    assert_true(connect_url_is("hTTps://c"));
    assert_false(connect_url_is("http:/c"));
    assert_false(connect_url_is("shop.json"));
}

static void a_password_in_an_address_is_refused_and_not_repeated(void **state)
{
    (void)state;
    assert_int_equal(connect_url_check("HTTP://u:geheim@c/connectors/x", &err), RC_REJECT);
    assert_null(strstr(err.text, "geheim"));
    assert_int_equal(connect_url_check("http://c/connectors/x@y", &err), RC_OK);
}

static void the_offsets_lead_to_the_connector(void **state)
{
    static const char *const urls[] = {URL, URL "/", URL "/offsets", URL "/offsets/"};

    (void)state;
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        struct buf out = {0};

        connect_url_put(&out, urls[i]);
        assert_string_equal(buf_text(&out), URL);
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connector_is_stopped_when_its_tasks_have_ended),
        cmocka_unit_test(other_answers_are_refused),
        cmocka_unit_test(addresses_are_known_in_any_case),
        cmocka_unit_test(a_password_in_an_address_is_refused_and_not_repeated),
        cmocka_unit_test(the_offsets_lead_to_the_connector),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
