/* SPDX-License-Identifier: MIT */
/* The handler `exec`: runs a program of retry.exec_programs with the params on its stdin. Its
 * environment is TALLYBOX_TASK, _GROUP, _SCENE, _ATTEMPT, _STEP, _IDEMPOTENCY_KEY, _PARAMS_TYPE,
 * _NO_RETRY, and _ORDERING_KEY and _BIZ_NO if the task has them. Its stdout is the result of the
 * step, the last line of its stderr the reason of a failure. Exit codes: 0 done, 75 try again (see
 * sysexits.h), EXEC_SNOOZE, EXEC_REJECT. */
#ifndef OUTBOX_RETRY_HANDLERS_EXEC_HANDLER_H
#define OUTBOX_RETRY_HANDLERS_EXEC_HANDLER_H

#include "outbox/retry/handler.h"

#define EXEC_SNOOZE 99  /* another time, a minute later; no attempt is counted */
#define EXEC_REJECT 100 /* never again */
#define EXEC_SNOOZE_MS 60000

extern const struct retry_handler retry_exec_handler;

#endif
