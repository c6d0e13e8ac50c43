/* SPDX-License-Identifier: MIT */
/* Makes relay rows of an outbox table from the values of its rows in the binary log, with the same
 * bytes that a SELECT on a connection in utf8mb4 and UTC returns: texts in UTF-8, numbers as
 * digits, the text of an ENUM, a BINARY with all its bytes, a JSON document as its server prints
 * it.
 *
 * The log tells the types of columns, and only with binlog_row_metadata = FULL their names. All
 * else comes from the definition of the table, which the caller reads from information_schema. What
 * cannot be made into the same bytes is refused by name. One thread at a time. */
#ifndef OUTBOX_RELAY_BINLOG_OUTBOX_COLUMNS_H
#define OUTBOX_RELAY_BINLOG_OUTBOX_COLUMNS_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/table_map.h"
#include "outbox/relay/binlog/value.h"
#include "outbox/relay/relay_row.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTBOX_COLUMN_NAME_SIZE 257 /* 64 characters of four bytes */
#define OUTBOX_COLUMN_WORD_SIZE 33

/* A column as information_schema.columns has it. */
struct outbox_column {
    char name[OUTBOX_COLUMN_NAME_SIZE];
    char type[OUTBOX_COLUMN_WORD_SIZE];    /* data_type */
    char charset[OUTBOX_COLUMN_WORD_SIZE]; /* character_set_name; "": it is no text */
    uint64_t bytes_max;                    /* character_octet_length, or 0 */
    bool is_unsigned;
    bool is_zerofill;
    bool is_compressed; /* MariaDB */
    char *labels;       /* column_type of an ENUM, which lists its texts; otherwise NULL */
};

/* A zeroed one has no columns. */
struct outbox_definition {
    struct outbox_column *columns; /* in the order of ordinal_position */
    size_t count;
};

/* Appends a column; the texts are those of information_schema.columns, charset may be NULL.
 * RC_FATAL: no memory; RC_REJECT: a text that is longer than a server allows. */
enum rc outbox_definition_add(struct outbox_definition *definition, const char *name,
                              const char *data_type, const char *column_type, const char *charset,
                              uint64_t bytes_max, struct err *err);

/* Frees the columns; the definition is empty afterwards. */
void outbox_definition_done(struct outbox_definition *definition);

enum outbox_field {
    OUTBOX_SEQ,
    OUTBOX_ID,
    OUTBOX_AGGREGATE_TYPE,
    OUTBOX_AGGREGATE_ID,
    OUTBOX_TYPE,
    OUTBOX_PAYLOAD,
    OUTBOX_HEADERS,
    OUTBOX_CREATED_AT,
    OUTBOX_FIELDS,
};

/* What is done to the bytes of a value. */
enum outbox_form {
    FORM_AS_IS,
    FORM_JSON,   /* MySQL's binary form becomes text */
    FORM_LATIN1, /* becomes UTF-8 */
    FORM_PADDED, /* zeros at the end, which the log leaves out */
};

struct outbox_place {
    bool found;
    enum outbox_form form;
    uint8_t type;   /* enum binlog_column_type */
    uint8_t digits; /* of the fraction of a TIMESTAMP */
    size_t number;  /* of the column in the rows of the log, from 0 */
    const struct outbox_column *column;
    struct buf text; /* of the last row, where its bytes are not those of the log */
};

struct outbox_bounds {
    uint64_t row_bytes_max;   /* relay.row_bytes_max: a larger row makes no record */
    uint64_t batch_bytes_max; /* of a batch: the payload of a larger row is left out */
};

#define OUTBOX_HEADERS_MAX 16

/* A further column that becomes a header of the record. */
struct outbox_header {
    const char *column;
    const char *name; /* of the header */
    struct outbox_place place;
};

/* A zeroed one is ready for outbox_columns_resolve(). */
struct outbox_columns {
    struct outbox_place places[OUTBOX_FIELDS];
    struct outbox_header headers[OUTBOX_HEADERS_MAX];
    size_t header_count;
    bool blank_is_null; /* a payload of blanks alone is a tombstone; set by the caller */
    struct buf extras;  /* of the last row */
};

void outbox_columns_done(struct outbox_columns *columns);

/* Makes the column a header of each row, at most OUTBOX_HEADERS_MAX of them. Borrows both names
 * until outbox_columns_done(). */
void outbox_columns_add_header(struct outbox_columns *columns, const char *column,
                               const char *name);

/* Checks before the first row that the fields and headers can be made of the columns of a table.
 * names: as of outbox_columns_resolve(), or NULL to check the columns of
 * outbox_columns_add_header() alone. RC_REJECT: err names the first column of which they cannot,
 * and what is wrong with it. */
enum rc outbox_columns_check(const struct outbox_columns *columns,
                             const struct outbox_definition *definition,
                             const char *const names[OUTBOX_FIELDS], struct err *err);

/* Finds the columns of all fields in a table of the log. names: of the columns, one for each field,
 * and NULL where a table has no such field; seq, headers and created_at may be missing in the
 * table. Rows that were written before a column of a header was added have no such header. Borrows
 * the definition. RC_REJECT: err names the column and what is wrong with it. */
enum rc outbox_columns_resolve(struct outbox_columns *columns,
                               const struct outbox_definition *definition,
                               const struct binlog_table *table,
                               const struct binlog_column *log_columns,
                               const char *const names[OUTBOX_FIELDS], struct err *err);

/* Makes a row, whose bytes are borrowed from values or from columns until the next call. Its epoch,
 * read_ms and seq are the caller's; table_seq is 0 without such a column. RC_FATAL: a value is
 * missing or damaged, or there is no memory. */
enum rc outbox_columns_make_row(struct outbox_columns *columns, const struct binlog_value *values,
                                const struct outbox_bounds *bounds, struct relay_row *row,
                                struct err *err);

#endif
