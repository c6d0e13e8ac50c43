-- side: sink
-- Housekeeping: the beginning of the log, the sums of dropped months, and the singleton lease.

CREATE TABLE log_begin (
    name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'of the log: vote_document',
    begin_date DATE        NOT NULL COMMENT 'older events are refused: their months are dropped, or about to be',
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'where the log begins';

INSERT INTO log_begin (name, begin_date) VALUES ('vote_document', '1970-01-01');

CREATE TABLE vote_base (
    content_id  BIGINT NOT NULL,
    seq         BIGINT NOT NULL COMMENT 'the highest content_seq among the dropped rows',
    votes       BIGINT NOT NULL COMMENT 'running total in that row',
    row_count   BIGINT NOT NULL COMMENT 'dropped rows',
    vote_sum    BIGINT NOT NULL COMMENT 'their votes: those given less those taken back',
    fingerprint BIGINT NOT NULL COMMENT 'of who gave and took them back, as tallybox verify sums it',
    PRIMARY KEY (content_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'what the dropped rows of vote_document add up to';

CREATE TABLE housekeep_state (
    name        VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    folded_id   BIGINT       NOT NULL COMMENT 'rows from before log_begin.begin_date are in vote_base up to this id',
    finished_at DATETIME(3)  NULL,
    owner       VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    epoch       BIGINT       NOT NULL,
    lease_until DATETIME(3)  NOT NULL,
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'who keeps house, and how far it is';

INSERT INTO housekeep_state (name, folded_id, finished_at, owner, epoch, lease_until)
VALUES ('vote_document', 0, NULL, '', 0, '1970-01-01');
