/* SPDX-License-Identifier: MIT */
/* The addresses of Kafka Connect's REST interface, and what it says about the state of a connector.
 * Pure; any thread. */
#ifndef OUTBOX_ADOPT_CONNECT_STATE_H
#define OUTBOX_ADOPT_CONNECT_STATE_H

#include "common/buf.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

/* Whether a text is an address, http:// or https:// in any case, and not the path of a file. */
bool connect_url_is(const char *text);

/* RC_REJECT: the URL has a name and a password, which error texts would show. */
enum rc connect_url_check(const char *url, struct err *err);

/* Appends the URL of the connector: the address itself without '/' and "/offsets" at its end. */
void connect_url_put(struct buf *out, const char *url);

/* Reads the answer to GET url/status. RC_REJECT: the connector is not stopped, and err says how to
 * stop it; or the answer has no state. RC_RETRY: it is stopped, but tasks of it have not ended:
 * they may still publish records and commit offsets. */
enum rc connect_state_check(const char *url, const char *text, size_t len, struct err *err);

#endif
