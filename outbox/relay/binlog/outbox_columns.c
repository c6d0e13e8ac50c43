/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/outbox_columns.h"

#include "common/utc.h"
#include "outbox/relay/binlog/jsonb.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define US_PER_MS 1000
#define US_PER_S 1000000
#define US_DIGITS 6U
#define DATE_LEN 10 /* "2026-03-04" */

static const char *const field_words[OUTBOX_FIELDS] = {
    "seq", "id", "aggregatetype", "aggregateid", "type", "payload", "headers", "created_at"};

/* Which fields a type may be used for. */
enum use {
    FOR_NUMBER = 1,
    FOR_TEXT = 2,
    FOR_DOCUMENT = 4, /* payload and headers */
    FOR_TIME = 8,
    FOR_HEADER = 16,
};

/* data_type, and what the log calls it. */
struct known_type {
    const char *name;
    uint8_t log_type;
    uint8_t other_log_type; /* or the same */
    unsigned uses;
};

#define TEXTS (FOR_TEXT | FOR_DOCUMENT | FOR_HEADER)
#define NUMBERS (FOR_NUMBER | FOR_TEXT | FOR_DOCUMENT | FOR_HEADER)

static const struct known_type known_types[] = {
    {"tinyint", COLUMN_TINY, COLUMN_TINY, NUMBERS},
    {"smallint", COLUMN_SHORT, COLUMN_SHORT, NUMBERS},
    {"mediumint", COLUMN_INT24, COLUMN_INT24, NUMBERS},
    {"int", COLUMN_LONG, COLUMN_LONG, NUMBERS},
    {"bigint", COLUMN_LONGLONG, COLUMN_LONGLONG, NUMBERS},
    {"decimal", COLUMN_DECIMAL, COLUMN_DECIMAL, TEXTS},
    {"char", COLUMN_STRING, COLUMN_STRING, TEXTS},
    {"binary", COLUMN_STRING, COLUMN_STRING, TEXTS},
    {"varchar", COLUMN_VARCHAR, COLUMN_VAR_STRING, TEXTS},
    {"varbinary", COLUMN_VARCHAR, COLUMN_VAR_STRING, TEXTS},
    {"enum", COLUMN_ENUM, COLUMN_ENUM, FOR_TEXT | FOR_HEADER},
    {"tinytext", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"text", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"mediumtext", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"longtext", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"tinyblob", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"blob", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"mediumblob", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"longblob", COLUMN_BLOB, COLUMN_BLOB, TEXTS},
    {"json", COLUMN_JSON, COLUMN_JSON, FOR_DOCUMENT | FOR_HEADER},
    {"datetime", COLUMN_DATETIME2, COLUMN_DATETIME2, FOR_TIME | FOR_HEADER},
    {"timestamp", COLUMN_TIMESTAMP2, COLUMN_TIMESTAMP2, FOR_TIME | FOR_HEADER},
    {"date", COLUMN_DATE, COLUMN_NEWDATE, FOR_HEADER},
    {"time", COLUMN_TIME2, COLUMN_TIME2, FOR_HEADER},
    {"year", COLUMN_YEAR, COLUMN_YEAR, FOR_HEADER},
};

static const unsigned field_uses[OUTBOX_FIELDS] = {
    [OUTBOX_SEQ] = FOR_NUMBER,          [OUTBOX_ID] = FOR_TEXT,
    [OUTBOX_AGGREGATE_TYPE] = FOR_TEXT, [OUTBOX_AGGREGATE_ID] = FOR_TEXT,
    [OUTBOX_TYPE] = FOR_TEXT,           [OUTBOX_PAYLOAD] = FOR_DOCUMENT,
    [OUTBOX_HEADERS] = FOR_DOCUMENT,    [OUTBOX_CREATED_AT] = FOR_TIME,
};

static bool may_be_missing(enum outbox_field field)
{
    return field == OUTBOX_SEQ || field == OUTBOX_HEADERS || field == OUTBOX_CREATED_AT;
}

