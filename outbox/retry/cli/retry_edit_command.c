/* SPDX-License-Identifier: MIT */
#include "outbox/retry/cli/retry_edit_command.h"

#include "common/options.h"
#include "outbox/retry/cli/retry_audit_command.h"
#include "outbox/retry/store/task_edit_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TRIES_MAX 8

static int print_redriven(const struct task_admin_result *result, bool json)
{
    bool done = result->outcome == TASK_ADMIN_DID;
    const char *word = done                                   ? "requeued"
                       : result->outcome == TASK_ADMIN_WAS_SO ? "was_so"
                       : result->outcome == TASK_ADMIN_ACTIVE ? "active"
                                                              : "unknown";

    if (json && result->other != 0)
        printf("{\"id\": %" PRId64 ", \"outcome\": \"%s\", \"task\": %" PRId64 "}\n", result->id,
               word, result->other);
    else if (json)
        printf("{\"id\": %" PRId64 ", \"outcome\": \"%s\"}\n", result->id, word);
    else if (done)
        printf("task %" PRId64 " is requeued as %" PRId64 ", corrected\n", result->id,
               result->other);
    else if (result->outcome == TASK_ADMIN_WAS_SO)
        fprintf(stderr,
                "task %" PRId64 " was requeued before, as %" PRId64 ", and was not changed\n",
                result->id, result->other);
    else if (result->outcome == TASK_ADMIN_ACTIVE)
        fprintf(stderr,
                "task %" PRId64 " was not requeued: %" PRId64
                " is active and has its idempotency key\n",
                result->id, result->other);
    else
        fprintf(stderr, "task %" PRId64 " is not in the history\n", result->id);
    return done ? EXIT_DONE : EXIT_FAILED;
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
        [TASK_ADMIN_ENDED] = "has ended and was not changed: requeue takes the same options",
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

/* The word is JSON itself, the name of a file, or "@" and the name of a file. */
static enum rc take_json(struct buf *text, const char *word, const char *option, struct err *err)
{
    enum rc rc = RC_OK;

    if (word[0] == '\0' || word[0] == '{' || word[0] == '[')
        buf_text_put(text, word);
    else
        rc = options_read_file(text, option, word[0] == '@' ? word + 1 : word,
                               RETRY_OPTIONS_BYTES_MAX, err);
    if (rc == RC_OK && text->len > 0 && memchr(text->data, '\0', text->len))
        rc = err_fail(err, RC_REJECT, 0, "%s: not JSON: a zero byte", option);
    return rc;
}

/* What the files and words of the command line hold. */
struct given {
    struct buf options;
    struct buf headers;
    struct buf params;
};

static enum rc read_given(struct given *given, const struct retry_words *words, struct err *err)
{
    enum rc rc = RC_OK;

    if (words->options)
        rc = take_json(&given->options, words->options, "options", err);
    if (rc == RC_OK && words->headers)
        rc = take_json(&given->headers, words->headers, "headers", err);
    if (rc == RC_OK && words->params_path)
        rc = options_read_file(&given->params, "params", words->params_path, RETRY_PARAMS_BYTES_MAX,
                               err);
    return rc;
}

int retry_edit(struct db *db, const struct retry_handlers *handlers, struct retry_request *request,
               const char *by)
{
    const struct retry_words *words = &request->words;
    struct given given = {0};
    struct task_admin_result result = {0};
    struct err err = {0};
    enum rc rc = read_given(&given, words, &err);
    struct task_edit edit = {
        .id = request->ids[0],
        .redrive = request->action == RETRY_REQUEUE,
        .options = words->options ? buf_text(&given.options) : NULL,
        .headers = words->headers ? buf_text(&given.headers) : NULL,
        .params = words->params_path ? buf_text(&given.params) : NULL,
        .params_len = given.params.len,
        .no_params = words->no_params,
        .by = by,
        .why = words->reason,
        .tries_max = TRIES_MAX,
    };

    if (rc == RC_OK)
        rc = retry_audit_begin(db, request, by, &err);
    edit.audit_id = request->audit_id;
    if (rc == RC_OK)
        rc = task_edit_mysql(db, handlers, &edit, &result, &err);
    buf_done(&given.options);
    buf_done(&given.headers);
    buf_done(&given.params);
    if (rc == RC_REJECT) {
        retry_audit_refuse(db, request);
        fprintf(stderr, "tallybox retry: %s; nothing was changed\n", err.text);
        return EXIT_USAGE;
    }
    if (rc != RC_OK)
        return options_fail(rc, &err);
    return edit.redrive ? print_redriven(&result, words->json) : print_result(&result, words->json);
}
