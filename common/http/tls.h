/* SPDX-License-Identifier: MIT */
/* Reads a server's certificate and its key, and sees that they are a pair before anything starts:
 * the HTTP library would only say that it cannot. Any thread. */
#ifndef COMMON_HTTP_TLS_H
#define COMMON_HTTP_TLS_H

#include "common/buf.h"
#include "common/err.h"

/* Fills two zeroed bufs with PEM, ended by a zero behind len. RC_REJECT: err names the setting
 * (section.tls_cert or section.tls_key), the file and the reason; nothing of the key is in it. */
enum rc http_tls_read(struct buf *cert, struct buf *key, const char *section, const char *cert_file,
                      const char *key_file, struct err *err);

#endif