static bool copy_word(char *to, size_t size, const char *text)
{
    return snprintf(to, size, "%s", text) < (int)size;
}

enum rc outbox_definition_add(struct outbox_definition *definition, const char *name,
                              const char *data_type, const char *column_type, const char *charset,
                              uint64_t bytes_max, struct err *err)
{
    struct outbox_column *columns =
        realloc(definition->columns, (definition->count + 1) * sizeof(*columns));
    struct outbox_column *column;

    if (!columns)
        return err_fail(err, RC_FATAL, 0, "no memory for the columns of a table");
    definition->columns = columns;
    column = &columns[definition->count];
    memset(column, 0, sizeof(*column));
    if (!copy_word(column->name, sizeof(column->name), name) ||
        !copy_word(column->type, sizeof(column->type), data_type) ||
        !copy_word(column->charset, sizeof(column->charset), charset ? charset : ""))
        return err_fail(err, RC_REJECT, 0, "column %.64s: its name or type is too long", name);
    column->bytes_max = bytes_max;
    column->is_unsigned = strstr(column_type, "unsigned") != NULL;
    column->is_zerofill = strstr(column_type, "zerofill") != NULL;
    if (strcasecmp(data_type, "enum") == 0) {
        column->labels = strdup(column_type);
        if (!column->labels)
            return err_fail(err, RC_FATAL, 0, "no memory for the texts of an ENUM");
    } else {
        column->is_compressed = strstr(column_type, "COMPRESSED") != NULL;
    }
    definition->count++;
    return RC_OK;
}

void outbox_definition_done(struct outbox_definition *definition)
{
    for (size_t i = 0; i < definition->count; i++)
        free(definition->columns[i].labels);
    free(definition->columns);
    memset(definition, 0, sizeof(*definition));
}

void outbox_columns_done(struct outbox_columns *columns)
{
    for (size_t i = 0; i < OUTBOX_FIELDS; i++)
        buf_done(&columns->places[i].text);
    for (size_t i = 0; i < columns->header_count; i++)
        buf_done(&columns->headers[i].place.text);
    buf_done(&columns->extras);
    memset(columns, 0, sizeof(*columns));
}

static const struct outbox_column *find_column(const struct outbox_definition *definition,
                                               const char *name, size_t *number)
{
    for (size_t i = 0; i < definition->count; i++) {
        if (strcasecmp(definition->columns[i].name, name) == 0) {
            *number = i;
            return &definition->columns[i];
        }
    }
    return NULL;
}

/* With names in the log the place is certain; else it is that of the definition. */
static bool find_in_log(const struct binlog_table *table, const struct binlog_column *log_columns,
                        const char *name, size_t *number)
{
    for (size_t i = 0; table->names && i < table->column_count; i++) {
        if (log_columns[i].name_len == strlen(name) &&
            strncasecmp(log_columns[i].name, name, log_columns[i].name_len) == 0) {
            *number = i;
            return true;
        }
    }
    return !table->names;
}

static const struct known_type *find_type(const struct outbox_column *column)
{
    for (size_t i = 0; i < sizeof(known_types) / sizeof(known_types[0]); i++)
        if (strcasecmp(known_types[i].name, column->type) == 0)
            return &known_types[i];
    return NULL;
}

/* Character sets whose bytes are UTF-8, and latin1, which is converted. */
static bool knows_charset(const struct outbox_column *column)
{
    static const char *const known[] = {"",        "ascii",  "utf8",  "utf8mb3",
                                        "utf8mb4", "binary", "latin1"};

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcasecmp(column->charset, known[i]) == 0)
            return true;
    return false;
}

static enum rc refuse_compressed(const struct outbox_column *column, struct err *err)
{
    return err_fail(err, RC_REJECT, 0,
                    "column %s is COMPRESSED, and such values cannot be read from the binary log: "
                    "take COMPRESSED out of its definition before rows are written",
                    column->name);
}

