/* SPDX-License-Identifier: MIT */
#include "common/metrics.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* The list is the process' own and only grows: every test has its own names. */
static void page_has(const char *text)
{
    struct buf out = {0};

    metrics_render(&out);
    if (!strstr(buf_text(&out), text))
        fail_msg("expected:\n%s\nin:\n%s", text, buf_text(&out));
    buf_done(&out);
}

static void a_counter_has_help_type_and_value(void **state)
{
    static struct metric rows = {.name = "t_rows_total", .kind = METRIC_COUNTER, .help = "Rows."};

    (void)state;
    metrics_register(&rows);
    metric_add(&rows, 3);
    metric_add(&rows, 4);
    assert_int_equal(metric_value(&rows), 7);
    page_has("# HELP t_rows_total Rows.\n# TYPE t_rows_total counter\nt_rows_total 7\n");
}

static void a_gauge_can_be_negative(void **state)
{
    static struct metric gauge = {.name = "t_level", .kind = METRIC_GAUGE, .help = "Level."};

    (void)state;
    metrics_register(&gauge);
    metric_set(&gauge, INT64_MIN);
    page_has("# TYPE t_level gauge\nt_level -9223372036854775808\n");
    metric_set(&gauge, -5);
    page_has("\nt_level -5\n");
}

static void milliseconds_become_seconds_without_rounding(void **state)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {0, "\nt_age_seconds 0\n"},
        {1, "\nt_age_seconds 0.001\n"},
        {50, "\nt_age_seconds 0.05\n"},
        {1000, "\nt_age_seconds 1\n"},
        {61500, "\nt_age_seconds 61.5\n"},
        {-250, "\nt_age_seconds -0.25\n"},
        {1700000000123, "\nt_age_seconds 1700000000.123\n"},
    };
    static struct metric age = {.name = "t_age_seconds", .kind = METRIC_GAUGE, .help = "Age."};
    static struct metric cpu = {
        .name = "t_cpu_seconds_total", .kind = METRIC_COUNTER, .help = "CPU."};

    (void)state;
    metrics_register(&age);
    metrics_register(&cpu);
    metric_add(&cpu, 1500);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        metric_set(&age, cases[i].ms);
        page_has(cases[i].text);
    }
    page_has("\nt_cpu_seconds_total 1.5\n");
}

static void metrics_of_one_name_stand_together(void **state)
{
    static struct metric a = {
        .name = "t_lane_rows", .kind = METRIC_GAUGE, .help = "Rows.", .labels = "lane=\"a\""};
    static struct metric other = {.name = "t_other", .kind = METRIC_GAUGE, .help = "Other."};
    static struct metric b = {
        .name = "t_lane_rows", .kind = METRIC_GAUGE, .help = "Rows.", .labels = "lane=\"b\""};

    (void)state;
    metrics_register(&a);
    metrics_register(&other);
    metrics_register(&b);
    metric_set(&b, 2);
    page_has("# TYPE t_lane_rows gauge\nt_lane_rows{lane=\"a\"} 0\nt_lane_rows{lane=\"b\"} 2\n# ");
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (; (text = strstr(text, part)); text++)
        count++;
    return count;
}

static void registering_twice_does_nothing(void **state)
{
    static struct metric once = {.name = "t_once", .kind = METRIC_GAUGE, .help = "Once."};
    static struct metric after = {.name = "t_after", .kind = METRIC_GAUGE, .help = "After."};
    struct buf out = {0};

    (void)state;
    metrics_register(&once);
    metrics_register(&after);
    metrics_register(&once);
    metrics_render(&out);
    assert_int_equal(count_of(buf_text(&out), "\nt_once "), 1);
    buf_done(&out);
}

static void a_histogram_counts_up_to_infinity(void **state)
{
    static struct metric wait = {.name = "t_wait_seconds", .kind = METRIC_SECONDS, .help = "Wait."};

    (void)state;
    metrics_register(&wait);
    metric_observe_us(&wait, 0);
    metric_observe_us(&wait, 500);
    metric_observe_us(&wait, 501);
    metric_observe_us(&wait, 16384000);
    metric_observe_us(&wait, 16384001);
    page_has("# TYPE t_wait_seconds histogram\n"
             "t_wait_seconds_bucket{le=\"0.0005\"} 2\n"
             "t_wait_seconds_bucket{le=\"0.001\"} 3\n");
    page_has("t_wait_seconds_bucket{le=\"8.192\"} 3\n"
             "t_wait_seconds_bucket{le=\"16.384\"} 4\n"
             "t_wait_seconds_bucket{le=\"+Inf\"} 5\n"
             "t_wait_seconds_sum 32.769002\n"
             "t_wait_seconds_count 5\n");
}

