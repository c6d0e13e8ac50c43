/* SPDX-License-Identifier: MIT */
#include "common/db/binlog_link.h"

#include "common/buf.h"
#include "common/db/handle.h"
#include "common/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef LIBMARIADB
#include <ma_pvio.h>
#endif

#define DUMP_NON_BLOCK 1 /* flag of a dump: end at the end of the log */
#define END_PACKET 0xfe
#define END_PACKET_LEN_MAX 8

#define CANNOT_READ_BINLOG 1236
#define SAME_SERVER_ID 4052 /* MariaDB, where it does not use 1236 */
#define LOST_IN_QUERY 2013

/* What a server waits for a reader that takes nothing before it closes the connection. Longer than
 * a broker is usually away; a reader that was closed begins again. */
#define SERVER_WRITE_WAIT_S 600

/* Of the protocol: a longer packet comes in parts of this size. */
#define PACKET_PART_BYTES 0xffffff
#define PACKET_HEADER_BYTES 4

/* How much is read without asking the clock and the kernel again. */
#define UNREAD_BYTES_MAX 65536

#define NS_PER_MS INT64_C(1000000)

/* Of the uuid of a reader, before its server id. */
#define UUID_PREFIX "74616c6c-7962-6f78-0000-0000"

/* A connection whose other end vanished is noticed without anything to send. */
#define KEEPALIVE_IDLE_S 10
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES 3

struct binlog_link {
    struct mysql_settings settings; /* the caller's with the time-outs of a stream */
    struct db *db;
    MYSQL *mysql; /* of db */
    int fd;       /* its socket once more: the library closes its own when the connection is lost */
    enum binlog_refusal refusal;
    bool until_end;
    bool any; /* an event has come */
    int64_t silence_ms;
    int64_t read_ms; /* os_now_ms() when the kernel was last asked for bytes of the server */
    bool silent;     /* the last next has failed after silence_ms without any */
#ifndef LIBMARIADB
    MYSQL_RPL dump;
    size_t unread_bytes; /* that the socket had when it was asked, and that were not read since */
#endif
};

/* Part of the text of a refusal. Both servers report nearly all of them with one number. */
struct refusal_words {
    const char *words;
    enum binlog_refusal refusal;
};

/* From rpl_binlog_sender.cc and messages_to_clients.txt of MySQL 9.7, and sql_repl.cc and
 * errmsg.txt of MariaDB 10.11; "master" and "slave" have become "source" and "replica" in some of
 * them. */
static const struct refusal_words refusals[] = {
    {"purged", BINLOG_REFUSAL_PURGED},
    {"Could not find first log file", BINLOG_REFUSAL_PURGED},
    {"Could not find GTID state", BINLOG_REFUSAL_PURGED},
    {"more GTIDs than", BINLOG_REFUSAL_AHEAD},
    {"which is not in the", BINLOG_REFUSAL_AHEAD},
    {"position > file size", BINLOG_REFUSAL_AHEAD},
    {"impossible position", BINLOG_REFUSAL_AHEAD},
    {"with the same server_", BINLOG_REFUSAL_REPLACED},
};

static enum binlog_refusal find_refusal(unsigned code, const char *text)
{
    if (code == SAME_SERVER_ID)
        return BINLOG_REFUSAL_REPLACED;
    if (code != CANNOT_READ_BINLOG)
        return BINLOG_REFUSAL_NONE;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
        if (strstr(text, refusals[i].words))
            return refusals[i].refusal;
    return BINLOG_REFUSAL_OTHER;
}

/* Each server ignores the variables of the other. The algorithm of checksums is that of the file; a
 * reader that does not name one that it knows gets no event from a file with checksums. A
 * capability of 4 makes MariaDB send GTIDs. MySQL ends an earlier stream of the same uuid. */
static enum rc set_variables(struct binlog_link *link, const struct binlog_start *start,
                             struct err *err)
{
    int64_t heartbeat_ns = start->heartbeat_ms * NS_PER_MS;
    struct buf sql = {0};
    enum rc rc;

