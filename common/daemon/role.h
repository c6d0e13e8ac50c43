/* SPDX-License-Identifier: MIT */
/* A role is a long-running part (serve, relay, retry, consume, rollup, housekeep): it opens what it
 * needs, runs threads until stop, and reports its health. This module runs one or several roles in
 * a process: settings, signals, the admin server, readiness, clean stop. */
#ifndef COMMON_DAEMON_ROLE_H
#define COMMON_DAEMON_ROLE_H

#include "common/config/settings.h"
#include "common/daemon/readiness.h"
#include "common/err.h"
#include "common/stop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct retry_handlers;

/* The environment of a role. Lives longer than the role. */
struct role_env {
    const struct settings *settings;
    struct stop *stop;
    const char *instance;                  /* host-pid-random: unique name of this process */
    const struct retry_handlers *handlers; /* of the process; NULL: it runs and takes no tasks */
};

struct role {
    const char *name; /* the subcommand: "relay" */
    const char *about;

    /* Registers the metrics that the role has from its start, with examples of those whose labels
     * are known later. Before open(), and for `tallybox metrics`. May be NULL. */
    void (*register_metrics)(void);
    /* Allocates and checks without starting a thread. Needs no connection: an unreachable database
     * or broker is no error here. RC_FATAL: err says what the operator must change. */
    enum rc (*open)(void **role, const struct role_env *env, struct err *err);
    /* Starts the threads. After a failure none is left, and close() comes next. RC_REJECT: a
     * setting is wrong, and the process ends with EXIT_USAGE. */
    enum rc (*start)(void *role, struct err *err);
    /* Called by any thread, one at a time, between start and join; must not block. May be NULL. */
    void (*health)(void *role, struct health *health);
    /* Called after stop was requested, if start() worked: finishes the work or gives it back, and
     * joins the threads. close() is called whenever open() worked. */
    void (*join)(void *role);
    void (*close)(void *role);

    const char *sections; /* of the settings, as --help lists them: "relay" */
};

/* Called before roles start, repeatedly while it returns RC_RETRY (the process runs and is not
 * ready, with err as the reason). RC_FATAL ends the process, RC_REJECT with EXIT_USAGE: a setting
 * does not fit the databases. migrate: the command line allows changing the schema. */
typedef enum rc (*role_gate)(const struct settings *settings, bool migrate, struct err *err);

/* A process that runs roles. */
struct role_process {
    const char *command;
    const char *about;
    const struct role *const *roles;
    size_t count;
    role_gate gate;
    const struct retry_handlers *handlers; /* as in struct role_env */
};

/* The whole life of a daemon command: options, settings, signals, gate, roles, admin server.
 * SIGTERM/SIGINT stop cleanly within admin.stop_timeout_ms; a second one ends at once. SIGHUP
 * reads the settings again (common/daemon/reload.h). Returns an exit code. */
int role_main(const struct role_process *process, int argc, char **argv);

#endif
