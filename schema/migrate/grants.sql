-- The privileges that each role needs in the database, and no others. The order:
--     tallybox migrate grants --role migrate --create-user | mariadb
--     tallybox migrate up
--     tallybox migrate grants --role relay --create-user | mariadb
-- and the last line for each role that you use, and for each application. --create-user makes the
-- account, each with its own password; without it create the account first. --account USER@HOST is
-- for an account with another name than tallybox_ROLE, as that of an application.

-- migrate: `tallybox migrate`, and every command with --migrate. Before the first run.
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON outbox_side.* TO 'tallybox_migrate'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP ON sink_side.* TO 'tallybox_migrate'@'%';

-- serve: `tallybox serve` and `tallybox vote`.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_serve'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_serve'@'%';
GRANT SELECT ON sink_side.rollup_state TO 'tallybox_serve'@'%';
GRANT SELECT ON sink_side.rank_weight TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.recommended_change TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT (id, item_id, consumer_id, order_id, score, status, header, content, images, user_name, user_face), UPDATE (score, status, header, content, images, deleted_at, remove_after), DELETE ON sink_side.remark TO 'tallybox_serve'@'%';
GRANT SELECT (content_id, ended_at) ON sink_side.vote_tally TO 'tallybox_serve'@'%';
GRANT SELECT (content_id, voter_id), DELETE ON sink_side.vote_last TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON votes_side.vote_state TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON votes_side.vote_count TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT, UPDATE ON votes_side.deleted_content TO 'tallybox_serve'@'%';
GRANT INSERT ON outbox_side.api_lane TO 'tallybox_serve'@'%';
GRANT SELECT ON outbox_side.outbox_lanes TO 'tallybox_serve'@'%';
GRANT SELECT (lane, owner, lease_until, lease_ms) ON outbox_side.relay_lease TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT (task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, params, params_type, traceparent, next_at, parent_id), UPDATE (updated_at) ON outbox_side.retry_task TO 'tallybox_serve'@'%';
GRANT SELECT ON outbox_side.retry_group TO 'tallybox_serve'@'%';
GRANT SELECT ON outbox_side.retry_task_history TO 'tallybox_serve'@'%';
GRANT SELECT ON outbox_side.retry_attempt TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_client TO 'tallybox_serve'@'%';
GRANT SELECT ON outbox_side.retry_scene TO 'tallybox_serve'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.instance TO 'tallybox_serve'@'%';

-- first_try: what `tallybox serve` needs beyond its own privileges to try tasks first (api.try_max):
-- tallybox migrate grants --role first_try --account tallybox_serve@%
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_task TO 'tallybox_first_try'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.retry_task_history TO 'tallybox_first_try'@'%';
GRANT SELECT, INSERT, DELETE ON outbox_side.retry_attempt TO 'tallybox_first_try'@'%';
GRANT SELECT ON outbox_side.retry_scene_change TO 'tallybox_first_try'@'%';

-- application_insert: a service that inserts events and tasks, and nothing else. It has no privilege
-- on `origin`, so that its tasks cannot pass for tasks of the relay or the consumer.
GRANT INSERT ON outbox_side.api_lane TO 'tallybox_application_insert'@'%';
GRANT INSERT (task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, params, params_type, traceparent, next_at, parent_id) ON outbox_side.retry_task TO 'tallybox_application_insert'@'%';

-- application: the same with the idempotent form, INSERT INTO retry_task ... ON DUPLICATE KEY UPDATE
-- updated_at = updated_at, and with the id of the active task after error 1062. It reads the number
-- of lanes and the groups, for writers of several lanes and for retry_append().
GRANT INSERT ON outbox_side.api_lane TO 'tallybox_application'@'%';
GRANT SELECT ON outbox_side.outbox_lanes TO 'tallybox_application'@'%';
GRANT SELECT (id, active_hash), INSERT (task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, params, params_type, traceparent, next_at, parent_id), UPDATE (updated_at) ON outbox_side.retry_task TO 'tallybox_application'@'%';
GRANT SELECT (name, owner) ON outbox_side.retry_group TO 'tallybox_application'@'%';

