/* SPDX-License-Identifier: MIT */
/* `tallybox consume --restart-partition TOPIC/PARTITION@earliest|latest|OFFSET`: an operator
 * decides where consuming continues after a partition stopped, because its records are not those
 * that were read before. Main thread. */
#ifndef CONSUMER_RESTART_COMMAND_H
#define CONSUMER_RESTART_COMMAND_H

#include "common/err.h"
#include "consumer/apply/apply_row.h"

#include <stdbool.h>
#include <stdint.h>

#define RESTART_OPTION "restart-partition"

/* The argument of the option. */
struct restart_request {
    char topic[TOPIC_SIZE];
    struct place place; /* points to topic above: do not copy the struct */
    bool earliest;
    bool latest;
    int64_t offset; /* below 2^63-1; used if neither flag is set */
};

/* Parses text; pure. RC_FATAL: err shows the text and what is expected. */
enum rc restart_request_read(struct restart_request *request, const char *text, struct err *err);

/* Whether the option is among the arguments. */
bool restart_asked(int argc, char **argv);

/* Sets the partition's offset in consumer_progress and fences its owner, which may keep running:
 * its next batch is refused, and it claims the partition again at the new offset. Returns an enum
 * exit_code. */
int restart_command(int argc, char **argv);

#endif
