/* SPDX-License-Identifier: MIT */
#include "consumer/installation_mysql.h"

#include <stdio.h>
#include <string.h>

/* Written by installation_find() only. */
static char found_id[INSTALLATION_ID_SIZE];
static char found_group[INSTALLATION_GROUP_SIZE];

enum rc installation_check_id(const char *id, struct err *err)
{
    static const char allowed[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    size_t len = strspn(id, allowed);

    if (len > 0 && len < INSTALLATION_ID_SIZE && id[len] == '\0')
        return RC_OK;
    return err_fail(
        err, RC_FATAL, 0,
        "table installation of [sink], row id = 1: the name \"%.40s\" cannot be the id of an "
        "installation, which is 1 to %d of A-Z, a-z, 0-9, _ and -: correct it with "
        "UPDATE installation SET name = ... WHERE id = 1",
        id, INSTALLATION_ID_SIZE - 1);
}

static enum rc on_id_row(void *ctx, const struct db_row *row, struct err *err)
{
    const char *name = row->columns[0] ? row->columns[0] : "";
    enum rc rc = installation_check_id(name, err);

    if (rc == RC_OK)
        snprintf(ctx, INSTALLATION_ID_SIZE, "%s", name);
    return rc;
}

enum rc installation_read(struct db *db, char id[INSTALLATION_ID_SIZE], struct err *err)
{
    static const char sql[] = "SELECT name FROM installation WHERE id = 1";
    enum rc rc;

    id[0] = '\0';
    rc = db_query(db, sql, sizeof(sql) - 1, on_id_row, id, err);
    if (rc != RC_OK && err->code == DB_NO_SUCH_TABLE)
        return RC_OK;
    if (rc == RC_OK && !id[0])
        rc =
            err_fail(err, RC_FATAL, 0,
                     "table installation of [sink] has no row id = 1, whose name is the id of this "
                     "installation: write it again, INSERT INTO installation (id, name) VALUES "
                     "(1, ...), with the id that it had; consumer_progress shows that id behind "
                     "tallybox- in consumer_group");
    return rc;
}

void installation_name_group(char group[INSTALLATION_GROUP_SIZE], const struct settings *settings,
                             const char *id)
{
    if (settings->consumer.group[0])
        snprintf(group, INSTALLATION_GROUP_SIZE, "%s", settings->consumer.group);
    else
        snprintf(group, INSTALLATION_GROUP_SIZE, "%s%s", id[0] ? "tallybox-" : "", id);
}

enum rc installation_find(const struct settings *settings, struct err *err)
{
    struct err failure = {0};
    struct db *db = NULL;
    enum rc rc = db_open(&db, &settings->sink, &failure);

    if (rc == RC_OK)
        rc = db_connect(db, &failure);
    if (rc == RC_OK)
        rc = installation_read(db, found_id, &failure);
    db_close(db);
    if (rc == RC_OK)
        installation_name_group(found_group, settings, found_id);
    else if (err)
        *err = failure;
    return rc;
}

const char *installation_id(void)
{
    return found_id;
}

const char *installation_group(const struct settings *settings)
{
    return settings->consumer.group[0] ? settings->consumer.group : found_group;
}
