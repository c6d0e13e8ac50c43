# SPDX-License-Identifier: MIT
"""A lane with source = binlog deletes the rows that it has published, after keep_ms, and no others."""

import pathlib
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from binlog_lane import ACCOUNT, LaneCase, event  # noqa: E402

UNPUBLISHED = 'tallybox_relay_unpublished_rows{lane="outbox"}'
DELETED = 'tallybox_relay_deleted_total{lane="outbox"}'


class Cleaning(LaneCase):
    """Rows are kept for a second."""

    seconds = 300
    settings = {**LaneCase.settings, "lane.outbox.keep_ms": 1000}

    def rows(self):
        return self.stack.number("SELECT COUNT(*) FROM outbox")

    def entries(self):
        return self.stack.number("SELECT COUNT(*) FROM relay_published")

    def wait_clean(self, left=0, seconds=60):
        suite.wait_for(f"{left} rows to be left", lambda: self.rows() == left and not self.entries(),
                       seconds)

    def test_published_rows_are_deleted_after_they_were_kept(self):
        relay = self.relay()
        events = [event(self.kind, f"key-{n % 5}", n) for n in range(3000)]
        began = time.monotonic()
        self.stack.append(events)
        self.wait_records(3000)
        self.wait_clean()
        self.assertGreater(time.monotonic() - began, 1)
        self.assertEqual(relay.metrics()[DELETED], 3000)
        self.assertTrue(relay.ready())
        self.check_order(events)

    def test_under_load_and_kills_all_that_is_deleted_is_published(self):
        events = self.write_while_relays_are_killed(8)
        # What is gone was published, before the last relay begins.
        left = {one[0] for one in self.stack.sql("SELECT id FROM outbox")}
        gone = {one["id"] for one in events} - left
        self.assertGreater(len(gone), 0)
        self.assertEqual(gone - {one.headers["id"] for one in self.records()}, set())
        relay = self.relay()
        self.wait_records(len(events))
        self.check_order(events)
        self.wait_clean()
        self.assertEqual(relay.metrics()[UNPUBLISHED], 0)

    def test_rows_that_are_kept_for_long_stay(self):
        for keep_ms in (3600000, -1):
            relay = self.relay(sets={"lane.outbox.keep_ms": keep_ms})
            before = self.rows()
            self.stack.append([event(self.kind, "key", n) for n in range(100)])
            self.wait_records(before + 100)
            if keep_ms > 0:
                suite.wait_for("the rows to be recorded", lambda: self.entries() > 0)
            time.sleep(3)
            self.assertEqual(self.rows(), before + 100)
            self.assertEqual(self.entries() > 0, True)
            relay.terminate()

    def test_rows_that_are_not_in_the_log_stay_and_are_named(self):
        relay = self.relay()
        events = [event(self.kind, "key", n) for n in range(6)]
        self.stack.append(events[:2])
        connection = suite.connect(self.stack.name)
        with connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
        # In the past, so that they need not become old here.
        old = [{**one, "created_at": "2020-01-01 00:00:00"} for one in events[2:4]]
        self.stack.append(old, connection=connection)
        connection.close()
        self.stack.append(events[4:])
        self.wait_records(4)
        self.wait_clean(left=2)
        suite.wait_for("both to be counted", lambda: relay.metrics()[UNPUBLISHED] == 2, 150)
        self.assertTrue(relay.ready())
        text = relay.why_not_ready()
        for word in ("outbox unpublished rows: warning: 2 rows of table outbox, from seq ", "sql_log_bin = 0"):
            self.assertIn(word, text)
        self.assertIn("check_failed check=unpublished_rows", relay.log_text())
        self.assertEqual({one[0] for one in self.stack.sql("SELECT id FROM outbox")},
                         {one["id"] for one in old})
        self.stack.sql("DELETE FROM outbox")
        suite.wait_for("none to be counted", lambda: relay.metrics()[UNPUBLISHED] == 0, 90)
        self.assertNotIn("unpublished", relay.why_not_ready())

    def test_a_row_that_another_session_locks_is_deleted_later(self):
        relay = self.relay()
        self.stack.append([event(self.kind, "key", n) for n in range(10)])
        self.wait_records(10)
        connection = suite.connect(self.stack.name, autocommit=False)
        with connection.cursor() as cursor:
            cursor.execute("SELECT seq FROM outbox ORDER BY seq LIMIT 1 FOR UPDATE")
            suite.wait_for("it to be told", lambda: "cannot_remove_rows" in relay.log_text())
        connection.rollback()
        connection.close()
        self.wait_clean()
        suite.wait_for("it to be ready", relay.ready)

    def test_a_table_lane_does_not_publish_kept_rows_again(self):
        sets = {"lane.outbox.keep_ms": 3600000}
        relay = self.relay(sets=sets)
        self.stack.append([event(self.kind, "key", n) for n in range(10)])
        self.wait_records(10)
        relay.terminate()
        table = self.start("relay", sets={"lane.outbox.source": "table"}, ready=False)
        suite.wait_for("it to say why it is not ready",
                       lambda: "set source = binlog again" in table.why_not_ready())
        self.assertEqual(self.rows(), 10)
        table.terminate()
        # As the text says.
        relay = self.relay(sets={"lane.outbox.keep_ms": 0})
        suite.wait_for("the table to be empty", lambda: self.rows() == 10 and not self.entries() or
                       self.rows() == 0)
        self.assertEqual(self.rows(), 0)
        relay.terminate()
        for name in "relay_position", "relay_published":
            self.stack.sql(f"DELETE FROM {name}")
        self.start("relay", sets={"lane.outbox.source": "table"})
        self.stack.append([event(self.kind, "key", 10)])
        self.wait_records(11)
        self.stack.wait_drained()
        self.assertEqual(len(self.records()), 11)

    def test_a_table_without_seq_keeps_its_rows(self):
        self.stack.sql("CREATE TABLE plain (id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(64) "
                       "NOT NULL, aggregateid VARCHAR(64) NOT NULL, type VARCHAR(64) NOT NULL, payload "
                       "LONGBLOB)")
        self.addCleanup(self.stack.sql, "DROP TABLE plain")
        self.stack.sql(f"GRANT SELECT, DELETE ON {self.stack.name}.plain TO '{ACCOUNT}'@'%'")
        relay = self.relay(sets={"lane.outbox.table": "plain", "lane.outbox.keep_ms": 0})
        self.stack.append([event(self.kind, "key", n) for n in range(10)], table="plain")
        self.wait_records(10)
        suite.wait_for("it to be told", lambda: "rows_not_removed" in relay.log_text())
        time.sleep(2)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM plain"), 10)
        self.assertEqual(self.entries(), 0)
        self.assertTrue(relay.ready())


if __name__ == "__main__":
    unittest.main()
