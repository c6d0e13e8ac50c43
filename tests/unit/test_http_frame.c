/* SPDX-License-Identifier: MIT */
#include "common/http/requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define HEADERS_MAX 3

struct frame_case {
    const char *headers[HEADERS_MAX][2];
};

static bool is_clear(const struct frame_case *one)
{
    struct http_frame frame = {0};

    for (size_t i = 0; i < HEADERS_MAX && one->headers[i][0]; i++)
        http_frame_see(&frame, one->headers[i][0], one->headers[i][1]);
    return http_frame_is_clear(&frame);
}

static void one_way_to_say_the_end_is_clear(void **state)
{
    static const struct frame_case cases[] = {
        {{{NULL}}},
        {{{"Host", "x"}, {"X-Any", NULL}}},
        {{{"content-length", "5"}}},
        {{{"Transfer-Encoding", "Chunked"}, {"Host", "x"}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_true(is_clear(&cases[i]));
}

static void several_ways_are_not(void **state)
{
    static const struct frame_case cases[] = {
        {{{"Host", "a"}, {"host", "a"}}},
        {{{"Content-Length", "5"}, {"Content-Length", "6"}}},
        {{{"Content-Length", "5"}, {"CONTENT-LENGTH", "5"}}},
        {{{"Content-Length", "5"}, {"Transfer-Encoding", "chunked"}}},
        {{{"Transfer-Encoding", "chunked"}, {"transfer-encoding", "chunked"}}},
        {{{"Transfer-Encoding", "gzip"}}},
        {{{"Transfer-Encoding", "gzip, chunked"}}},
        {{{"Transfer-Encoding", "xchunked"}}},
        {{{"Transfer-Encoding", ""}}},
        {{{"Transfer-Encoding", NULL}}},
        {{{"Content-Length ", "5"}}},
        {{{"Transfer-Encoding\t", "chunked"}}},
        {{{"", "5"}}},
        {{{"Content\x01", "5"}}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_false(is_clear(&cases[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_way_to_say_the_end_is_clear),
        cmocka_unit_test(several_ways_are_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
