/* SPDX-License-Identifier: MIT */
/* Hands tasks to the retry queue of tallybox over HTTP, from C. README.md in the folder above
 * explains the rules that it shares with the other clients.
 *
 *     report COUNT WEBHOOK        work that fails here and is handed over
 *     report - WEBHOOK            the same for each line of stdin
 *     report --exit COUNT WEBHOOK leaves the window to exit()
 *
 * TALLYBOX_URL (http://127.0.0.1:8080) and TALLYBOX_TOKEN or TALLYBOX_TOKEN_FILE name the server
 * and the token. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tallybox/outbox.h>
#include <tallybox/task.h>

#define CLOSE_MS 30000

/* The other system does not answer. Work that must not be tried again returns TALLYBOX_REJECT. */
static enum tallybox_result work(void *ctx, int attempt)
{
    (void)ctx;
    (void)attempt;
    return TALLYBOX_RETRY;
}

static void on_refused(void *ctx, const char *task, const char *key, const char *reason)
{
    (void)ctx;
    (void)task;
    fprintf(stderr, "refused: %s: %s\n", key, reason);
}

static enum tallybox_outcome report_one(struct tallybox_reporter *reporter, const char *run,
                                        const char *number, const char *webhook)
{
    const struct tallybox_policy policy = {.attempts = 3, .wait_ms = 1, .full_wait_ms = -1};
    struct tallybox_error error = {0};
    enum tallybox_outcome outcome;
    char key[80], options[512], params[64];

    snprintf(key, sizeof(key), "%.40s/%.30s", run, number);
    snprintf(options, sizeof(options), "{\"url\": \"%.400s\"}", webhook);
    snprintf(params, sizeof(params), "{\"number\": %.30s}", number);
    outcome = tallybox_reporter_try(reporter, &policy, work, NULL,
                                    &(struct tallybox_task){.scene = "webhook",
                                                            .handler = "http",
                                                            .biz_no = number,
                                                            .idempotency_key = key,
                                                            .options = options,
                                                            .params = params,
                                                            .params_len = strlen(params)},
                                    &error);
    if (outcome == TALLYBOX_REFUSED || outcome == TALLYBOX_DROPPED)
        fprintf(stderr, "%s: %s: %s\n", tallybox_outcome_name(outcome), key, error.text);
    printf("%s\n", tallybox_outcome_name(outcome));
    fflush(stdout);
    return outcome;
}

static void report_all(struct tallybox_reporter *reporter, const char *count, const char *webhook)
{
    char run[TALLYBOX_ID_SIZE];
    char number[32];

    tallybox_id_make(run);
    if (strcmp(count, "-") == 0) {
        while (fgets(number, sizeof(number), stdin)) {
            number[strcspn(number, "\n")] = '\0';
            report_one(reporter, run, number, webhook);
        }
        return;
    }
    for (long i = 0; i < atol(count); i++) {
        snprintf(number, sizeof(number), "%ld", i);
        report_one(reporter, run, number, webhook);
    }
}

static int fail(const char *what, const struct tallybox_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->text);
    return 1;
}

int main(int argc, char **argv)
{
    const int at_exit = argc == 4 && strcmp(argv[1], "--exit") == 0;
    const char *const url = getenv("TALLYBOX_URL");
    const struct tallybox_server server = {.url = url ? url : "http://127.0.0.1:8080",
                                           .token = getenv("TALLYBOX_TOKEN"),
                                           .token_file = getenv("TALLYBOX_TOKEN_FILE")};
    const struct tallybox_reporter_config config = {.on_refused = on_refused};
    struct tallybox_client *client = NULL;
    struct tallybox_reporter *reporter = NULL;
    struct tallybox_counts counts;
    struct tallybox_error error = {0};

    if (argc != 3 && !at_exit) {
        fprintf(stderr, "Usage: report [--exit] COUNT|- WEBHOOK\n");
        return 2;
    }
    if (tallybox_client_open(&client, &server, &error) != TALLYBOX_OK)
        return fail("client", &error);
    if (tallybox_reporter_open(&reporter, client, &config, &error) != TALLYBOX_OK) {
        tallybox_client_close(client);
        return fail("reporter", &error);
    }
    report_all(reporter, argv[argc - 2], argv[argc - 1]);
    /* exit() sends what waits; the client must live until then. */
    if (at_exit)
        return 0;
    if (tallybox_reporter_close(reporter, CLOSE_MS, &counts, &error) != TALLYBOX_OK)
        fail("close", &error);
    tallybox_client_close(client);
    printf("{\"reported\": %llu, \"refused\": %llu, \"lost\": %llu, \"failedCalls\": %llu}\n",
           (unsigned long long)counts.reported, (unsigned long long)counts.refused,
           (unsigned long long)counts.lost, (unsigned long long)counts.failed);
    return counts.lost || counts.refused || counts.dropped ? 1 : 0;
}
