/* SPDX-License-Identifier: MIT */
/* The configuration of a connector of Kafka Connect, as its REST interface takes and shows it:
 * {"name": ..., "config": {...}}, or the inner object alone. Pure; any thread. */
#ifndef OUTBOX_ADOPT_CONNECTOR_H
#define OUTBOX_ADOPT_CONNECTOR_H

#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

struct json_t;

/* A zeroed one is ready for use. */
struct connector {
    struct json_t *options; /* an object of texts */
    const char *name;       /* borrowed from options; "": not known */
    bool mariadb;           /* else for MySQL */
};

/* RC_REJECT: no configuration of Debezium's connector for MySQL or MariaDB; err says what was
 * expected. RC_FATAL: no memory. No value of an option is in err, since it may be a secret. */
enum rc connector_parse(struct connector *connector, const char *text, size_t len, struct err *err);

/* Accepts a zeroed one. */
void connector_done(struct connector *connector);

/* The value without blanks around it; NULL: not set. Borrowed until connector_done(). */
const char *connector_option(const struct connector *connector, const char *option);

/* The value, or `standard` where the option is not set or empty. */
const char *connector_option_or(const struct connector *connector, const char *option,
                                const char *standard);

#endif
