/* SPDX-License-Identifier: MIT */
/* Prints what operators see of the retry queue: tasks for terminals and scripts, and the tables of
 * the reference. A terminal always gets printable text; JSON gets base64 for bytes that are not
 * UTF-8. Pure; any thread. */
#ifndef OUTBOX_RETRY_CLI_RETRY_TEXT_H
#define OUTBOX_RETRY_CLI_RETRY_TEXT_H

#include "common/buf.h"
#include "outbox/retry/handler.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stdint.h>

/* Appends text as one printable line without its end. */
void retry_text_put_line(struct buf *out, const char *text);

/* The list: a head, and a line for each task. now_ms: the database's clock. */
void task_list_head(struct buf *out, bool ended);
void task_list_row(struct buf *out, const struct retry_view *view, int64_t now_ms);

/* One task, whole. */
void task_show_text(struct buf *out, const struct retry_view *view, int64_t now_ms);

/* Its attempts: a head when first, and a line for each. */
void task_attempt_text(struct buf *out, const struct retry_attempt_view *attempt, bool first,
                       int64_t now_ms);

/* As JSON objects; whole: with options, parameters and the result of the step before. No memory:
 * out becomes failed. */
void task_json(struct buf *out, const struct retry_view *view, bool whole);
void task_attempt_json(struct buf *out, const struct retry_attempt_view *attempt);

/* Tables as Markdown: the fields of a policy, the named waits, the handlers. RETRY.md contains them
 * as printed. */
void retry_text_fields(struct buf *out);
void retry_text_waits(struct buf *out);
void retry_text_presets(struct buf *out);
void retry_text_handlers(struct buf *out, const struct retry_handlers *handlers);

#endif
