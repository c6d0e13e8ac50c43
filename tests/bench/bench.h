/* SPDX-License-Identifier: MIT */
/* The parts that the bench's small programs share: command line, clocks, random numbers, and the
 * JSON line that each prints at its end. Main thread. */
#ifndef TESTS_BENCH_BENCH_H
#define TESTS_BENCH_BENCH_H

#include <stdint.h>

/* Ends the program with a sentence and exit code 1. */
void bench_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The value behind --name, or standard; NULL as standard makes it needed. */
const char *bench_text(int argc, char **argv, const char *name, const char *standard);
long long bench_number(int argc, char **argv, const char *name, long long standard);

int64_t bench_now_us(void);

/* Returns at once when that time is over. */
void bench_sleep_until(int64_t at_us);

/* Starts the clocks; bench_print() prints the time since then, for so many rows. */
void bench_start(void);
void bench_print(long long rows);

/* The same numbers for the same seed. */
uint64_t bench_rng_next(uint64_t *state);

/* Contents 1..contents, each as likely, or by Zipf's law with s = 1.1: the n-th is 1/n^1.1 as
 * likely as the first. */
struct bench_contents;
struct bench_contents *bench_contents_open(const char *kind, long long contents);
long long bench_content(const struct bench_contents *contents, uint64_t random_bits);
void bench_contents_close(struct bench_contents *contents);

#endif
