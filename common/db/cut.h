/* SPDX-License-Identifier: MIT */
/* The sockets of all connections of this process, so that a stop can end statements that a silent
 * server never answers. Only files of common/db include this. Any thread. */
#ifndef COMMON_DB_CUT_H
#define COMMON_DB_CUT_H

#include <stdbool.h>

struct db_socket {
    int fd; /* -1: not listed */
    struct db_socket *next;
};

/* Lists an open socket; takes it off before its owner closes it. */
void db_socket_list(struct db_socket *one, int fd);
void db_socket_forget(struct db_socket *one);

/* db_cut_all() was called: no new connection is made. */
bool db_is_cut(void);

#endif
