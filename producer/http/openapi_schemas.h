/* SPDX-License-Identifier: MIT */
/* The schemas of bodies and answers of the HTTP API, as parts of the YAML document that
 * openapi_command.h prints. The files *_json.c read and write what they describe;
 * tests/e2e/test_openapi.py compares the two on a running server. Pure; any thread. */
#ifndef PRODUCER_HTTP_OPENAPI_SCHEMAS_H
#define PRODUCER_HTTP_OPENAPI_SCHEMAS_H

#include "common/buf.h"

#define ID_TEXT "type: integer, format: int64, minimum: 1, maximum: 9223372036854775807"
#define NAME_TEXT(size) \
    "{type: string, minLength: 1, maxLength: " size ", pattern: \"^[A-Za-z0-9_.:-]+$\"}"

/* Append the schemas under components, schemas: Id and Error, which names ErrorCode; then those of
 * votes, remarks, tasks, dead records and clients. */
void openapi_schemas_put_base(struct buf *out);
void openapi_schemas_put(struct buf *out);

#endif
