/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/event.h"

#include "outbox/relay/binlog/checksum.h"
#include "outbox/relay/binlog/cursor.h"
#include "outbox/relay/binlog/expand.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

#define FORMAT_VERSION 4
#define TABLE_MAP_HEADER_SIZE 8 /* id of the table and flags */
#define SERVER_VERSION_SIZE 50
#define CHECKSUM_NONE 0
#define CHECKSUM_CRC32 1
#define FLAGS_AT 17 /* in the header */
#define FLAG_IN_USE 0x01

/* Of a tagged GTID. */
#define SERIALIZATION_VERSION 1

enum field {
    FIELD_FLAGS = 0,
    FIELD_UUID = 1,
    FIELD_SEQUENCE = 2,
    FIELD_TAG = 3,
};

/* MariaDB's flags of a GTID. */
#define GTID_STANDALONE 0x01
#define GTID_DDL 0x20
#define GTID_PREPARED_XA 0x40
#define GTID_COMPLETED_XA 0x80

static const struct type_name {
    uint8_t type;
    const char *name;
} names[] = {
    {BINLOG_QUERY, "Query"},
    {BINLOG_STOP, "Stop"},
    {BINLOG_ROTATE, "Rotate"},
    {BINLOG_INTVAR, "Intvar"},
    {BINLOG_RAND, "RAND"},
    {BINLOG_USER_VAR, "User var"},
    {BINLOG_FORMAT, "Format_desc"},
    {BINLOG_XID, "Xid"},
    {BINLOG_BEGIN_LOAD_QUERY, "Begin_load_query"},
    {BINLOG_EXECUTE_LOAD_QUERY, "Execute_load_query"},
    {BINLOG_TABLE_MAP, "Table_map"},
    {BINLOG_WRITE_ROWS_1, "Write_rows_v1"},
    {BINLOG_UPDATE_ROWS_1, "Update_rows_v1"},
    {BINLOG_DELETE_ROWS_1, "Delete_rows_v1"},
    {BINLOG_INCIDENT, "Incident"},
    {BINLOG_HEARTBEAT, "Heartbeat"},
    {BINLOG_IGNORABLE, "Ignorable"},
    {BINLOG_ROWS_QUERY, "Rows_query"},
    {BINLOG_WRITE_ROWS, "Write_rows"},
    {BINLOG_UPDATE_ROWS, "Update_rows"},
    {BINLOG_DELETE_ROWS, "Delete_rows"},
    {BINLOG_GTID, "Gtid"},
    {BINLOG_ANONYMOUS_GTID, "Anonymous_Gtid"},
    {BINLOG_PREVIOUS_GTIDS, "Previous_gtids"},
    {BINLOG_TRANSACTION_CONTEXT, "Transaction_context"},
    {BINLOG_VIEW_CHANGE, "View_change"},
    {BINLOG_XA_PREPARE, "XA_prepare"},
    {BINLOG_PARTIAL_UPDATE_ROWS, "Update_rows_partial"},
    {BINLOG_TRANSACTION_PAYLOAD, "Transaction_payload"},
    {BINLOG_HEARTBEAT_2, "Heartbeat_v2"},
    {BINLOG_GTID_TAGGED, "Gtid_tagged"},
    {BINLOG_ANNOTATE_ROWS, "Annotate_rows"},
    {BINLOG_CHECKPOINT, "Binlog_checkpoint"},
    {BINLOG_MARIADB_GTID, "Gtid"},
    {BINLOG_MARIADB_GTID_LIST, "Gtid_list"},
    {BINLOG_START_ENCRYPTION, "Start_encryption"},
    {BINLOG_QUERY_COMPRESSED, "Query_compressed"},
    {BINLOG_WRITE_ROWS_COMPRESSED_1, "Write_rows_compressed_v1"},
    {BINLOG_UPDATE_ROWS_COMPRESSED_1, "Update_rows_compressed_v1"},
    {BINLOG_DELETE_ROWS_COMPRESSED_1, "Delete_rows_compressed_v1"},
    {BINLOG_WRITE_ROWS_COMPRESSED, "Write_rows_compressed"},
    {BINLOG_UPDATE_ROWS_COMPRESSED, "Update_rows_compressed"},
    {BINLOG_DELETE_ROWS_COMPRESSED, "Delete_rows_compressed"},
    {BINLOG_PARTIAL_ROW_DATA, "Partial_row_data"},
};

