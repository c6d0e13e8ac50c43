/* SPDX-License-Identifier: MIT */
#include "common/http_tokens.h"

#include "common/secret_file.h"

#include <openssl/sha.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

/* What RFC 6750 lets a token be made of. */
static const char letters[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=";

static void digest_of(const char *token, size_t len, unsigned char digest[HTTP_TOKEN_DIGEST_SIZE])
{
    SHA256((const unsigned char *)token, len, digest);
}

static enum rc token_take(struct http_tokens *tokens, const char *token, size_t len,
                          struct err *err)
{
    if (strspn(token, letters) < len)
        return err_fail(err, RC_FATAL, 0,
                        "has a character no token may have; expected letters, digits and -._~+/=");
    if (len < HTTP_TOKEN_BYTES_MIN || len > HTTP_TOKEN_BYTES_MAX)
        return err_fail(err, RC_FATAL, 0,
                        "has a token of %zu characters; expected %d to %d, e.g. from `openssl "
                        "rand -hex 32`",
                        len, HTTP_TOKEN_BYTES_MIN, HTTP_TOKEN_BYTES_MAX);
    if (tokens->count == HTTP_TOKENS_MAX)
        return err_fail(err, RC_FATAL, 0, "has one token too many; expected %d at most",
                        HTTP_TOKENS_MAX);
    digest_of(token, len, tokens->digests[tokens->count++]);
    return RC_OK;
}

static enum rc lines_take(struct http_tokens *tokens, const char *text, const char *path,
                          struct err *err)
{
    unsigned line = 1;

    for (const char *at = text; *at; line++) {
        size_t len = strcspn(at, "\n");
        size_t token_len = len;
        enum rc rc = RC_OK;

        if (token_len > 0 && at[token_len - 1] == '\r')
            token_len--;
        if (token_len > 0 && at[0] != '#')
            rc = token_take(tokens, at, token_len, err);
        if (rc != RC_OK) {
            err_wrap(err, "%.200s:%u", path, line);
            return rc;
        }
        at += len + (at[len] != '\0');
    }
    if (tokens->count == 0)
        return err_fail(err, RC_FATAL, 0, "%.200s: has no token; expected one a line", path);
    return RC_OK;
}

enum rc http_tokens_read(struct http_tokens *tokens, const char *path, struct err *err)
{
    struct http_tokens fresh = {.count = 0};
    struct buf text = {0};
    enum rc rc = secret_file_read(&text, path, err);

    if (rc == RC_OK)
        rc = lines_take(&fresh, buf_text(&text), path, err);
    secret_file_forget(&text);
    if (rc == RC_OK)
        *tokens = fresh;
    return rc;
}

bool http_tokens_match(const struct http_tokens *tokens,
                       const unsigned char digest[HTTP_TOKEN_DIGEST_SIZE])
{
    unsigned found = 0;

    /* Volatile: nothing may be left out because the answer is known before the end. */
    for (size_t i = 0; i < tokens->count; i++) {
        const volatile unsigned char *one = tokens->digests[i];
        unsigned differ = 0;

        for (size_t at = 0; at < HTTP_TOKEN_DIGEST_SIZE; at++)
            differ |= (unsigned)(one[at] ^ digest[at]);
        /* 1 where differ is 0, without a branch: differ is at most 255. */
        found |= (differ - 1U) >> 31;
    }
    return found != 0;
}

bool http_tokens_allow(const struct http_tokens *tokens, const char *header)
{
    static const char scheme[] = "Bearer ";
    unsigned char digest[HTTP_TOKEN_DIGEST_SIZE];

    if (!header || strncasecmp(header, scheme, sizeof(scheme) - 1) != 0)
        return false;
    header += sizeof(scheme) - 1;
    header += strspn(header, " ");
    digest_of(header, strlen(header), digest);
    return http_tokens_match(tokens, digest);
}
