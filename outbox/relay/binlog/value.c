/* SPDX-License-Identifier: MIT */
#include "outbox/relay/binlog/value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define US INT64_C(1000000)
#define US_DIGITS 6
#define DIGITS_GROUP 9 /* of a DECIMAL, in four bytes */

static void set_number(struct binlog_value *value, uint64_t bits, size_t len, bool is_unsigned)
{
    unsigned shift = (unsigned)(64 - 8 * len);

    value->kind = is_unsigned ? VALUE_UNSIGNED : VALUE_SIGNED;
    value->number = is_unsigned ? (int64_t)bits : (int64_t)(bits << shift) >> shift;
}

static void take_float(struct binlog_value *value, struct cursor *cursor)
{
    uint32_t bits = cursor_u32(cursor);
    float real;

    memcpy(&real, &bits, sizeof(real));
    value->kind = VALUE_FLOAT;
    value->real = (double)real;
}

static void take_double(struct binlog_value *value, struct cursor *cursor)
{
    uint64_t bits = cursor_u64(cursor);

    memcpy(&value->real, &bits, sizeof(bits));
    value->kind = VALUE_DOUBLE;
}

static void take_bytes(struct binlog_value *value, struct cursor *cursor, uint64_t len)
{
    value->kind = VALUE_BYTES;
    if (len > cursor_left(cursor)) {
        cursor->bad = true;
        return;
    }
    value->bytes = (const char *)cursor_take(cursor, (size_t)len);
    value->len = (size_t)len;
}

/* Bytes of a fraction with so many digits. */
static size_t fraction_len(unsigned digits)
{
    return (digits + 1) / 2;
}

/* Microseconds of a fraction that was stored in so many bytes. */
static int64_t fraction_us(uint64_t stored, size_t len)
{
    static const int64_t scale[] = {0, 10000, 100, 1};

    return (int64_t)stored * scale[len];
}

/* By hand: each row has a time, and printf() took a third of the time for a row. */
static void put_digits(struct binlog_value *value, unsigned number, size_t width)
{
    for (size_t i = width; i > 0; i--) {
        value->text[value->len + i - 1] = (char)('0' + number % 10);
        number /= 10;
    }
    value->len += width;
}

static void put_separated(struct binlog_value *value, char separator, unsigned number)
{
    value->text[value->len++] = separator;
    put_digits(value, number, 2);
}

static void put_fraction(struct binlog_value *value, unsigned digits, int64_t us)
{
    if (digits == 0)
        return;
    value->text[value->len++] = '.';
    put_digits(value, (unsigned)(us % US), US_DIGITS);
    if (digits < US_DIGITS)
        value->len -= US_DIGITS - digits;
    value->text[value->len] = '\0';
}

static void take_date(struct binlog_value *value, struct cursor *cursor)
{
    unsigned bits = (unsigned)cursor_le(cursor, 3);
    unsigned year = bits >> 9;
    unsigned month = bits >> 5 & 15;
    unsigned day = bits & 31;

    value->kind = VALUE_DATE;
    value->len =
        (size_t)snprintf(value->text, sizeof(value->text), "%04u-%02u-%02u", year, month, day);
}

/* 1 bit of the sign (set), 17 of year * 13 + month, 5 of the day, 5 of the hour, 6 and 6. */
static void take_datetime2(struct binlog_value *value, struct cursor *cursor, unsigned digits)
{
    uint64_t bits = cursor_be(cursor, 5) & UINT64_C(0x7fffffffff);
    size_t len = fraction_len(digits);
    int64_t us = fraction_us(cursor_be(cursor, len), len);
    unsigned month = (unsigned)(bits >> 22);
    unsigned day = (unsigned)(bits >> 17 & 31);
    unsigned hour = (unsigned)(bits >> 12 & 31);
    unsigned minute = (unsigned)(bits >> 6 & 63);
    unsigned second = (unsigned)(bits & 63);

    value->kind = VALUE_DATETIME;
    value->len = 0;
    put_digits(value, month / 13, month / 13 > 9999 ? 5 : 4);
    put_separated(value, '-', month % 13);
    put_separated(value, '-', day);
    put_separated(value, ' ', hour);
    put_separated(value, ':', minute);
    put_separated(value, ':', second);
    value->text[value->len] = '\0';
    put_fraction(value, digits, us);
}

static void take_timestamp2(struct binlog_value *value, struct cursor *cursor, unsigned digits)
{
    int64_t seconds = (int64_t)cursor_be(cursor, 4);
    size_t len = fraction_len(digits);

    value->kind = VALUE_TIMESTAMP;
    value->number = seconds * US + fraction_us(cursor_be(cursor, len), len);
}

