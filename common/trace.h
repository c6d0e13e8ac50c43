/* SPDX-License-Identifier: MIT */
/* The header `traceparent` of W3C Trace Context, which connects the calls of one trace over several
 * services. This program records no spans: it passes on the header that it got, or makes one. Pure;
 * any thread. */
#ifndef COMMON_TRACE_H
#define COMMON_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#define TRACE_HEADER "traceparent"
#define TRACE_SIZE 56 /* "00-<32 digits>-<16 digits>-<2 digits>" with the zero byte */

/* Reads a header of any version as version 00 and writes it to parent. False: the text is NULL or
 * no valid traceparent; parent is "" then. */
bool trace_read(const char *text, char parent[TRACE_SIZE]);

/* Makes a traceparent with the flag `sampled`: a receiver that samples by its parent would drop any
 * other one. The trace depends on `trace` alone, the span on both. */
void trace_make(char parent[TRACE_SIZE], uint64_t trace, uint64_t span);

#endif
