/* SPDX-License-Identifier: MIT */
/* What `consume --restart-partition TOPIC/PARTITION@WHERE` asks for. Pure; any thread. */
#ifndef CONSUMER_RESTART_REQUEST_H
#define CONSUMER_RESTART_REQUEST_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stdint.h>

#define RESTART_OPTION "restart-partition"

struct restart_request {
    char topic[TOPIC_SIZE];
    struct place place; /* its topic is the one above: not to be copied */
    bool earliest;
    bool latest;
    int64_t offset; /* below 2^63-1; where neither of the two is set */
};

/* RC_FATAL: err shows what was given and what is expected. */
enum rc restart_request_read(struct restart_request *request, const char *text, struct err *err);

#endif
