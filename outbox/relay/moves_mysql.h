/* SPDX-License-Identifier: MIT */
/* Refused rows of one outbox table on their way into retry_task: the part of the retirer's edge that
 * is about the retry lane, on the same connection. */
#ifndef OUTBOX_RELAY_MOVES_MYSQL_H
#define OUTBOX_RELAY_MOVES_MYSQL_H

#include "outbox/relay/retirer_mysql.h"

/* Of struct retirer_seam; the session is set up. */
enum rc moves_make_tasks(struct retirer_mysql *retirer, const struct relay_move *moves,
                         size_t count, int64_t epoch, bool *fenced, struct err *err);
enum rc moves_load_keys(struct retirer_mysql *retirer, size_t keys_max, retirer_on_key on_key,
                        void *on_key_ctx, struct err *err);
enum rc moves_keys_left(struct retirer_mysql *retirer, struct lane_key *keys, size_t count,
                        struct err *err);

#endif
