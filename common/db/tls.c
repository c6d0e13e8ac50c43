/* SPDX-License-Identifier: MIT */
#include "common/db/tls.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>

/* Addresses that other machines cannot intercept. Names are not looked up, because a false DNS
 * answer could make a remote address look local. */
static bool is_local(const struct mysql_settings *settings)
{
    struct in_addr four;
    struct in6_addr six;

    if (settings->socket[0] || strcmp(settings->host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, settings->host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, settings->host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

enum db_tls db_tls_of(const struct mysql_settings *settings)
{
    if (strcmp(settings->tls, "off") == 0)
        return DB_TLS_OFF;
    if (strcmp(settings->tls, "on") == 0)
        return DB_TLS_ON;
    if (strcmp(settings->tls, "auto") == 0 && is_local(settings))
        return DB_TLS_OFF;
    return DB_TLS_VERIFY;
}
