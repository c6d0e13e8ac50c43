/* SPDX-License-Identifier: MIT */
#include "common/daemon/role.h"

#include "common/backoff.h"
#include "common/condition.h"
#include "common/config/config.h"
#include "common/config/secret_file.h"
#include "common/daemon/admin.h"
#include "common/daemon/crash.h"
#include "common/daemon/signals.h"
#include "common/daemon/watch.h"
#include "common/db/db.h"
#include "common/db/login.h"
#include "common/host.h"
#include "common/http/guard.h"
#include "common/kafka/kafka.h"
#include "common/log.h"
#include "common/loop.h"
#include "common/options.h"
#include "common/os.h"
#include "common/text.h"
#include "tallybox_version.h"

#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ROLES_MAX 8
#define GATE_WAIT_MS 200
#define GATE_WAIT_MS_MAX 5000
#define INSTANCE_SIZE 96
#define URL_SIZE 255
#define HOST_SIZE 65

/* Starting threads does not block. But if there is no memory for a thread, librdkafka may wait for
 * ever for one that it could not start. */
#define START_MS_MAX 10000

/* One process on its way through life: opened, admitted by the gate, started, joined, closed. */
struct daemon {
    const char *command; /* "relay" */
    char title[64];      /* "tallybox relay" */
    const struct options *options;
    struct config *config;
    const struct settings *settings;
    role_gate gate;
    bool migrate;
    char instance[INSTANCE_SIZE];
    struct stop stop;
    struct role_env env;
    struct readiness readiness;
    struct notify notify;
    struct watch watch;  /* used by the signal thread alone */
    bool cut;            /* likewise: db_cut_all() was called */
    struct admin *admin; /* NULL: admin.listen is off */
    char admin_url[URL_SIZE];
    struct role_part parts[ROLES_MAX];
    struct readiness_part asked[ROLES_MAX]; /* of parts, once they have started */
    size_t count;
    size_t opened;            /* parts[0..opened) are open */
    size_t started;           /* parts[0..started) have threads */
    atomic_llong starting_ms; /* when starting them began; 0: it is over */
};

/* The role that every process runs; NULL: none. Written before role_main(). */
static const struct role *companion;

void role_accompany(const struct role *role)
{
    companion = role;
}

static void make_instance_name(char name[INSTANCE_SIZE])
{
    char host[HOST_SIZE];
    uint32_t random_bits;

    os_host_name(host, sizeof(host));
    os_random(&random_bits, sizeof(random_bits));
    snprintf(name, INSTANCE_SIZE, "%s-%ld-%08x", host, os_pid(), (unsigned)random_bits);
}

/* Writes a name of this machine that admin.hosts allows: its own name if possible. */
static void choose_host(char *out, size_t size, const char *hosts, int port)
{
    struct host own;
    size_t len;

    os_host_name(out, size);
    own = (struct host){.name = out, .name_len = strlen(out), .port = port};
    if (!*hosts || host_is_listed(&own, hosts, 0))
        return;
    for (const char *entry; (entry = list_next(&hosts, ',', &len));) {
        char text[URL_SIZE];
        struct host host;

        snprintf(text, sizeof(text), "%.*s", (int)len, entry);
        if (!host_read(&host, text) || host.name_len >= size ||
            (host.port != 0 && host.port != port))
            continue;
        snprintf(out, size, "%.*s", (int)host.name_len, host.name);
        return;
    }
}

/* The URL under which another machine finds the admin server. A server that listens at every
 * address is found by the name of the machine. */
static void make_admin_url(struct daemon *daemon)
{
    const char *address = daemon->settings->admin.listen;
    int port = admin_port(daemon->admin);
    char host[URL_SIZE - sizeof("https://:65535") + 1];
    bool any = strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0 ||
               strncmp(address, "*:", 2) == 0;

    if (any)
        choose_host(host, sizeof(host), daemon->settings->admin.hosts, port);
    else
        snprintf(host, sizeof(host), "%.*s", (int)(strrchr(address, ':') - address), address);
    snprintf(daemon->admin_url, sizeof(daemon->admin_url), "%s://%s:%d",
             admin_scheme(daemon->admin), host, port);
}

static enum rc open_admin(struct daemon *daemon, struct err *err)
{
    enum rc rc;

