/* SPDX-License-Identifier: MIT */
#include "common/condition.h"

#include "common/hash.h"
#include "common/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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
}

void condition_done(struct condition *condition)
{
    if (condition->place[0])
        pthread_mutex_destroy(&condition->lock);
    memset(condition, 0, sizeof(*condition));
}

void condition_assume_failing(struct condition *condition, const char *text)
{
    pthread_mutex_lock(&condition->lock);
    condition->failing = true;
    err_set(&condition->err, "%s", text);
    pthread_mutex_unlock(&condition->lock);
}

static void log_failure(const struct condition *condition, const struct err *err)
{
    switch (condition->kind) {
    case CONDITION_DEPENDENCY:
        log_error(LOG_WARN, "dependency_down", err, "%s", condition->place);
        break;
    case CONDITION_WORK:
        log_error(LOG_WARN, "work_paused", err, "%s", condition->place);
        break;
    case CONDITION_CHECK:
        log_error(LOG_WARN, "check_failed", err, "%s", condition->place);
        break;
    case CONDITION_SILENT:
        break;
    }
}

static void log_recovery(const struct condition *condition, int64_t after_ms)
{
    switch (condition->kind) {
    case CONDITION_DEPENDENCY:
        log_event(LOG_INFO, "dependency_up", "%s after_ms=%" PRId64, condition->place, after_ms);
        break;
    case CONDITION_WORK:
        log_event(LOG_INFO, "work_resumed", "%s after_ms=%" PRId64, condition->place, after_ms);
        break;
    case CONDITION_CHECK:
        log_event(LOG_INFO, "check_passed", "%s after_ms=%" PRId64, condition->place, after_ms);
        break;
    case CONDITION_SILENT:
        break;
    }
}

void condition_fail(struct condition *condition, int64_t now_ms, const struct err *err)
{
    bool is_new;

    pthread_mutex_lock(&condition->lock);
    if (!condition->logged) {
        condition->since_ms = now_ms;
        condition->reasons.count = 0;
    }
    is_new = reasons_add(&condition->reasons, err->text, now_ms, INT64_MAX);
    condition->failing = true;
    condition->logged = true;
    condition->err = *err;
    pthread_mutex_unlock(&condition->lock);
    if (is_new)
        log_failure(condition, err);
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
    if (was_logged)
        log_recovery(condition, now_ms - since_ms);
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
