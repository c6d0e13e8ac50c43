/* SPDX-License-Identifier: MIT */
#include "consumer/rollup/rollup_command.h"

#include "common/buf.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "consumer/rollup/rollup.h"
#include "consumer/rollup/rollup_mysql.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `--once` waits so long for another's window or an absent database; longer than a lease, so that
 * a holder that died is outlived. */
#define ONCE_WAIT_MS (ROLLUP_LEASE_MS + 5000)

struct rollup_part {
    const struct settings *settings;
    struct rollup_mysql *mysql;
    struct rollup rollup; /* of the loop's thread */
    struct loop loop;

    /* Guards what follows: written by the loop's thread, read by the admin's. */
    pthread_mutex_t lock;
    bool looked; /* the database answered once */
    bool failing;
    int64_t late_since_ms;
    struct err err;
};

static struct rollup_config config_of(const struct settings *settings,
                                      const struct rollup_mysql *mysql, const char *owner)
{
    return (struct rollup_config){
        .store = rollup_mysql_store(mysql),
        .owner = owner,
        .interval_ms = settings->rollup.interval_ms,
        .overlap_ms = settings->rollup.overlap_ms,
        .lease_ms = ROLLUP_LEASE_MS,
        .batch_rows_max = (size_t)settings->rollup.batch_rows_max,
        .rng = os_random_u64,
    };
}

static int64_t part_step(void *arg, int64_t now_ms)
{
    struct rollup_part *part = arg;
    int64_t wait_ms;

    part->rollup.config.interval_ms = part->settings->rollup.interval_ms;
    wait_ms = rollup_step(&part->rollup, now_ms);
    pthread_mutex_lock(&part->lock);
    part->looked = part->looked || part->rollup.rc == RC_OK;
    part->failing = part->rollup.failing;
    part->late_since_ms = part->rollup.late_since_ms;
    part->err = part->rollup.err;
    pthread_mutex_unlock(&part->lock);
    return wait_ms;
}

static void part_close(void *role)
{
    struct rollup_part *part = role;

    rollup_done(&part->rollup);
    rollup_mysql_close(part->mysql);
    loop_done(&part->loop);
    pthread_mutex_destroy(&part->lock);
    free(part);
}

static enum rc part_open(void **role, const struct role_env *env, struct err *err)
{
    struct rollup_part *part = calloc(1, sizeof(*part));
    struct rollup_config config;
    enum rc rc;

    if (!part)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    rollup_metrics_register();
    part->settings = env->settings;
    part->late_since_ms = SINGLETON_ON_TIME;
    pthread_mutex_init(&part->lock, NULL);
    rc = loop_init(&part->loop, "rollup", part_step, part, env->stop, err);
    if (rc == RC_OK)
        rc = rollup_mysql_open(&part->mysql, &env->settings->sink, err);
    if (rc == RC_OK) {
        config = config_of(env->settings, part->mysql, env->instance);
        config.stop = env->stop;
        rc = rollup_init(&part->rollup, &config, err);
    }
    if (rc == RC_OK)
        *role = part;
    else
        part_close(part);
    return rc;
}

static enum rc part_start(void *role, struct err *err)
{
    struct rollup_part *part = role;

    return loop_start(&part->loop, err);
}

static void part_health(void *role, struct health *health)
{
    struct rollup_part *part = role;
    int64_t now_ms = os_now_ms();
    int64_t late_ms;
    struct err err;
    bool looked;
    bool failing;

    pthread_mutex_lock(&part->lock);
    looked = part->looked;
    failing = part->failing;
    err = part->err;
    late_ms = part->late_since_ms == SINGLETON_ON_TIME ? 0 : now_ms - part->late_since_ms;
    pthread_mutex_unlock(&part->lock);
    if (failing)
        health_bad(health, "sink database", "%s", err.text);
    else if (!looked)
        health_bad(health, "sink database", "not asked yet");
    else
        health_good(health, "sink database");
    if (late_ms > part->settings->admin.stale_ms)
        health_bad(health, "roll-up", "due, and at a standstill for %" PRId64 " s", late_ms / 1000);
    else
        health_good(health, "roll-up");
}

static void part_join(void *role)
{
    struct rollup_part *part = role;

    loop_join(&part->loop);
    rollup_leave(&part->rollup);
}

