/* SPDX-License-Identifier: MIT */
#include "common/db/db.h"

#include "common/db/error.h"
#include "common/db/handle.h"
#include "common/os.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection that was idle for longer is tested before it is used: servers, proxies and firewalls
 * close idle connections without notice. */
#define IDLE_MS 10000

/* Bytes of a packet beside the statement, estimated high. */
#define PACKET_EXTRA 64

/* The socket of an open connection, in the list of all connections of this process. */
struct db_socket {
    int fd; /* a duplicate: the library closes its own as soon as the connection is lost */
    struct db_socket *next;
};

struct db {
    MYSQL *mysql;                          /* NULL while not connected */
    const struct mysql_settings *settings; /* NULL when the handle is the caller's */
    atomic_ulong thread_id;                /* the server's, for db_interrupt(); 0 = none */
    uint64_t session;
    int64_t used_ms;
    struct db_server server;
    db_on_origin on_origin; /* may be NULL */
    void *on_origin_ctx;
    struct db_socket socket;
    bool in_transaction; /* Invariant: only while mysql is connected */
    bool keeps_session;  /* see db_keep_session() */
    char place[128];
};

static pthread_mutex_t sockets_lock = PTHREAD_MUTEX_INITIALIZER; /* guards sockets and the list */
static struct db_socket *sockets;
static atomic_bool cut; /* db_cut_all() was called: no new connection is made */

static void list_socket(struct db_socket *one, int fd)
{
    pthread_mutex_lock(&sockets_lock);
    one->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    one->next = sockets;
    sockets = one;
    pthread_mutex_unlock(&sockets_lock);
}

/* A socket that is not listed may be passed. */
static void forget_socket(struct db_socket *one)
{
    struct db_socket **at = &sockets;

    pthread_mutex_lock(&sockets_lock);
    while (*at && *at != one)
        at = &(*at)->next;
    if (*at) {
        *at = one->next;
        if (one->fd >= 0)
            close(one->fd);
    }
    pthread_mutex_unlock(&sockets_lock);
}

/* Under the lock no socket is closed, so that no number in the list belongs to another file. */
void db_cut_all(void)
{
    atomic_store(&cut, true);
    pthread_mutex_lock(&sockets_lock);
    for (const struct db_socket *one = sockets; one; one = one->next)
        shutdown(one->fd, SHUT_RDWR);
    pthread_mutex_unlock(&sockets_lock);
}

static void drop_handle(struct db *db)
{
    atomic_store(&db->thread_id, 0);
    db->in_transaction = false;
    forget_socket(&db->socket);
    if (db->mysql)
        mysql_close(db->mysql);
    db->mysql = NULL;
}

static enum rc check_origin(struct db *db, struct err *err)
{
    struct db_origin origin = {0};
    enum rc rc;

    if (!db->on_origin)
        return RC_OK;
    rc = db_handle_origin(db->mysql, db->place, db->server.kind, &origin, err);
    return rc == RC_OK ? db->on_origin(db->on_origin_ctx, &origin, err) : rc;
}

enum rc db_connect(struct db *db, struct err *err)
{
    enum rc rc = db_library_enter(err);

    if (rc != RC_OK || db->mysql)
        return rc;
    if (db->keeps_session)
        return err_fail(err, RC_RETRY, 0, "%s: the connection was lost meanwhile", db->place);
    if (atomic_load(&cut))
        return err_fail(err, RC_RETRY, 0, "%s: the process stops and does not connect any more",
                        db->place);
    rc = db_handle_connect(&db->mysql, db->settings, db->place, err);
    if (rc != RC_OK)
        return rc;
    list_socket(&db->socket, db_handle_socket(db->mysql));
    /* db_cut_all() ran while this connection was being made and did not see it. */
    if (atomic_load(&cut))
        rc = err_fail(err, RC_RETRY, 0, "%s: the process stops and does not connect any more",
                      db->place);
    else
        rc = db_handle_set_up(db->mysql, db->settings, db->place, &db->server, err);
    if (rc == RC_OK)
        rc = check_origin(db, err);
    if (rc != RC_OK) {
        drop_handle(db);
        return rc;
    }
    db->session++;
    db->used_ms = os_now_ms();
    atomic_store(&db->thread_id, mysql_thread_id(db->mysql));
    return RC_OK;
}