const char *binlog_type_name(unsigned type)
{
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (names[i].type == type)
            return names[i].name;
    return "unknown";
}

/* "Gtid event (33) of 65 bytes ..." */
static enum rc fail_event(struct err *err, const struct binlog_event *event, const char *what)
{
    return err_fail(err, RC_FATAL, 0, "binlog: a %s event (%u) with a body of %zu bytes %s",
                    binlog_type_name(event->type), event->type, event->body_len, what);
}

/* While a file is written its first event has a flag set that its checksum leaves out. */
static uint32_t checksum_of(const struct binlog_event *event, const uint8_t *bytes, size_t len)
{
    uint8_t flags = bytes[FLAGS_AT] & (uint8_t)~FLAG_IN_USE;
    uint32_t sum;

    if (event->type != BINLOG_FORMAT)
        return binlog_checksum(0, bytes, len);
    sum = binlog_checksum(0, bytes, FLAGS_AT);
    sum = binlog_checksum(sum, &flags, 1);
    return binlog_checksum(sum, bytes + FLAGS_AT + 1, len - FLAGS_AT - 1);
}

static enum rc check_checksum(const struct binlog_event *event, const uint8_t *bytes, size_t len,
                              struct err *err)
{
    struct cursor last = cursor_of(bytes + len - BINLOG_CHECKSUM_SIZE, BINLOG_CHECKSUM_SIZE);
    uint32_t stored = cursor_u32(&last);
    uint32_t computed = checksum_of(event, bytes, len - BINLOG_CHECKSUM_SIZE);

    if (stored == computed)
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "binlog: a %s event (%u) ending at %" PRIu32 " has the checksum %08" PRIx32
                    ", its bytes have %08" PRIx32,
                    binlog_type_name(event->type), event->type, event->next_pos, stored, computed);
}

/* A format description event ends with the algorithm and room for a checksum, whatever the
 * algorithm is. */
static bool is_verified(const struct binlog_event *event, const struct binlog_format *format)
{
    if (event->type != BINLOG_FORMAT)
        return format && format->checksum;
    return event->body_len > 0 && event->body[event->body_len - 1] == CHECKSUM_CRC32;
}

enum rc binlog_event_parse(struct binlog_event *event, const void *bytes, size_t len,
                           const struct binlog_format *format, struct err *err)
{
    struct cursor cursor = cursor_of(bytes, len);
    uint32_t size;

    memset(event, 0, sizeof(*event));
    event->time_s = cursor_u32(&cursor);
    event->type = cursor_u8(&cursor);
    event->server_id = cursor_u32(&cursor);
    size = cursor_u32(&cursor);
    event->next_pos = cursor_u32(&cursor);
    event->flags = cursor_u16(&cursor);
    if (cursor.bad)
        return err_fail(err, RC_FATAL, 0,
                        "binlog: %zu bytes are too few for the header of an event", len);
    if (size != len)
        return err_fail(err, RC_FATAL, 0,
                        "binlog: a %s event (%u) says that it has %" PRIu32 " bytes, and %zu came",
                        binlog_type_name(event->type), event->type, size, len);
    event->body = cursor.at;
    event->body_len = cursor_left(&cursor);
    if (event->type == BINLOG_FORMAT || (format && format->checksum)) {
        if (event->body_len < BINLOG_CHECKSUM_SIZE)
            return fail_event(err, event, "has no room for its checksum");
        event->body_len -= BINLOG_CHECKSUM_SIZE;
    }
    return is_verified(event, format) ? check_checksum(event, bytes, len, err) : RC_OK;
}

