/* SPDX-License-Identifier: MIT */
/* The state of a dependency, of a piece of work or of a check: ok or failing, since when, why. A
 * condition writes one log line when it begins to fail, one for each further reason, and one when
 * it is ok again, so that every role logs the same fact with the same pair of events. In a process
 * that calls conditions_remind(), one line a minute says what is still waited for. Any thread may
 * call any function, except init and done. */
#ifndef COMMON_CONDITION_H
#define COMMON_CONDITION_H

#include "common/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REASONS_MAX 32
#define CONDITION_PLACE_SIZE 160

/* Texts that were logged before. Two texts that differ in digits only count as the same one,
 * because errors name ports, offsets and durations. Pure; one thread at a time. Zeroed: empty. */
struct reasons {
    struct {
        uint64_t hash;
        int64_t at_ms;
    } list[REASONS_MAX];
    size_t count; /* of all texts; the last REASONS_MAX are kept */
};

/* Returns true, and remembers text, when text was not logged within the last again_ms. */
bool reasons_add(struct reasons *reasons, const char *text, int64_t now_ms, int64_t again_ms);

enum condition_kind {
    CONDITION_DEPENDENCY, /* dependency_down, dependency_up: a server that the process needs */
    CONDITION_WORK,     /* work_paused, work_resumed: work that waits although its servers are up */
    CONDITION_CHECK,    /* check_failed, check_passed: a warning; the work goes on */
    CONDITION_SILENT,   /* nothing is logged; only readiness shows it */
    CONDITION_REMINDER, /* its owner logs beginning and end; conditions_remind() names it */
};

struct condition {
    enum condition_kind kind;
    char place[CONDITION_PLACE_SIZE]; /* `key=value` pairs of both log lines */
    pthread_mutex_t lock;             /* guards the fields below */
    bool failing;
    bool logged; /* since it failed */
    int64_t since_ms;
    int64_t line_ms; /* when a line was written last that names what it waits for */
    struct err err;
    struct reasons reasons; /* since it failed */
    struct condition *next; /* in the list of conditions_remind(); guarded by its lock */
};

/* The format gives the `key=value` pairs of the log lines, first `dep=`, `what=` or `check=`, then
 * `role=`; a text longer than CONDITION_PLACE_SIZE is cut. The condition is ok. */
void condition_init(struct condition *condition, enum condition_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Accepts a zeroed condition. */
void condition_done(struct condition *condition);

/* Makes it failing without a log line: the state before the first answer. */
void condition_assume_failing(struct condition *condition, const char *text);

/* Makes it failing because of err. Writes a log line when it was ok, or when the reason is another
 * one than those logged since it failed. */
void condition_fail(struct condition *condition, int64_t now_ms, const struct err *err);

/* Makes it ok. Writes a log line with the time it took if one was written when it failed. */
void condition_ok(struct condition *condition, int64_t now_ms);

/* Returns whether it is failing, and copies the reason then. err may be NULL. */
bool condition_read(struct condition *condition, struct err *err);

/* From now on condition_init() lists each condition for conditions_remind(), and condition_done()
 * removes it. Before any of them. */
void conditions_list(void);

/* Writes one line a minute for each dependency and each work that a listed condition waits for: how
 * long it has lasted, and the place and reason of the condition that has waited longest. Conditions
 * that have their first `key=value` pair in common share the line. Returns whether there is such a
 * condition, due or not. One thread. */
bool conditions_remind(int64_t now_ms);

/* Returns how long the listed condition has failed that began first, of those with this first pair,
 * as "dep=mysql"; 0 when none fails. A failure lasts 1 ms at least; an assumed one does not count.
 * Any thread. */
int64_t conditions_failing_ms(const char *pair, int64_t now_ms);

#endif
