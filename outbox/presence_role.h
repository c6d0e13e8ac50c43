/* SPDX-License-Identifier: MIT */
/* The role that accompanies all others (role_accompany()): its thread records the roles of the
 * process as instances, so that `tallybox status` shows every process and tells when one has died.
 * No other work depends on it: while its database is unavailable, the process is ready and only
 * `tallybox status` cannot see it. */
#ifndef OUTBOX_PRESENCE_ROLE_H
#define OUTBOX_PRESENCE_ROLE_H

#include "common/daemon/role.h"

extern const struct role presence_role;

#endif
