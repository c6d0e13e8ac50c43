/* SPDX-License-Identifier: MIT */
/* Tells the service manager how the process is: systemd's notification protocol, one datagram per
 * message (sd_notify(3)). Without a manager nothing is sent. Opened by the main thread; sending is
 * for any. */
#ifndef COMMON_DAEMON_NOTIFY_H
#define COMMON_DAEMON_NOTIFY_H

#include "common/err.h"

#include <sys/socket.h>
#include <sys/un.h>

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

#endif