bool binlog_event_is_heartbeat(const struct binlog_event *event)
{
    return event->type == BINLOG_HEARTBEAT || event->type == BINLOG_HEARTBEAT_2;
}

bool binlog_event_has_own_time(const struct binlog_event *event)
{
    switch (event->type) {
    case BINLOG_ROTATE:
    case BINLOG_FORMAT:
    case BINLOG_START_ENCRYPTION:
    case BINLOG_PREVIOUS_GTIDS:
    case BINLOG_MARIADB_GTID_LIST:
    case BINLOG_CHECKPOINT:
        return false;
    default:
        return !binlog_event_is_heartbeat(event);
    }
}

enum rc binlog_format_parse(struct binlog_format *format, const struct binlog_event *event,
                            struct err *err)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);
    unsigned version = cursor_u16(&cursor);
    const uint8_t *server = cursor_take(&cursor, SERVER_VERSION_SIZE);
    unsigned header;
    uint8_t algorithm;
    size_t lengths;

    memset(format, 0, sizeof(*format));
    format->server_start = cursor_u32(&cursor) != 0; /* else 0 stands for its time */
    header = cursor_u8(&cursor);
    if (cursor.bad || cursor_left(&cursor) < 1)
        return fail_event(err, event, "is cut off");
    if (version != FORMAT_VERSION || header != BINLOG_HEADER_SIZE)
        return err_fail(
            err, RC_FATAL, 0,
            "binlog: the format has version %u and headers of %u bytes; known are 4 and "
            "19",
            version, header);
    memcpy(format->server, server, SERVER_VERSION_SIZE);
    lengths = cursor_left(&cursor) - 1;
    algorithm = cursor.at[lengths];
    if (algorithm != CHECKSUM_NONE && algorithm != CHECKSUM_CRC32)
        return err_fail(err, RC_FATAL, 0, "binlog: the checksum algorithm %u is not known",
                        algorithm);
    /* Servers before MySQL 5.1.4 had shorter ids of tables. */
    if (lengths < BINLOG_TABLE_MAP || cursor.at[BINLOG_TABLE_MAP - 1] != TABLE_MAP_HEADER_SIZE)
        return fail_event(err, event, "is that of a server that is too old");
    format->checksum = algorithm == CHECKSUM_CRC32;
    return RC_OK;
}

enum rc binlog_rotate_parse(struct binlog_rotate *rotate, const struct binlog_event *event,
                            struct err *err)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);

    rotate->pos = cursor_u64(&cursor);
    rotate->name_len = cursor_left(&cursor);
    rotate->name = (const char *)cursor.at;
    if (cursor.bad || rotate->name_len == 0)
        return fail_event(err, event, "names no file");
    return RC_OK;
}

enum rc binlog_query_parse(struct binlog_query *query, const struct binlog_event *event,
                           struct buf *expanded, struct err *err)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);
    size_t variables_len;

    memset(query, 0, sizeof(*query));
    cursor_u32(&cursor); /* connection */
    cursor_u32(&cursor); /* seconds that it took */
    query->schema_len = cursor_u8(&cursor);
    query->error = cursor_u16(&cursor);
    variables_len = cursor_u16(&cursor);
    cursor_take(&cursor, variables_len);
    query->schema = (const char *)cursor_take(&cursor, query->schema_len);
    cursor_u8(&cursor); /* ends the schema */
    if (cursor.bad)
        return fail_event(err, event, "is cut off");
    if (event->type == BINLOG_QUERY_COMPRESSED) {
        enum rc rc = binlog_expand(expanded, cursor, err);

        if (rc != RC_OK)
            return rc;
        cursor = cursor_of(expanded->data, expanded->len);
    }
    query->text = (const char *)cursor.at;
    query->text_len = cursor_left(&cursor);
    return RC_OK;
}

bool binlog_query_is(const struct binlog_query *query, const char *word)
{
    return query->text_len == strlen(word) && strncasecmp(query->text, word, query->text_len) == 0;
}

