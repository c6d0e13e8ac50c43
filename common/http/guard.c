/* SPDX-License-Identifier: MIT */
#include "common/http/guard.h"

#include "common/config/secret_file.h"
#include "common/host.h"
#include "common/log.h"
#include "common/os.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* Guards the list of open guards. It is held while the files are read: only opening and closing a
 * server wait for it. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static struct http_guard *open_guards;

static void add_guard(struct http_guard *guard)
{
    pthread_mutex_lock(&open_lock);
    guard->next = open_guards;
    open_guards = guard;
    pthread_mutex_unlock(&open_lock);
}

static void remove_guard(const struct http_guard *guard)
{
    pthread_mutex_lock(&open_lock);
    for (struct http_guard **at = &open_guards; *at; at = &(*at)->next) {
        if (*at == guard) {
            *at = guard->next;
            break;
        }
    }
    pthread_mutex_unlock(&open_lock);
}

static bool is_set(const char *text)
{
    return text && *text;
}

static bool is_loopback4(const unsigned char *address)
{
    return address[0] == 127;
}

/* The local address of a socket, and its family. AF_UNSPEC: there is none. An IPv4 address that is
 * mapped into IPv6 counts as IPv4. */
static int get_place(int fd, struct in_addr *four, struct in6_addr *six)
{
    struct sockaddr_storage place = {0};
    socklen_t len = sizeof(place);
    struct sockaddr_in address4;
    struct sockaddr_in6 address6;

    if (getsockname(fd, (struct sockaddr *)&place, &len) != 0)
        return AF_UNSPEC;
    if (place.ss_family == AF_INET) {
        memcpy(&address4, &place, sizeof(address4));
        *four = address4.sin_addr;
    } else if (place.ss_family == AF_INET6) {
        memcpy(&address6, &place, sizeof(address6));
        *six = address6.sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(six)) {
            memcpy(four, six->s6_addr + 12, sizeof(*four));
            return AF_INET;
        }
    }
    return place.ss_family;
}

static bool is_anywhere(int fd)
{
    struct in_addr four;
    struct in6_addr six;
    int family = get_place(fd, &four, &six);

    return (family == AF_INET && four.s_addr == htonl(INADDR_ANY)) ||
           (family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six));
}

/* Sockets of other families, such as Unix sockets, cannot be reached from other machines. */
static bool is_loopback(int fd)
{
    struct in_addr four;
    struct in6_addr six;

    switch (get_place(fd, &four, &six)) {
    case AF_UNSPEC:
        return false;
    case AF_INET:
        return is_loopback4((const unsigned char *)&four.s_addr);
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&six);
    default:
        return true;
    }
}

static enum rc check_place(const struct http_guard_config *config, int fd, struct err *err)
{
    const char *section = config->section;

    if (is_loopback(fd) || is_set(config->token_file) || config->without_token)
        return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "%s.listen: other machines can reach this address: set %s.token_file to a file "
                    "of bearer tokens, or %s.without_token = yes to allow requests without one",
                    section, section, section);
}

void http_guard_warn(const struct http_guard *guard, int fd)
{
    const char *section = guard->config->section;

    if (!is_loopback(fd) && !is_set(guard->config->tls_cert))
        log_event(LOG_WARN, "http_without_tls",
                  "section=%s text=\"other machines can reach this address and nothing is "
                  "encrypted: set %s.tls_cert and %s.tls_key unless a proxy in front does it\"",
                  section, section, section);
}

/* Refuses keys with a password; by default the library would ask on the terminal. */
static int refuse_password(char *out, int size, int writing, void *ctx)
{
    (void)out;
    (void)size;
    (void)writing;
    (void)ctx;
    return -1;
}

static X509 *read_cert(const struct buf *pem)
{
    BIO *bio = BIO_new_mem_buf(pem->data, (int)pem->len);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, refuse_password, NULL) : NULL;

    BIO_free(bio);
    return cert;
}

static EVP_PKEY *read_key(const struct buf *pem)
{
    BIO *bio = BIO_new_mem_buf(pem->data, (int)pem->len);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, refuse_password, NULL) : NULL;

    BIO_free(bio);
    return key;
}

/* Checks that certificate and key belong together, because the HTTP library's own error names no
 * reason. err holds nothing of the key. */
static enum rc check_pair(const struct http_guard *guard, struct err *err)
{
    const struct http_guard_config *config = guard->config;
    X509 *cert = read_cert(&guard->cert);
    EVP_PKEY *key = read_key(&guard->key);
    enum rc rc = RC_OK;

    if (!cert)
        rc = err_fail(err, RC_REJECT, 0, "%s.tls_cert: %.150s holds no certificate in PEM form",
                      config->section, config->tls_cert);
    else if (!key)
        rc = err_fail(err, RC_REJECT, 0,
                      "%s.tls_key: %.150s holds no private key in PEM form without a password",
                      config->section, config->tls_key);
    else if (X509_check_private_key(cert, key) != 1)
        rc = err_fail(err, RC_REJECT, 0,
                      "%s.tls_key: the key in %.120s does not belong to the first certificate in "
                      "%.120s",
                      config->section, config->tls_key, config->tls_cert);
    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return rc;
}

static enum rc open_tls(struct http_guard *guard, struct err *err)
{
    const struct http_guard_config *config = guard->config;
    enum rc rc;

