/* SPDX-License-Identifier: MIT */
#include "consumer/verify/verify_command.h"

#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/verify/verify.h"
#include "consumer/verify/verify_mysql.h"

#include <jansson.h>
#include <stdio.h>

#define POLL_MS 250
#define NOTICE_MS 5000

/* Text is printed after each check; JSON is one object at the end. */
struct report {
    json_t *checks; /* NULL: text */
    bool outbox_only;
    uint64_t failed;
    uint64_t made;
};

static void print_text(const struct verify_result *result)
{
    if (result->violations == 0) {
        printf("ok    %-20s %10llu rows   %s\n", result->name, (unsigned long long)result->rows,
               result->holds);
        fflush(stdout);
        return;
    }
    printf("FAIL  %-20s %10llu rows   %llu violations of: %s\n", result->name,
           (unsigned long long)result->rows, (unsigned long long)result->violations, result->holds);
    for (size_t i = 0; i < result->offender_count; i++)
        printf("        %s\n", result->offenders[i]);
    if (result->violations > result->offender_count)
        printf("        and %llu more\n",
               (unsigned long long)(result->violations - result->offender_count));
    fflush(stdout);
}

static void add_json(json_t *checks, const struct verify_result *result)
{
    json_t *offenders = json_array();

    for (size_t i = 0; i < result->offender_count; i++)
        json_array_append_new(offenders, json_string(result->offenders[i]));
    json_array_append_new(checks,
                          json_pack("{s:s, s:s, s:b, s:I, s:I, s:o}", "name", result->name, "holds",
                                    result->holds, "ok", result->violations == 0, "rows",
                                    (json_int_t)result->rows, "violations",
                                    (json_int_t)result->violations, "offenders", offenders));
}

static void report_result(void *ctx, const struct verify_result *result)
{
    struct report *report = ctx;

    report->made++;
    report->failed += result->violations > 0;
    if (report->checks)
        add_json(report->checks, result);
    else
        print_text(result);
}

static void print_limits(bool outbox_only)
{
    const struct verify_limit *limit;

    printf("not checked:\n");
    for (size_t i = 0; (limit = verify_limit_at(i, outbox_only)); i++)
        printf("      %-20s %s\n", limit->name, limit->what);
}

static json_t *make_limits_json(bool outbox_only)
{
    json_t *list = json_array();
    const struct verify_limit *limit;

    for (size_t i = 0; (limit = verify_limit_at(i, outbox_only)); i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "name", limit->name, "what", limit->what));
    return list;
}

static void print_report(struct report *report, int64_t started_ms)
{
    double seconds = (double)(os_now_ms() - started_ms) / 1000;

    if (!report->checks) {
        print_limits(report->outbox_only);
        printf("%s: %llu checks, %llu failed, %.1f s\n", report->failed ? "FAIL" : "ok",
               (unsigned long long)report->made, (unsigned long long)report->failed, seconds);
        return;
    }
    json_t *all =
        json_pack("{s:b, s:f, s:O, s:o}", "ok", report->failed == 0, "seconds", seconds, "checks",
                  report->checks, "not_checked", make_limits_json(report->outbox_only));

    /* With all 17 digits 0.1 would be 0.10000000000000001. */
    json_dumpf(all, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    printf("\n");
    json_decref(all);
}

/* Waits at most wait_ms until no vote is on its way. A time-out is not an error: the checks then
 * report what is missing. */
static enum rc wait_drained(struct verify_mysql *verify, int64_t wait_ms, struct err *err)
{
    int64_t until_ms = os_now_ms() + wait_ms;
    int64_t notice_ms = os_now_ms() + NOTICE_MS;
    struct stop stop = {0};
    bool drained = false;
    char waiting[128];
    enum rc rc = stop_init(&stop, err);

    while (rc == RC_OK) {
        rc = verify_mysql_drained(verify, &drained, waiting, sizeof(waiting), err);
        if (rc == RC_FATAL || (rc == RC_OK && drained) || os_now_ms() >= until_ms)
            break;
        if (os_now_ms() >= notice_ms) {
            fprintf(stderr, "waiting: %s\n", rc == RC_OK ? waiting : err->text);
            notice_ms += NOTICE_MS;
        }
        rc = RC_OK;
        stop_wait(&stop, POLL_MS);
    }
    stop_done(&stop);
    return rc;
}

static enum rc verify(const struct settings *settings, int64_t wait_ms, struct report *report,
                      struct err *err)
{
    struct verify_mysql *verify = NULL;
    struct verify_source source;
    uint64_t violations;
    enum rc rc = verify_mysql_open(&verify, settings, err);

    if (rc == RC_OK && wait_ms > 0)
        rc = wait_drained(verify, wait_ms, err);
    if (rc == RC_OK)
        rc = verify_mysql_begin(verify, &source, err);
    if (rc == RC_OK)
        rc = verify_run(&source, report_result, report, &violations, err);
    report->outbox_only = rc == RC_OK && source.outbox_only;
    verify_mysql_close(verify);
    return rc;
}

static int verify_with_options(const struct options *options, bool json, int64_t wait_s)
{
    struct report report = {.checks = json ? json_array() : NULL};
    int64_t started_ms = os_now_ms();
    struct config *config;
    struct err err = {0};
    int code = options_load(options, &config);
    enum rc rc;

    if (code >= 0) {
        json_decref(report.checks);
        return code;
    }
    rc = verify(config_settings(config), wait_s * 1000, &report, &err);
    if (rc == RC_OK) {
        print_report(&report, started_ms);
        code = report.failed ? EXIT_FAILED : EXIT_DONE;
    } else {
        code = options_fail(rc, &err);
    }
    json_decref(report.checks);
    config_free(config);
    return code;
}

int verify_command(int argc, char **argv)
{
    bool json = false;
    int64_t wait_s = 0;
    const struct option_entry entries[] = {
        {"json", OPTION_FLAG, &json, NULL, "print the result as one JSON object", NULL},
        {"wait", OPTION_NUMBER, &wait_s, "SECONDS",
         "first wait until the outbox is empty and all votes are logged", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox verify",
        .arguments = "",
        .about =
            "Checks on the stored data that no vote was lost or counted twice. Each check prints "
            "how many rows it read and the first few violations. The exit code is 0 if all checks "
            "hold, 1 if one does not, and 3 if a server cannot be reached. At the end stands what "
            "no check covers. On a busy system votes on their way show as differences; --wait lets "
            "them arrive first.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox verify --wait 30\n"
                    "  tallybox verify --json | jq '.checks[] | select(.ok | not)'\n",
    };
    struct options options;
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (wait_s < 0 || options.argument_count > 0) {
        fprintf(stderr, "tallybox verify: %s\n",
                wait_s < 0 ? "--wait takes a number of seconds from 0" : "takes no arguments");
        return EXIT_USAGE;
    }
    return verify_with_options(&options, json, wait_s);
}
