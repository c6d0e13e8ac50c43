-- side: sink
-- Dead records that were replayed or dropped, kept whole until housekeeping deletes them.

CREATE TABLE dead_history (
    id             BIGINT       NOT NULL AUTO_INCREMENT,
    dead_id        BIGINT       NOT NULL COMMENT 'its id in dead_record',
    consumer_group VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    topic          VARCHAR(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    partition_id   INT          NOT NULL,
    record_offset  BIGINT       NOT NULL,
    record_key     LONGBLOB     NULL,
    payload        LONGBLOB     NULL,
    headers        LONGTEXT     CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    record_time    DATETIME(3)  NULL,
    reason_class   VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason         VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at     DATETIME(3)  NOT NULL COMMENT 'when it died',
    decision       VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'applied, duplicate, stale or dropped',
    applied_value  LONGBLOB     NULL COMMENT 'what was applied instead of payload; NULL: payload itself',
    decided_by     VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    decided_at     DATETIME(3)  NOT NULL,
    PRIMARY KEY (id),
    KEY ix_dead_history_dead (consumer_group, dead_id),
    KEY ix_dead_history_decided (decided_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'dead records that were replayed or dropped';
