/* SPDX-License-Identifier: MIT */
/* Votes as CSV (RFC 4180). The first line names the columns voter_id, content_id and optionally
 * voting (0 or 1, default 1), in any order. Lines may end with CRLF, values may be quoted, empty
 * lines are skipped. A quoted value cannot contain a line end, so that a missing quote spoils one
 * line only. Memory does not depend on the input. Pure; one thread at a time. */
#ifndef PRODUCER_VOTE_VOTE_CSV_H
#define PRODUCER_VOTE_VOTE_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VOTE_CSV_LINE_BYTES_MAX 1024
#define VOTE_CSV_COLUMNS_MAX 3

enum vote_csv_column { VOTE_CSV_VOTER, VOTE_CSV_CONTENT, VOTE_CSV_VOTING };

struct vote_csv {
    uint64_t line; /* number of the last line that was read, from 1 */
    enum vote_csv_column columns[VOTE_CSV_COLUMNS_MAX];
    size_t column_count; /* 0: the header has not been read */
    char text[VOTE_CSV_LINE_BYTES_MAX + 1];
    size_t len; /* of the incomplete line */
    bool long_line;
    char reason[160]; /* of VOTE_CSV_BAD and VOTE_CSV_NO_HEADER */
};

enum vote_csv_found {
    VOTE_CSV_MORE,      /* all bytes were used: feed more */
    VOTE_CSV_VOTE,      /* *vote is the vote of line `line` */
    VOTE_CSV_BAD,       /* line `line` is no vote for the reason in `reason`; continue */
    VOTE_CSV_NO_HEADER, /* the first line does not name the columns: nothing can be read */
};

struct vote_csv_vote {
    int64_t voter_id;
    int64_t content_id;
    uint8_t voting;
};

void vote_csv_init(struct vote_csv *csv);

/* Reads bytes[0..len) up to the next vote or bad line; *used is the number of bytes that it took.
 * Feed the rest afterwards. */
enum vote_csv_found vote_csv_feed(struct vote_csv *csv, const char *bytes, size_t len, size_t *used,
                                  struct vote_csv_vote *vote);

/* Reads the last line at the end of the input, which may have no line end. VOTE_CSV_MORE: there was
 * none. Not to be called after a read error: a number that was cut is a number, too. */
enum vote_csv_found vote_csv_end(struct vote_csv *csv, struct vote_csv_vote *vote);

#endif
