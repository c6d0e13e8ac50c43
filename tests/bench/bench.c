/* SPDX-License-Identifier: MIT */
#include "tests/bench/bench.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define ZIPF_S 1.1

static int64_t started_us;
static int64_t started_cpu_us;

void bench_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

const char *bench_text(int argc, char **argv, const char *name, const char *standard)
{
    for (int i = 1; i + 1 < argc; i += 2)
        if (strncmp(argv[i], "--", 2) == 0 && strcmp(argv[i] + 2, name) == 0)
            return argv[i + 1];
    if (!standard)
        bench_fail("%s: --%s is needed", argv[0], name);
    return standard;
}

long long bench_number(int argc, char **argv, const char *name, long long standard)
{
    const char *text = bench_text(argc, argv, name, "");
    char *end;
    long long value = strtoll(text, &end, 10);

    if (!*text)
        return standard;
    if (*end)
        bench_fail("%s: --%s %s is not a number", argv[0], name, text);
    return value;
}

int64_t bench_now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void bench_sleep_until(int64_t at_us)
{
    int64_t left_us = at_us - bench_now_us();
    struct timespec pause = {.tv_sec = left_us / 1000000, .tv_nsec = left_us % 1000000 * 1000};

    if (left_us > 0)
        nanosleep(&pause, NULL);
}

static int64_t cpu_us(struct rusage *use)
{
    getrusage(RUSAGE_SELF, use);
    return ((int64_t)use->ru_utime.tv_sec + use->ru_stime.tv_sec) * 1000000 +
           use->ru_utime.tv_usec + use->ru_stime.tv_usec;
}

void bench_start(void)
{
    struct rusage use;

    started_us = bench_now_us();
    started_cpu_us = cpu_us(&use);
}

void bench_print(long long rows)
{
    struct rusage use;
    int64_t cpu = cpu_us(&use) - started_cpu_us;
    double seconds = (double)(bench_now_us() - started_us) / 1e6;

    if (rows < 1)
        bench_fail("no row was handled: nothing was measured");
    printf("{\"rows\":%lld,\"seconds\":%.6f,\"rows_per_s\":%.1f,\"cpu_us_per_row\":%.3f,"
           "\"rss_mib\":%.1f}\n",
           rows, seconds, (double)rows / seconds, (double)cpu / (double)rows,
           (double)use.ru_maxrss / 1024);
}

/* splitmix64: S. Vigna, public domain description at prng.di.unimi.it. */
uint64_t bench_rng_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

struct bench_contents {
    long long count;
    double *sums; /* of all likelihoods up to each content; NULL: all are alike */
};

struct bench_contents *bench_contents_open(const char *kind, long long count)
{
    struct bench_contents *contents = calloc(1, sizeof(*contents));
    double sum = 0;

    if (!contents || count < 1)
        bench_fail("no memory, or no contents");
    contents->count = count;
    if (strcmp(kind, "uniform") == 0)
        return contents;
    if (strcmp(kind, "zipf") != 0)
        bench_fail("contents are drawn uniform or zipf, not \"%s\"", kind);
    contents->sums = calloc((size_t)count, sizeof(*contents->sums));
    if (!contents->sums)
        bench_fail("no memory for %lld contents", count);
    for (long long i = 0; i < count; i++)
        contents->sums[i] = sum += pow((double)(i + 1), -ZIPF_S);
    return contents;
}

long long bench_content(const struct bench_contents *contents, uint64_t random_bits)
{
    double at;
    long long low = 0;
    long long high = contents->count - 1;

    if (!contents->sums)
        return 1 + (long long)(random_bits % (uint64_t)contents->count);
    at = (double)(random_bits >> 11) / 9007199254740992.0 * contents->sums[high];
    while (low < high) {
        long long middle = low + (high - low) / 2;

        if (contents->sums[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return 1 + low;
}

void bench_contents_close(struct bench_contents *contents)
{
    free(contents->sums);
    free(contents);
}
