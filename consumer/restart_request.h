/* SPDX-License-Identifier: MIT */
/* The argument of `consume --restart-partition TOPIC/PARTITION@WHERE`. Pure; any thread. */
#ifndef CONSUMER_RESTART_REQUEST_H
#define CONSUMER_RESTART_REQUEST_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stdint.h>

#define RESTART_OPTION "restart-partition"

struct restart_request {
    char topic[TOPIC_SIZE];
    struct place place; /* points to topic above: do not copy the struct */
    bool earliest;
    bool latest;
    int64_t offset; /* below 2^63-1; used if neither flag is set */
};

/* Parses text. RC_FATAL: err shows the text and what is expected. */
enum rc restart_request_read(struct restart_request *request, const char *text, struct err *err);

#endif