MYSQL *db_handle_of(const struct db *db)
{
    return db->mysql;
}

const char *db_place_of(const struct db *db)
{
    return db->place;
}

void db_on_connect(struct db *db, db_on_origin on_origin, void *ctx)
{
    db->on_origin = on_origin;
    db->on_origin_ctx = ctx;
}

void db_disconnect(struct db *db)
{
    assert(!db->in_transaction);
    db_thread_enter();
    drop_handle(db);
}

static void set_place(struct db *db)
{
    const struct mysql_settings *settings = db->settings;

    if (settings->socket[0])
        snprintf(db->place, sizeof(db->place), "mysql %.100s", settings->socket);
    else
        snprintf(db->place, sizeof(db->place), "mysql %.100s:%lld", settings->host,
                 (long long)settings->port);
}

static enum rc make_db(struct db **out, struct err *err)
{
    struct db *db;
    enum rc rc = db_library_enter(err);

    if (rc != RC_OK)
        return rc;
    db = calloc(1, sizeof(*db));
    if (!db)
        return err_fail(err, RC_FATAL, 0, "out of memory");
    atomic_init(&db->thread_id, 0);
    *out = db;
    return RC_OK;
}

enum rc db_check_files(const struct mysql_settings *settings, const char *section, struct err *err)
{
    if (db_tls_of(settings) != DB_TLS_VERIFY || !settings->tls_ca[0] ||
        access(settings->tls_ca, R_OK) == 0)
        return RC_OK;
    return err_fail(err, RC_REJECT, errno, "%s.tls_ca: cannot read %.200s: %s", section,
                    settings->tls_ca, strerror(errno));
}

enum rc db_open(struct db **db, const struct mysql_settings *settings, struct err *err)
{
    enum rc rc = make_db(db, err);

    if (rc != RC_OK)
        return rc;
    db_pipe_signal_ignore();
    (*db)->settings = settings;
    set_place(*db);
    return RC_OK;
}

enum rc db_borrow(struct db **db, void *mysql, struct err *err)
{
    enum rc rc = make_db(db, err);

    if (rc != RC_OK)
        return rc;
    (*db)->mysql = mysql;
    (*db)->session = 1;
    (*db)->server.kind = strstr(mysql_get_server_info(mysql), "MariaDB") ? DB_MARIADB : DB_MYSQL;
    snprintf((*db)->place, sizeof((*db)->place), "mysql");
    return RC_OK;
}

void db_close(struct db *db)
{
    if (!db)
        return;
    db_thread_enter();
    if (db->settings)
        drop_handle(db);
    free(db);
}

static void undo_transaction(struct db *db)
{
    if (db->in_transaction && mysql_rollback(db->mysql) != 0)
        drop_handle(db);
    db->in_transaction = false;
}

/* Invariant: after RC_RETRY and RC_FATAL no transaction is open. InnoDB undoes only the statement
 * on some of them (a lock time-out); the rest is undone here, so that callers need not know. */
static enum rc fail_statement(struct db *db, struct err *err)
{
    unsigned code = mysql_errno(db->mysql);
    enum rc rc = db_error_report(err, code, db->place, mysql_error(db->mysql));

    if (!db->settings)
        return rc;
    if (db_error_ends_session(code)) {
        /* A refused statement leaves its transaction open, but this one took it along. */
        if (rc == RC_REJECT && db->in_transaction)
            rc = RC_RETRY;
        drop_handle(db);
        return rc;
    }
    if (rc != RC_REJECT)
        undo_transaction(db);
    return rc;
}

