/* SPDX-License-Identifier: MIT */
/* Waits after failures: exponential with full jitter and a cap (M. Brooker, "Exponential Backoff
 * And Jitter", AWS Architecture Blog, 2015), and a circuit breaker that lets single probes through
 * while failures last. Pure; one thread at a time. */
#ifndef COMMON_BACKOFF_H
#define COMMON_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff {
    int64_t base_ms; /* > 0: the longest first wait */
    int64_t cap_ms;  /* >= base_ms: the longest wait of all */
    unsigned tries;  /* failures in a row */
};

/* The next wait, 1..cap_ms: uniform below min(cap, base * 2^tries), chosen by random_bits. */
int64_t backoff_next_ms(struct backoff *backoff, uint64_t random_bits);
void backoff_reset(struct backoff *backoff);

/* Closed: everything passes. After a failure it is open until a time, then half open: one probe
 * passes, and its outcome closes it or opens it again for longer. */
struct breaker {
    struct backoff backoff;
    int64_t open_until_ms;
    bool open;
    bool probing;
};

/* May a call be made now? In the half-open state the first true is the probe. */
bool breaker_allows(struct breaker *breaker, int64_t now_ms);

/* The time until a call may be made: 0 for now. While a probe is pending the returned time is only
 * a hint. Takes no probe. */
int64_t breaker_wait_ms(const struct breaker *breaker, int64_t now_ms);

/* Reports the outcome of a call. Failures of calls made before the breaker opened change nothing
 * while it is open. breaker_failed() is true if this opened a closed breaker, and breaker_worked()
 * is true if this closed an open one, so that the caller logs each once. */
bool breaker_failed(struct breaker *breaker, int64_t now_ms, uint64_t random_bits);
bool breaker_worked(struct breaker *breaker);

#endif
