-- side: outbox
-- The outbox, its lanes, and the leases and heartbeats of the processes.

CREATE TABLE outbox (
    seq           BIGINT      NOT NULL AUTO_INCREMENT,
    id            CHAR(36)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'event id, UUIDv7',
    aggregatetype VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'chooses the topic',
    aggregateid   VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'the Kafka key: order is kept per key',
    type          VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'what happened',
    payload       LONGBLOB    NULL COMMENT 'published as it stands; NULL is a tombstone',
    headers       TEXT        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'a JSON object of texts, published as headers',
    created_at    DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    PRIMARY KEY (seq)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'a row that exists is a row not yet known to be published';

CREATE TABLE outbox_lanes (
    id         TINYINT     NOT NULL COMMENT 'always 1',
    lane_count INT         NOT NULL COMMENT 'outbox tables that writers spread events over: outbox, outbox_1 ...',
    next_count INT         NOT NULL COMMENT 'lane_count is being changed to this, and nobody appends; 0: no change',
    version    BIGINT      NOT NULL COMMENT 'grows with every step of a change',
    changed_at DATETIME(3) NOT NULL,
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'one row, which every writer reads with a shared lock before it appends';

INSERT INTO outbox_lanes (id, lane_count, next_count, version, changed_at)
VALUES (1, 1, 0, 1, UTC_TIMESTAMP(3));

CREATE TABLE relay_lease (
    lane           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'an outbox table',
    owner          VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'instance, or empty',
    epoch          BIGINT       NOT NULL COMMENT 'grows with every new owner: fences the ones before',
    lease_until    DATETIME(3)  NOT NULL,
    lease_ms       INT          NOT NULL DEFAULT 0 COMMENT 'length of a lease of this owner; one that ends later than twice that from now was written before the clock was set back',
    diverted_keys  INT          NOT NULL DEFAULT 0 COMMENT 'keys that wait behind a refused event',
    diverted_reason VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '' COMMENT 'of the newest one',
    PRIMARY KEY (lane)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'who reads which outbox table';

CREATE TABLE instance (
    name         VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    role         VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    started_at   DATETIME(3)  NOT NULL,
    seen_at      DATETIME(3)  NOT NULL,
    lease_ms     INT          NOT NULL DEFAULT 15000 COMMENT 'of the settings of this process: without a heartbeat for so long it counts as dead',
    scene_change BIGINT       NOT NULL DEFAULT 0 COMMENT 'of a retry process: the retry_scene_change that it has in force',
    admin        VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'URL of its admin server; empty: none',
    PRIMARY KEY (name, role)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'heartbeats of the running processes';
