/* SPDX-License-Identifier: MIT */
/* Small texts: words of a command line, ids and dates; the encoding of untrusted bytes as JSON and
 * SQL; files of tokens. the first byte chooses, the rest is the text */
#include "common/db/db.h"
#include "common/http/tokens.h"
#include "common/id.h"
#include "common/options.h"
#include "consumer/apply/date.h"
#include "consumer/ingest/record.h"
#include "consumer/restart_command.h"
#include "producer/http/request_json.h"
#include "schema/migrate/sql_split.h"
#include "tests/fuzz/fuzz.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 16

/* Words end at a line end. */
static void command_line(struct fuzz_input *input)
{
    static char name[] = "fuzz";
    bool flag = false;
    const char *text = NULL;
    int64_t number = 0;
    const struct option_entry entries[] = {
        {"flag", OPTION_FLAG, &flag, NULL, "a flag", NULL},
        {"text", OPTION_TEXT, &text, "TEXT", "a text", NULL},
        {"number", OPTION_NUMBER, &number, "N", "a number", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox fuzz",
        .arguments = "[WORD...]",
        .about = "What fuzzing gives.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .sections = "kafka,log",
    };
    struct options options;
    char *owned[WORDS_MAX] = {name};
    char *argv[WORDS_MAX + 1];
    int argc = 1;
    int code;

    while (input->size > 0 && argc < WORDS_MAX)
        owned[argc++] = fuzz_text(input, '\n');
    memcpy(argv, owned, sizeof(owned));
    argv[argc] = NULL;
    code = options_parse(&options, &parse, argc, argv);
    fuzz_must(code == -1 || code == EXIT_DONE || code == EXIT_USAGE,
              "a command line is read, or a page or a mistake was shown");
    fuzz_must(options.argument_count < argc, "no more arguments than words");
    for (int i = 1; i < argc; i++)
        free(owned[i]);
}

static void restart(const char *text)
{
    struct restart_request request = {0};
    struct err err = {0};
    char again[sizeof(request.topic) + 64];

    if (restart_request_read(&request, text, &err) != RC_OK) {
        fuzz_must_be_sentence(err.text);
        return;
    }
    fuzz_must(request.place.topic == request.topic && request.topic[0] != '\0' &&
                  memchr(request.topic, '\0', sizeof(request.topic)) != NULL,
              "there is a topic, and it fits");
    fuzz_must(request.place.partition >= 0 && request.offset >= 0 && request.offset < INT64_MAX,
              "partition and offset are in their ranges");
    fuzz_must(!(request.earliest && request.latest), "there is one place to go on at");
    if (request.earliest || request.latest || strstr(text, "/0") || strstr(text, "@0"))
        return;
    snprintf(again, sizeof(again), "%s/%d@%lld", request.topic, (int)request.place.partition,
             (long long)request.offset);
    fuzz_must(strcmp(again, text) == 0, "a place means what it says");
}

static void numbers(const char *text)
{
    char written[ID_TEXT_SIZE];
    char date[DATE_SIZE];
    struct id id;
    struct id again;
    int64_t number = 0;
    int64_t day = 0;

    if (id_parse(&id, text, strlen(text))) {
        id_format(&id, written);
        fuzz_must(id_parse(&again, written, ID_TEXT_SIZE - 1) &&
                      memcmp(&id, &again, sizeof(id)) == 0,
                  "an id is read as it was written");
    }
    if (id_parse_number(text, strlen(text), &number)) {
        fuzz_must(number >= 1, "an id is above zero");
        fuzz_must(strspn(text, "0123456789") == strlen(text), "an id is digits");
    }
    if (date_parse(text, &day)) {
        fuzz_must(day >= DATE_DAY_MIN && day <= DATE_DAY_MAX, "a date is one of the calendar");
        date_write(day, date);
        fuzz_must(strcmp(date, text) == 0, "a date is written as it was read");
    }
}

static int base64_value(char c)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(letters, c) : NULL;

    return at ? (int)(at - letters) : 0;
}

static void check_base64(const char *text, const uint8_t *bytes, size_t len)
{
    fuzz_must(strlen(text) == (len + 2) / 3 * 4, "base64 is as long as it has to be");
    for (size_t i = 0; i < len; i++) {
        const char *four = text + i / 3 * 4;
        unsigned group = 0;

        for (size_t j = 0; j < 4; j++)
            group = group << 6 | (unsigned)base64_value(four[j]);
        fuzz_must((group >> (16 - 8 * (i % 3)) & 255) == bytes[i], "base64 brings its bytes back");
    }
}

/* "\u0080".."\u00ff" stand for one byte each. */
static void check_name(const char *text, const char *name)
{
    while (*name) {
        unsigned char byte = (unsigned char)*name++;

        if (byte < 0x80) {
            fuzz_must((unsigned char)*text++ == byte, "a name comes back");
        } else {
            fuzz_must((unsigned char)text[0] == (0xc0 | byte >> 6) &&
                          (unsigned char)text[1] == (0x80 | (byte & 63)),
                      "a name comes back");
            text += 2;
        }
    }
    fuzz_must(*text == '\0', "nothing is added to a name");
}

