/* SPDX-License-Identifier: MIT */
/* What each option of a Debezium connector and of its outbox event router means for a lane that
 * takes its place: a table, as of Debezium 3.4 and Kafka 4.1. Pure; any thread. */
#ifndef OUTBOX_ADOPT_ROUTER_RULES_H
#define OUTBOX_ADOPT_ROUTER_RULES_H

#include <stdbool.h>

enum router_rule_effect {
    ROUTER_RULE_EQUAL,      /* it changes no record, or the map has its equal */
    ROUTER_RULE_NOTE,       /* it changes no record of the table, but is to be known */
    ROUTER_RULE_DIFFERENCE, /* records would differ */
};

struct router_rule {
    const char *option; /* "x.*" is every option that begins with "x." */
    enum router_rule_effect effect;
    const char *fine; /* values without an effect, separated by commas; NULL: none */
    const char *text;
};

/* of_router: the option of the event router, behind transforms.NAME. Returns NULL for one that is
 * not known. */
const struct router_rule *router_rule_find(const char *option, bool of_router);

/* Whether the value may be printed. One of a rule for several options, as signal.*, may be a
 * password. */
bool router_rule_shows_value(const struct router_rule *rule);

#define ROUTER_RULE_MASKS "column.mask.*"

/* The name under which the option may be printed, which lives as long as `option`: the name of a
 * mask, as column.mask.hash.SHA-256.with.salt.SALT, has a secret itself. */
const char *router_rule_shown_name(const struct router_rule *rule, const char *option);

#endif
