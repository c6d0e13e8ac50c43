/* SPDX-License-Identifier: MIT */
#include "producer/vote/vote_json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GOOD "{\"voterId\":1,\"contentId\":2,\"voting\":1}"

struct refusal {
    const char *body;
    const char *code;
    const char *at; /* NULL: none */
};

static void check_refusal(const struct refusal *refusal, size_t len)
{
    struct vote_json votes;
    struct request_fault fault;
    enum rc rc = vote_json_parse(&votes, refusal->body, len, &fault);

    if (rc != RC_REJECT)
        fail_msg("taken: %s", refusal->body);
    assert_string_equal(request_fault_name(fault.code), refusal->code);
    assert_int_equal(request_fault_status(fault.code), 400);
    assert_true(strlen(fault.message) > 10);
    if (refusal->at)
        assert_string_equal(fault.has_at ? fault.at : "(none)", refusal->at);
    else
        assert_false(fault.has_at);
    vote_json_done(&votes);
}

static void a_bad_body_is_refused_whole_with_its_place(void **state)
{
    static const struct refusal refusals[] = {
        {"", "not_json", NULL},
        {"  \n", "not_json", NULL},
        {"{voterId", "not_json", NULL},
        {"{\"voterId\":1,", "not_json", NULL},
        {GOOD "x", "not_json", NULL},
        {GOOD GOOD, "not_json", NULL},
        {"[" GOOD "] x", "not_json", NULL},
        {"[" GOOD "", "not_json", NULL},
        {"[" GOOD ",]", "not_json", NULL},
        {"[," GOOD "]", "not_json", NULL},
        {"[" GOOD ",{\"a\":1]]", "not_json", NULL},
        {"[" GOOD "}", "not_json", NULL},
        {"[\"a]", "not_json", NULL},
        {"[\"a\\\"]", "not_json", NULL},
        {"\xef\xbb\xbf" GOOD, "not_json", NULL},
        {"{\"voterId\":1,\"\xff\":1}", "not_json", NULL},
        {"{\"voterId\":01,\"contentId\":2,\"voting\":1}", "not_json", NULL},
        {"{\"voterId\":1,\"voterId\":1,\"contentId\":2,\"voting\":1}", "not_json", NULL},
        {"[" GOOD ",{\"voterId\":1,\"voterId\":1,\"contentId\":2,\"voting\":1}]", "not_json", NULL},
        {"{\"a\\u0000b\":1}", "not_json", NULL},
        {"7", "wrong_type", ""},
        {"\"x\"", "wrong_type", ""},
        {"null", "wrong_type", ""},
        {"true", "wrong_type", ""},
        {"[]", "out_of_range", ""},
        {" [ \n ] ", "out_of_range", ""},
        {"{}", "missing", "/voterId"},
        {"{\"contentId\":2,\"voting\":1}", "missing", "/voterId"},
        {"{\"voterId\":1,\"voting\":1}", "missing", "/contentId"},
        {"{\"voterId\":1,\"contentId\":2}", "missing", "/voting"},
        {"{\"voterId\":\"1\",\"contentId\":2,\"voting\":1}", "wrong_type", "/voterId"},
        {"{\"voterId\":1.0,\"contentId\":2,\"voting\":1}", "wrong_type", "/voterId"},
        {"{\"voterId\":1e3,\"contentId\":2,\"voting\":1}", "wrong_type", "/voterId"},
        {"{\"voterId\":null,\"contentId\":2,\"voting\":1}", "wrong_type", "/voterId"},
        {"{\"voterId\":[1],\"contentId\":2,\"voting\":1}", "wrong_type", "/voterId"},
        {"{\"voterId\":1,\"contentId\":{},\"voting\":1}", "wrong_type", "/contentId"},
        {"{\"voterId\":1,\"contentId\":2,\"voting\":true}", "wrong_type", "/voting"},
        {"{\"voterId\":0,\"contentId\":2,\"voting\":1}", "out_of_range", "/voterId"},
        {"{\"voterId\":-1,\"contentId\":2,\"voting\":1}", "out_of_range", "/voterId"},
        {"{\"voterId\":1,\"contentId\":0,\"voting\":1}", "out_of_range", "/contentId"},
        {"{\"voterId\":1,\"contentId\":2,\"voting\":2}", "out_of_range", "/voting"},
        {"{\"voterId\":1,\"contentId\":2,\"voting\":-1}", "out_of_range", "/voting"},
        {"{\"voterId\":9223372036854775808,\"contentId\":2,\"voting\":1}", "out_of_range",
         "/voterId"},
        {"{\"voterId\":9223372036854775807,\"contentId\":99999999999999999999,\"voting\":1}",
         "out_of_range", "/contentId"},
        {"{\"voterId\":1,\"contentId\":-99999999999999999999,\"voting\":1}", "out_of_range",
         "/contentId"},
        {"{\"voterId\":1e999,\"contentId\":2,\"voting\":1}", "out_of_range", ""},
        {"{\"voterId\":1,\"contentId\":2,\"voting\":1,\"votes\":1}", "unknown_field", "/votes"},
        {"{\"voterId\":1,\"contentId\":2,\"voting\":1,\"a/b~c\":1}", "unknown_field", "/a~1b~0c"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        check_refusal(&refusals[i], strlen(refusals[i].body));
}

static void a_zero_byte_ends_nothing(void **state)
{
    static const char inside[] = "{\"voterId\":1,\0\"contentId\":2,\"voting\":1}";
    static const char behind[] = GOOD "\0";

    (void)state;
    check_refusal(&(struct refusal){inside, "not_json", NULL}, sizeof(inside) - 1);
    check_refusal(&(struct refusal){behind, "not_json", NULL}, sizeof(behind) - 1);
}

static void deep_nesting_is_refused_without_a_deep_stack(void **state)
{
    enum { DEEP = 200000 };
    char *body = malloc((size_t)2 * DEEP);

    (void)state;
    assert_non_null(body);
    memset(body, '[', DEEP);
    check_refusal(&(struct refusal){body, "not_json", NULL}, DEEP);
    memset(body + DEEP, ']', DEEP);
    check_refusal(&(struct refusal){body, "not_json", NULL}, (size_t)2 * DEEP);
    free(body);
}

static void a_place_made_of_a_long_name_is_cut(void **state)
{
    char body[4096];
    char name[3000];
    struct vote_json votes;
    struct request_fault fault;

    (void)state;
    memset(name, '~', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    snprintf(body, sizeof(body), "{\"%s\":1}", name);
    assert_int_equal(vote_json_parse(&votes, body, strlen(body), &fault), RC_REJECT);
    assert_string_equal(request_fault_name(fault.code), "unknown_field");
    assert_true(strlen(fault.at) < sizeof(fault.at));
    assert_memory_equal(fault.at, "/~0~0", 5);
    vote_json_done(&votes);
}

static void an_object_gives_one_item(void **state)
{
    static const char body[] =
        " {\"voting\" : 0, \"contentId\":9223372036854775807,\"voterId\":1} \r\n";
    struct vote_json votes;
    struct request_fault fault;

    (void)state;
    assert_int_equal(vote_json_parse(&votes, body, strlen(body), &fault), RC_OK);
    assert_false(votes.array);
    assert_int_equal(votes.count, 1);
    assert_int_equal(votes.item_count, 1);
    assert_int_equal(votes.items[0].voter_id, 1);
    assert_true(votes.items[0].content_id == INT64_MAX);
    assert_int_equal(votes.items[0].voting, 0);
    assert_int_equal(votes.items[0].outcome, VOTE_OPEN);
    vote_json_done(&votes);
}

static char *array_of(size_t count)
{
    char *body = malloc(count * sizeof(GOOD) + 3);
    size_t len = 0;

    assert_non_null(body);
    body[len++] = '[';
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            body[len++] = ',';
        memcpy(body + len, GOOD, sizeof(GOOD) - 1);
        len += sizeof(GOOD) - 1;
    }
    body[len++] = ']';
    body[len] = '\0';
    return body;
}

static void an_array_holds_a_thousand_items_and_no_more(void **state)
{
    char *full = array_of(VOTE_JSON_ITEMS_MAX);
    char *over = array_of(VOTE_JSON_ITEMS_MAX + 1);
    struct vote_json votes;
    struct request_fault fault;

    (void)state;
    assert_int_equal(vote_json_parse(&votes, full, strlen(full), &fault), RC_OK);
    assert_int_equal(votes.item_count, VOTE_JSON_ITEMS_MAX);
    vote_json_done(&votes);
    check_refusal(&(struct refusal){over, "out_of_range", ""}, strlen(over));
    free(full);
    free(over);
}

static void a_bad_item_fails_alone_and_in_place(void **state)
{
    static const char body[] = "[" GOOD ",7, {\"voterId\":9223372036854775808,\"contentId\":2,"
                               "\"voting\":1} ,{\"voterId\":3,\"contentId\":4,\"voting\":0},"
                               "{\"voterId\":1,\"contentId\":\"],\\\"\",\"voting\":1}," GOOD "]";
    static const char expected[] =
        "[{\"voterId\":1,\"contentId\":2,\"voting\":1,\"changed\":true,\"votes\":5,"
        "\"eventId\":\"01020304-0506-0708-090a-0b0c0d0e0f10\"},"
        "{\"error\":{\"code\":\"wrong_type\",\"message\":\"a vote must be an object, not an "
        "integer\",\"at\":\"/1\"}},"
        "{\"error\":{\"code\":\"out_of_range\",\"message\":\"a number is too large; ids go from 1 "
        "to 2^63-1\",\"at\":\"/2/voterId\"}},"
        "{\"voterId\":3,\"contentId\":4,\"voting\":0,\"changed\":false,\"votes\":0,"
        "\"eventId\":null},"
        "{\"error\":{\"code\":\"wrong_type\",\"message\":\"contentId must be an integer, not a "
        "text\",\"at\":\"/4/contentId\"}},"
        "{\"error\":{\"code\":\"refused\",\"message\":\"the database refuses this vote; the "
        "log of the server has the reason\",\"at\":\"/5\"}}]";
    struct vote_json votes;
    struct request_fault fault;
    struct buf out = {0};

    (void)state;
    assert_int_equal(vote_json_parse(&votes, body, strlen(body), &fault), RC_OK);
    assert_int_equal(votes.count, 6);
    assert_int_equal(votes.item_count, 3);
    votes.items[0].changed = true;
    votes.items[0].votes = 5;
    votes.items[0].has_event = true;
    for (uint8_t i = 0; i < ID_BYTES; i++)
        votes.items[0].event_id.bytes[i] = (uint8_t)(i + 1);
    votes.items[0].outcome = VOTE_DONE;
    votes.items[1].outcome = VOTE_DONE;
    votes.items[2].outcome = VOTE_REFUSED;
    assert_true(vote_json_answer(&votes, &out, &fault));
    assert_string_equal(buf_text(&out), expected);
    buf_done(&out);
    vote_json_done(&votes);
}

static void a_single_refused_vote_is_a_fault_of_its_own(void **state)
{
    struct vote_json votes;
    struct request_fault fault;
    struct buf out = {0};

    (void)state;
    assert_int_equal(vote_json_parse(&votes, GOOD, strlen(GOOD), &fault), RC_OK);
    votes.items[0].outcome = VOTE_REFUSED;
    assert_false(vote_json_answer(&votes, &out, &fault));
    assert_int_equal(request_fault_status(fault.code), 422);
    buf_done(&out);
    vote_json_done(&votes);
}

static void a_vote_on_a_deleted_content_names_it(void **state)
{
    static const char array[] = "[" GOOD "," GOOD "]";
    static const char error[] = "{\"error\":{\"code\":\"deleted\",\"message\":\"content 2 is "
                                "deleted and takes no more votes\",\"at\":\"/1/contentId\"}}]";
    struct vote_json votes;
    struct request_fault fault;
    struct buf out = {0};

    (void)state;
    assert_int_equal(vote_json_parse(&votes, GOOD, strlen(GOOD), &fault), RC_OK);
    votes.items[0].outcome = VOTE_DELETED;
    assert_false(vote_json_answer(&votes, &out, &fault));
    assert_int_equal(fault.code, REQUEST_FAULT_DELETED);
    assert_int_equal(request_fault_status(fault.code), 404);
    assert_string_equal(fault.at, "/contentId");
    vote_json_done(&votes);

    assert_int_equal(vote_json_parse(&votes, array, strlen(array), &fault), RC_OK);
    votes.items[0].outcome = VOTE_DONE;
    votes.items[1].outcome = VOTE_DELETED;
    assert_true(vote_json_answer(&votes, &out, &fault));
    assert_non_null(strstr(buf_text(&out), error));
    assert_memory_equal(buf_text(&out), "[{\"voterId\":1", 13);
    buf_done(&out);
    vote_json_done(&votes);
}

static void a_fault_is_json_for_any_texts(void **state)
{
    struct request_fault fault;
    struct buf out = {0};

    (void)state;
    request_fault_set(&fault, REQUEST_FAULT_NOT_JSON,
                      "a \"b\" \\ \n \xc3\xa9 \xc3( \xed\xa0\x80 \x7f");
    request_fault_at(&fault, "a\n\x7f \"\\ \xff");
    request_fault_put(&out, &fault);
    /* The sentence is for operators; the place is a path in the client's JSON. */
    assert_string_equal(buf_text(&out),
                        "{\"error\":{\"code\":\"not_json\",\"message\":\"a \\\"b\\\" "
                        "\\\\   \xc3\xa9 ?( ??? ?\",\"at\":\"a\\u000a\\u007f "
                        "\\\"\\\\ ?\"}}");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bad_body_is_refused_whole_with_its_place),
        cmocka_unit_test(a_zero_byte_ends_nothing),
        cmocka_unit_test(deep_nesting_is_refused_without_a_deep_stack),
        cmocka_unit_test(a_place_made_of_a_long_name_is_cut),
        cmocka_unit_test(an_object_gives_one_item),
        cmocka_unit_test(an_array_holds_a_thousand_items_and_no_more),
        cmocka_unit_test(a_bad_item_fails_alone_and_in_place),
        cmocka_unit_test(a_single_refused_vote_is_a_fault_of_its_own),
        cmocka_unit_test(a_vote_on_a_deleted_content_names_it),
        cmocka_unit_test(a_fault_is_json_for_any_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
