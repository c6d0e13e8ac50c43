/* SPDX-License-Identifier: MIT */
/* Watches a process from inside: logs when and why it stops being ready and when it is ready again,
 * has what it waits for logged once a minute (conditions_remind()), informs the service manager,
 * and feeds its watchdog while every loop finishes its steps. */
#ifndef COMMON_DAEMON_WATCH_H
#define COMMON_DAEMON_WATCH_H

#include "common/daemon/readiness.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The service manager: systemd's notification protocol, one datagram per message (sd_notify(3)).
 * Without a manager nothing is sent. Opened by the main thread; sending is for any. */
struct notify {
    int fd; /* -1: there is no service manager */
    struct sockaddr_un address;
    socklen_t address_len;
};

/* path: of the manager's socket, "@name" in the abstract namespace; "" for no manager. RC_FATAL:
 * it is neither, or no file descriptor is left; notify is closed then. */
enum rc notify_open(struct notify *notify, const char *path, struct err *err);
void notify_close(struct notify *notify);

/* Lines "NAME=value", separated by \n. A manager that does not listen is not waited for. */
void notify_send(const struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The status line of `systemctl status`; line ends in it become blanks. */
void notify_status(const struct notify *notify, const char *text);

struct watch {
    const char *role; /* in the log; static */
    struct readiness *readiness;
    const struct notify *notify;
    int64_t watchdog_ms; /* a step that takes longer starves the watchdog; 0: there is none */
    int64_t bad_since_ms;
    int64_t line_ms; /* when not_ready was logged last */
    bool bad;
    bool said; /* that it is bad */
    bool starving;
    char status[sizeof(((struct health *)NULL)->why)]; /* the last status that the manager got */
};

/* All are borrowed. One thread calls this and watch_step(). */
void watch_init(struct watch *watch, const char *role, struct readiness *readiness,
                const struct notify *notify, int64_t watchdog_ms);

/* Checks once. Returns the time until the next call in milliseconds. */
int64_t watch_step(struct watch *watch, int64_t now_ms);

#endif
