/* SPDX-License-Identifier: MIT */
/* The REST interface of Kafka Connect: what a connector is, whether it is stopped, its offsets.
 * Main thread of a command. */
#ifndef OUTBOX_ADOPT_CONNECT_HTTP_H
#define OUTBOX_ADOPT_CONNECT_HTTP_H

#include "common/buf.h"
#include "common/err.h"

/* Appends the answer to GET url + path. url: http://HOST:PORT/connectors/NAME, with or without '/'
 * at its end. RC_REJECT: the answer is an error, or the URL has a password. RC_RETRY: no answer. */
enum rc connect_http_get(const char *url, const char *path, struct buf *answer, struct err *err);

/* Reads whether the connector is stopped, and waits at most 30 s for the end of its tasks.
 * RC_REJECT: it is not, and err says how to stop it. RC_RETRY: no answer, or tasks still run. */
enum rc connect_http_check_stopped(const char *url, struct err *err);

/* Sends the body of PATCH url/offsets. RC_REJECT: Connect refuses it. RC_RETRY: it is unknown
 * whether it is done; repeating it is harmless. */
enum rc connect_http_patch_offsets(const char *url, const char *body, struct err *err);

#endif
