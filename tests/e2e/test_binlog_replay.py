# SPDX-License-Identifier: MIT
"""`tallybox relay replay`: events of a binlog lane are published again, from its table or from the binary log,
beside the live lane."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
from binlog_lane import ACCOUNT, LaneCase, event  # noqa: E402

HOUR = "2026-11-20T1{}:00:00Z"


def purge_log(stack):
    """Begins another file of the log, and deletes all before it, which a server does when no stream reads them."""
    stack.sql("FLUSH BINARY LOGS")
    last = stack.sql("SHOW BINARY LOGS")[-1][0]

    def purge():
        stack.sql(f"PURGE BINARY LOGS TO '{last}'")
        return stack.sql("SHOW BINARY LOGS")[0][0] == last

    suite.wait_for("the log to be deleted", purge)


class ReplayCase(LaneCase):
    """Runs replays and tells what they have published."""

    sets = {}  # of this lane

    def replay(self, *words, lane="outbox", **options):
        options["sets"] = {**self.sets, **options.get("sets", {})}
        return self.stack.tallybox("relay", "replay", lane, *map(str, words), **options)

    def counts(self, *words, **options):
        return json.loads(self.replay(*words, "--json", **options).stdout)

    def times(self):
        """The replays that have published anything: each has a time of its own."""
        return {one.headers["replayed-at"] for one in self.replayed()}

    def wait_begun(self, process, count, earlier=()):
        """Waits for records of this process: those that an earlier one had in flight when it was killed do not
        tell that this one has begun."""
        suite.wait_for("replayed records", lambda: process.poll() is not None or len(
            [one for one in self.replayed() if one.headers["replayed-at"] not in earlier]) >= count)

    def replayed(self, topic=None):
        return [one for one in self.stack.records(topic or self.topic) if "replayed-at" in one.headers]

    def run_replay(self, words):
        sets = [f"--set={key}={value}" for key, value in self.sets.items()]
        return subprocess.Popen(
            [suite.BINARY, "relay", "replay", "outbox", *words, "--config", str(self.stack.ini), *sets],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=suite.clean_environment())

    def check_again(self, ids, left_out=()):
        """These events were published again, as they were the first time."""
        first = {one.headers["id"]: one for one in self.records() if "replayed-at" not in one.headers}
        again = self.replayed()
        self.assertEqual(sorted(one.headers["id"] for one in again), sorted(ids))
        for record in again:
            self.assertRegex(record.headers.pop("replayed-at"), r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            once = first[record.headers["id"]]
            self.assertEqual((record.partition, record.key, record.value, record.headers),
                             (once.partition, once.key, once.value, once.headers))

    def now(self):
        """The time of the database, in whole seconds."""
        return self.stack.sql("SELECT UTC_TIMESTAMP()")[0][0].isoformat() + "Z"

    def next_second(self):
        """Waits until the clock of the database is in the next second, and returns that."""
        begin = self.now()
        suite.wait_for("the next second", lambda: self.now() > begin)
        return self.now()

    def kill_and_go_on(self, old, place, *words, table="outbox"):
        """Replays of these events that are killed, and stopped, while others are written. Returns the output of the
        one that was stopped."""
        stop, live, outputs = threading.Event(), [], []
        threads = self.write(live, stop, table)
        end = self.stack.sql("SELECT UTC_TIMESTAMP(3)")[0][0].isoformat(timespec="milliseconds") + "Z"
        after = None
        try:
            for kill in (signal.SIGKILL, signal.SIGTERM, None):
                earlier = self.times()
                # One that is to be stopped is slow, so that it has not ended when the signal is sent.
                process = self.run_replay([*words, "--to", end, "--rate", "100" if kill else "3000",
                                           *(["--after", after] if after else [])])
                if kill:
                    self.wait_begun(process, 30, earlier)
                    process.send_signal(kill)
                outputs.append(process.communicate(timeout=60)[1])
                places = re.findall(f"--after ({place})", outputs[-1])
                after = places[-1] if places else after
                if kill is None:
                    self.assertEqual(process.returncode, 0, outputs[-1])
                elif kill == signal.SIGTERM:
                    self.assertEqual(process.returncode, suite.UNAVAILABLE, outputs[-1])
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.wait_records(len(old) + len(live))
        self.assertLessEqual({one["id"] for one in old}, {one.headers["id"] for one in self.replayed()})
        self.check_order(old + live)
        return outputs[1], live


class Replay(ReplayCase):
    """Rows are kept for an hour, and made at times of the test's own."""

    seconds = 70

    def publish(self, events):
        """Returns when they are published and recorded as such."""
        self.stack.append(events)
        self.wait_records(len(events))
        suite.wait_for("all seqs to be recorded", lambda: self.counts(
            "--from", "2020-01-01", "--to", "2100-01-01", "--dry-run")["read"] == len(events))

    def at_hours(self):
        """Six events: two in each of three hours."""
        return [event(self.kind, f"key-{n % 2}", n, created_at=f"2026-11-20 1{n // 2}:00:00")
                for n in range(6)]

    def test_rows_are_published_again_by_time_key_and_type(self):
        self.relay()
        events = self.at_hours()
        events[4]["type"] = "Other"
        self.publish(events)
        rows = self.stack.sql("SELECT * FROM outbox ORDER BY seq")
        position = self.stack.sql("SELECT gtids, file, file_offset FROM relay_position")
        done = self.replay("--from", HOUR.format(0), "--to", HOUR.format(2))
        self.assertRegex(done.stdout, r"read +4\npublished +4\nrefused +0")
        self.assertEqual([one.headers["id"] for one in sorted(self.replayed(), key=lambda one:
                          int(one.headers["seq"]))], [one["id"] for one in events[:4]])
        self.check_again([one["id"] for one in events[:4]])
        begin = "--from", HOUR.format(0), "--to", "0s"
        self.assertEqual(self.counts(*begin, "--key", "key-1")["published"], 3)
        self.assertEqual(self.counts(*begin, "--key", "KEY-1")["published"], 0)
        self.assertEqual(self.counts(*begin, "--type", "Other")["published"], 1)
        self.assertEqual(self.counts(*begin, "--type", "Other", "--key", "key-1")["published"], 0)
        self.assertEqual(len(self.replayed()), 4 + 3 + 1)
        # Nothing of the lane has changed.
        self.assertEqual(self.stack.sql("SELECT * FROM outbox ORDER BY seq"), rows)
        self.assertEqual(self.stack.sql("SELECT gtids, file, file_offset FROM relay_position"), position)

    def test_another_topic_and_a_dry_run(self):
        self.relay()
        self.publish(self.at_hours())
        words = "--from", HOUR.format(1), "--to", "0s"
        counts = self.counts(*words, "--dry-run")
        self.assertEqual((counts["read"], counts["published"], counts["complete"]), (4, 0, True))
        self.assertEqual((counts["first"]["created_at"], counts["last"]["created_at"]),
                         ("2026-11-20T11:00:00.000Z", "2026-11-20T12:00:00.000Z"))
        self.assertEqual(counts["oldest_row"], "2026-11-20T10:00:00.000Z")
        self.assertEqual(len(self.records()), 6)
        other = f"{self.topic}.again"
        self.assertEqual(self.counts(*words, "--topic", other)["published"], 4)
        self.assertEqual((len(self.replayed(other)), len(self.records())), (4, 6))

    def test_rows_that_the_lane_has_not_published_are_left_alone(self):
        relay = self.relay()
        events = self.at_hours()
        self.publish(events[:2])
        relay.terminate()
        self.stack.append(events[2:])
        counts = self.counts("--from", HOUR.format(0), "--to", "0s")
        self.assertEqual((counts["read"], counts["published"]), (2, 2))
        self.stack.sql("DELETE FROM outbox ORDER BY seq LIMIT 1")
        done = self.replay("--from", HOUR.format(0), "--to", "0s", "--json")
        self.assertEqual(json.loads(done.stdout)["published"], 1)
        self.stack.sql("DELETE FROM outbox WHERE seq <= (SELECT * FROM (SELECT MIN(seq) + 1 FROM outbox) AS low)")
        done = self.replay("--from", HOUR.format(0), "--to", "0s")
        self.assertIn("rows since --from that are deleted are not replayed; `--from-log` reads them", done.stderr)
        self.assertRegex(done.stdout, r"published +0")

    def test_a_refused_row_is_named_and_the_others_are_published(self):
        self.relay()
        events = self.at_hours()
        self.publish(events)
        seq = self.stack.number(f"SELECT seq FROM outbox WHERE id = '{events[2]['id']}'")
        self.stack.sql(f"UPDATE outbox SET headers = '[1]' WHERE seq = {seq}")
        done = self.replay("--from", HOUR.format(0), "--to", "0s", "--json", expect=suite.FAILED)
        counts = json.loads(done.stdout)
        self.assertEqual((counts["published"], counts["refused"], counts["complete"]), (5, 1, True))
        self.assertIn(f"not published: seq {seq}, id {events[2]['id']}: headers: not a JSON object",
                      done.stderr)

    def test_keys_that_wait_in_the_retry_queue_are_left_out(self):
        self.relay()
        events = self.at_hours()
        events[5]["headers"] = "[1]"
        self.stack.append(events)
        self.wait_records(5)
        suite.wait_for("a task", lambda: self.stack.number("SELECT COUNT(*) FROM retry_task") == 1)
        suite.wait_for("the seqs to be recorded", lambda: self.counts(
            "--from", HOUR.format(0), "--to", "0s", "--dry-run", expect=None)["read"] == 6)
        done = self.replay("--from", HOUR.format(0), "--to", "0s", "--json", expect=suite.FAILED)
        counts = json.loads(done.stdout)
        self.assertEqual((counts["published"], counts["in_retry_queue"]), (3, 3))
        self.assertEqual({one.key for one in self.replayed()}, {b"key-0"})

    def test_lanes_that_cannot_be_replayed_say_why(self):
        words = "--from", "2h", "--to", "0s"
        for lane, sets, text in (
                ("outbox", {"lane.outbox.source": "table"}, "deletes rows as soon as they are published"),
                ("outbox", {"lane.outbox.table": "missing"}, "there is no table missing"),
                ("other", {}, "other is not in relay.lanes")):
            with self.subTest(text=text):
                done = self.replay(*words, lane=lane, sets=sets, expect=suite.FAILED)
                self.assertIn(text, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_rows_that_the_table_cannot_tell_come_from_the_log(self):
        self.relay()
        begin = self.next_second()
        events = self.at_hours()
        self.publish(events)
        suite.wait_for("the position behind the rows", lambda: self.counts(
            "--from", begin, "--to", "2100-01-01", "--dry-run", "--from-log")["read"] == 6)
        for sets, text in (
                ({"lane.outbox.keep_ms": -1}, "lane.outbox.keep_ms = -1"),
                ({"lane.outbox.columns": "type=type"}, "names columns of another program"),
                ({"lane.outbox.header_columns": "type"}, "count for the log only"),
                ({"lane.outbox.empty_payload": "tombstone"}, "count for the log only")):
            with self.subTest(text=text):
                done = self.replay("--from", begin, "--to", "0s", "--dry-run", "--json", sets=sets)
                self.assertRegex(done.stderr, f"the rows come from the binary log: .*{text}")
                self.assertEqual(json.loads(done.stdout)["read"], 6)
        for table, columns, text in (
                ("stock", "id CHAR(36) PRIMARY KEY, created_at DATETIME", "is not the column seq"),
                ("timeless", "seq BIGINT PRIMARY KEY, created_at BIGINT", "cannot be selected by time")):
            with self.subTest(table=table):
                self.stack.sql(f"CREATE TABLE {table} ({columns})")
                self.addCleanup(self.stack.sql, f"DROP TABLE {table}")
                self.stack.sql(f"GRANT SELECT ON {table} TO {ACCOUNT}@'%'")
                done = self.replay("--from", begin, "--to", "0s", sets={"lane.outbox.table": table},
                                   expect=suite.FAILED)
                self.assertIn(text, done.stderr)
                self.assertIn("lane outbox has no position in the binary log", done.stderr)
        done = self.replay("--from", begin, "--to", "0s", "--after", "1/1", sets={"lane.outbox.keep_ms": -1},
                           expect=suite.USAGE)
        self.assertIn("is a place of a replay from the table, but with lane.outbox.keep_ms = -1", done.stderr)

    def test_rows_that_are_deleted_come_from_the_log(self):
        self.relay()
        begin = self.next_second()
        events = self.at_hours()
        self.publish(events)
        suite.wait_for("the position behind the rows", lambda: self.counts(
            "--from", begin, "--to", "2100-01-01", "--dry-run", "--from-log")["read"] == 6)
        # A row that stays for another reason is older than those that are deleted.
        self.stack.sql("DELETE FROM outbox WHERE created_at > '2026-11-20 10:30:00'")
        for hour, notice in ((1, "still has is of"), (0, "has no row")):
            done = self.replay("--from", HOUR.format(hour), "--to", "0s")
            self.assertRegex(done.stderr, f"{notice}.*: rows since --from that are deleted are not replayed; `--from-log`")
            self.assertRegex(done.stdout, r"read +0\n(.*\n)*the table has no such row: `--from-log`")
            self.stack.sql("DELETE FROM outbox")
        done = self.replay("--from", begin, "--to", "0s", "--from-log", "--dry-run")
        self.assertNotIn("--from-log", done.stdout + done.stderr)
        counts = self.counts("--from", begin, "--to", "0s", "--from-log")
        self.assertEqual((counts["published"], counts["from_log"], counts["oldest_row"]), (6, True, None))
        self.assertEqual((counts["first"]["created_at"], counts["last"]["created_at"]),
                         ("2026-11-20T10:00:00.000Z", "2026-11-20T12:00:00.000Z"))
        self.assertGreaterEqual(counts["first"]["committed_at"], begin[:-1])
        self.assertGreater(counts["first"]["seq"], 0)
        self.check_again([one["id"] for one in events])

    def test_a_database_that_was_restarted_ends_a_replay(self):
        relay = self.relay()
        self.publish([event(self.kind, f"key-{n % 2}", n) for n in range(100)])
        relay.terminate()
        process = self.run_replay(["--from", "1h", "--to", "0s", "--rate", "20"])
        self.wait_begun(process, 2)
        server = suite.database()
        server.stop()
        server.restart()
        output = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, suite.UNAVAILABLE, output)
        self.assertRegex(output, r"(was restarted|is now .*): a seq may belong to another row there")
        self.assertRegex(output, r"go on with\n  tallybox relay replay outbox .* --after \d+/\d+")

    def test_wrong_times_and_topic_rules_are_wrong_words(self):
        words = "--from", "1h", "--to", "2h"
        self.assertIn("is not before", self.replay(*words, expect=suite.USAGE).stderr)
        done = self.replay("--from", "2h", "--to", "1h", sets={"lane.outbox.topic": "other.$2",
                                                               "lane.outbox.topic_regex": "(.*)"},
                           expect=suite.USAGE)
        self.assertIn("topic_regex has 1 groups", done.stderr)

    def test_live_events_keep_their_order_beside_a_replay_that_is_killed(self):
        relay = self.relay()
        old = [event(self.kind, f"key-{n % 9}", n) for n in range(3000)]
        self.publish(old)
        stopped, live = self.kill_and_go_on(old, r"\d+/\d+", "--from", "1h")
        self.assertIn("go on with\n  tallybox relay replay outbox --from 20", stopped)
        self.assertEqual(self.stack.number("SELECT COUNT(*) FROM outbox"), 3000 + len(live))
        self.assertTrue(relay.ready())