-- relay: `tallybox relay`. With PROCESS it sees open transactions and closes gaps sooner.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_relay'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_relay'@'%';
GRANT SELECT, DELETE ON outbox_side.relay_lane TO 'tallybox_relay'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_task TO 'tallybox_relay'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_group TO 'tallybox_relay'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.relay_lease TO 'tallybox_relay'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.relay_position TO 'tallybox_relay'@'%';
GRANT SELECT, INSERT, DELETE ON outbox_side.relay_published TO 'tallybox_relay'@'%';
GRANT SELECT, INSERT, DELETE ON outbox_side.relay_published_id TO 'tallybox_relay'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.instance TO 'tallybox_relay'@'%';
GRANT PROCESS ON *.* TO 'tallybox_relay'@'%';

-- relay_wakeup: what `tallybox relay` needs beyond its own privileges for relay.wakeup = binlog
-- and for lanes with source = binlog:
-- tallybox migrate grants --role relay_wakeup --account tallybox_relay@%
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_relay_wakeup'@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'tallybox_relay_wakeup'@'%';

-- relay_partitions: what `tallybox relay` needs beyond the privileges of relay and relay_wakeup for an
-- outbox table that is partitioned by seq: it drops partitions instead of deleting rows, and makes new
-- ones: tallybox migrate grants --role relay_partitions --account tallybox_relay@%
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_relay_partitions'@'%';
GRANT LOCK TABLES ON outbox_side.* TO 'tallybox_relay_partitions'@'%';
GRANT SELECT, INSERT, CREATE, ALTER, DROP ON outbox_side.relay_lane TO 'tallybox_relay_partitions'@'%';

-- relay_source: what `tallybox relay source`, and a lane that goes on from its table after its binary
-- log was purged, need beyond the privileges of relay and relay_wakeup:
-- tallybox migrate grants --role relay_source --account tallybox_relay@%
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_relay_source'@'%';
GRANT LOCK TABLES ON outbox_side.* TO 'tallybox_relay_source'@'%';
GRANT DELETE ON outbox_side.relay_position TO 'tallybox_relay_source'@'%';

-- retry: `tallybox retry`; only the handler vote needs the privileges on sink tables.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_retry'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.relay_lease TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.instance TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_task TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_task_history TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT, DELETE ON outbox_side.retry_attempt TO 'tallybox_retry'@'%';
GRANT SELECT ON outbox_side.retry_scene TO 'tallybox_retry'@'%';
GRANT SELECT ON outbox_side.retry_scene_change TO 'tallybox_retry'@'%';
GRANT SELECT, UPDATE (config_version), DELETE ON outbox_side.retry_client TO 'tallybox_retry'@'%';
GRANT SELECT ON outbox_side.retry_group TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT ON sink_side.vote_document TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_tally TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_last TO 'tallybox_retry'@'%';
GRANT SELECT ON sink_side.log_begin TO 'tallybox_retry'@'%';
GRANT SELECT, UPDATE ON sink_side.consumer_progress TO 'tallybox_retry'@'%';
GRANT SELECT, UPDATE, DELETE ON sink_side.dead_record TO 'tallybox_retry'@'%';
GRANT SELECT, INSERT ON sink_side.dead_history TO 'tallybox_retry'@'%';

-- consume: `tallybox consume`.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_consume'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_consume'@'%';
GRANT SELECT ON sink_side.installation TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT ON sink_side.vote_document TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_tally TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_last TO 'tallybox_consume'@'%';
GRANT SELECT ON sink_side.log_begin TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.consumer_progress TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.dead_record TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_task TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_group TO 'tallybox_consume'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.instance TO 'tallybox_consume'@'%';

-- rollup: `tallybox rollup`. It reads and changes only the votes of a remark.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_rollup'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_rollup'@'%';
GRANT SELECT ON sink_side.vote_tally TO 'tallybox_rollup'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.rollup_state TO 'tallybox_rollup'@'%';
GRANT SELECT (id, votes, votes_seq, votes_before, votes_window, rollup_due), UPDATE (votes, votes_seq, votes_before, votes_window, rollup_due) ON sink_side.remark TO 'tallybox_rollup'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.instance TO 'tallybox_rollup'@'%';

