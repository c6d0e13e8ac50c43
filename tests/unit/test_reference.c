/* SPDX-License-Identifier: MIT */
/* The generated tables of docs/ and RETRY.md are equal to the program's own tables.
 * scripts/reference regenerates them. */
#include "common/buf.h"
#include "common/config/config_command.h"
#include "common/daemon/admin.h"
#include "common/daemon/reference_command.h"
#include "common/metrics.h"
#include "consumer/consume_command.h"
#include "consumer/maintenance/housekeep_command.h"
#include "consumer/rollup/rollup_command.h"
#include "outbox/relay/relay_command.h"
#include "outbox/retry/cli/retry_tables.h"
#include "outbox/retry/retry_command.h"
#include "producer/http/openapi_command.h"
#include "producer/serve_command.h"
#include "schema/migrate/grants.h"

/* cmocka wants these three before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_page(const char *path, struct buf *readme)
{
    FILE *file = fopen(path, "r");
    char chunk[4096];
    size_t n;

    assert_non_null(file);
    while ((n = fread(chunk, 1, sizeof(chunk), file)) > 0)
        buf_put(readme, chunk, n);
    fclose(file);
}

static void assert_block_of(const char *path, const char *begin, const char *end, struct buf *table)
{
    struct buf readme = {0};
    const char *from;
    const char *to;

    read_page(path, &readme);
    from = strstr(buf_text(&readme), begin);
    assert_non_null(from);
    from = strchr(from, '\n') + 1;
    to = strstr(from, end);
    assert_non_null(to);
    assert_int_equal(to - from, table->len);
    assert_memory_equal(from, table->data, table->len);
    buf_done(&readme);
    buf_done(table);
}

static void settings_table_is_the_one_of_the_program(void **state)
{
    struct buf table = {0};

    (void)state;
    config_print_table(&table);
    assert_block_of("docs/settings.md", "<!-- settings:", "<!-- /settings", &table);
}

static void metrics_table_is_the_one_of_the_program(void **state)
{
    static const struct role *const roles[] = {&serve_role,   &relay_role,  &retry_role,
                                               &consume_role, &rollup_role, &housekeep_role};
    struct buf table = {0};

    (void)state;
    /* In the order of main.c. */
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        roles[i]->register_metrics();
    admin_metrics_register();
    metrics_render_table(&table);
    assert_block_of("docs/metrics.md", "<!-- metrics:", "<!-- /metrics", &table);
}

static void events_table_is_the_one_of_the_program(void **state)
{
    struct buf table = {0};

    (void)state;
    events_put_table(&table);
    assert_block_of("OPERATIONS.md", "<!-- events:", "<!-- /events", &table);
}

static void grants_are_those_the_program_prints(void **state)
{
    static struct settings settings = {
        .mysql = {.host = "127.0.0.1", .port = 3306, .database = "tallybox"},
        .sink = {.host = "127.0.0.1", .port = 3306, .database = "tallybox"},
        .api = {.lane_count = 1},
        .lanes = {{.name = "outbox", .table = "outbox"}},
        .lane_count = 1,
    };
    struct buf block = {0};

    (void)state;
    buf_text_put(&block, "```sql\n");
    grants_put(&block, &settings, false);
    buf_text_put(&block, "```\n");
    assert_block_of("docs/grants.md", "<!-- grants:", "<!-- /grants", &block);
}

static void tables_of_the_retry_queue_are_those_of_the_program(void **state)
{
    struct buf table = {0};

    (void)state;
    retry_tables_put_fields(&table);
    assert_block_of("RETRY.md", "<!-- fields:", "<!-- /fields", &table);
    table = (struct buf){0};
    retry_tables_put_waits(&table);
    assert_block_of("RETRY.md", "<!-- waits:", "<!-- /waits", &table);
    table = (struct buf){0};
    retry_tables_put_presets(&table);
    assert_block_of("RETRY.md", "<!-- presets:", "<!-- /presets", &table);
}

static void the_description_of_the_api_is_the_one_of_the_program(void **state)
{
    struct buf page = {0};
    struct buf made = {0};

    (void)state;
    read_page("docs/openapi.yaml", &page);
    openapi_put(&made);
    assert_string_equal(buf_text(&page), buf_text(&made));
    buf_done(&page);
    buf_done(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_table_is_the_one_of_the_program),
        cmocka_unit_test(metrics_table_is_the_one_of_the_program),
        cmocka_unit_test(events_table_is_the_one_of_the_program),
        cmocka_unit_test(grants_are_those_the_program_prints),
        cmocka_unit_test(tables_of_the_retry_queue_are_those_of_the_program),
        cmocka_unit_test(the_description_of_the_api_is_the_one_of_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