    if (strcmp(daemon->settings->admin.listen, "off") == 0)
        return RC_OK;
    rc = admin_open(&daemon->admin, daemon->settings, daemon->title, &daemon->readiness, err);
    if (rc != RC_OK)
        return rc;
    make_admin_url(daemon);
    log_event(LOG_INFO, "admin_listening", "url=%s/", daemon->admin_url);
    return RC_OK;
}

/* A missing file of certificates would look like a server that cannot be reached, and the gate
 * would wait for it. */
static enum rc check_files(const struct role *role, const struct settings *settings,
                           struct err *err)
{
    const char *sections = role->sections ? role->sections : "";
    enum rc rc = RC_OK;

    if (list_has(sections, "mysql"))
        rc = db_check_files(&settings->mysql, "mysql", err);
    if (rc == RC_OK && list_has(sections, "sink"))
        rc = db_check_files(&settings->sink, "sink", err);
    return rc;
}

static enum rc open_role(const struct role *role, const struct role_env *env, void **opened,
                         struct err *err)
{
    enum rc rc = check_files(role, env->settings, err);

    if (role->register_metrics)
        role->register_metrics();
    if (rc == RC_OK)
        rc = role->open(opened, env, err);
    return rc;
}

static enum rc open_parts(struct daemon *daemon, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; rc == RC_OK && i < daemon->count; i++) {
        struct role_part *part = &daemon->parts[i];

        rc = open_role(part->role, &daemon->env, &part->opened, err);
        if (rc == RC_OK)
            daemon->opened = i + 1;
        else
            err_wrap(err, "%s", part->role->name);
    }
    return rc;
}

/* Returns RC_OK also when a stop was requested meanwhile. */
static enum rc pass_gate(struct daemon *daemon, struct err *err)
{
    struct backoff backoff = {.base_ms = GATE_WAIT_MS, .cap_ms = GATE_WAIT_MS_MAX};
    struct condition start;
    enum rc rc = RC_OK;

    condition_init(&start, CONDITION_WORK, "what=start role=%s", daemon->command);
    while (daemon->gate && !stop_requested(&daemon->stop)) {
        rc = daemon->gate(daemon->settings, daemon->migrate, err);
        if (rc == RC_OK)
            condition_ok(&start, os_now_ms());
        if (rc != RC_RETRY)
            break;
        readiness_set_waiting(&daemon->readiness, err);
        condition_fail(&start, os_now_ms(), err);
        stop_wait(&daemon->stop, backoff_next_ms(&backoff, os_random_u64()));
    }
    condition_done(&start);
    return rc == RC_RETRY ? RC_OK : rc;
}

static enum rc start_parts(struct daemon *daemon, struct err *err)
{
    enum rc rc = RC_OK;

    atomic_store(&daemon->starting_ms, os_now_ms());
    for (size_t i = 0; rc == RC_OK && i < daemon->count; i++) {
        rc = daemon->parts[i].role->start(daemon->parts[i].opened, err);
        if (rc == RC_OK)
            daemon->started = i + 1;
        else
            err_wrap(err, "%s", daemon->parts[i].role->name);
    }
    atomic_store(&daemon->starting_ms, 0);
    return rc;
}

static void begin_readiness(struct daemon *daemon)
{
    for (size_t i = 0; i < daemon->count; i++)
        daemon->asked[i] = (struct readiness_part){
            .name = daemon->parts[i].role->name,
            .health = daemon->parts[i].role->health,
            .role = daemon->parts[i].opened,
        };
    readiness_set_running(&daemon->readiness, daemon->asked, daemon->count);
}

static enum rc run_parts(struct daemon *daemon, struct err *err)
{
    enum rc rc = pass_gate(daemon, err);

    if (rc != RC_OK || stop_requested(&daemon->stop))
        return rc;
    rc = start_parts(daemon, err);
    if (rc != RC_OK)
        return rc;
    begin_readiness(daemon);
    log_event(LOG_INFO, "started", "role=%s", daemon->command);
    notify_send(&daemon->notify, "READY=1");
    while (!stop_wait(&daemon->stop, -1)) {
    }
    return RC_OK;
}

