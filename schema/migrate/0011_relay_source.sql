-- side: outbox
-- By which source each lane is read, and a command that asks its relay for the lane.

ALTER TABLE relay_lease
    ADD COLUMN source VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '' COMMENT 'table or binlog: only relays with this lane.NAME.source take the lane; empty: any',
    ADD COLUMN wanted_until DATETIME(3) NULL COMMENT 'until then a command asks for the lane: its relay gives it up, and none takes it';

UPDATE relay_lease SET source = 'binlog' WHERE lane IN (SELECT lane FROM relay_position);
