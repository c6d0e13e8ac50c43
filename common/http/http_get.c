/* SPDX-License-Identifier: MIT */
#include "common/http/http_get.h"

#include "tallybox_version.h"

#include <curl/curl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define HEADER_SIZE 300

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct buf *body = ctx;

    buf_put(body, bytes, size * count);
    return body->failed ? 0 : size * count;
}

/* CURLOPT_NOSIGNAL stays off: libcurl then ignores SIGPIPE while it writes, and this process has no
 * other thread. */
static void set_limits(CURL *easy, const struct http_get *get)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS, CURLPROTO_HTTP | CURLPROTO_HTTPS);
#endif
#if LIBCURL_VERSION_NUM >= 0x075700
    /* Otherwise the end of the command would wait for a name server that does not answer. */
    curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, get->check_cert ? 1L : 0L);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, get->check_name ? 2L : 0L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "tallybox/" TALLYBOX_VERSION);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)get->timeout_ms);
    if (*get->ca_file) {
        curl_easy_setopt(easy, CURLOPT_CAINFO, get->ca_file);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
}

static bool add_header(struct curl_slist **list, const char *text)
{
    struct curl_slist *longer = curl_slist_append(*list, text);

    if (longer)
        *list = longer;
    return longer != NULL;
}

static bool add_headers(struct curl_slist **list, const struct http_get *get)
{
    char host[HEADER_SIZE];

    snprintf(host, sizeof(host), "Host: %s", get->host);
    return (!*get->host || add_header(list, host)) &&
           (!get->patch || add_header(list, "Content-Type: application/json")) &&
           (!*get->bearer || add_header(list, get->bearer));
}

static void forget_headers(struct curl_slist *list)
{
    for (struct curl_slist *one = list; one; one = one->next)
        OPENSSL_cleanse(one->data, strlen(one->data));
    curl_slist_free_all(list);
}

static enum rc perform(CURL *easy, const struct http_get *get, int *status, const struct buf *body,
                       struct err *err)
{
    char fault[CURL_ERROR_SIZE] = "";
    long code_of_answer = 0;
    CURLcode code;

    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, fault);
    code = curl_easy_perform(easy);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
    if (code != CURLE_OK)
        return err_fail(err, RC_RETRY, (int)code, "%.200s: %s", get->url,
                        body->failed ? "the answer is too long"
                        : fault[0]   ? fault
                                     : curl_easy_strerror(code));
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &code_of_answer);
    *status = (int)code_of_answer;
    return RC_OK;
}

enum rc http_get(const struct http_get *get, int *status, struct buf *body, struct err *err)
{
    struct curl_slist *headers = NULL;
    CURL *easy = NULL;
    enum rc rc;

    *status = 0;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return err_fail(err, RC_FATAL, 0, "libcurl cannot be used");
    easy = curl_easy_init();
    if (easy && add_headers(&headers, get)) {
        set_limits(easy, get);
        curl_easy_setopt(easy, CURLOPT_URL, get->url);
        if (get->patch) {
            curl_easy_setopt(easy, CURLOPT_POSTFIELDS, get->patch);
            curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, "PATCH");
        }
        curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, body);
        rc = perform(easy, get, status, body, err);
    } else {
        rc = err_fail(err, RC_FATAL, 0, "no memory for a request");
    }
    curl_easy_cleanup(easy);
    forget_headers(headers);
    curl_global_cleanup();
    return rc;
}
