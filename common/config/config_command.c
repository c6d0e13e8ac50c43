/* SPDX-License-Identifier: MIT */
#include "common/config/config_command.h"

#include "common/config/config.h"
#include "common/kafka/kafka.h"
#include "common/options.h"

#include <stdio.h>

static int print_effective(const struct options *options, bool json)
{
    struct config *config;
    struct buf out = {0};
    struct err err = {0};
    int code = options_load(options, &config);

    if (code >= 0)
        return code;
    if (json)
        config_print_json(config, &out);
    else
        config_print(config, &out);
    code = options_print(&out);
    /* Shown first: the mistake is easier to find with the sources beside the values. */
    if (kafka_conf_check(config_settings(config), &err) != RC_OK) {
        options_fail(RC_FATAL, &err);
        code = EXIT_USAGE;
    }
    config_free(config);
    return code;
}

int config_command(int argc, char **argv)
{
    bool defaults = false;
    bool table = false;
    bool json = false;
    const struct option_entry entries[] = {
        {"defaults", OPTION_FLAG, &defaults, NULL, "print a settings file with every default"},
        {"table", OPTION_FLAG, &table, NULL, "print every setting as a Markdown table"},
        {"json", OPTION_FLAG, &json, NULL, "print the effective settings as JSON"},
    };
    const struct option_parse parse = {
        .command = "tallybox config",
        .arguments = "",
        .about = "Prints every effective setting and where it came from, with secrets masked. "
                 "A mistake in a setting is named, and the exit code is 2.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .examples = "Examples:\n"
                    "  tallybox config --defaults > tallybox.ini\n"
                    "  tallybox config --set relay.lease_ms=20000\n",
    };
    struct options options;
    struct buf out = {0};
    int code = options_parse(&options, &parse, argc, argv);

    if (code >= 0)
        return code;
    if (defaults + table + json > 1) {
        fprintf(stderr, "tallybox config: expected one of --defaults, --table and --json\n");
        return EXIT_USAGE;
    }
    if (!defaults && !table)
        return print_effective(&options, json);
    if (defaults)
        config_print_defaults(&out);
    else
        config_print_table(&out);
    return options_print(&out);
}
