/* SPDX-License-Identifier: MIT */
#include "consumer/installation_mysql.h"

#include "consumer/ingest/group_check_kafka.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>

static void an_id_is_letters_digits_underscores_and_dashes(void **state)
{
    static const char *const ids[] = {"1f2e3d4c", "copy", "A", "shop_copy-2", "0123456789abcdef"};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        assert_int_equal(installation_check_id(ids[i], &err), RC_OK);
}

static void another_text_is_refused_with_its_place_and_what_is_allowed(void **state)
{
    static const char *const ids[] = {"",    "shop.copy",         "a b",     "a,b",
                                      "a\n", "0123456789abcdef0", "\xc3\xa4"};

    (void)state;
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct err err = {0};

        assert_int_equal(installation_check_id(ids[i], &err), RC_FATAL);
        assert_non_null(strstr(err.text, "table installation of [sink], row id = 1"));
        assert_non_null(strstr(err.text, "1 to 16 of A-Z, a-z, 0-9, _ and -"));
        assert_non_null(strstr(err.text, "UPDATE installation SET name"));
    }
}

/* With a dot in it, an id would not be found again in the client.id. */
static void a_member_with_an_accepted_id_knows_its_own(void **state)
{
    char client[GROUP_CLIENT_SIZE];
    char other[64];
    struct err err = {0};

    (void)state;
    assert_int_equal(installation_check_id("shop-copy_2", &err), RC_OK);
    group_client_id(client, "shop-copy_2", "db-1.example-ab12");
    assert_false(group_client_is_foreign(client, "shop-copy_2", other, sizeof(other)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_id_is_letters_digits_underscores_and_dashes),
        cmocka_unit_test(another_text_is_refused_with_its_place_and_what_is_allowed),
        cmocka_unit_test(a_member_with_an_accepted_id_knows_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
