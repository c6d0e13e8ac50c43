-- side: outbox
-- The retry queue: tasks wait here and run again by the policy of their scene, without delaying
-- other work.

CREATE TABLE retry_scene (
    task_group VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    scene      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    policy     TEXT        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'a JSON object: waits, attempts, what exhaustion means ...',
    options    TEXT        CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'a JSON object for the handler; a task''s own options come on top',
    paused     TINYINT     NOT NULL DEFAULT 0,
    version    BIGINT      NOT NULL DEFAULT 1 COMMENT 'grows with every change',
    updated_at DATETIME(3) NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    PRIMARY KEY (task_group, scene)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'what the failures of each kind of task mean; a scene without a row has what init_scene of its group says';

CREATE TABLE retry_scene_version (
    number     BIGINT       NOT NULL AUTO_INCREMENT,
    task_group VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    scene      VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version    BIGINT       NOT NULL COMMENT 'of the row of retry_scene',
    policy     TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    options    TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    paused     TINYINT      NOT NULL,
    changed_at DATETIME(3)  NOT NULL,
    changed_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'the operator; empty: by SQL',
    why        VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'in the operator''s words',
    PRIMARY KEY (number),
    KEY ix_retry_scene_version (task_group, scene, number)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'every version of the rows of retry_scene that a command has made or replaced';

CREATE TABLE retry_scene_change (
    name   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'of the table: retry_scene',
    number BIGINT      NOT NULL COMMENT 'grows with every change that tallybox makes to a scene',
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'orders the changes of all scenes, so that a process needs to record only one number';

INSERT INTO retry_scene_change (name, number) VALUES ('retry_scene', 0);

CREATE TABLE retry_group (
    name        VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'retry_task.task_group',
    owner       VARCHAR(8)    CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'client' COMMENT 'whose tasks it holds: client, relay or consumer',
    enabled     TINYINT       NOT NULL DEFAULT 1 COMMENT '0: its tasks wait, and our API takes none',
    handlers    VARCHAR(255)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'that its tasks may name: http,exec; a word may end in *; empty: none',
    scenes      VARCHAR(1000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'the same of scenes',
    topics      VARCHAR(1000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'the same of topics, for the handler kafka',
    init_scene  VARCHAR(4000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'standard' COMMENT 'what a scene without a row has: standard (the default policy), refuse (no task), or a policy',
    route       VARCHAR(16)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'round_robin' COMMENT 'which client gets a task: random, round_robin, consistent_hash, lru or two_choices',
    shards      VARCHAR(64)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'that its tasks run in: 0-3,7; empty: all',
    description VARCHAR(255)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '' COMMENT 'for operators',
    version     BIGINT        NOT NULL DEFAULT 1 COMMENT 'grows with every change',
    updated_at  DATETIME(3)   NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    PRIMARY KEY (name)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'what the tasks of each group may do; tasks of a group without a row wait';

INSERT INTO retry_group (name, owner, handlers, scenes, topics) VALUES
    ('default', 'client', 'http,exec,steps,kafka', '*', ''),
    ('outbox', 'relay', 'kafka', 'publish', '*');

CREATE TABLE retry_client (
    task_group     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    address        VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'where it takes tasks: http://host:port and perhaps a path',
    version        VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '' COMMENT 'of the application, in its own words',
    config_version VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'of the configuration of its group, as it was told last',
    failed_reports BIGINT       NOT NULL DEFAULT 0 COMMENT 'reports that it could not send, all together',
    first_beat_at  DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    last_beat_at   DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'expired after 90 s',
    PRIMARY KEY (task_group, address),
    KEY ix_retry_client_beat (last_beat_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'instances of applications that take the tasks of their group';

CREATE TABLE retry_task (
    id              BIGINT       NOT NULL AUTO_INCREMENT,
    task_group      VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'default' COMMENT 'whose task: a service, or an outbox table',
    scene           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'the kind of task',
    handler         VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'kafka, http, vote, exec or steps',
    ordering_key    VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'tasks of one group and key run one at a time, in the order of id; NULL: no order',
    idempotency_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'one active task per group, scene and this; NULL: by what the task does',
    biz_no          VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'the application''s own number, to find it by',
    options         MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL COMMENT 'a JSON object for the handler',
    params          LONGBLOB     NULL COMMENT 'what the handler delivers, as it stands',
    params_type     VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'application/json',
    traceparent     VARCHAR(55)  CHARACTER SET ascii COLLATE ascii_bin NULL COMMENT 'W3C Trace Context: calls carry it; NULL: they get one that is made',
    state           TINYINT      NOT NULL DEFAULT 0 COMMENT '0 waiting, 1 running, 2 queued behind its key, 3 blocked, 4 parked: stands for one in the history',
    attempts        INT          NOT NULL DEFAULT 0 COMMENT 'that failed',
    next_at         DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'not before',
    reason_class    VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'of the last failure: transient, refused, ours',
    reason          VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    owner           VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '                                                ' COMMENT 'instance that runs it, with blanks behind: a claim does not change the length of the row, and is in place',
    epoch           BIGINT       NOT NULL DEFAULT 0 COMMENT 'grows with every claim: fences the ones before',
    lease_until     DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'of a task that runs; never NULL for the same reason',
    lease_ms        INT          NOT NULL DEFAULT 0 COMMENT 'length of the lease, as in relay_lease',
    parent_id       BIGINT       NULL COMMENT 'the task that this one is the callback of',
    step            INT          NOT NULL DEFAULT 0,
    step_result     LONGBLOB     NULL COMMENT 'what the step before gave',
    waited          TINYINT      NOT NULL DEFAULT 0 COMMENT '1: first_wait of its scene does not concern it any more',
    exhausts_at     DATETIME(3)  NULL COMMENT 'when it will be exhausted if no attempt succeeds until then; NULL: not foreseen',
    origin          VARCHAR(8)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'client' COMMENT 'who made it: client, relay or consumer; applications have no right to write it',
    created_at      DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    age_from        DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'the deadline of its scene counts from here: it was made, or a person had it tried again',
    updated_at      DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)),
    order_hash      BINARY(32)   GENERATED ALWAYS AS (UNHEX(SHA2(CONCAT(origin, 0x00, task_group, 0x00, ordering_key), 256))) STORED COMMENT 'the origin, group and key; NULL without a key',
    task_hash       BINARY(32)   GENERATED ALWAYS AS (UNHEX(SHA2(CONCAT(origin, 0x00, task_group, 0x00, scene, 0x00,
                        COALESCE(CONCAT(0x01, idempotency_key),
                            CONCAT(handler, 0x00, COALESCE(ordering_key, 0x00), 0x00, COALESCE(biz_no, 0x00), 0x00,
                                COALESCE(options, 0x00), 0x00, COALESCE(SHA2(params, 256), 0x00)))), 256))) STORED COMMENT 'the origin, group, scene and idempotency key',
    active_hash     BINARY(32)   GENERATED ALWAYS AS (IF(state = 4, NULL, task_hash)) STORED COMMENT 'what is parked does not count as active',
    busy_hash       BINARY(32)   GENERATED ALWAYS AS (IF(state IN (1, 3, 4), order_hash, NULL)) STORED COMMENT 'at most one task of a key runs or stands in its way',
    shard           TINYINT      GENERATED ALWAYS AS (ORD(COALESCE(order_hash, task_hash)) % 16) STORED COMMENT 'leased over the live instances',
    age_state       TINYINT      GENERATED ALWAYS AS (GREATEST(state, 1)) STORED COMMENT 'a claim does not change it: waiting and running are one',
    class           VARBINARY(175) GENERATED ALWAYS AS (CONCAT(handler, 0x00, task_group, 0x00, scene, 0x00, origin, 0x00, HEX(shard))) STORED COMMENT 'tasks that are claimed together',
    PRIMARY KEY (id),
    UNIQUE KEY uq_retry_task_active (active_hash),
    UNIQUE KEY uq_retry_task_busy (busy_hash),
    KEY ix_retry_task_due (state, class, next_at, id),
    KEY ix_retry_task_order (order_hash, age_state, id),
    KEY ix_retry_task_age (task_group, scene, age_state, age_from, id),
    KEY ix_retry_task_biz (biz_no, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'what waits to be tried again, and what stands in its key''s way';

CREATE TABLE retry_task_history (
    id              BIGINT       NOT NULL COMMENT 'of the task',
    task_group      VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    scene           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    handler         VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    ordering_key    VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    idempotency_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    biz_no          VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    options         MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
    params          LONGBLOB     NULL,
    params_type     VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    traceparent     VARCHAR(55)  CHARACTER SET ascii COLLATE ascii_bin NULL,
    state           TINYINT      NOT NULL COMMENT 'its last one',
    attempts        INT          NOT NULL COMMENT 'that failed',
    next_at         DATETIME(3)  NOT NULL,
    reason_class    VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason          VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    owner           VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'instance or person that ended it',
    epoch           BIGINT       NOT NULL,
    lease_until     DATETIME(3)  NULL,
    parent_id       BIGINT       NULL,
    step            INT          NOT NULL,
    step_result     LONGBLOB     NULL,
    origin          VARCHAR(8)   CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'client',
    created_at      DATETIME(3)  NOT NULL,
    updated_at      DATETIME(3)  NOT NULL,
    outcome         VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'done, exhausted or cancelled',
    ended_at        DATETIME(3)  NOT NULL,
    requeued_as     BIGINT       NULL COMMENT 'the task that a person made of it',
    keep_until      DATETIME(3)  NULL COMMENT 'a retry process deletes it then; NULL: housekeeping does',
    dedup_hash      BINARY(32)   NULL COMMENT 'task_hash of the task, which is refused until dedup_until; NULL: it is not',
    dedup_until     DATETIME(3)  NULL,
    PRIMARY KEY (id),
    KEY ix_retry_task_history_ended (ended_at),
    KEY ix_retry_task_history_biz (biz_no, id),
    KEY ix_retry_task_history_scene (task_group, scene, id),
    KEY ix_retry_task_history_keep (keep_until),
    KEY ix_retry_task_history_dedup (dedup_hash, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'tasks that came to an end and are worth keeping';

CREATE TABLE retry_attempt (
    id           BIGINT       NOT NULL AUTO_INCREMENT,
    task_id      BIGINT       NOT NULL,
    attempted_at DATETIME(3)  NOT NULL COMMENT 'when it began',
    owner        VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'instance that made it',
    step         INT          NOT NULL,
    took_ms      BIGINT       NOT NULL,
    outcome      VARCHAR(16)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'done, failed, snoozed or rejected; edited: by an operator',
    reason_class VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason       VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (id),
    KEY ix_retry_attempt_task (task_id, id),
    KEY ix_retry_attempt_at (attempted_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'every attempt at a task that is kept';

CREATE TABLE retry_audit (
    id         BIGINT       NOT NULL AUTO_INCREMENT,
    acted_at   DATETIME(3)  NOT NULL DEFAULT (UTC_TIMESTAMP(3)) COMMENT 'when the action began',
    acted_by   VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'the operator: account@host, or the name of a token',
    via        VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL COMMENT 'shell or http',
    action     VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    task_group VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'empty: of any group',
    scene      VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'empty: of any scene',
    what       VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'which tasks, or what was set',
    why        VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL COMMENT 'in the operator''s words',
    changed    BIGINT       NULL COMMENT 'tasks, scenes or groups; NULL: cut off, or unknown',
    PRIMARY KEY (id),
    KEY ix_retry_audit_at (acted_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COMMENT = 'every action of an operator on the retry queue';
