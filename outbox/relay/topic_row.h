/* SPDX-License-Identifier: MIT */
/* Which texts Kafka takes as the name of a topic. Pure; any thread. */
#ifndef OUTBOX_RELAY_TOPIC_ROW_H
#define OUTBOX_RELAY_TOPIC_ROW_H

#include <stdbool.h>

#define TOPIC_NAME_SIZE 250 /* Kafka's limit is 249 */

bool topic_name_is(const char *name);

#endif