/* The admin server runs while the roles finish, and is closed before the roles that it reads. */
static void end_parts(struct daemon *daemon)
{
    int64_t from_ms = os_now_ms();

    stop_request(&daemon->stop);
    notify_send(&daemon->notify, "STOPPING=1");
    readiness_set_stopping(&daemon->readiness);
    for (size_t i = 0; i < daemon->started; i++)
        daemon->parts[i].role->join(daemon->parts[i].opened);
    admin_close(daemon->admin);
    while (daemon->opened > 0) {
        struct role_part *part = &daemon->parts[--daemon->opened];

        part->role->close(part->opened);
    }
    log_event(LOG_INFO, "stopped", "role=%s ms=%" PRId64, daemon->command, os_now_ms() - from_ms);
}

static enum rc fail_start(const struct daemon *daemon, enum rc rc, const struct err *err)
{
    log_error(LOG_ERROR, "start_failed", err, "role=%s rc=%s", daemon->command, rc_name(rc));
    return rc;
}

struct reload {
    size_t changed;
    struct buf kept; /* names of what needs a restart */
};

static void on_change(void *ctx, const struct config_change *change)
{
    struct reload *reload = ctx;

    if (!change->live) {
        buf_print(&reload->kept, "%s%s.%s", reload->kept.len > 0 ? "," : "", change->section,
                  change->key);
        return;
    }
    reload->changed++;
    log_event(LOG_INFO, "setting_changed", "setting=%s.%s from=%s to=%s", change->section,
              change->key, change->was, change->now);
}

/* Reads the settings again from the same sources, applies the live ones, logs the names of those
 * that need a restart. Invalid settings change no setting. Reads the files of bearer tokens in
 * either case. */
static void reload_settings(const struct daemon *daemon)
{
    struct reload reload = {0};
    struct config *fresh = NULL;
    struct err err = {0};
    enum rc rc = options_read(daemon->options, &fresh, &err);

    if (rc == RC_OK)
        rc = kafka_conf_check(config_settings(fresh), &err);
    if (rc == RC_OK) {
        config_take_live(daemon->config, fresh, on_change, &reload);
        log_init(options_log_level(daemon->settings));
        if (reload.kept.len > 0)
            log_event(LOG_WARN, "settings_need_restart", "role=%s settings=%s", daemon->command,
                      buf_text(&reload.kept));
        log_event(LOG_INFO, "reloaded", "role=%s changed=%zu", daemon->command, reload.changed);
    } else {
        log_error(LOG_ERROR, "reload_failed", &err, "role=%s hint=\"no setting has changed\"",
                  daemon->command);
    }
    /* The token files that the old settings name may have changed, too. */
    http_guards_reload();
    buf_done(&reload.kept);
    config_free(fresh);
}

/* Handles SIGHUP. A process that is not working yet has not sent READY, so it sends no
 * RELOADING. */
static void on_hang_up(void *ctx)
{
    struct daemon *daemon = ctx;
    bool working = atomic_load(&daemon->readiness.state) == READINESS_RUNNING;

    if (working)
        notify_send(&daemon->notify, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, os_now_us());
    reload_settings(daemon);
    if (working)
        notify_send(&daemon->notify, "READY=1");
}

/* All roles wait for a refused login in the same way, and all end in the same way. */
static void end_refused_login(struct daemon *daemon)
{
    struct err err = {0};

    if (stop_requested(&daemon->stop) || !login_has_failed(&err))
        return;
    log_error(LOG_ERROR, "role_failed", &err, "role=%s reason=login_refused", daemon->command);
    stop_fail(&daemon->stop);
}

static int64_t on_look(void *ctx, int64_t now_ms)
{
    struct daemon *daemon = ctx;
    int64_t starting_ms = atomic_load(&daemon->starting_ms);

    if (starting_ms > 0 && now_ms - starting_ms > START_MS_MAX) {
        log_event(LOG_ERROR, "start_stalled",
                  "role=%s ms=%" PRId64 " hint=\"is there memory, and room for threads?\"",
                  daemon->command, now_ms - starting_ms);
        _exit(EXIT_FAILED);
    }
    end_refused_login(daemon);
    kafka_log_repeats(now_ms);
    return watch_step(&daemon->watch, now_ms);
}