    buf_print(&sql,
              "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32', "
              "@master_heartbeat_period = %" PRId64 ", @source_heartbeat_period = %" PRId64
              ", @mariadb_slave_capability = 4, "
              "@slave_uuid = '" UUID_PREFIX "%08" PRIx32 "', @replica_uuid = '" UUID_PREFIX
              "%08" PRIx32 "', net_write_timeout = %d, wait_timeout = %d",
              heartbeat_ns, heartbeat_ns, start->server_id, start->server_id, SERVER_WRITE_WAIT_S,
              SERVER_WRITE_WAIT_S);
    if (!start->file && start->gtid_text) {
        /* Strict: a position that this server has never had is refused. */
        buf_text_put(&sql, ", @slave_gtid_strict_mode = 1, @slave_connect_state = ");
        db_put_text(link->db, &sql, start->gtid_text, strlen(start->gtid_text));
    }
    rc = db_exec_buf(link->db, &sql, NULL, err);
    buf_done(&sql);
    return rc;
}

static void set_keepalive(int fd, int64_t silence_ms)
{
    const struct {
        int name;
        int value;
    } options[] = {
        {TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {TCP_KEEPCNT, KEEPALIVE_PROBES},
        {TCP_USER_TIMEOUT, (int)silence_ms},
    };
    int on = 1;

    /* A Unix socket has none of them and needs none. */
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
        setsockopt(fd, IPPROTO_TCP, options[i].name, &options[i].value, sizeof(int));
}

/* Reports the error of the client library. */
static enum rc fail_link(struct binlog_link *link, struct err *err)
{
    unsigned code = mysql_errno(link->mysql);
    const char *text = mysql_error(link->mysql);
    enum rc rc = db_error_report(err, code, db_place_of(link->db), text);

    link->refusal = find_refusal(code, text);
    if (link->refusal == BINLOG_REFUSAL_NONE)
        return rc == RC_FATAL ? rc : RC_RETRY;
    return link->refusal == BINLOG_REFUSAL_REPLACED ? RC_RETRY : RC_FATAL;
}

/* MariaDB has got its GTIDs in a variable. */
static bool begins_by_set(const struct binlog_link *link, const struct binlog_start *start)
{
    return !start->file && db_server_kind(link->db) == DB_MYSQL;
}

static bool poll_socket(const struct binlog_link *link)
{
    struct pollfd one = {.fd = link->fd, .events = POLLIN};

    return poll(&one, 1, 0) > 0;
}

#ifdef LIBMARIADB

#define COMMAND_DUMP 18
#define COMMAND_DUMP_GTID 30 /* the library has no name for it */

/* The bodies of both commands: sql/rpl_source.cc of MySQL. A set of GTIDs comes without a file
 * name, which would win over it. */
#define DUMP_ANNOTATED 2 /* flag of a dump: send the texts of statements, too */

static void put_dump(struct buf *body, const struct binlog_start *start, bool by_set,
                     unsigned flags)
{
    if (by_set) {
        buf_le(body, flags, 2);
        buf_le(body, start->server_id, 4);
        buf_le(body, 0, 4); /* length of the file name */
        buf_le(body, 4, 8); /* offset */
        buf_le(body, start->gtid_bytes_len, 4);
        buf_put(body, start->gtid_bytes, start->gtid_bytes_len);
        return;
    }
    buf_le(body, start->file ? start->offset : 4, 4);
    buf_le(body, flags, 2);
    buf_le(body, start->server_id, 4);
    if (start->file)
        buf_text_put(body, start->file);
}

/* Connector/C has no function for this that can start by GTID on MySQL; cmake/libraries.cmake
 * checks that the functions below exist. */
static enum rc begin_dump(struct binlog_link *link, const struct binlog_start *start,
                          struct err *err)
{
    bool by_set = begins_by_set(link, start);
    int command = by_set ? COMMAND_DUMP_GTID : COMMAND_DUMP;
    struct buf body = {0};
    enum rc rc = RC_OK;

    put_dump(&body, start, by_set,
             (start->until_end ? DUMP_NON_BLOCK : 0) | (start->annotated ? DUMP_ANNOTATED : 0));
    if (body.failed)
        rc = err_fail(err, RC_FATAL, 0, "no memory for the request of a stream");
    else if (link->mysql->methods->db_command(link->mysql, (enum enum_server_command)command,
                                              body.data, body.len, 1, NULL) != 0)
        rc = fail_link(link, err);
    buf_done(&body);
    return rc;
}

static enum rc read_packet(struct binlog_link *link, const uint8_t **packet, size_t *len,
                           struct err *err)
{
    unsigned long size = mysql_net_read_packet(link->mysql);

    if (size == packet_error)
        return fail_link(link, err);
    *packet = link->mysql->net.read_pos;
    *len = size;
    return RC_OK;
}

/* Whether the library has read bytes ahead; cmake/libraries.cmake checks that it can tell. Many
 * small events come with one read of the socket, and asking the kernel before each of them took a
 * fifth of the time. */
static bool has_unread(const struct binlog_link *link)
{
    const MARIADB_PVIO *pvio = link->mysql->net.pvio;

    return pvio && pvio->cache && pvio->cache + pvio->cache_size > pvio->cache_pos;
}

static bool ask_socket(struct binlog_link *link)
{
    return poll_socket(link);
}

#else

static enum rc begin_dump(struct binlog_link *link, const struct binlog_start *start,
                          struct err *err)
{
    MYSQL_RPL *dump = &link->dump;

    dump->server_id = start->server_id;
    dump->start_position = start->file ? start->offset : 4;
    dump->file_name = start->file ? start->file : "";
    dump->file_name_length = strlen(dump->file_name);
    dump->flags = start->until_end ? DUMP_NON_BLOCK : 0;
    if (begins_by_set(link, start)) {
        dump->flags |= MYSQL_RPL_GTID;
        dump->gtid_set_encoded_size = start->gtid_bytes_len;
        /* Without a callback the bytes are copied from here, within the call. */
        dump->gtid_set_arg = (void *)(uintptr_t)start->gtid_bytes;
    }
    return mysql_binlog_open(link->mysql, dump) == 0 ? RC_OK : fail_link(link, err);
}

/* Counts a packet that the library has returned, with the headers of its parts. The connection has
 * no compression, whose headers are longer. */
static void note_read(struct binlog_link *link, size_t size)
{
    size_t bytes = size + PACKET_HEADER_BYTES * (size / PACKET_PART_BYTES + 1);

    link->unread_bytes -= bytes < link->unread_bytes ? bytes : link->unread_bytes;
}

/* The library consumes the packet of the end; that becomes one again. */
static enum rc read_packet(struct binlog_link *link, const uint8_t **packet, size_t *len,
                           struct err *err)
{
    static const uint8_t end = END_PACKET;

    if (mysql_binlog_fetch(link->mysql, &link->dump) != 0)
        return fail_link(link, err);
    note_read(link, link->dump.size);
    *packet = link->dump.size > 0 ? link->dump.buffer : &end;
    *len = link->dump.size > 0 ? link->dump.size : 1;
    return RC_OK;
}

static bool has_unread(const struct binlog_link *link)
{
    return link->unread_bytes > 0;
}

/* The library does not tell what it has read ahead, so the kernel is asked how many bytes it has:
 * packets of that many bytes in total can be read without asking again. Asking before each event of
 * transactions of one row took a third of the relay's CPU time. With TLS the socket has more bytes
 * than the packets. */
static bool ask_socket(struct binlog_link *link)
{
    int bytes = 0;

    if (mysql_get_ssl_cipher(link->mysql) || ioctl(link->fd, FIONREAD, &bytes) != 0)
        return poll_socket(link);
    link->unread_bytes = bytes < UNREAD_BYTES_MAX ? (size_t)bytes : UNREAD_BYTES_MAX;
    return bytes > 0;
}

#endif

static enum rc check_start(const struct binlog_link *link, const struct binlog_start *start,
                           struct err *err)
{
    enum db_kind kind = db_server_kind(link->db);

    if (start->file && start->offset > UINT32_MAX)
        return err_fail(err, RC_REJECT, 0,
                        "%s: offset %" PRIu64 " in %s is above 4 GiB: only a GTID can name it",
                        db_place_of(link->db), start->offset, start->file);
    if (!start->file && (kind == DB_MARIADB ? !start->gtid_text : !start->gtid_bytes))
        return err_fail(err, RC_REJECT, 0, "%s: the position is of another kind of server",
                        db_place_of(link->db));
    return RC_OK;
}

static enum rc start_stream(struct binlog_link *link, const struct binlog_start *start,
                            db_on_origin on_origin, void *on_origin_ctx, struct err *err)
{
    enum rc rc = db_open(&link->db, &link->settings, err);

    if (rc != RC_OK)
        return rc;
    db_on_connect(link->db, on_origin, on_origin_ctx);
    rc = db_connect(link->db, err);
    if (rc == RC_OK)
        rc = check_start(link, start, err);
    if (rc == RC_OK)
        rc = set_variables(link, start, err);
    if (rc != RC_OK)
        return rc;
    link->mysql = db_handle_of(link->db);
    link->fd = fcntl(db_handle_socket(link->mysql), F_DUPFD_CLOEXEC, 0);
    if (link->fd < 0)
        return err_fail(err, RC_RETRY, errno, "%s: no file descriptor is left",
                        db_place_of(link->db));
    set_keepalive(link->fd, start->silence_ms);
    if (start->event_bytes_max > 0)
        link->mysql->net.max_packet_size = start->event_bytes_max;
    return begin_dump(link, start, err);
}

enum rc binlog_link_open(struct binlog_link **out, const struct mysql_settings *settings,
                         const struct binlog_start *start, db_on_origin on_origin,
                         void *on_origin_ctx, struct err *err)
{
    struct binlog_link *link = calloc(1, sizeof(*link));
    enum rc rc;

    *out = NULL;
    if (!link)
        return err_fail(err, RC_FATAL, 0, "no memory for a stream");
    link->fd = -1;
    link->settings = *settings;
    link->settings.query_timeout_ms = start->silence_ms;
    link->until_end = start->until_end;
    link->silence_ms = start->silence_ms;
    rc = start_stream(link, start, on_origin, on_origin_ctx, err);
    if (rc == RC_OK)
        *out = link;
    else
        binlog_link_close(link);
    return rc;
}

void binlog_link_close(struct binlog_link *link)
{
    if (!link)
        return;
    db_thread_enter();
#ifndef LIBMARIADB
    if (link->mysql)
        mysql_binlog_close(link->mysql, &link->dump);
#endif
    db_close(link->db);
    if (link->fd >= 0)
        close(link->fd);
    free(link);
}

/* The library says "lost connection" for a server that was silent, too. */
static enum rc explain_loss(struct binlog_link *link, enum rc rc, struct err *err)
{
    /* The library may count a little less. */
    link->silent =
        rc == RC_RETRY && os_now_ms() - link->read_ms >= link->silence_ms - link->silence_ms / 10;
    if (rc == RC_RETRY && err && err->code == LOST_IN_QUERY)
        err_wrap(err, "the stream was lost, or the server was silent for %" PRId64 " s%s",
                 link->silence_ms / 1000, link->any ? "" : " before its first event");
    return rc;
}

enum rc binlog_link_next(struct binlog_link *link, const void **event, size_t *len, struct err *err)
{
    const uint8_t *packet = NULL;
    size_t size = 0;
    enum rc rc;

    db_thread_enter();
    if (!has_unread(link))
        link->read_ms = os_now_ms();
    rc = read_packet(link, &packet, &size, err);
    if (rc != RC_OK)
        return explain_loss(link, rc, err);
    if (size > 0 && size <= END_PACKET_LEN_MAX && packet[0] == END_PACKET) {
        *event = NULL;
        *len = 0;
        return link->until_end ? RC_OK
                               : err_fail(err, RC_RETRY, 0, "%s: the server has ended the stream",
                                          db_place_of(link->db));
    }
    if (size == 0 || packet[0] != 0)
        return err_fail(err, RC_RETRY, 0, "%s: a packet of %zu bytes in the stream is no event",
                        db_place_of(link->db), size);
    link->any = true;
    *event = packet + 1;
    *len = size - 1;
    return RC_OK;
}

bool binlog_link_ready(struct binlog_link *link)
{
    if (has_unread(link))
        return true;
    link->read_ms = os_now_ms();
    return ask_socket(link);
}

enum binlog_refusal binlog_link_refusal(const struct binlog_link *link)
{
    return link->refusal;
}

bool binlog_link_was_silent(const struct binlog_link *link)
{
    return link->silent;
}

void binlog_link_shutdown(struct binlog_link *link)
{
    shutdown(link->fd, SHUT_RDWR);
}
