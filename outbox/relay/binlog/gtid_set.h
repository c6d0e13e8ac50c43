/* SPDX-License-Identifier: MIT */
/* The transactions that a reader of the binary log has seen, by their GTIDs: a set of intervals for
 * each source on MySQL, the last GTID of each domain on MariaDB. As text both are what the server
 * itself prints and takes (@@gtid_executed, @@gtid_binlog_pos).
 *
 * Memory grows with the number of sources, domains and holes; a transaction right behind the last
 * one needs none. One thread at a time. */
#ifndef OUTBOX_RELAY_BINLOG_GTID_SET_H
#define OUTBOX_RELAY_BINLOG_GTID_SET_H

#include "common/buf.h"
#include "common/err.h"
#include "outbox/relay/binlog/event.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both ends belong to it. */
struct gtid_interval {
    uint64_t from;
    uint64_t to;
};

/* The transactions of one MySQL server, or of one tag there. */
struct gtid_source {
    uint8_t uuid[16];
    char tag[BINLOG_TAG_SIZE];
    struct gtid_interval *intervals; /* ascending, with a hole between each two */
    size_t count;
    size_t size;
};

struct gtid_domain {
    uint32_t domain;
    uint32_t server_id;
    uint64_t sequence;
};

/* Has either sources or domains. A zeroed one is empty. */
struct gtid_set {
    struct gtid_source *sources; /* ascending by uuid, then by tag */
    size_t source_count;
    struct gtid_domain *domains; /* ascending */
    size_t domain_count;
};

void gtid_set_done(struct gtid_set *set);

/* Parses the text of a server into an empty set; blanks and line ends between parts are ignored, an
 * empty text is the empty set. RC_REJECT: err shows where it is no such text; RC_FATAL: no memory.
 * In both cases the set is empty again. */
enum rc gtid_set_parse_mysql(struct gtid_set *set, const char *text, struct err *err);
enum rc gtid_set_parse_mariadb(struct gtid_set *set, const char *text, struct err *err);

/* Adds a transaction. On MariaDB it becomes the last one of its domain. The set stays as it was for
 * an anonymous one. RC_FATAL: no memory, and the set can only be freed. */
enum rc gtid_set_add(struct gtid_set *set, const struct binlog_gtid *gtid, struct err *err);

/* Whether the transaction is in the set. On MariaDB: whether the last one of its domain has the
 * same number or a higher one. Never for an anonymous one. */
bool gtid_set_has(const struct gtid_set *set, const struct binlog_gtid *gtid);

/* Appends the text. */
void gtid_set_put_text(const struct gtid_set *set, struct buf *out);

/* Appends the binary form that COM_BINLOG_DUMP_GTID takes (Gtid_set::encode() of MySQL, in the form
 * with tags only if there are any). Sources only. */
void gtid_set_put_bytes(const struct gtid_set *set, struct buf *out);

/* Appends one GTID as the server prints it; nothing for an anonymous or a zeroed one. */
void gtid_put_text(const struct binlog_gtid *gtid, struct buf *out);

#endif
