/* SPDX-License-Identifier: MIT */
#include "common/http/tls.h"

#include "common/config/secret_file.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

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

static enum rc check_pair(const struct buf *cert_pem, const struct buf *key_pem,
                          const char *section, const char *cert_file, const char *key_file,
                          struct err *err)
{
    X509 *cert = read_cert(cert_pem);
    EVP_PKEY *key = read_key(key_pem);
    enum rc rc = RC_OK;

    if (!cert)
        rc = err_fail(err, RC_REJECT, 0, "%s.tls_cert: %.150s holds no certificate in PEM form",
                      section, cert_file);
    else if (!key)
        rc = err_fail(err, RC_REJECT, 0,
                      "%s.tls_key: %.150s holds no private key in PEM form without a password",
                      section, key_file);
    else if (X509_check_private_key(cert, key) != 1)
        rc = err_fail(err, RC_REJECT, 0,
                      "%s.tls_key: the key in %.120s does not belong to the first certificate in "
                      "%.120s",
                      section, key_file, cert_file);
    X509_free(cert);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return rc;
}

enum rc http_tls_read(struct buf *cert, struct buf *key, const char *section, const char *cert_file,
                      const char *key_file, struct err *err)
{
    enum rc rc = secret_file_read_public(cert, cert_file, err);

    if (rc != RC_OK) {
        err_wrap(err, "%s.tls_cert", section);
        return rc;
    }
    rc = secret_file_read(key, key_file, err);
    if (rc != RC_OK) {
        err_wrap(err, "%s.tls_key", section);
        return rc;
    }
    rc = check_pair(cert, key, section, cert_file, key_file, err);
    /* The HTTP library expects C strings. */
    buf_text(cert);
    buf_text(key);
    return rc;
}