/* 24 bits, of which the highest is set for times that are not negative, and a fraction, which is
 * subtracted together with them when they are. */
static void take_time2(struct binlog_value *value, struct cursor *cursor, unsigned digits)
{
    size_t len = fraction_len(digits);
    unsigned shift = (unsigned)(8 * len);
    int64_t packed = (int64_t)cursor_be(cursor, 3 + len) - ((int64_t)0x800000 << shift);
    bool negative = packed < 0;
    int64_t size = negative ? -packed : packed;
    int64_t whole = size >> shift;
    int64_t us = fraction_us((uint64_t)(size & ((INT64_C(1) << shift) - 1)), len);
    unsigned hour = (unsigned)(whole >> 12 & 1023);
    unsigned minute = (unsigned)(whole >> 6 & 63);
    unsigned second = (unsigned)(whole & 63);

    value->kind = VALUE_TIME;
    value->len = (size_t)snprintf(value->text, sizeof(value->text), "%s%02u:%02u:%02u",
                                  negative ? "-" : "", hour, minute, second);
    put_fraction(value, digits, us);
}

/* Types of tables that were made before MySQL 5.6, and of MariaDB with mysql56_temporal_format =
 * OFF: decimal digits in a number. */
static void take_datetime_old(struct binlog_value *value, struct cursor *cursor)
{
    uint64_t digits = cursor_u64(cursor);
    unsigned date = (unsigned)(digits / 1000000);
    unsigned time = (unsigned)(digits % 1000000);

    value->kind = VALUE_DATETIME;
    value->len = (size_t)snprintf(value->text, sizeof(value->text), "%04u-%02u-%02u %02u:%02u:%02u",
                                  date / 10000, date / 100 % 100, date % 100, time / 10000,
                                  time / 100 % 100, time % 100);
}

static void take_time_old(struct binlog_value *value, struct cursor *cursor)
{
    int64_t bits = (int64_t)(cursor_le(cursor, 3) << 40) >> 40;
    unsigned digits = (unsigned)(bits < 0 ? -bits : bits);

    value->kind = VALUE_TIME;
    value->len =
        (size_t)snprintf(value->text, sizeof(value->text), "%s%02u:%02u:%02u", bits < 0 ? "-" : "",
                         digits / 10000, digits / 100 % 100, digits % 100);
}

/* Bytes of a group of 0 to 9 digits of a DECIMAL. */
static size_t digits_len(unsigned digits)
{
    static const uint8_t len[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};

    return len[digits];
}

/* One group; flip has all bits set for a negative number. The first byte has the sign's bit flipped
 * once more. */
static void put_group(struct binlog_value *value, struct cursor *cursor, unsigned digits,
                      uint8_t flip, uint8_t sign)
{
    const uint8_t *bytes = cursor_take(cursor, digits_len(digits));
    uint32_t number = 0;

    if (!bytes)
        return;
    for (size_t i = 0; i < digits_len(digits); i++)
        number = number << 8 | (uint8_t)(bytes[i] ^ flip ^ (i == 0 ? sign : 0));
    if (value->len + digits < sizeof(value->text))
        value->len += (size_t)snprintf(value->text + value->len, sizeof(value->text) - value->len,
                                       "%0*" PRIu32, (int)digits, number);
}

/* Leaves one zero before the point, and none in front of other digits. */
static void trim_zeros(struct binlog_value *value)
{
    size_t start = value->text[0] == '-';
    size_t zeros = 0;

    while (value->text[start + zeros] == '0' && value->text[start + zeros + 1] != '\0' &&
           value->text[start + zeros + 1] != '.')
        zeros++;
    value->len -= zeros;
    memmove(value->text + start, value->text + start + zeros, value->len - start + 1);
}

static void take_decimal(struct binlog_value *value, struct cursor *cursor, unsigned precision,
                         unsigned scale)
{
    unsigned whole = precision - scale;
    uint8_t sign = 0x80;
    uint8_t flip;

    value->kind = VALUE_DECIMAL;
    if (scale > precision || precision > 65 || precision == 0 || cursor_left(cursor) == 0) {
        cursor->bad = true;
        return;
    }
    flip = (*cursor->at & 0x80) ? 0 : 0xff;
    value->len = (size_t)snprintf(value->text, sizeof(value->text), "%s%s", flip ? "-" : "",
                                  whole == 0 ? "0" : "");
    for (unsigned digits = whole % DIGITS_GROUP, left = whole; left > 0;
         left -= digits, digits = DIGITS_GROUP) {
        if (digits == 0)
            digits = DIGITS_GROUP;
        put_group(value, cursor, digits, flip, sign);
        sign = 0;
    }
    if (scale > 0)
        value->len +=
            (size_t)snprintf(value->text + value->len, sizeof(value->text) - value->len, ".");
    for (unsigned left = scale; left > 0;) {
        unsigned digits = left < DIGITS_GROUP ? left : DIGITS_GROUP;

        put_group(value, cursor, digits, flip, sign);
        sign = 0;
        left -= digits;
    }
    trim_zeros(value);
}

