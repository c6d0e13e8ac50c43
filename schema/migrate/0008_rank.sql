-- side: sink
-- Recommended lists: the weights of their order, and the items that readers must rank again.

CREATE TABLE rank_weight (
    id         TINYINT     NOT NULL COMMENT 'always 1',
    votes      INT         NOT NULL COMMENT 'points for each rolled-up vote',
    score      INT         NOT NULL COMMENT 'points for each point of the score',
    age        INT         NOT NULL COMMENT 'points lost with each day of age',
    changed_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'one row: the weights of the order; no row: those of the settings';

CREATE TABLE recommended_change (
    item_id    BIGINT      NOT NULL,
    changed_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'after the COMMIT of the change',
    PRIMARY KEY (item_id),
    KEY ix_recommended_change_at (changed_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'when a remark of the item was written last: every process ranks the item again';
