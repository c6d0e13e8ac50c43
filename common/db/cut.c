/* SPDX-License-Identifier: MIT */
#include "common/db/cut.h"

#include "common/db/db.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

static pthread_mutex_t sockets_lock = PTHREAD_MUTEX_INITIALIZER; /* guards sockets and the list */
static struct db_socket *sockets;
static atomic_bool cut;

void db_socket_list(struct db_socket *one, int fd)
{
    pthread_mutex_lock(&sockets_lock);
    one->fd = fd;
    one->next = sockets;
    sockets = one;
    pthread_mutex_unlock(&sockets_lock);
}

void db_socket_forget(struct db_socket *one)
{
    struct db_socket **at = &sockets;

    pthread_mutex_lock(&sockets_lock);
    while (*at && *at != one)
        at = &(*at)->next;
    if (*at)
        *at = one->next;
    one->fd = -1;
    pthread_mutex_unlock(&sockets_lock);
}

bool db_is_cut(void)
{
    return atomic_load(&cut);
}

/* Under the lock no socket is closed, and so none is another one's by now. */
void db_cut_all(void)
{
    atomic_store(&cut, true);
    pthread_mutex_lock(&sockets_lock);
    for (const struct db_socket *one = sockets; one; one = one->next)
        shutdown(one->fd, SHUT_RDWR);
    pthread_mutex_unlock(&sockets_lock);
}