/* what: is made of the column. */
static enum rc check_definition(const struct outbox_column *column, unsigned use, const char *what,
                                struct err *err)
{
    const struct known_type *type = find_type(column);

    if (!type || !(type->uses & use))
        return err_fail(err, RC_REJECT, 0,
                        "column %s has the type %s, of which no %s can be made from the binary log",
                        column->name, column->type, what);
    if (column->is_zerofill && strcasecmp(column->type, "enum") != 0)
        return err_fail(
            err, RC_REJECT, 0,
            "column %s is ZEROFILL: the zeros that a server puts in front of it are not in "
            "the binary log",
            column->name);
    if (!knows_charset(column))
        return err_fail(
            err, RC_REJECT, 0,
            "column %s has the character set %s: the binary log has its bytes, and only "
            "those of ascii, latin1, utf8mb3, utf8mb4 and binary can be published",
            column->name, column->charset);
    return column->is_compressed ? refuse_compressed(column, err) : RC_OK;
}

static enum rc check_column(const struct outbox_column *column, unsigned use, const char *what,
                            uint8_t log_type, struct err *err)
{
    const struct known_type *type = find_type(column);
    enum rc rc = check_definition(column, use, what, err);

    if (rc != RC_OK)
        return rc;
    if (log_type == COLUMN_BLOB_COMPRESSED || log_type == COLUMN_VARCHAR_COMPRESSED)
        return refuse_compressed(column, err);
    if (log_type != type->log_type && log_type != type->other_log_type)
        return err_fail(err, RC_REJECT, 0,
                        "column %s is a %s, and its rows in the binary log are of type %u: the "
                        "table was changed since",
                        column->name, column->type, log_type);
    return RC_OK;
}

static enum outbox_form choose_form(const struct outbox_column *column, uint8_t type)
{
    if (type == COLUMN_JSON)
        return FORM_JSON;
    if (strcasecmp(column->charset, "latin1") == 0)
        return FORM_LATIN1;
    return strcasecmp(column->type, "binary") == 0 ? FORM_PADDED : FORM_AS_IS;
}

/* The column of place was found. */
static enum rc settle_place(struct outbox_place *place, const struct binlog_column *log_columns,
                            unsigned use, const char *what, struct err *err)
{
    const struct binlog_column *log_column = &log_columns[place->number];

    place->type = log_column->type;
    place->digits = (uint8_t)log_column->meta;
    place->form = choose_form(place->column, place->type);
    return check_column(place->column, use, what, place->type, err);
}

static enum rc fail_without_column(const char *name, enum outbox_field field, struct err *err)
{
    return err_fail(err, RC_REJECT, 0, "the table has no column %s, which is the %s", name,
                    field_words[field]);
}

static enum rc resolve_field(struct outbox_columns *columns, enum outbox_field field,
                             const struct outbox_definition *definition,
                             const struct binlog_table *table,
                             const struct binlog_column *log_columns, const char *name,
                             struct err *err)
{
    struct outbox_place *place = &columns->places[field];

    place->found = false;
    if (!name)
        return RC_OK;
    place->column = find_column(definition, name, &place->number);
    place->found = place->column && find_in_log(table, log_columns, name, &place->number);
    if (!place->found && may_be_missing(field))
        return RC_OK;
    if (!place->found)
        return fail_without_column(name, field, err);
    return settle_place(place, log_columns, field_uses[field], field_words[field], err);
}

