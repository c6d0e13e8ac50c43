/* SPDX-License-Identifier: MIT */
#include "common/metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#define BUCKET_FIRST_US 500 /* upper bound of the first bucket; each next one is twice as wide */

/* Guards metrics_first and every `next`. Values are atomic and need no lock. */
static pthread_mutex_t metrics_lock = PTHREAD_MUTEX_INITIALIZER;
static struct metric *metrics_first;

/* Invariant: metrics of one name follow one another, as the format demands. */
static void insert_metric(struct metric *metric)
{
    struct metric **at = &metrics_first;
    bool same_seen = false;

    for (; *at; at = &(*at)->next) {
        bool same = strcmp((*at)->name, metric->name) == 0;

        if (same_seen && !same)
            break;
        same_seen = same;
    }
    metric->next = *at;
    *at = metric;
}

static bool is_registered(const struct metric *metric)
{
    for (const struct metric *one = metrics_first; one; one = one->next)
        if (one == metric)
            return true;
    return false;
}

void metrics_register(struct metric *metric)
{
    assert(metric->name && metric->help);
    pthread_mutex_lock(&metrics_lock);
    if (!is_registered(metric))
        insert_metric(metric);
    pthread_mutex_unlock(&metrics_lock);
}

void metric_add(struct metric *metric, int64_t count)
{
    atomic_fetch_add_explicit(&metric->value, count, memory_order_relaxed);
}

void metric_set(struct metric *metric, int64_t value)
{
    atomic_store_explicit(&metric->value, value, memory_order_relaxed);
}

int64_t metric_value(const struct metric *metric)
{
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
}

void metric_observe_us(struct metric *metric, int64_t us)
{
    int64_t bound_us = BUCKET_FIRST_US;
    unsigned i = 0;

    while (i < METRIC_BUCKETS && us > bound_us) {
        bound_us *= 2;
        i++;
    }
    atomic_fetch_add_explicit(&metric->buckets[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&metric->value, us, memory_order_relaxed);
}

static const char *name_kind(enum metric_kind kind)
{
    switch (kind) {
    case METRIC_COUNTER:
        return "counter";
    case METRIC_GAUGE:
        return "gauge";
    case METRIC_SECONDS:
        return "histogram";
    }
    return "untyped";
}

static bool ends_with(const char *name, const char *end)
{
    size_t name_len = strlen(name);
    size_t end_len = strlen(end);

    return name_len >= end_len && strcmp(name + name_len - end_len, end) == 0;
}

static bool is_in_ms(const struct metric *metric)
{
    return ends_with(metric->name, "_seconds") || ends_with(metric->name, "_seconds_total");
}

/* value / scale with all its digits and without rounding: doubles would lose some. scale: a power
 * of ten. */
static void put_decimal(struct buf *out, int64_t value, int64_t scale)
{
    uint64_t size = value < 0 ? (uint64_t)0 - (uint64_t)value : (uint64_t)value;
    uint64_t rest = size % (uint64_t)scale;

    if (value < 0)
        buf_char(out, '-');
    buf_u64(out, size / (uint64_t)scale);
    if (rest == 0)
        return;
    buf_char(out, '.');
    for (uint64_t unit = (uint64_t)scale / 10; rest > 0; unit /= 10) {
        buf_u64(out, rest / unit);
        rest %= unit;
    }
}

static void put_name(struct buf *out, const struct metric *metric, const char *end)
{
    buf_print(out, "%s%s", metric->name, end);
    if (metric->labels)
        buf_print(out, "{%s}", metric->labels);
    buf_char(out, ' ');
}

static void put_bucket(struct buf *out, const struct metric *metric, int64_t bound_us,
                       uint64_t count)
{
    buf_print(out, "%s_bucket{%s%sle=\"", metric->name, metric->labels ? metric->labels : "",
              metric->labels ? "," : "");
    if (bound_us > 0)
        put_decimal(out, bound_us, 1000000);
    else
        buf_text_put(out, "+Inf");
    buf_print(out, "\"} %" PRIu64 "\n", count);
}

/* The count is made of the buckets read here, so that it always equals the last of them while
 * others go on observing. */
static void put_histogram(struct buf *out, const struct metric *metric)
{
    int64_t bound_us = BUCKET_FIRST_US;
    uint64_t count = 0;

    for (unsigned i = 0; i <= METRIC_BUCKETS; i++) {
        count += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
        put_bucket(out, metric, i < METRIC_BUCKETS ? bound_us : 0, count);
        bound_us *= 2;
    }
    put_name(out, metric, "_sum");
    put_decimal(out, metric_value(metric), 1000000);
    buf_char(out, '\n');
    put_name(out, metric, "_count");
    buf_print(out, "%" PRIu64 "\n", count);
}

static void put_help(struct buf *out, const char *help)
{
    for (; *help; help++) {
        if (*help == '\n')
            buf_text_put(out, "\\n");
        else if (*help == '\\')
            buf_text_put(out, "\\\\");
        else
            buf_char(out, *help);
    }
}

static void put_metric(struct buf *out, const struct metric *metric)
{
    if (metric->kind == METRIC_SECONDS) {
        put_histogram(out, metric);
        return;
    }
    put_name(out, metric, "");
    put_decimal(out, metric_value(metric), is_in_ms(metric) ? 1000 : 1);
    buf_char(out, '\n');
}

void metrics_render(struct buf *out)
{
    const char *name = "";

    pthread_mutex_lock(&metrics_lock);
    for (const struct metric *metric = metrics_first; metric; metric = metric->next) {
        if (strcmp(metric->name, name) != 0) {
            buf_print(out, "# HELP %s ", metric->name);
            put_help(out, metric->help);
            buf_print(out, "\n# TYPE %s %s\n", metric->name, name_kind(metric->kind));
        }
        put_metric(out, metric);
        name = metric->name;
    }
    pthread_mutex_unlock(&metrics_lock);
}

void metrics_render_table(struct buf *out)
{
    const char *name = "";

    buf_text_put(out, "| metric | kind | what |\n| --- | --- | --- |\n");
    pthread_mutex_lock(&metrics_lock);
    for (const struct metric *metric = metrics_first; metric; metric = metric->next) {
        if (strcmp(metric->name, name) != 0)
            buf_print(out, "| `%s` | %s | %s |\n", metric->name, name_kind(metric->kind),
                      metric->help);
        name = metric->name;
    }
    pthread_mutex_unlock(&metrics_lock);
}
