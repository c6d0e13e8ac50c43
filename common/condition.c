/* SPDX-License-Identifier: MIT */
#include "common/condition.h"

#include "common/hash.h"
#include "common/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The two log events of each kind. */
static const struct {
    const char *failed;
    const char *recovered;
} events[] = {
    [CONDITION_DEPENDENCY] = {"dependency_down", "dependency_up"},
    [CONDITION_WORK] = {"work_paused", "work_resumed"},
    [CONDITION_CHECK] = {"check_failed", "check_passed"},
    [CONDITION_SILENT] = {NULL, NULL},
    [CONDITION_REMINDER] = {NULL, NULL},
};

#define REMIND_MS 60000

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static bool lists;
static struct condition *first_listed;

static uint64_t hash_without_digits(const char *text)
{
    uint64_t hash = HASH_START;

    while (*text) {
        size_t digits = strspn(text, "0123456789");
        size_t others = strcspn(text + digits, "0123456789");

        hash = hash_bytes(hash, text + digits, others);
        text += digits + others;
    }
    return hash;
}

bool reasons_add(struct reasons *reasons, const char *text, int64_t now_ms, int64_t again_ms)
{
    size_t kept = reasons->count < REASONS_MAX ? reasons->count : REASONS_MAX;
    uint64_t hash = hash_without_digits(text);
    size_t at = 0;

    while (at < kept && reasons->list[at].hash != hash)
        at++;
    if (at < kept && now_ms - reasons->list[at].at_ms < again_ms)
        return false;
    if (at == kept)
        at = reasons->count++ % REASONS_MAX;
    reasons->list[at].hash = hash;
    reasons->list[at].at_ms = now_ms;
    return true;
}

void condition_init(struct condition *condition, enum condition_kind kind, const char *format, ...)
{
    va_list args;

    memset(condition, 0, sizeof(*condition));
    condition->kind = kind;
    va_start(args, format);
    vsnprintf(condition->place, sizeof(condition->place), format, args);
    va_end(args);
    assert(condition->place[0]);
    pthread_mutex_init(&condition->lock, NULL);
    pthread_mutex_lock(&list_lock);
    if (lists) {
        condition->next = first_listed;
        first_listed = condition;
    }
    pthread_mutex_unlock(&list_lock);
}

static void unlist_condition(const struct condition *condition)
{
    pthread_mutex_lock(&list_lock);
    for (struct condition **at = &first_listed; *at; at = &(*at)->next) {
        if (*at == condition) {
            *at = condition->next;
            break;
        }
    }
    pthread_mutex_unlock(&list_lock);
}

void condition_done(struct condition *condition)
{
    if (condition->place[0]) {
        unlist_condition(condition);
        pthread_mutex_destroy(&condition->lock);
    }
    memset(condition, 0, sizeof(*condition));
}

void condition_assume_failing(struct condition *condition, const char *text)
{
    pthread_mutex_lock(&condition->lock);
    condition->failing = true;
    err_set(&condition->err, "%s", text);
    pthread_mutex_unlock(&condition->lock);
}

void condition_fail(struct condition *condition, int64_t now_ms, const struct err *err)
{
    bool is_new;

    pthread_mutex_lock(&condition->lock);
    if (!condition->logged) {
        condition->since_ms = condition->line_ms = now_ms;
        condition->reasons.count = 0;
    }
    is_new = reasons_add(&condition->reasons, err->text, now_ms, INT64_MAX);
    condition->failing = true;
    condition->logged = true;
    condition->err = *err;
    pthread_mutex_unlock(&condition->lock);
    if (is_new && events[condition->kind].failed)
        log_error(LOG_WARN, events[condition->kind].failed, err, "%s", condition->place);
}

void condition_ok(struct condition *condition, int64_t now_ms)
{
    bool was_logged;
    int64_t since_ms;

    pthread_mutex_lock(&condition->lock);
    was_logged = condition->logged;
    since_ms = condition->since_ms;
    condition->failing = false;
    condition->logged = false;
    pthread_mutex_unlock(&condition->lock);
    if (was_logged && events[condition->kind].recovered)
        log_event(LOG_INFO, events[condition->kind].recovered, "%s after_ms=%" PRId64,
                  condition->place, now_ms - since_ms);
}

