/* SPDX-License-Identifier: MIT */
#include "consumer/status/status_command.h"

#include "common/buf.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/maintenance/housekeep.h"
#include "consumer/rollup/rollup.h"
#include "consumer/singleton_lease.h"
#include "consumer/status/status_kafka.h"
#include "consumer/status/status_mysql.h"
#include "consumer/status/status_print.h"

#include <stdlib.h>

static int exit_code_of(enum rc rc)
{
    switch (rc) {
    case RC_OK:
        return EXIT_DONE;
    case RC_RETRY:
        return EXIT_UNAVAILABLE;
    case RC_REJECT:
    case RC_FATAL:
        break;
    }
    return EXIT_FAILED;
}

static int show_status(const struct settings *settings, struct status *status, bool json)
{
    struct buf out = {0};
    struct err err = {0};
    enum rc rc;
    int code;

    status->group = settings->consumer.group;
    status->admin = settings->admin.listen;
    status->relay_lease_ms = settings->relay.lease_ms;
    status->rollup_lease_ms = ROLLUP_LEASE_MS;
    status->housekeep_lease_ms = HOUSEKEEP_LEASE_MS;
    status->retry.threads = settings->retry.threads;
    status->now_ms = os_wall_ms();
    rc = status_mysql_fill(status, settings, &err);
    if (rc != RC_OK)
        return options_fail(rc, &err);
    status_kafka_fill(status, settings);
    status->rollup.due_ms = singleton_due_ms(status->rollup.rolled_until_ms, status->now_ms,
                                             settings->rollup.interval_ms);
    status->housekeep.due_ms = singleton_due_ms(status->housekeep.finished_ms, status->now_ms,
                                                settings->housekeep.interval_ms);
    if (json)
        status_print_json(status, &out);
    else
        status_print_text(status, &out);
    code = options_print(&out);
    return code == EXIT_DONE ? exit_code_of(status_outcome(status)) : code;
}

int status_command(int argc, char **argv)
{
    bool json = false;
    const struct option_entry entries[] = {
        {"json", OPTION_FLAG, &json, NULL, "print the same facts as JSON, times and ages in ms"},
    };
    const struct option_parse parse = {
        .command = "tallybox status",
        .arguments = "",
        .about = "Shows the progress of each stage and the instances that work on it. If a server "
                 "cannot be reached, its stages tell the error, the others are shown, and the exit "
                 "code is 3.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .sections = "mysql,sink",
    };
    struct config *config;
    struct options options;
    struct status *status;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    status = calloc(1, sizeof(*status));
    if (status) {
        code = show_status(config_settings(config), status, json);
    } else {
        struct err err = {0};

        code = options_fail(err_fail(&err, RC_FATAL, 0, "out of memory"), &err);
    }
    free(status);
    config_free(config);
    return code;
}
