/* SPDX-License-Identifier: MIT */
#include "common/daemon/notify.h"

#include <errno.h>
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
