-- side: votes
-- What a vote changes in its own transaction, beside the outbox. `migrate up --only outbox` leaves
-- this and the sink out.

CREATE TABLE vote_state (
    voter_id   BIGINT     NOT NULL,
    content_id BIGINT     NOT NULL,
    voting     TINYINT    NOT NULL COMMENT '1 = votes for it, 0 = took the vote back',
    version    BIGINT     NOT NULL COMMENT 'changes so far',
    event_id   BINARY(16) NOT NULL COMMENT 'the event of the last change: makes a repeated COMMIT harmless',
    PRIMARY KEY (content_id, voter_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'the last vote of each voter on each content';

CREATE TABLE vote_count (
    content_id BIGINT NOT NULL,
    votes      BIGINT NOT NULL COMMENT 'exact total at commit',
    PRIMARY KEY (content_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'totals; the row lock orders the votes of a content';

CREATE TABLE deleted_content (
    content_id BIGINT      NOT NULL,
    deleted_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    closed_at  DATETIME(3) NULL COMMENT 'UTC; the tombstone was appended to the outbox; NULL: there is none',
    remove_after DATETIME(3) NULL COMMENT 'UTC; a process of serve removes the votes after this time; NULL: none does',
    removal_at DATETIME(3) NULL COMMENT 'UTC; when housekeeping asked for that',
    PRIMARY KEY (content_id),
    KEY ix_deleted_content_removal (remove_after, closed_at, deleted_at, removal_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'contents that take no more votes';
