/* SPDX-License-Identifier: MIT */
/* `tallybox openapi`: the OpenAPI document of the HTTP API, made from the table of routes, the
 * codes of faults and the schemas of this module. Main thread. */
#ifndef PRODUCER_HTTP_OPENAPI_COMMAND_H
#define PRODUCER_HTTP_OPENAPI_COMMAND_H

#include "common/buf.h"

/* Appends the document, OpenAPI 3.1 as YAML; it is the content of docs/openapi.yaml. */
void openapi_put(struct buf *out);

/* Returns an enum exit_code. */
int openapi_command(int argc, char **argv);

#endif
