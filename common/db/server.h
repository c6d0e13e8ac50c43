/* SPDX-License-Identifier: MIT */
/* What a connection finds out about its database server. */
#ifndef COMMON_DB_SERVER_H
#define COMMON_DB_SERVER_H

#include <stdint.h>

enum db_kind { DB_MARIADB, DB_MYSQL };

/* Properties that a server reports. */
struct db_server {
    enum db_kind kind;
    uint64_t packet_bytes_max;
};

/* The server of a connection, as text that can be compared, and the time of its start by its own
 * clock. */
struct db_origin {
    char server[256];
    int64_t started_s;
};

#endif
