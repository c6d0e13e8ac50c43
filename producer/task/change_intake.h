/* SPDX-License-Identifier: MIT */
/* Changes, shows and lists scenes and groups for the task intake. The caller is its worker. */
#ifndef PRODUCER_TASK_CHANGE_INTAKE_H
#define PRODUCER_TASK_CHANGE_INTAKE_H

#include "common/err.h"
#include "producer/producer_ops.h"
#include "producer/task/task_intake.h"

/* Do a request of TASK_INTAKE_CHANGE, TASK_INTAKE_SCENES or TASK_INTAKE_GROUPS: on RC_OK either
 * request->body holds the answer, or it failed for the reason in request->fault. Other results: as
 * the ops of the store; calling again is harmless. */
enum rc change_intake_make(const struct task_store *store, struct task_intake_request *request,
                           struct err *err);
enum rc change_intake_scenes(const struct task_store *store, struct task_intake_request *request,
                             struct err *err);
enum rc change_intake_groups(const struct task_store *store, struct task_intake_request *request,
                             struct err *err);

#endif
