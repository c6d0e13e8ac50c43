/* SPDX-License-Identifier: MIT */
/* Time zones by name: how far local time is ahead of UTC at any moment, from the system's time zone
 * files (RFC 9636). libc knows one zone per process, and a policy may name any. A zone may be read
 * by several threads. */
#ifndef OUTBOX_RETRY_POLICY_ZONE_H
#define OUTBOX_RETRY_POLICY_ZONE_H

#include "common/err.h"

#include <stddef.h>
#include <stdint.h>

#define ZONE_NAME_SIZE 64
#define ZONE_FILE_BYTES_MAX 262144

struct zone;

/* name: "UTC" (needs no file) or a path in folder: "Europe/Berlin". folder is ZONE_FOLDER except
 * in tests. RC_REJECT: there is no such zone, or its file cannot be read; err names it. RC_FATAL:
 * no memory. */
enum rc zone_open(struct zone **zone, const char *folder, const char *name, struct err *err);
void zone_close(struct zone *zone);

#define ZONE_FOLDER "/usr/share/zoneinfo"

/* Takes the bytes of a time zone file, as zone_open() does. RC_REJECT: it is none. */
enum rc zone_parse(struct zone **zone, const void *bytes, size_t len, struct err *err);

/* Seconds that local time is ahead of UTC at utc_s (seconds since 1970). */
int32_t zone_ahead_s(const struct zone *zone, int64_t utc_s);

/* Returns the first moment at which local clocks show local_s (seconds since 1970 as if UTC). A
 * local time that a change of the clocks skips is moved by the length of the change. */
int64_t zone_utc_s(const struct zone *zone, int64_t local_s);

#endif