-- housekeep: `tallybox housekeep`. The servers require CREATE, ALTER and DROP to create and drop a
-- partition. Without them it does its other work and logs what it could not do.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_housekeep'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_housekeep'@'%';
GRANT SELECT ON sink_side.installation TO 'tallybox_housekeep'@'%';
GRANT SELECT, INSERT, CREATE, ALTER, DROP ON sink_side.vote_document TO 'tallybox_housekeep'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_base TO 'tallybox_housekeep'@'%';
GRANT SELECT, UPDATE ON sink_side.log_begin TO 'tallybox_housekeep'@'%';
GRANT SELECT, UPDATE ON sink_side.housekeep_state TO 'tallybox_housekeep'@'%';
GRANT SELECT, DELETE ON sink_side.consumer_progress TO 'tallybox_housekeep'@'%';
GRANT SELECT (id, created_at), DELETE ON sink_side.dead_record TO 'tallybox_housekeep'@'%';
GRANT SELECT (id, decided_at), DELETE ON sink_side.dead_history TO 'tallybox_housekeep'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.instance TO 'tallybox_housekeep'@'%';
GRANT SELECT (id) ON outbox_side.retry_task TO 'tallybox_housekeep'@'%';
GRANT SELECT (id, ended_at, dedup_until), DELETE ON outbox_side.retry_task_history TO 'tallybox_housekeep'@'%';
GRANT SELECT (id, task_id, attempted_at), DELETE ON outbox_side.retry_attempt TO 'tallybox_housekeep'@'%';
GRANT SELECT (id, acted_at), DELETE ON outbox_side.retry_audit TO 'tallybox_housekeep'@'%';
GRANT SELECT (item_id, changed_at), DELETE ON sink_side.recommended_change TO 'tallybox_housekeep'@'%';
GRANT SELECT (deleted_at, remove_after), UPDATE (remove_after, removal_at) ON sink_side.remark TO 'tallybox_housekeep'@'%';
GRANT SELECT (deleted_at, closed_at, remove_after), UPDATE (remove_after, removal_at) ON votes_side.deleted_content TO 'tallybox_housekeep'@'%';

-- lanes: `tallybox lanes`; for show SELECT on outbox_lanes and relay_lease is enough. It creates
-- and reads tables whose names depend on the number. LOCK TABLES and the last three are for begin,
-- which also needs REPLICATION CLIENT on a MySQL server without GTIDs.
GRANT SELECT, CREATE, LOCK TABLES ON outbox_side.* TO 'tallybox_lanes'@'%';
GRANT UPDATE ON outbox_side.outbox_lanes TO 'tallybox_lanes'@'%';
GRANT UPDATE ON outbox_side.relay_lease TO 'tallybox_lanes'@'%';
GRANT INSERT, UPDATE ON outbox_side.relay_position TO 'tallybox_lanes'@'%';
GRANT INSERT ON outbox_side.relay_published TO 'tallybox_lanes'@'%';

-- status: `tallybox status`; reads counts, ages and owners. Leave out the privilege on created_at for a
-- lane whose table lacks the column; `grants --role status` does so by itself.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_status'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_status'@'%';
GRANT SELECT ON sink_side.installation TO 'tallybox_status'@'%';
GRANT SELECT (seq) ON outbox_side.relay_lane TO 'tallybox_status'@'%';
GRANT SELECT (created_at) ON outbox_side.relay_lane TO 'tallybox_status'@'%';
GRANT SELECT ON outbox_side.relay_lease TO 'tallybox_status'@'%';
GRANT SELECT ON outbox_side.relay_position TO 'tallybox_status'@'%';
GRANT SELECT ON outbox_side.outbox_lanes TO 'tallybox_status'@'%';
GRANT SELECT ON outbox_side.instance TO 'tallybox_status'@'%';
GRANT SELECT (id, task_group, scene, handler, ordering_key, origin, state, class, age_state, next_at, exhausts_at, reason_class, reason, updated_at) ON outbox_side.retry_task TO 'tallybox_status'@'%';
GRANT SELECT (id, outcome, ended_at, requeued_as) ON outbox_side.retry_task_history TO 'tallybox_status'@'%';
GRANT SELECT (name, owner, enabled, init_scene) ON outbox_side.retry_group TO 'tallybox_status'@'%';
GRANT SELECT ON outbox_side.retry_scene TO 'tallybox_status'@'%';
GRANT SELECT ON sink_side.vote_tally TO 'tallybox_status'@'%';
GRANT SELECT ON sink_side.consumer_progress TO 'tallybox_status'@'%';
GRANT SELECT (id, consumer_group, reason_class, created_at) ON sink_side.dead_record TO 'tallybox_status'@'%';
GRANT SELECT ON sink_side.rollup_state TO 'tallybox_status'@'%';
GRANT SELECT ON sink_side.housekeep_state TO 'tallybox_status'@'%';
GRANT SELECT ON sink_side.log_begin TO 'tallybox_status'@'%';
GRANT SELECT (create_date) ON sink_side.vote_document TO 'tallybox_status'@'%';
GRANT SELECT (id, votes, votes_seq) ON sink_side.remark TO 'tallybox_status'@'%';

