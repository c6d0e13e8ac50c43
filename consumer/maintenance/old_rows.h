/* SPDX-License-Identifier: MIT */
/* The kinds of old rows that housekeeping deletes or marks, each by its own setting. housekeep.h
 * decides when they are deleted, consumer_metrics.h counts them, old_rows_mysql.h has their
 * statements. */
#ifndef CONSUMER_MAINTENANCE_OLD_ROWS_H
#define CONSUMER_MAINTENANCE_OLD_ROWS_H

enum housekeep_kind {
    HOUSEKEEP_INSTANCES, /* age: last heartbeat; on the side of the writers */
    HOUSEKEEP_PROGRESS,  /* of other groups and topics; age: last change */
    HOUSEKEEP_DEAD,      /* age: when the record became dead */
    HOUSEKEEP_HISTORY,   /* records that were replayed or dropped; age: the decision */
    HOUSEKEEP_TASKS,     /* ended tasks without a row in retry_task; age: their end */
    /* attempts at tasks that are gone; these and the tasks are on the side of the writers */
    HOUSEKEEP_ATTEMPTS,
    HOUSEKEEP_AUDIT,   /* actions of operators on the retry queue, on the side of the writers */
    HOUSEKEEP_CHANGES, /* items whose remarks were written; age: the last write */
    /* Marked, and not deleted: a process of serve removes their votes (producer/remark/remover.h).
     * Age: the deletion. */
    HOUSEKEEP_EXPIRED_REMARKS,  /* deleted remarks that nothing removes */
    HOUSEKEEP_EXPIRED_CONTENTS, /* of deleted_content, not closed; on the side of the writers */
    HOUSEKEEP_KINDS,
};

/* A process of serve reads the changes of the last day at most, whatever it has missed
 * (producer/remark/recommended_builder.c). */
#define HOUSEKEEP_CHANGE_DAYS 2

#endif