static enum rc make_ready(struct db *db, struct err *err)
{
    enum rc rc = db_library_enter(err);

    if (rc != RC_OK || !db->settings)
        return rc;
    if (db->mysql && !db->in_transaction && os_now_ms() - db->used_ms > IDLE_MS &&
        mysql_ping(db->mysql) != 0)
        drop_handle(db);
    return db_connect(db, err);
}

static enum rc send_statement(struct db *db, const char *sql, size_t len, struct err *err)
{
    enum rc rc = make_ready(db, err);

    if (rc != RC_OK)
        return rc;
    /* The server would end the connection, and with it the transaction. */
    if (db->server.packet_bytes_max > 0 && len + PACKET_EXTRA > db->server.packet_bytes_max)
        return err_fail(err, RC_REJECT, 1153,
                        "%s: a statement of %zu bytes is larger than the server's "
                        "max_allowed_packet of %llu (1153)",
                        db->place, len, (unsigned long long)db->server.packet_bytes_max);
    if (mysql_real_query(db->mysql, sql, (unsigned long)len) != 0)
        return fail_statement(db, err);
    db->used_ms = os_now_ms();
    return RC_OK;
}

/* Reads and drops whatever rows the statement gave. */
static enum rc drop_results(struct db *db, struct err *err)
{
    int more = 0;

    while (more == 0) {
        MYSQL_RES *res = mysql_use_result(db->mysql);

        if (res)
            mysql_free_result(res);
        if (mysql_errno(db->mysql) != 0)
            return fail_statement(db, err);
        more = mysql_next_result(db->mysql);
    }
    return more > 0 ? fail_statement(db, err) : RC_OK;
}

enum rc db_exec(struct db *db, const char *sql, size_t len, uint64_t *affected, struct err *err)
{
    enum rc rc = send_statement(db, sql, len, err);

    if (rc != RC_OK)
        return rc;
    if (affected)
        *affected = mysql_affected_rows(db->mysql);
    if (mysql_field_count(db->mysql) == 0 && !mysql_more_results(db->mysql))
        return RC_OK;
    if (affected)
        *affected = 0;
    return drop_results(db, err);
}

enum rc db_run(struct db *db, const char *sql, struct err *err)
{
    return db_exec(db, sql, strlen(sql), NULL, err);
}

static enum rc fail_buf(struct err *err)
{
    return err_fail(err, RC_FATAL, 0, "no memory for a statement");
}

enum rc db_exec_buf(struct db *db, const struct buf *sql, uint64_t *affected, struct err *err)
{
    return sql->failed ? fail_buf(err) : db_exec(db, sql->data, sql->len, affected, err);
}

_Static_assert(sizeof(size_t) == sizeof(unsigned long), "lengths are handed on as they are");

static enum rc read_rows(MYSQL_RES *res, db_on_row on_row, void *ctx, struct err *err)
{
    struct db_row row = {.count = mysql_num_fields(res)};
    enum rc rc = RC_OK;

    while (rc == RC_OK) {
        MYSQL_ROW columns = mysql_fetch_row(res);

        if (!columns)
            break;
        row.columns = (const char *const *)columns;
        row.lengths = (const size_t *)mysql_fetch_lengths(res);
        rc = on_row(ctx, &row, err);
    }
    return rc;
}

/* A result of on_row counts as our own failure: see fail_statement(). */
static enum rc fail_rows(struct db *db, enum rc rc)
{
    if (rc == RC_RETRY || rc == RC_FATAL)
        undo_transaction(db);
    return rc;
}

enum rc db_query(struct db *db, const char *sql, size_t len, db_on_row on_row, void *ctx,
                 struct err *err)
{
    enum rc rc = send_statement(db, sql, len, err);
    MYSQL_RES *res;