    if (is_set(config->tls_cert) != is_set(config->tls_key))
        return err_fail(err, RC_REJECT, 0, "%s.%s is not set; a certificate needs its key",
                        config->section, is_set(config->tls_cert) ? "tls_key" : "tls_cert");
    if (!is_set(config->tls_cert))
        return RC_OK;
    rc = secret_file_read_public(&guard->cert, config->tls_cert, err);
    if (rc != RC_OK) {
        err_wrap(err, "%s.tls_cert", config->section);
        return rc;
    }
    rc = secret_file_read(&guard->key, config->tls_key, err);
    if (rc != RC_OK) {
        err_wrap(err, "%s.tls_key", config->section);
        return rc;
    }
    rc = check_pair(guard, err);
    /* The HTTP library expects C strings. */
    buf_text(&guard->cert);
    buf_text(&guard->key);
    return rc;
}

/* A token file in which no token has the needed scope is refused. */
static enum rc check_scopes(const struct http_guard_config *config,
                            const struct http_tokens *tokens, struct err *err)
{
    if (config->needed_scope == 0)
        return RC_OK;
    for (size_t i = 0; i < tokens->count; i++)
        if (http_scopes_have(&tokens->scopes[i], config->needed_scope))
            return RC_OK;
    return err_fail(err, RC_REJECT, 0,
                    "%.200s: no token has the scope operate, which these pages need: write it "
                    "behind one, as in TOKEN operate",
                    config->token_file);
}

static enum rc read_tokens(struct http_guard *guard, struct err *err)
{
    struct http_tokens tokens;
    enum rc rc;

    if (!guard->has_tokens)
        return RC_OK;
    rc = http_tokens_read(&tokens, guard->config->token_file, err);
    if (rc == RC_OK)
        rc = check_scopes(guard->config, &tokens, err);
    if (rc != RC_OK) {
        err_wrap(err, "%s.token_file", guard->config->section);
        return rc;
    }
    pthread_mutex_lock(&guard->lock);
    guard->tokens = tokens;
    pthread_mutex_unlock(&guard->lock);
    return RC_OK;
}

enum rc http_guard_open(struct http_guard *guard, const struct http_guard_config *config,
                        const char *listen, int fd, struct err *err)
{
    const char *colon = strrchr(listen, ':');
    enum rc rc;

    *guard = (struct http_guard){.config = config, .has_tokens = is_set(config->token_file)};
    if (is_anywhere(fd))
        os_host_name(guard->name, sizeof(guard->name));
    else if (colon)
        snprintf(guard->name, sizeof(guard->name), "%.*s", (int)(colon - listen), listen);
    pthread_mutex_init(&guard->lock, NULL);
    rc = check_place(config, fd, err);
    if (rc == RC_OK)
        rc = open_tls(guard, err);
    if (rc == RC_OK)
        rc = read_tokens(guard, err);
    if (rc == RC_OK)
        add_guard(guard);
    return rc;
}

void http_guard_close(struct http_guard *guard)
{
    if (!guard->config)
        return;
    remove_guard(guard);
    secret_file_forget(&guard->cert);
    secret_file_forget(&guard->key);
    pthread_mutex_destroy(&guard->lock);
    guard->config = NULL;
}

/* Whether host is the address that the client connected to. */
static bool is_place(const struct host *host, int fd)
{
    char text[INET6_ADDRSTRLEN + 2] = "";
    struct in_addr four;
    struct in6_addr six;
    int family = get_place(fd, &four, &six);

    if (family == AF_INET)
        inet_ntop(AF_INET, &four, text, sizeof(text));
    else if (family == AF_INET6 && inet_ntop(AF_INET6, &six, text + 1, sizeof(text) - 2)) {
        text[0] = '[';
        text[strlen(text)] = ']';
    }
    return *text && host_has_name(host, text, strlen(text));
}

bool http_guard_answers_for(const struct http_guard *guard, const char *text, int fd)
{
    const char *hosts = guard->config->hosts;
    struct host host;

    if (!hosts)
        return true;
    if (!host_read(&host, text))
        return false;
    if (*hosts)
        return host_is_listed(&host, hosts, 0);
    return host_is_listed(&host, "localhost,127.0.0.1,[::1]", 0) ||
           host_has_name(&host, guard->name, strlen(guard->name)) || is_place(&host, fd);
}

bool http_guard_allows(struct http_guard *guard, const char *authorization,
                       struct http_scopes *scopes)
{
    bool good;

    *scopes = (struct http_scopes){.bits = 0};
    if (!guard->has_tokens) {
        scopes->bits = guard->config->open_scopes;
        return true;
    }
    pthread_mutex_lock(&guard->lock);
    good = http_tokens_allow(&guard->tokens, authorization, scopes);
    pthread_mutex_unlock(&guard->lock);
    return good;
}

void http_guards_reload(void)
{
    pthread_mutex_lock(&open_lock);
    for (struct http_guard *guard = open_guards; guard; guard = guard->next) {
        struct err err = {0};

        if (!guard->has_tokens)
            continue;
        if (read_tokens(guard, &err) == RC_OK)
            log_event(LOG_INFO, "tokens_reloaded", "section=%s tokens=%zu", guard->config->section,
                      guard->tokens.count);
        else
            log_error(LOG_ERROR, "tokens_reload_failed", &err,
                      "section=%s hint=\"the old tokens stay valid\"", guard->config->section);
    }
    pthread_mutex_unlock(&open_lock);
}
