/* SPDX-License-Identifier: MIT */
/* Decides what `tallybox health` asks the admin server of a process on this machine, and what the
 * answer means. Pure; any thread.
 *
 * The address is that of admin.listen; one that means every address is asked at the loopback.
 * An address with a + or with port 0 is refused: any of several processes may have the port that
 * the probe would guess, and the probe of a dead process must not get the answer of another one.
 *
 * With TLS the server of this machine is trusted by admin.tls_cert itself, and its name is not
 * checked: a certificate names what other machines call, often neither the loopback nor this
 * address. The certificate is checked only if the request carries a token, which no other server
 * may get. Without a token there is nothing to protect, and the check would fail for a healthy
 * process whose file was renewed, because a process reads the file once.
 *
 * A token is sent to the address of the settings and to the loopback alone. */
#ifndef COMMON_DAEMON_ADMIN_PROBE_H
#define COMMON_DAEMON_ADMIN_PROBE_H

#include "common/buf.h"
#include "common/config/settings.h"
#include "common/err.h"

#include <stdbool.h>

#define ADMIN_PROBE_URL_SIZE (SETTING_TEXT_SIZE + 32)

struct admin_probe {
    char url[ADMIN_PROBE_URL_SIZE];
    char host[SETTING_TEXT_SIZE + 16]; /* of the header Host, one of admin.hosts; "": of the URL */
    const char *token_file;            /* of a token with the scope operate; "": none is sent */
    const char *ca_file;               /* trusted certificates; "": those of the system */
    bool check_cert;
    bool check_name;
};

/* ready: asks /readyz, otherwise /healthz. url: the address to ask as http://HOST[:PORT], or NULL:
 * that of the settings, which are borrowed. RC_REJECT: err tells what to set. */
enum rc admin_probe_make(struct admin_probe *probe, const struct settings *settings,
                         const char *url, bool ready, struct err *err);

enum admin_answer {
    ADMIN_ANSWER_GOOD,
    ADMIN_ANSWER_NOT_READY, /* the lines after the first tell why */
    ADMIN_ANSWER_OTHER,     /* a refusal, or not an answer of tallybox */
};

enum admin_answer admin_probe_judge(bool ready, int status, const char *body);

#endif