    if (rc != RC_OK)
        return rc;
    res = mysql_store_result(db->mysql);
    if (!res)
        return mysql_errno(db->mysql) != 0 ? fail_statement(db, err) : RC_OK;
    rc = read_rows(res, on_row, ctx, err);
    mysql_free_result(res);
    return fail_rows(db, rc);
}

enum rc db_query_buf(struct db *db, const struct buf *sql, db_on_row on_row, void *ctx,
                     struct err *err)
{
    return sql->failed ? fail_buf(err) : db_query(db, sql->data, sql->len, on_row, ctx, err);
}

enum rc db_stream(struct db *db, const char *sql, size_t len, db_on_row on_row, void *ctx,
                  struct err *err)
{
    enum rc rc = send_statement(db, sql, len, err);
    MYSQL_RES *res;
    bool ended;

    if (rc != RC_OK)
        return rc;
    res = mysql_use_result(db->mysql);
    if (!res)
        return mysql_errno(db->mysql) != 0 ? fail_statement(db, err) : RC_OK;
    rc = read_rows(res, on_row, ctx, err);
    ended = rc == RC_OK && mysql_errno(db->mysql) != 0;
    /* First, because a failure may close the handle that the rest would be read from. */
    mysql_free_result(res);
    if (ended)
        return fail_statement(db, err);
    db->used_ms = os_now_ms();
    return fail_rows(db, rc);
}

struct number {
    int64_t value;
    bool found;
};

static enum rc on_number_row(void *ctx, const struct db_row *row, struct err *err)
{
    struct number *number = ctx;

    (void)err;
    if (number->found || row->count == 0 || !row->columns[0])
        return RC_OK;
    number->value = db_column_i64(row, 0);
    number->found = true;
    return RC_OK;
}

enum rc db_number(struct db *db, const char *sql, int64_t *value, bool *found, struct err *err)
{
    struct number number = {0};
    enum rc rc = db_query(db, sql, strlen(sql), on_number_row, &number, err);

    if (rc != RC_OK)
        return rc;
    if (number.found)
        *value = number.value;
    if (found)
        *found = number.found;
    return RC_OK;
}

enum rc db_read_clock(struct db *db, int64_t *now_ms, struct err *err)
{
    return db_number(db, "SELECT CAST(1000 * UNIX_TIMESTAMP(NOW(3)) AS SIGNED)", now_ms, NULL, err);
}

enum rc db_has_column(struct db *db, const char *table, const char *column, bool *has,
                      struct err *err)
{
    struct number number = {0};
    struct buf sql = {0};
    enum rc rc;

    buf_print(&sql,
              "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND "
              "column_name = '%s' AND table_name = ",
              column);
    db_put_text(db, &sql, table, strlen(table));
    rc = db_query_buf(db, &sql, on_number_row, &number, err);
    buf_done(&sql);
    *has = rc == RC_OK && number.value > 0;
    return rc;
}

enum rc db_begin(struct db *db, struct err *err)
{
    enum rc rc;

    assert(db->settings && !db->in_transaction);
    rc = db_run(db, "START TRANSACTION", err);
    db->in_transaction = rc == RC_OK;
    return rc;
}

enum rc db_commit(struct db *db, struct err *err)
{
    enum rc rc = RC_OK;

    assert(db->in_transaction);
    db_thread_enter();
    if (mysql_commit(db->mysql) != 0) {
        rc = fail_statement(db, err);
        undo_transaction(db);
    }
    db->in_transaction = false;
    db->used_ms = os_now_ms();
    return rc;
}

void db_rollback(struct db *db)
{
    db_thread_enter();
    undo_transaction(db);
}

bool db_in_transaction(const struct db *db)
{
    if (db->settings)
        return db->in_transaction;
    return (db->mysql->server_status & SERVER_STATUS_IN_TRANS) != 0 ||
           (db->mysql->server_status & SERVER_STATUS_AUTOCOMMIT) == 0;
}

void db_keep_session(struct db *db, bool keep)
{
    assert(!keep || db->mysql);
    db->keeps_session = keep;
}

