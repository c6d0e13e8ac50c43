/* SPDX-License-Identifier: MIT */
/* Addresses of clients, routes, and the body of a beat. */
#include "outbox/retry/clients/client.h"
#include "producer/task/beat_json.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#define HOSTS "*.example.org:8080,api.example.org,10.0.0.7:80"

static void an_address_has_one_form(void **state)
{
    static const struct {
        const char *text;
        const char *address;
    } good[] = {
        {"http://A.example.org:8080", "http://a.example.org:8080"},
        {"http://a.example.org:8080/", "http://a.example.org:8080"},
        {"http://a.example.org:8080/Jobs//", "http://a.example.org:8080/Jobs"},
        {"https://api.example.org/x/y", "https://api.example.org:443/x/y"},
        {"http://10.0.0.7", "http://10.0.0.7:80"},
    };
    char address[RETRY_CLIENT_ADDRESS_SIZE];
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_int_equal(retry_client_address(address, good[i].text, HOSTS, &err), RC_OK);
        assert_string_equal(address, good[i].address);
        /* What is stored has this form already. */
        assert_int_equal(retry_client_address(address, good[i].address, HOSTS, &err), RC_OK);
        assert_string_equal(address, good[i].address);
    }
}

static void other_addresses_are_refused(void **state)
{
    static const char *const bad[] = {
        "",
        "a.example.org:8080",
        "ftp://a.example.org:8080",
        "http://user:secret@a.example.org:8080",
        "http://a.example.org:8080/?q=1",
        "http://a.example.org:8080/#f",
        "http://a.example.org:8080/ x",
        "http://a.example.org",      /* another port */
        "http://example.net:8080",   /* another host */
        "http://169.254.169.254/",   /* as example.net */
        "http://a.example.org.:8080" /* DNS would read it twice */
    };
    char address[RETRY_CLIENT_ADDRESS_SIZE];
    char text[400];
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(retry_client_address(address, bad[i], HOSTS, &err), RC_REJECT);
        assert_int_equal(err.code, 0);
        assert_null(strstr(err.text, "secret"));
    }
    assert_int_equal(retry_client_address(address, "http://a.example.org:8080", "", &err),
                     RC_REJECT);
    snprintf(text, sizeof(text), "http://a.example.org:8080/%0230d", 0);
    assert_int_equal(strlen(text), 256);
    assert_int_equal(retry_client_address(address, text, HOSTS, &err), RC_REJECT);
    text[255] = '\0';
    assert_int_equal(retry_client_address(address, text, HOSTS, &err), RC_OK);
}

static void routes_have_names(void **state)
{
    enum client_route route;

    (void)state;
    assert_true(client_route_read("lru", &route));
    assert_int_equal(route, CLIENT_LRU);
    assert_false(client_route_read("nearest", &route));
    assert_int_equal(route, CLIENT_ROUND_ROBIN);
}

static enum rc parse(struct beat_json *json, const char *body, struct request_fault *fault)
{
    return beat_json_parse(json, HOSTS, body, strlen(body), fault);
}

static void a_beat_is_read(void **state)
{
    struct request_fault fault;
    struct beat_json json;

    (void)state;
    assert_int_equal(parse(&json,
                           "{\"group\": \"shop\", \"address\": \"http://10.0.0.7/a\", \"version\": "
                           "\"1.2\", \"failedReports\": 7}",
                           &fault),
                     RC_OK);
    assert_string_equal(json.beat.group, "shop");
    assert_string_equal(json.beat.address, "http://10.0.0.7:80/a");
    assert_string_equal(json.beat.version, "1.2");
    assert_int_equal(json.beat.failed_reports, 7);
    beat_json_done(&json);
    assert_int_equal(parse(&json, "{\"address\": \"http://10.0.0.7\"}", &fault), RC_OK);
    assert_string_equal(json.beat.group, RETRY_GROUP_DEFAULT);
    assert_string_equal(json.beat.version, "");
    beat_json_done(&json);
}

static void a_bad_beat_names_its_field(void **state)
{
    static const struct {
        const char *body;
        enum request_fault_code code;
        const char *at;
    } bad[] = {
        {"", REQUEST_FAULT_NOT_JSON, NULL},
        {"[]", REQUEST_FAULT_WRONG_TYPE, NULL},
        {"{}", REQUEST_FAULT_MISSING, "/address"},
        {"{\"address\": 1}", REQUEST_FAULT_WRONG_TYPE, "/address"},
        {"{\"address\": \"http://x/\"}", REQUEST_FAULT_REFUSED, "/address"},
        {"{\"group\": \"a b\"}", REQUEST_FAULT_OUT_OF_RANGE, "/group"},
        {"{\"version\": \"\"}", REQUEST_FAULT_OUT_OF_RANGE, "/version"},
        {"{\"version\": \"\\u001b[2J\"}", REQUEST_FAULT_OUT_OF_RANGE, "/version"},
        {"{\"failedReports\": -1}", REQUEST_FAULT_OUT_OF_RANGE, "/failedReports"},
        {"{\"failedReports\": 1.5}", REQUEST_FAULT_WRONG_TYPE, "/failedReports"},
        {"{\"weight\": 1}", REQUEST_FAULT_UNKNOWN, "/weight"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct request_fault fault = {0};
        struct beat_json json;

        assert_int_equal(parse(&json, bad[i].body, &fault), RC_REJECT);
        assert_int_equal(fault.code, bad[i].code);
        assert_int_equal(fault.has_at, bad[i].at != NULL);
        if (bad[i].at)
            assert_string_equal(fault.at, bad[i].at);
        beat_json_done(&json);
    }
}

static void a_policy_that_is_no_json_is_a_text(void **state)
{
    const struct retry_group group = {.name = "shop", .enabled = true, .route = "lru"};
    struct buf out = {0};

    (void)state;
    beat_json_put_group(&out, &group, "3-00ff");
    beat_json_put_scene(&out, "a", false, "{\"attempts\":3}", true);
    beat_json_put_scene(&out, "b", true, "nothing", false);
    beat_json_put_scene(&out, "c", false, NULL, false);
    beat_json_put_end(&out);
    assert_string_equal(
        buf_text(&out),
        "{\"group\":\"shop\",\"version\":\"3-00ff\",\"enabled\":true,\"handlers\":\"\","
        "\"scenes\":\"\",\"topics\":\"\",\"route\":\"lru\",\"initScene\":\"standard\","
        "\"policies\":[{\"scene\":\"a\",\"paused\":false,\"policy\":{\"attempts\":3}},"
        "{\"scene\":\"b\",\"paused\":true,\"policy\":\"nothing\"},"
        "{\"scene\":\"c\",\"paused\":false,\"policy\":null}]}");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_has_one_form),
        cmocka_unit_test(other_addresses_are_refused),
        cmocka_unit_test(routes_have_names),
        cmocka_unit_test(a_beat_is_read),
        cmocka_unit_test(a_bad_beat_names_its_field),
        cmocka_unit_test(a_policy_that_is_no_json_is_a_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
