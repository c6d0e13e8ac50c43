/* SPDX-License-Identifier: MIT */
#include "common/db/handle.h"

#include "common/buf.h"
#include "common/db/error.h"
#include "common/db/login.h"
#include "common/os.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One answer may be as large as the protocol allows; statements bound their rows themselves. */
#define ANSWER_BYTES_MAX (1UL << 30)

#define TLS_FAILED 2026

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static pthread_key_t library_thread;
static bool library_usable;

static void leave_thread(void *unused)
{
    (void)unused;
    mysql_thread_end();
}

static void start_library(void)
{
    library_usable = mysql_library_init(0, NULL, NULL) == 0 &&
                     pthread_key_create(&library_thread, leave_thread) == 0;
}

/* Oracle's library must be initialized in each thread that calls it. Connections move between
 * threads, so each call that enters the library calls this first. */
void db_thread_enter(void)
{
    static const char known;

    if (pthread_getspecific(library_thread))
        return;
    mysql_thread_init();
    pthread_setspecific(library_thread, &known);
}

enum rc db_library_enter(struct err *err)
{
    pthread_once(&library_once, start_library);
    if (!library_usable)
        return err_fail(err, RC_FATAL, 0, "the MySQL client library cannot start: no memory");
    db_thread_enter();
    return RC_OK;
}

/* OpenSSL writes to sockets without MSG_NOSIGNAL, so a closed connection would end the process with
 * SIGPIPE. A handler of SIGPIPE that the program has set stays in place. */
void db_pipe_signal_ignore(void)
{
    struct sigaction action;

    if (sigaction(SIGPIPE, NULL, &action) != 0 || action.sa_handler != SIG_DFL)
        return;
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
}

/* The libraries count in whole seconds, and take 0 for "for ever". */
static unsigned round_to_seconds(int64_t ms)
{
    return ms <= 1000 ? 1 : (unsigned)((ms + 999) / 1000);
}

/* Addresses that other machines cannot intercept. Names are not looked up, because a false DNS
 * answer could make a remote address look local. */
static bool is_local(const struct mysql_settings *settings)
{
    struct in_addr four;
    struct in6_addr six;

    if (settings->socket[0] || strcmp(settings->host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, settings->host, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, settings->host, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

enum db_tls db_tls_of(const struct mysql_settings *settings)
{
    if (strcmp(settings->tls, "off") == 0)
        return DB_TLS_OFF;
    if (strcmp(settings->tls, "on") == 0)
        return DB_TLS_ON;
    if (strcmp(settings->tls, "auto") == 0 && is_local(settings))
        return DB_TLS_OFF;
    return DB_TLS_VERIFY;
}

#ifdef LIBMARIADB
/* MariaDB's library uses the system's certificates unless it gets others, and newer versions verify
 * by default. It requests a public key by itself if a login needs one. */
static void set_tls_options(MYSQL *mysql, const struct mysql_settings *settings)
{
    my_bool enforce = db_tls_of(settings) != DB_TLS_OFF;
    my_bool verify = db_tls_of(settings) == DB_TLS_VERIFY;

    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &enforce);
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (verify && settings->tls_ca[0])
        mysql_options(mysql, MYSQL_OPT_SSL_CA, settings->tls_ca);
}
#else
/* Oracle's library: it verifies only against certificates that it is given. */
static void set_tls_options(MYSQL *mysql, const struct mysql_settings *settings)
{
    const char *file = X509_get_default_cert_file();
    unsigned mode = SSL_MODE_REQUIRED;
    bool public_key = true;

    if (db_tls_of(settings) == DB_TLS_OFF)
        mode = SSL_MODE_DISABLED;
    if (db_tls_of(settings) == DB_TLS_VERIFY) {
        mode = SSL_MODE_VERIFY_IDENTITY;
        if (settings->tls_ca[0])
            file = settings->tls_ca;
        else
            mysql_options(mysql, MYSQL_OPT_SSL_CAPATH, X509_get_default_cert_dir());
        if (settings->tls_ca[0] || access(file, R_OK) == 0)
            mysql_options(mysql, MYSQL_OPT_SSL_CA, file);
    }
    mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
    /* caching_sha2_password over plain TCP needs it the first time. */
    mysql_options(mysql, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &public_key);
}
#endif

static void set_options(MYSQL *mysql, const struct mysql_settings *settings)
{
    unsigned connect = round_to_seconds(settings->connect_timeout_ms);
    unsigned query = round_to_seconds(settings->query_timeout_ms);
    unsigned off = 0;
    unsigned protocol = settings->socket[0] ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
    unsigned long answer = ANSWER_BYTES_MAX;

    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &query);
    mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &query);
    /* A server must not be able to ask us for files. */
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &off);
    /* Without this option "localhost" would mean a socket, even with a port. */
    mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
    mysql_options(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &answer);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "tallybox");
    set_tls_options(mysql, settings);
}

