/* SPDX-License-Identifier: MIT */
/* Refused rows of one outbox table on their way into retry_task: the part of the deleter's edge that
 * is about the retry lane, on the same connection. */
#ifndef OUTBOX_RELAY_MOVES_MYSQL_H
#define OUTBOX_RELAY_MOVES_MYSQL_H

#include "outbox/relay/deleter_mysql.h"

/* Of struct deleter_seam; the session is set up. */
enum rc moves_make_tasks(struct deleter_mysql *deleter, const struct relay_move *moves,
                         size_t count, int64_t epoch, bool *fenced, struct err *err);
enum rc moves_load_keys(struct deleter_mysql *deleter, size_t keys_max, deleter_on_key on_key,
                        void *on_key_ctx, struct err *err);
enum rc moves_keys_left(struct deleter_mysql *deleter, struct lane_key *keys, size_t count,
                        struct err *err);

#endif
