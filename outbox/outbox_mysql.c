/* SPDX-License-Identifier: MIT */
#include "outbox/outbox.h"

#include "common/buf.h"
#include "common/db/db.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Size of one INSERT, about: larger statements were not faster. */
#define STATEMENT_BYTES ((size_t)1 << 20)
/* More than the protocol's own part of a packet. */
#define PACKET_SPARE_BYTES 64

enum rc outbox_check_header(const char *name, struct err *err)
{
    static const char *const own_names[] = {"id", "seq", "lane", "ce_id", "ce_specversion"};

    if (name[0] == '\0')
        return err_fail(err, RC_REJECT, 0, "headers: a name is empty");
    for (size_t i = 0; i < sizeof(own_names) / sizeof(own_names[0]); i++) {
        if (strcmp(name, own_names[i]) == 0)
            return err_fail(err, RC_REJECT, 0, "headers: \"%s\" is reserved for the relay", name);
    }
    return RC_OK;
}

/* headers and created_at may be missing: the relay does without them. */
enum rc outbox_explain_table(const char *table, enum rc rc, struct err *err)
{
    bool is_own = strcmp(table, "outbox") == 0;

    if (rc == RC_OK || !err || err->code != DB_NO_SUCH_COLUMN || strstr(err->text, "'created_at'"))
        return rc;
    return err_fail(err, rc, DB_NO_SUCH_COLUMN,
                    "not a tallybox outbox table: %s (%.120s): rename it, %s%s%s, and copy its "
                    "rows into the new table: docs/outbox.md",
                    table, err->text, is_own ? "run `tallybox migrate up" : "run `CREATE TABLE ",
                    is_own ? "" : table, is_own ? "`" : " LIKE outbox`");
}

static enum rc check_text(const char *text, const char *name, size_t number, struct err *err)
{
    size_t len = text ? strnlen(text, OUTBOX_TEXT_BYTES_MAX + 1) : 0;

    if (len == 0)
        return err_fail(err, RC_REJECT, 0, "outbox event %zu: %s is empty", number, name);
    if (len > OUTBOX_TEXT_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "outbox event %zu: %s is longer than %d bytes", number,
                        name, OUTBOX_TEXT_BYTES_MAX);
    return RC_OK;
}

/* Refuses headers that the relay cannot read: such a row would divert its whole key. */
static enum rc check_headers(const char *headers, size_t number, struct err *err)
{
    json_error_t fault;
    json_t *object;
    json_t *value;
    const char *name;
    enum rc rc = RC_OK;

    if (strnlen(headers, OUTBOX_HEADERS_BYTES_MAX + 1) > OUTBOX_HEADERS_BYTES_MAX)
        return err_fail(err, RC_REJECT, 0, "outbox event %zu: headers are longer than %d bytes",
                        number, OUTBOX_HEADERS_BYTES_MAX);
    object = json_loads(headers, JSON_REJECT_DUPLICATES, &fault);
    if (!json_is_object(object)) {
        rc = err_fail(err, RC_REJECT, 0, "outbox event %zu: headers are not a JSON object%s%s",
                      number, object ? "" : ": ", object ? "" : fault.text);
        goto out;
    }
    json_object_foreach(object, name, value) {
        rc = outbox_check_header(name, err);
        if (rc != RC_OK) {
            err_wrap(err, "outbox event %zu", number);
            break;
        }
        if (!json_is_string(value)) {
            rc = err_fail(err, RC_REJECT, 0, "outbox event %zu: header \"%s\" is not a string",
                          number, name);
            break;
        }
    }
out:
    json_decref(object);
    return rc;
}

enum rc outbox_check(const struct outbox_event *events, size_t count, struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; i < count && rc == RC_OK; i++) {
        const struct outbox_event *event = &events[i];

        rc = check_text(event->aggregate_type, "aggregate_type", i, err);
        if (rc == RC_OK)
            rc = check_text(event->aggregate_id, "aggregate_id", i, err);
        if (rc == RC_OK)
            rc = check_text(event->type, "type", i, err);
        /* Events of one request share their headers. */
        if (rc == RC_OK && event->headers && (i == 0 || event->headers != events[i - 1].headers))
            rc = check_headers(event->headers, i, err);
    }
    return rc;
}

