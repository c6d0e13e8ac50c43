-- The migrations that the runner has applied to this database, and their state.
CREATE TABLE schema_history (
    version     INT         NOT NULL,
    name        VARCHAR(64) NOT NULL COMMENT 'of the file, without .sql',
    side        VARCHAR(16) NOT NULL COMMENT 'outbox, votes or sink',
    sha256      CHAR(64)    NOT NULL COMMENT 'of the file',
    state       VARCHAR(16) NOT NULL COMMENT 'applied | running: `statement` statements are done | trying: and the next may be | left_out: up --only outbox',
    statement   INT         NOT NULL COMMENT 'statements known to be done',
    statements  INT         NOT NULL COMMENT 'statements in the file',
    baseline    TINYINT     NOT NULL COMMENT '1 = found in place, not run',
    program     VARCHAR(32) NOT NULL COMMENT 'version of tallybox',
    started_at  DATETIME(3) NOT NULL,
    updated_at  DATETIME(3) NOT NULL,
    finished_at DATETIME(3) NULL,
    PRIMARY KEY (version)
) ENGINE = InnoDB DEFAULT CHARSET = ascii COLLATE = ascii_bin COMMENT = 'migrations: what was run, and how far';
