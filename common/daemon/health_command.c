/* SPDX-License-Identifier: MIT */
#include "common/daemon/health_command.h"

#include "common/config/secret_file.h"
#include "common/daemon/admin_probe.h"
#include "common/http/http_get.h"
#include "common/http/tokens.h"
#include "common/options.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ANSWER_BYTES_MAX ((size_t)1 << 20)
#define LINE_SIZE 640 /* longer than a line of /readyz; of other text so much is shown */
#define SECONDS_STANDARD 3
#define SECONDS_MAX 60

struct request {
    bool ready;
    bool json;
    struct admin_probe probe;
};

/* Returns the next line, cleaned for a terminal, or false. */
static bool take_line(const char **at, char line[LINE_SIZE])
{
    size_t len = strcspn(*at, "\n");

    if (**at == '\0')
        return false;
    snprintf(line, LINE_SIZE, "%.*s", len < LINE_SIZE ? (int)len : LINE_SIZE - 1, *at);
    utf8_clean(line);
    *at += len + ((*at)[len] == '\n');
    return true;
}

static bool is_good_line(const char *line)
{
    static const char end[] = ": ok";
    size_t len = strlen(line);

    return len >= sizeof(end) && strcmp(line + len - (sizeof(end) - 1), end) == 0;
}

/* The page without its first line, which is the result: the lines that say more than "ok". */
static void put_text(struct buf *out, enum admin_answer answer, const char *page)
{
    char line[LINE_SIZE];

    buf_text_put(out, answer == ADMIN_ANSWER_GOOD ? "ok\n" : "not ready\n");
    take_line(&page, line);
    while (take_line(&page, line))
        if (!is_good_line(line))
            buf_print(out, "%s\n", line);
}

/* why: NULL, or why the answer is no answer of tallybox, or that there was none. */
static void put_json(struct buf *out, const struct request *request, int status, bool good,
                     const char *page, const char *why)
{
    const char *between = "";
    char line[LINE_SIZE];

    buf_print(out, "{\"ok\":%s,\"url\":", good ? "true" : "false");
    json_text_put(out, request->probe.url);
    buf_text_put(out, ",\"status\":");
    if (status > 0)
        buf_i64(out, status);
    else
        buf_text_put(out, "null");
    if (why) {
        buf_text_put(out, ",\"error\":");
        json_text_put(out, why);
    } else {
        buf_text_put(out, ",\"lines\":[");
        take_line(&page, line);
        for (; take_line(&page, line); between = ",") {
            buf_text_put(out, between);
            json_text_put(out, line);
        }
        buf_char(out, ']');
    }
    buf_text_put(out, "}\n");
}

/* What another page than the expected one says. */
static void describe_other(const struct request *request, int status, const char *page,
                           struct err *err)
{
    char line[LINE_SIZE] = "";

    take_line(&page, line);
    if (status == 200)
        err_set(err,
                "%.200s: status 200, but not the page of tallybox: does another program listen "
                "there?",
                request->probe.url);
    else
        err_set(err, "%.200s: status %d: %.150s", request->probe.url, status, line);
}

static int print_failure(const struct request *request, int status, const struct err *err, int code)
{
    struct buf out = {0};

    if (request->json) {
        put_json(&out, request, status, false, "", err->text);
        options_print(&out);
    } else {
        fprintf(stderr, "tallybox health: %s\n", err->text);
    }
    return code;
}

static int print_answer(const struct request *request, int status, const char *page)
{
    enum admin_answer answer = admin_probe_judge(request->ready, status, page);
    bool good = answer == ADMIN_ANSWER_GOOD;
    struct buf out = {0};
    struct err err;
    int code;

    if (answer == ADMIN_ANSWER_OTHER) {
        describe_other(request, status, page, &err);
        return print_failure(request, status, &err, EXIT_FAILED);
    }
    if (request->json)
        put_json(&out, request, status, good, page, NULL);
    else
        put_text(&out, answer, page);
    code = options_print(&out);
    return good ? code : EXIT_FAILED;
}

static int fail_usage(const struct err *err)
{
    fprintf(stderr, "tallybox health: %s\n", err->text);
    return EXIT_USAGE;
}

