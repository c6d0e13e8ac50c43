/* SPDX-License-Identifier: MIT */
/* What a check of `tallybox verify` found. Pure; one thread at a time. */
#ifndef CONSUMER_VERIFY_VERIFY_ROW_H
#define CONSUMER_VERIFY_VERIFY_ROW_H

#include <stddef.h>
#include <stdint.h>

#define VERIFY_OFFENDERS_MAX 5
#define VERIFY_PLACE_SIZE 160

struct verify_result {
    const char *name;  /* static, a word for scripts: "sequence_whole" */
    const char *holds; /* static, the sentence that is true when nothing is found */
    uint64_t rows;     /* looked at */
    uint64_t violations;
    size_t offender_count;
    char offenders[VERIFY_OFFENDERS_MAX][VERIFY_PLACE_SIZE];
};

/* Counts one violation and keeps its place while there is room. */
void verify_found(struct verify_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* What one side says of a content: its total, or the fingerprint of who votes for it. */
struct verify_total {
    int64_t content_id;
    int64_t value;
};

#endif
