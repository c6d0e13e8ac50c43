-- side: sink
-- The readers' side: the insert-only log of votes, totals, the progress of consumers, and remark.

CREATE TABLE installation (
    id   TINYINT     NOT NULL COMMENT 'always 1',
    name VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'random; part of the default name of the consumer group' CHECK (name REGEXP '^[A-Za-z0-9_-]+$'),
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'one row: which installation this is';

INSERT INTO installation (id, name)
VALUES (1, SUBSTRING(SHA2(CONCAT(RAND(), RAND(), UTC_TIMESTAMP(6), CONNECTION_ID()), 256), 1, 8));

CREATE TABLE vote_document (
    id          BIGINT      NOT NULL AUTO_INCREMENT,
    gmt_create  DATETIME(3) NOT NULL COMMENT 'when the vote was committed, UTC',
    voter_id    BIGINT      NOT NULL,
    content_id  BIGINT      NOT NULL,
    voting      TINYINT     NOT NULL COMMENT '1 = votes for it, 0 = took the vote back',
    votes       BIGINT      NOT NULL COMMENT 'running total of the content after this row',
    create_date DATE        NOT NULL COMMENT 'date of gmt_create: the partition, from the event, never from our clock',
    event_id    BINARY(16)  NOT NULL,
    content_seq BIGINT      NOT NULL COMMENT '1, 2, 3 ... without holes for each content',
    PRIMARY KEY (id, create_date),
    UNIQUE KEY uk_vote_document_event (event_id, create_date),
    KEY ix_vote_document_content (content_id, content_seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'every vote ever applied; insert only'
PARTITION BY RANGE COLUMNS (create_date) (
    PARTITION p_before VALUES LESS THAN ('2026-01-01'),
    PARTITION p202601 VALUES LESS THAN ('2026-02-01'),
    PARTITION p202602 VALUES LESS THAN ('2026-03-01'),
    PARTITION p202603 VALUES LESS THAN ('2026-04-01'),
    PARTITION p202604 VALUES LESS THAN ('2026-05-01'),
    PARTITION p202605 VALUES LESS THAN ('2026-06-01'),
    PARTITION p202606 VALUES LESS THAN ('2026-07-01'),
    PARTITION p202607 VALUES LESS THAN ('2026-08-01'),
    PARTITION p202608 VALUES LESS THAN ('2026-09-01'),
    PARTITION p202609 VALUES LESS THAN ('2026-10-01'),
    PARTITION p202610 VALUES LESS THAN ('2026-11-01'),
    PARTITION p202611 VALUES LESS THAN ('2026-12-01'),
    PARTITION p202612 VALUES LESS THAN ('2027-01-01'),
    PARTITION p202701 VALUES LESS THAN ('2027-02-01'),
    PARTITION p202702 VALUES LESS THAN ('2027-03-01'),
    PARTITION p202703 VALUES LESS THAN ('2027-04-01'),
    PARTITION p202704 VALUES LESS THAN ('2027-05-01'),
    PARTITION p202705 VALUES LESS THAN ('2027-06-01'),
    PARTITION p202706 VALUES LESS THAN ('2027-07-01'),
    PARTITION p202707 VALUES LESS THAN ('2027-08-01'),
    PARTITION p202708 VALUES LESS THAN ('2027-09-01'),
    PARTITION p202709 VALUES LESS THAN ('2027-10-01'),
    PARTITION p202710 VALUES LESS THAN ('2027-11-01'),
    PARTITION p202711 VALUES LESS THAN ('2027-12-01'),
    PARTITION p202712 VALUES LESS THAN ('2028-01-01'),
    PARTITION p202801 VALUES LESS THAN ('2028-02-01'),
    PARTITION p202802 VALUES LESS THAN ('2028-03-01'),
    PARTITION p202803 VALUES LESS THAN ('2028-04-01'),
    PARTITION p202804 VALUES LESS THAN ('2028-05-01'),
    PARTITION p202805 VALUES LESS THAN ('2028-06-01'),
    PARTITION p202806 VALUES LESS THAN ('2028-07-01'),
    PARTITION p202807 VALUES LESS THAN ('2028-08-01'),
    PARTITION p202808 VALUES LESS THAN ('2028-09-01'),
    PARTITION p202809 VALUES LESS THAN ('2028-10-01'),
    PARTITION p202810 VALUES LESS THAN ('2028-11-01'),
    PARTITION p202811 VALUES LESS THAN ('2028-12-01'),
    PARTITION p202812 VALUES LESS THAN ('2029-01-01'),
    PARTITION p_after VALUES LESS THAN (MAXVALUE)
);

CREATE TABLE vote_tally (
    content_id BIGINT      NOT NULL,
    votes      BIGINT      NOT NULL,
    seq        BIGINT      NOT NULL COMMENT 'content_seq of the newest row',
    changed_at DATETIME(3) NOT NULL,
    ended_at   DATETIME(3) NULL COMMENT 'UTC; the tombstone of the content was applied: later votes on it are stale',
    PRIMARY KEY (content_id),
    KEY ix_vote_tally_changed (changed_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'the newest row of each content';

CREATE TABLE consumer_progress (
    consumer_group VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    topic          VARCHAR(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    partition_id   INT          NOT NULL,
    next_offset    BIGINT       NOT NULL COMMENT '-1: nothing applied, start at the beginning',
    leader_epoch   INT          NOT NULL COMMENT 'of the last applied record; -1: unknown',
    topic_id       VARCHAR(36)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'empty: unknown',
    epoch          BIGINT       NOT NULL COMMENT 'grows with every new owner: fences the ones before',
    owner          VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    updated_at     DATETIME(3)  NOT NULL,
    PRIMARY KEY (consumer_group, topic, partition_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'what has been applied; the truth about offsets';

CREATE TABLE dead_record (
    id             BIGINT       NOT NULL AUTO_INCREMENT,
    consumer_group VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    topic          VARCHAR(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    partition_id   INT          NOT NULL,
    record_offset  BIGINT       NOT NULL,
    record_key     LONGBLOB     NULL,
    payload        LONGBLOB     NULL,
    headers        LONGTEXT     CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'JSON: [[name, base64 or null], ...]',
    record_time    DATETIME(3)  NULL COMMENT 'timestamp of the record, UTC',
    reason_class   VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason         VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    created_at     DATETIME(3)  NOT NULL,
    PRIMARY KEY (id),
    UNIQUE KEY uk_dead_record_place (consumer_group, topic, partition_id, record_offset)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'records that could not be applied, whole';

CREATE TABLE remark (
    id          BIGINT       NOT NULL AUTO_INCREMENT COMMENT 'a vote''s content_id',
    item_id     BIGINT       NOT NULL DEFAULT 0,
    consumer_id BIGINT       NOT NULL DEFAULT 0,
    order_id    BIGINT       NOT NULL DEFAULT 0,
    score       TINYINT      NOT NULL DEFAULT 0,
    header      VARCHAR(255) NOT NULL DEFAULT '',
    content     TEXT         NULL,
    images      TEXT         NULL,
    user_name   VARCHAR(64)  NOT NULL DEFAULT '',
    user_face   VARCHAR(255) NOT NULL DEFAULT '',
    status      TINYINT      NOT NULL DEFAULT 0,
    votes       BIGINT       NOT NULL DEFAULT 0 COMMENT 'as of the last roll-up',
    votes_seq   BIGINT       NOT NULL DEFAULT 0 COMMENT 'content_seq that votes stands for',
    votes_before BIGINT      NOT NULL DEFAULT 0 COMMENT 'votes as the window before votes_window left them',
    votes_window BIGINT      NOT NULL DEFAULT 0 COMMENT 'the roll-up that wrote votes: rollup_state.started_window then',
    rollup_due  TINYINT      NULL DEFAULT 1 COMMENT '1: no roll-up has seen the remark; NULL: one has',
    gmt_create  DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    deleted_at  DATETIME(3)  NULL COMMENT 'UTC; no list shows the remark',
    remove_after DATETIME(3) NULL COMMENT 'UTC; of a deleted remark: a process of serve removes its votes and the row after this time; NULL: none does',
    removal_at  DATETIME(3)  NULL COMMENT 'UTC; housekeeping asked for the removal; NULL: the deletion did',
    PRIMARY KEY (id),
    KEY ix_remark_rollup_due (rollup_due),
    KEY ix_remark_removal (remove_after, deleted_at, removal_at),
    KEY ix_remark_newest (item_id, id),
    KEY ix_remark_votes (item_id, votes, id, votes_window),
    KEY ix_remark_votes_before (item_id, votes_window, votes_before, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_unicode_ci COMMENT = 'what people vote on';

CREATE TABLE rollup_state (
    name         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    rolled_until DATETIME(3)  NOT NULL COMMENT 'changes up to here are in remark',
    finished_window BIGINT    NOT NULL DEFAULT 0 COMMENT 'number of the last roll-up that ended; lists show votes as of it',
    started_window BIGINT     NOT NULL DEFAULT 0 COMMENT 'number of the last roll-up that wrote; one more while it is not finished',
    finished_at  DATETIME(3)  NULL,
    owner        VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    epoch        BIGINT       NOT NULL,
    lease_until  DATETIME(3)  NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'who rolls up, and how far it is';
