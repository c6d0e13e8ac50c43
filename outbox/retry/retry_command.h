/* SPDX-License-Identifier: MIT */
/* The role `tallybox retry`: tries again what could not be done at once. */
#ifndef OUTBOX_RETRY_RETRY_COMMAND_H
#define OUTBOX_RETRY_RETRY_COMMAND_H

#include "common/daemon/role.h"

extern const struct role retry_role;

#endif