/* A table may have a column of its own by the name of a field that is not needed. */
static enum rc check_field(const struct outbox_definition *definition, enum outbox_field field,
                           const char *name, struct err *err)
{
    size_t number;
    const struct outbox_column *column = find_column(definition, name, &number);
    const struct known_type *type = column ? find_type(column) : NULL;

    if (!column)
        return may_be_missing(field) ? RC_OK : fail_without_column(name, field, err);
    if (may_be_missing(field) && (!type || !(type->uses & field_uses[field])))
        return err_fail(err, RC_REJECT, 0,
                        "column %s has the type %s, of which no %s can be made from the binary "
                        "log: if the column is for something else, name one that does not exist "
                        "in lane.NAME.columns, as %s=none",
                        column->name, column->type, field_words[field], field_words[field]);
    return check_definition(column, field_uses[field], field_words[field], err);
}

static enum rc check_header(const struct outbox_header *header, const struct outbox_column *column,
                            struct err *err)
{
    return column ? check_definition(column, FOR_HEADER, "header", err)
                  : err_fail(err, RC_REJECT, 0,
                             "there is no column %s for the header %s (lane.NAME.header_columns)",
                             header->column, header->name);
}

static enum rc resolve_header(struct outbox_header *header,
                              const struct outbox_definition *definition,
                              const struct binlog_table *table,
                              const struct binlog_column *log_columns, struct err *err)
{
    struct outbox_place *place = &header->place;
    enum rc rc;

    place->column = find_column(definition, header->column, &place->number);
    rc = check_header(header, place->column, err);
    place->found = rc == RC_OK && find_in_log(table, log_columns, header->column, &place->number);
    return place->found ? settle_place(place, log_columns, FOR_HEADER, "header", err) : rc;
}

void outbox_columns_add_header(struct outbox_columns *columns, const char *column, const char *name)
{
    assert(columns->header_count < OUTBOX_HEADERS_MAX);
    columns->headers[columns->header_count++] =
        (struct outbox_header){.column = column, .name = name};
}

enum rc outbox_columns_check(const struct outbox_columns *columns,
                             const struct outbox_definition *definition,
                             const char *const names[OUTBOX_FIELDS], struct err *err)
{
    enum rc rc = RC_OK;

    for (size_t i = 0; names && i < OUTBOX_FIELDS && rc == RC_OK; i++)
        if (names[i])
            rc = check_field(definition, (enum outbox_field)i, names[i], err);
    for (size_t i = 0; i < columns->header_count && rc == RC_OK; i++) {
        size_t number;

        rc = check_header(&columns->headers[i],
                          find_column(definition, columns->headers[i].column, &number), err);
    }
    return rc;
}

enum rc outbox_columns_resolve(struct outbox_columns *columns,
                               const struct outbox_definition *definition,
                               const struct binlog_table *table,
                               const struct binlog_column *log_columns,
                               const char *const names[OUTBOX_FIELDS], struct err *err)
{
    enum rc rc = RC_OK;

    if (!table->names && table->column_count != definition->count)
        return err_fail(err, RC_REJECT, 0,
                        "table %.*s has %zu columns, and its rows in the binary log have %zu: with "
                        "binlog_row_metadata = FULL they have names",
                        (int)table->name_len, table->name, definition->count, table->column_count);
    for (size_t i = 0; i < OUTBOX_FIELDS && rc == RC_OK; i++)
        rc = resolve_field(columns, (enum outbox_field)i, definition, table, log_columns, names[i],
                           err);
    for (size_t i = 0; i < columns->header_count && rc == RC_OK; i++)
        rc = resolve_header(&columns->headers[i], definition, table, log_columns, err);
    if (rc != RC_OK)
        err_wrap(err, "table %.*s", (int)table->name_len, table->name);
    return rc;
}

/* The width of an integer, which the log stores without its sign. */
static unsigned count_bits(uint8_t type)
{
    switch (type) {
    case COLUMN_TINY:
        return 8;
    case COLUMN_SHORT:
        return 16;
    case COLUMN_INT24:
        return 24;
    case COLUMN_LONG:
        return 32;
    default:
        return 64;
    }
}