uint64_t db_session(const struct db *db)
{
    return db->session;
}

enum rc db_set_up_session(struct db *db, uint64_t *session, const char *sql, struct err *err)
{
    enum rc rc = db_connect(db, err);

    if (rc != RC_OK || *session == db->session)
        return rc;
    rc = db_run(db, sql, err);
    if (rc == RC_OK)
        *session = db->session;
    return rc;
}

enum db_kind db_server_kind(const struct db *db)
{
    return db->server.kind;
}

uint64_t db_packet_bytes_max(const struct db *db)
{
    return db->server.packet_bytes_max;
}

/* The character after the backslash, or 0 if the byte needs none. */
static const char escapes[256] = {
    ['\0'] = '0',  ['\n'] = 'n', ['\r'] = 'r',  ['\x1a'] = 'Z',
    ['\''] = '\'', ['"'] = '"',  ['\\'] = '\\',
};

void db_literal_quoted(struct buf *sql, const char *introducer, const void *bytes, size_t len)
{
    const unsigned char *in = bytes;
    size_t extra = 2;
    char *out;

    buf_text_put(sql, introducer);
    /* The bytes are counted first, because reserving the worst case could exceed the ceiling of the
     * buf. */
    for (size_t i = 0; i < len; i++)
        extra += escapes[in[i]] != 0;
    out = buf_reserve(sql, len + extra);
    if (!out)
        return;
    sql->len += len + extra;
    *out++ = '\'';
    for (size_t i = 0; i < len; i++) {
        char escape = escapes[in[i]];

        if (escape)
            *out++ = '\\';
        *out++ = escape ? escape : (char)in[i];
    }
    *out = '\'';
}

void db_literal_hex(struct buf *sql, const char *introducer, const void *bytes, size_t len)
{
    buf_text_put(sql, introducer);
    buf_text_put(sql, "X'");
    buf_hex(sql, bytes, len);
    buf_char(sql, '\'');
}

void db_put_text(struct db *db, struct buf *sql, const char *text, size_t len)
{
    if (!text)
        buf_text_put(sql, "NULL");
    else if (db->settings)
        db_literal_quoted(sql, "", text, len);
    else
        db_literal_hex(sql, "_utf8mb4 ", text, len);
}

void db_put_bytes(struct db *db, struct buf *sql, const void *bytes, size_t len)
{
    if (!bytes)
        buf_text_put(sql, "NULL");
    else if (db->settings)
        db_literal_quoted(sql, "_binary", bytes, len);
    else
        db_literal_hex(sql, "", bytes, len);
}

void db_put_name(struct buf *sql, const char *name)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    size_t len = strspn(name, letters);

    if (len == 0 || len > 64 || name[len] != '\0') {
        sql->failed = true;
        return;
    }
    buf_char(sql, '`');
    buf_put(sql, name, len);
    buf_char(sql, '`');
}

int64_t db_column_i64(const struct db_row *row, size_t column)
{
    return row->columns[column] ? strtoll(row->columns[column], NULL, 10) : 0;
}

uint64_t db_column_u64(const struct db_row *row, size_t column)
{
    return row->columns[column] ? strtoull(row->columns[column], NULL, 10) : 0;
}

void db_interrupt(struct db *db)
{
    unsigned long thread_id = atomic_load(&db->thread_id);
    MYSQL *mysql = NULL;
    char sql[64];

    if (thread_id == 0 || atomic_load(&cut) || db_library_enter(NULL) != RC_OK ||
        db_handle_connect(&mysql, db->settings, db->place, NULL) != RC_OK)
        return;
    snprintf(sql, sizeof(sql), "KILL QUERY %lu", thread_id);
    /* Best effort: when it fails, the statement ends by its own time-out. */
    if (mysql_query(mysql, sql) != 0)
        mysql_errno(mysql);
    mysql_close(mysql);
}
