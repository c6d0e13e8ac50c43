/* SPDX-License-Identifier: MIT */
#include "common/daemon/admin_probe.h"

#include "common/host.h"
#include "common/text.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LOOPBACK "127.0.0.1"

static bool is_set(const char *text)
{
    return *text != '\0';
}

/* The IPv6 address between brackets. */
static bool read_six(const char *host, struct in6_addr *six)
{
    char text[INET6_ADDRSTRLEN];

    if (host[0] != '[')
        return false;
    snprintf(text, sizeof(text), "%.*s", (int)strcspn(host + 1, "]"), host + 1);
    return inet_pton(AF_INET6, text, six) == 1;
}

/* In any spelling, as http_listen() reads it: "*", "0.0.0.0", "0", "[::]". A socket that listens at
 * every IPv6 address accepts IPv4, too. */
static bool is_every_address(const char *host)
{
    struct in6_addr six;

    return strcmp(host, "*") == 0 || inet_addr(host) == htonl(INADDR_ANY) ||
           (read_six(host, &six) && IN6_IS_ADDR_UNSPECIFIED(&six));
}

static bool is_loopback(const char *host)
{
    struct in6_addr six;
    struct in_addr four;

    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return strcmp(host, "localhost") == 0 || (read_six(host, &six) && IN6_IS_ADDR_LOOPBACK(&six));
}

static enum rc take_listen(struct admin_probe *probe, const struct settings *settings,
                           const char *page, struct err *err)
{
    const char *listen = settings->admin.listen;
    const char *colon = strrchr(listen, ':');
    char host[SETTING_TEXT_SIZE];
    long port;

    if (!colon)
        return err_fail(err, RC_REJECT, 0,
                        "admin.listen = %s: this process has no admin server; give the address of "
                        "another one by --url",
                        listen);
    port = strtol(colon + 1, NULL, 10);
    if (port == 0 || strchr(colon, '+'))
        return err_fail(err, RC_REJECT, 0,
                        "admin.listen = %s: the process takes any free port, so this command "
                        "cannot know which: set a port without a +, as admin.listen = " LOOPBACK
                        ":9464, or give the address by --url, which tallybox status shows",
                        listen);
    snprintf(host, sizeof(host), "%.*s", (int)(colon - listen), listen);
    snprintf(probe->url, sizeof(probe->url), "%s://%s:%ld%s",
             is_set(settings->admin.tls_cert) ? "https" : "http",
             is_every_address(host) ? LOOPBACK : host, port, page);
    return RC_OK;
}

static bool read_url(const char *url, bool *tls, char text[SETTING_TEXT_SIZE], struct host *host)
{
    const char *start;
    size_t len;

    *tls = strncmp(url, "https://", 8) == 0;
    if (!*tls && strncmp(url, "http://", 7) != 0)
        return false;
    start = url + (*tls ? 8 : 7);
    len = strlen(start);
    if (len == 0 || len >= SETTING_TEXT_SIZE)
        return false;
    memcpy(text, start, len + 1);
    if (text[len - 1] == '/')
        text[len - 1] = '\0';
    return host_read(host, text);
}

/* *own: it is on this machine. */
static enum rc take_url(struct admin_probe *probe, const char *url, const char *page, bool *own,
                        struct err *err)
{
    char text[SETTING_TEXT_SIZE];
    char name[SETTING_TEXT_SIZE];
    struct host host;
    bool tls;

    if (!read_url(url, &tls, text, &host))
        return err_fail(err, RC_REJECT, 0,
                        "--url %.100s: expected http://HOST[:PORT] or https://HOST[:PORT], without "
                        "a path; --ready asks /readyz",
                        url);
    snprintf(name, sizeof(name), "%.*s", (int)host.name_len, host.name);
    *own = is_loopback(name);
    snprintf(probe->url, sizeof(probe->url), "%s://%s%s", tls ? "https" : "http", text, page);
    return RC_OK;
}

/* The first entry of admin.hosts, with a name below a suffix. Without a port it allows any. */
static void choose_host(struct admin_probe *probe, const char *hosts)
{
    size_t len;
    const char *entry = list_next(&hosts, ',', &len);

    if (entry && len > 0)
        snprintf(probe->host, sizeof(probe->host), "%s%.*s", *entry == '*' ? "health" : "",
                 (int)(*entry == '*' ? len - 1 : len), *entry == '*' ? entry + 1 : entry);
}

enum rc admin_probe_make(struct admin_probe *probe, const struct settings *settings,
                         const char *url, bool ready, struct err *err)
{
    const char *page = ready ? "/readyz" : "/healthz";
    bool own = true;
    enum rc rc;

    *probe = (struct admin_probe){.token_file = "", .ca_file = ""};
    rc = url ? take_url(probe, url, page, &own, err) : take_listen(probe, settings, page, err);
    if (rc != RC_OK)
        return rc;
    if (own) {
        choose_host(probe, settings->admin.hosts);
        probe->token_file = ready ? settings->admin.token_file : "";
        probe->ca_file = settings->admin.tls_cert;
    }
    probe->check_cert = !own || is_set(probe->token_file);
    probe->check_name = probe->check_cert && !is_set(probe->ca_file);
    return RC_OK;
}

enum admin_answer admin_probe_judge(bool ready, int status, const char *body)
{
    static const char good[] = "ready\n";
    static const char bad[] = "not ready\n";

    if (!ready)
        return status == 200 && strcmp(body, "ok\n") == 0 ? ADMIN_ANSWER_GOOD : ADMIN_ANSWER_OTHER;
    if (status == 200 && strncmp(body, good, sizeof(good) - 1) == 0)
        return ADMIN_ANSWER_GOOD;
    if (status == 503 && strncmp(body, bad, sizeof(bad) - 1) == 0)
        return ADMIN_ANSWER_NOT_READY;
    return ADMIN_ANSWER_OTHER;
}
