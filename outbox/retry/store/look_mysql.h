/* SPDX-License-Identifier: MIT */
/* Reads the classes, scenes, handlers and depths for the dispatcher, as the calls of struct
 * retry_store require. One thread at a time per store. */
#ifndef OUTBOX_RETRY_STORE_LOOK_MYSQL_H
#define OUTBOX_RETRY_STORE_LOOK_MYSQL_H

#include "common/err.h"
#include "outbox/retry/retry_ops.h"
#include "outbox/retry/store/store_mysql.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Frees the memory of a search for classes; walk may be NULL. */
void walk_close(struct walk *walk);

enum rc look_classes(struct store *store, retry_on_class on_class, void *on_class_ctx,
                     struct err *err);
enum rc look_scenes(struct store *store, retry_on_scene on_scene, void *on_scene_ctx,
                    struct scene_change *change, struct err *err);
enum rc look_record(struct store *store, int64_t change, struct err *err);
enum rc look_handlers(struct store *store, int64_t lease_ms, retry_on_handler on_handler,
                      void *on_handler_ctx, struct err *err);
enum rc look_depths(struct store *store, retry_on_depth on_depth, void *on_depth_ctx,
                    struct err *err);

#endif
