-- side: sink
-- For votes of other producers (consumer.votes_from = anyone): the last vote of each voter.

CREATE TABLE vote_last (
    content_id  BIGINT  NOT NULL,
    voter_id    BIGINT  NOT NULL,
    voting      TINYINT NOT NULL COMMENT '1 = votes for it, 0 = took the vote back',
    occurred_ms BIGINT  NOT NULL COMMENT 'of that vote, ms since 1970: an older one changes nothing',
    PRIMARY KEY (content_id, voter_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'the last vote of each voter on each content in the log';
