/* SPDX-License-Identifier: MIT */
/* The privileges that the account of each role needs, as SQL: schema/migrate/grants.sql with the
 * names of this installation's databases and lanes. Pure; any thread. */
#ifndef SCHEMA_MIGRATE_GRANTS_H
#define SCHEMA_MIGRATE_GRANTS_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>

/* schema/migrate/grants.sql, compiled in. */
extern const unsigned char grants_sql[];
extern const size_t grants_sql_len;

/* Appends the statements for the databases, api.lane_count and the lanes of the settings, one
 * part for each server where there are two. outbox_only: nothing on the vote tables. out->failed:
 * no memory. */
void grants_put(struct buf *out, const struct settings *settings, bool outbox_only);

#define GRANTS_USER_SIZE 128
#define GRANTS_ACCOUNT_SIZE 512

/* An account of a database server. */
struct grants_account {
    char user[GRANTS_USER_SIZE];
    char sql[GRANTS_ACCOUNT_SIZE]; /* 'shop'@'localhost' */
};

/* Reads USER, USER@HOST or both in quotes; the host is % if there is none. RC_REJECT: the text is
 * no account. */
enum rc grants_account_read(struct grants_account *account, const char *text, struct err *err);

/* The account that the statements of a role name otherwise: tallybox_ROLE, from any host. */
void grants_account_of_role(struct grants_account *account, const char *role);

struct grants_choice {
    const char *role;          /* as in grants.sql: "relay" */
    const char *account;       /* grants_account.sql; NULL: the role's own */
    bool outbox_only;          /* nothing on the vote tables */
    const char *password;      /* the account gets it; NULL: the account exists */
    const char *sink_password; /* the same on another server of [sink] */
    bool is_new_account;       /* ends the client if the account exists */
    bool has_section;          /* the settings file may have [role.ROLE] */
};

/* Appends the statements for the account of one role, one part for each server, in an order in
 * which nothing is changed when a table is missing: the client shows what to do first. RC_REJECT:
 * there is no such role; err names the nearest one. out->failed: no memory. */
enum rc grants_put_role(struct buf *out, const struct settings *settings,
                        const struct grants_choice *choice, struct err *err);

#endif
