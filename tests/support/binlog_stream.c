/* SPDX-License-Identifier: MIT */
/* tallybox-binlog-stream: reads the binary log of a server as the relay does, and writes it to
 * standard output as a file of the server, for tests. The argument is a JSON object: host, port,
 * user, password, tls, serverId, heartbeat and silence in ms, untilEnd, eventBytesMax, and file
 * with offset, or gtids.
 *
 * Standard error ends with a line "rc=RC refusal=N events=N text". Exit code 0 at the end of the
 * log. */
#include "common/buf.h"
#include "common/config/settings.h"
#include "common/db/binlog_link.h"
#include "outbox/relay/binlog/gtid_set.h"
#include "tests/support/options.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fill_settings(struct mysql_settings *settings, const json_t *options)
{
    snprintf(settings->host, sizeof(settings->host), "%s", text_of(options, "host"));
    snprintf(settings->user, sizeof(settings->user), "%s", text_of(options, "user"));
    snprintf(settings->password, sizeof(settings->password), "%s", text_of(options, "password"));
    snprintf(settings->tls, sizeof(settings->tls), "%s", text_of(options, "tls"));
    settings->port = number_of(options, "port");
    settings->connect_timeout_ms = 5000;
}

static int print_events(struct binlog_link *link, uint64_t *count, struct err *err)
{
    const void *event = NULL;
    size_t len = 0;
    enum rc rc;

    while ((rc = binlog_link_next(link, &event, &len, err)) == RC_OK && event) {
        fwrite(event, 1, len, stdout);
        if (!binlog_link_ready(link))
            fflush(stdout);
        (*count)++;
    }
    return (int)rc;
}

int main(int argc, char **argv)
{
    static struct mysql_settings settings;
    json_t *options = argc == 2 ? json_loads(argv[1], 0, NULL) : NULL;
    const char *gtids = json_string_value(json_object_get(options, "gtids"));
    struct binlog_start start = {
        .server_id = (uint32_t)number_of(options, "serverId"),
        .file = gtids ? NULL : text_of(options, "file"),
        .offset = (uint64_t)number_of(options, "offset"),
        .gtid_text = gtids,
        .heartbeat_ms = number_of(options, "heartbeat"),
        .silence_ms = number_of(options, "silence"),
        .event_bytes_max = (uint64_t)number_of(options, "eventBytesMax"),
        .until_end = json_is_true(json_object_get(options, "untilEnd")),
    };
    struct binlog_link *link = NULL;
    enum binlog_refusal refusal = BINLOG_REFUSAL_NONE;
    struct gtid_set set = {0};
    struct buf bytes = {0};
    struct err err = {0};
    uint64_t count = 0;
    enum rc rc = RC_OK;

    if (!options)
        return 2;
    fill_settings(&settings, options);
    if (gtids && !strchr(gtids, ':') && gtids[0])
        rc = gtid_set_parse_mariadb(&set, gtids, &err);
    else if (gtids)
        rc = gtid_set_parse_mysql(&set, gtids, &err);
    gtid_set_put_bytes(&set, &bytes);
    start.gtid_bytes = bytes.data;
    start.gtid_bytes_len = bytes.len;
    fwrite("\xfe"
           "bin",
           1, 4, stdout);
    fflush(stdout);
    if (rc == RC_OK)
        rc = binlog_link_open(&link, &settings, &start, NULL, NULL, &err);
    if (rc == RC_OK) {
        rc = (enum rc)print_events(link, &count, &err);
        refusal = binlog_link_refusal(link);
    }
    fflush(stdout);
    fprintf(stderr, "rc=%s refusal=%d events=%llu %s\n", rc_name(rc), (int)refusal,
            (unsigned long long)count, err.text);
    binlog_link_close(link);
    gtid_set_done(&set);
    buf_done(&bytes);
    json_decref(options);
    return rc == RC_OK ? 0 : 1;
}