static bool take_number(struct binlog_value *value, struct cursor *cursor, uint8_t type,
                        bool is_unsigned)
{
    static const struct {
        uint8_t type;
        uint8_t len;
    } sizes[] = {{COLUMN_TINY, 1},
                 {COLUMN_SHORT, 2},
                 {COLUMN_INT24, 3},
                 {COLUMN_LONG, 4},
                 {COLUMN_LONGLONG, 8}};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        if (sizes[i].type != type)
            continue;
        set_number(value, cursor_le(cursor, sizes[i].len), sizes[i].len, is_unsigned);
        return true;
    }
    if (type != COLUMN_YEAR)
        return false;
    value->kind = VALUE_UNSIGNED;
    value->number = cursor_u8(cursor);
    value->number += value->number ? 1900 : 0;
    return true;
}

static bool take_time(struct binlog_value *value, struct cursor *cursor,
                      const struct binlog_column *column)
{
    switch (column->type) {
    case COLUMN_DATE:
    case COLUMN_NEWDATE:
        take_date(value, cursor);
        return true;
    case COLUMN_DATETIME2:
        take_datetime2(value, cursor, column->meta);
        return true;
    case COLUMN_TIMESTAMP2:
        take_timestamp2(value, cursor, column->meta);
        return true;
    case COLUMN_TIME2:
        take_time2(value, cursor, column->meta);
        return true;
    case COLUMN_DATETIME:
        take_datetime_old(value, cursor);
        return true;
    case COLUMN_TIME:
        take_time_old(value, cursor);
        return true;
    case COLUMN_TIMESTAMP:
        value->kind = VALUE_TIMESTAMP;
        value->number = (int64_t)cursor_u32(cursor) * US;
        return true;
    default:
        return false;
    }
}

static bool is_blob(uint8_t type)
{
    return type == COLUMN_BLOB || type == COLUMN_TINY_BLOB || type == COLUMN_MEDIUM_BLOB ||
           type == COLUMN_LONG_BLOB || type == COLUMN_JSON || type == COLUMN_GEOMETRY ||
           type == COLUMN_VECTOR;
}

static bool take_other(struct binlog_value *value, struct cursor *cursor,
                       const struct binlog_column *column)
{
    switch (column->type) {
    case COLUMN_FLOAT:
        take_float(value, cursor);
        return true;
    case COLUMN_DOUBLE:
        take_double(value, cursor);
        return true;
    case COLUMN_DECIMAL:
        take_decimal(value, cursor, column->meta >> 8, column->meta & 0xff);
        return true;
    case COLUMN_VARCHAR:
    case COLUMN_VAR_STRING:
    case COLUMN_STRING:
        take_bytes(value, cursor, cursor_le(cursor, column->meta > 255 ? 2 : 1));
        return true;
    case COLUMN_BIT:
        take_bytes(value, cursor, ((size_t)column->meta + 7) / 8);
        return true;
    case COLUMN_SET:
        take_bytes(value, cursor, column->meta);
        return true;
    case COLUMN_ENUM:
        value->kind = VALUE_INDEX;
        value->number = (int64_t)cursor_le(cursor, column->meta == 2 ? 2 : 1);
        return true;
    default:
        return false;
    }
}

bool binlog_value_take(struct binlog_value *value, struct cursor *cursor,
                       const struct binlog_column *column, bool is_unsigned)
{
    value->bytes = NULL;
    value->len = 0;
    value->number = 0;
    value->text[0] = '\0';
    if (is_blob(column->type)) {
        if (column->meta < 1 || column->meta > 4)
            return false;
        take_bytes(value, cursor, cursor_le(cursor, column->meta));
        return !cursor->bad;
    }
    if (column->meta > 6 && (column->type == COLUMN_DATETIME2 || column->type == COLUMN_TIME2 ||
                             column->type == COLUMN_TIMESTAMP2))
        return false;
    return (take_number(value, cursor, column->type, is_unsigned) ||
            take_time(value, cursor, column) || take_other(value, cursor, column)) &&
           !cursor->bad;
}
