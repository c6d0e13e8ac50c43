/* SPDX-License-Identifier: MIT */
/* Converts results and errors to those of the public headers. Pure; any thread. */
#ifndef OUTBOX_CLIENT_RESULT_H
#define OUTBOX_CLIENT_RESULT_H

#include "common/err.h"

#include <tallybox/error.h>

/* Returns rc as the caller of the library knows it, and copies err unless rc is RC_OK. error may be
 * NULL. */
enum tallybox_result result_give(enum rc rc, const struct err *err, struct tallybox_error *error);

#endif