/* The number in the sign of its definition, whatever the log was read with. */
static void put_number(struct buf *text, const struct outbox_place *place,
                       const struct binlog_value *value)
{
    unsigned bits = count_bits(place->type);
    uint64_t mask = bits < 64 ? (UINT64_C(1) << bits) - 1 : UINT64_MAX;
    uint64_t number = (uint64_t)value->number & mask;

    if (place->type == COLUMN_YEAR && number == 0)
        buf_text_put(text, "0000");
    else if (place->column->is_unsigned)
        buf_u64(text, number);
    else if (number >> (bits - 1) & 1)
        buf_i64(text, (int64_t)(number | ~mask));
    else
        buf_i64(text, (int64_t)number);
}

/* Passes the quote that begins a text in "enum('a','b''c')"; NULL behind the last one. */
static const char *next_label(const char *at)
{
    at = strchr(at, '\'');
    return at ? at + 1 : NULL;
}

/* A character that information_schema shows behind a backslash. */
static char unescape(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case '0':
        return '\0';
    default:
        return c;
    }
}

/* Behind the quote that ends the text, which is appended if `text` is not NULL. A quote is doubled,
 * and a backslash stands before itself and before n, r and 0. */
static const char *read_label(const char *at, struct buf *text)
{
    while (*at && (at[0] != '\'' || at[1] == '\'')) {
        bool escaped = at[0] == '\\' && at[1];
        char c = escaped ? unescape(at[1]) : at[0];

        if (text)
            buf_char(text, c);
        at += escaped || at[0] == '\'' ? 2 : 1;
    }
    return *at ? at + 1 : at;
}

/* Number 0 is the empty text that a server stores for a value that is none of them. */
static bool put_label(struct buf *text, const char *labels, int64_t number)
{
    const char *at = labels;

    for (int64_t i = 1; i <= number; i++) {
        at = next_label(at);
        if (!at)
            return false;
        at = read_label(at, i == number ? text : NULL);
    }
    return true;
}

/* What latin1 of MySQL, which is Windows-1252, has between 0x80 and 0x9f; the five that it lacks
 * stand for themselves. */
static const uint16_t latin1[32] = {0x20ac, 0x81,   0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021,
                                    0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8d,   0x017d, 0x8f,
                                    0x90,   0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014,
                                    0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,   0x017e, 0x0178};

static void put_latin1(struct buf *text, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned code = (unsigned char)bytes[i];

        if (code >= 0x80 && code < 0xa0)
            code = latin1[code - 0x80];
        if (code < 0x80) {
            buf_char(text, (char)code);
        } else if (code < 0x800) {
            buf_char(text, (char)(0xc0 | code >> 6));
            buf_char(text, (char)(0x80 | (code & 0x3f)));
        } else {
            buf_char(text, (char)(0xe0 | code >> 12));
            buf_char(text, (char)(0x80 | (code >> 6 & 0x3f)));
            buf_char(text, (char)(0x80 | (code & 0x3f)));
        }
    }
}

static void put_padded(struct buf *text, const struct binlog_value *value, uint64_t bytes_max)
{
    buf_put(text, value->bytes, value->len);
    for (uint64_t i = value->len; i < bytes_max; i++)
        buf_char(text, '\0');
}

/* False: the document is damaged. */
static bool put_bytes(struct outbox_place *place, const struct binlog_value *value,
                      struct bytes *bytes)
{
    switch (place->form) {
    case FORM_JSON:
        return jsonb_put(&place->text, value->bytes, value->len);
    case FORM_LATIN1:
        put_latin1(&place->text, value->bytes, value->len);
        return true;
    case FORM_PADDED:
        if (value->len < place->column->bytes_max) {
            put_padded(&place->text, value, place->column->bytes_max);
            return true;
        }
        break;
    case FORM_AS_IS:
        break;
    }
    *bytes = (struct bytes){value->bytes, value->len};
    return true;
}

static enum rc fail_value(const struct outbox_place *place, const char *what, struct err *err)
{
    return err_fail(err, RC_FATAL, 0, "column %s: %s", place->column->name, what);
}

