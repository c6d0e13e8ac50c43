-- side: outbox
-- Which rows of a lane that reads the binary log are to be deleted, of a table without a column seq.

CREATE TABLE relay_published_id (
    number       BIGINT      NOT NULL AUTO_INCREMENT,
    lane         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'an outbox table, as in relay_position',
    published_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'keep_ms counts from then on',
    id_count     INT         NOT NULL COMMENT 'number of the ids',
    ids          MEDIUMBLOB  NOT NULL COMMENT 'of each id a byte with its length and its bytes; or the byte 128 and the 16 bytes of a UUID that is a text in the table',
    PRIMARY KEY (number),
    KEY ix_relay_published_id_lane (lane, number, id_count)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'as relay_published, for lanes with keep_ids_max whose table has no column seq';