const struct role rollup_role = {
    .name = "rollup",
    .about = "Brings remark.votes up to date with the vote log at every full rollup.interval_ms of "
             "the database's clock (UTC). Any number may run: one of them works. With --once it "
             "does that a single time, now; `tallybox rollup --once --help` tells more.",
    .open = part_open,
    .start = part_start,
    .health = part_health,
    .join = part_join,
    .close = part_close,
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
              "rolled up in %" PRId64 " ms: %" PRIu64 " contents looked at, %" PRIu64
              " remarks changed, %" PRIu64 " contents without a remark\n",
              counts->ms, counts->contents, counts->changed, counts->missing);
    if (counts->refused > 0)
        buf_print(&out, "remarks refused by the database: %" PRIu64 "; the log names them\n",
                  counts->refused);
    return options_print(&out);
}

/* Steps until the window is done. RC_RETRY: not in time, and err says what was in the way. */
static enum rc once_step(struct rollup *rollup, const struct stop *stop, struct err *err)
{
    int64_t idle_since_ms = os_now_ms();

    for (;;) {
        int64_t wait_ms = rollup_step(rollup, os_now_ms());
        bool working = rollup->phase != ROLLUP_LOOK && !rollup->failing;

        *err = rollup->err;
        if (wait_ms == LOOP_END)
            return rollup->failing ? RC_FATAL : RC_OK;
        if (working)
            idle_since_ms = os_now_ms();
        if (os_now_ms() - idle_since_ms > ONCE_WAIT_MS) {
            if (!rollup->failing)
                err_set(err, "another roll-up (%s) has been at work for %d s; try again later",
                        rollup->other, ONCE_WAIT_MS / 1000);
            return RC_RETRY;
        }
        stop_wait(stop, wait_ms);
    }
}

static enum rc once_run(const struct settings *settings, struct rollup_counts *counts,
                        struct err *err)
{
    struct rollup_mysql *mysql = NULL;
    struct rollup rollup = {0};
    struct rollup_config config;
    struct stop stop;
    char owner[SINGLETON_OWNER_SIZE];
    char host[65];
    enum rc rc = stop_init(&stop, err);

    if (rc != RC_OK)
        return rc;
    os_host_name(host, sizeof(host));
    snprintf(owner, sizeof(owner), "%s-%ld-%04x-once", host, os_pid(),
             (unsigned)(os_random_u64() & 0xffff));
    rc = rollup_mysql_open(&mysql, &settings->sink, err);
    if (rc == RC_OK) {
        config = config_of(settings, mysql, owner);
        config.once = true;
        rc = rollup_init(&rollup, &config, err);
    }
    if (rc == RC_OK) {
        rc = once_step(&rollup, &stop, err);
        rollup_leave(&rollup);
        *counts = rollup.counts;
    }
    rollup_done(&rollup);
    rollup_mysql_close(mysql);
    stop_done(&stop);
    return rc;
}

static int once_command(role_gate gate, int argc, char **argv)
{
    bool once = false;
    bool json = false;
    const struct option_entry entries[] = {
        {"once", OPTION_FLAG, &once, NULL, "roll up now, once, and end"},
        {"json", OPTION_FLAG, &json, NULL, "print what was done as JSON"},
    };
    const struct option_parse parse = {
        .command = "tallybox rollup",
        .arguments = "",
        .about = "Brings remark.votes up to date now, whether it is time or not, and prints how "
                 "many contents it looked at, how many remarks it changed and how many contents "
                 "have no remark. Waits a while for another roll-up that is at work.",
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
    if (gate)
        rc = gate(config_settings(config), false, &err);
    if (rc == RC_OK)
        rc = once_run(config_settings(config), &counts, &err);
    code = rc == RC_OK ? print_counts(&counts, json) : options_fail(rc, &err);
    if (code == EXIT_DONE && counts.refused > 0)
        code = EXIT_FAILED;
    config_free(config);
    return code;
}

int rollup_command(role_gate gate, int argc, char **argv)
{
    const struct role *role = &rollup_role;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--once") == 0)
            return once_command(gate, argc, argv);
    return role_main(role->name, role->about, &role, 1, gate, argc, argv);
}
