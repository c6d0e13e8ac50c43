/* SPDX-License-Identifier: MIT */
#include "common/daemon/metrics_command.h"

#include "common/daemon/admin.h"
#include "common/metrics.h"
#include "common/options.h"

#include <stdio.h>

int metrics_command(const struct role *const *roles, size_t count, int argc, char **argv)
{
    bool table = false;
    const struct option_entry entries[] = {
        {"table", OPTION_FLAG, &table, NULL, "print a Markdown table"},
    };
    const struct option_parse parse = {
        .command = "tallybox metrics",
        .arguments = "",
        .about = "Prints every metric there is, as /metrics of a role that has done nothing yet.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
    };
    struct options options;
    struct buf out = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    for (size_t i = 0; i < count; i++)
        roles[i]->register_metrics();
    admin_metrics_register();
    if (table)
        metrics_render_table(&out);
    else
        metrics_render(&out);
    return options_print(&out);
}
