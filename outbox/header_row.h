/* SPDX-License-Identifier: MIT */
/* Which names the headers column of an outbox row may give: whoever appends a row and the relay that
 * reads it go by the same rule, or a key would stop at a row that was taken. Pure; any thread. */
#ifndef OUTBOX_HEADER_ROW_H
#define OUTBOX_HEADER_ROW_H

#include "common/err.h"

/* RC_REJECT: the name is empty, or a header of this name says where a row came from and is made by
 * the relay alone. */
enum rc header_name_check(const char *name, struct err *err);

#endif
