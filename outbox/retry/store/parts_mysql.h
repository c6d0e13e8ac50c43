/* SPDX-License-Identifier: MIT */
/* The parts of retry_mysql.c; nobody else includes this. One thread at a time per store. */
#ifndef OUTBOX_RETRY_STORE_PARTS_MYSQL_H
#define OUTBOX_RETRY_STORE_PARTS_MYSQL_H

#include "outbox/retry/store/retry_mysql.h"

#include <stddef.h>

/* Connects, and empties store->sql. */
enum rc store_ready(struct retry_mysql *store, struct err *err);
/* The same, and begins a transaction. */
enum rc store_begin(struct retry_mysql *store, struct err *err);
/* Commits after RC_OK, rolls back after anything else; the first failure is returned. */
enum rc store_end(struct retry_mysql *store, enum rc rc, struct err *err);

void store_put(struct retry_mysql *store, const char *sql);
void store_put_text(struct retry_mysql *store, const char *text);
/* "UTC_TIMESTAMP(3) + INTERVAL n MICROSECOND" */
void store_put_later(struct retry_mysql *store, int64_t delay_ms);
void store_put_class(struct retry_mysql *store, const struct task_class *class);
/* Runs what store->sql holds. */
enum rc store_exec(struct retry_mysql *store, uint64_t *affected, struct err *err);
enum rc store_query(struct retry_mysql *store, db_on_row on_row, void *ctx, struct err *err);

/* claim_mysql.c */
enum rc claim_open(struct claim **claim, struct err *err);
void claim_close(struct claim *claim);
enum rc claim_tasks(struct retry_mysql *store, const struct task_class *class, size_t rows_max,
                    int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                    struct err *err);
enum rc claim_expired_tasks(struct retry_mysql *store, const struct task_age *age, size_t rows_max,
                            int64_t lease_ms, retry_on_task on_task, void *on_task_ctx, bool *full,
                            struct err *err);

/* finish_mysql.c */
enum rc finish_open(struct finishing **finishing, struct err *err);
void finish_close(struct finishing *finishing);
enum rc finish_tasks(struct retry_mysql *store, const struct task_result *results, size_t count,
                     bool *lost, struct err *err);

/* hold_mysql.c */
enum rc hold_beat(struct retry_mysql *store, const int64_t *ids, const int64_t *epochs,
                  size_t count, int64_t lease_ms, bool *lost, struct err *err);
enum rc hold_rescue(struct retry_mysql *store, size_t rows_max, size_t *count, size_t *shortened,
                    struct err *err);

/* look_mysql.c */
void walk_close(struct walk *walk);
enum rc look_classes(struct retry_mysql *store, retry_on_class on_class, void *on_class_ctx,
                     struct err *err);
enum rc look_scenes(struct retry_mysql *store, retry_on_scene on_scene, void *on_scene_ctx,
                    struct scene_change *change, struct err *err);
enum rc look_record(struct retry_mysql *store, int64_t change, struct err *err);
enum rc look_handlers(struct retry_mysql *store, int64_t lease_ms, retry_on_handler on_handler,
                      void *on_handler_ctx, struct err *err);
enum rc look_depths(struct retry_mysql *store, retry_on_depth on_depth, void *on_depth_ctx,
                    struct err *err);

#endif