static void put_row(struct db *db, struct buf *sql, const struct outbox_event *event)
{
    char id[ID_TEXT_SIZE];

    id_format(&event->id, id);
    buf_text_put(sql, "('");
    buf_put(sql, id, ID_TEXT_SIZE - 1);
    buf_text_put(sql, "',");
    db_put_text(db, sql, event->aggregate_type, strlen(event->aggregate_type));
    buf_char(sql, ',');
    db_put_text(db, sql, event->aggregate_id, strlen(event->aggregate_id));
    buf_char(sql, ',');
    db_put_text(db, sql, event->type, strlen(event->type));
    buf_char(sql, ',');
    db_put_bytes(db, sql, event->payload, event->payload_len);
    buf_char(sql, ',');
    if (event->headers)
        db_put_text(db, sql, event->headers, strlen(event->headers));
    else
        buf_text_put(sql, "NULL");
    buf_char(sql, ')');
}

/* The table, or DATABASE.TABLE for a table in another database than the connection's. */
static void put_table(struct buf *sql, const char *table)
{
    const char *dot = strchr(table, '.');
    char database[OUTBOX_TEXT_BYTES_MAX + 1] = "";

    if (dot) {
        if ((size_t)(dot - table) < sizeof(database))
            memcpy(database, table, (size_t)(dot - table));
        db_put_name(sql, database);
        buf_char(sql, '.');
    }
    db_put_name(sql, dot ? dot + 1 : table);
}

/* Builds one INSERT of the first *taken events, at least one, as many as its size allows. */
static enum rc build_statement(struct db *db, struct buf *sql, const char *lane,
                               const struct outbox_event *events, size_t count, size_t *taken,
                               struct err *err)
{
    size_t limit = STATEMENT_BYTES;
    uint64_t packet = db_packet_bytes_max(db);

    if (packet > PACKET_SPARE_BYTES && packet - PACKET_SPARE_BYTES < limit)
        limit = (size_t)(packet - PACKET_SPARE_BYTES);
    buf_reset(sql);
    buf_text_put(sql, "INSERT INTO ");
    put_table(sql, lane);
    buf_text_put(sql, " (id, aggregatetype, aggregateid, type, payload, headers) VALUES ");
    if (sql->failed)
        return err_fail(err, RC_REJECT, 0, "\"%.80s\" is not the name of an outbox table", lane);

    for (*taken = 0; *taken < count; ++*taken) {
        size_t len = sql->len;

        if (*taken > 0)
            buf_char(sql, ',');
        put_row(db, sql, &events[*taken]);
        if (sql->failed || sql->len <= limit || *taken == 0)
            continue;
        buf_cut(sql, len);
        break;
    }
    if (sql->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for an INSERT into %s", lane);
    return RC_OK;
}

static enum rc check_statement(struct db *db, const struct buf *sql, size_t number, struct err *err)
{
    uint64_t packet = db_packet_bytes_max(db);

    if (packet == 0 || sql->len + PACKET_SPARE_BYTES <= packet)
        return RC_OK;
    return err_fail(
        err, RC_REJECT, 0,
        "outbox event %zu needs %zu bytes as SQL, but the server reads at most %llu: make "
        "the payload smaller or raise max_allowed_packet",
        number, sql->len, (unsigned long long)packet);
}

enum rc outbox_append(struct db *db, const char *lane, const struct outbox_event *events,
                      size_t count, struct err *err)
{
    struct buf sql = {0};
    size_t done = 0;
    enum rc rc = outbox_check(events, count, err);

    while (rc == RC_OK && done < count) {
        size_t taken = 0;

        rc = build_statement(db, &sql, lane, events + done, count - done, &taken, err);
        if (rc == RC_OK && taken == 1)
            rc = check_statement(db, &sql, done, err);
        if (rc == RC_OK)
            rc = outbox_explain_table(lane, db_exec(db, sql.data, sql.len, NULL, err), err);
        done += taken;
    }
    buf_done(&sql);
    return rc;
}
