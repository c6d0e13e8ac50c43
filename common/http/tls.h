/* SPDX-License-Identifier: MIT */
/* Reads a server's certificate and key and checks that they belong together, because the HTTP
 * library's own error names no reason. Any thread. */
#ifndef COMMON_HTTP_TLS_H
#define COMMON_HTTP_TLS_H

#include "common/buf.h"
#include "common/err.h"

/* Fills two zeroed bufs with PEM; a zero byte follows len. RC_REJECT: err names the setting
 * (section.tls_cert or section.tls_key), the file and the reason, and holds nothing of the key. */
enum rc http_tls_read(struct buf *cert, struct buf *key, const char *section, const char *cert_file,
                      const char *key_file, struct err *err);

#endif
