/* SPDX-License-Identifier: MIT */
/* How a connection to a database is protected. Pure; any thread. */
#ifndef COMMON_DB_TLS_H
#define COMMON_DB_TLS_H

#include "common/config/settings.h"

enum db_tls {
    DB_TLS_OFF,
    DB_TLS_ON,     /* encrypted, with whomever it is */
    DB_TLS_VERIFY, /* encrypted, with who the certificate says and the authority vouches for */
};

/* The mode for this host: auto means off for a socket or a loopback address, else verify. */
enum db_tls db_tls_of(const struct mysql_settings *settings);

#endif
