/* SPDX-License-Identifier: MIT */
/* Watches a process from inside. Logs when and why the process stops being ready, and when it is
 * ready again; calls conditions_remind(), which logs once a minute what the process waits for;
 * informs the service manager, and notifies its watchdog while every loop finishes its steps. */
#ifndef COMMON_DAEMON_WATCH_H
#define COMMON_DAEMON_WATCH_H

#include "common/daemon/readiness.h"
#include "common/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

/* The service manager: systemd's notification protocol, one datagram per message (sd_notify(3)).
 * Without a manager nothing is sent. The main thread opens it; any thread may send. */
struct notify {
    int fd; /* -1: there is no service manager */
    struct sockaddr_un address;
    socklen_t address_len;
};

/* path: the path of the manager's socket, or "@name" in the abstract namespace; "": there is no
 * manager. RC_FATAL: path is neither or too long, or no file descriptor is left; notify is closed
 * then. */
enum rc notify_open(struct notify *notify, const char *path, struct err *err);
void notify_close(struct notify *notify);

/* Sends lines "NAME=value", separated by \n, without waiting for a manager that does not read. */
void notify_send(const struct notify *notify, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Sets the status line of `systemctl status`; line ends in text become blanks. */
void notify_status(const struct notify *notify, const char *text);

struct watch {
    const char *role; /* in the log; static */
    struct readiness *readiness;
    const struct notify *notify;
    int64_t watchdog_ms; /* a longer step withholds notifications; 0: no watchdog */
    int64_t bad_since_ms;
    int64_t line_ms; /* when not_ready was logged last */
    bool bad;
    bool logged;                                       /* not_ready was logged */
    bool withheld;                                     /* watchdog_withheld was logged */
    char status[sizeof(((struct health *)NULL)->why)]; /* the last status that the manager got */
};

/* role, readiness and notify are borrowed. One thread calls this and watch_step(). */
void watch_init(struct watch *watch, const char *role, struct readiness *readiness,
                const struct notify *notify, int64_t watchdog_ms);

/* Checks once. Returns the time until the next call in milliseconds. */
int64_t watch_step(struct watch *watch, int64_t now_ms);

#endif