class StockTable:
    """Debezium's stock table, whose rows are deleted as soon as they are published, for a ReplayCase. Its tests run
    with and without GTIDs."""

    COLUMNS = "id CHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(255) NOT NULL, aggregateid VARCHAR(255) " \
              "NOT NULL, type VARCHAR(255) NOT NULL, payload LONGBLOB"

    def setUp(self):
        super().setUp()
        # A time is a whole second: rows of another test lie in the same one.
        self.table = f"stock_{self.kind}"
        self.sets = {"lane.outbox.table": self.table, "lane.outbox.keep_ms": 1, "lane.outbox.keep_ids_max": 1000000}
        self.stack.sql(f"CREATE TABLE {self.table} ({self.COLUMNS})")
        self.addCleanup(self.stack.sql, f"DROP TABLE {self.table}")
        self.stack.sql(f"GRANT SELECT, DELETE ON {self.stack.name}.{self.table} TO '{ACCOUNT}'@'%'")

    def begin(self, **options):
        """Starts the lane; returns it and a time before all rows."""
        return self.relay(sets=self.sets, **options), self.now()

    def publish(self, events, begin, earlier=0, published=0):
        """Returns when the log up to behind them is published, and the rows are gone. Since begin so many earlier ones
        were published, and before it so many."""
        self.stack.append(events, table=self.table)
        self.wait_published(earlier + len(events), begin, published)

    def wait_published(self, count, begin, published=0):
        self.wait_records(count + published)
        suite.wait_for("the position behind the rows", lambda: self.counts(
            "--from", begin, "--to", "2100-01-01", "--dry-run")["read"] == count)
        suite.wait_for("the rows to be deleted", lambda: self.stack.number(
            f"SELECT COUNT(*) FROM {self.table}") == 0)

    def make(self, numbers):
        return [event(self.kind, f"key-{n % 2}", n) for n in numbers]

    def test_only_published_rows_of_the_period_are_published_again(self):
        relay, begin = self.begin()
        self.publish(self.make(range(2)), begin)
        middle = self.next_second()
        self.stack.sql("FLUSH BINARY LOGS")
        self.publish(self.make(range(2, 5)), begin, 2)
        end = self.next_second()
        self.publish(self.make(range(5, 9)), begin, 5)
        self.assertEqual([self.counts("--from", one, "--to", other, "--dry-run")["read"]
                          for one, other in ((begin, middle), (middle, end), (end, "2100-01-01"), (begin, end))],
                         [2, 3, 4, 5])
        relay.terminate()
        self.stack.append(self.make(range(9, 12)), table=self.table)
        self.assertEqual(self.counts("--from", begin, "--to", "2100-01-01")["published"], 9)
        self.assertEqual(sorted(int(one.value) for one in self.replayed()), list(range(9)))

    def test_live_events_keep_their_order_beside_a_replay_that_is_killed(self):
        relay, begin = self.begin()
        old = [event(self.kind, f"key-{n % 9}", n) for n in range(7000)]
        # Two transactions that are larger than a batch, and small ones.
        for first, last in ((0, 3000), (3000, 6000)):
            connection = suite.connect(self.stack.name, autocommit=False)
            self.stack.append(old[first:last], table=self.table, connection=connection)
            connection.commit()
            connection.close()
        self.stack.append(old[6000:], table=self.table)
        self.wait_published(7000, begin)
        stopped, _ = self.kill_and_go_on(old, r"[^\s;]+/\d+/\d+@[^\s;]+", "--from", begin, table=self.table)
        self.assertRegex(stopped, r"go on with\n  tallybox relay replay outbox --from 20\S+ --to 20\S+ --rate 100 "
                                  r"--from-log --after \S+@\S+\n")
        self.assertTrue(relay.ready())
        self.assertNotIn("server id", relay.log_text())