/* As a server in UTC writes a TIMESTAMP. */
static void put_timestamp(struct buf *text, const struct outbox_place *place, int64_t us)
{
    char time[UTC_TEXT_SIZE] = "0000-00-00 00:00:00";
    unsigned digits = place->digits < US_DIGITS ? place->digits : US_DIGITS;
    int64_t divisor = US_PER_S;

    if (us > 0)
        utc_format(us / US_PER_MS, time);
    time[DATE_LEN] = ' ';
    buf_put(text, time, DATE_LEN + strlen(" 00:00:00"));
    if (digits > 0)
        buf_char(text, '.');
    for (unsigned i = 0; i < digits; i++) {
        divisor /= 10;
        buf_char(text, (char)('0' + us / divisor % 10));
    }
}

/* The value as bytes; NULL for SQL NULL, and for a field without a column. */
static enum rc take_bytes(struct outbox_place *place, const struct binlog_value *values,
                          struct bytes *bytes, struct err *err)
{
    const struct binlog_value *value;
    bool good = true;

    *bytes = (struct bytes){NULL, 0};
    if (!place->found)
        return RC_OK;
    value = &values[place->number];
    buf_reset(&place->text);
    switch (value->kind) {
    case VALUE_NULL:
        return RC_OK;
    case VALUE_SIGNED:
    case VALUE_UNSIGNED:
        put_number(&place->text, place, value);
        break;
    case VALUE_BYTES:
        good = put_bytes(place, value, bytes);
        break;
    case VALUE_INDEX:
        good =
            place->column->labels && put_label(&place->text, place->column->labels, value->number);
        break;
    case VALUE_TIMESTAMP:
        put_timestamp(&place->text, place, value->number);
        break;
    case VALUE_DECIMAL:
    case VALUE_DATE:
    case VALUE_DATETIME:
    case VALUE_TIME:
        *bytes = (struct bytes){value->text, value->len};
        break;
    case VALUE_ABSENT:
        return fail_value(place, "the rows lack it: the binary log needs binlog_row_image = FULL",
                          err);
    case VALUE_FLOAT:
    case VALUE_DOUBLE:
        good = false;
        break;
    }
    if (place->text.failed)
        return fail_value(place, "no memory for its text", err);
    if (!good)
        return fail_value(place, "its value in the binary log cannot be read", err);
    if (!bytes->data)
        *bytes = (struct bytes){buf_text(&place->text), place->text.len};
    return RC_OK;
}

static enum rc take_time(struct outbox_columns *columns, const struct binlog_value *values,
                         int64_t *ms, struct err *err)
{
    const struct outbox_place *place = &columns->places[OUTBOX_CREATED_AT];
    struct bytes text;
    enum rc rc;

    *ms = ROW_CREATED_UNKNOWN;
    if (place->found && values[place->number].kind == VALUE_TIMESTAMP) {
        /* 0 is the zero date. */
        if (values[place->number].number > 0)
            *ms = values[place->number].number / US_PER_MS;
        return RC_OK;
    }
    rc = take_bytes(&columns->places[OUTBOX_CREATED_AT], values, &text, err);
    if (rc == RC_OK)
        *ms = utc_parse_ms(text.data, text.len);
    return rc;
}

static enum rc take_seq(struct outbox_columns *columns, const struct binlog_value *values,
                        int64_t *seq, struct err *err)
{
    struct bytes text;
    enum rc rc = take_bytes(&columns->places[OUTBOX_SEQ], values, &text, err);

    *seq = rc == RC_OK && text.data ? strtoll(text.data, NULL, 10) : 0;
    return rc;
}

/* Blanks are all characters up to the space, as in Debezium's route.tombstone.on.empty.payload;
 * bytes that are no text are never blank. */
