/* SPDX-License-Identifier: MIT */
/* tallybox-table-lock: a session that locks tables, as a process of its own for tests. The argument
 * is a JSON object: host, port, user, database. Each line of standard input is a JSON object whose
 * "do" is take (with table), release, alter (with sql) or waits; each answer is a line with "rc",
 * "error" and "code", and after waits the "session" and its "waits" in seconds. */
#include "common/db/table_lock.h"
#include "common/config/settings.h"
#include "common/db/db.h"
#include "tests/support/options.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static enum rc take_waits(void *ctx, const struct db_row *row, struct err *err)
{
    json_t *waits = ctx;

    (void)err;
    for (size_t i = 0; i < row->count; i++)
        json_array_append_new(waits, json_integer(db_column_i64(row, i)));
    return RC_OK;
}

static enum rc read_waits(struct db *db, json_t *waits, struct err *err)
{
    static const char sql[] = "SELECT CONNECTION_ID(), @@SESSION.lock_wait_timeout, "
                              "@@SESSION.innodb_lock_wait_timeout, @@SESSION.wait_timeout";

    return db_query(db, sql, strlen(sql), take_waits, waits, err);
}

static json_t *run_request(struct db *db, struct table_lock *lock, const json_t *request)
{
    const char *what = text_of(request, "do");
    json_t *waits = json_array();
    struct err err = {0};
    struct buf sql = {0};
    enum rc rc;

    buf_text_put(&sql, text_of(request, "sql"));
    if (strcmp(what, "take") == 0)
        rc = table_lock_take(lock, db, text_of(request, "table"), &err);
    else if (strcmp(what, "release") == 0)
        rc = table_lock_release(lock, &err);
    else if (strcmp(what, "alter") == 0)
        rc = table_lock_alter(db, &sql, &err);
    else
        rc = read_waits(db, waits, &err);
    buf_done(&sql);
    return json_pack("{s:s, s:s, s:i, s:o}", "rc", rc_name(rc), "error", err.text, "code", err.code,
                     "waits", waits);
}

int main(int argc, char **argv)
{
    static struct mysql_settings settings;
    json_t *options = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    struct table_lock lock = {0};
    struct db *db = NULL;
    struct err err = {0};
    json_t *request;

    if (!options) {
        fprintf(stderr, "usage: tallybox-table-lock OPTIONS\n");
        return 2;
    }
    snprintf(settings.host, sizeof(settings.host), "%s", text_of(options, "host"));
    snprintf(settings.user, sizeof(settings.user), "%s", text_of(options, "user"));
    snprintf(settings.database, sizeof(settings.database), "%s", text_of(options, "database"));
    snprintf(settings.tls, sizeof(settings.tls), "auto");
    settings.port = number_of(options, "port");
    settings.connect_timeout_ms = settings.query_timeout_ms = 30000;
    json_decref(options);
    if (db_open(&db, &settings, &err) != RC_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    while ((request = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL))) {
        json_t *answer = run_request(db, &lock, request);

        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(request);
    }
    table_lock_release(&lock, NULL);
    db_close(db);
    return 0;
}