bool condition_read(struct condition *condition, struct err *err)
{
    bool failing;

    pthread_mutex_lock(&condition->lock);
    failing = condition->failing;
    if (failing && err)
        *err = condition->err;
    pthread_mutex_unlock(&condition->lock);
    return failing;
}

void conditions_list(void)
{
    pthread_mutex_lock(&list_lock);
    lists = true;
    pthread_mutex_unlock(&list_lock);
}

/* What a reminder says; copied, so that no lock is held while it is written. */
struct reminder {
    char place[CONDITION_PLACE_SIZE];
    struct err err;
    int64_t since_ms;
    size_t others; /* further conditions that wait for the same */
};

/* Returns whether it waits, and when a line named it last. A check does not wait: its work goes on.
 * The list's lock is held, as in the following functions. */
static bool is_waiting(struct condition *condition, int64_t *line_ms)
{
    bool logged;

    pthread_mutex_lock(&condition->lock);
    logged = condition->logged;
    *line_ms = condition->line_ms;
    pthread_mutex_unlock(&condition->lock);
    return logged && condition->kind != CONDITION_CHECK && condition->kind != CONDITION_SILENT;
}

/* Whether both places are of the same wait: the first pair is dep= or what=. */
static bool is_same_wait(const char *one, const char *other)
{
    size_t len = strcspn(one, " ");

    return len == strcspn(other, " ") && strncmp(one, other, len) == 0;
}

/* Counts one condition that waits for the same, and notes that a line names it at now_ms. */
static void add_to_reminder(struct reminder *reminder, struct condition *condition, int64_t now_ms)
{
    pthread_mutex_lock(&condition->lock);
    condition->line_ms = now_ms;
    if (!reminder->place[0] || condition->since_ms < reminder->since_ms) {
        memcpy(reminder->place, condition->place, sizeof(reminder->place));
        reminder->err = condition->err;
        reminder->since_ms = condition->since_ms;
    }
    pthread_mutex_unlock(&condition->lock);
    reminder->others++;
}

/* Returns whether a line is due. *any: whether a condition waits at all. */
static bool take_reminder(struct reminder *reminder, int64_t now_ms, bool *any)
{
    struct condition *due = NULL;
    int64_t line_ms;

    *any = false;
    *reminder = (struct reminder){.others = 0};
    for (struct condition *one = first_listed; one && !due; one = one->next) {
        if (!is_waiting(one, &line_ms))
            continue;
        *any = true;
        if (now_ms - line_ms >= REMIND_MS)
            due = one;
    }
    for (struct condition *one = due ? first_listed : NULL; one; one = one->next)
        if (is_waiting(one, &line_ms) && is_same_wait(one->place, due->place))
            add_to_reminder(reminder, one, now_ms);
    return due != NULL;
}

bool conditions_remind(int64_t now_ms)
{
    struct reminder reminder;
    bool any;
    bool due;

    do {
        pthread_mutex_lock(&list_lock);
        due = take_reminder(&reminder, now_ms, &any);
        pthread_mutex_unlock(&list_lock);
        /* others is 0 if the condition ended meanwhile. */
        if (due && reminder.others > 0)
            log_error(LOG_WARN, "still_waiting", &reminder.err,
                      "%s lasts_ms=%" PRId64 " others=%zu", reminder.place,
                      now_ms - reminder.since_ms, reminder.others - 1);
    } while (due);
    return any;
}

/* 0: it does not fail. */
static int64_t read_duration_ms(struct condition *condition, int64_t now_ms)
{
    int64_t lasts_ms = 0;

    pthread_mutex_lock(&condition->lock);
    if (condition->logged)
        lasts_ms = now_ms > condition->since_ms ? now_ms - condition->since_ms : 1;
    pthread_mutex_unlock(&condition->lock);
    return lasts_ms;
}

int64_t conditions_failing_ms(const char *pair, int64_t now_ms)
{
    int64_t longest_ms = 0;

    pthread_mutex_lock(&list_lock);
    for (struct condition *one = first_listed; one; one = one->next) {
        int64_t lasts_ms = is_same_wait(one->place, pair) ? read_duration_ms(one, now_ms) : 0;

        if (lasts_ms > longest_ms)
            longest_ms = lasts_ms;
    }
    pthread_mutex_unlock(&list_lock);
    return longest_ms;
}
