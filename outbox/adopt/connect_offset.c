/* SPDX-License-Identifier: MIT */
#include "outbox/adopt/connect_offset.h"

#include "common/text.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

void connect_offset_done(struct connect_offset *offset)
{
    buf_done(&offset->gtids);
}

/* Servers write line ends between the parts of a set. */
static enum rc take_gtids(struct connect_offset *offset, const char *text, struct err *err)
{
    for (; *text; text++)
        if (*text != '\n' && *text != '\r')
            buf_char(&offset->gtids, *text);
    offset->by_gtid = offset->gtids.len > 0;
    return offset->gtids.failed ? err_fail(err, RC_FATAL, 0, "no memory for GTIDs") : RC_OK;
}

static enum rc take_number(const json_t *object, const char *name, uint64_t *number,
                           struct err *err)
{
    const json_t *value = json_object_get(object, name);

    *number = 0;
    if (!value || json_is_null(value))
        return RC_OK;
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return err_fail(err, RC_REJECT, 0, "the offset's \"%s\" is not a number from 0 on", name);
    *number = (uint64_t)json_integer_value(value);
    return RC_OK;
}

static enum rc take_text(const json_t *object, const char *name, const char **text, struct err *err)
{
    const json_t *value = json_object_get(object, name);

    *text = "";
    if (!value || json_is_null(value))
        return RC_OK;
    if (!json_is_string(value))
        return err_fail(err, RC_REJECT, 0, "the offset's \"%s\" is not a text", name);
    *text = json_string_value(value);
    return RC_OK;
}

/* Older connectors write true, newer ones the kind of the snapshot. */
static enum rc check_snapshot(const json_t *object, struct err *err)
{
    const json_t *value = json_object_get(object, "snapshot");

    if (!value || json_is_null(value) || json_is_false(value))
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "the connector has not finished its snapshot: start it, let it publish one row "
                    "that was written after the snapshot, and stop it again");
}

static enum rc take_place(struct connect_offset *offset, const json_t *object, struct err *err)
{
    const char *file = "";
    const char *gtids = "";
    uint64_t time_s = 0;
    enum rc rc = take_text(object, "file", &file, err);

    if (rc == RC_OK)
        rc = take_text(object, "gtids", &gtids, err);
    if (rc == RC_OK)
        rc = take_number(object, "pos", &offset->pos, err);
    if (rc == RC_OK)
        rc = take_number(object, "event", &offset->event, err);
    if (rc == RC_OK)
        rc = take_number(object, "row", &offset->row, err);
    if (rc == RC_OK)
        rc = take_number(object, "server_id", &offset->server_id, err);
    if (rc == RC_OK)
        rc = take_number(object, "ts_sec", &time_s, err);
    if (rc != RC_OK)
        return rc;
    if (strlen(file) >= sizeof(offset->file))
        return err_fail(err, RC_REJECT, 0, "the offset's \"file\" has %zu bytes", strlen(file));
    snprintf(offset->file, sizeof(offset->file), "%s", file);
    offset->time_s = (int64_t)time_s;
    return take_gtids(offset, gtids, err);
}

static enum rc take_offset(struct connect_offset *offset, const json_t *object, struct err *err)
{
    enum rc rc;

    if (!json_is_object(object))
        return err_fail(err, RC_REJECT, 0, "the offset is not a JSON object");
    rc = check_snapshot(object, err);
    if (rc == RC_OK)
        rc = take_place(offset, object, err);
    if (rc != RC_OK)
        return rc;
    if (!offset->by_gtid && (!offset->file[0] || offset->pos == 0))
        return err_fail(err, RC_REJECT, 0,
                        "the offset has neither \"gtids\" nor \"file\" and \"pos\": it is not that "
                        "of a connector for MySQL or MariaDB");
    if (offset->row > 0 && offset->event == 0)
        return err_fail(err, RC_REJECT, 0,
                        "the offset has \"row\" without \"event\", as inside of an XA transaction: "
                        "start the connector, let it publish a row of another transaction, and "
                        "stop it again");
    return RC_OK;
}

static json_t *parse_json(const char *text, size_t len, struct err *err)
{
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);

    if (len == 0)
        err_set(err, "the file with the offsets is empty");
    else if (!root)
        err_set(err, "the offsets are not JSON: line %d: %.150s", error.line, error.text);
    return root;
}

static const json_t *find_partition(const json_t *offsets, const char *prefix, size_t *others)
{
    const json_t *one;
    size_t i;

    *others = json_array_size(offsets);
    json_array_foreach(offsets, i, one) {
        const json_t *server = json_object_get(json_object_get(one, "partition"), "server");

        if (json_is_string(server) && strcmp(json_string_value(server), prefix) == 0)
            return json_object_get(one, "offset");
    }
    return NULL;
}

enum rc connect_offset_parse(struct connect_offset *offset, const char *text, size_t len,
                             const char *prefix, struct err *err)
{
    json_t *root = parse_json(text, len, err);
    const json_t *offsets = json_object_get(root, "offsets");
    const json_t *found = NULL;
    size_t others = 0;
    enum rc rc = RC_REJECT;

    if (!root)
        return RC_REJECT;
    if (json_is_array(offsets))
        found = find_partition(offsets, prefix, &others);
    if (!json_is_array(offsets))
        err_set(err, "no offsets: expected {\"offsets\": [...]}, as GET /connectors/NAME/offsets "
                     "answers");
    else if (!found || json_is_null(found))
        err_set(err,
                "no offset of the server \"%.100s\" (topic.prefix) among %zu: the connector has "
                "stored none. Let it run until it has published a row and its "
                "offset.flush.interval.ms is over, then stop it",
                prefix, others);
    else
        rc = take_offset(offset, found, err);
    json_decref(root);
    return rc;
}

enum rc connect_offset_parse_value(struct connect_offset *offset, const char *text, size_t len,
                                   struct err *err)
{
    json_t *root = parse_json(text, len, err);
    enum rc rc = root ? take_offset(offset, root, err) : RC_REJECT;

    json_decref(root);
    return rc;
}

bool connect_offset_is_key(const void *key, size_t len, const char *connector, const char *prefix)
{
    json_t *root = key ? json_loadb(key, len, 0, NULL) : NULL;
    const json_t *name = json_array_get(root, 0);
    const json_t *server = json_object_get(json_array_get(root, 1), "server");
    bool same = json_is_string(name) && json_is_string(server) &&
                strcmp(json_string_value(name), connector) == 0 &&
                strcmp(json_string_value(server), prefix) == 0;

    json_decref(root);
    return same;
}

void connect_offset_put(struct buf *out, struct connect_offset *offset, const char *prefix)
{
    buf_text_put(out, "{\"offsets\": [{\"partition\": {\"server\": ");
    json_text_put(out, prefix);
    buf_text_put(out, "}, \"offset\": {\"file\": ");
    json_text_put(out, offset->file);
    buf_print(out, ", \"pos\": %" PRIu64, offset->pos);
    if (offset->gtids.len > 0) {
        buf_text_put(out, ", \"gtids\": ");
        json_text_put(out, buf_text(&offset->gtids));
    }
    if (offset->event > 0)
        buf_print(out, ", \"event\": %" PRIu64, offset->event);
    if (offset->row > 0)
        buf_print(out, ", \"row\": %" PRIu64, offset->row);
    if (offset->server_id > 0)
        buf_print(out, ", \"server_id\": %" PRIu64, offset->server_id);
    if (offset->time_s > 0)
        buf_print(out, ", \"ts_sec\": %" PRId64, offset->time_s);
    buf_text_put(out, "}}]}");
}
