/* SPDX-License-Identifier: MIT */
/* The statements behind `tallybox verify`: one snapshot on each server, rows streamed, nothing
 * written. One thread. */
#ifndef CONSUMER_VERIFY_VERIFY_MYSQL_H
#define CONSUMER_VERIFY_VERIFY_MYSQL_H

#include "common/config/settings.h"
#include "consumer/verify/verify.h"

struct verify_mysql;

/* settings are borrowed for its life. */
enum rc verify_mysql_open(struct verify_mysql **verify, const struct settings *settings,
                          struct err *err);
void verify_mysql_close(struct verify_mysql *verify);

/* True in *drained when every lane is empty and both sides count the same votes: cheap enough to
 * ask twice a second. waiting says what is missing, for people. */
enum rc verify_mysql_drained(struct verify_mysql *verify, bool *drained, char *waiting, size_t size,
                             struct err *err);

/* Takes the snapshots that source's checks read. */
enum rc verify_mysql_begin(struct verify_mysql *verify, struct verify_source *source,
                           struct err *err);

#endif
