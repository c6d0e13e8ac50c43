/* SPDX-License-Identifier: MIT */
/* A role is a long-running part (serve, relay, retry, consume, rollup, housekeep): it opens what it
 * needs, runs threads until stop, and reports its health. This module runs one or several roles in
 * a process: settings, signals, the admin server, readiness, clean stop. */
#ifndef COMMON_DAEMON_ROLE_H
#define COMMON_DAEMON_ROLE_H

#include "common/config/settings.h"
#include "common/daemon/readiness.h"
#include "common/err.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct config;
struct option_action;
struct options;
struct retry_handlers;

struct role;

/* A role and what its open() gave. */
struct role_part {
    const struct role *role;
    void *opened;
};

/* The environment of a role. Lives longer than the role. */
struct role_env {
    const struct settings *settings;
    struct stop *stop;
    const char *instance;                  /* host-pid-random: unique name of this process */
    const struct retry_handlers *handlers; /* NULL: the process neither runs nor accepts tasks */
    const struct role_part *parts; /* its own roles, without the companion of role_accompany() */
    size_t part_count;
    const char *admin_url; /* of the process, set before start(); "": it has no admin server */
};

struct role {
    const char *name; /* the subcommand: "relay" */
    const char *about;

    /* Registers the metrics that the role has from its start, with examples of those whose labels
     * are known later. Before open(), and for `tallybox metrics`. May be NULL. */
    void (*register_metrics)(void);
    /* Allocates and checks without starting a thread. Needs no connection: an unreachable database
     * or broker is no error here. RC_REJECT: a setting is wrong, and the process ends with
     * EXIT_USAGE. RC_FATAL: err says what else the operator must change. */
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
    bool beats;           /* it keeps its own row in the table `instance` */
};

/* Called before roles start, repeatedly while it returns RC_RETRY (the process runs and is not
 * ready, with err as the reason). RC_FATAL ends the process, RC_REJECT with EXIT_USAGE: a setting
 * does not fit the databases. migrate: the command line allows changing the schema. */
typedef enum rc (*role_gate)(const struct settings *settings, bool migrate, struct err *err);

/* From now on every process runs this role, too, after its own ones. Before role_main(). */
void role_accompany(const struct role *role);

/* Loads the settings and checks the properties of Kafka, as every role does. Returns -1 to
 * continue, with *config to be freed by the caller, else the exit code; stderr names the error. */
int role_load_config(const struct options *options, struct config **config);

/* The checks of the settings that a process makes before it waits for a server: those that every
 * process makes (the properties of Kafka, the admin server), and those of a role. What they open is
 * released. They fail as the process would: err names the setting. handlers: as in struct
 * role_env. */
enum rc role_check_process(const struct settings *settings, struct err *err);
enum rc role_check(const struct role *role, const struct settings *settings,
                   const struct retry_handlers *handlers, struct err *err);

/* A process that runs roles. */
struct role_process {
    const char *command;
    const char *about;
    const struct role *const *roles;
    size_t count;
    role_gate gate;
    const struct retry_handlers *handlers; /* as in struct role_env */
    const struct option_action *actions;   /* listed by --help, or NULL */
    size_t action_count;
    const char *examples; /* the last paragraph of --help, or NULL */
};

/* The whole life of a daemon command: options, settings, signals, gate, roles, admin server.
 * SIGTERM/SIGINT stop cleanly within admin.stop_timeout_ms; the same signal again after half a
 * second or more, or the other one at any time, ends the process at once. SIGHUP reads the settings
 * again, applies those that are live, logs the names of those that need a restart, and reads the
 * files of bearer tokens. Returns an exit code. */
int role_main(const struct role_process *process, int argc, char **argv);

#endif