/* MariaDB's library falls back to plain text if the server has no TLS, unless it has to verify. */
static enum rc check_tls(MYSQL *mysql, const struct mysql_settings *settings, const char *place,
                         struct err *err)
{
    if (db_tls_of(settings) == DB_TLS_OFF || mysql_get_ssl_cipher(mysql))
        return RC_OK;
    return err_fail(err, RC_FATAL, 0,
                    "%s: the server offers no TLS; give it a certificate or set tls = off", place);
}

/* The libraries give little information about a failed handshake. The cause may be the network, so
 * the result stays RC_RETRY. */
static enum rc fail_connect(MYSQL *mysql, const struct mysql_settings *settings, const char *place,
                            struct err *err)
{
    unsigned code = mysql_errno(mysql);
    enum rc rc = db_error_report(err, code, place, mysql_error(mysql));
    char said[sizeof(err->text)];

    if (code != TLS_FAILED || !err)
        return rc;
    snprintf(said, sizeof(said), "%s", err->text);
    return err_fail(err, rc, (int)code,
                    "%s: with tls = %s the server needs a certificate for this host, signed by one "
                    "in tls_ca (%.80s)",
                    said, settings->tls, settings->tls_ca[0] ? settings->tls_ca : "the system's");
}

static enum rc connect_handle(MYSQL *mysql, const struct mysql_settings *settings,
                              const char *password, const char *place, struct err *err)
{
    bool local = settings->socket[0] != '\0';
    const char *database = settings->database[0] ? settings->database : NULL;
    /* If the library does not enforce TLS, no statement is sent before the connection is known to
     * be encrypted. */
    bool later = database && db_tls_of(settings) == DB_TLS_ON;
    enum rc rc;

    set_options(mysql, settings);
    /* No flags: no multi statements, and affected rows are those that really changed. */
    if (mysql_real_connect(mysql, local ? NULL : settings->host, settings->user, password,
                           later ? NULL : database, (unsigned)settings->port,
                           local ? settings->socket : NULL, 0))
        rc = check_tls(mysql, settings, place, err);
    else
        rc = fail_connect(mysql, settings, place, err);
    if (rc == RC_OK && later && mysql_select_db(mysql, database) != 0)
        rc = db_error_report(err, mysql_errno(mysql), place, mysql_error(mysql));
    return rc;
}

enum rc db_handle_connect(MYSQL **out, const struct mysql_settings *settings, const char *place,
                          struct err *err)
{
    MYSQL *mysql = mysql_init(NULL);
    char password[SETTING_TEXT_SIZE];
    struct err fault;
    struct err own = {0};
    enum rc rc;

    if (!mysql)
        return err_fail(err, RC_FATAL, 0, "%s: out of memory", place);
    login_read_password(settings, password, &fault);
    rc = connect_handle(mysql, settings, password, place, &own);
    OPENSSL_cleanse(password, sizeof(password));
    if (rc != RC_OK)
        db_error_explain_login(&own, (unsigned)own.code, settings);
    rc = login_take_result(settings, place, os_now_ms(), rc, &fault, &own);
    if (rc == RC_OK) {
        *out = mysql;
        return RC_OK;
    }
    mysql_close(mysql);
    if (err)
        *err = own;
    /* There is no item yet that RC_REJECT could refer to. */
    return rc == RC_REJECT ? RC_RETRY : rc;
}

int db_handle_socket(MYSQL *mysql)
{
#ifdef LIBMARIADB
    return mysql_get_socket(mysql);
#else
    return mysql->net.fd;
#endif
}

/* What our SQL depends on, so that no default of a server changes what a statement does, how many
 * rows it gives, which rows it locks or when it is cut off. Not DEFAULT: that is the server's own
 * value. Each server takes the other one's part for a comment, and so all of it is one statement.
 *
 * sql_select_limit would hide rows; completion_type would chain a second transaction to each
 * COMMIT, whose deletes nothing commits; unique_checks = 0 may let an event in twice; a query cache
 * may answer with an older snapshot than the last one; a range that is given up for its size
 * becomes a scan, which waits for the locks of rows that are not ours. sql_big_selects comes after
 * max_join_size, which sets it. */
#define SESSION_COMMON                                                                            \
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin, time_zone = '+00:00', autocommit = 1, "               \
    "completion_type = 0, sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE," \
    "NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, "          \
    "max_join_size = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, "           \
    "sql_auto_is_null = 0, unique_checks = 1, foreign_key_checks = 1, max_sort_length = 1024, "   \
    "optimizer_switch = 'default'"
#define SESSION_MYSQL                                                                   \
    " /*!80000 , transaction_isolation = 'READ-COMMITTED', transaction_read_only = 0, " \
    "max_execution_time = 0, range_optimizer_max_mem_size = 8388608 */"
