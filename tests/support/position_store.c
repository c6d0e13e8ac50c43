/* SPDX-License-Identifier: MIT */
/* tallybox-position-store: the position of a lane in its table, as a process of its own for tests.
 * The argument is a JSON object: host, port, user, password, database, lane, table, owner. Each
 * line of standard input is a JSON object whose "do" is load, save (with position, epoch, seqs and
 * ids) or begin; each answer is a line with "rc", "error" and the results of the call. */
#include "common/config/settings.h"
#include "outbox/relay/stream/position_store_mysql.h"
#include "tests/support/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEQS_MAX 200000
#define IDS_MAX 30000

static struct settings settings;
static struct lane_settings lane;

static void read_position(struct stream_position *position, const json_t *from)
{
    position->by_gtid = json_is_true(json_object_get(from, "byGtid"));
    buf_reset(&position->before);
    buf_text_put(&position->before, text_of(from, "before"));
    snprintf(position->file, sizeof(position->file), "%s", text_of(from, "file"));
    position->offset = strtoull(text_of(from, "offset"), NULL, 10);
    snprintf(position->gtid, sizeof(position->gtid), "%s", text_of(from, "gtid"));
    position->rows_done = strtoull(text_of(from, "rowsDone"), NULL, 10);
}

/* Numbers of 64 bits without a sign are texts. */
static json_t *position_json(struct stream_position *position)
{
    char offset[24];
    char rows_done[24];

    snprintf(offset, sizeof(offset), "%llu", (unsigned long long)position->offset);
    snprintf(rows_done, sizeof(rows_done), "%llu", (unsigned long long)position->rows_done);
    return json_pack("{s:b, s:s, s:s, s:s, s:s, s:s}", "byGtid", position->by_gtid, "before",
                     buf_text(&position->before), "file", position->file, "offset", offset, "gtid",
                     position->gtid, "rowsDone", rows_done);
}

/* seqs is [[from, to], ...], or missing. */
static size_t read_seqs(int64_t seqs[SEQS_MAX], const json_t *ranges)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(ranges); i++) {
        const json_t *range = json_array_get(ranges, i);
        int64_t to = json_integer_value(json_array_get(range, 1));

        for (int64_t seq = json_integer_value(json_array_get(range, 0));
             seq <= to && count < SEQS_MAX; seq++)
            seqs[count++] = seq;
    }
    return count;
}

/* ids is [text, ...], or missing. */
static size_t read_ids(struct published_id ids[IDS_MAX], const json_t *texts)
{
    size_t count = 0;

    for (size_t i = 0; i < json_array_size(texts) && count < IDS_MAX; i++) {
        const json_t *text = json_array_get(texts, i);

        count += published_id_set(
            &ids[count], (struct bytes){json_string_value(text), json_string_length(text)});
    }
    return count;
}

static json_t *run_request(const struct position_store *store, const json_t *request)
{
    static struct stream_position position; /* its memory is used again */
    const char *what = text_of(request, "do");
    struct err err = {0};
    bool flag = false;
    enum rc rc;

    if (strcmp(what, "save") == 0) {
        static int64_t seqs[SEQS_MAX];
        static struct published_id ids[IDS_MAX];
        struct done_rows rows = {.seqs = seqs, .ids = ids};
        struct stream_position saved = {0};

        read_position(&saved, json_object_get(request, "position"));
        rows.seq_count = read_seqs(seqs, json_object_get(request, "seqs"));
        rows.id_count = read_ids(ids, json_object_get(request, "ids"));
        rc = store->save(store->ctx, &saved, &rows, number_of(request, "epoch"), &flag, &err);
        buf_done(&saved.before);
        return json_pack("{s:s, s:s, s:b}", "rc", rc_name(rc), "error", err.text, "fenced", flag);
    }
    if (strcmp(what, "risk") == 0) {
        struct stream_position looked_at = {0};
        struct err risk = {0};

        read_position(&looked_at, json_object_get(request, "position"));
        looked_at.time_s = number_of(request, "time");
        rc = store->find_risk(store->ctx, &looked_at, &risk, &err);
        buf_done(&looked_at.before);
        return json_pack("{s:s, s:s, s:s}", "rc", rc_name(rc), "error", err.text, "risk",
                         risk.text);
    }
    rc = strcmp(what, "load") == 0 ? store->load(store->ctx, &position, &flag, &err)
                                   : store->begin(store->ctx, &position, &err);
    return json_pack("{s:s, s:s, s:b, s:o}", "rc", rc_name(rc), "error", err.text, "found", flag,
                     "position", position_json(&position));
}

static void run_requests(const struct position_store *store)
{
    json_t *request;

    while ((request = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL))) {
        json_t *answer = run_request(store, request);

        json_dumpf(answer, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
        json_decref(answer);
        json_decref(request);
    }
}

int main(int argc, char **argv)
{
    json_t *options = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    struct mysql_settings *mysql = &settings.mysql;
    struct position_store_mysql store = {0};
    struct err err = {0};
    enum rc rc;

    if (!options) {
        fprintf(stderr, "usage: tallybox-position-store OPTIONS\n");
        return 2;
    }
    snprintf(mysql->host, sizeof(mysql->host), "%s", text_of(options, "host"));
    snprintf(mysql->user, sizeof(mysql->user), "%s", text_of(options, "user"));
    snprintf(mysql->password, sizeof(mysql->password), "%s", text_of(options, "password"));
    snprintf(mysql->database, sizeof(mysql->database), "%s", text_of(options, "database"));
    snprintf(mysql->tls, sizeof(mysql->tls), "auto");
    mysql->port = number_of(options, "port");
    mysql->connect_timeout_ms = mysql->query_timeout_ms = 30000;
    settings.relay.lease_ms = 15000;
    snprintf(lane.name, sizeof(lane.name), "%s", text_of(options, "lane"));
    snprintf(lane.table, sizeof(lane.table), "%s", text_of(options, "table"));
    snprintf(lane.empty_payload, sizeof(lane.empty_payload), "%s", LANE_EMPTY_VALUE);
    rc = position_store_mysql_open(&store, &lane, text_of(options, "owner"), NULL, &settings, &err);
    if (rc == RC_OK) {
        const struct position_store ops = position_store_mysql_ops(&store);

        run_requests(&ops);
    } else {
        fprintf(stderr, "rc=%s %s\n", rc_name(rc), err.text);
    }
    position_store_mysql_close(&store);
    json_decref(options);
    return rc == RC_OK ? 0 : 1;
}
