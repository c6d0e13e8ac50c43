/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_edit_command.h"

#include "common/backoff.h"
#include "common/options.h"
#include "common/os.h"
#include "common/stop.h"
#include "common/utf8.h"
#include "outbox/retry/store/task_admin_mysql.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define TRIES_MAX 8
#define RETRY_BASE_MS 100
#define RETRY_CAP_MS 2000

/* Returns the text, or the content of the file after "@", checked as the task intake checks
 * options. */
static enum rc take_options(struct buf *text, const char *word, struct err *err)
{
    json_error_t fault;
    json_t *object;
    enum rc rc = RC_OK;

    if (word[0] == '@')
        rc = options_read_file(text, "options", word + 1, RETRY_OPTIONS_BYTES_MAX, err);
    else
        buf_text_put(text, word);
    if (rc != RC_OK || text->len == 0)
        return rc;
    if (text->len > RETRY_OPTIONS_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "options have at most %d bytes",
                        RETRY_OPTIONS_BYTES_MAX);
    object = json_loadb(text->data, text->len, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(object))
        rc = err_fail(err, RC_REJECT, 0, "options are not a JSON object%s%s", object ? "" : ": ",
                      object ? "" : fault.text);
    json_decref(object);
    return rc;
}

/* A transaction that fails is tried again a few times. */
static enum rc edit_task(struct db *db, const struct task_admin_edit *wanted,
                         struct task_admin_result *result, struct err *err)
{
    struct backoff backoff = {.base_ms = RETRY_BASE_MS, .cap_ms = RETRY_CAP_MS};
    struct stop stop = {0};
    enum rc rc = stop_init(&stop, err);

    while (rc == RC_OK) {
        rc = task_admin_mysql_edit(db, wanted, result, err);
        if (rc != RC_RETRY || backoff.tries == TRIES_MAX)
            break;
        stop_wait(&stop, backoff_next_ms(&backoff, os_random_u64()));
        rc = RC_OK;
    }
    stop_done(&stop);
    return rc;
}

static int print_result(const struct task_admin_result *result, bool json)
{
    static const char *const words[TASK_ADMIN_OUTCOMES] = {
        [TASK_ADMIN_DID] = "edited",      [TASK_ADMIN_RUNNING] = "running",
        [TASK_ADMIN_UNFIT] = "parked",    [TASK_ADMIN_ENDED] = "ended",
        [TASK_ADMIN_UNKNOWN] = "unknown",
    };
    static const char *const sentences[TASK_ADMIN_OUTCOMES] = {
        [TASK_ADMIN_DID] = "is edited; tallybox retry run-now makes it due",
        [TASK_ADMIN_RUNNING] =
            "is running and was not changed; try again when the attempt has ended",
        [TASK_ADMIN_UNFIT] = "is parked and was not changed: unpark its key and requeue it",
        [TASK_ADMIN_ENDED] = "has ended and was not changed: requeue it and edit the new task",
        [TASK_ADMIN_UNKNOWN] = "does not exist",
    };
    bool done = result->outcome == TASK_ADMIN_DID;

    if (json)
        printf("{\"id\": %" PRId64 ", \"outcome\": \"%s\"}\n", result->id, words[result->outcome]);
    else
        fprintf(done ? stdout : stderr, "task %" PRId64 " %s\n", result->id,
                sentences[result->outcome]);
    return done ? EXIT_DONE : EXIT_FAILED;
}

int retry_edit(struct db *db, const struct retry_request *request)
{
    const struct retry_words *words = &request->words;
    struct task_admin_edit wanted = {.id = request->ids[0]};
    struct task_admin_result result = {0};
    struct buf options = {0};
    struct buf value = {0};
    struct err err = {0};
    enum rc rc = RC_OK;

    if (words->options)
        rc = take_options(&options, words->options, &err);
    if (rc == RC_OK && words->value_path)
        rc = options_read_file(&value, "value", words->value_path, RETRY_PARAMS_BYTES_MAX, &err);
    if (rc == RC_OK) {
        wanted.options = words->options ? buf_text(&options) : NULL;
        wanted.params = words->value_path ? buf_text(&value) : NULL;
        wanted.params_len = value.len;
        rc = edit_task(db, &wanted, &result, &err);
    }
    if (rc == RC_REJECT && err.code == DB_DUPLICATE)
        err_set(&err, "another active task without an idempotency key does the same");
    buf_done(&options);
    buf_done(&value);
    if (rc == RC_REJECT) {
        fprintf(stderr, "tallybox retry: %s; nothing was changed\n", err.text);
        return EXIT_USAGE;
    }
    return rc == RC_OK ? print_result(&result, words->json) : options_fail(rc, &err);
}
