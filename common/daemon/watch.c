/* SPDX-License-Identifier: MIT */
#include "common/daemon/watch.h"

#include "common/condition.h"
#include "common/log.h"
#include "common/loop.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_BYTES_MAX 512

enum rc notify_open(struct notify *notify, const char *path, struct err *err)
{
    size_t len = strlen(path);

    memset(notify, 0, sizeof(*notify));
    notify->fd = -1;
    if (len == 0)
        return RC_OK;
    if ((*path != '/' && *path != '@') || len < 2 || len >= sizeof(notify->address.sun_path))
        return err_fail(err, RC_FATAL, 0,
                        "NOTIFY_SOCKET \"%.60s\" is not the path of a socket, nor @name", path);
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, path, len);
    notify->address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    /* A path ends with its zero byte; an abstract name begins with one and has none at its end. */
    if (*path == '@')
        notify->address.sun_path[0] = '\0';
    else
        notify->address_len++;
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->fd < 0)
        return err_fail(err, RC_FATAL, errno, "cannot open a socket for NOTIFY_SOCKET: %s",
                        strerror(errno));
    return RC_OK;
}

void notify_close(struct notify *notify)
{
    if (notify->fd >= 0)
        close(notify->fd);
    notify->fd = -1;
}

void notify_send(const struct notify *notify, const char *format, ...)
{
    char message[MESSAGE_BYTES_MAX];
    va_list args;
    size_t len;

    if (notify->fd < 0)
        return;
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    len = strlen(message);
    /* A manager that is restarting misses a message; the next one comes soon. */
    if (sendto(notify->fd, message, len, MSG_NOSIGNAL, (const struct sockaddr *)&notify->address,
               notify->address_len) < 0)
        return;
}

void notify_status(const struct notify *notify, const char *text)
{
    char line[MESSAGE_BYTES_MAX - 16];

    snprintf(line, sizeof(line), "%s", text);
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20)
            *at = ' ';
    notify_send(notify, "STATUS=%s", line);
}

#define LOOK_MS 1000

/* A shorter failure shows in the metrics; the log does not need it. */
#define LOG_AFTER_MS 3000
#define LOG_AGAIN_MS 60000

/* Sent while the process waits for a server before its start, so that the manager does not treat
 * the start as hanging. */
#define GATE_EXTEND_US "30000000"

/* Notifications in one period of the watchdog. */
#define NOTIFICATIONS 4

void watch_init(struct watch *watch, const char *role, struct readiness *readiness,
                const struct notify *notify, int64_t watchdog_ms)
{
    memset(watch, 0, sizeof(*watch));
    watch->role = role;
    watch->readiness = readiness;
    watch->notify = notify;
    watch->watchdog_ms = watchdog_ms;
}

static void record_ready(struct watch *watch, int64_t now_ms)
{
    if (watch->logged)
        log_event(LOG_INFO, "ready_again", "role=%s after_ms=%" PRId64, watch->role,
                  now_ms - watch->bad_since_ms);
    watch->bad = false;
    watch->logged = false;
}

/* Logs not_ready again each minute, unless another line tells what the process waits for. */
static void record_not_ready(struct watch *watch, const char *why, bool reminded, int64_t now_ms)
{
    struct err err = {0};

    if (!watch->bad)
        watch->bad_since_ms = now_ms;
    watch->bad = true;
    if (reminded || !watch->logged)
        watch->line_ms = now_ms;
    if (now_ms - (watch->logged ? watch->line_ms : watch->bad_since_ms) <
        (watch->logged ? LOG_AGAIN_MS : LOG_AFTER_MS))
        return;
    err_set(&err, "%s", why);
    if (watch->logged)
        log_error(LOG_WARN, "not_ready", &err, "role=%s lasts_ms=%" PRId64, watch->role,
                  now_ms - watch->bad_since_ms);
    else
        log_error(LOG_WARN, "not_ready", &err, "role=%s", watch->role);
    watch->logged = true;
    watch->line_ms = now_ms;
}

static void send_status(struct watch *watch, const struct health *health)
{
    const char *text = health->ready ? "ready" : health->why;

    if (strcmp(watch->status, text) == 0)
        return;
    snprintf(watch->status, sizeof(watch->status), "%s", text);
    notify_status(watch->notify, text);
}

/* A process with a hanging worker cannot work and may hold locks or leases that others need.
 * Without notifications the service manager ends it. A stop has its own limit. */
static void notify_watchdog(struct watch *watch, int64_t now_ms)
{
    char name[LOOP_NAME_SIZE];

    if (watch->watchdog_ms == 0)
        return;
    if (atomic_load(&watch->readiness->state) != READINESS_STOPPING &&
        loops_stuck(now_ms, watch->watchdog_ms, name)) {
        if (!watch->withheld)
            log_event(LOG_ERROR, "watchdog_withheld", "role=%s loop=%s watchdog_ms=%" PRId64,
                      watch->role, name, watch->watchdog_ms);
        watch->withheld = true;
        return;
    }
    if (watch->withheld)
        log_event(LOG_WARN, "watchdog_resumed", "role=%s", watch->role);
    watch->withheld = false;
    notify_send(watch->notify, "WATCHDOG=1");
}

int64_t watch_step(struct watch *watch, int64_t now_ms)
{
    int64_t notify_ms = watch->watchdog_ms / NOTIFICATIONS;
    struct buf lines = {0};
    struct health health = {.out = &lines, .ready = true};
    enum readiness_state state = atomic_load(&watch->readiness->state);
    bool reminded = conditions_remind(now_ms);

    readiness_ask(watch->readiness, &health);
    buf_done(&lines);
    if (state == READINESS_WAITING)
        notify_send(watch->notify, "EXTEND_TIMEOUT_USEC=" GATE_EXTEND_US);
    else if (health.ready)
        record_ready(watch, now_ms);
    else if (state == READINESS_RUNNING)
        record_not_ready(watch, health.why, reminded, now_ms);
    send_status(watch, &health);
    notify_watchdog(watch, now_ms);
    return notify_ms > 0 && notify_ms < LOOK_MS ? notify_ms : LOOK_MS;
}