-- verify: `tallybox verify`; reads every vote. For created_at see status.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_verify'@'%';
GRANT SELECT (seq) ON outbox_side.relay_lane TO 'tallybox_verify'@'%';
GRANT SELECT (created_at) ON outbox_side.relay_lane TO 'tallybox_verify'@'%';
GRANT SELECT ON votes_side.vote_state TO 'tallybox_verify'@'%';
GRANT SELECT ON votes_side.vote_count TO 'tallybox_verify'@'%';
GRANT SELECT ON votes_side.deleted_content TO 'tallybox_verify'@'%';
GRANT SELECT ON sink_side.vote_document TO 'tallybox_verify'@'%';
GRANT SELECT ON sink_side.vote_tally TO 'tallybox_verify'@'%';
GRANT SELECT ON sink_side.vote_base TO 'tallybox_verify'@'%';
GRANT SELECT ON sink_side.log_begin TO 'tallybox_verify'@'%';
GRANT SELECT ON sink_side.housekeep_state TO 'tallybox_verify'@'%';
GRANT SELECT ON sink_side.rollup_state TO 'tallybox_verify'@'%';
GRANT SELECT (id, votes, votes_seq, rollup_due) ON sink_side.remark TO 'tallybox_verify'@'%';

-- dead: `tallybox dead`; for list and show SELECT on dead_record and dead_history is enough.
GRANT SELECT ON sink_side.installation TO 'tallybox_dead'@'%';
GRANT SELECT, INSERT ON sink_side.vote_document TO 'tallybox_dead'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_tally TO 'tallybox_dead'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_last TO 'tallybox_dead'@'%';
GRANT SELECT ON sink_side.log_begin TO 'tallybox_dead'@'%';
GRANT SELECT, UPDATE, DELETE ON sink_side.dead_record TO 'tallybox_dead'@'%';
GRANT SELECT, INSERT ON sink_side.dead_history TO 'tallybox_dead'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_task TO 'tallybox_dead'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_group TO 'tallybox_dead'@'%';
GRANT SELECT (id, changed), INSERT, UPDATE (changed) ON outbox_side.retry_audit TO 'tallybox_dead'@'%';

-- retry_admin: `tallybox retry ACTION`; for list, show and history SELECT is enough.
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_task TO 'tallybox_retry_admin'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.retry_task_history TO 'tallybox_retry_admin'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_attempt TO 'tallybox_retry_admin'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.retry_scene TO 'tallybox_retry_admin'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.retry_scene_change TO 'tallybox_retry_admin'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_scene_version TO 'tallybox_retry_admin'@'%';
GRANT SELECT ON outbox_side.instance TO 'tallybox_retry_admin'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.retry_group TO 'tallybox_retry_admin'@'%';
GRANT SELECT ON outbox_side.retry_client TO 'tallybox_retry_admin'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.retry_audit TO 'tallybox_retry_admin'@'%';

-- rank: `tallybox rank`; for explain and weights SELECT is enough.
GRANT SELECT ON sink_side.rollup_state TO 'tallybox_rank'@'%';
GRANT SELECT (id, item_id, score, status, gmt_create, deleted_at, votes, votes_before, votes_window) ON sink_side.remark TO 'tallybox_rank'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON sink_side.rank_weight TO 'tallybox_rank'@'%';

