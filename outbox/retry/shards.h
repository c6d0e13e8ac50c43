/* SPDX-License-Identifier: MIT */
/* The setting retry.shards: "auto", or which shards this process works on, "0-7,12". Pure. */
#ifndef OUTBOX_RETRY_SHARDS_H
#define OUTBOX_RETRY_SHARDS_H

#include "common/err.h"

#define SHARDS_AUTO "auto"

/* A bit for each shard of a list. RC_FATAL: text is no list. */
enum rc shards_parse(unsigned *bits, const char *text, struct err *err);

#endif