static bool is_blank_text(const struct outbox_place *place, struct bytes bytes)
{
    if (!place->found || !place->column->charset[0] ||
        strcasecmp(place->column->charset, "binary") == 0)
        return false;
    for (size_t i = 0; i < bytes.len; i++)
        if ((unsigned char)bytes.data[i] > ' ')
            return false;
    return true;
}

static bool is_short(struct bytes text)
{
    return text.len <= ROW_TEXT_BYTES_MAX;
}

/* Bounds as those of the adapter that reads the table (source_mysql.c). A row above them keeps its
 * payload, because it becomes a task, as long as it fits into a batch. */
static void limit_row(struct relay_row *row, const struct outbox_bounds *bounds)
{
    bool fits = is_short(row->id) && is_short(row->aggregate_type) && is_short(row->aggregate_id) &&
                is_short(row->type);

    row->size = row->aggregate_id.len + row->payload.len;
    row->headers_size += row->headers.len;
    row->oversize =
        !fits || row->size > bounds->row_bytes_max || row->headers_size > ROW_HEADERS_BYTES_MAX;
    row->cut = relay_row_bytes(row) > bounds->batch_bytes_max;
    if (row->cut)
        row->payload = (struct bytes){NULL, 0};
}

/* Sets row->headers_size to the bytes of all extras. Those above the bound are left out: the row
 * makes no record, and neither this buffer nor a task has room for them. */
static enum rc take_extras(struct outbox_columns *columns, const struct binlog_value *values,
                           struct relay_row *row, struct err *err)
{
    struct buf *extras = &columns->extras;
    enum rc rc = RC_OK;

    buf_reset(extras);
    for (size_t i = 0; i < columns->header_count && rc == RC_OK; i++) {
        struct outbox_header *header = &columns->headers[i];
        struct bytes value;

        if (!header->place.found)
            continue;
        rc = take_bytes(&header->place, values, &value, err);
        if (rc != RC_OK)
            break;
        row->headers_size += relay_extra_size(header->name, value);
        if (row->headers_size <= ROW_HEADERS_BYTES_MAX)
            relay_extra_put(extras, header->name, value);
    }
    if (rc == RC_OK && extras->failed)
        return err_fail(err, RC_FATAL, 0, "no memory for the columns of header_columns");
    if (extras->len > 0 && row->headers_size <= ROW_HEADERS_BYTES_MAX)
        row->extras = (struct bytes){extras->data, extras->len};
    return rc;
}

enum rc outbox_columns_make_row(struct outbox_columns *columns, const struct binlog_value *values,
                                const struct outbox_bounds *bounds, struct relay_row *row,
                                struct err *err)
{
    struct bytes *const fields[OUTBOX_FIELDS] = {
        [OUTBOX_ID] = &row->id,
        [OUTBOX_AGGREGATE_TYPE] = &row->aggregate_type,
        [OUTBOX_AGGREGATE_ID] = &row->aggregate_id,
        [OUTBOX_TYPE] = &row->type,
        [OUTBOX_PAYLOAD] = &row->payload,
        [OUTBOX_HEADERS] = &row->headers,
    };
    enum rc rc;

    memset(row, 0, sizeof(*row));
    rc = take_seq(columns, values, &row->table_seq, err);
    for (size_t i = 0; i < OUTBOX_FIELDS && rc == RC_OK; i++)
        if (fields[i])
            rc = take_bytes(&columns->places[i], values, fields[i], err);
    if (rc == RC_OK)
        rc = take_time(columns, values, &row->created_ms, err);
    if (rc == RC_OK && columns->header_count > 0)
        rc = take_extras(columns, values, row, err);
    if (rc != RC_OK)
        return rc;
    if (columns->blank_is_null && is_blank_text(&columns->places[OUTBOX_PAYLOAD], row->payload))
        row->payload = (struct bytes){NULL, 0};
    row->id_padded = columns->places[OUTBOX_ID].found &&
                     strcasecmp(columns->places[OUTBOX_ID].column->type, "char") == 0;
    limit_row(row, bounds);
    return RC_OK;
}
