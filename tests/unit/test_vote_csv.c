/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_csv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The result of a whole input, one word for each line that is not skipped: "v3:1/2/1" for a vote,
 * "b3" for a bad line 3, "h" for no header. */
static void read_all(const char *text, size_t len, size_t step, char *found, size_t size)
{
    struct vote_csv csv;
    struct vote_csv_vote vote;
    size_t out = 0;
    size_t at = 0;
    bool ended = false;

    vote_csv_init(&csv);
    found[0] = '\0';
    while (!ended) {
        size_t used = 0;
        size_t more = len - at < step ? len - at : step;
        enum vote_csv_found what;

        ended = at == len;
        what =
            ended ? vote_csv_end(&csv, &vote) : vote_csv_feed(&csv, text + at, more, &used, &vote);
        at += used;
        if (what == VOTE_CSV_VOTE)
            out +=
                (size_t)snprintf(found + out, size - out, "v%d:%lld/%lld/%d ", (int)csv.line,
                                 (long long)vote.voter_id, (long long)vote.content_id, vote.voting);
        if (what == VOTE_CSV_BAD)
            out += (size_t)snprintf(found + out, size - out, "b%d ", (int)csv.line);
        if (what == VOTE_CSV_NO_HEADER) {
            snprintf(found + out, size - out, "h ");
            return;
        }
    }
}

struct input {
    const char *text;
    const char *found;
};

static const struct input inputs[] = {
    {"voter_id,content_id\n1,2\n3,4\n", "v2:1/2/1 v3:3/4/1 "},
    {"voter_id,content_id\r\n1,2\r\n3,4", "v2:1/2/1 v3:3/4/1 "},
    {"content_id,voting,voter_id\n2,0,1\n2,1,1\n", "v2:1/2/0 v3:1/2/1 "},
    {"\xef\xbb\xbf"
     "voter_id,content_id\n1,2\n",
     "v2:1/2/1 "},
    {"\"voter_id\", \"content_id\" \n \"1\" ,\t2 \n", "v2:1/2/1 "},
    {"voter_id,content_id\n\n  \n1,2\n\n", "v4:1/2/1 "},
    {"voter_id,content_id\n", ""},
    {"voter_id,content_id\n1\n1,2,3\n1,2,3,4,5,6\n,2\n1,\n", "b2 b3 b4 b5 b6 "},
    {"voter_id,content_id\nx,2\n0,2\n-1,2\n1.0,2\n+1,2\n1 2,3\n1,2\n",
     "b2 b3 b4 b5 b6 b7 v8:1/2/1 "},
    {"voter_id,content_id\n9223372036854775807,1\n9223372036854775808,1\n99999999999999999999,1\n",
     "v2:9223372036854775807/1/1 b3 b4 "},
    {"voter_id,content_id,voting\n1,2,2\n1,2,\n1,2,01\n1,2,true\n1,2,10\n", "b2 b3 b4 b5 b6 "},
    {"voter_id,content_id\n\"1,2\n3,4\n\"5\"x,6\n\"7\"\"\",8\n9,10\n",
     "b2 v3:3/4/1 b4 b5 v6:9/10/1 "},
    {"", "h "},
    {"1,2\n3,4\n", "h "},
    {"voter_id\n1\n", "h "},
    {"voter_id,content_id,voter_id\n", "h "},
    {"voter_id,content_id,voting,more\n", "h "},
    {"voter_id,content_id,\n", "h "},
    {"Voter_id,content_id\n", "h "},
};

static void every_input_is_read_line_by_line(void **state)
{
    char found[512];

    (void)state;
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        read_all(inputs[i].text, strlen(inputs[i].text), 4096, found, sizeof(found));
        assert_string_equal(found, inputs[i].found);
    }
}

static void where_the_input_is_cut_makes_no_difference(void **state)
{
    char found[512];

    (void)state;
    for (size_t i = 0; i < sizeof(inputs) / sizeof(inputs[0]); i++) {
        for (size_t step = 1; step <= 5; step++) {
            read_all(inputs[i].text, strlen(inputs[i].text), step, found, sizeof(found));
            assert_string_equal(found, inputs[i].found);
        }
    }
}

static void a_long_line_is_bad_and_the_next_one_is_not(void **state)
{
    static char text[20000];
    char found[512];
    size_t len = (size_t)snprintf(text, sizeof(text), "voter_id,content_id\n");

    (void)state;
    memset(text + len, '1', 10000);
    len += 10000;
    len += (size_t)snprintf(text + len, sizeof(text) - len, ",2\n3,4\n");
    read_all(text, len, 700, found, sizeof(found));
    assert_string_equal(found, "b2 v3:3/4/1 ");
}

static void a_long_first_line_is_no_header(void **state)
{
    static char text[4000];
    char found[512];
    size_t len = (size_t)snprintf(text, sizeof(text), "voter_id,content_id");

    (void)state;
    memset(text + len, ' ', 2000);
    len += 2000;
    len += (size_t)snprintf(text + len, sizeof(text) - len, "\n3,4\n");
    read_all(text, len, 4000, found, sizeof(found));
    assert_string_equal(found, "h ");
}

static void a_zero_byte_makes_a_line_bad(void **state)
{
    static const char text[] = "voter_id,content_id\n1\0,2\n3,4\n";
    char found[512];

    (void)state;
    read_all(text, sizeof(text) - 1, 4096, found, sizeof(found));
    assert_string_equal(found, "b2 v3:3/4/1 ");
}

static void a_reason_is_fit_for_a_terminal(void **state)
{
    static const char text[] = "voter_id,content_id\n\x1b[31m,2\n";
    struct vote_csv csv;
    struct vote_csv_vote vote;
    size_t used;

    (void)state;
    vote_csv_init(&csv);
    assert_int_equal(vote_csv_feed(&csv, text, sizeof(text) - 1, &used, &vote), VOTE_CSV_BAD);
    assert_non_null(strstr(csv.reason, "voter_id must be a number"));
    assert_null(strchr(csv.reason, '\x1b'));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_input_is_read_line_by_line),
        cmocka_unit_test(where_the_input_is_cut_makes_no_difference),
        cmocka_unit_test(a_long_line_is_bad_and_the_next_one_is_not),
        cmocka_unit_test(a_long_first_line_is_no_header),
        cmocka_unit_test(a_zero_byte_makes_a_line_bad),
        cmocka_unit_test(a_reason_is_fit_for_a_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
