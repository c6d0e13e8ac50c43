/* SPDX-License-Identifier: MIT */
/* SQL expressions for sums over votes that can be computed for any part of the log and added. A
 * vote and its withdrawal cancel out. */
#ifndef CONSUMER_VERIFY_VOTE_SUM_MYSQL_H
#define CONSUMER_VERIFY_VOTE_SUM_MYSQL_H

/* The change that a row of vote_document makes to the total of its content. */
#define VOTE_SUM_SIGN "IF(voting = 1, 1, -1)"

/* The weight of a vote in the fingerprint: a hash of voter and content. */
#define VOTE_SUM_WEIGHT "CAST(CRC32(CONCAT(voter_id, '/', content_id)) AS SIGNED)"

#endif
