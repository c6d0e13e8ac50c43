/* SPDX-License-Identifier: MIT */
/* What operators do with dead records, for other components: the API lists, shows, replays and
 * drops them as `tallybox dead` does, by the same code, and each action has its row in the audit.
 * dead.h says how records are replayed. One thread at a time per dead_admin. */
#ifndef CONSUMER_DEAD_DEAD_ADMIN_H
#define CONSUMER_DEAD_DEAD_ADMIN_H

#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DEAD_NUMBER_ANY (-1)

/* Selects records. All conditions must hold. The pointers are borrowed. */
struct dead_filter {
    const int64_t *ids;
    size_t id_count;          /* 0: any */
    const char *topic;        /* NULL: any, as with the other texts */
    int64_t partition;        /* or DEAD_NUMBER_ANY, as with the times */
    const char *reason_class; /* "decode" */
    const char *key;
    bool held;        /* only records whose cause may pass (held.h) */
    int64_t since_ms; /* died at this time or later, ms since 1970 */
    int64_t until_ms; /* died before this time */
    int64_t id_max;   /* 0: any; excludes records that die later */
};

/* A record as `dead list` and `dead show` print it. The pointers belong to the store and are valid
 * during the call. */
struct dead_view {
    int64_t id;
    const char *topic;
    int32_t partition;
    int64_t offset;
    const void *key; /* NULL: none */
    size_t key_len;
    const void *value; /* NULL: none, or not read */
    size_t value_len;  /* the full length; valid if has_value is set */
    bool has_value;
    const char *headers; /* JSON: [[name, base64 or null], ...]; NULL: not read */
    int64_t time_ms;     /* of the record; DEAD_NUMBER_ANY: none */
    const char *reason_class;
    const char *reason;
    int64_t died_ms;
    const char *decision; /* NULL: the record is still dead */
    int64_t decided_ms;
    const char *decided_by;
    /* corrected bytes that were applied instead of the payload; NULL: none */
    const void *applied_value;
    size_t applied_len;
};

typedef enum rc (*dead_on_view)(void *ctx, const struct dead_view *view, struct err *err);

/* A position in the order of topic, partition and offset. An empty topic comes before all
 * others. */
struct dead_cursor {
    char topic[250];
    int32_t partition;
    int64_t offset;
};

enum dead_outcome {
    DEAD_OUTCOME_APPLIED,
    DEAD_OUTCOME_DUPLICATE, /* its event was in the log before */
    DEAD_OUTCOME_STALE,     /* repeats its voter's last vote or is older; see apply_keep_lasts() */
    DEAD_OUTCOME_DROPPED,
    DEAD_OUTCOME_STAYS, /* it cannot be applied; reason tells why */
    DEAD_OUTCOME_WAITS, /* an older record of its key stays dead; behind is its id */
};

#define DEAD_OUTCOMES (DEAD_OUTCOME_WAITS + 1)

/* The outcome of one selected record. */
struct dead_result {
    enum dead_outcome outcome;
    int64_t id;
    struct dead_cursor place;
    const char *reason_class; /* of DEAD_OUTCOME_STAYS; "refused": the database refused the vote */
    const char *reason;
    int64_t behind; /* of DEAD_OUTCOME_WAITS: the id of the older record */
};

/* Called once for each selected record, after its COMMIT. result is borrowed for the call. */
typedef void (*dead_on_result)(void *ctx, const struct dead_result *result);

/* A replay or a drop. The texts and bytes are borrowed until it has ended or was left. */
struct dead_operation {
    bool drop;
    struct dead_filter filter; /* id_max: see count() */
    bool all;                  /* for the audit: the filter selects every record on purpose */
    const char *by;            /* who */
    const char *via;           /* "http" */
    const char *why;           /* NULL: not given */
    const void *value;         /* replay: bytes that replace the payload, for one id; or NULL */
    size_t value_len;
    bool ignore_key;      /* replay: the key need not be the contentId */
    uint64_t records_max; /* 0: no limit */
    dead_on_result on_result;
    void *ctx;
    int64_t audit_id; /* 0 before the first call; a repeated call uses the same row */
};

/* All results: RC_RETRY: a database cannot be reached, or the outcome is unknown; calling again is
 * harmless. RC_FATAL: an operator must act, as where a privilege is missing. */
struct dead_admin_ops {
    void *ctx;

    /* RC_OK: both databases can be reached. It needs no privilege on a table. */
    enum rc (*ping)(void *ctx, struct err *err);

    /* Reads up to rows_max records with an id above `after`, by id, without payload and headers.
     * decided: those that were replayed or dropped. */
    enum rc (*list)(void *ctx, const struct dead_filter *filter, bool decided, int64_t after,
                    size_t rows_max, dead_on_view on_view, void *view_ctx, struct err *err);

    /* Reads one record with payload and headers, also one that was decided; on_view is not called
     * for an id that does not exist. */
    enum rc (*show)(void *ctx, int64_t id, dead_on_view on_view, void *view_ctx, struct err *err);

    /* Counts the records that the filter selects and finds the highest id among them (0: none), for
     * dead_filter.id_max. */
    enum rc (*count)(void *ctx, const struct dead_filter *filter, uint64_t *count, int64_t *id_max,
                     struct err *err);

    /* Does a part of the action in one transaction; *more: call it again. The first call writes the
     * row of the audit, without which nothing is changed; the last one adds how many records are no
     * longer dead. One action at a time: leave() ends one before its end. RC_REJECT: the database
     * refuses to store the outcome. */
    enum rc (*step)(void *ctx, struct dead_operation *operation, bool *more, struct err *err);
    void (*leave)(void *ctx);

    /* After RC_RETRY. True: it was the database of the audit ([mysql]) that failed. */
    bool (*audit_failed)(void *ctx);

    /* After RC_RETRY. True: a collision with another transaction. */
    bool (*collided)(void *ctx, const struct err *err);
};

struct dead_admin;

/* Has a connection to the sink's database and, for the audit, one to that of [mysql]; both connect
 * at first use. settings are borrowed until the close. RC_FATAL: no memory. */
enum rc dead_admin_open(struct dead_admin **admin, const struct settings *settings,
                        struct err *err);
void dead_admin_close(struct dead_admin *admin);

/* Valid until the close. */
const struct dead_admin_ops *dead_admin_ops(const struct dead_admin *admin);

/* Ends the statements that are running. Any thread. */
void dead_admin_interrupt(struct dead_admin *admin);

#endif
