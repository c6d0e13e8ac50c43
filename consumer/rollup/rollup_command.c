/* SPDX-License-Identifier: MIT */
#include "consumer/rollup/rollup_command.h"

#include "common/buf.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/rollup/rollup.h"
#include "consumer/rollup/rollup_mysql.h"
#include "consumer/singleton_role.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The engine with its adapter. */
struct rollup_job {
    const struct settings *settings;
    struct rollup_mysql *mysql;
    struct rollup rollup;
};

static int64_t step_job(void *arg, int64_t now_ms, struct singleton_progress *progress)
{
    struct rollup_job *job = arg;
    struct rollup *rollup = &job->rollup;
    bool failing;
    int64_t wait_ms;

    rollup->config.interval_ms = job->settings->rollup.interval_ms;
    wait_ms = rollup_step(rollup, now_ms);
    failing = condition_read(&rollup->database, NULL);
    *progress = (struct singleton_progress){
        .failing = failing,
        .reached = rollup->rc == RC_OK,
        .working = rollup->phase != ROLLUP_IDLE && !failing,
        .late_since_ms = rollup->late_since_ms,
        .other = rollup->other,
        .err = &rollup->err,
    };
    return wait_ms;
}

static void close_job(void *arg)
{
    struct rollup_job *job = arg;

    rollup_done(&job->rollup);
    rollup_mysql_close(job->mysql);
    free(job);
}

static enum rc open_with(void **opened, const struct singleton_env *env, int64_t overlap_ms,
                         struct err *err)
{
    struct rollup_job *job = calloc(1, sizeof(*job));
    enum rc rc;

    if (!job)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    job->settings = env->settings;
    rc = rollup_mysql_open(&job->mysql, &env->settings->sink, err);
    if (rc == RC_OK) {
        const struct rollup_config config = {
            .store = rollup_mysql_store(job->mysql),
            .owner = env->owner,
            .interval_ms = env->settings->rollup.interval_ms,
            .overlap_ms = overlap_ms,
            .lease_ms = ROLLUP_LEASE_MS,
            .batch_rows_max = (size_t)env->settings->rollup.batch_rows_max,
            .once = env->once,
            .rng = os_random_u64,
            .stop = env->stop,
        };

        rc = rollup_init(&job->rollup, &config, err);
    }
    if (rc == RC_OK)
        *opened = job;
    else
        close_job(job);
    return rc;
}

static enum rc open_job(void **opened, const struct singleton_env *env, struct err *err)
{
    return open_with(opened, env, env->settings->rollup.overlap_ms, err);
}

/* Its window begins before every change. */
static enum rc open_job_of_all(void **opened, const struct singleton_env *env, struct err *err)
{
    return open_with(opened, env, INT64_MAX, err);
}

static void leave_job(void *arg)
{
    struct rollup_job *job = arg;

    rollup_leave(&job->rollup);
}

static void read_counts(const void *arg, void *counts)
{
    const struct rollup_job *job = arg;

    *(struct rollup_counts *)counts = job->rollup.counts;
}

static const struct singleton_job rollup_job = {
    .name = "rollup",
    .check = "roll-up",
    .noun = "roll-up",
    .lease_ms = ROLLUP_LEASE_MS,
    .open = open_job,
    .step = step_job,
    .leave = leave_job,
    .read_counts = read_counts,
    .close = close_job,
};

static enum rc open_role(void **role, const struct role_env *env, struct err *err)
{
    return singleton_role_open(role, &rollup_job, env, err);
}

const struct role rollup_role = {
    .name = "rollup",
    .about = "Brings remark.votes up to date with the vote log at every full rollup.interval_ms of "
             "the clock of the database (UTC). Several may run; one of them works at a time. With "
             "--once it does this a single time, now; `tallybox rollup --once --help` explains it.",
    .register_metrics = rollup_metrics_register,
    .open = open_role,
    .start = singleton_role_start,
    .health = singleton_role_health,
    .join = singleton_role_join,
    .close = singleton_role_close,
    .sections = "sink,rollup",
};

static int print_counts(const struct rollup_counts *counts, bool json)
{
    struct buf out = {0};

    if (json) {
        buf_print(&out,
                  "{\"contents\": %" PRIu64 ", \"changed\": %" PRIu64 ", \"missing\": %" PRIu64
                  ", \"refused\": %" PRIu64 ", \"ms\": %" PRId64 "}\n",
                  counts->contents, counts->changed, counts->missing, counts->refused, counts->ms);
        return options_print(&out);
    }
    buf_print(&out,
              "rolled up in %" PRId64 " ms: %" PRIu64 " contents read, %" PRIu64
              " remarks changed, %" PRIu64 " contents without a remark\n",
              counts->ms, counts->contents, counts->changed, counts->missing);
    if (counts->refused > 0)
        buf_print(&out, "remarks that the database refused: %" PRIu64 "; the log names them\n",
                  counts->refused);
    return options_print(&out);
}

static int once_command(role_gate gate, int argc, char **argv)
{
    struct singleton_job job = rollup_job;
    bool once = false;
    bool all = false;
    bool json = false;
    const struct option_entry entries[] = {
        {"once", OPTION_FLAG, &once, NULL, "roll up now, once, and end", NULL},
        {"all", OPTION_FLAG, &all, NULL, "read every content again, not only changed ones", NULL},
        {"json", OPTION_FLAG, &json, NULL, "print the summary as JSON", NULL},
    };
    const struct option_parse parse = {
        .command = "tallybox rollup",
        .arguments = "",
        .about = "Brings remark.votes up to date now, due or not, and prints how many contents it "
                 "read, how many remarks it changed and how many contents have no remark. Waits "
                 "some seconds for another roll-up that is running.",
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
        .sections = "sink,rollup",
    };
    struct rollup_counts counts = {0};
    struct config *config;
    struct options options;
    struct err err = {0};
    enum rc rc = RC_OK;
    int code = options_parse(&options, &parse, argc, argv);

    if (code < 0)
        code = options_load(&options, &config);
    if (code >= 0)
        return code;
    if (all)
        job.open = open_job_of_all;
    if (gate)
        rc = gate(config_settings(config), false, &err);
    if (rc == RC_OK)
        rc = singleton_run_once(&job, config_settings(config), &counts, &err);
    code = rc == RC_OK ? print_counts(&counts, json) : options_fail(rc, &err);
    if (code == EXIT_DONE && counts.refused > 0)
        code = EXIT_FAILED;
    config_free(config);
    return code;
}

int rollup_command(role_gate gate, int argc, char **argv)
{
    const struct role *const role = &rollup_role;
    const struct role_process process = {role->name, role->about, &role, 1,   gate,
                                         NULL,       NULL,        0,     NULL};

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--once") == 0)
            return once_command(gate, argc, argv);
    return role_main(&process, argc, argv);
}
