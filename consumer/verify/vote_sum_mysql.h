/* SPDX-License-Identifier: MIT */
/* What rows of votes add up to, in SQL: sums that can be made of any part of the log, and added.
 * Those who give their vote and take it back cancel out. */
#ifndef CONSUMER_VERIFY_VOTE_SUM_MYSQL_H
#define CONSUMER_VERIFY_VOTE_SUM_MYSQL_H

/* A row of vote_document in the total of its content. */
#define VOTE_SUM_SIGN "IF(voting = 1, 1, -1)"

/* A vote weighs the hash of who votes for what. */
#define VOTE_SUM_WEIGHT "CAST(CRC32(CONCAT(voter_id, '/', content_id)) AS SIGNED)"

#endif
