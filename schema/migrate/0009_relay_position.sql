-- side: outbox
-- How far a lane that reads the binary log has published it, and which of its rows are to be deleted.

CREATE TABLE relay_position (
    lane        VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'an outbox table, as in relay_lease',
    epoch       BIGINT          NOT NULL COMMENT 'of the lease under which the position was saved',
    by_gtid     TINYINT         NOT NULL COMMENT '1: gtids says where reading begins; 0: file and file_offset do',
    gtids       LONGTEXT        CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'GTIDs of all transactions before the position',
    file        VARCHAR(512)    CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'of the binary log',
    file_offset BIGINT UNSIGNED NOT NULL COMMENT 'bytes of the file before the position',
    gtid        VARCHAR(255)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'of the next transaction, if rows_done is above 0 and it has one',
    rows_done   BIGINT UNSIGNED NOT NULL COMMENT 'rows of the table in the next transaction that are published',
    server      VARCHAR(64)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'whose binary log it is; file and file_offset mean nothing on another server',
    committed_at DATETIME(3)    NULL COMMENT 'when the last transaction before the position was written; NULL: not known',
    saved_at    DATETIME(3)     NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    PRIMARY KEY (lane)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'where each lane continues to read the binary log; no row: a lane that has not begun';

CREATE TABLE relay_published (
    number       BIGINT      NOT NULL AUTO_INCREMENT,
    lane         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'an outbox table, as in relay_position',
    published_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'keep_ms counts from then on',
    first_seq    BIGINT      NOT NULL COMMENT 'the lowest of them',
    seqs         MEDIUMBLOB  NOT NULL COMMENT 'ranges of seq; of each, two numbers of 7 bits a byte, the lowest first: from the end of the last range to its begin, and its length less 1',
    PRIMARY KEY (number),
    KEY ix_relay_published_lane (lane, number),
    KEY ix_relay_published_seq (lane, first_seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'rows that are published or queued and not yet deleted, saved with the position of their lane';
