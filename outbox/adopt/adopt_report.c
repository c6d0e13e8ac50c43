/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/adopt_report.h"

#include "common/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static void put_settings(struct buf *out, json_t *settings)
{
    const char *section;
    json_t *keys;

    json_object_foreach(settings, section, keys) {
        const char *key;
        json_t *value;

        buf_print(out, "[%s]\n", section);
        json_object_foreach(keys, key, value)
            buf_print(out, "%s =%s%s\n", key, *json_string_value(value) ? " " : "",
                      json_string_value(value));
        buf_char(out, '\n');
    }
}

static void put_findings(struct buf *out, const char *title, const json_t *list)
{
    const json_t *one;
    size_t i;

    json_array_foreach(list, i, one) {
        const char *value = json_string_value(json_object_get(one, "value"));

        buf_print(out, "%s %s", title, json_string_value(json_object_get(one, "option")));
        if (value)
            buf_print(out, " = %s", value);
        buf_print(out, ": %s\n", json_string_value(json_object_get(one, "text")));
    }
}

static void put_place(struct buf *out, struct stream_position *position)
{
    if (position->by_gtid)
        buf_print(out, "behind the transactions %s",
                  position->before.len > 0 ? buf_text(&position->before) : "(none)");
    else
        buf_print(out, "at file %s, offset %" PRIu64, position->file, position->offset);
    if (position->rows_done > 0)
        buf_print(out, ", and behind %" PRIu64 " rows of the next one", position->rows_done);
}

static void put_position(struct buf *out, const struct adopt_report *report)
{
    const char *lane = report->map->lane;

    if (!report->position) {
        buf_print(out, "position: %s: %s\n", report->looked ? "not found" : "not looked for",
                  report->why_not);
        return;
    }
    if (report->unchecked)
        buf_text_put(out, "note: it was not checked whether the connector is stopped, because "
                          "neither --connector nor --offsets is a URL: make sure that it is\n");
    buf_print(out, "position: lane %s %s ", lane, report->begun ? "begins" : "would begin");
    put_place(out, report->position);
    if (!report->begun) {
        buf_text_put(out, "; nothing is saved without --begin\n");
        return;
    }
    buf_print(out,
              "%s\nStart the relay now, and leave the connector stopped: both would publish the "
              "same rows. If the connector was killed and not stopped, the records that it sent "
              "after its last commit of offsets come again, with the same ids.\n",
              report->replaced ? ", in place of the position that it had" : "");
}

void adopt_report_put_text(struct buf *out, const struct adopt_report *report)
{
    const struct router_map *map = report->map;

    buf_print(out,
              "; the settings with which lane %s takes the place of connector %s (%s, %s.%s)\n",
              map->lane, report->connector->name[0] ? report->connector->name : "without a name",
              report->connector->mariadb ? "MariaDB" : "MySQL", map->database, map->table);
    put_settings(out, map->settings);
    put_findings(out, "differs:", map->differences);
    put_findings(out, "note:", map->notes);
    if (json_array_size(map->differences) == 0)
        buf_text_put(out,
                     "equal: the lane publishes the same records, but for what the notes say\n");
    put_position(out, report);
}

static void put_dump(struct buf *out, const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_COMPACT);

    buf_print(out, ", \"%s\": ", name);
    if (text)
        buf_text_put(out, text);
    else
        out->failed = true;
    free(text);
}

static void put_json_position(struct buf *out, struct stream_position *position)
{
    buf_text_put(out, "{\"gtids\": ");
    if (position->by_gtid)
        json_text_put(out, buf_text(&position->before));
    else
        buf_text_put(out, "null");
    buf_text_put(out, ", \"file\": ");
    json_text_put(out, position->file);
    buf_print(out, ", \"offset\": %" PRIu64 ", \"rowsDone\": %" PRIu64 "}", position->offset,
              position->rows_done);
}

void adopt_report_put_json(struct buf *out, const struct adopt_report *report)
{
    const struct router_map *map = report->map;

    buf_text_put(out, "{\"connector\": ");
    json_text_put(out, report->connector->name);
    buf_text_put(out, ", \"lane\": ");
    json_text_put(out, map->lane);
    buf_text_put(out, ", \"table\": ");
    json_text_put(out, map->table);
    buf_print(out, ", \"equal\": %s", json_array_size(map->differences) == 0 ? "true" : "false");
    put_dump(out, "settings", map->settings);
    put_dump(out, "differences", map->differences);
    put_dump(out, "notes", map->notes);
    buf_print(out, ", \"stateChecked\": %s",
              report->position && !report->unchecked ? "true" : "false");
    buf_text_put(out, ", \"position\": ");
    if (report->position)
        put_json_position(out, report->position);
    else
        buf_text_put(out, "null");
    buf_text_put(out, ", \"positionMissing\": ");
    if (report->position)
        buf_text_put(out, "null");
    else
        json_text_put(out, report->why_not);
    buf_print(out, ", \"begun\": %s, \"replaced\": %s}\n", report->begun ? "true" : "false",
              report->replaced ? "true" : "false");
}