/* The header with the token, or "". */
static enum rc make_bearer(struct buf *bearer, const char *token_file, struct err *err)
{
    static const char start[] = "Authorization: Bearer ";
    enum rc rc;

    if (!*token_file)
        return RC_OK;
    if (!buf_reserve(bearer, sizeof(start) + HTTP_TOKEN_BYTES_MAX))
        return err_fail(err, RC_FATAL, 0, "out of memory");
    buf_text_put(bearer, start);
    rc = http_tokens_pick(bearer, token_file, HTTP_SCOPE_OPERATE, err);
    if (rc != RC_OK)
        err_wrap(err, "admin.token_file");
    return rc;
}

static int ask(const struct request *request, int64_t seconds)
{
    struct buf bearer = {0};
    struct buf page = {.size_max = ANSWER_BYTES_MAX};
    struct err err = {0};
    int status = 0;
    enum rc rc = make_bearer(&bearer, request->probe.token_file, &err);
    int code;

    if (rc == RC_OK) {
        const struct http_get get = {
            .url = request->probe.url,
            .host = request->probe.host,
            .bearer = buf_text(&bearer),
            .ca_file = request->probe.ca_file,
            .check_cert = request->probe.check_cert,
            .check_name = request->probe.check_name,
            .timeout_ms = seconds * 1000,
        };

        rc = http_get(&get, &status, &page, &err);
    }
    secret_file_forget(&bearer);
    if (rc == RC_OK)
        code = print_answer(request, status, buf_text(&page));
    else if (rc == RC_REJECT)
        code = fail_usage(&err);
    else
        code =
            print_failure(request, status, &err, rc == RC_RETRY ? EXIT_UNAVAILABLE : EXIT_FAILED);
    buf_done(&page);
    return code;
}

int health_command(int argc, char **argv)
{
    struct request request = {0};
    const char *role = NULL;
    const char *url = NULL;
    int64_t seconds = SECONDS_STANDARD;
    const struct option_entry entries[] = {
        {"ready", OPTION_FLAG, &request.ready, NULL,
         "ask /readyz: whether the process can work; otherwise /healthz: whether it runs", NULL},
        {"role", OPTION_TEXT, &role, "NAME",
         "the role of the process: its section [role.NAME] counts",
         "run serve relay retry consume rollup housekeep"},
        {"url", OPTION_TEXT, &url, "URL",
         "ask http[s]://HOST[:PORT], not the address of admin.listen", NULL},
        {"timeout", OPTION_NUMBER, &seconds, "SECONDS",
         "longest wait for the whole answer, 1 to 60; otherwise 3", NULL},
        {"json", OPTION_FLAG, &request.json, NULL, "print the answer as JSON", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox health",
        .arguments = "",
        .about =
            "Asks the admin server of a tallybox process on this machine whether the process runs, "
            "or with --ready whether it can work, and why not. For health checks of containers "
            "and supervisors. The address is that of admin.listen in the settings of that process, "
            "which needs a fixed port there; 0.0.0.0 and [::] mean the loopback. --ready sends a "
            "token of admin.token_file that has the scope operate. The exit code is 0 if the "
            "process is healthy or ready, 1 if not, 3 if there was no answer in time.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox health --set admin.listen=127.0.0.1:9464\n"
                    "  tallybox health --role relay --ready\n"
                    "  tallybox health --url http://127.0.0.1:9470 --timeout 1\n",
        .sections = "admin",
    };
    struct options options;
    struct config *config;
    struct err err = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (seconds < 1 || seconds > SECONDS_MAX) {
        err_set(&err, "--timeout %" PRId64 ": expected 1 to %d seconds", seconds, SECONDS_MAX);
        return fail_usage(&err);
    }
    if (role && !options_take_role(&options, &parse, role))
        return EXIT_USAGE;
    code = options_load(&options, &config);
    if (code >= 0)
        return code;
    if (admin_probe_make(&request.probe, config_settings(config), url, request.ready, &err) ==
        RC_OK)
        code = ask(&request, seconds);
    else
        code = fail_usage(&err);
    config_free(config);
    return code;
}
