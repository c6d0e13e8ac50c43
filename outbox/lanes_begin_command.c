/* SPDX-License-Identifier: MIT */
#include "outbox/lanes_begin_command.h"

#include "common/options.h"
#include "common/text.h"
#include "outbox/relay/stream/position_store_mysql.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define GTIDS_SHOWN_BYTES 120

static const struct lane_settings *find_lane(const struct settings *settings, const char *name)
{
    for (size_t i = 0; i < settings->lane_count; i++)
        if (strcmp(settings->lanes[i].name, name) == 0)
            return &settings->lanes[i];
    return NULL;
}

static enum rc check_lane(const struct lane_settings *lane, const char *name, struct err *err)
{
    if (!lane)
        return err_fail(err, RC_REJECT, 0, "%.64s is not in relay.lanes", name);
    if (strcmp(lane->source, LANE_SOURCE_BINLOG) != 0)
        return err_fail(err, RC_REJECT, 0,
                        "lane %s reads its table, not the binary log: set lane.%s.source = binlog "
                        "first",
                        name, name);
    return RC_OK;
}

static void put_text(struct buf *out, const struct lane_settings *lane,
                     const struct position_begun *begun)
{
    const struct stream_position *position = &begun->position;
    char gtids[GTIDS_SHOWN_BYTES];

    buf_print(out, "lane %s begins at the present end of the binary log, ", lane->name);
    if (position->by_gtid) {
        snprintf(gtids, sizeof(gtids), "%.*s", (int)position->before.len,
                 position->before.len > 0 ? position->before.data : "");
        text_cut(gtids, sizeof(gtids), position->before.len);
        buf_print(out, "behind the transactions %s", gtids[0] ? gtids : "(none)");
    } else {
        buf_print(out, "file %s, offset %" PRIu64, position->file, position->offset);
    }
    buf_print(out, "%s; the rows that table %s has so far count as published\n",
              begun->replaced ? ", in place of the position that it had" : "", lane->table);
}

static void put_json(struct buf *out, const struct lane_settings *lane,
                     struct position_begun *begun)
{
    struct stream_position *position = &begun->position;

    buf_text_put(out, "{\"lane\": ");
    json_text_put(out, lane->name);
    buf_text_put(out, ", \"table\": ");
    json_text_put(out, lane->table);
    buf_print(out, ", \"replaced\": %s, \"gtids\": ", begun->replaced ? "true" : "false");
    if (position->by_gtid)
        json_text_put(out, buf_text(&position->before));
    else
        buf_text_put(out, "null");
    buf_text_put(out, ", \"file\": ");
    if (position->file[0])
        json_text_put(out, position->file);
    else
        buf_text_put(out, "null");
    if (position->file[0])
        buf_print(out, ", \"offset\": %" PRIu64 "}\n", position->offset);
    else
        buf_text_put(out, ", \"offset\": null}\n");
}

int lanes_begin_at_end(const struct settings *settings, const char *name, bool may_replace,
                       bool json)
{
    const struct lane_settings *lane = find_lane(settings, name);
    struct position_store_mysql store = {0};
    struct position_begun begun = {0};
    struct buf out = {0};
    struct err err = {0};
    enum rc rc = check_lane(lane, name, &err);

    if (rc == RC_OK)
        rc = position_store_mysql_open(&store, lane, "", NULL, settings, &err);
    if (rc == RC_OK)
        rc = position_store_mysql_begin_at_end(&store, may_replace, &begun, &err);
    if (rc == RC_OK && json)
        put_json(&out, lane, &begun);
    else if (rc == RC_OK)
        put_text(&out, lane, &begun);
    position_store_mysql_close(&store);
    buf_done(&begun.position.before);
    return rc == RC_OK ? options_print(&out) : options_fail(rc, &err);
}