class LogReplay(StockTable, ReplayCase):
    seconds = 70

    def test_rows_of_a_stock_table_that_are_gone_are_published_again(self):
        _, begin = self.begin()
        events = self.make(range(6))
        events[4]["type"] = "Other"
        self.publish(events, begin)
        words = "--from", begin, "--to", "0s"
        counts = self.counts(*words, "--dry-run")
        self.assertEqual((counts["read"], counts["published"], counts["complete"], counts["from_log"]),
                         (6, 0, True, True))
        self.assertEqual((counts["first"]["seq"], counts["first"]["created_at"]), (None, None))
        self.assertLessEqual(counts["first"]["committed_at"], counts["last"]["committed_at"])
        self.assertEqual(self.replayed(), [])
        done = self.replay(*words)
        self.assertRegex(done.stderr, r"the rows come from the binary log: the primary key of table stock_\w+ is not")
        self.assertRegex(done.stdout, r"read +6\npublished +6\nrefused +0")
        self.check_again([one["id"] for one in events])
        self.assertEqual(self.counts(*words, "--key", "key-1", "--dry-run")["read"], 3)
        self.assertEqual(self.counts(*words, "--key", "KEY-1", "--dry-run")["read"], 0)
        self.assertEqual(self.counts(*words, "--type", "Other", "--dry-run")["read"], 1)
        self.assertEqual(self.counts(*words, "--type", "Other", "--key", "key-1", "--dry-run")["read"], 0)
        other = f"{self.topic}.again"
        self.assertEqual(self.counts(*words, "--key", "key-0", "--topic", other)["published"], 3)
        self.assertEqual([one.value for one in self.replayed(other)], [b"0", b"2", b"4"])

    def test_a_time_before_the_log_does_nothing(self):
        _, begin = self.begin()
        self.publish(self.make(range(2)), begin)
        self.next_second()
        purge_log(self.stack)
        done = self.replay("--from", begin, "--to", "0s", expect=suite.FAILED)
        self.assertEqual((done.stdout, self.replayed()), ("", []))
        first = re.search(r"the binary log of the server has nothing from before (\S+), when its oldest file was "
                          r"begun: --from (\S+) is earlier", done.stderr)
        self.assertTrue(first, done.stderr)
        self.assertGreater(first[1], begin)
        self.assertEqual(first[2], begin)
        self.publish(self.make(range(2, 5)), first[1], published=2)
        self.assertEqual(self.counts("--from", first[1], "--to", "0s")["published"], 3)

    def test_places_of_another_log_are_refused(self):
        _, begin = self.begin()
        self.publish(self.make(range(4)), begin)
        words = "--from", begin, "--to", "0s"
        place = self.counts(*words)["after"]
        self.assertEqual(self.counts(*words, "--after", place)["read"], 0)
        place, server = place.split("@")
        for after, text in ((f"{place}@other", f"is a place in the log of server other, and this is {server}"),
                            (f"gone.000001/4/0@{server}", "the server has no file gone.000001 of --after in its log")):
            done = self.replay(*words, "--after", after, expect=suite.FAILED)
            self.assertIn(text, done.stderr)
        self.assertEqual(len(self.replayed()), 4)

    def test_columns_that_are_moved_meanwhile(self):
        before, = self.stack.row("SELECT @@GLOBAL.binlog_row_metadata")
        self.addCleanup(self.stack.sql, f"SET GLOBAL binlog_row_metadata = '{before}'")
        self.stack.sql("SET GLOBAL binlog_row_metadata = 'FULL'")
        _, begin = self.begin()
        events = self.make(range(6))
        self.publish(events[:2], begin)
        self.stack.sql(f"ALTER TABLE {self.table} MODIFY type VARCHAR(255) NOT NULL FIRST, "
                       "ADD COLUMN more INT DEFAULT 7 AFTER id")
        self.publish(events[2:4], begin, 2)
        self.stack.sql(f"ALTER TABLE {self.table} DROP COLUMN more, MODIFY aggregateid VARCHAR(255) NOT NULL FIRST")
        self.publish(events[4:], begin, 4)
        self.assertEqual(self.counts("--from", begin, "--to", "0s")["published"], 6)
        self.check_again([one["id"] for one in events])

    def test_columns_that_the_log_cannot_tell(self):
        before, = self.stack.row("SELECT @@GLOBAL.binlog_row_metadata")
        self.addCleanup(self.stack.sql, f"SET GLOBAL binlog_row_metadata = '{before}'")
        self.stack.sql(f"SET GLOBAL binlog_row_metadata = '{'MINIMAL' if suite.DATABASE == 'mysql' else 'NO_LOG'}'")
        _, begin = self.begin()
        self.publish(self.make(range(2)), begin)
        self.stack.sql(f"ALTER TABLE {self.table} ADD COLUMN more INT")
        done = self.replay("--from", begin, "--to", "0s", expect=suite.FAILED)
        self.assertIn("has 6 columns, and its rows in the binary log have 5", done.stderr)
        self.assertIn("binlog_row_metadata = FULL", done.stderr)
        self.assertEqual(self.replayed(), [])

    def test_rows_that_make_no_record_are_named(self):
        _, begin = self.begin()
        events = self.make(range(6))
        events[3]["payload"] = b"3" + b" " * 5000
        self.publish(events, begin)
        done = self.replay("--from", begin, "--to", "0s", "--json", sets={"relay.row_bytes_max": 4096},
                           expect=suite.FAILED)
        counts = json.loads(done.stdout)
        self.assertEqual((counts["published"], counts["refused"], counts["complete"]), (5, 1, True))
        self.assertIn(f"not published: id {events[3]['id']}: ", done.stderr)


class LogReplayWithoutGtids(StockTable, ReplayCase):
    database = "mysql"
    seconds = 60

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.set_gtid_mode("ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF")
        # A server sends no transaction that has a GTID in this mode.
        purge_log(cls.stack)
        cls.addClassCleanup(cls.set_gtid_mode, "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON")

    @classmethod
    def set_gtid_mode(cls, *modes):
        for mode in modes:
            cls.stack.sql(f"SET GLOBAL gtid_mode = {mode}")


if __name__ == "__main__":
    unittest.main()
