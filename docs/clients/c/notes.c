/* SPDX-License-Identifier: MIT */
/* An own build of tallybox with one more handler, `note`: it appends a line with the task's
 * parameters to a file. It has all commands of tallybox:
 *
 *     notes retry --config tallybox.ini
 *
 * NOTES_FILE names the file. NOTES_FAILURES (0): so many attempts of each task fail. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tallybox/retry_handler.h>

#define LINE_BYTES 4096

struct notes {
    const char *path;
    long failures;
    pthread_mutex_t lock; /* one writer at a time */
};

static enum tallybox_result start(void **state, const struct tallybox_start *start,
                                  struct tallybox_error *error)
{
    static struct notes notes = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const char *failures = getenv("NOTES_FAILURES");

    (void)start;
    notes.path = getenv("NOTES_FILE");
    notes.failures = failures ? atol(failures) : 0;
    if (!notes.path) {
        snprintf(error->text, sizeof(error->text), "NOTES_FILE is not set");
        return TALLYBOX_FATAL;
    }
    *state = &notes;
    return TALLYBOX_OK;
}

static enum tallybox_result check(const struct tallybox_job *job, struct tallybox_error *error)
{
    if (job->params && job->params_len > 0 && job->params_len < LINE_BYTES / 2 &&
        !memchr(job->params, '\n', job->params_len))
        return TALLYBOX_OK;
    snprintf(error->text, sizeof(error->text), "params are not one line of up to %d bytes",
             LINE_BYTES / 2);
    return TALLYBOX_REJECT;
}

/* A task may run again after its line was written: the key tells. */
static int has_line(FILE *file, const char *key)
{
    char line[LINE_BYTES];
    size_t len = strlen(key);

    rewind(file);
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, key, len) == 0 && line[len] == ' ')
            return 1;
    return 0;
}

static enum tallybox_run_end write_line(const struct notes *notes, const struct tallybox_job *job,
                                        struct tallybox_attempt *attempt)
{
    FILE *file = fopen(notes->path, "a+");
    int failed;

    if (!file) {
        tallybox_attempt_explain(attempt, "cannot open %s", notes->path);
        return TALLYBOX_RUN_OURS;
    }
    if (!has_line(file, job->idempotency_key)) {
        fseek(file, 0, SEEK_END);
        fprintf(file, "%s %lld %.*s\n", job->idempotency_key, (long long)job->attempt,
                (int)job->params_len, (const char *)job->params);
    }
    failed = ferror(file);
    if (fclose(file) == 0 && !failed)
        return TALLYBOX_RUN_DONE;
    tallybox_attempt_explain(attempt, "cannot write %s", notes->path);
    return TALLYBOX_RUN_FAILED;
}

static enum tallybox_run_end run(void *state, size_t worker, const struct tallybox_job *job,
                                 struct tallybox_attempt *attempt)
{
    struct notes *notes = state;
    struct tallybox_error error;
    enum tallybox_run_end end;

    (void)worker;
    if (check(job, &error) != TALLYBOX_OK) {
        tallybox_attempt_explain(attempt, "%s", error.text);
        return TALLYBOX_RUN_REFUSED;
    }
    if (job->attempt <= notes->failures) {
        tallybox_attempt_explain(attempt, "attempt %lld fails, as NOTES_FAILURES asks",
                                 (long long)job->attempt);
        return TALLYBOX_RUN_FAILED;
    }
    pthread_mutex_lock(&notes->lock);
    end = write_line(notes, job, attempt);
    pthread_mutex_unlock(&notes->lock);
    return end;
}

static const struct tallybox_handler note = {.name = "note",
                                             .about = "Appends a line to a file.",
                                             .start = start,
                                             .check = check,
                                             .run = run};
static const struct tallybox_handler *const handlers[] = {&note};

int main(int argc, char **argv)
{
    return tallybox_main(argc, argv, handlers, 1);
}