/* A server that does not answer must not delay the stop. After two fifths of the time-out the
 * connections are cut when one step has lasted since the stop began, and after four fifths in any
 * case. */
static void on_stop_lasts(void *ctx, int64_t now_ms, int64_t spent_ms, int64_t timeout_ms)
{
    struct daemon *daemon = ctx;
    char name[LOOP_NAME_SIZE] = "none";

    if (daemon->cut || spent_ms < timeout_ms / 5 * 2)
        return;
    if (spent_ms < timeout_ms / 5 * 4 && !loops_stuck(now_ms, spent_ms, name))
        return;
    daemon->cut = true;
    log_event(LOG_WARN, "stop_cuts_connections", "role=%s loop=%s spent_ms=%" PRId64,
              daemon->command, name, spent_ms);
    db_cut_all();
}

static enum rc open_signals(struct daemon *daemon, struct signals *signals, struct err *err)
{
    const struct signals_chores chores = {on_hang_up, on_look, on_stop_lasts, daemon};
    enum rc rc = stop_init(&daemon->stop, err);

    if (rc != RC_OK)
        return rc;
    rc = signals_start(signals, &daemon->stop, daemon->settings, &chores, err);
    if (rc != RC_OK)
        stop_done(&daemon->stop);
    return rc;
}

/* A failure to notify the service manager is fatal, because the manager would kill the process
 * after its start time-out. */
static enum rc open_manager(struct daemon *daemon, struct err *err)
{
    const struct os_service service = os_service();
    enum rc rc = notify_open(&daemon->notify, service.notify_socket, err);
    int64_t longest_ms = daemon->settings->mysql.query_timeout_ms;

    if (daemon->settings->sink.query_timeout_ms > longest_ms)
        longest_ms = daemon->settings->sink.query_timeout_ms;
    if (service.watchdog_ms > 0 && service.watchdog_ms < 2 * longest_ms)
        log_event(LOG_WARN, "watchdog_short",
                  "role=%s watchdog_ms=%" PRId64 " query_timeout_ms=%" PRId64
                  " hint=\"a slow statement would get this process killed: give WatchdogSec twice "
                  "query_timeout_ms or more\"",
                  daemon->command, service.watchdog_ms, longest_ms);
    watch_init(&daemon->watch, daemon->command, &daemon->readiness, &daemon->notify,
               service.watchdog_ms);
    return rc;
}

/* It is not refused: platforms that mount secrets often make them readable for all accounts of a
 * container, which has one. */
static void warn_open_password(const struct daemon *daemon, const char *setting, const char *path)
{
    unsigned mode;

    if (*path && secret_file_is_open(path, &mode))
        log_event(
            LOG_WARN, "password_file_open",
            "role=%s setting=%s file=\"%.200s\" mode=%03o hint=\"every account of this machine "
            "can read it: run chmod o= on it, or mount it with mode 0400\"",
            daemon->command, setting, path, mode);
}

static void warn_open_passwords(const struct daemon *daemon)
{
    const char *mysql = daemon->settings->mysql.password_file;
    const char *sink = daemon->settings->sink.password_file;

    warn_open_password(daemon, "mysql.password_file", mysql);
    if (strcmp(mysql, sink) != 0)
        warn_open_password(daemon, "sink.password_file", sink);
}

static enum rc run_process(struct daemon *daemon, struct err *err)
{
    struct signals signals;
    enum rc rc;

    crash_init();
    rc = open_manager(daemon, err);

    if (rc == RC_OK)
        rc = open_signals(daemon, &signals, err);
    if (rc != RC_OK) {
        notify_close(&daemon->notify);
        return fail_start(daemon, rc, err);
    }
    log_event(LOG_INFO, "starting", "role=%s version=%s instance=%s", daemon->command,
              TALLYBOX_VERSION, daemon->instance);
    if (os_is_root())
        log_event(LOG_WARN, "runs_as_root",
                  "role=%s hint=\"nothing here needs root's rights: give it "
                  "an account of its own\"",
                  daemon->command);
    warn_open_passwords(daemon);
    rc = open_parts(daemon, err);
    if (rc == RC_OK)
        rc = open_admin(daemon, err);
    if (rc == RC_OK)
        rc = run_parts(daemon, err);
    /* Logged before the parts end, which may take long. */
    if (rc != RC_OK)
        fail_start(daemon, rc, err);
    end_parts(daemon);
    signals_end(&signals);
    stop_done(&daemon->stop);
    notify_close(&daemon->notify);
    return rc;
}

