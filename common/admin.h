/* SPDX-License-Identifier: MIT */
/* The admin pages of a process: /healthz (it runs), /readyz (its roles can work, or why not) and
 * /metrics. The server's thread answers. */
#ifndef COMMON_ADMIN_H
#define COMMON_ADMIN_H

#include "common/err.h"
#include "common/readiness.h"

struct admin;

/* Serves the pages on listen ("address:port"). title: names the process on the pages; it and
 * readiness are borrowed. RC_FATAL: err says which address and why. */
enum rc admin_open(struct admin **admin, const char *listen, const char *title,
                   struct readiness *readiness, struct err *err);
void admin_close(struct admin *admin);
int admin_port(const struct admin *admin);

/* The metrics of the process itself; admin_open() does it too. */
void admin_metrics_register(void);

#endif
