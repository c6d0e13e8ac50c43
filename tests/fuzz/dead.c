/* SPDX-License-Identifier: MIT */
/* Dead records with any bytes, shown as text and as JSON, and the arguments that choose them. how |
 * 8 bytes: the record's time | words, key and headers up to a line end each | payload */
#include "consumer/dead/dead_cli.h"

#include "common/text.h"
#include "consumer/ingest/record.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NOW_MS INT64_C(1800000000000)
#define TIME_MS_END UINT64_C(253402300800000) /* the column's last time is of the year 9999 */
#define WORDS_MAX 8

/* A JSON member that encodes bytes decodes to the same bytes. */
static void check_member(const json_t *object, const char *name, const char *coded_name,
                         const void *bytes, size_t len)
{
    const json_t *plain = json_object_get(object, name);
    const json_t *coded = json_object_get(object, coded_name);
    struct buf out = {0};

    fuzz_must(plain && coded, "bytes have two members");
    fuzz_must(!bytes || json_is_null(plain) != json_is_null(coded), "one of them says them");
    fuzz_must(bytes || (json_is_null(plain) && json_is_null(coded)), "no bytes are null");
    if (json_is_string(plain))
        fuzz_must(json_string_length(plain) == len &&
                      memcmp(json_string_value(plain), bytes, len) == 0,
                  "a text comes back");
    if (json_is_string(coded)) {
        fuzz_must(base64_take(&out, json_string_value(coded), json_string_length(coded)),
                  "base64 can be read");
        fuzz_must(out.len == len && (len == 0 || memcmp(out.data, bytes, len) == 0),
                  "bytes come back");
        buf_done(&out);
    }
}

static void check_json(const struct dead_view *view, bool whole)
{
    struct buf out = {0};
    json_t *object;

    dead_json(&out, view, whole);
    fuzz_must(!out.failed, "a record can be written as JSON");
    object = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    fuzz_must(json_is_object(object), "a record is a JSON object");
    check_member(object, "key", "key_base64", view->key, view->key_len);
    if (whole)
        check_member(object, "payload", "payload_base64", view->value, view->value_len);
    json_decref(object);
    buf_done(&out);
}

static void check_text(const struct dead_view *view)
{
    struct buf out = {0};

    dead_show_text(&out, view, NOW_MS);
    fuzz_must(!out.failed && utf8_prints(out.data, out.len), "what is shown is text");
    buf_reset(&out);
    dead_list_row(&out, view, NOW_MS);
    fuzz_must(!out.failed && utf8_prints(out.data, out.len) &&
                  memchr(out.data, '\n', out.len) == out.data + out.len - 1,
              "a record is listed in one line");
    buf_done(&out);
}

static void show(const struct dead_view *view)
{
    check_text(view);
    check_json(view, false);
    check_json(view, true);
}

/* Words end at a blank; the first two are the times. */
static void choose(char *text, uint8_t how)
{
    static struct dead_request request;
    struct dead_options words = {
        .partition = how & 1 ? DEAD_NUMBER_ANY : how,
        .limit = how & 2 ? DEAD_NUMBER_ANY : how,
        .after = how & 4 ? how : 0,
        .all = how & 8,
        .payload = how & 16,
        .decided = how & 32,
    };
    const char *arguments[WORDS_MAX];
    struct err err = {0};
    size_t count = 0;

    for (char *at = strtok(text, " "); at && count < WORDS_MAX; at = strtok(NULL, " "))
        arguments[count++] = at;
    if (how & 64 && count >= 2) {
        words.since = arguments[--count];
        words.until = arguments[--count];
    }
    if (dead_request_read(&request, &words, arguments, count, &err) != RC_OK) {
        fuzz_must_be_sentence(err.text);
        return;
    }
    dead_request_times(&request, NOW_MS);
    fuzz_must(request.filter.since_ms >= DEAD_NUMBER_ANY &&
                  request.filter.until_ms >= DEAD_NUMBER_ANY,
              "times are none or not before 1970");
    for (size_t i = 0; i < request.filter.id_count; i++)
        fuzz_must(request.ids[i] >= 1, "ids are above zero");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t how = fuzz_byte(&input);
    uint64_t time = 0;
    char *words;
    char *key;
    char *headers;
    struct dead_view view = {.id = 1,
                             .topic = "vote-events",
                             .offset = INT64_MAX,
                             .has_value = true,
                             .reason_class = "decode",
                             .reason = "the value is not JSON",
                             .died_ms = NOW_MS - 1000};

    for (int i = 0; i < 8; i++)
        time = time << 8 | fuzz_byte(&input);
    words = fuzz_text(&input, '\n');
    key = fuzz_text(&input, '\n');
    headers = fuzz_text(&input, '\n');
    view.time_ms = how & 128 ? DEAD_NUMBER_ANY : (int64_t)(time % TIME_MS_END);
    view.key = how & 1 ? key : NULL;
    view.key_len = how & 1 ? strlen(key) : 0;
    view.headers = headers;
    view.value = how & 2 && input.size > 0 ? input.data : NULL;
    view.value_len = view.value ? input.size : 0;
    if (how & 4) {
        view.decision = "applied";
        view.decided_by = "fuzz";
        view.decided_ms = NOW_MS;
        view.applied_value = view.value;
        view.applied_len = view.value_len;
    }
    show(&view);
    choose(words, how);
    free(words);
    free(key);
    free(headers);
    return 0;
}