#define SESSION_MARIADB                                                                   \
    " /*M! , tx_isolation = 'READ-COMMITTED', tx_read_only = 0, max_statement_time = 0, " \
    "idle_transaction_timeout = 0, idle_write_transaction_timeout = 0, "                  \
    "idle_readonly_transaction_timeout = 0, old_mode = '', sql_if_exists = 0, "           \
    "check_constraint_checks = 1, query_cache_type = 0, "                                 \
    "in_predicate_conversion_threshold = 1000, optimizer_max_sel_arg_weight = 32000 */"

/* The server's time-outs are shorter than ours, so that the server reports what happened and the
 * connection stays usable. The server ends a session whose client froze or whose host vanished, and
 * releases its locks; the default for that is eight hours. */
static void put_session_sql(struct buf *sql, const struct mysql_settings *settings)
{
    unsigned query = round_to_seconds(settings->query_timeout_ms);
    unsigned lock = query > 1 ? query - 1 : 1;
    unsigned idle = query < 15 ? 30 : 2 * query;

    buf_print(sql,
              SESSION_COMMON ", innodb_lock_wait_timeout = %u, lock_wait_timeout = %u, "
                             "wait_timeout = %u, net_read_timeout = %u, net_write_timeout = "
                             "%u" SESSION_MYSQL SESSION_MARIADB,
              lock, lock, idle, idle, idle);
}

static enum rc run_session_sql(MYSQL *mysql, const char *place, const char *sql, struct err *err)
{
    if (mysql_real_query(mysql, sql, (unsigned long)strlen(sql)) == 0)
        return RC_OK;
    return db_error_report(err, mysql_errno(mysql), place, mysql_error(mysql));
}

/* One row of texts; count of them are copied, cut to fit. */
static enum rc read_texts(MYSQL *mysql, const char *place, const char *sql, char (*texts)[256],
                          unsigned count, struct err *err)
{
    enum rc rc = run_session_sql(mysql, place, sql, err);
    MYSQL_RES *res;
    MYSQL_ROW row;

    if (rc != RC_OK)
        return rc;
    res = mysql_store_result(mysql);
    row = res ? mysql_fetch_row(res) : NULL;
    if (!row || mysql_num_fields(res) < count)
        rc = err_fail(err, RC_RETRY, 0, "%s: the server does not say what it is", place);
    for (unsigned i = 0; rc == RC_OK && row && i < count; i++)
        snprintf(texts[i], sizeof(texts[i]), "%s", row[i] ? row[i] : "");
    if (res)
        mysql_free_result(res);
    return rc;
}

enum rc db_handle_origin(MYSQL *mysql, const char *place, enum db_kind kind,
                         struct db_origin *origin, struct err *err)
{
    /* MariaDB has no uuid of its own in all versions. */
    const char *sql = kind == DB_MYSQL
                          ? "SELECT CONCAT(@@hostname, ':', @@port, ' ', @@server_uuid), "
                            "UNIX_TIMESTAMP()"
                          : "SELECT CONCAT(@@hostname, ':', @@port, ' ', @@datadir), "
                            "UNIX_TIMESTAMP()";
    char who[2][256];
    char age[2][256];
    enum rc rc = read_texts(mysql, place, sql, who, 2, err);

    if (rc == RC_OK)
        rc = read_texts(mysql, place, "SHOW GLOBAL STATUS LIKE 'Uptime'", age, 2, err);
    if (rc != RC_OK)
        return rc;
    memcpy(origin->server, who[0], sizeof(origin->server));
    origin->started_s = strtoll(who[1], NULL, 10) - strtoll(age[1], NULL, 10);
    return RC_OK;
}

static enum rc read_session(MYSQL *mysql, const char *place, struct db_server *server,
                            struct err *err)
{
    enum rc rc = run_session_sql(mysql, place, "SELECT @@max_allowed_packet, VERSION()", err);
    MYSQL_RES *res;
    MYSQL_ROW row;

    if (rc != RC_OK)
        return rc;
    res = mysql_store_result(mysql);
    row = res ? mysql_fetch_row(res) : NULL;
    if (row && row[0] && row[1]) {
        server->packet_bytes_max = strtoull(row[0], NULL, 10);
        server->kind = strstr(row[1], "MariaDB") ? DB_MARIADB : DB_MYSQL;
    } else {
        rc = err_fail(err, RC_RETRY, 0, "%s: the server does not say what it is", place);
    }
    if (res)
        mysql_free_result(res);
    return rc;
}

enum rc db_handle_set_up(MYSQL *mysql, const struct mysql_settings *settings, const char *place,
                         struct db_server *server, struct err *err)
{
    struct buf sql = {0};
    enum rc rc;

    put_session_sql(&sql, settings);
    rc = sql.failed ? err_fail(err, RC_FATAL, 0, "%s: out of memory", place)
                    : run_session_sql(mysql, place, buf_text(&sql), err);
    if (rc == RC_OK)
        rc = read_session(mysql, place, server, err);
    buf_done(&sql);
    return rc == RC_REJECT ? RC_FATAL : rc;
}