static int parse_options(struct daemon *daemon, const struct role_process *process, int argc,
                         char **argv, struct options *options)
{
    const struct option_entry entries[] = {
        {"migrate", OPTION_FLAG, &daemon->migrate, NULL,
         "bring the database's schema to this version first", NULL},
    };
    struct option_parse parse = {
        .command = daemon->title,
        .arguments = "",
        .about = process->about,
        .actions = process->actions,
        .action_count = process->action_count,
        .examples = process->examples,
        .entries = entries,
        .count = sizeof(entries) / sizeof(entries[0]),
    };
    struct buf sections = {0};
    int code;

    for (size_t i = 0; i < daemon->count; i++)
        if (daemon->parts[i].role->sections)
            buf_print(&sections, "%s,", daemon->parts[i].role->sections);
    buf_text_put(&sections, "admin,log");
    parse.sections = buf_text(&sections);
    code = options_parse(options, &parse, argc, argv);
    buf_done(&sections);
    return code;
}

int role_load_config(const struct options *options, struct config **config)
{
    struct err err = {0};
    int code = options_load(options, config);

    if (code >= 0)
        return code;
    if (kafka_conf_check(config_settings(*config), &err) == RC_OK)
        return -1;
    options_fail(RC_FATAL, &err);
    config_free(*config);
    return EXIT_USAGE;
}

enum rc role_check_process(const struct settings *settings, struct err *err)
{
    enum rc rc = kafka_conf_check(settings, err);

    return rc == RC_OK ? admin_check(settings, err) : rc;
}

enum rc role_check(const struct role *role, const struct settings *settings,
                   const struct retry_handlers *handlers, struct err *err)
{
    struct role_part part = {.role = role};
    struct stop stop;
    const struct role_env env = {
        .settings = settings,
        .stop = &stop,
        .instance = "check",
        .handlers = handlers,
        .parts = &part,
        .part_count = 1,
        .admin_url = "",
    };
    enum rc rc = stop_init(&stop, err);

    if (rc != RC_OK)
        return rc;
    rc = open_role(role, &env, &part.opened, err);
    if (rc == RC_OK)
        role->close(part.opened);
    stop_done(&stop);
    return rc;
}

int role_main(const struct role_process *process, int argc, char **argv)
{
    struct daemon daemon = {
        .command = process->command, .gate = process->gate, .count = process->count};
    struct config *config = NULL;
    struct options options;
    struct err err = {0};
    int code;
    enum rc rc;

    assert(process->count < ROLES_MAX);
    snprintf(daemon.title, sizeof(daemon.title), "tallybox %s", process->command);
    for (size_t i = 0; i < process->count; i++)
        daemon.parts[i].role = process->roles[i];
    if (companion)
        daemon.parts[daemon.count++].role = companion;
    code = parse_options(&daemon, process, argc, argv, &options);
    if (code < 0)
        code = role_load_config(&options, &config);
    if (code >= 0)
        return code;
    make_instance_name(daemon.instance);
    daemon.options = &options;
    daemon.config = config;
    daemon.settings = config_settings(config);
    readiness_init(&daemon.readiness);
    login_wait_begin();
    conditions_list();
    daemon.env = (struct role_env){
        .settings = daemon.settings,
        .stop = &daemon.stop,
        .instance = daemon.instance,
        .handlers = process->handlers,
        .parts = daemon.parts,
        .part_count = process->count,
        .admin_url = daemon.admin_url,
    };
    rc = run_process(&daemon, &err);
    readiness_done(&daemon.readiness);
    config_free(config);
    if (rc == RC_RETRY)
        code = EXIT_UNAVAILABLE;
    else if (rc == RC_REJECT)
        code = EXIT_USAGE;
    else
        code = rc == RC_OK && !atomic_load(&daemon.stop.failed) ? EXIT_DONE : EXIT_FAILED;
    /* Threads that still run must not meet data that exit() frees. */
    if (kafka_handles_left() > 0)
        _exit(code);
    return code;
}