-- run: `tallybox run`: the privileges of serve, relay, retry, consume, rollup and housekeep.
GRANT SELECT ON outbox_side.schema_history TO 'tallybox_run'@'%';
GRANT SELECT ON sink_side.schema_history TO 'tallybox_run'@'%';
GRANT SELECT ON sink_side.installation TO 'tallybox_run'@'%';
GRANT SELECT ON sink_side.rollup_state TO 'tallybox_run'@'%';
GRANT SELECT ON sink_side.rank_weight TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.recommended_change TO 'tallybox_run'@'%';
GRANT SELECT, INSERT (id, item_id, consumer_id, order_id, score, status, header, content, images, user_name, user_face), UPDATE (score, status, header, content, images, deleted_at, remove_after), DELETE ON sink_side.remark TO 'tallybox_run'@'%';
GRANT SELECT (content_id, ended_at) ON sink_side.vote_tally TO 'tallybox_run'@'%';
GRANT SELECT (content_id, voter_id), DELETE ON sink_side.vote_last TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON votes_side.vote_state TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON votes_side.vote_count TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON votes_side.deleted_content TO 'tallybox_run'@'%';
GRANT INSERT ON outbox_side.api_lane TO 'tallybox_run'@'%';
GRANT SELECT ON outbox_side.outbox_lanes TO 'tallybox_run'@'%';
GRANT SELECT (lane, owner, lease_until, lease_ms) ON outbox_side.relay_lease TO 'tallybox_run'@'%';
GRANT SELECT, INSERT (task_group, scene, handler, ordering_key, idempotency_key, biz_no, options, params, params_type, traceparent, next_at, parent_id), UPDATE (updated_at) ON outbox_side.retry_task TO 'tallybox_run'@'%';
GRANT SELECT ON outbox_side.retry_group TO 'tallybox_run'@'%';
GRANT SELECT ON outbox_side.retry_task_history TO 'tallybox_run'@'%';
GRANT SELECT ON outbox_side.retry_attempt TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_client TO 'tallybox_run'@'%';
GRANT SELECT, DELETE ON outbox_side.relay_lane TO 'tallybox_run'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_task TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.relay_lease TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON outbox_side.relay_position TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, DELETE ON outbox_side.relay_published TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, DELETE ON outbox_side.relay_published_id TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.instance TO 'tallybox_run'@'%';
GRANT PROCESS ON *.* TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_task TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE, DELETE ON outbox_side.retry_task_history TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, DELETE ON outbox_side.retry_attempt TO 'tallybox_run'@'%';
GRANT SELECT ON outbox_side.retry_scene TO 'tallybox_run'@'%';
GRANT SELECT ON outbox_side.retry_scene_change TO 'tallybox_run'@'%';
GRANT SELECT, UPDATE (config_version), DELETE ON outbox_side.retry_client TO 'tallybox_run'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_group TO 'tallybox_run'@'%';
GRANT SELECT, UPDATE ON sink_side.consumer_progress TO 'tallybox_run'@'%';
GRANT SELECT, UPDATE, DELETE ON sink_side.dead_record TO 'tallybox_run'@'%';
GRANT SELECT, INSERT ON sink_side.dead_history TO 'tallybox_run'@'%';
GRANT SELECT, INSERT ON sink_side.vote_document TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_tally TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_last TO 'tallybox_run'@'%';
GRANT SELECT ON sink_side.log_begin TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.consumer_progress TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.dead_record TO 'tallybox_run'@'%';
GRANT SELECT, INSERT ON outbox_side.retry_task TO 'tallybox_run'@'%';
GRANT SELECT ON sink_side.vote_tally TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.rollup_state TO 'tallybox_run'@'%';
GRANT SELECT (id, votes, votes_seq, votes_before, votes_window, rollup_due), UPDATE (votes, votes_seq, votes_before, votes_window, rollup_due) ON sink_side.remark TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, CREATE, ALTER, DROP ON sink_side.vote_document TO 'tallybox_run'@'%';
GRANT SELECT, INSERT, UPDATE ON sink_side.vote_base TO 'tallybox_run'@'%';
GRANT SELECT, UPDATE ON sink_side.log_begin TO 'tallybox_run'@'%';
GRANT SELECT, UPDATE ON sink_side.housekeep_state TO 'tallybox_run'@'%';
GRANT SELECT, DELETE ON sink_side.consumer_progress TO 'tallybox_run'@'%';
GRANT SELECT (id, created_at), DELETE ON sink_side.dead_record TO 'tallybox_run'@'%';
GRANT SELECT (id, decided_at), DELETE ON sink_side.dead_history TO 'tallybox_run'@'%';
GRANT SELECT (id) ON outbox_side.retry_task TO 'tallybox_run'@'%';
GRANT SELECT (id, ended_at, dedup_until), DELETE ON outbox_side.retry_task_history TO 'tallybox_run'@'%';
GRANT SELECT (id, task_id, attempted_at), DELETE ON outbox_side.retry_attempt TO 'tallybox_run'@'%';
GRANT SELECT (id, acted_at), DELETE ON outbox_side.retry_audit TO 'tallybox_run'@'%';
GRANT SELECT (item_id, changed_at), DELETE ON sink_side.recommended_change TO 'tallybox_run'@'%';
GRANT SELECT (deleted_at, remove_after), UPDATE (remove_after, removal_at) ON sink_side.remark TO 'tallybox_run'@'%';
GRANT SELECT (deleted_at, closed_at, remove_after), UPDATE (remove_after, removal_at) ON votes_side.deleted_content TO 'tallybox_run'@'%';