static void take_mariadb_gtid(struct binlog_gtid *gtid, const struct binlog_event *event,
                              struct cursor *cursor)
{
    uint8_t flags;

    gtid->mariadb = true;
    gtid->server_id = event->server_id;
    gtid->sequence = cursor_u64(cursor);
    gtid->domain = cursor_u32(cursor);
    flags = cursor_u8(cursor);
    gtid->standalone = (flags & GTID_STANDALONE) != 0;
    gtid->ddl = (flags & GTID_DDL) != 0;
    gtid->prepared_xa = (flags & GTID_PREPARED_XA) != 0;
    gtid->completed_xa = (flags & GTID_COMPLETED_XA) != 0;
}

static void take_mysql_gtid(struct binlog_gtid *gtid, struct cursor *cursor)
{
    const uint8_t *uuid;

    cursor_u8(cursor); /* whether the transaction may hold statements */
    uuid = cursor_take(cursor, sizeof(gtid->uuid));
    if (uuid)
        memcpy(gtid->uuid, uuid, sizeof(gtid->uuid));
    gtid->sequence = cursor_u64(cursor);
}

/* A tag is a length and its letters. */
static void take_tag(struct binlog_gtid *gtid, struct cursor *cursor)
{
    uint64_t len = cursor_serialized(cursor);
    const uint8_t *tag = NULL;

    if (len >= sizeof(gtid->tag))
        cursor->bad = true;
    else
        tag = cursor_take(cursor, (size_t)len);
    if (tag)
        memcpy(gtid->tag, tag, (size_t)len);
}

/* A message of mysql::serialization: version, size, and fields in the order of their numbers, each
 * behind its number. Those behind the tag are not needed. */
static void take_tagged_gtid(struct binlog_gtid *gtid, struct cursor *cursor)
{
    uint64_t version = cursor_serialized(cursor);
    uint64_t size = cursor_serialized(cursor);
    uint64_t number;

    cursor_serialized(cursor); /* the last field that a reader must know */
    if (version != SERIALIZATION_VERSION || size < cursor_left(cursor))
        cursor->bad = true;
    while (!cursor->bad && cursor_left(cursor) > 0 &&
           (number = cursor_serialized(cursor)) <= FIELD_TAG) {
        switch (number) {
        case FIELD_FLAGS:
            cursor_serialized(cursor);
            break;
        case FIELD_UUID:
            for (size_t i = 0; i < sizeof(gtid->uuid); i++)
                gtid->uuid[i] = (uint8_t)cursor_serialized(cursor);
            break;
        case FIELD_SEQUENCE:
            /* A signed number, whose lowest bit is its sign. */
            gtid->sequence = cursor_serialized(cursor) >> 1;
            break;
        case FIELD_TAG:
            take_tag(gtid, cursor);
            break;
        default:
            break;
        }
    }
}

enum rc binlog_gtid_parse(struct binlog_gtid *gtid, const struct binlog_event *event,
                          struct err *err)
{
    struct cursor cursor = cursor_of(event->body, event->body_len);

    memset(gtid, 0, sizeof(*gtid));
    switch (event->type) {
    case BINLOG_MARIADB_GTID:
        take_mariadb_gtid(gtid, event, &cursor);
        break;
    case BINLOG_ANONYMOUS_GTID:
        gtid->anonymous = true;
        take_mysql_gtid(gtid, &cursor);
        break;
    case BINLOG_GTID:
        take_mysql_gtid(gtid, &cursor);
        break;
    case BINLOG_GTID_TAGGED:
        take_tagged_gtid(gtid, &cursor);
        break;
    default:
        return fail_event(err, event, "is no GTID that this program can read");
    }
    if (cursor.bad)
        return fail_event(err, event, "is cut off");
    if (!gtid->anonymous && gtid->sequence == 0)
        return fail_event(err, event, "has no number");
    return RC_OK;
}
