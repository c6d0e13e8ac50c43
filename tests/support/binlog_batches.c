/* SPDX-License-Identifier: MIT */
/* tallybox-binlog-batches: reads the rows of an outbox table from the binary log of a server in
 * batches, as a lane does, for tests. The argument is a JSON object: host, port, user, schema,
 * table, columns (of the fields), serverId, batchRows, batchBytes, rowsEnough, batchesMax (0: no
 * bound), quiet, and position, as it was printed.
 *
 * Prints a JSON object for each batch: rows, an array of [seq, length of the payload] (with quiet
 * their number), and position. Ends at the end of the log with "end" and the peak of its memory in
 * MiB. Exit code 1 with the reason on standard error. */
#include "common/config/settings.h"
#include "outbox/relay/stream/stream_batches.h"
#include "outbox/relay/stream/stream_mysql.h"
#include "tests/support/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW_BYTES_MAX 1000000
#define HEARTBEAT_MS 1000
#define SILENCE_MS 60000

static const char *const field_names[OUTBOX_FIELDS] = {
    "seq", "id", "aggregatetype", "aggregateid", "type", "payload", "headers", "created_at"};

static struct mysql_settings settings;
static const char *columns[OUTBOX_FIELDS];

static void read_position(struct stream_position *position, const json_t *from)
{
    position->by_gtid = json_is_true(json_object_get(from, "byGtid"));
    buf_text_put(&position->before, text_of(from, "before"));
    snprintf(position->file, sizeof(position->file), "%s", text_of(from, "file"));
    position->offset = (uint64_t)number_of(from, "offset");
    snprintf(position->gtid, sizeof(position->gtid), "%s", text_of(from, "gtid"));
    position->rows_done = (uint64_t)number_of(from, "rowsDone");
}

static json_t *position_json(struct stream_position *position)
{
    return json_pack("{s:b, s:s, s:s, s:I, s:s, s:I}", "byGtid", position->by_gtid, "before",
                     buf_text(&position->before), "file", position->file, "offset",
                     (json_int_t)position->offset, "gtid", position->gtid, "rowsDone",
                     (json_int_t)position->rows_done);
}

static json_t *rows_json(const struct relay_batch *batch, bool quiet)
{
    json_t *rows = json_array();

    if (quiet) {
        json_decref(rows);
        return json_integer((json_int_t)batch->count);
    }
    for (size_t i = 0; i < batch->count; i++)
        json_array_append_new(rows, json_pack("[I, I]", (json_int_t)batch->rows[i].table_seq,
                                              (json_int_t)batch->rows[i].payload.len));
    return rows;
}

static void print_batch(const struct relay_batch *batch, struct stream_position *position,
                        bool quiet)
{
    json_t *line = json_pack("{s:o, s:o}", "rows", rows_json(batch, quiet), "position",
                             position_json(position));

    json_dumpf(line, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(line);
}

static enum rc print_batches(struct stream_mysql *stream, const json_t *options, struct err *err)
{
    struct stream_ops ops = stream_mysql_ops(stream);
    size_t rows_max = (size_t)number_of(options, "batchRows");
    size_t bytes = (size_t)number_of(options, "batchBytes");
    size_t rows_enough = (size_t)number_of(options, "rowsEnough");
    int64_t batches_max = number_of(options, "batchesMax");
    bool quiet = json_is_true(json_object_get(options, "quiet"));
    struct stream_batches batches = {0};
    struct relay_batch batch = {0};
    struct stream_position position = {0};
    bool more = true;
    enum rc rc = relay_batch_init(&batch, rows_max, bytes, err);

    if (rc == RC_OK)
        rc = stream_batches_init(&batches, &ops, rows_max, bytes, err);
    read_position(&position, json_object_get(options, "position"));
    if (rc == RC_OK)
        rc = stream_batches_open(&batches, &position, err);
    while (rc == RC_OK && (more || !stream_mysql_has_ended(stream))) {
        rc = stream_batches_fill(&batches, &batch, rows_enough, &position, &more, err);
        if (rc == RC_OK && batch.count > 0)
            print_batch(&batch, &position, quiet);
        if (rc == RC_OK && batch.count > 0 && --batches_max == 0)
            break;
    }
    if (rc == RC_OK) {
        relay_batch_reset(&batch);
        print_batch(&batch, &position, quiet);
    }
    stream_batches_done(&batches);
    relay_batch_done(&batch);
    buf_done(&position.before);
    return rc;
}

/* The largest memory in MiB. ru_maxrss would be that of the parent if it was larger when it made
 * this process. */
static long peak_mib(void)
{
    FILE *status = fopen("/proc/self/status", "r");
    char line[128];
    long kib = 0;

    while (status && fgets(line, sizeof(line), status))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kib = strtol(line + 6, NULL, 10);
    if (status)
        fclose(status);
    return kib / 1024;
}

int main(int argc, char **argv)
{
    json_t *options = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    struct stream_mysql_options given = {
        .mysql = &settings,
        .schema = text_of(options, "schema"),
        .table = text_of(options, "table"),
        .columns = columns,
        .bounds = {ROW_BYTES_MAX, ROW_BYTES_MAX},
        .server_id = (uint32_t)number_of(options, "serverId"),
        .heartbeat_ms = HEARTBEAT_MS,
        .silence_ms = SILENCE_MS,
        .until_end = true,
    };
    struct stream_mysql *stream = NULL;
    struct err err = {0};
    enum rc rc;

    if (!options) {
        fprintf(stderr, "usage: tallybox-binlog-batches OPTIONS\n");
        return 2;
    }
    snprintf(settings.host, sizeof(settings.host), "%s", text_of(options, "host"));
    snprintf(settings.user, sizeof(settings.user), "%s", text_of(options, "user"));
    snprintf(settings.tls, sizeof(settings.tls), "off");
    settings.port = number_of(options, "port");
    settings.connect_timeout_ms = settings.query_timeout_ms = 30000;
    for (size_t i = 0; i < OUTBOX_FIELDS; i++)
        columns[i] =
            json_string_value(json_object_get(json_object_get(options, "columns"), field_names[i]));
    rc = stream_mysql_make(&stream, &given, &err);
    if (rc == RC_OK)
        rc = print_batches(stream, options, &err);
    if (rc != RC_OK)
        fprintf(stderr, "rc=%s refusal=%d %s\n", rc_name(rc),
                stream ? (int)stream_mysql_refusal(stream) : 0, err.text);
    stream_mysql_free(stream);
    if (rc == RC_OK)
        printf("{\"end\": %ld}\n", peak_mib());
    json_decref(options);
    return rc == RC_OK ? 0 : 1;
}
