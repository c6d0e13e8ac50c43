/* SPDX-License-Identifier: MIT */
/* The admin pages of a process: /healthz (it runs), /readyz (its roles can work, or why not) and
 * /metrics. The server's thread answers. */
#ifndef COMMON_DAEMON_ADMIN_H
#define COMMON_DAEMON_ADMIN_H

#include "common/config/settings.h"
#include "common/daemon/readiness.h"
#include "common/err.h"

struct admin;

/* Checks [admin], its address and its files, without taking the port. Fails as admin_open()
 * does. */
enum rc admin_check(const struct settings *settings, struct err *err);

/* Serves the pages according to [admin]. settings, title (the name of the process on the pages) and
 * readiness are borrowed. RC_FATAL: err names the address and the reason. RC_REJECT: err names the
 * setting. */
enum rc admin_open(struct admin **admin, const struct settings *settings, const char *title,
                   struct readiness *readiness, struct err *err);
void admin_close(struct admin *admin);

/* Where it listens: "http" or "https", and the port. */
const char *admin_scheme(const struct admin *admin);
int admin_port(const struct admin *admin);

/* The metrics of the process itself; admin_open() does it too. */
void admin_metrics_register(void);

#endif
