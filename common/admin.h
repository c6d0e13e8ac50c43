/* SPDX-License-Identifier: MIT */
/* The admin pages of a process: /healthz (it runs), /readyz (its roles can work, or why not) and
 * /metrics. The main thread tells how far the process is; the server's thread answers. */
#ifndef COMMON_ADMIN_H
#define COMMON_ADMIN_H

#include "common/err.h"
#include "common/role.h"

#include <stddef.h>

struct admin;

/* A role and what its open() gave. */
struct admin_part {
    const struct role *role;
    void *opened;
};

/* Serves the pages on listen ("address:port"), not ready until admin_run(). title: names the
 * process on the pages; borrowed. RC_FATAL: err says which address and why. */
enum rc admin_open(struct admin **admin, const char *listen, const char *title, struct err *err);
void admin_close(struct admin *admin);
int admin_port(const struct admin *admin);

/* Not ready yet, and why. */
void admin_wait(struct admin *admin, const struct err *err);

/* From now on the roles are asked. parts are borrowed until admin_close(). */
void admin_run(struct admin *admin, const struct admin_part *parts, size_t count);

/* Not ready any more. A role may be asked one last time meanwhile. */
void admin_stop(struct admin *admin);

/* The metrics of the process itself; admin_open() does it too. */
void admin_metrics_register(void);

#endif
