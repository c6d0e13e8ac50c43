# SPDX-License-Identifier: MIT
"""What a relay reads of a table on a real server, and when: seqs that are given out again, and rows
that were deleted and still stand there because of an old snapshot."""

import pathlib
import sys
import threading
import time
import unittest
import uuid

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402

# No full scan helps, and none disturbs.
SLOW_SCAN = {"relay.full_scan_ms": 3600000}


def events(count, kind="step"):
    return [{"id": str(uuid.uuid4()), "aggregatetype": kind, "aggregateid": f"key-{n % 10}",
             "type": "Step", "payload": str(n)} for n in range(count)]


class SeqsAgain(suite.Case):
    settings = SLOW_SCAN

    def setUp(self):
        self.relay = self.start("relay")

    def ids(self):
        return {record.headers["id"]
                for record in self.stack.records(f"event.{self.stack.name}.step")}

    def publish(self, rows, seconds=20):
        self.stack.append(rows)
        self.stack.wait_drained(seconds)
        self.assertLessEqual({row["id"] for row in rows}, self.ids())

    def test_rows_after_a_truncate_are_published_at_once(self):
        self.publish(events(50))
        self.stack.sql("TRUNCATE TABLE outbox")
        self.publish(events(3))
        self.publish(events(100))

    def test_more_rows_after_a_truncate_than_were_read_before(self):
        self.stack.sql("TRUNCATE TABLE outbox")
        self.publish(events(5))
        self.stack.sql("TRUNCATE TABLE outbox")
        self.publish(events(30))

    def test_rows_after_a_lowered_auto_increment_are_published_at_once(self):
        self.publish(events(50))
        self.stack.sql("ALTER TABLE outbox AUTO_INCREMENT = 1")
        self.publish(events(3))

    def test_a_table_that_is_only_emptied_does_not_begin_again(self):
        for _ in range(5):
            self.publish(events(20))
            time.sleep(0.5)
        time.sleep(3)
        self.assertEqual(self.relay.metric("tallybox_relay_database_changes_total"), 0)
        self.assertNotIn("row_below_cursor", self.relay.log_text())


class OldSnapshot(suite.Case):
    settings = {**SLOW_SCAN, "relay.poll_idle_ms": 1000}
    # So many that a scan of them stands out from what leases, polls and purge read by themselves.
    ROWS = 120000

    def pages(self):
        return int(self.stack.sql("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'")
                   [0][1])

    def pages_in(self, seconds):
        """Of an idle relay and whatever the server does by itself."""
        before = self.pages()
        time.sleep(seconds)
        return self.pages() - before

    def test_the_age_of_an_idle_lane_costs_no_scan_of_deleted_rows(self):
        snapshot = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(snapshot.close)
        with snapshot.cursor() as cursor:
            cursor.execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
            cursor.execute("SELECT COUNT(*) FROM outbox")
        row = events(1)[0]
        self.stack.sql(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) "
            "WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) "
            "SELECT UUID(), 'step', CONCAT('key-', a.n % 50), 'Step', REPEAT('x', 200) "
            f"FROM n a JOIN n b ON b.n <= {self.ROWS // 1000}")
        self.start("relay")
        self.stack.wait_drained(120)
        self.stack.append([row])
        self.stack.wait_drained()
        scan = self.stack.sql("SELECT COUNT(*) FROM outbox FORCE INDEX (PRIMARY)")
        self.assertEqual(scan[0][0], 0)
        before = self.pages()
        self.stack.sql("SELECT seq FROM outbox FORCE INDEX (PRIMARY) ORDER BY seq LIMIT 1")
        scan_pages = self.pages() - before
        self.assertGreater(scan_pages, 500)
        suite.wait_for("an idle relay that does not scan", lambda: self.quiet(scan_pages), 60)

    def quiet(self, scan_pages):
        """In five seconds an unbounded look would pass all deleted rows five times. One scan may
        happen, now and then, for rows below all that are known."""
        return self.pages_in(5) < scan_pages * 2


class OpenTransactions(suite.Case):
    """Lanes whose gaps stay open ask for the open transactions again and again."""

    LANES = ["outbox"] + [f"outbox_{n}" for n in range(1, 8)]
    settings = {**SLOW_SCAN, "relay.lanes": ",".join(LANES), "relay.gap_wait_ms": 600000}
    ASKED = "SELECT COUNT(*) FROM mysql.general_log WHERE argument LIKE '%information_schema" \
            ".innodb_trx%' AND argument NOT LIKE '%general_log%'"

    def setUp(self):
        for lane in self.LANES[1:]:
            self.stack.sql(f"CREATE TABLE IF NOT EXISTS {lane} LIKE outbox")

    def open_gaps(self, relay):
        """In every lane: a seq of a transaction that stays open, below a published row."""
        holder = suite.connect(self.stack.name, autocommit=False)
        self.addCleanup(holder.close)
        for lane in self.LANES:
            self.stack.append(events(1, "open"), lane, holder)
            self.stack.append(events(1, "done"), lane)
        suite.wait_for("gaps in all lanes",
                       lambda: relay.metric("tallybox_relay_open_gaps") >= len(self.LANES))
        return holder

    def test_one_process_asks_once_for_all_its_lanes(self):
        relay = self.start("relay")
        self.open_gaps(relay)
        self.stack.sql("SET GLOBAL log_output = 'TABLE'")
        self.stack.sql("TRUNCATE TABLE mysql.general_log")
        self.stack.sql("SET GLOBAL general_log = ON")
        began = time.monotonic()
        try:
            time.sleep(6)
        finally:
            self.stack.sql("SET GLOBAL general_log = OFF")
        seconds = time.monotonic() - began
        asked = self.stack.number(self.ASKED)
        # Once a second, or four times while the list is old.
        self.assertGreater(asked, 1)
        self.assertLess(asked / seconds, 4.6)

    def test_a_list_that_others_keep_old_is_not_believed(self):
        """Another session asks so often that the server never renews the list, which shows a
        transaction that has ended: its gaps must not wait for it."""
        relay = self.start("relay", sets={"relay.gap_wait_ms": 8000})
        holder = self.open_gaps(relay)
        done = threading.Event()
        reader = threading.Thread(target=self.keep_old, args=[done])
        reader.start()
        try:
            time.sleep(1)
            holder.rollback()
            suite.wait_for("all gaps to be closed",
                           lambda: relay.metric("tallybox_relay_open_gaps") == 0)
        finally:
            done.set()
            reader.join()

    def keep_old(self, done):
        reader = suite.connect(self.stack.name)
        with reader.cursor() as cursor:
            while not done.wait(0.005):
                cursor.execute("SELECT COUNT(*) FROM information_schema.innodb_trx")
                cursor.fetchall()
        reader.close()


if __name__ == "__main__":
    unittest.main()