/* Headers of a dead record; a name is all up to a line end, the value the rest. */
static void record_headers(struct fuzz_input *input)
{
    char *name = fuzz_text(input, '\n');
    struct buf out = {0};
    json_t *array;
    json_t *pair;

    record_headers_begin(&out);
    record_headers_add(&out, 0, name, input->size > 0 ? input->data : NULL, input->size);
    record_headers_add(&out, 1, "end", "", 0);
    record_headers_end(&out);
    fuzz_must(!out.failed, "headers can be written");
    array = json_loadb(out.data, out.len, JSON_ALLOW_NUL, NULL);
    fuzz_must(json_array_size(array) == 2, "headers are a JSON array");
    pair = json_array_get(array, 0);
    check_name(json_string_value(json_array_get(pair, 0)), name);
    if (input->size > 0)
        check_base64(json_string_value(json_array_get(pair, 1)), input->data, input->size);
    else
        fuzz_must(json_is_null(json_array_get(pair, 1)), "no value is null");
    json_decref(array);
    buf_done(&out);
    free(name);
}

static char unescaped(char c)
{
    switch (c) {
    case '0':
        return '\0';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 'Z':
        return '\x1a';
    default:
        return c;
    }
}

/* Nothing in a quoted text ends it, and the server reads the original bytes. */
static void sql_literal(const struct fuzz_input *input)
{
    struct buf out = {0};
    struct sql_token token;
    struct sql_scan scan;
    size_t read = 0;

    db_literal_quoted(&out, "", input->data, input->size);
    fuzz_must(!out.failed, "a literal can be written");
    scan = (struct sql_scan){out.data, out.data + out.len};
    fuzz_must(sql_token_next(&scan, &token, NULL) == RC_OK && token.kind == SQL_TEXT &&
                  token.len == out.len,
              "a literal is one text");
    for (size_t i = 1; i + 1 < out.len; i++, read++) {
        bool escaped = out.data[i] == '\\';

        i += escaped;
        fuzz_must(read < input->size &&
                      (escaped ? unescaped(out.data[i]) : out.data[i]) == (char)input->data[read],
                  "a literal says what was meant");
    }
    fuzz_must(read == input->size, "a literal says all of it");
    buf_done(&out);
}

static void fault_json(const char *text)
{
    struct buf out = {0};
    struct request_fault fault;
    json_t *root;

    request_fault_set(&fault, REQUEST_FAULT_UNKNOWN, "%s", text);
    request_fault_at(&fault, text);
    request_fault_put(&out, &fault);
    root = json_loadb(out.data, out.len, JSON_REJECT_DUPLICATES, NULL);
    fuzz_must(json_is_object(json_object_get(root, "error")), "a fault is JSON");
    json_decref(root);
    buf_done(&out);
}

/* Is every line that could be a token let in? */
static void check_tokens(const struct http_tokens *tokens, const char *text)
{
    struct http_scopes scopes;

    fuzz_must(tokens->count >= 1 && tokens->count <= HTTP_TOKENS_MAX, "there are tokens");
    for (const char *at = text; *at; at += *at == '\n') {
        char header[HTTP_TOKEN_BYTES_MAX + 8];
        size_t len = strcspn(at, " \t\r\n");

        snprintf(header, sizeof(header), "Bearer %.*s", (int)len, at);
        if (strcspn(at, "\r\n") > 0 && *at != '#') {
            fuzz_must(http_tokens_allow(tokens, header, &scopes), "a token of the file is good");
            fuzz_must(scopes.bits != 0 || scopes.group_count > 0, "a token has a scope");
            fuzz_must(scopes.group_count <= HTTP_SCOPE_GROUPS_MAX, "scopes are bounded");
        }
        at += strcspn(at, "\n");
    }
    fuzz_must(!http_tokens_allow(tokens, "Bearer ", &scopes) &&
                  !http_tokens_allow(tokens, NULL, &scopes),
              "no token is not good");
}

/* A file of bearer tokens. */
static void token_file(const struct fuzz_input *input, const char *text)
{
    static struct http_tokens tokens;
    char path[FUZZ_PATH_SIZE];
    int fd = fuzz_file(input->data, input->size, path);
    struct err err = {0};

    if (http_tokens_read(&tokens, path, &err) == RC_OK) {
        check_tokens(&tokens, text);
    } else {
        fuzz_must_be_sentence(err.text);
        fuzz_must(strlen(text) < HTTP_TOKEN_BYTES_MIN || !strstr(err.text, text),
                  "a token is in no sentence");
    }
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    unsigned choice = fuzz_byte(&input) % 8;
    struct fuzz_input rest = input;
    char *text;

    fuzz_silence();
    text = fuzz_text(&rest, '\0');
    if (choice == 0)
        command_line(&input);
    else if (choice == 1)
        restart(text);
    else if (choice == 2)
        numbers(text);
    else if (choice == 3)
        record_headers(&input);
    else if (choice == 4)
        sql_literal(&input);
    else if (choice == 5)
        fault_json(text);
    else
        token_file(&input, text);
    free(text);
    return 0;
}
