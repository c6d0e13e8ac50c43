# SPDX-License-Identifier: MIT
"""A lane whose log the server has purged goes on from its table by itself: it loses nothing, repeats no more
than it announces, and stops where repeats would have no bound."""

import os
import pathlib
import re
import signal
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from binlog_lane import ACCOUNT, QUICK, LaneCase, event  # noqa: E402

BATCH_ROWS = 1000
LEFT = re.compile(r"lane_left_log .*rows=(\d+) .*repeats_max=(\d+)")
COUNT = 'tallybox_relay_from_table_total{lane="outbox"}'


class Fallback(LaneCase):
    seconds = 40
    settings = {**LaneCase.settings, **suite.PATIENT}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stack.add_privileges("relay_source", ACCOUNT)

    def backlog(self, published, waiting):
        """Events of which these are published, and those are in a log that is purged."""
        relay = self.relay()
        events = [event(self.kind, f"key-{n % 7}", n, b"%d " % n + os.urandom(300))
                  for n in range(published + waiting)]
        self.stack.append(events[:published])
        self.wait_records(published)
        relay.terminate()
        self.stack.append(events[published:])
        self.purge_log()
        return events

    def left(self, relay):
        """What the relay has announced: rows, and the bound of repeats."""
        return [(int(rows), int(repeats)) for rows, repeats in LEFT.findall(relay.log_text())]

    def server(self):
        rows = self.stack.sql("SELECT server FROM relay_position")
        return rows[0][0] if rows else None

    def test_a_lane_goes_on_from_its_table_and_then_in_the_log(self):
        events = self.backlog(300, 900)
        relay = self.start("relay")
        self.wait_records(1200)
        events += [event(self.kind, f"key-{n % 7}", n) for n in range(1200, 1400)]
        self.stack.append(events[1200:])
        self.wait_records(1400)
        self.assertEqual(self.check_order(events), 0)
        self.assertEqual([rows for rows, _ in self.left(relay)], [900])
        self.assertLessEqual(self.left(relay)[0][1], 900)
        self.assertEqual(relay.metrics()[COUNT], 1)
        self.assertIn("lane_back_in_log", relay.log_text())
        self.assertNotEqual(self.server(), "from-table")
        relay.wait_ready()
        relay.terminate()
        # Behind the cut the log is there.
        relay = self.start("relay")
        self.stack.append([event(self.kind, "key-0", 1400)])
        self.wait_records(1401)
        self.assertEqual(self.left(relay), [])

    def test_a_kill_at_any_time_under_load_loses_nothing(self):
        self.relay().terminate()
        events, stop, repeats, kills = [], threading.Event(), 0, 0
        threads = self.write(events, stop)
        try:
            relay = self.start("relay", ready=False, sets=QUICK)
            suite.wait_for("some rows", lambda: self.batches() > 2)
            relay.kill()
            suite.wait_for("rows that wait", lambda: self.stack.number(
                "SELECT MAX(seq) - MIN(seq) FROM outbox") > 6000)
            self.purge_log()
            with self.slow_batches():
                for more in (0, 1):
                    seen = self.batches() + more
                    relay = self.start("relay", ready=False, sets=QUICK)
                    suite.wait_for("the moment", lambda seen=seen: self.server() == "from-table" and
                                   self.batches() >= seen)
                    relay.kill()
                    kills += 1
                    repeats += sum(one for _, one in self.left(relay))
            relay = self.start("relay", ready=False, sets=QUICK)
            suite.wait_for("the log", lambda: self.server() != "from-table")
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.wait_records(len(events))
        repeats += sum(one for _, one in self.left(relay))
        # A kill behind the cut repeats what any kill does, about a second.
        self.assertLessEqual(self.check_order(events), repeats + kills * BATCH_ROWS)
        self.assertNotEqual(self.server(), "from-table")

    def test_a_table_that_was_emptied_behind_the_position_stops_the_lane(self):
        """Its new rows have the seqs of rows that are saved as published."""
        before = 0
        for waiting in (200, 500):
            with self.subTest(waiting=waiting):
                relay = self.relay()
                old = [event(self.kind, f"old-{n % 7}", n) for n in range(300)]
                self.stack.append(old)
                self.wait_records(before + 300)
                relay.terminate()
                self.stack.sql("TRUNCATE TABLE outbox")
                new = [event(self.kind, f"new-{n % 7}", n) for n in range(waiting)]
                self.stack.append(new)
                self.purge_log()
                relay = self.start("relay", ready=False)
                suite.wait_for("it to say why", lambda relay=relay: "table outbox was emptied" in
                               relay.why_not_ready())
                self.assertEqual(len(self.records()), before + 300)
                relay.terminate()
                words = ("relay", "source", "outbox", "binlog", "--from-table")
                self.assertIn("table outbox was emptied",
                              self.stack.tallybox(*words, expect=suite.FAILED).stderr)
                self.stack.sql("DELETE FROM relay_published WHERE lane = 'outbox'")
                self.stack.tallybox(*words)
                before += 300 + waiting
                self.wait_records(before)
                self.stack.sql("TRUNCATE TABLE outbox")

    def test_a_log_that_is_purged_behind_a_running_lane_repeats_nothing(self):
        relay = self.relay()
        events = [event(self.kind, f"key-{n % 7}", n) for n in range(400)]
        self.stack.append(events[:200])
        self.wait_records(200)
        os.kill(relay.pid, signal.SIGSTOP)
        try:
            for (thread,) in self.stack.sql("SELECT id FROM information_schema.processlist WHERE command "
                                            "LIKE 'Binlog Dump%%' AND user = %s", [ACCOUNT]):
                self.stack.sql(f"KILL {thread}")
            self.stack.append(events[200:])
            self.purge_log()
        finally:
            os.kill(relay.pid, signal.SIGCONT)
        self.wait_records(400)
        suite.wait_for("it to be done", lambda: "lane_back_in_log" in relay.log_text())
        self.assertEqual(self.check_order(events), 0)
        self.assertEqual([repeats for _, repeats in self.left(relay)], [0])

    def test_a_refused_row_becomes_a_task_and_its_key_waits(self):
        self.relay().terminate()
        bad = [event(self.kind, "bad", n, headers="[1]" if n == 1 else None) for n in range(4)]
        good = [event(self.kind, f"good-{n % 5}", n) for n in range(20)]
        self.stack.append(good[:10] + bad[:3] + good[10:])
        self.purge_log()
        relay = self.start("relay", ready=False)
        suite.wait_for("it to be done", lambda: "lane_back_in_log" in relay.log_text())
        self.stack.append(bad[3:])
        suite.wait_for("three tasks", lambda: [one[0] for one in self.stack.sql(
            "SELECT idempotency_key FROM retry_task ORDER BY id")] == [one["id"] for one in bad[1:]])
        self.assertEqual(self.check_order(good + bad[:1]), 0)

    def test_a_lane_that_may_repeat_without_a_bound_stops(self):
        events = self.backlog(10, 10)
        command = "`tallybox relay source outbox binlog --from-table`"

        def stops(reason, **options):
            relay = self.start("relay", ready=False, **options)
            suite.wait_for(f"it to say {reason}", lambda: reason in relay.why_not_ready() and
                           command in relay.why_not_ready())
            relay.terminate()
            self.assertNotEqual(self.server(), "from-table")
            self.assertEqual(len(self.records()), 10)

        stops("purged", sets={"lane.outbox.from_table": "no"})
        server = self.server()
        self.stack.sql("UPDATE relay_position SET server = 'other'")
        for _ in range(2):
            stops("another server has saved the position")
        self.stack.sql("UPDATE relay_position SET server = %s", [server])
        first = "UPDATE outbox SET created_at = {} WHERE id = %s"
        self.stack.sql(first.format("'2001-01-01'"), [events[10]["id"]])
        stops("is not saved as published")
        self.stack.sql(first.format("UTC_TIMESTAMP(3)"), [events[10]["id"]])
        self.start("relay")
        self.wait_records(20)
        self.assertEqual(self.check_order(events), 0)

    def test_a_table_without_seq_is_not_offered_to_the_command_that_refuses_it(self):
        self.stack.sql("CREATE TABLE plain (id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(64) NOT NULL, "
                       "aggregateid VARCHAR(64) NOT NULL, type VARCHAR(64) NOT NULL, payload LONGBLOB)")
        self.addCleanup(self.stack.sql, "DROP TABLE plain")
        self.stack.sql(f"GRANT SELECT, DELETE ON {self.stack.name}.plain TO '{ACCOUNT}'@'%'")
        sets = {"lane.outbox.table": "plain"}

        def stops(*texts, **more):
            relay = self.start("relay", ready=False, sets={**sets, **more})
            suite.wait_for(f"it to say {texts}", lambda: all(one in relay.why_not_ready() for one in texts))
            self.assertNotIn("relay source", relay.why_not_ready())
            relay.terminate()

        self.stack.append([event(self.kind, "key", 0)], table="plain")
        stops("`tallybox lanes begin outbox`", "its primary key is not a column seq")
        self.stack.sql("DELETE FROM plain")
        self.relay(sets=sets).terminate()
        self.stack.append([event(self.kind, "key", 0)], table="plain")
        self.purge_log()
        command = "`tallybox lanes begin outbox --replace-position`"
        stops("purged", command, "its primary key is not a column seq")
        stops("purged", command, "its primary key is not a column seq", **{"lane.outbox.from_table": "no"})
        stops("purged", command, "keep_ms = -1", **{"lane.outbox.keep_ms": -1})

    def test_a_relay_that_may_not_stops_between_the_steps(self):
        events = self.backlog(10, 10)
        self.stack.sql("UPDATE relay_position SET server = 'from-table', by_gtid = 0")
        relay = self.start("relay", ready=False, sets={"lane.outbox.from_table": "no"})
        suite.wait_for("it to say why", lambda: "lane.outbox.from_table" in relay.why_not_ready())
        relay.terminate()
        self.assertIn("goes on from table outbox", self.stack.tallybox("status", expect=None).stdout)
        self.start("relay")
        self.wait_records(20)
        self.assertEqual(self.check_order(events), 0)


if __name__ == "__main__":
    unittest.main()