static void a_histogram_keeps_its_labels(void **state)
{
    static struct metric wait = {.name = "t_step_seconds",
                                 .kind = METRIC_SECONDS,
                                 .help = "Step.",
                                 .labels = "step=\"read\""};

    (void)state;
    metrics_register(&wait);
    page_has("t_step_seconds_bucket{step=\"read\",le=\"0.0005\"} 0\n");
    page_has("t_step_seconds_sum{step=\"read\"} 0\nt_step_seconds_count{step=\"read\"} 0\n");
}

static void help_stays_on_its_line(void **state)
{
    static struct metric odd = {
        .name = "t_odd", .kind = METRIC_GAUGE, .help = "Two\nlines and a \\."};

    (void)state;
    metrics_register(&odd);
    page_has("# HELP t_odd Two\\nlines and a \\\\.\n");
}

static void the_table_has_one_row_per_name(void **state)
{
    static struct metric a = {
        .name = "t_row_total", .kind = METRIC_COUNTER, .help = "Rows.", .labels = "x=\"a\""};
    static struct metric b = {
        .name = "t_row_total", .kind = METRIC_COUNTER, .help = "Rows.", .labels = "x=\"b\""};
    struct buf out = {0};

    (void)state;
    metrics_register(&a);
    metrics_register(&b);
    metrics_render_table(&out);
    assert_int_equal(count_of(buf_text(&out), "| `t_row_total` | counter | Rows. |\n"), 1);
    assert_ptr_equal(strstr(buf_text(&out), "| metric | kind | what |\n| --- |"), out.data);
    buf_done(&out);
}

#define WRITERS 4
#define OBSERVATIONS 5000

static struct metric shared_count = {
    .name = "t_shared_total", .kind = METRIC_COUNTER, .help = "Shared."};
static struct metric shared_wait = {
    .name = "t_shared_seconds", .kind = METRIC_SECONDS, .help = "Shared."};
static struct metric late[WRITERS];

static void *write_metrics(void *arg)
{
    struct metric *mine = arg;

    metrics_register(mine);
    for (int i = 0; i < OBSERVATIONS; i++) {
        metric_add(&shared_count, 1);
        metric_observe_us(&shared_wait, i);
        metric_set(mine, i);
    }
    return NULL;
}

static void many_threads_may_write_while_one_reads(void **state)
{
    pthread_t threads[WRITERS];
    struct buf out = {0};

    (void)state;
    metrics_register(&shared_count);
    metrics_register(&shared_wait);
    for (int i = 0; i < WRITERS; i++) {
        late[i] = (struct metric){.name = "t_late", .kind = METRIC_GAUGE, .help = "Late."};
        assert_int_equal(pthread_create(&threads[i], NULL, write_metrics, &late[i]), 0);
    }
    for (int i = 0; i < 20; i++) {
        buf_reset(&out);
        metrics_render(&out);
        assert_false(out.failed);
    }
    for (int i = 0; i < WRITERS; i++)
        pthread_join(threads[i], NULL);
    page_has("\nt_shared_total 20000\n");
    page_has("\nt_shared_seconds_count 20000\n");
    buf_done(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_counter_has_help_type_and_value),
        cmocka_unit_test(a_gauge_can_be_negative),
        cmocka_unit_test(milliseconds_become_seconds_without_rounding),
        cmocka_unit_test(metrics_of_one_name_stand_together),
        cmocka_unit_test(registering_twice_does_nothing),
        cmocka_unit_test(a_histogram_counts_up_to_infinity),
        cmocka_unit_test(a_histogram_keeps_its_labels),
        cmocka_unit_test(help_stays_on_its_line),
        cmocka_unit_test(the_table_has_one_row_per_name),
        cmocka_unit_test(many_threads_may_write_while_one_reads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
