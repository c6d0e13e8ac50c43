/* SPDX-License-Identifier: MIT */
/* tallybox-diverter-moves: moves rows of a stream lane into the retry queue with the relay's
 * adapter, in one call, for tests. The argument is a JSON object: host, port, user, database,
 * table, owner and epoch of the lease, source (relay.ce_source), rowBytesMax, and moves, an array
 * of objects: seq, topic, id, aggregateId, payload (hexadecimal; null: NULL), type, headers (text),
 * createdMs, reason, and cut, the size of a row whose payload was left out.
 *
 * Prints a JSON object: rc, fenced, text. */
#include "common/config/settings.h"
#include "outbox/relay/deleter_mysql.h"
#include "outbox/relay/diverter_mysql.h"
#include "outbox/relay/origin_mysql.h"
#include "tests/support/options.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOVES_MAX 100

static struct settings settings;
static struct lane_settings lane;
static struct relay_move moves[MOVES_MAX];
static struct relay_row rows[MOVES_MAX];

/* The process frees the bytes when it ends. */
static struct bytes bytes_of(const json_t *object, const char *name)
{
    const char *hex = json_string_value(json_object_get(object, name));
    size_t len = hex ? strlen(hex) / 2 : 0;
    char *data = hex ? malloc(len + 1) : NULL;

    for (size_t i = 0; data && i < len; i++) {
        const char digits[] = {hex[2 * i], hex[2 * i + 1], '\0'};

        data[i] = (char)strtoul(digits, NULL, 16);
    }
    return (struct bytes){data, data ? len : 0};
}

static struct bytes bytes_of_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return (struct bytes){text, text ? strlen(text) : 0};
}

static void read_move(struct relay_move *move, struct relay_row *row, const json_t *from)
{
    row->seq = row->table_seq = number_of(from, "seq");
    row->created_ms =
        json_object_get(from, "createdMs") ? number_of(from, "createdMs") : ROW_CREATED_UNKNOWN;
    row->id = bytes_of(from, "id");
    row->aggregate_id = bytes_of(from, "aggregateId");
    row->payload = bytes_of(from, "payload");
    row->type = bytes_of_text(from, "type");
    row->headers = bytes_of_text(from, "headers");
    row->headers_size = row->headers.len;
    row->size = row->aggregate_id.len + row->payload.len;
    if (json_object_get(from, "cut")) {
        row->oversize = row->cut = true;
        row->size = (uint64_t)number_of(from, "cut");
    }
    move->seq = row->seq;
    move->row = row;
    move->topic = text_of(from, "topic");
    ordering_key_make_text(move->ordering_key, move->topic, row->aggregate_id);
    snprintf(move->reason, sizeof(move->reason), "%.255s", text_of(from, "reason"));
    move->term = (uint64_t)number_of(from, "term");
}

static void read_settings(const json_t *options)
{
    struct mysql_settings *mysql = &settings.mysql;

    snprintf(mysql->host, sizeof(mysql->host), "%s", text_of(options, "host"));
    snprintf(mysql->user, sizeof(mysql->user), "%s", text_of(options, "user"));
    snprintf(mysql->database, sizeof(mysql->database), "%s", text_of(options, "database"));
    snprintf(mysql->tls, sizeof(mysql->tls), "off");
    mysql->port = number_of(options, "port");
    mysql->connect_timeout_ms = mysql->query_timeout_ms = 30000;
    settings.relay.lease_ms = 30000;
    snprintf(settings.relay.ce_source, sizeof(settings.relay.ce_source), "%s",
             text_of(options, "source"));
    snprintf(lane.name, sizeof(lane.name), "%s", text_of(options, "table"));
    snprintf(lane.table, sizeof(lane.table), "%s", text_of(options, "table"));
    snprintf(lane.exactly_once, sizeof(lane.exactly_once), "%s", text_of(options, "exact"));
    snprintf(lane.transactional_id, sizeof(lane.transactional_id), "lane-id");
}

static void ignore_change(void *ctx, const struct err *why)
{
    (void)ctx;
    (void)why;
}

static enum rc move_all(const json_t *options, size_t count, bool *fenced, struct err *err)
{
    struct origin_mysql origin = {0};
    struct deleter_mysql deleter = {0};
    struct diverter_mysql diverter = {0};
    struct diverter_ops ops;
    enum rc rc;

    origin_mysql_init(&origin, ignore_change, NULL);
    rc = deleter_mysql_open(&deleter, &lane, text_of(options, "owner"), &origin, &settings, err);
    if (rc == RC_OK) {
        diverter_mysql_open(&diverter, &lane, &deleter, &settings);
        ops = diverter_mysql_ops(&diverter);
        rc = ops.move_rows(ops.ctx, moves, count, number_of(options, "epoch"), fenced, err);
    }
    diverter_mysql_close(&diverter);
    deleter_mysql_close(&deleter);
    origin_mysql_done(&origin);
    return rc;
}

int main(int argc, char **argv)
{
    json_t *options = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    const json_t *given = json_object_get(options, "moves");
    size_t count = json_array_size(given);
    struct err err = {0};
    bool fenced = false;
    json_t *line;
    enum rc rc;

    if (!options || count > MOVES_MAX) {
        fprintf(stderr, "usage: tallybox-diverter-moves OPTIONS\n");
        return 2;
    }
    read_settings(options);
    for (size_t i = 0; i < count; i++)
        read_move(&moves[i], &rows[i], json_array_get(given, i));
    rc = move_all(options, count, &fenced, &err);
    line = json_pack("{s:s, s:b, s:s}", "rc", rc_name(rc), "fenced", fenced, "text",
                     rc == RC_OK ? "" : err.text);
    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(line);
    json_decref(options);
    return 0;
}
