/* SPDX-License-Identifier: MIT */
/* The body of a client's beat: an accepted address is a URL of an allowed host, which any path may
 * continue, and is its own normal form. */
#include "producer/task/beat_json.h"

#include "common/text.h"
#include "outbox/retry/http_url.h"
#include "producer/task/task_json.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOSTS "a.example,*.b.example:8080,[::1]"

static void check_address(const char *address, const char *sent)
{
    char again[RETRY_CLIENT_ADDRESS_SIZE];
    char text[RETRY_CLIENT_ADDRESS_SIZE + 64];
    struct http_url url;
    struct http_url as_sent;
    size_t len = strlen(address);

    fuzz_must(len > 0 && len <= RETRY_CLIENT_ADDRESS_BYTES_MAX && text_is_ascii(address),
              "an address is bounded and ASCII");
    fuzz_must(address[len - 1] != '/' && !strchr(address, '?') && !strchr(address, '#'),
              "an address is a path's beginning");
    fuzz_must(retry_client_address(again, address, HOSTS, NULL) == RC_OK &&
                  strcmp(again, address) == 0,
              "an address is its own normal form");
    snprintf(text, sizeof(text), "%s%s", address, "/jobs?x=1");
    fuzz_must(http_url_read(&url, text) && http_url_read(&as_sent, sent),
              "a path may continue an address");
    fuzz_must(http_url_is_allowed(&url, HOSTS), "the host is allowed");
    fuzz_must(strcmp(url.origin, as_sent.origin) == 0, "the call goes where the client is");
    fuzz_must(strncmp(text, url.origin, strlen(url.origin)) == 0, "the address has its origin");
}

static void check_beat(const struct beat_json *json)
{
    const struct retry_beat *beat = &json->beat;

    fuzz_must(task_json_is_name(beat->group, RETRY_NAME_BYTES_MAX), "a group has a name");
    fuzz_must(beat->version[0] == '\0' ||
                  (task_json_is_text(beat->version, RETRY_CLIENT_VERSION_CHARS_MAX) &&
                   strlen(beat->version) < RETRY_CLIENT_VERSION_SIZE),
              "a version is bounded");
    fuzz_must(beat->failed_reports >= 0 && beat->failed_reports <= RETRY_CLIENT_REPORTS_MAX,
              "reports are bounded");
    fuzz_must(beat->address == json->address, "there is an address");
    check_address(beat->address, json_string_value(json_object_get(json->tree, "address")));
}

static void check_fault(const struct request_fault *fault)
{
    struct buf out = {0};
    json_t *answer;

    fuzz_must(fault->code < REQUEST_FAULT_CODES, "a fault has its code");
    fuzz_must_be_sentence(fault->message);
    request_fault_put(&out, fault);
    answer = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    fuzz_must(json_is_object(answer), "a fault's answer is JSON, also with a field of the client");
    json_decref(answer);
    buf_done(&out);
}

/* The configuration that a client reads, with the body for the policy that SQL has written. */
static void check_config(const struct beat_json *json, const char *policy)
{
    static struct retry_group group;
    struct buf out = {0};
    json_t *answer;

    if (!utf8_fits(policy, strlen(policy)))
        return;
    group = (struct retry_group){.owner = OWNER_CLIENT, .enabled = true};
    snprintf(group.name, sizeof(group.name), "%s", json->beat.group);
    beat_json_put_group(&out, &group, json->beat.version);
    beat_json_put_scene(&out, json->beat.group, false, policy, true);
    beat_json_put_scene(&out, json->beat.group, true, NULL, false);
    beat_json_put_end(&out);
    answer = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    fuzz_must(json_array_size(json_object_get(answer, "policies")) == 2, "a configuration is JSON");
    json_decref(answer);
    buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct request_fault fault = {.code = REQUEST_FAULT_CODES};
    struct beat_json json;
    enum rc rc = beat_json_parse(&json, HOSTS, size > 0 ? (const char *)data : "", size, &fault);
    char *text = fuzz_text(&input, '\0');

    fuzz_must(rc == RC_OK || rc == RC_REJECT, "a body is good or bad");
    if (rc == RC_OK) {
        check_beat(&json);
        check_config(&json, text);
    } else {
        check_fault(&fault);
    }
    beat_json_done(&json);
    free(text);
    return 0;
}
