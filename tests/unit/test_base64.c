/* SPDX-License-Identifier: MIT */
#include "common/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void bytes_of_any_length_come_back(void **state)
{
    static const char bytes[] = "\0\xff\xfe foobar";
    static const char *const texts[] = {"", "AA==", "AP8=", "AP/+", "AP/+IA=="};

    (void)state;
    for (size_t len = 0; len < sizeof(texts) / sizeof(texts[0]); len++) {
        struct buf text = {0};
        struct buf back = {0};

        base64_put(&text, bytes, len);
        assert_string_equal(buf_text(&text), texts[len]);
        assert_true(base64_take(&back, texts[len], strlen(texts[len])));
        assert_int_equal(back.len, len);
        assert_memory_equal(buf_text(&back), bytes, len);
        buf_done(&text);
        buf_done(&back);
    }
}

static void a_text_that_is_no_base64_is_refused(void **state)
{
    static const char *const texts[] = {"A",   "AAAAA",  "AA===", "A\xc3\xa4",
                                        "A A", "AA==AA", "AA-_"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct buf out = {0};

        assert_false(base64_take(&out, texts[i], strlen(texts[i])));
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_of_any_length_come_back),
        cmocka_unit_test(a_text_that_is_no_base64_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
