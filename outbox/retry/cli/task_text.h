/* SPDX-License-Identifier: MIT */
/* Prints tasks and their attempts: as lines for a terminal, or as JSON objects for programs. A
 * terminal gets printable text only; JSON gets base64 for bytes that are not UTF-8. If memory runs
 * out, `out` becomes failed. now_ms is a time of the database's clock. Pure; any thread. */
#ifndef OUTBOX_RETRY_CLI_TASK_TEXT_H
#define OUTBOX_RETRY_CLI_TASK_TEXT_H

#include "common/buf.h"
#include "outbox/retry/retry.h"

#include <stdbool.h>
#include <stdint.h>

struct json_t;

/* Appends text as one printable line without its end. */
void task_text_line(struct buf *out, const char *text);

/* Appends text as one word of a shell's command line, quoted if needed. False: the text has
 * characters that cannot be shown; nothing is appended. */
bool task_text_word(struct buf *out, const char *text);

/* Append the head of a list of tasks, and the line of one task. ended: the tasks are those of the
 * history. */
void task_text_head(struct buf *out, bool ended);
void task_text_row(struct buf *out, const struct retry_view *view, int64_t now_ms);

/* Appends all fields of one task. */
void task_text_show(struct buf *out, const struct retry_view *view, int64_t now_ms);

/* Appends one attempt of a task, after a head if it is the first one. */
void task_text_attempt(struct buf *out, const struct retry_attempt_view *attempt, bool first,
                       int64_t now_ms);

/* Appends a JSON object and frees it. NULL: it could not be made, and *out is marked as failed. */
void task_text_put_object(struct buf *out, struct json_t *object);

/* Appends the end of a JSON page of rows: "more", and "after" for --after; null if none follow. */
void task_text_page_end(struct buf *out, bool rows, bool more, int64_t after);

/* Append a task or an attempt as a JSON object. whole: with the options, the parameters and the
 * result of the previous step. */
void task_text_json(struct buf *out, const struct retry_view *view, bool whole);
void task_text_attempt_json(struct buf *out, const struct retry_attempt_view *attempt);

#endif
