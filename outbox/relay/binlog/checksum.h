/* SPDX-License-Identifier: MIT */
/* The checksum of events. A tenth of the work of reading a log went into zlib's crc32_z(), which
 * uses no instructions for it. Pure. Any thread. */
#ifndef OUTBOX_RELAY_BINLOG_CHECKSUM_H
#define OUTBOX_RELAY_BINLOG_CHECKSUM_H

#include <stddef.h>
#include <stdint.h>

/* Returns what crc32_z() of zlib returns: continues sum, 0 at first, with len bytes. */
uint32_t binlog_checksum(uint32_t sum, const uint8_t *bytes, size_t len);

#endif
