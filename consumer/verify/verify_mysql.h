/* SPDX-License-Identifier: MIT */
/* The adapter of `tallybox verify`: reads one snapshot of each server, streams rows and writes
 * nothing. One thread. */
#ifndef CONSUMER_VERIFY_VERIFY_MYSQL_H
#define CONSUMER_VERIFY_VERIFY_MYSQL_H

#include "common/config/settings.h"
#include "consumer/verify/verify.h"

struct verify_mysql;

/* settings are borrowed until the close. */
enum rc verify_mysql_open(struct verify_mysql **verify, const struct settings *settings,
                          struct err *err);
void verify_mysql_close(struct verify_mysql *verify);

/* *drained tells whether all lanes are empty, both sides count the same votes, and all tombstones
 * are applied; cheap enough for two calls a second. waiting describes what is missing. */
enum rc verify_mysql_drained(struct verify_mysql *verify, bool *drained, char *waiting, size_t size,
                             struct err *err);

/* Begins the snapshots and fills source, whose functions read them. */
enum rc verify_mysql_begin(struct verify_mysql *verify, struct verify_source *source,
                           struct err *err);

#endif
